"""An acknowledgement counts until its end, and until the problem gets worse unless it is sticky."""

from evenbeat.core.acknowledgement import is_acknowledged
from evenbeat.model import Acknowledgement, Instant


def ack(*, until: int | None = None, sticky: bool = False, severity: int = 1, worst: int = 1) -> Acknowledgement:
    return Acknowledgement(
        Instant(1), "ann", until=None if until is None else Instant(until), sticky=sticky, severity=severity,
        worst_since=worst,
    )  # fmt: skip


def test_an_acknowledgement_counts_until_its_end() -> None:
    assert is_acknowledged(ack(until=10), Instant(9))
    assert not is_acknowledged(ack(until=10), Instant(10))
    assert is_acknowledged(ack(), Instant(1_000_000))
    assert not is_acknowledged(None, Instant(0))


def test_it_counts_until_the_problem_is_worse_unless_it_is_sticky() -> None:
    assert is_acknowledged(ack(severity=2, worst=2), Instant(9))
    assert not is_acknowledged(ack(severity=2, worst=3), Instant(9))
    assert is_acknowledged(ack(severity=2, worst=3, sticky=True), Instant(9))
    assert not is_acknowledged(ack(sticky=True, until=5), Instant(9))
