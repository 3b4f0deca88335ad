"""What is left of workers whose supervisor is gone is ended; nothing else is, whatever it says of itself."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from evenbeat.child_processes.leftovers import end_leftovers
from evenbeat.child_processes.records import Records, read_records
from evenbeat.child_processes.table import Leader, process

Start = Callable[..., "subprocess.Popen[str]"]


def is_alive(pid: int) -> bool:
    now = process(pid)
    return now is not None and now.is_alive


def leader_of(started: "subprocess.Popen[str]") -> Leader:
    now = process(started.pid)
    assert now is not None
    return Leader(now.pid, now.started)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


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


def dead() -> Leader:
    """A process that has ended."""
    gone = subprocess.Popen(["sleep", "300"])
    now = process(gone.pid)
    assert now is not None
    gone.kill()
    gone.wait()
    return Leader(gone.pid, now.started)


def recorded_by(supervisor: Leader, path: Path, *workers: Leader) -> Path:
    records = Records(path)
    records._supervisor = supervisor
    for worker in workers:
        records.add(worker)
    return path


RUNS = "setsid -w sleep 300 & echo $!; sleep 300 & echo $!; env -i sleep 300 & echo $!; wait"
"""One in a session of its own, two in the worker's, one of them without an environment."""


def test_a_worker_that_was_killed_leaves_nothing(start: Start, tmp_path: Path) -> None:
    worker = start(RUNS)
    runs = said(worker, 3)
    path = recorded_by(dead(), tmp_path / "x.workers", leader_of(worker))
    end_leftovers([path], "nobody's")
    until(lambda: not any(map(is_alive, [worker.pid, *runs])))
    assert not path.exists()


def test_what_its_own_session_was_left_by_a_dead_leader_is_found(start: Start, tmp_path: Path) -> None:
    worker = start("sleep 300 & echo $!; kill -9 $$")
    runs = said(worker, 1)
    leader = leader_of(worker)
    worker.wait()
    assert is_alive(runs[0])
    end_leftovers([recorded_by(dead(), tmp_path / "x.workers", leader)], "nobody's")
    until(lambda: not is_alive(runs[0]))


def test_the_workers_of_a_supervisor_that_lives_are_its_own(start: Start, tmp_path: Path) -> None:
    worker = start()
    records = Records(tmp_path / "x.workers")
    records.add(leader_of(worker))
    end_leftovers([tmp_path / "x.workers"], "nobody's")
    assert is_alive(worker.pid)
    records.remove(leader_of(worker))
    assert not (tmp_path / "x.workers").exists()


def test_a_number_that_belongs_to_another_process_by_now_is_left_alone(start: Start, tmp_path: Path) -> None:
    other = start()
    leader = leader_of(other)
    path = recorded_by(dead(), tmp_path / "x.workers", leader._replace(started=leader.started - 1))
    end_leftovers([path], "nobody's")
    assert is_alive(other.pid)


@pytest.mark.parametrize("content", ["", "nonsense", "another-boot\n1 1\n{worker}\n", "{boot}\n1 1\nx y\n"])
def test_a_file_that_says_nothing_of_this_boot_is_not_believed(start: Start, tmp_path: Path, content: str) -> None:
    worker = start()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    leader = leader_of(worker)
    path = tmp_path / "x.workers"
    path.write_text(content.format(worker=f"{leader.pid} {leader.started}", boot=boot))
    end_leftovers([path], "nobody's")
    assert is_alive(worker.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of other users")
def test_a_file_of_another_user_is_not_believed(tmp_path: Path) -> None:
    path = recorded_by(dead(), tmp_path / "x.workers", Leader(1, 1))
    assert read_records(path) is not None
    os.chown(path, 65534, 65534)
    assert read_records(path) is None


def test_runs_that_were_not_recorded_are_known_by_their_mark_if_their_worker_is_dead(start: Start) -> None:
    script = (
        'EVENBEAT_WORKER="$$ /x.db" sleep 300 & echo $!; EVENBEAT_WORKER="$$ /y.db" sleep 300 & echo $!; kill -9 $$'
    )
    worker = start(script)
    ours, other = said(worker, 2)
    worker.wait()
    # Both are in the session of the same dead worker, which is whose the first says it is.
    end_leftovers([], "/z.db")
    assert is_alive(ours)
    end_leftovers([], "/x.db")
    until(lambda: not is_alive(ours))
    assert not is_alive(other)


def test_a_mark_is_believed_only_about_the_session_it_is_in(start: Start) -> None:
    victim = start()
    liar = start("exec sleep 300", EVENBEAT_WORKER=f"{victim.pid} /x.db")
    same = start('EVENBEAT_WORKER="$$ /x.db" sleep 300 & echo $!; exec sleep 300')
    (member,) = said(same, 1)
    end_leftovers([], "/x.db")
    assert is_alive(victim.pid)
    assert is_alive(liar.pid)
    # Who leads this session lives, so it is somebody's to see to.
    assert is_alive(member)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
def test_the_mark_of_another_users_process_is_not_believed(start: Start) -> None:
    drop = "import os; os.setgid(65534); os.setuid(65534); os.execv('/bin/sleep', ['sleep', '300'])"
    worker = start(f'EVENBEAT_WORKER="$$ /x.db" {sys.executable} -c "{drop}" & echo $!; sleep 0.01; kill -9 $$')
    (theirs,) = said(worker, 1)
    worker.wait()
    until(lambda: Path(f"/proc/{theirs}/cmdline").read_bytes().startswith(b"sleep"))
    end_leftovers([], "/x.db")
    assert is_alive(theirs)
