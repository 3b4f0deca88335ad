"""A function runs as its `user`, in its folder, with its variables, or not at all; its host is not trusted then."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from queue_node import QueueNode, play
from waiting import eventually

from evenbeat.model import OUTPUT_LIMIT, Job, Outcome
from evenbeat.queue.local.host_environment import HostLauncher
from evenbeat.wire import worker_frames
from evenbeat.wire.plain_results import MessageToNode, PlainResults
from evenbeat.wire.worker_frames import ResultsFrame, RunResult, StartedFrame

IS_ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
NOBODY = pwd.getpwnam("nobody")

FUNCTIONS = '''
import os, subprocess, sys

def who():
    return " ".join(map(str, (*os.getresuid(), *os.getresgid(), *os.getgroups())))

async def who_async():
    return who()

def surroundings():
    return "\\n".join(f"{k}={v}" for k, v in os.environ.items()) + "\\n" + os.getcwd()

def back():
    try:
        os.setuid(0)
    except PermissionError:
        return "refused"

def who_at_import():
    return str(IMPORTED_AS)

IMPORTED_AS = os.getuid()

def child():
    return subprocess.run(["id", "-u"], stdout=subprocess.PIPE, text=True).stdout

def outputs():
    return " ".join(os.readlink(f"/proc/self/fd/{n}") for n in (1, 2))

def stop(run):
    run.stop_node()

def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

def forge(tokens):
    """Speak to the node as the host does, about runs of others."""
    from evenbeat.wire import worker_frames
    from evenbeat.wire.worker_frames import RunResult, ResultsFrame, StartedFrame
    import stat
    link = next(n for n in range(3, 99) if is_open(n) and stat.S_ISSOCK(os.fstat(n).st_mode))
    others = [int(token) for token in tokens.split(",")]
    os.write(link, worker_frames.encode_frame(StartedFrame([(token, 1 << 63) for token in others])))
    forged = [RunResult(t, "succeeded", 0, 1, 2, b"forged") for t in others]
    os.write(link, worker_frames.encode_frame(ResultsFrame(forged)))
    return "forged"

def evade(run):
    """Tell the node again and again that it has just begun."""
    import signal, stat, time
    from evenbeat.wire import worker_frames
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link = next(n for n in range(3, 99) if is_open(n) and stat.S_ISSOCK(os.fstat(n).st_mode))
    while True:
        os.write(link, worker_frames.encode_frame(worker_frames.StartedFrame([(run._frame.token, 1)])))
        os.write(link, worker_frames.encode_frame(worker_frames.ReadyFrame(1)))
        time.sleep(0.01)

def leave_trace(trace, word):
    """A line in a file that every user may write."""
    if trace is not None:
        with open(trace, "a") as file:
            file.write(word + "\\n")

def flood(told=None, trace=None):
    """Keep the node busy, and let nobody else have a turn."""
    import stat
    from evenbeat.wire import worker_frames
    leave_trace(trace, "started")
    link = next(n for n in range(3, 99) if is_open(n) and stat.S_ISSOCK(os.fstat(n).st_mode))
    os.set_blocking(link, True)
    frame = worker_frames.encode_frame(worker_frames.StartedFrame([(0, 1)])) * 1_000
    os.write(link, frame * 3)
    if told is not None:
        os.write(told, b"x")
    leave_trace(trace, "floods")
    while True:
        os.write(link, frame)

def flood_at_once(count, trace=None):
    """Few messages, each of which takes the node long to read."""
    import stat
    leave_trace(trace, "started")
    link = next(n for n in range(3, 99) if is_open(n) and stat.S_ISSOCK(os.fstat(n).st_mode))
    os.set_blocking(link, True)
    body = b"\\x92\\x04\\xdd" + int(count).to_bytes(4, "big") + b"\\x92\\x00\\x01" * int(count)
    message = len(body).to_bytes(4, "big") + body
    os.write(link, message[:1_000])
    leave_trace(trace, "floods")
    os.write(link, message[1_000:])
    while True:
        os.write(link, message)

def flood_from_beyond():
    """The same, by a daemon that has the descriptor of the host, which ends."""
    import signal
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.alarm(60)
            flood(told)
        os._exit(0)
    os.read(ready, 1)
    os._exit(3)
'''


@pytest.fixture(scope="module")
def file() -> Iterator[str]:
    """Functions that every user of this machine can read."""
    folder = Path(f"/tmp/evenbeat-attack-{os.getpid()}")
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    path = folder / "functions.py"
    path.write_text(FUNCTIONS)
    path.chmod(0o644)
    yield str(path)
    shutil.rmtree(folder)  # with what Python has compiled


def results_of(*jobs: Job) -> list[RunResult]:
    found: list[RunResult] = []

    async def scene(queue_node: QueueNode) -> None:
        found.extend(await queue_node.answers(queue_node.send(*jobs)))

    play(scene)
    return found


def function(file: str, name: str, **job: Any) -> Job:
    return Job(function=f"{file}:{name}", **job)


@root_only
def test_a_function_runs_as_its_user_from_its_import_on(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_NODE", "secret")
    names = ("who", "who_async", "back", "who_at_import", "child", "outputs", "surroundings")
    results = results_of(*[function(file, name, user="nobody") for name in names], function(file, "who"))
    assert [result.outcome for result in results] == [Outcome.SUCCEEDED] * len(results)
    who, asynchronous, back, imported, child, outputs, around, own = [r.output.decode().strip() for r in results]
    groups = sorted(os.getgrouplist("nobody", NOBODY.pw_gid))
    ids = [*[NOBODY.pw_uid] * 3, *[NOBODY.pw_gid] * 3]
    assert list(map(int, who.split())) == list(map(int, asynchronous.split())) == [*ids, *groups]
    assert back == "refused"
    assert imported == child == str(NOBODY.pw_uid)
    assert outputs == "/dev/null /dev/null", "the node's output may be a terminal"
    assert {"USER=nobody", "LOGNAME=nobody", f"HOME={NOBODY.pw_dir}"} <= set(around.splitlines())
    assert "OF_THE_NODE" not in around
    assert own.startswith(f"{os.geteuid()} "), "and without a user as the node's, in a host of its own"


def test_a_function_has_its_variables_and_its_folder(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_NODE", "here")
    (tmp_path / "secret").write_text("hush\n")
    env = {"PLAIN": "1", "REFERRED": "env:OF_THE_NODE", "READ": f"file:{tmp_path}/secret"}
    one, other = results_of(
        function(file, "surroundings", env=env, cwd=str(tmp_path)), function(file, "surroundings", env={"PLAIN": "2"})
    )
    lines = one.output.decode().splitlines()
    assert {"PLAIN=1", "REFERRED=here", "READ=hush", "OF_THE_NODE=here"} <= set(lines)
    assert lines[-1] == str(tmp_path)
    assert "PLAIN=2" in other.output.decode().splitlines()
    (home,) = results_of(function(file, "surroundings", env={"HOME": str(tmp_path)}, cwd="~"))
    assert home.output.decode().splitlines()[-1] == str(tmp_path)


def test_what_cannot_be_taken_on_is_refused_with_the_reason(file: str, tmp_path: Path) -> None:
    jobs: dict[str, dict[str, Any]] = {
        "no such user: no-such-user": {"user": "no-such-user"},
        f"the working directory {tmp_path}/x: no such file or directory": {"cwd": f"{tmp_path}/x"},
        "env.A: the worker has no variable NOT_THERE in its environment": {"env": {"A": "env:NOT_THERE"}},
        f"env.A: {tmp_path}/x: no such file or directory": {"env": {"A": f"file:{tmp_path}/x"}},
        "env: illegal environment variable name": {"env": {"A=B": "x"}},
    }
    results = results_of(*[function(file, "who", **keys) for keys in jobs.values()])
    assert [result.output.decode() for result in results] == list(jobs)
    assert {result.outcome for result in results} == {Outcome.BROKEN}


NOT_ROOT = """
import os, sys
from evenbeat.work.host_environment import enter_host_environment
os.setgroups([])
os.setresgid(int(sys.argv[2]), int(sys.argv[2]), int(sys.argv[2]))
os.setresuid(int(sys.argv[1]), int(sys.argv[1]), int(sys.argv[1]))
for user in ("root", "nobody"):
    os.environ["EVENBEAT_PLACE"] = '{"user": "%s"}' % user
    print(enter_host_environment()[1], os.getuid())
"""


@root_only
def test_a_host_that_may_not_change_users_refuses() -> None:
    command = [sys.executable, "-c", NOT_ROOT, str(NOBODY.pw_uid), str(NOBODY.pw_gid)]
    other, own = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    words = "the worker is not allowed to run it as user root: run the node as root, or omit `user`"
    assert other == f"{words} {NOBODY.pw_uid}"
    assert own == f" {NOBODY.pw_uid}", "its own user it may be"


@root_only
def test_another_users_host_speaks_for_its_own_runs_only(file: str) -> None:
    """The code of that user has the host, so it has the host's socket."""

    async def scene(queue_node: QueueNode) -> None:
        others = queue_node.send(Job(command=("sleep", "300")), function(file, "who"), timebox=600)
        await queue_node.until(lambda: others[1] in queue_node.results and others[0] in queue_node.started)
        began = queue_node.started[others[0]]
        forger = function(file, "forge", args=(",".join(map(str, (others[0], 99))),), user="nobody")
        stopper = function(file, "stop", user="nobody")
        forged, stopped = await queue_node.answers(queue_node.send(forger, stopper))
        assert forged.output == b"forged\n"
        assert not stopped.stop_node
        assert b"run.stop_node() has no effect" in stopped.output
        assert others[0] not in queue_node.results
        assert 99 not in queue_node.results
        assert queue_node.started[others[0]] == began

    play(scene)


def test_no_host_stretches_a_timebox_by_what_it_says(file: str) -> None:
    async def scene(queue_node: QueueNode) -> None:
        (result,) = await queue_node.answers(queue_node.send(function(file, "evade"), timebox=0.5))
        assert result.outcome is Outcome.TIMEBOXED

    play(scene)


@root_only
def test_another_users_host_that_floods_the_node_is_ended(file: str, caplog: pytest.LogCaptureFixture) -> None:
    flooded, fine = results_of(function(file, "flood", user="nobody"), function(file, "who"))
    assert (flooded.outcome, fine.outcome) == (Outcome.LOST, Outcome.SUCCEEDED)
    assert "a function host of user nobody is ended: it floods the node" in caplog.text


@root_only
@pytest.mark.parametrize("count", [100_000, 5_000_000])
def test_another_users_host_that_says_too_much_at_once_is_ended(file: str, count: int) -> None:
    flood = function(file, "flood_at_once", args=(str(count),), user="nobody")
    flooded, fine = results_of(flood, function(file, "who"))
    assert (flooded.outcome, fine.outcome) == (Outcome.LOST, Outcome.SUCCEEDED)


@root_only
@pytest.mark.parametrize(("name", "args"), [("flood", ()), ("flood_at_once", ("5000000",))])
def test_a_run_that_floods_a_busy_node_is_started_once(file: str, name: str, args: tuple[str, ...]) -> None:
    """A busy node reads that the host is ready together with the flood."""
    trace = Path(file).with_name(f"trace of {name}")
    trace.touch()
    trace.chmod(0o666)

    async def scene(queue_node: QueueNode) -> None:
        tokens = queue_node.send(function(file, name, args=args, kwargs={"trace": str(trace)}, user="nobody"))
        eventually(lambda: "floods" in trace.read_text())  # on the loop, which reads nothing meanwhile
        (flooded,) = await queue_node.answers(tokens)
        assert flooded.outcome is Outcome.LOST

    play(scene)
    assert trace.read_text().count("started") == 1


@root_only
def test_a_daemon_with_the_descriptor_of_a_dead_host_keeps_nobody_busy(file: str) -> None:
    dead, fine = results_of(function(file, "flood_from_beyond", user="nobody"), function(file, "who"))
    assert (dead.outcome, fine.outcome) == (Outcome.LOST, Outcome.SUCCEEDED)


def test_a_result_that_no_host_of_ours_would_send_is_made_one_that_it_could() -> None:
    class Given:
        outstanding = dict.fromkeys(range(3))
        last_heard = 0.0

    place = HostLauncher(worker_frames.HostEnvironment(user="nobody"))
    monstrous = [
        RunResult(0, "no such outcome", 1 << 63, 1 << 63, 1 << 63, b"x" * (OUTPUT_LIMIT + 1), b"\xc1", stop_node=True),
        RunResult(1, "lost", -(1 << 63), -5, -9, b"", b"x" * 9_999),
        RunResult(2, "failed", 2, 100, 200, b"fine", b"\x05"),
    ]
    said: list[MessageToNode] = [ResultsFrame(monstrous), StartedFrame([(9, 1)])]
    (believed,) = place.trusted_part(Given(), said, 1_000)  # type: ignore[arg-type]
    assert isinstance(believed, ResultsFrame)
    first, second, third = believed.results
    assert (first.outcome, first.status, first.started, first.ended) == (Outcome.FAILED, None, 1_000, 1_000)
    assert (len(first.output), first.truncated, first.cursor, first.stop_node) == (OUTPUT_LIMIT, True, None, False)
    assert (second.outcome, second.status, second.started, second.ended, second.cursor) == (
        Outcome.FAILED,
        None,
        0,
        0,
        None,
    )
    assert third == monstrous[2]


def test_results_in_columns_are_no_more_trusted_than_others() -> None:
    class Given:
        outstanding = dict.fromkeys(range(2))
        last_heard = 0.0

    place = HostLauncher(worker_frames.HostEnvironment(user="nobody"))
    said: list[MessageToNode] = [PlainResults([0, 1, 777, 1], [-5, 900, 1, 1], [1 << 40, 950, 2, 3])]
    (believed,) = place.trusted_part(Given(), said, 1_000)  # type: ignore[arg-type]
    assert isinstance(believed, ResultsFrame)
    assert [(r.token, r.started, r.ended) for r in believed.results] == [(0, 0, 1_000), (1, 1, 3)]
