"""Can the oracle of checks fail? Results that are right, and every way to miscount them."""

import pytest
from run_oracle_checks import Result, miscounted, misjudged, unretried

SECOND = 1_000_000
RETRY = 3
CHECK = {"check": True, "schedule": {"every": 4 * SECOND, "phase": 0}}


def result(second: int, status: int, made: tuple[int, bool, int] | None, *, outcome: str = "", kind: int = 0) -> Result:
    at = second * SECOND
    ended = outcome or ("failed" if status else "succeeded")
    state, hard, attempt = made or (None, True, 1)
    return Result(at, kind, at, at, at + 1, ended, status, state, hard, attempt)


RIGHT = [
    result(0, 0, (0, True, 1)),
    result(4, 2, (2, False, 1)),
    result(5, 2, None, outcome="lost", kind=RETRY),
    result(6, 1, (1, False, 2), kind=RETRY),
    result(7, 2, (2, True, 3), kind=RETRY),
    result(8, 1, (1, True, 3)),
    result(12, -9, (3, True, 3), outcome="killed"),
    result(16, 0, (0, True, 1)),
    result(20, 1, (1, False, 1)),
    result(21, 0, (0, True, 1), kind=RETRY),
]


def test_what_is_right_is_right() -> None:
    assert miscounted(CHECK, RIGHT) == []
    assert miscounted(CHECK | {"attempts": 1}, [result(0, 2, (2, True, 1)), result(4, 0, (0, True, 1))]) == []
    assert unretried(CHECK, RIGHT, []) == []


@pytest.mark.parametrize(
    ("place", "made"),
    [
        (1, (2, False, 2)),
        (1, (2, True, 1)),
        (2, (2, False, 2)),
        (3, (1, False, 1)),
        (3, (1, False, 3)),
        (4, (2, False, 3)),
        (6, (2, True, 3)),
        (7, (0, True, 3)),
        (9, None),
    ],
)
def test_what_is_miscounted_is_found(place: int, made: tuple[int, bool, int] | None) -> None:
    state, hard, attempt = made or (None, True, 1)
    wrong = RIGHT[place]._replace(state=state, hard=hard, attempt=attempt)
    (found,) = miscounted(CHECK, [*RIGHT[:place], wrong, *RIGHT[place + 1 :]])
    assert f"the run of {wrong.nominal} " in found


def test_a_problem_that_is_not_tried_again_is_found() -> None:
    late = [RIGHT[1], RIGHT[3]._replace(nominal=9 * SECOND, claimed=9 * SECOND)]
    (found,) = unretried(CHECK, late, [])
    assert f"not by {8 * SECOND}" in found
    assert unretried(CHECK, late, [7 * SECOND]) == [], "something was wrong in between"


def ended(*outcomes: str) -> list[Result]:
    """Runs of a task that is no check."""
    return [Result(t, 0, t, t, t + 1, outcome, None, None, True, 1) for t, outcome in enumerate(outcomes)]


def test_right_problems_are_right() -> None:
    assert misjudged(CHECK, RIGHT, ["state"] if RIGHT[-1].hard and RIGHT[-1].state else [], flaps=False) == []
    assert misjudged(CHECK, [result(0, 2, (2, True, 1)), result(4, 0, (0, True, 1))], ["state"], flaps=True) == []
    for outcomes, causes in (
        (("failed",), ["failed"]),
        (("killed", "interrupted"), ["failed"]),
        (("killed", "cancelled"), ["failed"]),
        (("failed", "succeeded"), []),
        (("failed", "lost"), ["failed"]),
        (("lost", "succeeded"), []),
    ):
        assert misjudged({}, ended(*outcomes), causes, flaps=False) == []
    assert misjudged({"missed": "skip"}, ended("lost"), ["failed"], flaps=False) == []


def test_wrong_problems_are_found() -> None:
    hard, good = result(0, 2, (2, True, 1)), result(4, 0, (0, True, 1))
    assert misjudged(CHECK, [hard], [], flaps=False)
    assert misjudged(CHECK, [hard, good], ["state"], flaps=False)
    assert misjudged(CHECK, [hard], ["failed"], flaps=False)
    assert misjudged(CHECK, [hard], ["state", "state"], flaps=False)
    assert misjudged({}, ended("failed"), [], flaps=False)
    assert misjudged({}, ended("failed", "succeeded"), ["failed"], flaps=False)
    assert misjudged({"missed": "skip"}, ended("lost"), [], flaps=False)
