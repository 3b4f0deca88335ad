"""The guardian ends what workers run when all who could do it are gone, and costs nothing while they are there."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import eventually

from evenbeat.child_processes.process_table import all_processes, process_info

SUPERVISOR = """
import asyncio, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from queue_node import QueueNode
from evenbeat.model import Job

SCRIPTS = [
    "echo $$ > plain; exec sleep 300",
    "env -i sh -c 'echo $$ > bare; sleep 300 & wait'",
    "setsid -w sh -c 'echo $$ > apart; exec sleep 300'",
]

async def live():
    queue_node = QueueNode(2, records=Path(sys.argv[1]) / "x.workers")
    queue_node.queue.start()
    queue_node.send(*[Job(command=(script,), shell=True, cwd=sys.argv[1]) for script in SCRIPTS], timebox=600)
    print(queue_node.queue.orphan_guard.guardian.pid, *queue_node.queue.pids, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
        queue_node.queue.orphan_guard.guardian.set_deadline(int(line) and now + int(line))
        print("told", flush=True)
    await queue_node.queue.stop(0)

asyncio.run(live())
"""
QUEUE_NODE = Path(__file__).parents[1] / "support"


class Supervisor:
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", SUPERVISOR, str(folder), str(QUEUE_NODE)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.guardian, *self.workers = map(int, self.process.stdout.readline().split())
        files = [folder / name for name in ("plain", "bare", "apart")]
        eventually(lambda: all(file.exists() and file.read_text().strip() for file in files))
        self.runs = [int(file.read_text()) for file in files]

    def expect(self, microseconds: int) -> None:
        """Have the guardian told that nothing may run then."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{microseconds}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "told\n"

    def everything(self) -> list[int]:
        return [self.process.pid, self.guardian, *self.workers, *self.runs]


def is_alive(pid: int) -> bool:
    now = process_info(pid)
    return now is not None and now.is_alive


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    one = Supervisor(tmp_path)
    yield one
    for pid in one.everything():
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    one.process.communicate()


def named_evenbeat(pids: list[int]) -> list[int]:
    return [pid for pid in pids if b"evenbeat" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_pkill_of_all_that_is_called_evenbeat_leaves_nothing(supervisor: Supervisor) -> None:
    victims = named_evenbeat([supervisor.process.pid, supervisor.guardian, *supervisor.workers])
    assert sorted(victims) == sorted([supervisor.process.pid, *supervisor.workers])
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees another end
        for pid in victims:
            os.kill(pid, number)
    eventually(lambda: not any(map(is_alive, supervisor.runs)))
    eventually(lambda: not is_alive(supervisor.guardian))


def test_an_orderly_stop_leaves_neither_guardian_nor_records(supervisor: Supervisor, tmp_path: Path) -> None:
    assert (tmp_path / "x.workers").exists()
    supervisor.process.communicate()
    assert not any(map(is_alive, supervisor.everything()))
    assert not (tmp_path / "x.workers").exists()


def test_a_guardian_that_ends_is_replaced_and_knows_all_that_the_first_did(supervisor: Supervisor) -> None:
    os.kill(supervisor.guardian, signal.SIGKILL)
    children = {supervisor.process.pid, *supervisor.workers, supervisor.guardian}

    def another() -> list[int]:
        return [one.pid for one in all_processes().values() if one.parent == supervisor.process.pid]

    eventually(lambda: bool(set(another()) - children))
    (supervisor.guardian,) = set(another()) - children
    supervisor.expect(0)  # its loop goes on, so it has told the new one of its workers
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (supervisor.process.pid, *supervisor.workers):
            os.kill(pid, number)
    eventually(lambda: not any(map(is_alive, supervisor.runs)))


def test_a_stopped_guardian_does_not_keep_its_supervisor_from_ending(supervisor: Supervisor) -> None:
    os.kill(supervisor.guardian, signal.SIGSTOP)
    supervisor.process.communicate(timeout=60)
    assert not any(map(is_alive, supervisor.everything()))


def test_what_a_stopped_supervisor_runs_ends_when_it_may_run_no_longer(supervisor: Supervisor) -> None:
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    supervisor.expect(60_000_000)
    supervisor.expect(0)
    assert all(map(is_alive, supervisor.runs))
    supervisor.expect(300_000)
    os.kill(supervisor.process.pid, signal.SIGSTOP)
    eventually(lambda: not any(map(is_alive, [*supervisor.runs, *supervisor.workers])))
    assert is_alive(supervisor.guardian)
    assert is_alive(other.pid)
    other.kill()
    other.wait()
    os.kill(supervisor.process.pid, signal.SIGCONT)
