"""Problems whose parents are checks of another node: these are run and waited for as those of this node are."""

import numpy as np
import pytest
from alert_scenario import AlertScenario
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.alerts import Hold
from evenbeat.core.problem_holds import ASK_AGAIN_AFTER, PARENTS_LIMIT
from evenbeat.core.reachability import ForeignResult, fails
from evenbeat.core.task import ALL_FLAGS, Flag
from evenbeat.model import MINUTE, SECOND, Entry, Instant, Schedule, State, Task

OK, CRITICAL = State.OK, State.CRITICAL
LIMIT = PARENTS_LIMIT // SECOND
GATHER = 30
_ENABLED = int(Flag.ENABLED)
_ROUTER = Task("router", Schedule(every=MINUTE, phase=0), check=True)
_ENTRY = Entry(7, "r", 1, "ana", Instant(0), Instant(0), _ROUTER)
TAKES = 2
"""Seconds from the moment that the router is asked for a run until its result is there."""


class TwoNodes:
    """One node has the router, the other one the hosts behind it; each second it looks how the router is."""

    def __init__(self, attempts: int = 1) -> None:
        self.owner, self.node = AlertScenario(), AlertScenario()
        self.owner.check("router", attempts=attempts)
        self.node.reachability.has_other_nodes = True
        self.node.contact("ops")
        self.node.check("host", "other", depends=["router"])
        self.router_is = OK
        """What a run of the router finds."""
        self.answers = True
        """Does the other node live?"""
        self.runs: list[int] = []
        """When the router was run because the other node asked for it."""
        self._begun: list[int] = []
        self._look()

    def after(self, seconds: int) -> None:
        for _ in range(seconds):
            self.owner.after(1)
            self.node.after(1)
            if self.answers:
                self._perform()
            self._look()

    def _look(self) -> None:
        c, row, known = self.owner.columns, self.owner.rows["router"], self.node.reachability
        is_off = not int(c.flags[row]) & _ENABLED
        state, hard = int(c.state[row]), bool(c.hard[row])
        known.define_foreign({"router": _ENTRY})
        known.learn_foreign({"router": fails(is_check=True, is_off=is_off, state=state, hard=hard)})
        is_soft = not hard and state != State.OK
        known.learn_foreign_results({"router": ForeignResult(int(c.result_at[row]), is_soft=is_soft, is_off=is_off)})
        self.node.holds.learn_ends(known.settle(), self.node.now)

    def _perform(self) -> None:
        now, holds = self.owner.now, self.owner.holds
        asks = self.node.holds.foreign_asks()
        assert {ask.number for ask in asks.values()} <= {_ENTRY.number}
        for name, ask in asks.items():
            (can,) = holds.ask_for_other_node(np.array([self.owner.rows[name]]), np.array([ask.since]), now).tolist()
            if not can:
                self.node.reachability.learn_unable({name: ask})
        if holds.wanted_runs().size:
            self.runs.append(now)
            self._begun.append(now)
        while self._begun and now - self._begun[0] >= TAKES * SECOND:
            self.owner.result(self.router_is, "router", began=(now - self._begun.pop(0)) // SECOND)

    def pause_router(self, *, paused: bool) -> None:
        flags, row = self.owner.columns.flags, self.owner.rows["router"]
        flags[row] = int(flags[row]) & (ALL_FLAGS ^ _ENABLED) | (0 if paused else _ENABLED)


def test_a_parent_elsewhere_is_run_before_a_problem_is_told() -> None:
    world = TwoNodes()
    world.after(60)
    world.node.result(CRITICAL, "host")
    assert world.node.case("host").hold is Hold.CHECKING_PARENTS
    world.after(TAKES + 2 + GATHER)
    assert len(world.runs) == 1
    assert world.node.told() == ["problem host CRITICAL"]


def test_behind_a_router_elsewhere_that_is_about_to_be_down_nothing_is_told() -> None:
    """icinga2 #8201, with the switch on the other node: the children turn HARD before it does."""
    world = TwoNodes(attempts=3)
    world.owner.result(OK, "router")
    world.after(60)
    world.router_is = CRITICAL
    world.node.result(CRITICAL, "host", "other")
    world.after(60)
    assert world.node.case("host").hold is Hold.CHECKING_PARENTS, "the router is SOFT"
    for _ in range(2):
        world.owner.result(CRITICAL, "router")
        world.after(60)
    assert world.node.case("host").hold is Hold.UNREACHABLE
    assert world.node.told() == []


@pytest.mark.parametrize("dies_after", [0, TAKES + 2])
def test_a_node_that_is_gone_holds_a_problem_for_five_minutes_at_most(dies_after: int) -> None:
    world = TwoNodes(attempts=3)
    world.router_is = CRITICAL
    world.after(60)
    world.node.result(CRITICAL, "host")
    world.after(dies_after)
    world.answers = False
    world.after(LIMIT + GATHER - dies_after - 1)
    assert world.node.told() == []
    world.after(2)
    assert world.node.told() == ["problem host CRITICAL"]


def test_a_node_that_comes_back_is_asked_again() -> None:
    world = TwoNodes()
    world.answers = False
    world.after(60)
    world.node.result(CRITICAL, "host")
    world.after(60)
    assert world.runs == []
    world.answers = True
    world.after(ASK_AGAIN_AFTER // SECOND + TAKES + 1 + GATHER)
    assert (len(world.runs), world.node.told()) == (1, ["problem host CRITICAL"])


def test_a_parent_that_cannot_run_is_not_waited_for() -> None:
    world = TwoNodes()
    world.owner.columns.flags[world.owner.rows["router"]] |= int(Flag.PASSIVE)
    world.after(60)
    world.node.result(CRITICAL, "host")
    world.after(3 + GATHER)
    assert (world.runs, world.node.told()) == ([], ["problem host CRITICAL"])
    world.owner.columns.flags[world.owner.rows["router"]] &= ALL_FLAGS ^ int(Flag.PASSIVE)
    world.node.result(CRITICAL, "other")
    world.after(60)
    assert len(world.runs) == 1, "what its node said counts for the problem that it was asked for"


def test_a_paused_parent_elsewhere_is_neither_asked_nor_waited_for() -> None:
    world = TwoNodes()
    world.pause_router(paused=True)
    world.after(60)
    world.node.result(CRITICAL, "host")
    world.after(GATHER + 1)
    assert (world.runs, world.node.told()) == ([], ["problem host CRITICAL"])


def test_a_parent_that_does_not_exist_holds_nothing_and_one_that_is_not_known_yet_does() -> None:
    world = AlertScenario()
    world.reachability.has_other_nodes = True
    world.contact("ops")
    world.check("host", depends=["router"])
    world.result(CRITICAL, "host")
    assert (world.case("host").hold, world.holds.foreign_asks()) == (Hold.CHECKING_PARENTS, {})
    world.reachability.define_foreign({"router": None})
    world.reachability.learn_foreign_results({"router": None})
    world.after(GATHER + 1)
    assert world.told() == ["problem host CRITICAL"]


def test_a_single_node_waits_for_no_parent_that_it_has_not() -> None:
    world = AlertScenario()
    world.contact("ops")
    world.check("host", depends=["router"])
    world.result(CRITICAL, "host")
    world.after(GATHER + 1)
    assert world.told() == ["problem host CRITICAL"]


def test_however_many_problems_wait_a_parent_is_run_every_ten_seconds_at_most() -> None:
    world = TwoNodes()
    world.after(60)
    for name in ("host", "other") * 4:
        world.node.result(CRITICAL, name)
        world.after(2)
        world.node.result(OK, name)
        world.after(1)
    world.after(LIMIT)
    between = np.diff(world.runs)
    assert (between >= ASK_AGAIN_AFTER).all(), between


EVENTS = st.one_of(
    st.tuples(st.just("host"), st.sampled_from((OK, CRITICAL))),
    st.tuples(st.just("router is"), st.sampled_from((OK, CRITICAL))),
    st.tuples(st.just("router runs"), st.none()),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("answers"), st.booleans()),
    st.tuples(st.just("pass"), st.sampled_from((1, 5, 29, 45, 200))),
)


@given(st.lists(EVENTS, max_size=25), st.integers(1, 3))
def test_nothing_is_told_without_a_fresh_parent_and_nothing_waits_for_longer_than_five_minutes(
    events: list[tuple[str, State | bool | int | None]], attempts: int
) -> None:
    world = TwoNodes(attempts)
    c, row = world.owner.columns, world.owner.rows["router"]
    for what, value in (*events, ("answers", True), ("pass", LIMIT + 120)):
        if what == "host":
            assert isinstance(value, State)
            world.node.result(value, "host")
        elif what == "router is":
            assert isinstance(value, State)
            world.router_is = value
        elif what == "router runs":
            world.owner.result(world.router_is, "router")
        elif what == "pause":
            world.pause_router(paused=bool(value))
        elif what == "answers":
            world.answers = bool(value)
        for _ in range(int(value or 0) if what == "pass" else 1):
            before = len(world.node.told())
            opened = _opened(world)
            was = (int(c.result_at[row]), bool(c.hard[row]), int(c.state[row]), int(c.flags[row]) & _ENABLED)
            world.after(1)
            new = world.node.told()[before:]
            if any(text.startswith("problem") for text in new):
                result_at, hard, state, is_on = was
                assert opened is not None
                waited = world.node.now - opened > PARENTS_LIMIT
                is_fresh = result_at > opened and (hard or state == OK)
                assert waited or not is_on or is_fresh, events
    case = next(iter(reversed(world.node.cases)), None)
    if case is not None and case.is_open and case.hold is not Hold.UNREACHABLE:
        assert case.hold in (Hold.NONE, Hold.AWAITING_RESULT), events


def _opened(world: TwoNodes) -> int | None:
    """When the problem of the host opened, if it is open."""
    found = [case.opened for case in world.node.cases if case.is_open]
    return found[-1] if found else None
