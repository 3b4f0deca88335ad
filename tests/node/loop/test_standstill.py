"""The machine slept, or the process was stopped for a while: a stop like any other."""

from hand_driven_node import HandDrivenNode

from evenbeat.core.gate import Reason
from evenbeat.model import MINUTE, SECOND, RunKind


def test_a_loop_without_a_turn_for_long_says_so() -> None:
    driven = HandDrivenNode()
    reported: list[int] = []
    driven.turns.on_standstill = reported.append

    async def turns() -> None:
        for later in (0, 1, 2, 11, 1):
            driven.now += later * SECOND
            driven.turn_by_timer()

    driven.loop.run_until_complete(turns())
    assert reported == [11 * SECOND]


def test_what_passed_meanwhile_is_recorded_and_made_up_for_without_a_burst() -> None:
    driven = HandDrivenNode()
    for i in range(60):
        driven.add(f"t{i}", every="1m", phase=f"{i}s")
    driven.advance(2 * MINUTE)
    driven.now += 10 * MINUTE
    driven.node.membership.handle_standstill(10 * MINUTE)
    burst = [driven.turn(SECOND // 10) for _ in range(10)]
    assert max(map(len, burst)) <= 3
    made_up = [run for runs in burst for run in runs if run.kind == RunKind.CATCH_UP]
    assert made_up
    skips = [skip for batch in driven.store.batches for skip in batch.skips if skip.reason == Reason.MISSED.value]
    assert len(skips) == 60
    assert {skip.times for skip in skips} == {10}
