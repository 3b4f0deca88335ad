"""What a task names must exist, and stays as long as a task names it."""

from evenbeat.core.references import blocked_removals, missing_references
from evenbeat.model import Entry, Instant, Schedule, Task


def task(name: str, period: str | None = None, limit: str | None = None) -> Task:
    return Task(name, Schedule(every=60_000_000), period=period, limit=limit)


def entry(number: int, of: Task) -> Entry:
    return Entry(number, str(number), 1, "cli:ana", Instant(0), Instant(0), of)


def test_a_task_that_names_nothing_misses_nothing() -> None:
    assert list(missing_references(task("a"), [], [])) == []


def test_what_is_missing_is_named_with_what_there_is() -> None:
    found = list(missing_references(task("a", "nights", "db"), {"days": 1, "dawn": 1}, []))
    assert found == [
        (("period", "nights"), "there is no period 'nights', known: dawn, days"),
        (("limit", "db"), "there is no limit 'db', known: none is defined"),
    ]


def test_a_period_and_a_limit_of_one_name_are_two() -> None:
    assert [found.key for found, _ in missing_references(task("a", "db", "db"), ["db"], [])] == ["limit"]


def test_what_a_task_uses_cannot_be_removed_and_each_is_named_once() -> None:
    entries = [entry(1, task("a", "nights", "db")), entry(2, task("b", "nights")), entry(3, task("c", "days"))]
    assert [tuple(blocked) for blocked in blocked_removals(entries, {"nights"}, {"db", "net"})] == [
        ("periods", "nights", "the period 'nights' cannot go: the task 'a' of cli:ana uses it"),
        ("limits", "db", "the limit 'db' cannot go: the task 'a' of cli:ana uses it"),
    ]


def test_what_no_task_uses_may_go() -> None:
    assert not list(blocked_removals([entry(1, task("a", "nights"))], {"days"}, {"nights"}))
