"""A node counts the worker processes that died with a task, over restarts; until a run ends by itself it runs alone."""

from hand_driven_node import Hand

from evenbeat.admin.worker_killers import deaths_by_task
from evenbeat.core.worker_deaths import HOST_DIED, WORKER_DIED
from evenbeat.model import HOUR, MINUTE, Outcome, RunKind
from evenbeat.wire.worker_frames import RunSpec


def lost(hand: Hand, name: str, words: str = WORKER_DIED) -> None:
    hand.end(name, Outcome.LOST, None, output=words.encode())


def following(hand: Hand) -> list[RunSpec]:
    """What is repeated, at once or soon."""
    return hand.turn() + hand.turn(MINUTE)


def alone(runs: list[RunSpec]) -> dict[str, bool]:
    return {run.name: run.alone for run in runs}


def deaths(hand: Hand, name: str) -> int:
    return deaths_by_task(hand.store).get(hand.desk.find_or_raise(name).number, 0)


def test_a_forced_run_is_repeated_twice_alone_and_never_again_whatever_is_restarted() -> None:
    hand = Hand()
    for name in ("killer", "other"):
        hand.add(name, every="1d", phase="12h")
    hand.force("killer", "other")
    assert alone(hand.turn()) == {"killer": False, "other": False}
    for name in ("killer", "other"):
        lost(hand, name)
    assert alone(following(hand)) == {"killer": True, "other": True}
    assert (deaths(hand, "killer"), deaths(hand, "other")) == (1, 1)
    hand.restart(after=MINUTE)  # the node is killed while they run: that says nothing
    assert alone(following(hand)) == {"killer": True, "other": True}
    assert (deaths(hand, "killer"), deaths(hand, "other")) == (1, 1)
    hand.end("other")
    lost(hand, "killer", HOST_DIED)
    assert alone(following(hand)) == {"killer": True}
    assert (deaths(hand, "killer"), deaths(hand, "other")) == (2, 0)
    lost(hand, "killer")
    assert following(hand) == []
    assert deaths(hand, "killer") == 3
    assert [skip.reason for skip in hand.store.skips() if skip.kind is RunKind.CATCH_UP] == [
        "set aside: 3 workers in a row died with it"
    ]
    hand.restart(after=MINUTE)
    assert hand.turn(HOUR) == []
    # Whoever asks for it has it, alone, and once.
    hand.force("killer")
    (asked,) = hand.turn()
    assert (asked.name, asked.alone) == ("killer", True)
    hand.restart(after=MINUTE)
    assert hand.turn(HOUR) == [], "nor is one repeated that was lost with the node"


def test_its_schedule_goes_on_and_a_run_that_ends_by_itself_ends_it() -> None:
    hand = Hand()
    hand.add("t", every="1h", phase="0s")
    number = hand.desk.find_or_raise("t").number
    hand.store.set_settings({f"deaths:{number}": "3"})
    hand.restart()
    (run,) = hand.turn(HOUR)
    assert run.alone
    hand.end("t", Outcome.DROPPED, None)
    hand.turn()
    assert deaths(hand, "t") == 3, "it was not started"
    (run,) = hand.turn(HOUR)
    assert run.alone
    hand.end("t", Outcome.FAILED, 1)
    hand.turn()
    assert deaths(hand, "t") == 0
    (run,) = hand.turn(HOUR)
    assert not run.alone


def test_a_task_that_is_removed_is_forgotten() -> None:
    hand = Hand()
    hand.add("t", every="1h", phase="0s")
    hand.turn(HOUR)
    lost(hand, "t")
    hand.turn()
    assert deaths(hand, "t") == 1
    hand.remove("t")
    assert hand.store.settings("deaths:") == {}
