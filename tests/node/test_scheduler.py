"""A real node, from its start to its stop: nothing is started twice, nothing is left behind."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from live_node import LiveNode
from waiting import PATIENCE, eventually

from evenbeat.client.node_or_database import open_client
from evenbeat.clock.node_clock import Clock
from evenbeat.load.config import BadFileError
from evenbeat.load.parse_process import SUBPROCESS_FROM_BYTES
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import Invalid, Outcome
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import Condition, Filter, StoreError, WithdrawnTasks
from evenbeat.store.sqlite.ownership import DatabaseInUse, is_node_running, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def condition(database: Path, name: str) -> Condition:
    store = SqliteStore(database, read_only=True)
    try:
        (found,) = store.conditions(Filter(names=(name,)))
        return ConditionReader(store, Clock().now()).of(found)
    finally:
        store.close()


LONG = '[tasks.long]\nevery = "1d"\ntimebox = "1h"\ncommand = ["sleep", "{}"]\n'


def forced(node: LiveNode, name: str) -> None:
    with node.client() as client:
        client.run_now([name], wait=False)
    eventually(lambda: node.runs(name))


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_it_was_when_the_node_is_up_or_could_not_start(
    database: Path, tmp_path: Path, *, is_on: bool
) -> None:
    found = []

    def up(node: Scheduler) -> None:
        found.append(gc.isenabled())
        node.stop("seen")

    bad = write(tmp_path / "bad.toml", "nonsense")
    before, thresholds = gc.isenabled(), gc.get_threshold()
    (gc.enable if is_on else gc.disable)()
    try:
        asyncio.run(run_node(database, NodeOptions(workers=1), up, signals=False))
        found.append(gc.isenabled())
        with pytest.raises(BadFileError):
            asyncio.run(run_node(database, NodeOptions(files=(bad,)), up, signals=False))
        assert [*found, gc.isenabled()] == [is_on] * 3
    finally:
        (gc.enable if before else gc.disable)()
        gc.set_threshold(*thresholds)


def test_a_stop_lets_runs_end(database: Path, tmp_path: Path) -> None:
    with LiveNode(database, files=(write(tmp_path / "a.toml", LONG.format(0.5)),)) as node:
        forced(node, "long")
    assert condition(database, "long").outcome == Outcome.SUCCEEDED
    assert not is_node_running(database)
    assert not socket_path(database).exists()


def test_what_takes_longer_than_the_grace_is_interrupted_and_made_up_for_later(database: Path, tmp_path: Path) -> None:
    with LiveNode(database, grace=0.1, files=(write(tmp_path / "a.toml", LONG.format(600)),)) as node:
        forced(node, "long")
    found = condition(database, "long")
    assert (found.outcome, found.running_since) == (Outcome.INTERRUPTED, None)
    assert found.extra is not None


def test_files_say_how_long_runs_have_to_end(database: Path, tmp_path: Path) -> None:
    text = '[node]\nstop_grace = "0.2s"\n' + LONG.format(600)
    with LiveNode(database, grace=None, files=(write(tmp_path / "a.toml", text),)) as node:
        forced(node, "long")
    assert condition(database, "long").outcome == Outcome.INTERRUPTED


def test_asked_a_second_time_it_stops_at_once(database: Path, tmp_path: Path) -> None:
    with LiveNode(database, grace=600, files=(write(tmp_path / "a.toml", LONG.format(600)),)) as node:
        forced(node, "long")
        node.do(lambda: node.node.stop_or_stop_now("SIGTERM"))
        node.do(lambda: node.node.stop_or_stop_now("SIGTERM"))
        node.has_stopped()
    assert condition(database, "long").outcome == Outcome.INTERRUPTED


def test_whoever_else_asks_for_a_stop_meanwhile_does_not_hurry_it(database: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", LONG.format(0.5) + '[tasks.bye]\ncron = "@shutdown"\ncommand = ["true"]\n')
    with LiveNode(database, files=(file,)) as node:
        forced(node, "long")
        for reason in ("its time is over", "a task asked for it"):
            node.do(lambda reason=reason: node.node.stop(reason))  # type: ignore[misc]
        node.has_stopped()
    assert node.node.reason == "its time is over"
    assert condition(database, "long").outcome == Outcome.SUCCEEDED
    assert condition(database, "bye").outcome == Outcome.SUCCEEDED


def test_what_is_to_be_done_at_a_stop_is_done_all_of_it_even_with_one_slot(database: Path, tmp_path: Path) -> None:
    text = "".join(f'[tasks.bye{i}]\ncron = "@shutdown"\ncommand = ["true"]\n' for i in range(3))
    file = write(tmp_path / "a.toml", text + '[tasks.other]\nevery = "1s"\ncommand = ["true"]\n')
    with LiveNode(database, max_concurrent=1, files=(file,)) as node:
        eventually(lambda: node.runs("other"))
        assert not node.runs("bye0")
    assert [condition(database, f"bye{i}").outcome for i in range(3)] == [Outcome.SUCCEEDED] * 3


def test_not_if_somebody_is_in_a_hurry(database: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", LONG.format(600) + '[tasks.bye]\ncron = "@shutdown"\ncommand = ["true"]\n')
    with LiveNode(database, grace=600, files=(file,)) as node:
        forced(node, "long")
        node.do(lambda: node.node.stop_or_stop_now("SIGTERM"))
        node.do(lambda: node.node.stop_or_stop_now("SIGTERM"))
        node.has_stopped()
    assert condition(database, "bye").outcome is None


def test_after_its_time_it_stops_by_itself(database: Path) -> None:
    with LiveNode(database, length=0.05) as node:
        node.has_stopped()
    assert node.node.reason == "its time is over"


def test_a_function_can_stop_the_node_when_it_has_ended(database: Path, tmp_path: Path) -> None:
    module = write(tmp_path / "mod.py", "def last(run):\n    run.stop_node()\n")
    file = write(tmp_path / "a.toml", f'[tasks.last]\ncron = "@reboot"\nfunction = "{module}:last"\n')
    with LiveNode(database, files=(file,)) as node:
        node.has_stopped()
    assert node.node.reason == "a task asked for it"
    assert condition(database, "last").outcome == Outcome.SUCCEEDED


def test_a_check_that_is_a_function_says_its_state(database: Path, tmp_path: Path) -> None:
    module = write(tmp_path / "mod.py", 'def disk(run):\n    return 2, "full"\n')
    file = write(tmp_path / "a.toml", f'[checks.disk]\nevery = "1d"\nfunction = "{module}:disk"\n')
    with LiveNode(database, files=(file,)) as node, node.client() as client:
        (ended,) = client.run_now(["disk"], wait=True)
    assert (ended.outcome, ended.status, ended.output) == ("failed", 2, "full\n")
    assert condition(database, "disk").state == 2


def test_tasks_of_a_file_and_those_that_a_program_adds_before_the_start_all_live(
    database: Path, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.toml", LONG.format(1))
    late = task_from_table("late", {"every": "1d", "command": ["true"]}, check=False)
    names: list[str] = []

    def up(node: Scheduler) -> None:
        names.extend(node.tasks.names.names(node.tasks.all_rows()))
        node.stop("seen")

    def add(node: Scheduler) -> None:
        node.admin.add([late], "program", "ana")

    asyncio.run(run_node(database, NodeOptions(files=(file,)), up, before=add, signals=False))
    assert sorted(names) == ["late", "long"]


def test_a_large_file_is_read_by_a_live_node_too(database: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", LONG.format(1))
    with LiveNode(database, files=(file,)) as node:
        write(file, "#" * SUBPROCESS_FROM_BYTES + "\n" + LONG.format(2) + LONG.format(3).replace("long", "other"))
        with node.client() as client:
            changed = client.apply([file])
        assert ([e.task.name for e in changed.changed], [e.task.name for e in changed.created]) == (["long"], ["other"])
        write(file, "#" * SUBPROCESS_FROM_BYTES + "\n[tasks.long]\nevery = 'never'\n")
        with node.client() as client, pytest.raises(Invalid, match=r"a\.toml:3:10: "):
            client.apply([file])


def test_a_database_that_has_a_node_gets_no_second_one(database: Path) -> None:
    with LiveNode(database), pytest.raises(DatabaseInUse, match=f"process {os.getpid()}"), LiveNode(database):
        pass


def test_a_bad_file_keeps_a_node_from_starting_and_leaves_nothing_behind(database: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", '[tasks.a]\nevery = "x"\n')
    with pytest.raises(BadFileError), LiveNode(database, files=(file,)):
        pass
    assert not is_node_running(database)
    assert not socket_path(database).exists()


def test_a_node_that_cannot_listen_does_not_leave_its_workers_behind(database: Path) -> None:
    socket_path(database).mkdir()
    live_node = LiveNode(database)
    with pytest.raises(OSError, match="Is a directory"), live_node:
        pass
    assert not is_node_running(database)


def test_a_store_that_fails_at_the_stop_does_not_hold_it_up_for_ever(database: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", LONG.format(0.2))
    with LiveNode(database, grace=0.3, files=(file,)) as node:
        forced(node, "long")

        def fail(_: object) -> object:
            from concurrent.futures import Future

            failed: Future[WithdrawnTasks] = Future()
            failed.set_exception(StoreError("the disk is full"))
            return failed

        node.node.store.record = fail  # type: ignore[method-assign, assignment]
    assert not is_node_running(database)


RELOADED = """
import asyncio, sys
from pathlib import Path
from evenbeat.node.process.run_node import run_node
from evenbeat.node.options import NodeOptions
def ready(node):
    print("ready", flush=True)
asyncio.run(run_node(Path(sys.argv[1]), NodeOptions(files=(Path(sys.argv[2]),), workers=1), ready))
"""


def test_a_reload_moves_no_phase_and_stops_nothing(database: Path, tmp_path: Path) -> None:
    many = "".join(f'[tasks.t{i}]\nevery = "1h"\ncommand = ["true"]\n' for i in range(10))
    file = write(tmp_path / "a.toml", many + LONG.format(600))
    node = subprocess.Popen(
        [sys.executable, "-c", RELOADED, str(database), str(file)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == "ready\n"
        with open_client(database, "ana") as client:
            client.run_now(["long"], wait=False)
        eventually(lambda: condition(database, "long").running_since)
        before = [condition(database, f"t{i}").next_run for i in range(10)]
        write(file, many + LONG.format(600) + '[tasks.new]\nevery = "1h"\ncommand = ["true"]\n')
        node.send_signal(signal.SIGHUP)
        eventually(lambda: exists(database, "new"))
        assert [condition(database, f"t{i}").next_run for i in range(10)] == before
        assert condition(database, "long").running_since is not None
        write(file, "[tasks\n")
        node.send_signal(signal.SIGHUP)
        with open_client(database, "ana") as client:
            status = client.status()
        assert status is not None
        assert (status.tasks, status.pending) == (12, 1)
        node.send_signal(signal.SIGTERM)
        node.send_signal(signal.SIGINT)  # of the same signal twice the second might not be seen
        assert node.wait(PATIENCE) == 0
    finally:
        node.kill()
        node.communicate()


def exists(database: Path, name: str) -> bool:
    store = SqliteStore(database, read_only=True)
    try:
        return store.find(name) is not None
    finally:
        store.close()


def test_a_period_that_changes_moves_its_tasks_in_the_store_too(database: Path, tmp_path: Path) -> None:
    text = '[periods.p]\nranges = ["{}"]\n[tasks.a]\nevery = "1m"\nperiod = "p"\ncommand = ["noop"]\n'
    file = write(tmp_path / "a.toml", text.format("2040-01-01"))
    with LiveNode(database, files=(file,)) as node, node.client() as client:
        far = condition(database, "a").next_run
        write(file, text.format("2041-01-01"))
        client.apply([file])
        farther = condition(database, "a").next_run
    assert far is not None
    assert farther is not None
    assert farther > far


def test_changes_are_taken_over_in_the_order_in_which_they_were_made(database: Path) -> None:
    with LiveNode(database) as node:
        task = task_from_table("a", {"every": "1h", "command": ["true"]}, check=False)
        seen: list[int] = []
        done = threading.Event()

        def look() -> None:
            # The task administration was used from other threads; nobody has taken over anything yet.
            node.node.apply_changes()
            seen.append(len(node.node.tasks.all_rows()))
            done.set()

        for _ in range(3):
            node.node.admin.add([task], "ana", "ana")
            node.node.admin.remove(Filter(names=("a",)), "ana")
        node.do(look)
        assert done.wait(PATIENCE)
        assert seen == [0]


def test_a_node_that_is_cancelled_leaves_nothing_behind(database: Path) -> None:
    async def brief() -> None:
        up = asyncio.Event()
        task = asyncio.create_task(run_node(database, NodeOptions(workers=1), lambda _: up.set(), signals=False))
        await up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(brief())
    assert not is_node_running(database)
    assert not socket_path(database).exists()


def test_a_turn_that_fails_is_the_end_of_the_node_not_of_its_work(
    database: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "a.toml", '[tasks.a]\nevery = "1s"\ncommand = ["true"]\n')
    with pytest.raises(ZeroDivisionError), LiveNode(database, files=(file,)) as node:

        def fail(_: object) -> None:
            raise ZeroDivisionError

        node.node.turns.turn = fail  # type: ignore[method-assign, assignment]
        node.has_stopped()
    assert not is_node_running(database)
    assert "the node failed" in caplog.text
    with LiveNode(database, files=(file,)) as node:
        eventually(lambda: [run for run in node.runs("a") if run.outcome == Outcome.SUCCEEDED])


def test_the_history_is_shortened_again_when_a_failing_store_has_healed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenbeat.node.scheduler._PRUNE_INTERVAL", 0.01)
    pruned: list[str] = []

    def prune(*_: object) -> int:
        pruned.append("asked")
        if len(pruned) < 3:
            raise StoreError("the disk is full")
        return 0

    with LiveNode(database) as node:
        node.node.store.prune = prune  # type: ignore[method-assign, assignment]
        eventually(lambda: len(pruned) >= 4)
