"""Start one child with its environment, program, working directory and user; or say why that is not possible.

`posix_spawn` does all but two of these. The working directory is the worker's own for the moment of the spawn, which
costs two system calls and is safe in a process of one thread. Another user needs a fork, so that goes the long way
through `subprocess`: ten times the cost, and only a worker that runs as root can do it.
"""

import errno
import os
import signal
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.core.environment import for_checks, for_commands
from evenbeat.core.timebox import NO_TIMEBOX
from evenbeat.model import COMMAND_LIMIT, HOME_FOLDER, SECOND, Invalid, Job, RunKind
from evenbeat.wire.worker_frames import RunSpec
from evenbeat.work.cursor_files import CursorFiles, cursor_text

NOOP: Final = ("noop",)
_SHELL: Final = ("/bin/sh", "-c")
_KINDS: Final = {int(kind): kind.word.encode() for kind in RunKind}
_ALL_SIGNALS: Final = tuple(signal.valid_signals())
"""Children have them as they are by default. Told to reset only some, glibc asks for each of them in the child."""
_OUT_OF_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}
_ERROR_MESSAGES: Final = {
    errno.EACCES: "not executable",
    errno.ENOEXEC: "not a program, and no script with a first line such as #!/bin/sh",
    errno.E2BIG: "its words and its environment are together longer than the kernel takes",
    errno.ENOTDIR: "no such file",
}

_job: Final = msgspec.msgpack.Decoder(Job)


class CannotStart(Exception):
    """A run can never be started; says why, for the person who must act."""


class OutOfResources(Exception):
    """The machine has no descriptor, process or memory left at the moment."""


class PreparedRun(Struct, gc=False):
    """One run, and everything of its start that can be prepared.

    A spawn gives the core to other processes, so that code around it runs slowly: there should be little of it.
    """

    run: RunSpec
    job: Job
    words: tuple[str, ...]
    run_variables: dict[bytes, bytes]
    """The environment variables that describe this run, but for those that are known only when it starts."""


class _IsoTimes:
    """Writes times in ISO 8601. Many of them are in the same second, and its text is half of the cost."""

    def __init__(self) -> None:
        self._second = -1
        self._text = b""

    def text(self, instant: int) -> bytes:
        second, microseconds = divmod(instant, SECOND)
        if second != self._second:
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
            self._second = second
        return b"%b.%06d+00:00" % (self._text, microseconds)


class Spawner:
    """Starts children that get a part of the worker's environment (`core.environment`) and nothing else of it."""

    def __init__(self, pass_env: Sequence[str] = ()) -> None:
        # Made once for all runs: of tasks, and of checks.
        passed = for_commands(os.environ, pass_env)
        self._of_tasks = {os.fsencode(n): os.fsencode(v) for n, v in passed.items()}
        self._of_checks = {os.fsencode(n): os.fsencode(v) for n, v in for_checks(passed).items()}
        self._home = os.open(".", os.O_PATH | os.O_CLOEXEC)
        self._nominals, self._ends = _IsoTimes(), _IsoTimes()
        self.cursors = CursorFiles()

    def prepare(self, run: RunSpec) -> PreparedRun:
        """Prepare a run; raise CannotStart if it can never be started."""
        try:
            job = _job.decode(run.job)
        except (Invalid, msgspec.DecodeError) as e:
            raise CannotStart(str(e)) from None
        if job.command == NOOP:
            return PreparedRun(run, job, NOOP, {})
        if not job.command:
            raise CannotStart("nothing to run: the task has no command")
        words = (*_SHELL, *job.command) if job.shell else job.command
        run_variables = {
            b"EVENBEAT_NAME": run.name.encode(),
            b"EVENBEAT_NOMINAL": self._nominals.text(run.nominal),
            b"EVENBEAT_ATTEMPT": b"%d" % run.attempt,
            b"EVENBEAT_KIND": _KINDS.get(run.kind, b""),
            b"EVENBEAT_TIMEBOX": b"" if run.timebox >= NO_TIMEBOX else b"%.15g" % (run.timebox / SECOND),
            b"EVENBEAT_CURSOR": cursor_text(run.cursor),
        }
        return PreparedRun(run, job, words, run_variables)

    def marks(self, run: RunSpec) -> tuple[bytes, bytes]:
        """Entries in the environment of a run that no other run on this machine has at the same time."""
        return b"EVENBEAT_NAME=" + run.name.encode(), b"EVENBEAT_NOMINAL=" + self._nominals.text(run.nominal)

    def spawn(self, prepared: PreparedRun, now: int) -> tuple[int, int]:
        """Start it: the process, leader of its own group, and the end of the pipe where its output arrives.

        `now` is the node's clock.
        """
        job = prepared.job
        try:
            environment = self._environment(prepared, now)
            if job.cwd is None:
                return self._spawn(prepared, environment)
            with self._directory(job.cwd if job.cwd != HOME_FOLDER else _home_folder(environment)):
                return self._spawn(prepared, environment)
        except ValueError as e:
            raise CannotStart(f"{job.command[0]!r}: {e}") from None

    def _environment(self, prepared: PreparedRun, now: int) -> dict[bytes, bytes]:
        run, job = prepared.run, prepared.job
        environment = (self._of_checks if run.check else self._of_tasks) | prepared.run_variables
        environment[b"EVENBEAT_TIMEBOX_ENDS"] = b"" if run.timebox >= NO_TIMEBOX else self._ends.text(now + run.timebox)
        environment[b"EVENBEAT_CURSOR_FILE"] = (
            self.cursors.path(run.token) if job.user is None else self._cursor_path_for(job.user, run.token)
        )
        if job.user is not None:
            environment |= user_variables(job.user)
        if job.env:
            if any(not name or "=" in name for name in job.env):
                raise ValueError("illegal environment variable name")
            for name, value in job.env.items():
                environment[os.fsencode(name)] = os.fsencode(resolve_variable(name, value, job.user))
        return environment

    def _cursor_path_for(self, user: str, token: int) -> bytes:
        import pwd  # noqa: PLC0415 - few workers need it

        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise CannotStart(f"no such user: {user}") from None
        if entry.pw_uid == os.geteuid():
            return self.cursors.path(token)
        return self.cursors.path_for(token, entry.pw_uid, entry.pw_gid) if os.geteuid() == 0 else b""

    def _spawn(self, prepared: PreparedRun, environment: dict[bytes, bytes]) -> tuple[int, int]:
        program = prepared.words[0]
        if "/" not in program:
            program = _found(program, os.fsdecode(environment.get(b"PATH", os.defpath.encode())))
        try:
            reader, writer = os.pipe()
        except OSError as e:
            raise OutOfResources(_in_words(e)) from None
        try:
            process = _start(prepared, environment, program, writer)
        except BaseException as e:
            os.close(reader)
            if not isinstance(e, OSError):
                raise
            if e.errno in _OUT_OF_RESOURCES:
                raise OutOfResources(_in_words(e)) from None
            raise CannotStart(_reason(program, e)) from None
        finally:
            os.close(writer)
        return process, reader

    @contextmanager
    def _directory(self, path: str) -> Iterator[None]:
        try:
            os.chdir(path)
        except OSError as e:
            raise CannotStart(f"the working directory {path}: {_in_words(e)}") from None
        try:
            yield
        finally:
            os.fchdir(self._home)


def _start(prepared: PreparedRun, environment: dict[bytes, bytes], program: str, output: int) -> int:
    if prepared.job.user is not None:
        return _spawn_as(prepared.job.user, program, prepared.words, environment, output)
    # Standard input is the worker's own, which is /dev/null; everything else closes on exec.
    outputs = ((os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2))
    return os.posix_spawn(
        program, prepared.words, environment, file_actions=outputs, setpgroup=0, setsigdef=_ALL_SIGNALS
    )


def _home_folder(variables: Mapping[bytes, bytes]) -> str:
    return os.fsdecode(variables.get(b"HOME", b"")) or os.path.expanduser(HOME_FOLDER)


def _found(program: str, path: str) -> str:
    """The path of a program, found in the PATH of the run as a shell would."""
    unusable = None
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{program}"
        if os.access(candidate, os.X_OK) and not stat.S_ISDIR(os.stat(candidate).st_mode):
            return candidate
        if unusable is None and os.path.isfile(candidate):
            unusable = candidate
    if unusable is not None:
        raise CannotStart(f"not executable: {unusable}")
    raise CannotStart(f"no such file: {program} (looked in PATH {path})")


def _reason(program: str, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        if os.path.lexists(program):
            return f"{program}: the program named in its first line, or the library loader it asks for, does not exist"
        return f"no such file: {program}"
    if error.errno == errno.EPERM:
        return f"{program}: the worker is not allowed to run it as another user"
    return f"{_ERROR_MESSAGES.get(error.errno or 0, _in_words(error))}: {program}"


def _in_words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def resolve_variable(name: str, value: str, user: str | None = None) -> str:
    """The value of a variable; a reference is resolved when the run starts. `user` is who gets it, if not we."""
    if value.startswith("env:"):
        found = os.environ.get(value[4:])
        if found is None:
            raise CannotStart(f"env.{name}: the worker has no variable {value[4:]} in its environment")
        return found
    if value.startswith("file:"):
        try:
            return _content(value[5:], user)
        except OSError as e:
            if e.errno in _OUT_OF_RESOURCES:
                raise OutOfResources(_in_words(e)) from None
            raise CannotStart(f"env.{name}: {value[5:]}: {_in_words(e)}") from None
    return value


def _content(path: str, user: str | None) -> str:
    # A named pipe without a writer must not stop the worker.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if user is not None:
            _check_readable_for(user, path, os.fstat(descriptor).st_uid)
        data = os.read(descriptor, COMMAND_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > COMMAND_LIMIT:
        raise OSError(errno.EFBIG, f"longer than {COMMAND_LIMIT} bytes")
    return os.fsdecode(data).rstrip("\r\n")


def _check_readable_for(user: str, path: str, owner: int) -> None:
    """We may read files that `user` may not: one who could redirect the path by a link must not get their content."""
    import pwd  # noqa: PLC0415 - few workers need these
    from pathlib import Path  # noqa: PLC0415

    from evenbeat.path_trust import only_we_decide  # noqa: PLC0415

    try:
        its_own = pwd.getpwnam(user).pw_uid
    except KeyError:
        raise CannotStart(f"no such user: {user}") from None
    if its_own not in (owner, os.geteuid()) and not only_we_decide(Path(path)):
        words = f"a file that is not of {user}, where others decide what the path leads to"
        raise OSError(errno.EACCES, f"{words}: put it into a folder that only the user of the worker can write to")


def user_variables(user: str) -> dict[bytes, bytes]:
    import pwd  # noqa: PLC0415 - few workers need it

    try:
        home = pwd.getpwnam(user).pw_dir
    except KeyError:
        raise CannotStart(f"no such user: {user}") from None
    return {b"HOME": os.fsencode(home), b"USER": user.encode(), b"LOGNAME": user.encode()}


def _spawn_as(user: str, program: str, words: tuple[str, ...], environment: dict[bytes, bytes], output: int) -> int:
    import pwd  # noqa: PLC0415 - few workers need these
    import subprocess  # noqa: PLC0415

    entry = pwd.getpwnam(user)
    # Without being root we may not set any of these, not even to their current values.
    is_own = os.geteuid() == entry.pw_uid != 0
    process = subprocess.Popen(  # noqa: S603 - running what the task says is the purpose
        words,
        executable=program,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        process_group=0,
        user=None if is_own else entry.pw_uid,
        group=None if is_own else entry.pw_gid,
        extra_groups=None if is_own else os.getgrouplist(user, entry.pw_gid),
    )
    # The runner reaps its children itself; this tells subprocess that there is nothing left to do.
    process.returncode = 0
    return process.pid
