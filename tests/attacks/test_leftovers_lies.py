"""No process is ended, or waited for, because of what it says of itself: its user chooses words and environment."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.child_processes.process_table import SessionLeader, process_info
from evenbeat.child_processes.processes_left_behind import end_leftovers
from evenbeat.child_processes.worker_records import WorkerRecordFile, read_worker_record

NOBODY = 65_534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
Liar = Callable[..., int]

LIES = """
import os, sys
words, user = sys.argv[2:], int(sys.argv[1])
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)  # whoever reads what it printed waits for the end of that
os.execv("/bin/sh", [words[0], "-c", "read forever", *words])
"""
"""The member of a session whose leader is gone, with words and an environment of its choice."""


@pytest.fixture
def liar() -> Iterator[Liar]:
    started: list[int] = []
    reader, writer = os.pipe()

    def begin(*words: str, user: int = 0, **environment: str) -> int:
        command = [sys.executable, "-c", LIES, str(user), *(words or ("sh",))]
        done = subprocess.run(
            command,
            stdin=reader,
            stdout=subprocess.PIPE,
            check=True,
            env={**os.environ, **environment},
            text=True,
            timeout=60,
        )
        started.append(int(done.stdout))
        return int(done.stdout)

    yield begin
    os.close(writer)
    os.close(reader)
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    now = process_info(pid)
    return now is not None and now.is_alive


def gone() -> SessionLeader:
    ended = subprocess.Popen(["true"])
    now = process_info(ended.pid)
    assert now is not None
    ended.wait()
    return SessionLeader(now.pid, now.started)


def session_of(pid: int) -> int:
    now = process_info(pid)
    assert now is not None
    return now.session


def abandoned(path: Path, *workers: SessionLeader) -> Path:
    """What a supervisor recorded that was killed."""
    records = WorkerRecordFile(path)
    records.supervisor = gone()
    records.begin()
    for worker in workers:
        records.add(worker)
    return path


USERS = [pytest.param(NOBODY, marks=root_only, id="another user"), pytest.param(0, id="our user")]


@pytest.mark.parametrize("user", USERS)
def test_a_faked_environment_ends_nobody(liar: Liar, tmp_path: Path, user: int) -> None:
    database = tmp_path / "x.db"
    path = abandoned(tmp_path / "x.db.workers", gone())
    # As a worker marked its runs once, and as whoever does not know the secret can mark a process today.
    lies = [liar(user=user, EVENBEAT_WORKER=mark) for mark in (f"{gone().pid} {database}", "", "x" * 32)]
    own = liar(user=user)
    lies.append(liar(user=user, EVENBEAT_WORKER=f"{session_of(own)} {database}"))
    end_leftovers([path])
    assert all(map(is_alive, [*lies, own]))


@pytest.mark.parametrize("user", USERS)
def test_a_node_starts_beside_processes_that_look_like_its_own(
    liar: Liar, tmp_path: Path, evenbeat: Evenbeat, user: int
) -> None:
    database = tmp_path / "x.db"
    assert evenbeat("add", "a", "--every", "1h", "--db", str(database), "--", "true").code == 0
    abandoned(tmp_path / "x.db.workers", gone())
    words = (sys.executable, "-P", "-m", "evenbeat.work.runner", "5", str(database))
    lies = [
        liar(*words, user=user, EVENBEAT_WORKER=f"1 {database}"),
        liar("evenbeat", "up", "--db", str(database), user=user),
        liar(f"ends what the workers of process {os.getpid()} leave behind", user=user),
    ]
    done = evenbeat("up", "--db", str(database), "--workers", "1", "--for", "1ms")
    assert done.code == 0, done.err
    assert "left behind" not in done.err
    assert all(map(is_alive, lies))


@root_only
def test_a_worker_number_that_another_user_has_by_now_is_not_believed(liar: Liar, tmp_path: Path) -> None:
    """That user, with patience, gets any number there is."""
    theirs = liar(user=NOBODY, EVENBEAT_WORKER="x")
    ours = liar()
    path = abandoned(tmp_path / "x.workers", SessionLeader(session_of(theirs), 0), SessionLeader(session_of(ours), 0))
    end_leftovers([path])
    deadline = time.monotonic() + 60
    while is_alive(ours) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(ours)
    assert is_alive(theirs)


@root_only
def test_a_run_of_another_user_is_found_by_the_secret_that_its_worker_passed_on(liar: Liar, tmp_path: Path) -> None:
    records = WorkerRecordFile(tmp_path / "x.workers")
    records.supervisor = gone()
    run = liar(user=NOBODY, EVENBEAT_WORKER=records.secret)
    records.add(SessionLeader(session_of(run), 0))
    end_leftovers([tmp_path / "x.workers"])
    deadline = time.monotonic() + 60
    while is_alive(run) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(run)


@root_only
def test_another_user_cannot_record_anything_for_us(liar: Liar, tmp_path: Path) -> None:
    victim = liar()
    path = abandoned(tmp_path / "x.workers", SessionLeader(session_of(victim), 0))
    os.chown(path, NOBODY, NOBODY)
    assert read_worker_record(path) is None
    end_leftovers([path])
    assert is_alive(victim)
