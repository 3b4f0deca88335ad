"""A name that comes back while its run lasts is the same task: never two instances, and nothing of it is lost."""

from pathlib import Path
from typing import Any

import pytest
from hand_driven_node import Hand
from live_node import LiveNode
from waiting import eventually

from evenbeat.admin.file_owner import file_owner_of
from evenbeat.model import MINUTE, SECOND, Entry, Outcome, State
from evenbeat.store.contract import Filter
from evenbeat.wire.replies import ChangeResult

TABLE = '[{kind}.job]\nevery = "1m"\nphase = "0s"\ncommand = ["true"]\n'


@pytest.fixture
def hand() -> Hand:
    return Hand()


def running(hand: Hand, name: str = "job", **keys: Any) -> Entry:
    """A task in its second run: the first saved a cursor, and made a problem of a check."""
    entry = hand.add(name, **keys)
    hand.turn(MINUTE)
    hand.end(name, Outcome.FAILED, 2, cursor=b"here")
    hand.turn()
    hand.force(name)
    (run,) = hand.turn(SECOND)
    assert run.name == name
    return entry


def apply(hand: Hand, *files: Path) -> ChangeResult:
    changed = hand.desk.apply(files, "ana", anew=True)
    hand.node.apply_changes()
    return changed


class TestRemovedAndAddedAgain:
    def test_it_is_the_same_task_and_never_runs_twice(self, hand: Hand) -> None:
        entry = running(hand)
        hand.remove("job")
        back = hand.add("job", every="1s")
        assert (back.number, back.id, back.version) == (entry.number, entry.id, 2)
        assert hand.turn(5 * SECOND) == [], "its run still lasts"
        assert (hand.life.pending, hand.life.idle) == (1, 0)
        hand.end("job")
        (run,) = hand.turn(SECOND)
        assert run.cursor == b"here"
        assert (hand.life.pending, hand.life.idle) == (1, 0)
        assert len(hand.store.runs(entry.number)) == 3

    def test_the_result_of_that_run_counts(self, hand: Hand) -> None:
        entry = running(hand, check=True, retry="0s")
        assert hand.condition("job").state is State.CRITICAL
        hand.remove("job")
        hand.add("job", check=True, retry="0s")
        hand.end("job", Outcome.FAILED, 2)
        hand.turn()
        condition = hand.condition("job")
        assert (condition.entry.number, condition.state, condition.attempt) == (entry.number, State.CRITICAL, 2)
        assert hand.store.removed_running() == []

    def test_a_task_with_a_phase_of_the_wheel_keeps_it(self, hand: Hand) -> None:
        hand.add("other", every="1m", weight=30)
        before = hand.add("job", every="1m")
        hand.force("job")
        hand.turn(SECOND)
        hand.remove("job")
        hand.add("third", every="1m")
        assert hand.add("job", every="1m").task.schedule == before.task.schedule

    def test_it_follows_its_new_schedule_limit_and_start(self, hand: Hand) -> None:
        running(hand, every="1s", phase="0s")
        hand.limits(db=1)
        hand.remove("job")
        hand.turn(10 * SECOND)
        hand.add("job", every="1m", phase="0s", limit="db")
        hand.add("other", every="1s", phase="0s", limit="db")
        assert hand.turn(2 * SECOND) == [], "the run counts against the limit of the new definition"
        hand.end("job")
        assert hand.names(hand.turn(SECOND)) == ["other"]
        skips = hand.store.skips(hand.desk.find_or_raise("job").number)
        assert sum(skip.times for skip in skips if skip.reason == "removed") == 0, "what passed while it was not there"

    def test_removed_once_more_it_ends_as_removed(self, hand: Hand) -> None:
        running(hand)
        for _ in range(2):
            hand.remove("job")
            hand.add("job")
        hand.remove("job")
        hand.end("job")
        hand.turn()
        assert (hand.life.pending, hand.life.idle) == (0, 0)
        assert hand.advance(3 * MINUTE) == []

    def test_after_its_end_the_name_is_that_of_a_new_task(self, hand: Hand) -> None:
        entry = running(hand)
        hand.remove("job")
        hand.end("job")
        hand.turn()
        assert hand.add("job").number != entry.number
        (run,) = hand.turn(MINUTE)
        assert run.cursor is None

    def test_the_node_learned_of_the_end_and_the_store_has_not_yet(self, hand: Hand) -> None:
        entry = running(hand, check=True, retry="0s")
        hand.remove("job")
        hand.end("job", Outcome.FAILED, 2)
        hand.store.is_failing = True
        hand.turn()
        assert hand.add("job", check=True, retry="0s").number == entry.number
        hand.store.is_failing = False
        hand.loop.wait(60)
        (run,) = hand.turn(MINUTE)
        assert run.cursor == b"here"
        hand.end("job", Outcome.FAILED, 2)
        hand.turn()
        hand.loop.wait(60)
        condition = hand.condition("job")
        assert (condition.state, condition.attempt) == (State.CRITICAL, 2), "it was removed when its second run ended"

    @pytest.mark.parametrize("heard_of_it", [False, True])
    def test_removed_and_added_while_its_claim_is_on_its_way_only_the_new_task_runs(
        self, hand: Hand, *, heard_of_it: bool
    ) -> None:
        """The claim is made before the node hears of the removal, and committed after it."""
        entry = hand.add("job", limit=None)
        hand.store.is_slow = True
        assert hand.turn(MINUTE) == []
        assert (hand.life.pending, hand.life.idle) == (1, 0)
        hand.desk.remove(Filter(names=("job",)), "ana")
        (new,) = hand.desk.add([entry.task], "ana", "ana").created
        assert new.number != entry.number
        if heard_of_it:
            hand.node.apply_changes()
        hand.store.commit()
        hand.loop.wait(0)
        assert hand.dispatched == []
        hand.node.apply_changes()
        assert (hand.life.pending, hand.life.idle) == (0, 1)
        assert hand.names(hand.turn(MINUTE)) == ["job"]
        assert hand.life.pending == 1
        assert hand.store.runs(entry.number) == []
        assert len(hand.store.runs(new.number)) == 1

    def test_removed_while_its_claim_is_on_its_way_the_others_of_its_batch_run(self, hand: Hand) -> None:
        hand.add("job")
        hand.add("other")
        hand.store.is_slow = True
        hand.turn(MINUTE)
        hand.desk.remove(Filter(names=("job",)), "ana")
        hand.store.commit()
        hand.loop.wait(0)
        hand.loop.wait(0.2)
        assert hand.names(hand.dispatched) == ["other"]
        assert hand.life.pending == 1

    @pytest.mark.parametrize("is_stopped", [True, False])
    def test_a_crash_loses_its_run_once(self, hand: Hand, *, is_stopped: bool) -> None:
        entry = running(hand)
        hand.remove("job")
        if not is_stopped:
            hand.add("job")
        else:
            (back,) = hand.desk.add([entry.task], "ana", "ana").created
            assert back.number == entry.number
        hand.restart(SECOND)
        hand.turn(2 * MINUTE)
        assert hand.life.pending == 1
        outcomes = [run.outcome for run in hand.store.runs(entry.number)]
        assert outcomes.count(Outcome.LOST) == 1


class TestMovedBetweenFiles:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[Path, Path]:
        a, b = tmp_path / "a.toml", tmp_path / "b.toml"
        b.write_text("")
        return a, b

    @pytest.mark.parametrize("kind", ["tasks", "checks"])
    def test_it_keeps_everything_but_its_owner(self, hand: Hand, files: tuple[Path, Path], kind: str) -> None:
        a, b = files
        a.write_text(TABLE.format(kind=kind).replace('phase = "0s"\n', ""))
        apply(hand, a, b)
        hand.pause("job")
        before = hand.desk.find_or_raise("job")
        hand.turn(MINUTE)
        a, b = b, a
        b.rename(b.with_name("c.toml"))
        b.write_text("")
        a.write_text(b.with_name("c.toml").read_text())
        changed = apply(hand, a, b)
        assert (len(changed.created), len(changed.changed), len(changed.removed)) == (0, 1, 0)
        after = hand.desk.find_or_raise("job")
        assert (after.number, after.id, after.task) == (before.number, before.id, before.task)
        assert after.owner == file_owner_of(a)
        assert hand.store.count(Filter(owner=file_owner_of(b))) == 0

    @pytest.mark.parametrize("at_once", [True, False])
    def test_a_running_one_never_runs_twice(self, hand: Hand, files: tuple[Path, Path], *, at_once: bool) -> None:
        a, b = files
        a.write_text(TABLE.format(kind="tasks"))
        apply(hand, a, b)
        number = hand.desk.find_or_raise("job").number
        assert len(hand.turn(MINUTE)) == 1
        b.write_text(a.read_text())
        a.write_text("")
        if at_once:
            apply(hand, a, b)
        else:
            apply(hand, a)
            assert hand.store.find("job") is None
            apply(hand, b)
        assert hand.desk.find_or_raise("job").number == number
        assert hand.desk.find_or_raise("job").owner == file_owner_of(b)
        assert hand.turn(3 * MINUTE) == []
        hand.end("job")
        assert len(hand.turn(MINUTE)) == 1
        assert hand.life.pending == 1


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
        with node.door() as door:
            changed = door.apply([])
        assert [entry.task.name for entry in changed.changed] == ["job"]
        ticked = len(node.runs("tick"))
        eventually(lambda: len(node.runs("tick")) > ticked + 2)
        assert log.read_text() == "start\n"
        hold.unlink()
        eventually(lambda: log.read_text().count("end") > 1)
    lines = log.read_text().split()
    assert lines == ["start", "end"] * (len(lines) // 2)
    assert len(node.runs("job")) == len(lines) // 2
