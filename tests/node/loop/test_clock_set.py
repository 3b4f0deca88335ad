"""The clock is set while runs are claimed ahead: they move with it, and no two starts come too close."""

from typing import Any

import pytest
from hand_driven_node import T0, Hand

from evenbeat.model import MINUTE, SECOND
from evenbeat.node.loop.starter import CLAIM_AHEAD
from evenbeat.wire.worker_frames import EARLY_DELIVERY, RunSpec
from evenbeat.work.admission import refusal_reason


class HoldingHand(Hand):
    """Runs reach its workers just before they are due, as in real life."""

    early_delivery = EARLY_DELIVERY

    def turn(self, after: int = 0) -> list[RunSpec]:
        async def on_the_loop() -> list[RunSpec]:
            return super(HoldingHand, self).turn(after)

        return self.loop.run_until_complete(on_the_loop())


def claimed_ahead(**keys: Any) -> Hand:
    """A node whose task is claimed for the first minute, a tenth of a second before that; no worker has it yet."""
    hand = HoldingHand()
    hand.add("a", **keys)
    assert hand.turn(MINUTE - SECOND // 10) == []
    assert len(hand.store.claims) == len(hand.beat.starter.held()) == 1
    return hand


def start_what_is_held(hand: Hand) -> int:
    """So much later it is started; when that was, by the clock as it is then."""
    before = len(hand.dispatched)
    hand.now += SECOND // 10
    hand.loop.wait(0.2)
    (run,) = hand.dispatched[before:]
    hand.under_way[run.name] = run
    assert run.due == hand.now
    assert refusal_reason(run, hand.now) is None
    return hand.now


@pytest.mark.parametrize("by", [-2 * SECOND, 2 * SECOND])
def test_a_run_that_is_claimed_ahead_starts_at_the_moment_it_was_planned_for(by: int) -> None:
    hand = claimed_ahead()
    hand.clock_is_set(by)
    assert start_what_is_held(hand) == T0 + MINUTE + by
    hand.end("a")
    hand.turn(SECOND // 10)
    assert hand.beat.counts.lateness[-1] == 0


@pytest.mark.parametrize("tolerance", ["0s", "10s", "30s"])
def test_its_nominal_time_comes_again_and_is_not_run_again_too_soon(tolerance: str) -> None:
    hand = claimed_ahead(tolerance=tolerance)
    hand.clock_is_set(-2 * SECOND)
    start_what_is_held(hand)
    hand.end("a")
    hand.early_delivery = CLAIM_AHEAD
    later = hand.advance(3 * MINUTE, SECOND // 10)
    assert [run.nominal for run in later] == [T0 + 2 * MINUTE, T0 + 3 * MINUTE]
    (skip,) = hand.store.skips()
    assert (skip.first, skip.last, skip.reason) == (T0 + MINUTE, T0 + MINUTE, "dropped: too soon after the last start")


def test_what_a_worker_holds_is_guarded_by_the_moment_it_was_planned_for() -> None:
    hand = Hand()
    hand.add("a", tolerance="1s")
    (first,) = hand.turn(MINUTE)
    hand.end("a")
    assert refusal_reason(first, hand.now) is None
    (held,) = hand.turn(MINUTE - SECOND // 100)
    hand.clock_is_set(-2 * SECOND)
    assert held.due == T0 + 2 * MINUTE - 2 * SECOND
    assert refusal_reason(held, held.due) is None


def test_a_claim_that_is_not_committed_yet_moves_too() -> None:
    hand = HoldingHand()
    hand.add("a")
    hand.store.is_failing = True
    hand.turn(MINUTE - SECOND // 10)
    hand.clock_is_set(-2 * SECOND)
    hand.store.is_failing = False
    hand.loop.wait(2)
    assert hand.beat.starter.held()
    assert start_what_is_held(hand) == T0 + MINUTE - 2 * SECOND
