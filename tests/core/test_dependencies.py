"""What tasks may depend on, and which changes take away what others depend on."""

from collections.abc import Collection, Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.dependencies import (
    blocked_losses,
    definition_errors,
    dependency_errors,
    lost_checks,
)
from evenbeat.core.task_graph import NoOtherTasks
from evenbeat.model import Entry, Instant, Schedule, Task, WhenUnreachable


def check(name: str, *depends: str, any_of: tuple[str, ...] = ()) -> Task:
    return Task(name, Schedule(every=60_000_000), check=True, depends=depends, depends_any=any_of)


def job(name: str, *depends: str) -> Task:
    return Task(name, Schedule(every=60_000_000), depends=depends)


def entry(number: int, of: Task) -> Entry:
    return Entry(number, str(number), 1, "cli:ana", Instant(0), Instant(0), of)


class Others:
    """Tasks that a change leaves as they are; counts the questions."""

    def __init__(self, *tasks: Task) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.questions = 0

    def find(self, names: Collection[str], /) -> Mapping[str, Task]:
        self.questions += 1
        return {name: self.tasks[name] for name in names if name in self.tasks}

    def checks_near(self, _: str, /) -> Iterable[str]:
        return sorted(name for name, task in self.tasks.items() if task.check)

    def tasks_near(self, _: str, /) -> Iterable[str]:
        return sorted(name for name, task in self.tasks.items() if not task.check)


def errors(*tasks: Task, others: Others | None = None) -> list[tuple[str, str, str]]:
    return [(error.task, error.key, error.message) for error in dependency_errors(tasks, others or NoOtherTasks())]


class TestDefinitions:
    def test_a_task_depends_on_others_once(self) -> None:
        assert list(definition_errors(check("a", "b", "a", "b"))) == [
            ("depends", "'a' cannot depend on itself"),
            ("depends", "'b' is named twice"),
        ]
        assert list(definition_errors(check("a", "b", any_of=("b", "c")))) == []

    def test_what_it_does_when_unreachable_needs_something_that_it_depends_on(self) -> None:
        task = Task("a", Schedule(every=60_000_000), when_unreachable=WhenUnreachable.SKIP)
        assert [key for key, _ in definition_errors(task)] == ["when_unreachable"]


class TestParents:
    def test_a_parent_is_a_check_that_exists(self) -> None:
        assert errors(check("gw/ping"), job("a", "gw/ping")) == []
        assert errors(check("gw/ping"), job("a", "gw/pign")) == [
            ("a", "depends", "there is no check 'gw/pign', did you mean 'gw/ping'?")
        ]
        assert errors(job("a", "xyz")) == [("a", "depends", "there is no check 'xyz', accepted: names of checks")]
        assert errors(job("b"), check("a", any_of=("b",))) == [
            ("a", "depends_any", "'b' is no check: only the state of a check says whether it is fine")
        ]

    def test_tasks_that_stay_as_they_are_count_too(self) -> None:
        others = Others(check("gw/ping"), job("backup"))
        assert errors(job("a", "gw/ping"), others=others) == []
        assert [message for *_, message in errors(job("a", "gw/pin", "backup"), others=others)] == [
            "there is no check 'gw/pin', did you mean 'gw/ping'?",
            "'backup' is no check: only the state of a check says whether it is fine",
        ]

    def test_what_a_change_defines_counts_instead_of_what_there_was(self) -> None:
        assert len(errors(job("gw"), job("a", "gw"), others=Others(check("gw")))) == 1

    def test_tasks_that_depend_on_nothing_ask_nothing(self) -> None:
        others = Others()
        assert errors(check("a"), job("b"), others=others) == []
        assert others.questions == 0

    def test_one_question_for_each_level(self) -> None:
        others = Others(*(check(f"p{i}", "g") for i in range(50)), check("g"))
        assert errors(*(job(f"c{i}", f"p{i}") for i in range(50)), others=others) == []
        assert others.questions == 2


class TestCircles:
    def test_a_circle_is_named_from_its_first_name_on(self) -> None:
        assert errors(check("c", "a"), check("a", any_of=("b",)), check("b", "c"), check("d", "a")) == [
            ("a", "depends_any", "tasks depend on each other in a circle: a -> b -> c -> a")
        ]

    def test_a_change_that_closes_a_circle_through_other_tasks_is_refused(self) -> None:
        found = errors(check("b", "c"), others=Others(check("a", "b"), check("c", "a")))
        assert found == [("b", "depends", "tasks depend on each other in a circle: a -> b -> c -> a")]

    def test_a_long_one_is_shown_in_part(self) -> None:
        tasks = [check(f"t{i:02}", f"t{(i + 1) % 30:02}") for i in range(30)]
        ((*_, message),) = errors(*tasks)
        assert message.endswith("t08 -> t09 -> 20 more -> t00")

    def test_a_long_chain_is_none(self) -> None:
        assert errors(check("t0"), *(check(f"t{i}", f"t{i - 1}") for i in range(1, 5_000))) == []

    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), max_size=14), st.integers(0, 127))
    def test_there_is_one_exactly_if_a_task_depends_on_itself(
        self, links: list[tuple[int, int, bool]], given_bits: int
    ) -> None:
        """Of the given tasks, whatever the others are: those are in a circle among themselves at most."""
        parents: dict[int, set[int]] = {i: {b for a, b, _ in links if a == i and b != i} for i in range(7)}
        all_of = {
            i: tuple(f"t{b}" for b in sorted({b for a, b, k in links if a == i and b != i and k})) for i in range(7)
        }
        any_of = {
            i: tuple(f"t{b}" for b in sorted({b for a, b, k in links if a == i and b != i and not k})) for i in range(7)
        }
        tasks = [check(f"t{i}", *all_of[i], any_of=any_of[i]) for i in range(7)]
        reached = {i: set(parents[i]) for i in parents}
        for _ in range(7):
            reached = {i: reached[i].union(*(reached[j] for j in reached[i])) for i in reached}
        is_given = [bool(given_bits >> i & 1) for i in range(7)]
        found = errors(
            *(t for i, t in enumerate(tasks) if is_given[i]),
            others=Others(*(t for i, t in enumerate(tasks) if not is_given[i])),
        )
        if all(is_given):
            assert bool(found) == any(i in reached[i] for i in range(7))
        else:
            assert all(any(i in reached[i] for i in range(7) if f"t{i}" == name) for name, *_ in found)
            old = {i: {j for j in parents[i] if not is_given[j]} for i in parents if not is_given[i]}
            for _ in range(7):
                old = {i: old[i].union(*(old[j] for j in old[i])) for i in old}
            if not any(i in old[i] for i in old):  # nothing was wrong before
                assert bool(found) == any(i in reached[i] for i in range(7))


class TestLosses:
    def test_a_check_is_lost_if_it_goes_has_another_name_or_becomes_a_task(self) -> None:
        before = [entry(i, t) for i, t in enumerate((check("a"), check("b"), check("c"), job("d")))]
        assert lost_checks(before, [check("a"), check("b2"), job("c")]).keys() == {"b", "c"}

    def test_what_tasks_depend_on_stays_and_some_of_them_are_named(self) -> None:
        dependents = [entry(i, job(f"t{i}", "gw", "other")) for i in range(6)]
        assert list(blocked_losses({"gw", "x"}, dependents)) == [
            (
                "gw",
                "the check 'gw' must stay, under this name: tasks depend on it: "
                "'t0' of cli:ana, 't1' of cli:ana, 't2' of cli:ana and 3 more",
            )
        ]
