"""A name that comes back while its run lasts is the same task: never two instances, and nothing of it is lost."""

from pathlib import Path
from typing import Any

import pytest
from hand_driven_node import HandDrivenNode
from live_node import LiveNode
from waiting import eventually

from evenbeat.admin.tasks_of_files import file_owner_of
from evenbeat.model import MINUTE, SECOND, Entry, Outcome, State
from evenbeat.store.contract import Filter
from evenbeat.wire.replies import ChangeResult

TABLE = '[{kind}.job]\nevery = "1m"\nphase = "0s"\ncommand = ["true"]\n'


@pytest.fixture
def driven() -> HandDrivenNode:
    return HandDrivenNode()


def running(driven: HandDrivenNode, name: str = "job", **keys: Any) -> Entry:
    """A task in its second run: the first saved a cursor, and made a problem of a check."""
    entry = driven.add(name, **keys)
    driven.turn(MINUTE)
    driven.end(name, Outcome.FAILED, 2, cursor=b"here")
    driven.turn()
    driven.force(name)
    (run,) = driven.turn(SECOND)
    assert run.name == name
    return entry


def apply(driven: HandDrivenNode, *files: Path) -> ChangeResult:
    changed = driven.admin.apply(files, "ana", anew=True)
    driven.node.apply_changes()
    return changed


class TestRemovedAndAddedAgain:
    def test_it_is_the_same_task_and_never_runs_twice(self, driven: HandDrivenNode) -> None:
        entry = running(driven)
        driven.remove("job")
        back = driven.add("job", every="1s")
        assert (back.number, back.id, back.version) == (entry.number, entry.id, 2)
        assert driven.turn(5 * SECOND) == [], "its run still lasts"
        assert (driven.lifecycle.pending, driven.lifecycle.idle) == (1, 0)
        driven.end("job")
        (run,) = driven.turn(SECOND)
        assert run.cursor == b"here"
        assert (driven.lifecycle.pending, driven.lifecycle.idle) == (1, 0)
        assert len(driven.store.runs(entry.number)) == 3

    def test_the_result_of_that_run_counts(self, driven: HandDrivenNode) -> None:
        entry = running(driven, check=True, retry="0s")
        assert driven.condition("job").state is State.CRITICAL
        driven.remove("job")
        driven.add("job", check=True, retry="0s")
        driven.end("job", Outcome.FAILED, 2)
        driven.turn()
        condition = driven.condition("job")
        assert (condition.entry.number, condition.state, condition.attempt) == (entry.number, State.CRITICAL, 2)
        assert driven.store.removed_running() == []

    def test_a_task_with_a_phase_of_the_wheel_keeps_it(self, driven: HandDrivenNode) -> None:
        driven.add("other", every="1m", weight=30)
        before = driven.add("job", every="1m")
        driven.force("job")
        driven.turn(SECOND)
        driven.remove("job")
        driven.add("third", every="1m")
        assert driven.add("job", every="1m").task.schedule == before.task.schedule

    def test_it_follows_its_new_schedule_limit_and_start(self, driven: HandDrivenNode) -> None:
        running(driven, every="1s", phase="0s")
        driven.limits(db=1)
        driven.remove("job")
        driven.turn(10 * SECOND)
        driven.add("job", every="1m", phase="0s", limit="db")
        driven.add("other", every="1s", phase="0s", limit="db")
        assert driven.turn(2 * SECOND) == [], "the run counts against the limit of the new definition"
        driven.end("job")
        assert driven.names(driven.turn(SECOND)) == ["other"]
        skips = driven.store.skips(driven.admin.find_or_raise("job").number)
        assert sum(skip.times for skip in skips if skip.reason == "removed") == 0, "what passed while it was not there"

    def test_removed_once_more_it_ends_as_removed(self, driven: HandDrivenNode) -> None:
        running(driven)
        for _ in range(2):
            driven.remove("job")
            driven.add("job")
        driven.remove("job")
        driven.end("job")
        driven.turn()
        assert (driven.lifecycle.pending, driven.lifecycle.idle) == (0, 0)
        assert driven.advance(3 * MINUTE) == []

    def test_after_its_end_the_name_is_that_of_a_new_task(self, driven: HandDrivenNode) -> None:
        entry = running(driven)
        driven.remove("job")
        driven.end("job")
        driven.turn()
        assert driven.add("job").number != entry.number
        (run,) = driven.turn(MINUTE)
        assert run.cursor is None

    def test_the_node_learned_of_the_end_and_the_store_has_not_yet(self, driven: HandDrivenNode) -> None:
        entry = running(driven, check=True, retry="0s")
        driven.remove("job")
        driven.end("job", Outcome.FAILED, 2)
        driven.store.is_failing = True
        driven.turn()
        assert driven.add("job", check=True, retry="0s").number == entry.number
        driven.store.is_failing = False
        driven.loop.wait(60)
        (run,) = driven.turn(MINUTE)
        assert run.cursor == b"here"
        driven.end("job", Outcome.FAILED, 2)
        driven.turn()
        driven.loop.wait(60)
        condition = driven.condition("job")
        assert (condition.state, condition.attempt) == (State.CRITICAL, 2), "it was removed when its second run ended"

    @pytest.mark.parametrize("heard_of_it", [False, True])
    def test_removed_and_added_while_its_claim_is_on_its_way_only_the_new_task_runs(
        self, driven: HandDrivenNode, *, heard_of_it: bool
    ) -> None:
        """The claim is made before the node hears of the removal, and committed after it."""
        entry = driven.add("job", limit=None)
        driven.store.is_slow = True
        assert driven.turn(MINUTE) == []
        assert (driven.lifecycle.pending, driven.lifecycle.idle) == (1, 0)
        driven.admin.remove(Filter(names=("job",)), "ana")
        (new,) = driven.admin.add([entry.task], "ana", "ana").created
        assert new.number != entry.number
        if heard_of_it:
            driven.node.apply_changes()
        driven.store.commit()
        driven.loop.wait(0)
        assert driven.dispatched == []
        driven.node.apply_changes()
        assert (driven.lifecycle.pending, driven.lifecycle.idle) == (0, 1)
        assert driven.names(driven.turn(MINUTE)) == ["job"]
        assert driven.lifecycle.pending == 1
        assert driven.store.runs(entry.number) == []
        assert len(driven.store.runs(new.number)) == 1

    def test_removed_while_its_claim_is_on_its_way_the_others_of_its_batch_run(self, driven: HandDrivenNode) -> None:
        driven.add("job")
        driven.add("other")
        driven.store.is_slow = True
        driven.turn(MINUTE)
        driven.admin.remove(Filter(names=("job",)), "ana")
        driven.store.commit()
        driven.loop.wait(0)
        driven.loop.wait(0.2)
        assert driven.names(driven.dispatched) == ["other"]
        assert driven.lifecycle.pending == 1

    @pytest.mark.parametrize("is_stopped", [True, False])
    def test_a_crash_loses_its_run_once(self, driven: HandDrivenNode, *, is_stopped: bool) -> None:
        entry = running(driven)
        driven.remove("job")
        if not is_stopped:
            driven.add("job")
        else:
            (back,) = driven.admin.add([entry.task], "ana", "ana").created
            assert back.number == entry.number
        driven.restart(SECOND)
        driven.turn(2 * MINUTE)
        assert driven.lifecycle.pending == 1
        outcomes = [run.outcome for run in driven.store.runs(entry.number)]
        assert outcomes.count(Outcome.LOST) == 1


class TestMovedBetweenFiles:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[Path, Path]:
        a, b = tmp_path / "a.toml", tmp_path / "b.toml"
        b.write_text("")
        return a, b

    @pytest.mark.parametrize("kind", ["tasks", "checks"])
    def test_it_keeps_everything_but_its_owner(
        self, driven: HandDrivenNode, files: tuple[Path, Path], kind: str
    ) -> None:
        a, b = files
        a.write_text(TABLE.format(kind=kind).replace('phase = "0s"\n', ""))
        apply(driven, a, b)
        driven.pause("job")
        before = driven.admin.find_or_raise("job")
        driven.turn(MINUTE)
        a, b = b, a
        b.rename(b.with_name("c.toml"))
        b.write_text("")
        a.write_text(b.with_name("c.toml").read_text())
        changed = apply(driven, a, b)
        assert (len(changed.created), len(changed.changed), len(changed.removed)) == (0, 1, 0)
        after = driven.admin.find_or_raise("job")
        assert (after.number, after.id, after.task) == (before.number, before.id, before.task)
        assert after.owner == file_owner_of(a)
        assert driven.store.count(Filter(owner=file_owner_of(b))) == 0

    @pytest.mark.parametrize("at_once", [True, False])
    def test_a_running_one_never_runs_twice(
        self, driven: HandDrivenNode, files: tuple[Path, Path], *, at_once: bool
    ) -> None:
        a, b = files
        a.write_text(TABLE.format(kind="tasks"))
        apply(driven, a, b)
        number = driven.admin.find_or_raise("job").number
        assert len(driven.turn(MINUTE)) == 1
        b.write_text(a.read_text())
        a.write_text("")
        if at_once:
            apply(driven, a, b)
        else:
            apply(driven, a)
            assert driven.store.find("job") is None
            apply(driven, b)
        assert driven.admin.find_or_raise("job").number == number
        assert driven.admin.find_or_raise("job").owner == file_owner_of(b)
        assert driven.turn(3 * MINUTE) == []
        driven.end("job")
        assert len(driven.turn(MINUTE)) == 1
        assert driven.lifecycle.pending == 1


LOGGING = """[tasks.job]
every = "1s"
timebox = "1h"
command = ["sh", "-c", "echo start >> log; while [ -e hold ]; do sleep 0.02; done; echo end >> log"]
cwd = "{}"
"""
TICK = '[tasks.tick]\nevery = "1s"\ncommand = ["true"]\n'


def test_a_real_node_does_not_start_a_moved_task_beside_its_run(tmp_path: Path) -> None:
    a, b, log, hold = (tmp_path / name for name in ("a.toml", "b.toml", "log", "hold"))
    a.write_text(LOGGING.format(tmp_path))
    b.write_text(TICK)
    hold.touch()
    with LiveNode(tmp_path / "a.db", files=(a, b)) as node:
        eventually(log.exists)
        a.write_text("")
        b.write_text(TICK + LOGGING.format(tmp_path))
        with node.client() as client:
            changed = client.apply([])
        assert [entry.task.name for entry in changed.changed] == ["job"]
        ticked = len(node.runs("tick"))
        eventually(lambda: len(node.runs("tick")) > ticked + 2)
        assert log.read_text() == "start\n"
        hold.unlink()
        eventually(lambda: log.read_text().count("end") > 1)
    lines = log.read_text().split()
    assert lines == ["start", "end"] * (len(lines) // 2)
    assert len(node.runs("job")) == len(lines) // 2
