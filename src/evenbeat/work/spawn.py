"""Start one child: its environment, its program, its working directory, its user; or say in words why it cannot be.

`posix_spawn` does all but two of these. The working directory is the worker's own for the moment of the spawn, which
costs two system calls and is safe in a process of one thread. Another user needs a fork, so that goes the long way
through `subprocess`: ten times the cost, and only a worker that runs as root can do it.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.model import COMMAND_LIMIT, SECOND, Invalid, Job
from evenbeat.queue.frames import Run

NOOP: Final = ("noop",)
_SHELL: Final = ("/bin/sh", "-c")
_OUT_OF_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}
_WORDS: Final = {
    errno.EACCES: "not executable",
    errno.ENOEXEC: "not a program, and no script with a first line such as #!/bin/sh",
    errno.E2BIG: "its words and its environment are together longer than the kernel takes",
    errno.ENOTDIR: "no such file",
}

_job: Final = msgspec.msgpack.Decoder(Job)


class CannotStart(Exception):
    """The reason, for the person who must act."""


class NoRoom(Exception):
    """The machine has no descriptor, process or memory left at the moment."""


class Order(Struct, gc=False):
    """One run, and what of its start can be made ready before.

    A spawn lets others have the core, so that what comes after it runs slowly: there should be little of that.
    """

    run: Run
    job: Job
    words: tuple[str, ...]
    told: dict[bytes, bytes]
    """What the environment tells of this run."""


class Spawner:
    """Starts children that inherit the worker's environment and nothing else of it."""

    def __init__(self, database: str) -> None:
        self._environment = dict(os.environb)
        # Whose they are, should their worker and its node die before them.
        self._environment[b"EVENBEAT_WORKER"] = os.fsencode(f"{os.getpid()} {database}")
        self._home = os.open(".", os.O_PATH | os.O_CLOEXEC)
        self._second = -1
        self._second_text = b""

    def order(self, run: Run) -> Order:
        """Make it ready; raise CannotStart if it never can be."""
        try:
            job = _job.decode(run.job)
        except (Invalid, msgspec.DecodeError) as e:
            raise CannotStart(str(e)) from None
        if job.command == NOOP:
            return Order(run, job, NOOP, {})
        if not job.command:
            raise CannotStart("nothing to run: the task has no command")
        told = {
            b"EVENBEAT_NAME": run.name.encode(),
            b"EVENBEAT_NOMINAL": self._iso(run.nominal),
            b"EVENBEAT_ATTEMPT": b"%d" % run.attempt,
        }
        return Order(run, job, (*_SHELL, *job.command) if job.shell else job.command, told)

    def spawn(self, order: Order) -> tuple[int, int]:
        """The process, leader of its own group, and the end of the pipe where its output arrives."""
        job = order.job
        # The same dict for all: what it tells of one run it tells anew of the next.
        environment = self._environment
        environment.update(order.told)
        try:
            if job.user is not None:
                environment = environment | _user_variables(job.user)
            if job.env:
                environment = environment | {os.fsencode(n): os.fsencode(_resolved(n, v)) for n, v in job.env.items()}
            if job.cwd is None:
                return _spawn(order.words, environment, job.user)
            with self._directory(job.cwd):
                return _spawn(order.words, environment, job.user)
        except ValueError as e:
            raise CannotStart(f"{job.command[0]!r}: {e}") from None

    def _iso(self, instant: int) -> bytes:
        second, microseconds = divmod(instant, SECOND)
        if second != self._second:
            # Many runs are due in the same second, and this is half the cost of an environment.
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
            self._second = second
        return b"%b.%06d+00:00" % (self._second_text, microseconds)

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


def _spawn(words: tuple[str, ...], environment: dict[bytes, bytes], user: str | None) -> tuple[int, int]:
    program = words[0]
    if "/" not in program:
        program = _found(program, os.fsdecode(environment.get(b"PATH", os.defpath.encode())))
    try:
        reader, writer = os.pipe()
    except OSError as e:
        raise NoRoom(_in_words(e)) from None
    try:
        if user is None:
            # Standard input is the worker's own, which is /dev/null; everything else closes on exec.
            output = ((os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, writer, 2))
            process = os.posix_spawn(program, words, environment, file_actions=output, setpgroup=0)
        else:
            process = _spawn_as(user, program, words, environment, writer)
    except BaseException as e:
        os.close(reader)
        if not isinstance(e, OSError):
            raise
        if e.errno in _OUT_OF_RESOURCES:
            raise NoRoom(_in_words(e)) from None
        raise CannotStart(_reason(program, e)) from None
    finally:
        os.close(writer)
    return process, reader


def _found(program: str, path: str) -> str:
    """Where the program is: as a shell looks for it, in the PATH of the run."""
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
    return f"{_WORDS.get(error.errno or 0, _in_words(error))}: {program}"


def _in_words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _resolved(name: str, value: str) -> str:
    """A value, or what a reference stands for when the run starts."""
    if value.startswith("env:"):
        found = os.environ.get(value[4:])
        if found is None:
            raise CannotStart(f"env.{name}: the worker has no variable {value[4:]} in its environment")
        return found
    if value.startswith("file:"):
        try:
            return _content(value[5:])
        except OSError as e:
            raise CannotStart(f"env.{name}: {value[5:]}: {_in_words(e)}") from None
    return value


def _content(path: str) -> str:
    # A named pipe without a writer must not stop the worker.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        data = os.read(descriptor, COMMAND_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > COMMAND_LIMIT:
        raise OSError(errno.EFBIG, f"longer than {COMMAND_LIMIT} bytes")
    return os.fsdecode(data).rstrip("\r\n")


def _user_variables(user: str) -> dict[bytes, bytes]:
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
    process = subprocess.Popen(  # noqa: S603 - running what the task says is the purpose
        words,
        executable=program,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        process_group=0,
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=os.getgrouplist(user, entry.pw_gid),
    )
    # The runner reaps its children itself; this tells subprocess that there is nothing left to do.
    process.returncode = 0
    return process.pid
