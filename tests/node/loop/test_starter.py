"""Runs are handed over at the moment they are due, and never before, or so long before as their worker waits for it."""

import asyncio
from collections.abc import Sequence
from typing import cast

import msgspec
from hand_driven_node import T0, VirtualLoop
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.clock.node_clock import Clock
from evenbeat.model import HOUR, SECOND
from evenbeat.node.loop.counters import RunCounters
from evenbeat.node.loop.starter import CLAIM_AHEAD, ReadyRuns, Starter
from evenbeat.wire.worker_frames import RunSpec

JOB = msgspec.Raw(msgspec.msgpack.encode({"command": ["noop"]}))


class Stage:
    """A starter on a virtual loop, and what it has handed over: token, when, function and pool."""

    def __init__(self, lead: int = 0) -> None:
        self.early_delivery = lead
        self.is_busy = False
        self.loop = VirtualLoop()
        self.wall = int(T0)
        self.clock = Clock(wall=lambda: self.wall + self._passed(), boot=self._passed)
        self.counts = RunCounters()
        self.wanted = set(range(100))
        self.handed: list[tuple[int, int, str | None, str | None]] = []
        self.starter = Starter(self, self.clock, self.counts, self.wanted)

    def _passed(self) -> int:
        return round(self.loop.time() * SECOND)

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),
        pools: Sequence[str | None] | None = None,
    ) -> None:
        assert [run.token * 10 for run in runs] == list(tasks)
        nobody = cast("list[str | None]", [None] * len(runs))
        for run, function, pool in zip(runs, functions or nobody, pools or nobody, strict=True):
            self.handed.append((run.token, self.clock.now() - T0, function, pool))

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        raise AssertionError

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        raise AssertionError

    def start(
        self,
        *due: int,
        functions: list[str | None] | None = None,
        first: int = 0,
        claimed_at: int | None = None,
    ) -> None:
        """Due so long after the begin; the tokens count from `first`. `claimed_at` is what `moved` was then."""
        tokens = range(first, first + len(due))
        runs = [
            RunSpec(token, JOB, f"t{token}", T0 + at, 0, SECOND, 0, 0, 0, 0, 1, None)
            for token, at in zip(tokens, due, strict=True)
        ]

        async def started() -> None:
            ready = ReadyRuns([T0 + at for at in due], runs, functions, [t * 10 for t in tokens], None)
            self.starter.start(ready, claimed_at)

        self.loop.run_until_complete(started())


def test_what_is_due_goes_at_once_and_the_rest_when_it_is() -> None:
    stage = Stage()
    stage.start(-5, 0, 10_000, 10_500, 30_000)
    assert [token for token, *_ in stage.handed] == [0, 1]
    stage.loop.wait(1)
    assert [token for token, *_ in stage.handed] == [0, 1, 2, 3, 4]
    assert stage.counts.runs == 5


def all_handed_over(dues: list[list[int]], lead: int = 0) -> tuple[Stage, dict[int, int]]:
    """After these were held for as long as it took; and when each of them was due."""
    stage = Stage(lead)
    wanted: dict[int, int] = {}
    for due in dues:
        stage.start(*sorted(due), first=len(wanted))
        wanted.update(enumerate(sorted(due), len(wanted)))
    stage.loop.wait(1)
    assert sorted(token for token, *_ in stage.handed) == sorted(wanted)
    return stage, wanted


@given(st.lists(st.lists(st.integers(-10_000, CLAIM_AHEAD), min_size=1, max_size=5), min_size=1, max_size=5))
def test_nothing_is_early_or_much_later_than_it_is_due_whatever_else_is_held(dues: list[list[int]]) -> None:
    stage, wanted = all_handed_over(dues)
    assert all(0 <= at - max(wanted[token], 0) <= 2_000 for token, at, *_ in stage.handed)


@given(
    st.lists(st.lists(st.integers(-10_000, CLAIM_AHEAD), min_size=1, max_size=5), min_size=1, max_size=5),
    st.sampled_from([1_000, 20_000, CLAIM_AHEAD]),
)
def test_who_waits_for_the_moment_has_them_before_it_and_no_sooner_than_it_takes_them(
    dues: list[list[int]], lead: int
) -> None:
    stage, wanted = all_handed_over(dues, lead)
    before = {token: wanted[token] - at for token, at, *_ in stage.handed}
    assert all(early <= lead for early in before.values())
    assert all(early >= min(wanted[token], 0.5 * lead - 2_000) for token, early in before.items())


def test_each_has_its_own_function() -> None:
    stage = Stage()
    stage.start(0, 10_000, 20_000, functions=["a:a", None, "b:b"])
    stage.loop.wait(1)
    assert [function for *_, function, _ in stage.handed] == ["a:a", None, "b:b"]


def test_what_is_not_wanted_any_more_does_not_go() -> None:
    stage = Stage()
    stage.start(0, 10_000, 20_000, functions=["a:a", "b:b", "c:c"])
    assert stage.starter.held() == {1, 2}
    stage.wanted.discard(1)
    stage.loop.wait(1)
    assert [(token, function) for token, _, function, _ in stage.handed] == [(0, "a:a"), (2, "c:c")]
    assert stage.starter.held() == set()


def test_what_is_dropped_does_not_go() -> None:
    stage = Stage()
    stage.start(10_000, 20_000)
    stage.wanted.discard(1)
    assert [run.token for run in stage.starter.drop()] == [0]
    stage.loop.wait(1)
    assert stage.handed == []


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    stage = Stage()
    stage.start(10_000, 20_000)
    stage.wall -= HOUR
    assert stage.clock.compare() == -HOUR
    stage.loop.wait(1)
    assert [token for token, *_ in stage.handed] == [0, 1]


@given(
    st.lists(st.integers(-10_000, CLAIM_AHEAD), min_size=1, max_size=5),
    st.sampled_from([-HOUR, -2 * SECOND, 2 * SECOND, HOUR]),
    st.sampled_from([0, 20_000]),
    st.booleans(),
)
def test_what_is_claimed_and_not_started_moves_with_the_clock(
    dues: list[int], by: int, lead: int, is_committed: bool
) -> None:
    stage, calm = Stage(lead), Stage(lead)
    calm.start(*sorted(dues))
    calm.loop.wait(1)
    handed_over = []

    def set_clock() -> None:
        handed_over.extend(stage.handed)
        stage.handed.clear()
        stage.wall += by
        assert stage.clock.compare() == by
        stage.starter.clock_was_set(by)

    if is_committed:
        stage.start(*sorted(dues))
        set_clock()
    else:
        set_clock()
        stage.start(*sorted(dues), claimed_at=0)
    stage.loop.wait(1)
    moved = [(token, at - by, function, pool) for token, at, function, pool in stage.handed]
    assert [*handed_over, *moved] == calm.handed


def test_it_waits_for_nothing_when_nothing_is_held() -> None:
    stage = Stage()
    stage.start(0)

    async def others() -> set[asyncio.TimerHandle]:
        return set(getattr(asyncio.get_running_loop(), "_scheduled", ()))

    assert stage.loop.run_until_complete(others()) == set()
