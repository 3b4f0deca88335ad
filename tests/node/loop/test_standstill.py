"""The machine slept, or the process was stopped for a while: a stop like any other."""

from hand_driven_node import Hand

from evenbeat.core.gate import Reason
from evenbeat.model import MINUTE, SECOND, RunKind


def test_a_beat_without_a_turn_for_long_says_so() -> None:
    hand = Hand()
    told: list[int] = []
    hand.beat.on_standstill = told.append

    async def turns() -> None:
        for later in (0, 1, 2, 11, 1):
            hand.now += later * SECOND
            hand.beat._turn()

    hand.loop.run_until_complete(turns())
    assert told == [11 * SECOND]


def test_what_passed_meanwhile_is_recorded_and_made_up_for_without_a_burst() -> None:
    hand = Hand()
    for i in range(60):
        hand.add(f"t{i}", every="1m", phase=f"{i}s")
    hand.advance(2 * MINUTE)
    hand.now += 10 * MINUTE
    hand.node.membership.handle_standstill(10 * MINUTE)
    burst = [hand.turn(SECOND // 10) for _ in range(10)]
    assert max(map(len, burst)) <= 3
    made_up = [run for runs in burst for run in runs if run.kind == RunKind.CATCH_UP]
    assert made_up
    skips = [skip for batch in hand.store.batches for skip in batch.skips if skip.reason == Reason.MISSED.value]
    assert len(skips) == 60
    assert {skip.times for skip in skips} == {10}
