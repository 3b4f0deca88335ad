"""A node counts the worker processes that died with a task, over restarts; until a run ends by itself it runs alone."""

from hand_driven_node import HandDrivenNode

from evenbeat.admin.worker_killers import deaths_by_task
from evenbeat.core.worker_deaths import HOST_DIED, WORKER_DIED
from evenbeat.model import HOUR, MINUTE, Outcome, RunKind
from evenbeat.wire.worker_frames import RunSpec


def lost(driven: HandDrivenNode, name: str, words: str = WORKER_DIED) -> None:
    driven.end(name, Outcome.LOST, None, output=words.encode())


def following(driven: HandDrivenNode) -> list[RunSpec]:
    """What is repeated, at once or soon."""
    return driven.turn() + driven.turn(MINUTE)


def alone(runs: list[RunSpec]) -> dict[str, bool]:
    return {run.name: run.alone for run in runs}


def deaths(driven: HandDrivenNode, name: str) -> int:
    return deaths_by_task(driven.store).get(driven.admin.find_or_raise(name).number, 0)


def test_a_forced_run_is_repeated_twice_alone_and_never_again_whatever_is_restarted() -> None:
    driven = HandDrivenNode()
    for name in ("killer", "other"):
        driven.add(name, every="1d", phase="12h")
    driven.force("killer", "other")
    assert alone(driven.turn()) == {"killer": False, "other": False}
    for name in ("killer", "other"):
        lost(driven, name)
    assert alone(following(driven)) == {"killer": True, "other": True}
    assert (deaths(driven, "killer"), deaths(driven, "other")) == (1, 1)
    driven.restart(after=MINUTE)  # the node is killed while they run: that says nothing
    assert alone(following(driven)) == {"killer": True, "other": True}
    assert (deaths(driven, "killer"), deaths(driven, "other")) == (1, 1)
    driven.end("other")
    lost(driven, "killer", HOST_DIED)
    assert alone(following(driven)) == {"killer": True}
    assert (deaths(driven, "killer"), deaths(driven, "other")) == (2, 0)
    lost(driven, "killer")
    assert following(driven) == []
    assert deaths(driven, "killer") == 3
    assert [skip.reason for skip in driven.store.skips() if skip.kind is RunKind.CATCH_UP] == [
        "set aside: 3 workers in a row died with it"
    ]
    driven.restart(after=MINUTE)
    assert driven.turn(HOUR) == []
    # Whoever asks for it has it, alone, and once.
    driven.force("killer")
    (asked,) = driven.turn()
    assert (asked.name, asked.alone) == ("killer", True)
    driven.restart(after=MINUTE)
    assert driven.turn(HOUR) == [], "nor is one repeated that was lost with the node"


def test_its_schedule_goes_on_and_a_run_that_ends_by_itself_ends_it() -> None:
    driven = HandDrivenNode()
    driven.add("t", every="1h", phase="0s")
    number = driven.admin.find_or_raise("t").number
    driven.store.set_settings({f"deaths:{number}": "3"})
    driven.restart()
    (run,) = driven.turn(HOUR)
    assert run.alone
    driven.end("t", Outcome.DROPPED, None)
    driven.turn()
    assert deaths(driven, "t") == 3, "it was not started"
    (run,) = driven.turn(HOUR)
    assert run.alone
    driven.end("t", Outcome.FAILED, 1)
    driven.turn()
    assert deaths(driven, "t") == 0
    (run,) = driven.turn(HOUR)
    assert not run.alone


def test_a_task_that_is_removed_is_forgotten() -> None:
    driven = HandDrivenNode()
    driven.add("t", every="1h", phase="0s")
    driven.turn(HOUR)
    lost(driven, "t")
    driven.turn()
    assert deaths(driven, "t") == 1
    driven.remove("t")
    assert driven.store.settings("deaths:") == {}
