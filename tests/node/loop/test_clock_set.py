"""The clock is set while runs are claimed ahead: they move with it, and no two starts come too close."""

from typing import Any

import pytest
from hand_driven_node import T0, HandDrivenNode

from evenbeat.model import MINUTE, SECOND
from evenbeat.node.loop.starter import CLAIM_AHEAD
from evenbeat.wire.worker_frames import EARLY_DELIVERY, RunSpec
from evenbeat.work.admission import refusal_reason


class LateDeliveryNode(HandDrivenNode):
    """Runs reach its workers just before they are due, as in real life."""

    early_delivery = EARLY_DELIVERY

    def turn(self, after: int = 0) -> list[RunSpec]:
        async def on_the_loop() -> list[RunSpec]:
            return super(LateDeliveryNode, self).turn(after)

        return self.loop.run_until_complete(on_the_loop())


def claimed_ahead(**keys: Any) -> HandDrivenNode:
    """A node whose task is claimed for the first minute, a tenth of a second before that; no worker has it yet."""
    driven = LateDeliveryNode()
    driven.add("a", **keys)
    assert driven.turn(MINUTE - SECOND // 10) == []
    assert len(driven.store.claims) == len(driven.turns.starter.held()) == 1
    return driven


def start_what_is_held(driven: HandDrivenNode) -> int:
    """So much later it is started; when that was, by the clock as it is then."""
    before = len(driven.dispatched)
    driven.now += SECOND // 10
    driven.loop.wait(0.2)
    (run,) = driven.dispatched[before:]
    driven.under_way[run.name] = run
    assert run.due == driven.now
    assert refusal_reason(run, driven.now) is None
    return driven.now


@pytest.mark.parametrize("by", [-2 * SECOND, 2 * SECOND])
def test_a_run_that_is_claimed_ahead_starts_at_the_moment_it_was_planned_for(by: int) -> None:
    driven = claimed_ahead()
    driven.clock_is_set(by)
    assert start_what_is_held(driven) == T0 + MINUTE + by
    driven.end("a")
    driven.turn(SECOND // 10)
    assert driven.turns.counts.lateness[-1] == 0


@pytest.mark.parametrize("tolerance", ["0s", "10s", "30s"])
def test_its_nominal_time_comes_again_and_is_not_run_again_too_soon(tolerance: str) -> None:
    driven = claimed_ahead(tolerance=tolerance)
    driven.clock_is_set(-2 * SECOND)
    start_what_is_held(driven)
    driven.end("a")
    driven.early_delivery = CLAIM_AHEAD
    later = driven.advance(3 * MINUTE, SECOND // 10)
    assert [run.nominal for run in later] == [T0 + 2 * MINUTE, T0 + 3 * MINUTE]
    (skip,) = driven.store.skips()
    assert (skip.first, skip.last, skip.reason) == (T0 + MINUTE, T0 + MINUTE, "dropped: too soon after the last start")


def test_what_a_worker_holds_is_guarded_by_the_moment_it_was_planned_for() -> None:
    driven = HandDrivenNode()
    driven.add("a", tolerance="1s")
    (first,) = driven.turn(MINUTE)
    driven.end("a")
    assert refusal_reason(first, driven.now) is None
    (held,) = driven.turn(MINUTE - SECOND // 100)
    driven.clock_is_set(-2 * SECOND)
    assert held.due == T0 + 2 * MINUTE - 2 * SECOND
    assert refusal_reason(held, held.due) is None


def test_a_claim_that_is_not_committed_yet_moves_too() -> None:
    driven = LateDeliveryNode()
    driven.add("a")
    driven.store.is_failing = True
    driven.turn(MINUTE - SECOND // 10)
    driven.clock_is_set(-2 * SECOND)
    driven.store.is_failing = False
    driven.loop.wait(2)
    assert driven.turns.starter.held()
    assert start_what_is_held(driven) == T0 + MINUTE - 2 * SECOND
