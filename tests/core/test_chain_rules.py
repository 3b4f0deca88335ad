"""What tasks may follow, and which changes take away what others follow."""

from evenbeat.core.chain_rules import blocked_parents, chain_definition_errors, chain_errors, lost_parents
from evenbeat.core.task_graph import NoOtherTasks
from evenbeat.model import MINUTE, Entry, Instant, Schedule, Task


def job(name: str) -> Task:
    return Task(name, Schedule(every=MINUTE))


def after(name: str, *parents: str) -> Task:
    return Task(name, Schedule(after=parents))


def after_failure(name: str, *parents: str) -> Task:
    return Task(name, Schedule(after_failure=parents))


def check(name: str) -> Task:
    return Task(name, Schedule(every=MINUTE), check=True)


def entry(number: int, of: Task) -> Entry:
    return Entry(number, str(number), 1, "cli:ana", Instant(0), Instant(0), of)


def errors(*tasks: Task) -> list[tuple[str, str, str]]:
    return [(error.task, error.key, error.message) for error in chain_errors(tasks, NoOtherTasks())]


def test_a_parent_must_exist_and_a_similar_name_is_named() -> None:
    assert errors(job("backup"), after("upload", "bakcup")) == [
        ("upload", "after", "there is no task 'bakcup', did you mean 'backup'?")
    ]


def test_a_check_is_no_parent() -> None:
    (found,) = errors(check("disk"), after_failure("clean", "disk"))
    assert found[:2] == ("clean", "after_failure")
    assert "use `depends`" in found[2]


def test_a_check_may_follow_tasks() -> None:
    assert errors(job("backup"), Task("complete", Schedule(after=("backup",)), check=True)) == []


def test_a_circle_is_named_from_its_first_name_on_also_through_failures() -> None:
    assert errors(after("c", "b"), after_failure("b", "a"), after("a", "c")) == [
        ("a", "after", "tasks run after each other in a circle: a -> c -> b -> a")
    ]


def test_itself_and_a_name_twice_are_refused() -> None:
    assert [message for _, message in chain_definition_errors(after("a", "a", "b", "b"))] == [
        "'a' cannot run after itself",
        "'b' is named twice",
    ]


def test_a_parent_that_goes_or_becomes_a_check_is_lost_and_one_that_stays_is_not() -> None:
    before = [entry(1, job("a")), entry(2, job("b")), entry(3, job("c")), entry(4, check("d"))]
    assert lost_parents(before, [job("a"), check("b"), job("c2")]).keys() == {"b", "c"}


def test_who_follows_a_lost_parent_is_named() -> None:
    followers = [entry(5, after("x", "a")), entry(6, after_failure("y", "z"))]
    assert list(blocked_parents({"a"}, followers)) == [
        ("a", "the task 'a' must stay, under this name: tasks run after it: 'x' of cli:ana")
    ]
