"""The oracle of jobs finds what it should: histories with one thing wrong each, beside one in which all is right."""

from typing import Any, Final

import pytest
from run_oracle import Evidence, Skip, Task, jobs
from run_oracle_checks import Result
from run_oracle_jobs import CHAIN, Span, wrongly_chained, wrongly_retried, wrongly_stopped

S: Final = 1_000_000
GRID, CATCH_UP, RETRY = 0, 2, 3
TRIES: Final = {"schedule": {"every": 10 * S, "phase": 0}, "retries": 1}
AFTER: Final = {"schedule": {"after": ["p"]}}
AFTER_FAILURE: Final = {"schedule": {"after_failure": ["p"]}}


def run(nominal: int, outcome: str = "succeeded", kind: int = GRID, late: int = 0) -> Result:
    """A run of a second; times are in seconds."""
    claimed = (nominal + late) * S
    return Result(nominal * S, kind, claimed, claimed, claimed + S, outcome, None, None, True, 1)


FAILS_TWICE: Final = [run(10, "failed"), run(10, "failed", RETRY, late=3)]


@pytest.mark.parametrize(
    ("runs", "wrong"),
    [
        ([*FAILS_TWICE, run(20)], ""),
        ([run(10, "failed"), run(10, "failed", RETRY, late=10)], "the grid is at"),
        ([*FAILS_TWICE, run(10, "failed", RETRY, late=6)], "was made 3 times"),
        ([run(10), run(10, kind=RETRY, late=3)], "which is succeeded, came another"),
        ([run(10, "cancelled"), run(10, kind=RETRY, late=3)], "which is cancelled, came another"),
        ([run(10, kind=RETRY)], "of which no run is known"),
    ],
)
def test_retries(runs: list[Result], wrong: str) -> None:
    found = list(wrongly_retried(TRIES, runs))
    assert any(wrong in one for one in found) if wrong else found == []


def test_a_retry_after_the_grid_is_right_only_if_the_grid_was_merged_into_the_run_whose_end_came_late() -> None:
    runs = [run(10, "failed"), run(10, "failed", RETRY, late=14)]
    assert list(wrongly_retried(TRIES, runs, [Span(20 * S, 20 * S, "coalesced")])) == []
    assert len(list(wrongly_retried(TRIES, runs, [Span(30 * S, 30 * S, "coalesced")]))) == 1


@pytest.mark.parametrize(
    ("definition", "own", "skips", "parent", "wrong"),
    [
        (AFTER, [run(10, kind=CHAIN)], [], [run(10), run(20)], ""),
        (AFTER, [], [Span(10 * S, 10 * S, "coalesced")], [run(10), run(20)], ""),
        (AFTER, [run(10, kind=CHAIN), run(10, kind=CHAIN, late=2)], [], [run(10)], "accounted for 2 times"),
        (AFTER, [run(10, kind=CHAIN)], [Span(10 * S, 10 * S, "coalesced")], [run(10)], "accounted for 2 times"),
        (AFTER, [], [], [run(10), run(20)], "was missed"),
        (AFTER, [run(10, kind=CHAIN)], [], [run(10, "cancelled")], "had no such end"),
        (AFTER_FAILURE, [run(10, kind=CHAIN)], [], [*FAILS_TWICE, run(20, "failed")], ""),
        (AFTER_FAILURE, [run(10, kind=CHAIN)], [], [run(10, "failed"), run(10, kind=RETRY, late=3)], "had no such end"),
        (AFTER_FAILURE, [run(10, kind=CHAIN)], [], [run(10, "cancelled")], "had no such end"),
        (AFTER_FAILURE, [], [], [*FAILS_TWICE, run(20, "failed")], "was missed"),
    ],
)
def test_chains(
    definition: dict[str, Any], own: list[Result], skips: list[Span], parent: list[Result], wrong: str
) -> None:
    found = list(wrongly_chained(definition, [(run.nominal, run.kind) for run in own], skips, {"p": parent}))
    assert any(wrong in one for one in found) if wrong else found == []


def test_an_end_of_which_no_node_heard_before_a_newer_one_came_is_not_missed() -> None:
    parents = {"p": [run(10), run(20), run(60)]}
    assert list(wrongly_chained(AFTER, [(20 * S, CHAIN)], [], parents, unheard=15 * S)) == []
    for made, unheard in (([(20 * S, CHAIN)], 5 * S), ([(60 * S, CHAIN)], 15 * S), ([], 15 * S)):
        assert any("was missed" in one for one in wrongly_chained(AFTER, made, [], parents, unheard=unheard))


@pytest.mark.parametrize(("skips", "wrong"), [([Skip(10 * S, 10 * S, 1, "coalesced")], False), ([], True)])
def test_an_end_that_waited_and_was_replaced_by_a_newer_one_is_not_missed(skips: list[Skip], wrong: bool) -> None:
    parent = Task("p", 0, None, None, {"schedule": {"every": 10 * S, "phase": 0}}, None, [], [], [run(10), run(20)])
    chained = Task("c", 0, None, None, AFTER, None, [], skips)
    assert any("was missed" in one for one in jobs(chained, Evidence([], [parent, chained], {}, []), [])) is wrong


@pytest.mark.parametrize(
    ("runs", "skips", "wrong"),
    [
        ([run(10, "cancelled"), run(20)], [], ""),
        ([run(10), run(20)], [], ""),
        ([run(10, "cancelled"), run(25, kind=CATCH_UP)], [Span(20 * S, 20 * S, "missed while stopped")], ""),
        ([run(10, "cancelled"), run(25, kind=CATCH_UP)], [Span(20 * S, 40 * S, "missed while stopped")], ""),
        ([run(10, "cancelled"), run(12, kind=CATCH_UP)], [], "repeated by one of kind 2"),
        (
            [run(10, "cancelled"), run(12, kind=CATCH_UP)],
            [Span(20 * S, 20 * S, "missed while stopped")],
            "repeated by one of kind 2",
        ),
        ([run(10, "cancelled"), run(10, kind=RETRY, late=2)], [], "repeated by one of kind 3"),
        ([run(10, "lost"), run(12, kind=CATCH_UP)], [], "is recorded lost"),
    ],
)
def test_stops(runs: list[Result], skips: list[Span], wrong: str) -> None:
    found = list(wrongly_stopped(runs, skips, [10 * S + S // 2]))
    assert any(wrong in one for one in found) if wrong else found == []
