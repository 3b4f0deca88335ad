"""The history is compacted beside a node: by one node, with pauses, and a failing store does no harm."""

import asyncio
import logging
from collections.abc import Generator

import pytest

from evenbeat.node.history import history_keeper
from evenbeat.node.history.history_keeper import HistoryKeeper, tasks_of
from evenbeat.store.contract import StoreError
from evenbeat.store.history_contract import PartGone
from evenbeat.store.memory import MemoryStore
from evenbeat.testing.samples import T0, a_task


class Rounds:
    """What a compactor does in each of its rounds."""

    def __init__(self, *rounds: int | Exception) -> None:
        self._rounds = list(rounds)
        self.begun = self.slices = self.closed = 0

    def round(self) -> Generator[None, None, None]:
        """Slices, or an error."""
        self.begun += 1
        found = self._rounds.pop(0) if self._rounds else 0
        if isinstance(found, Exception):
            raise found
        try:
            for _ in range(found):
                self.slices += 1
                yield
        except GeneratorExit:
            self.closed += 1
            raise


async def kept(rounds: Rounds, *, ours: bool = True) -> int:
    """Have the rounds made; how often something was measured."""
    measured = 0

    def begin_measuring() -> "type[None] | object":
        def measure() -> None:
            nonlocal measured
            measured += 1

        return measure

    keeper = HistoryKeeper(rounds, lambda: ours, begin_measuring)  # type: ignore[arg-type]
    job = asyncio.create_task(keeper.run())
    while ours and rounds._rounds:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)
    job.cancel()
    await keeper.stop()
    return measured


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and retries follow each other at once."""
    monkeypatch.setattr(history_keeper, "_INTERVAL", 0.001)
    monkeypatch.setattr(history_keeper, "_RETRY", 0.001)


class TestRounds:
    def test_one_round_follows_another(self) -> None:
        rounds = Rounds(3, 2)
        assert asyncio.run(kept(rounds)) >= 2
        assert rounds.slices == 5

    def test_a_failing_store_is_logged_once_and_tried_again(self, caplog: pytest.LogCaptureFixture) -> None:
        rounds = Rounds(StoreError("disk full"), StoreError("disk full"), StoreError("disk full"), 1)
        with caplog.at_level(logging.INFO):
            asyncio.run(kept(rounds))
        assert caplog.messages == [
            "the history is not compacted: disk full",
            "the history is compacted again",
        ]

    def test_what_another_node_has_done_meanwhile_is_no_error(self, caplog: pytest.LogCaptureFixture) -> None:
        rounds = Rounds(PartGone("part 7"), 2)
        with caplog.at_level(logging.INFO):
            asyncio.run(kept(rounds))
        assert (rounds.slices, caplog.messages) == (2, [])

    def test_a_node_that_is_not_the_one_does_nothing(self) -> None:
        rounds = Rounds(3)
        assert asyncio.run(kept(rounds, ours=False)) == 0
        assert rounds.begun == 0

    def test_a_round_under_way_is_closed_when_the_node_stops(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history_keeper, "_SLICE", 0.0)
        rounds = Rounds(1_000_000)
        asyncio.run(kept(rounds))
        assert rounds.closed == 1


def test_the_tasks_that_exist_are_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_keeper, "_TASKS_AT_ONCE", 4)
    store = MemoryStore()
    entries = store.create([a_task(f"task-{i}") for i in range(10)], "test", T0)
    store.remove([entries[3].number], T0)
    found = list(tasks_of(store))
    assert [len(some) for some in found] == [0, 4, 4, 1]
    assert {number for some in found for number in some} == {e.number for e in entries} - {entries[3].number}
