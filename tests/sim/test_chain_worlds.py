"""States of small worlds of tasks that run after others (`make faults`: every one); bugs that are planted are found."""

from collections.abc import Callable, Sequence

import pytest
from budget import IS_FULL

from evenbeat.core.chains import Chains, EndedParent, ParentEnd
from evenbeat.core.task import ReleaseResult, SkipColumns
from evenbeat.model import Instant, Schedule
from evenbeat.sim.chain_explore import CHAIN_WORLDS, ChainShape, explore_chains


@pytest.mark.parametrize("shape", CHAIN_WORLDS, ids=lambda shape: shape.name)
def test_no_state_of_a_world_breaks_a_property(shape: ChainShape) -> None:
    explored = explore_chains(shape, most=(None if shape.edited is None else 32) if IS_FULL else 16)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states >= (32 if IS_FULL else 16)


class _UsesNothing(Chains):
    def settle(self, released: ReleaseResult) -> ReleaseResult:
        return released


class _RunsAfterAny(Chains):
    def define(self, row: int, schedule: Schedule, since: int) -> None:
        super().define(row, Schedule(after=schedule.after[:1]) if schedule.after else schedule, since)


class _ForgetsPauses(Chains):
    def suspend(self, rows: object) -> None:
        pass


class _LosesWhatComesTwice(Chains):
    def _follow(self, row: int, before: ParentEnd | None) -> list[SkipColumns]:
        return [] if before is not None else super()._follow(row, before)


class _CountsFailures(Chains):
    def learn(self, ended: Sequence[EndedParent], now: Instant) -> list[SkipColumns]:
        return super().learn([parent._replace(succeeded=True) for parent in ended], now)


class _RunsTwice(Chains):
    def _use(self, row: int) -> None:
        self._changed.add(row)


class _LosesAtRestart(Chains):
    def make_due(self, rows: object, now: Instant) -> None:
        if now % 60_000_000 or self._changed:
            super().make_due(rows, now)  # type: ignore[arg-type]


class _CountsWhatNewParentsDid(Chains):
    def define(self, row: int, schedule: Schedule, since: int) -> None:
        super().define(row, schedule, 0)


class _ForgetsWhatStays(Chains):
    def define(self, row: int, schedule: Schedule, since: int) -> None:
        self.forget([row] if row in self._tasks else [])
        super().define(row, schedule, since)


@pytest.mark.parametrize("bug", [_CountsWhatNewParentsDid, _ForgetsWhatStays])
def test_a_bug_of_edits_is_found(bug: Callable[..., Chains]) -> None:
    assert any(explore_chains(shape, bug, most=20).counterexample for shape in CHAIN_WORLDS if shape.edited)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bug",
    [_UsesNothing, _RunsAfterAny, _ForgetsPauses, _LosesWhatComesTwice, _CountsFailures, _RunsTwice, _LosesAtRestart],
)
def test_a_bug_is_found(bug: Callable[..., Chains]) -> None:
    found = [explore_chains(shape, bug, most=12).counterexample for shape in CHAIN_WORLDS]  # type: ignore[arg-type]
    assert any(found)
    assert min(len(one.events) for one in found if one is not None) <= 5
