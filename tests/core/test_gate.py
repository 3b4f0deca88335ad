"""The gate: who of those that have arrived may run, who waits, who is skipped, and why - against a loop by hand."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.gate import REASONS, Arrivals, GateAction, Reason, verify
from evenbeat.model import HOUR, SECOND
from evenbeat.when.windows import FOREVER

UNLIMITED = 1_000
RUNS = (GateAction.EXECUTE, Reason.NONE)
NO_SLOT = (GateAction.WAIT, Reason.NO_SLOT)
AT_LIMIT = (GateAction.WAIT, Reason.LIMIT)
RUNNING = (GateAction.WAIT, Reason.RUNNING)
TOO_SOON = (GateAction.SKIP, Reason.TOO_SOON)

Verdict = tuple[GateAction, Reason]


class Arrival(NamedTuple):
    """One task that has arrived; unless told otherwise nothing keeps it from running."""

    forced: bool = False
    on_grid: bool = True
    enabled: bool = True
    period_open: bool = True
    mine: bool = True
    reachable: bool = True
    permitted: bool = True
    running: bool = False
    too_soon: bool = False
    nominal: int = 0
    priority: int = 0
    limit: int = 0


def forced(nominal: int = 0, limit: int = 0) -> Arrival:
    return Arrival(forced=True, on_grid=False, nominal=nominal, limit=limit)


def columns(arrivals: list[Arrival]) -> Arrivals:
    def bits(name: str) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        return np.array([getattr(a, name) for a in arrivals], dtype=np.bool_)

    return Arrivals(
        forced=bits("forced"),
        on_grid=bits("on_grid"),
        enabled=bits("enabled"),
        period_open=bits("period_open"),
        mine=bits("mine"),
        reachable=bits("reachable"),
        permitted=bits("permitted"),
        running=bits("running"),
        too_soon=bits("too_soon"),
        nominal=np.array([a.nominal for a in arrivals], dtype=np.int64),
        priority=np.array([a.priority for a in arrivals], dtype=np.int8),
        limit=np.array([a.limit for a in arrivals], dtype=np.int16),
    )


def gate(*arrivals: Arrival, slots: int = UNLIMITED, limits: tuple[int, ...] = ()) -> list[Verdict]:
    """The verdicts; `limits` are the free places of the keys 1, 2, ..."""
    action, reason = verify(columns(list(arrivals)), slots, np.array([UNLIMITED, *limits], dtype=np.int64))
    return [(GateAction(a), REASONS[r]) for a, r in zip(action.tolist(), reason.tolist(), strict=True)]


def why_skipped(a: Arrival) -> Reason | None:
    if not a.mine:
        return Reason.NOT_MINE
    if not a.permitted:
        return Reason.NOT_FROM_A_FILE
    if a.forced:
        return None
    if not a.enabled:
        return Reason.DISABLED
    if not a.period_open:
        return Reason.PERIOD_CLOSED
    if not a.reachable:
        return Reason.UNREACHABLE
    if a.on_grid and a.running:
        return Reason.COALESCED
    return None


def by_hand(arrivals: list[Arrival], slots: int, limits: tuple[int, ...]) -> list[Verdict]:
    """One after the other, as a clerk would: first a place within the limit, then a slot, at last the guard."""
    places = [UNLIMITED, *limits]
    verdicts: dict[int, Verdict] = {}
    for i in sorted(range(len(arrivals)), key=lambda i: arrivals[i].nominal - arrivals[i].priority * 10_000_000):
        a = arrivals[i]
        if (why := why_skipped(a)) is not None:
            verdicts[i] = (GateAction.SKIP, why)
        elif a.running:
            verdicts[i] = RUNNING
        elif a.limit > 0 and places[a.limit] <= 0:
            verdicts[i] = AT_LIMIT
        elif a.too_soon and a.on_grid and not a.forced:
            verdicts[i] = TOO_SOON if slots > 0 else NO_SLOT
        else:
            places[a.limit] -= 1
            verdicts[i] = RUNS if slots > 0 else NO_SLOT
            slots -= 1
    return [verdicts[i] for i in range(len(arrivals))]


usually = st.sampled_from([True] * 7 + [False])
seldom = usually.map(lambda b: not b)
some_arrivals = st.lists(
    st.builds(
        Arrival,
        forced=seldom,
        on_grid=st.booleans(),
        enabled=usually,
        period_open=usually,
        mine=usually,
        reachable=usually,
        permitted=usually,
        running=seldom,
        too_soon=seldom,
        nominal=st.integers(0, 60).map(lambda s: s * SECOND) | st.integers(0, HOUR),
        priority=st.integers(-3, 3) | st.integers(-128, 127),
        limit=st.integers(0, 3),
    ),
    max_size=40,
)
three_limits = st.tuples(*[st.integers(-3, 8)] * 3)


@given(some_arrivals, st.integers(-5, 30), three_limits)
def test_all_at_once_are_judged_as_one_after_the_other(
    arrivals: list[Arrival], slots: int, limits: tuple[int, ...]
) -> None:
    assert gate(*arrivals, slots=slots, limits=limits) == by_hand(arrivals, slots, limits)


@given(some_arrivals, st.integers(-5, 30), three_limits)
def test_never_more_run_than_slots_and_limits_allow(
    arrivals: list[Arrival], slots: int, limits: tuple[int, ...]
) -> None:
    verdicts = gate(*arrivals, slots=slots, limits=limits)
    run = [a for a, verdict in zip(arrivals, verdicts, strict=True) if verdict == RUNS]
    assert len(run) <= max(slots, 0)
    for key, free in enumerate(limits, start=1):
        assert sum(a.limit == key for a in run) <= max(free, 0)


@given(some_arrivals, st.integers(-5, 30), three_limits)
def test_the_verdicts_change_nothing_that_was_given(
    arrivals: list[Arrival], slots: int, limits: tuple[int, ...]
) -> None:
    given_columns, places = columns(arrivals), np.array([UNLIMITED, *limits], dtype=np.int64)
    verify(given_columns, slots, places)
    assert places.tolist() == [UNLIMITED, *limits]
    before = columns(arrivals)
    for field in Arrivals._fields:
        assert np.array_equal(getattr(before, field), getattr(given_columns, field))


def test_an_empty_agenda_has_no_verdicts() -> None:
    assert gate() == []
    assert gate(slots=-1, limits=(-1,)) == []


def test_with_slots_for_all_nobody_waits() -> None:
    assert gate(Arrival(), Arrival(limit=1), forced(), slots=3, limits=(1,)) == [RUNS] * 3


@pytest.mark.parametrize(
    ("reason", "obstacles"),
    [
        (Reason.NOT_MINE, {"mine": False}),
        (Reason.NOT_FROM_A_FILE, {"permitted": False}),
        (Reason.DISABLED, {"enabled": False}),
        (Reason.PERIOD_CLOSED, {"period_open": False}),
        (Reason.UNREACHABLE, {"reachable": False}),
        (Reason.COALESCED, {"running": True}),
        (Reason.TOO_SOON, {"too_soon": True}),
    ],
)
def test_each_obstacle_skips_with_its_own_reason(reason: Reason, obstacles: dict[str, bool]) -> None:
    assert gate(Arrival()._replace(**obstacles)) == [(GateAction.SKIP, reason)]


def test_of_several_reasons_the_first_in_the_documented_order_is_told() -> None:
    everything_against_it = Arrival(
        mine=False, permitted=False, enabled=False, period_open=False, reachable=False, running=True, too_soon=True
    )
    answers = []
    a = everything_against_it
    for cured in (
        {"mine": True},
        {"permitted": True},
        {"enabled": True},
        {"period_open": True},
        {"reachable": True},
        {"running": False},
    ):
        answers += gate(a)
        a = a._replace(**cured)
    answers += gate(a)
    assert [reason for _, reason in answers] == [
        Reason.NOT_MINE,
        Reason.NOT_FROM_A_FILE,
        Reason.DISABLED,
        Reason.PERIOD_CLOSED,
        Reason.UNREACHABLE,
        Reason.COALESCED,
        Reason.TOO_SOON,
    ]


def test_a_forced_run_ignores_enabled_period_reachability_and_guard() -> None:
    against = forced()._replace(enabled=False, period_open=False, reachable=False, too_soon=True)
    assert gate(against) == [RUNS]
    assert gate(against._replace(on_grid=True)) == [RUNS]


def test_a_forced_run_never_ignores_authority() -> None:
    assert gate(forced()._replace(mine=False)) == [(GateAction.SKIP, Reason.NOT_MINE)]
    assert gate(forced()._replace(permitted=False)) == [(GateAction.SKIP, Reason.NOT_FROM_A_FILE)]


def test_a_nominal_time_merges_into_the_running_instance_and_everything_else_waits_for_its_end() -> None:
    assert gate(Arrival(running=True)) == [(GateAction.SKIP, Reason.COALESCED)]
    assert gate(Arrival(running=True, on_grid=False)) == [RUNNING]
    assert gate(forced()._replace(running=True)) == [RUNNING]
    assert gate(forced()._replace(running=True, on_grid=True)) == [RUNNING]


def test_the_guard_is_for_runs_on_the_grid_only() -> None:
    assert gate(Arrival(on_grid=False, too_soon=True)) == [RUNS]


def test_who_comes_too_soon_is_dropped_when_it_is_its_turn_and_not_before() -> None:
    hasty = Arrival(nominal=1, too_soon=True, limit=1)
    assert gate(hasty, slots=1, limits=(1,)) == [TOO_SOON]
    assert gate(hasty, slots=0, limits=(1,)) == [NO_SLOT]
    assert gate(hasty, slots=1, limits=(0,)) == [AT_LIMIT]
    assert gate(hasty, Arrival(nominal=0), slots=1, limits=(1,)) == [NO_SLOT, RUNS]


def test_who_is_dropped_leaves_slot_and_place_to_the_next() -> None:
    hasty, next_one = Arrival(nominal=0, too_soon=True, limit=1), Arrival(nominal=1, limit=1)
    assert gate(hasty, next_one, slots=1, limits=(1,)) == [TOO_SOON, RUNS]


def test_a_forced_run_waits_for_a_slot_like_everybody_else() -> None:
    assert gate(forced(), slots=0) == [NO_SLOT]
    assert gate(forced(nominal=2), Arrival(nominal=1), slots=1) == [NO_SLOT, RUNS]


def test_a_forced_run_waits_at_its_limit() -> None:
    assert gate(forced(limit=1), limits=(0,)) == [AT_LIMIT]


def test_while_a_lowered_limit_drains_nothing_runs() -> None:
    assert gate(Arrival(), forced(), slots=-3) == [NO_SLOT] * 2
    assert gate(Arrival(limit=1), Arrival(), limits=(-2,)) == [AT_LIMIT, RUNS]


def test_at_saturation_who_was_due_first_goes_first() -> None:
    due_at = [30, 10, 40, 20]
    assert gate(*(Arrival(nominal=t) for t in due_at), slots=2) == [NO_SLOT, RUNS, NO_SLOT, RUNS]


def test_those_due_together_go_in_the_order_of_their_arrival() -> None:
    assert gate(*[Arrival(nominal=7)] * 4, slots=2) == [RUNS, RUNS, NO_SLOT, NO_SLOT]


def test_a_step_of_priority_is_worth_ten_seconds_of_waiting() -> None:
    ordinary = Arrival(nominal=0)
    assert gate(ordinary, Arrival(nominal=10 * SECOND - 1, priority=1), slots=1) == [NO_SLOT, RUNS]
    assert gate(ordinary, Arrival(nominal=10 * SECOND, priority=1), slots=1) == [RUNS, NO_SLOT]
    assert gate(ordinary, Arrival(nominal=-10 * SECOND - 1, priority=-1), slots=1) == [NO_SLOT, RUNS]
    assert gate(ordinary, Arrival(nominal=30 * SECOND - 1, priority=3), slots=1) == [NO_SLOT, RUNS]


def test_who_has_waited_long_enough_beats_the_highest_priority() -> None:
    patient, urgent = Arrival(nominal=0, priority=-128), Arrival(nominal=255 * 10 * SECOND, priority=127)
    assert gate(urgent, patient, slots=1) == [RUNS, NO_SLOT]
    assert gate(urgent._replace(nominal=urgent.nominal + 1), patient, slots=1) == [NO_SLOT, RUNS]


@pytest.mark.parametrize("nominal", [-FOREVER, 0, 2_000_000_000 * SECOND, FOREVER])
def test_the_largest_priorities_do_not_overflow(nominal: int) -> None:
    lowest, middle, highest = (Arrival(nominal=nominal, priority=p) for p in (-128, 0, 127))
    assert gate(lowest, middle, highest, slots=1) == [NO_SLOT, NO_SLOT, RUNS]
    assert gate(lowest, middle, highest, slots=2) == [NO_SLOT, RUNS, RUNS]


def test_a_full_key_never_blocks_a_task_of_another() -> None:
    full = [Arrival(nominal=t, limit=1) for t in range(5)]
    others = [Arrival(nominal=10, limit=2), Arrival(nominal=11)]
    assert gate(*full, *others, slots=2, limits=(0, 1)) == [AT_LIMIT] * 5 + [RUNS] * 2


def test_within_a_key_the_first_in_order_get_its_places() -> None:
    assert gate(*(Arrival(nominal=t, limit=1) for t in (3, 1, 2)), limits=(2,)) == [AT_LIMIT, RUNS, RUNS]


def test_who_is_skipped_or_waits_for_its_own_end_takes_neither_slot_nor_place() -> None:
    away = [Arrival(enabled=False, limit=1), Arrival(running=True, on_grid=False, limit=1)]
    verdicts = gate(*away, Arrival(nominal=1, limit=1), slots=1, limits=(1,))
    assert verdicts == [(GateAction.SKIP, Reason.DISABLED), RUNNING, RUNS]
