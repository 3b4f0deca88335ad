"""What is left of workers whose supervisor is gone is ended; nothing else is, whatever it says of itself."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import eventually

from evenbeat.child_processes import processes_left_behind
from evenbeat.child_processes.process_table import SessionLeader, process_info
from evenbeat.child_processes.processes_left_behind import end_leftovers
from evenbeat.child_processes.worker_records import WorkerRecordFile, read_worker_record

Start = Callable[..., "subprocess.Popen[str]"]


def is_alive(pid: int) -> bool:
    now = process_info(pid)
    return now is not None and now.is_alive


def leader_of(started: "subprocess.Popen[str]") -> SessionLeader:
    now = process_info(started.pid)
    assert now is not None
    return SessionLeader(now.pid, now.started)


@pytest.fixture
def start() -> Iterator[Start]:
    """A process that leads a session, as a worker does; it says which processes it has started."""
    started: list[subprocess.Popen[str]] = []

    def begin(script: str = "sleep 300", **environment: str) -> "subprocess.Popen[str]":
        command = ["/bin/sh", "-c", script]
        started.append(
            subprocess.Popen(
                command, start_new_session=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
            )
        )
        return started[-1]

    yield begin
    for one in started:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        assert one.stdout is not None
        one.stdout.close()


def said(worker: "subprocess.Popen[str]", words: int) -> list[int]:
    assert worker.stdout is not None
    return [int(worker.stdout.readline()) for _ in range(words)]


def dead() -> SessionLeader:
    """A process that has ended."""
    gone = subprocess.Popen(["sleep", "300"])
    now = process_info(gone.pid)
    assert now is not None
    gone.kill()
    gone.wait()
    return SessionLeader(gone.pid, now.started)


def recorded_by(supervisor: SessionLeader, path: Path, *workers: SessionLeader) -> Path:
    records = WorkerRecordFile(path)
    records.supervisor = supervisor
    records.begin()
    for worker in workers:
        records.add(worker)
    return path


RUNS = "setsid -w sleep 300 & echo $!; sleep 300 & echo $!; env -i sleep 300 & echo $!; wait"
"""One in a session of its own, two in the worker's, one of them without an environment."""


def test_a_worker_that_was_killed_leaves_nothing(start: Start, tmp_path: Path) -> None:
    worker = start(RUNS)
    runs = said(worker, 3)
    path = recorded_by(dead(), tmp_path / "x.workers", leader_of(worker))
    end_leftovers([path])
    eventually(lambda: not any(map(is_alive, [worker.pid, *runs])))
    assert not path.exists()


def test_what_its_own_session_was_left_by_a_dead_leader_is_found(start: Start, tmp_path: Path) -> None:
    worker = start("sleep 300 & echo $!; kill -9 $$")
    runs = said(worker, 1)
    leader = leader_of(worker)
    worker.wait()
    assert is_alive(runs[0])
    end_leftovers([recorded_by(dead(), tmp_path / "x.workers", leader)])
    eventually(lambda: not is_alive(runs[0]))


def test_the_workers_of_a_supervisor_that_lives_are_its_own(start: Start, tmp_path: Path) -> None:
    worker = start()
    records = WorkerRecordFile(tmp_path / "x.workers")
    records.add(leader_of(worker))
    end_leftovers([tmp_path / "x.workers"])
    assert is_alive(worker.pid)
    records.remove(leader_of(worker))
    records.end()
    assert not (tmp_path / "x.workers").exists()


def test_a_number_that_belongs_to_another_process_by_now_is_left_alone(start: Start, tmp_path: Path) -> None:
    other = start()
    leader = leader_of(other)
    path = recorded_by(dead(), tmp_path / "x.workers", leader._replace(started=leader.started - 1))
    end_leftovers([path])
    assert is_alive(other.pid)


@pytest.mark.parametrize(
    "content", ["", "nonsense", "another-boot\nsecret\n1 1\n{worker}\n", "{boot}\nsecret\n1 1\nx y\n"]
)
def test_a_file_that_says_nothing_of_this_boot_is_not_believed(start: Start, tmp_path: Path, content: str) -> None:
    worker = start()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    leader = leader_of(worker)
    path = tmp_path / "x.workers"
    path.write_text(content.format(worker=f"{leader.pid} {leader.started}", boot=boot))
    end_leftovers([path])
    assert is_alive(worker.pid)


def test_a_file_that_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    path = recorded_by(dead(), tmp_path / "x.workers", SessionLeader(1, 1))
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_worker_record(path) is not None
    path.chmod(0o620)
    assert read_worker_record(path) is None
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    assert read_worker_record(tmp_path / "link") is None
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        assert read_worker_record(path) is None


ORPHAN = "sleep 300 & echo $!; kill -9 $$"
"""In the session of a worker that is dead."""


def test_runs_of_a_worker_that_was_not_recorded_are_known_by_the_secret(start: Start, tmp_path: Path) -> None:
    records = WorkerRecordFile(path := recorded_by(dead(), tmp_path / "x.workers"))
    records.supervisor = dead()
    records.begin()
    worker, other = start(ORPHAN, EVENBEAT_WORKER=records.secret), start(ORPHAN, EVENBEAT_WORKER=records.secret[1:])
    (ours,), (theirs,) = said(worker, 1), said(other, 1)
    for one in (worker, other):
        one.wait()
    end_leftovers([path])
    eventually(lambda: not is_alive(ours))
    assert is_alive(theirs)
    assert not path.exists()
    os.kill(theirs, signal.SIGKILL)


def test_what_is_not_answered_in_time_is_not_waited_for(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel answers questions about a process only when it can: one that waits for a file server, for example."""
    released = threading.Event()
    monkeypatch.setattr(processes_left_behind, "_MAX_TIMEOUT", 0.05)
    monkeypatch.setattr(processes_left_behind, "_has_secret", lambda *_: not released.wait(60))
    worker = start(ORPHAN)
    said(worker, 1)
    worker.wait()
    path = recorded_by(dead(), tmp_path / "x.workers")
    end_leftovers([path])
    assert path.exists(), "who starts next looks again"
    assert "looking for processes that were left behind takes longer" in caplog.text
    released.set()
    for thread in [thread for thread in threading.enumerate() if thread.name == "leftovers"]:
        thread.join()


def test_it_says_what_is_going_on(start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    worker = start("exec sleep 300")
    threading.Thread(target=worker.wait).start()
    end_leftovers([recorded_by(dead(), tmp_path / "x.workers", leader_of(worker))])
    words = [record.getMessage() for record in caplog.records]
    assert words == [
        f"ending 1 processes that were left behind: {worker.pid}",
        "1 processes were left behind and are ended",
    ]
