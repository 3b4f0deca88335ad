"""What a task names must exist, and stays as long as a task names it."""

from evenbeat.core.references import SharedNames, blocked_removals, missing_references, other_users
from evenbeat.model import Contact, Entry, Instant, NotifyContact, Schedule, Task


def task(name: str, period: str | None = None, limit: str | None = None) -> Task:
    return Task(name, Schedule(every=60_000_000), period=period, limit=limit)


def entry(number: int, of: Task) -> Entry:
    return Entry(number, str(number), 1, "cli:ana", Instant(0), Instant(0), of)


def test_a_task_that_names_nothing_misses_nothing() -> None:
    assert list(missing_references(task("a"), SharedNames())) == []


def test_what_is_missing_is_named_with_what_there_is() -> None:
    found = list(missing_references(task("a", "nights", "db"), SharedNames({"days": 1, "dawn": 1})))
    assert found == [
        (("period",), "there is no period 'nights', known: dawn, days"),
        (("limit",), "there is no limit 'db', known: none is defined"),
    ]


def test_a_period_and_a_limit_of_one_name_are_two() -> None:
    assert [path for path, _ in missing_references(task("a", "db", "db"), SharedNames(["db"]))] == [("limit",)]


def test_what_a_task_uses_cannot_be_removed_and_each_is_named_once() -> None:
    entries = [entry(1, task("a", "nights", "db")), entry(2, task("b", "nights")), entry(3, task("c", "days"))]
    assert [tuple(blocked) for blocked in blocked_removals(entries, SharedNames({"nights"}, {"db", "net"}))] == [
        ("periods", "nights", "the period 'nights' cannot go: the task 'a' of cli:ana uses it"),
        ("limits", "db", "the limit 'db' cannot go: the task 'a' of cli:ana uses it"),
    ]


def test_what_no_task_uses_may_go() -> None:
    assert not list(blocked_removals([entry(1, task("a", "nights"))], SharedNames({"days"}, {"nights"}, {"nights"})))


def notifying(name: str, *contacts: str) -> Task:
    return Task(name, Schedule(every=60_000_000), notify=tuple(map(NotifyContact, contacts)))


def test_a_missing_contact_is_named_with_its_place_and_a_similar_one() -> None:
    found = list(missing_references(notifying("a", "ops", "bos"), SharedNames(contacts=["boss", "ops"])))
    assert found == [(("notify", 1), "there is no contact 'bos', did you mean 'boss'?")]


def test_a_contact_stays_while_a_task_or_the_node_names_it_and_a_period_while_a_contact_does() -> None:
    users = list(
        other_users({"ops": Contact(email=("a@b",), period="nights")}, {"file:x": [NotifyContact("boss")], "y": ()})
    )
    going = SharedNames(periods={"nights", "days"}, contacts={"ops", "boss", "none"})
    assert [tuple(blocked) for blocked in blocked_removals([entry(1, notifying("a", "ops"))], going, users)] == [
        ("contacts", "ops", "the contact 'ops' cannot go: the task 'a' of cli:ana uses it"),
        ("periods", "nights", "the period 'nights' cannot go: the contact 'ops' uses it"),
        ("contacts", "boss", "the contact 'boss' cannot go: [node] of file:x uses it"),
    ]
