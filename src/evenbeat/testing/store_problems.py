"""Part of the store contract: problems of tasks, their acknowledgements, and what people write about them."""

from pathlib import Path

import pytest

from evenbeat.model import DAY, Acknowledgement, Cause, Instant, Invalid, State
from evenbeat.store.contract import Batch, ContradictoryBatch, Filter, ProblemFilter, Store
from evenbeat.store.problem_records import MAX_PROBLEM_NOTES, OpenProblem, ProblemNote, ProblemRecord
from evenbeat.testing.samples import T0, a_claim, a_finish, a_problem_change, a_task
from evenbeat.testing.store_history import minutes_later, record_run
from evenbeat.testing.store_runs import number_of

CLOSED = ProblemFilter(is_open=False)
ANY = ProblemFilter(is_open=None)
WARNING, CRITICAL, UNKNOWN = State.WARNING, State.CRITICAL, State.UNKNOWN
KEEP = 30 * DAY


def a_problem(store: Store, name: str = "a", *, opened: int = T0, state: State = CRITICAL) -> ProblemRecord:
    """The open problem of a new check."""
    change_problem(store, number_of(store, name), opened=opened, state=state)
    return problem_of(store, name)


def change_problem(
    store: Store,
    task: int,
    *,
    opened: int = T0,
    at: int | None = None,
    state: State = CRITICAL,
    is_open: bool = True,
    cause: Cause = Cause.STATE,
    reason: str = "",
) -> None:
    """Record one change of a problem."""
    change = a_problem_change(task, opened, at, state, is_open=is_open, cause=cause, reason=reason)
    store.record(Batch(problems=[change])).result()


def problem_of(store: Store, name: str) -> ProblemRecord:
    """The newest problem of a task, open or closed."""
    return store.problems(ProblemFilter(Filter(names=(name,)), is_open=None))[0]


def tasks_of(store: Store, only: ProblemFilter) -> list[str]:
    """The names of the tasks of the problems that a filter selects; counting them agrees."""
    found = [problem.task for problem in store.problems(only)]
    assert store.count_problems(only) == len(found)
    return found


class ProblemsContract:
    """Problems open, change and close with batches, and people write on them."""

    def make_store(self, folder: Path) -> Store:
        raise NotImplementedError

    def reopen(self, store: Store, folder: Path) -> Store | None:
        raise NotImplementedError

    # What batches do

    def test_a_problem_opens_with_what_is_known_of_its_task(self, store: Store) -> None:
        (entry,) = store.create([a_task("a", check=True, site="x")], "me", T0)
        record_run(store, entry.number, T0, "no answer", outcome="failed", state=2)
        change_problem(store, entry.number, opened=T0 + 7)
        (found,) = store.problems()
        assert found == ProblemRecord(
            found.id, entry.number, "a", "state", Instant(T0 + 7), Instant(T0 + 7), CRITICAL, CRITICAL,
            output="no answer", owner="me", labels={"site": "x"},
        )  # fmt: skip
        assert found.id > 0
        assert store.find_problem(found.id) == found
        assert list(store.open_problems()) == [OpenProblem(entry.number, "state", T0 + 7, 2, 2)]

    def test_it_is_committed_with_the_run_that_caused_it(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        change = a_problem_change(a)
        for batches in (
            [Batch(finishes=[a_finish(a)], problems=[change])],
            [Batch(problems=[change]), Batch(finishes=[a_finish(a)])],
        ):
            assert isinstance(store.record(*batches).exception(), ContradictoryBatch)
            assert store.problems(ANY) == []
        store.record(Batch(claims=[a_claim(a)])).result()
        together = Batch(finishes=[a_finish(a, output="bad", state=2)], problems=[change])
        store.record(together, Batch(problems=[a_problem_change(b)])).result()
        assert [(problem.task, problem.output) for problem in store.problems()] == [("b", ""), ("a", "bad")]

    def test_it_keeps_its_id_and_the_worst_of_its_states(self, store: Store) -> None:
        opened = a_problem(store, state=WARNING)
        seen = []
        for minute, state in enumerate((UNKNOWN, CRITICAL, CRITICAL, WARNING), 1):
            change_problem(store, opened.number, at=minutes_later(minute), state=state)
            found = problem_of(store, "a")
            assert (found.id, found.opened) == (opened.id, T0)
            seen.append((found.state, found.since, found.worst))
        assert seen == [
            (UNKNOWN, minutes_later(1), UNKNOWN),
            (CRITICAL, minutes_later(2), CRITICAL),
            (CRITICAL, minutes_later(2), CRITICAL),
            (WARNING, minutes_later(4), CRITICAL),
        ]
        assert list(store.open_problems()) == [OpenProblem(opened.number, "state", T0, 1, 2)]

    def test_how_bad_it_is_follows_from_the_severity(self, store: Store) -> None:
        opened = a_problem(store, state=UNKNOWN)
        change_problem(store, opened.number, at=T0 + 1, state=WARNING)
        assert problem_of(store, "a").worst == UNKNOWN
        change_problem(store, opened.number, at=T0 + 2, state=CRITICAL)
        assert problem_of(store, "a").worst == CRITICAL

    def test_it_closes_and_its_task_may_have_another(self, store: Store) -> None:
        opened = a_problem(store)
        record_run(store, opened.number, minutes_later(0), "bad", outcome="failed", state=2)
        change_problem(store, opened.number, at=minutes_later(1), state=WARNING)
        change_problem(store, opened.number, at=minutes_later(2), is_open=False)
        (closed,) = store.problems(CLOSED)
        assert (closed.id, closed.closed, closed.reason) == (opened.id, minutes_later(2), "")
        assert (closed.state, closed.since, closed.worst) == (CRITICAL, minutes_later(1), CRITICAL)
        assert closed.output == ""
        assert (store.problems(), list(store.open_problems()), store.count_problems()) == ([], [], 0)
        change_problem(store, opened.number, opened=minutes_later(3))
        assert [p.id > closed.id for p in store.problems()] == [True]
        assert tasks_of(store, ANY) == ["a", "a"]

    def test_it_says_why_it_closed_if_not_by_a_result(self, store: Store) -> None:
        opened = a_problem(store)
        change_problem(store, opened.number, at=T0 + 5, is_open=False, reason="changed")
        assert problem_of(store, "a").reason == "changed"

    def test_closing_it_again_changes_nothing(self, store: Store) -> None:
        opened = a_problem(store)
        change_problem(store, opened.number, at=T0 + 5, is_open=False)
        closed = problem_of(store, "a")
        change_problem(store, opened.number, at=T0 + 9, state=UNKNOWN, is_open=False, reason="changed")
        assert problem_of(store, "a") == closed

    def test_a_problem_that_opened_and_closed_at_once_is_kept(self, store: Store) -> None:
        change_problem(store, number_of(store), at=T0 + 5, state=WARNING, is_open=False)
        found = problem_of(store, "a")
        assert (found.opened, found.closed, found.state) == (T0, T0 + 5, WARNING)

    def test_a_closed_problem_may_open_again(self, store: Store) -> None:
        opened = a_problem(store, state=WARNING)
        change_problem(store, opened.number, at=T0 + 5, is_open=False, state=CRITICAL, reason="changed")
        change_problem(store, opened.number, at=T0 + 9, state=WARNING)
        found = problem_of(store, "a")
        assert (found.id, found.closed, found.reason) == (opened.id, None, "")
        assert (found.state, found.since, found.worst) == (WARNING, T0, CRITICAL)
        assert list(store.open_problems()) == [OpenProblem(opened.number, "state", T0, 1, 2)]

    def test_a_task_has_one_open_problem_of_each_cause(self, store: Store) -> None:
        first = a_problem(store)
        change_problem(store, first.number, opened=T0 + 5, state=WARNING)
        change_problem(store, first.number, opened=T0 + 6, cause=Cause.FAILED)
        old = store.find_problem(first.id)
        assert old is not None
        assert (old.closed, old.reason) == (T0 + 5, "superseded")
        found = [(problem.cause, problem.opened, problem.state) for problem in store.problems()]
        assert found == [("failed", T0 + 6, CRITICAL), ("state", T0 + 5, WARNING)]
        assert [problem.cause for problem in store.open_problems()] == ["failed", "state"]

    def test_closing_one_that_opened_earlier_supersedes_nothing(self, store: Store) -> None:
        first = a_problem(store, opened=T0 + 5)
        change_problem(store, first.number, opened=T0, at=T0 + 9, is_open=False)
        assert store.problems() == [first]

    def test_many_changes_of_many_tasks_in_one_batch_are_applied_in_order(self, store: Store) -> None:
        entries = store.create([a_task(f"t{i:04}", check=True) for i in range(1_500)], "me", T0)
        numbers = [entry.number for entry in entries]
        changes = [a_problem_change(n, T0) for n in numbers]
        changes += [a_problem_change(n, T0, T0 + 1, WARNING) for n in numbers[::2]]
        changes += [a_problem_change(n, T0, T0 + 2, is_open=False) for n in numbers[::3]]
        changes += [a_problem_change(n, T0 + 3) for n in numbers[::6]]
        store.record(Batch(problems=changes)).result()
        assert store.count_problems(ANY) == 1_500 + 250
        assert store.count_problems(CLOSED) == 500
        ids = [problem.id for problem in store.problems(ANY)]
        assert ids == sorted(set(ids), reverse=True)
        states = {problem.number: (problem.opened, problem.state) for problem in store.problems()}
        assert states[numbers[0]] == (T0 + 3, CRITICAL)
        assert states[numbers[1]] == (T0, CRITICAL)
        assert states[numbers[2]] == (T0, WARNING)
        assert numbers[3] not in states

    def test_whether_a_check_flaps_is_said_of_its_open_problem(self, store: Store) -> None:
        opened = a_problem(store)
        store.record(Batch(claims=[a_claim(opened.number)])).result()
        flapping = a_finish(opened.number, output="up again")._replace(flapping=True, hard=True)
        store.record(Batch(finishes=[flapping])).result()
        change_problem(store, opened.number, at=T0 + 9, state=State.OK)
        found = problem_of(store, "a")
        assert (found.flapping, found.state, found.worst, found.output) == (True, State.OK, CRITICAL, "up again")
        change_problem(store, opened.number, at=T0 + 10, is_open=False)
        found = problem_of(store, "a")
        assert (found.flapping, found.state, found.output) == (False, CRITICAL, "")

    # Removed tasks

    def test_removing_a_task_closes_its_problem(self, store: Store) -> None:
        kept, gone = a_problem(store, "kept"), a_problem(store, "gone", state=WARNING)
        store.remove([gone.number], minutes_later(3))
        assert store.problems() == [kept]
        assert [problem.task for problem in store.open_problems()] == [kept.number]
        assert tasks_of(store, ANY) == ["gone", "kept"]
        found = store.find_problem(gone.id)
        assert found is not None
        assert (found.closed, found.reason, found.state, found.task) == (minutes_later(3), "removed", WARNING, "gone")
        assert store.problems(CLOSED) == [found]
        for names in (("gone",), ("go*",)):
            assert store.problems(ProblemFilter(Filter(names=names), is_open=None)) == [found]
            assert store.problems(ProblemFilter(Filter(names=names))) == []

    def test_changes_of_removed_and_unknown_tasks_are_ignored(self, store: Store) -> None:
        gone, other = a_problem(store), a_problem(store, "b")
        store.remove([gone.number], minutes_later(3))
        changes = [
            a_problem_change(4711),
            a_problem_change(gone.number, T0, minutes_later(4), is_open=False),
            a_problem_change(gone.number, minutes_later(5)),
            a_problem_change(other.number, T0, minutes_later(6), WARNING),
        ]
        store.record(Batch(problems=changes)).result()
        found = store.find_problem(gone.id)
        assert found is not None
        assert (found.closed, found.reason) == (minutes_later(3), "removed")
        assert [(problem.task, problem.state) for problem in store.problems()] == [("b", WARNING)]
        assert store.count_problems(ANY) == 2

    def test_a_restored_task_has_its_open_problem_again(self, store: Store) -> None:
        opened = a_problem(store)
        change_problem(store, opened.number, opened=T0 + 1, cause=Cause.FAILED)
        change_problem(store, opened.number, opened=T0 + 1, at=T0 + 2, cause=Cause.FAILED, is_open=False)
        store.record(Batch(claims=[a_claim(opened.number)])).result()
        store.remove([opened.number], minutes_later(1))
        assert store.problems() == []
        (entry,) = store.create([a_task("a", check=True)], "you", minutes_later(2))
        assert entry.number == opened.number
        (found,) = store.problems()
        assert (found.id, found.closed, found.reason, found.owner) == (opened.id, None, "", "you")
        change_problem(store, opened.number, at=minutes_later(3), is_open=False)
        assert (store.problems(), problem_of(store, "a").closed is not None) == ([], True)

    def test_a_new_task_of_the_name_of_a_removed_one_has_its_own_problems(self, store: Store) -> None:
        old = a_problem(store)
        store.remove([old.number], minutes_later(1))
        new = a_problem(store)
        assert new.id > old.id
        assert [p.number for p in store.problems(ProblemFilter(Filter(names=("a",)), is_open=None))] == [
            new.number,
            old.number,
        ]

    def test_a_problem_goes_by_the_present_name_and_owner_of_its_task(self, store: Store) -> None:
        opened = a_problem(store)
        store.update([(opened.number, a_task("z", check=True, site="y"))], minutes_later(1), owner="you")
        (found,) = store.problems()
        assert (found.id, found.task, found.owner, found.labels) == (opened.id, "z", "you", {"site": "y"})
        assert tasks_of(store, ProblemFilter(Filter(names=("a",)), is_open=None)) == []

    # Finding them

    def test_filters_select_by_what_is_known_of_the_task(self, store: Store) -> None:
        store.create([a_task("web/1", check=True, site="x"), a_task("web/2", check=True)], "me", T0)
        store.create([a_task("Db[1]", check=True, site="y"), a_task("fine", check=True, site="x")], "you", T0)
        entries = {entry.task.name: entry for entry in store.entries()}
        for name in ("web/1", "web/2", "Db[1]"):
            change_problem(store, entries[name].number)
        for only, names in (
            (Filter(), ["Db[1]", "web/2", "web/1"]),
            (Filter(names=("web/1", "fine", "none")), ["web/1"]),
            (Filter(names=(entries["web/2"].id,)), ["web/2"]),
            (Filter(names=("web/*",)), ["web/2", "web/1"]),
            (Filter(names=("Db[?]", "web/1")), ["Db[1]", "web/1"]),
            (Filter(owner="you"), ["Db[1]"]),
            (Filter(labels={"site": "x"}), ["web/1"]),
            (Filter(contains="DB["), ["Db[1]"]),
            (Filter(owner="me", contains="1"), ["web/1"]),
            (Filter(state="ok", after="zzz", most=1), ["Db[1]", "web/2", "web/1"]),
            (Filter(state="stale"), ["Db[1]", "web/2", "web/1"]),
        ):
            assert tasks_of(store, ProblemFilter(only)) == names, only
            assert tasks_of(store, ProblemFilter(only, is_open=None)) == names, only
            assert tasks_of(store, ProblemFilter(only, is_open=False)) == [], only

    def test_filters_select_by_cause_state_and_id(self, store: Store) -> None:
        a, b, c = (a_problem(store, name, state=state) for name, state in zip("abc", list(State)[1:], strict=True))
        change_problem(store, b.number, opened=T0 + 5, cause=Cause.FAILED)
        change_problem(store, c.number, at=T0 + 6, is_open=False, state=UNKNOWN)
        for only, names in (
            (ProblemFilter(cause="failed"), ["b"]),
            (ProblemFilter(cause="state"), ["b", "a"]),
            (ProblemFilter(state=WARNING), ["a"]),
            (ProblemFilter(state=UNKNOWN), []),
            (ProblemFilter(state=UNKNOWN, is_open=None), ["c"]),
            (ProblemFilter(ids=(a.id, c.id, 4711, -1, 0, 1 << 70)), ["a"]),
            (ProblemFilter(ids=(c.id, a.id, a.id), is_open=None), ["c", "a"]),
            (ProblemFilter(ids=(1 << 70,), is_open=None), []),
            (ProblemFilter(Filter(names=("b",)), ids=(a.id, b.id)), ["b"]),
        ):
            assert tasks_of(store, only) == names, only

    def test_a_closed_problem_is_found_by_its_worst_state(self, store: Store) -> None:
        opened = a_problem(store)
        change_problem(store, opened.number, at=T0 + 1, state=WARNING)
        assert tasks_of(store, ProblemFilter(state=WARNING)) == ["a"]
        store.remove([opened.number], minutes_later(1))
        assert tasks_of(store, ProblemFilter(state=WARNING, is_open=None)) == []
        assert tasks_of(store, ProblemFilter(state=CRITICAL, is_open=None)) == ["a"]

    def test_they_are_read_page_by_page(self, store: Store) -> None:
        for name in "abcde":
            a_problem(store, name)
        names, before = [], None
        for _ in range(3):
            page = store.problems(ProblemFilter(before=before, most=2))
            names.append([problem.task for problem in page])
            before = page[-1].id
        assert names == [["e", "d"], ["c", "b"], ["a"]]
        assert store.problems(ProblemFilter(before=before, most=2)) == []
        assert store.count_problems(ProblemFilter(before=before, most=2)) == 5
        assert len(store.problems(ProblemFilter(before=1 << 70))) == 5
        assert store.problems(ProblemFilter(before=-(1 << 70))) == []

    def test_an_unknown_cause_is_refused(self, store: Store) -> None:
        for ask in (store.problems, store.count_problems):
            with pytest.raises(Invalid, match="found 'slow', accepted: state, failed"):
                ask(ProblemFilter(cause="slow"))

    def test_no_problem_has_an_id_that_was_never_given(self, store: Store) -> None:
        for number in (0, -1, 4711, 1 << 70):
            assert store.find_problem(number) is None
            assert store.problem_notes(number) == []

    # What people do with them

    def test_an_acknowledgement_knows_how_bad_it_was_and_became(self, store: Store) -> None:
        opened = a_problem(store, state=WARNING)
        ack = Acknowledgement(T0, "ann", "on it", Instant(T0 + DAY), sticky=True, severity=7, worst_since=9)
        assert store.acknowledge([opened.id], ack, minutes_later(1), "ann") == [opened.id]
        given = Acknowledgement(T0, "ann", "on it", Instant(T0 + DAY), sticky=True, severity=1, worst_since=1)
        assert problem_of(store, "a").acknowledgement == given
        seen = []
        for minute, state in enumerate((State.OK, WARNING, UNKNOWN, WARNING, CRITICAL, UNKNOWN), 2):
            change_problem(store, opened.number, at=minutes_later(minute), state=state)
            found = problem_of(store, "a").acknowledgement
            assert found is not None
            seen.append((found.severity, found.worst_since))
        assert seen == [(1, 1), (1, 1), (1, 2), (1, 2), (1, 3), (1, 3)]
        assert store.acknowledge([opened.id], Acknowledgement(T0, "bob"), minutes_later(9), "bob") == [opened.id]
        assert problem_of(store, "a").acknowledgement == Acknowledgement(T0, "bob", severity=2, worst_since=2)

    def test_a_check_that_flaps_is_acknowledged_at_its_worst_if_it_is_ok_just_then(self, store: Store) -> None:
        opened = a_problem(store, state=UNKNOWN)
        for minute, state in enumerate((WARNING, State.OK), 1):
            change_problem(store, opened.number, at=minutes_later(minute), state=state)
        store.acknowledge([opened.id], Acknowledgement(T0, "ann"), minutes_later(3), "ann")
        seen = []
        for minute, state in enumerate((UNKNOWN, State.OK, CRITICAL), 4):
            change_problem(store, opened.number, at=minutes_later(minute), state=state)
            found = problem_of(store, "a").acknowledgement
            assert found is not None
            seen.append((found.severity, found.worst_since))
        assert seen == [(2, 2), (2, 2), (2, 3)]

    def test_a_closed_problem_keeps_its_acknowledgement_as_it_was(self, store: Store) -> None:
        opened = a_problem(store)
        change_problem(store, opened.number, at=T0 + 1, state=WARNING)
        store.acknowledge([opened.id], Acknowledgement(T0, "ann"), minutes_later(1), "ann")
        change_problem(store, opened.number, at=T0 + 2, is_open=False)
        assert problem_of(store, "a").acknowledgement == Acknowledgement(T0, "ann", severity=1, worst_since=1)

    def test_the_acknowledged_ones_are_those_whose_acknowledgement_counts(self, store: Store) -> None:
        def opened(name: str, until: int | None = None, *, sticky: bool = False, acknowledged: bool = True) -> int:
            problem = a_problem(store, name, state=WARNING)
            if acknowledged:
                ack = Acknowledgement(T0, "ann", until=None if until is None else minutes_later(until), sticky=sticky)
                store.acknowledge([problem.id], ack, minutes_later(1), "ann")
            return problem.number

        opened("none", acknowledged=False)
        opened("plain")
        for name, until, sticky in (("until", 5, False), ("worse", None, False), ("sticky", 9, True)):
            number = opened(name, until, sticky=sticky)
            if name != "until":
                change_problem(store, number, at=minutes_later(2), state=CRITICAL)
        change_problem(store, opened("closed", 5), at=minutes_later(4), is_open=False)
        change_problem(store, opened("closed late", 5), at=minutes_later(6), is_open=False)
        store.remove([opened("removed", 5)], minutes_later(4))
        names = {"none", "plain", "until", "worse", "sticky", "closed", "closed late", "removed"}
        always = {"plain", "closed", "removed"}
        for minute, counts in ((4, always | {"until", "sticky"}), (5, always | {"sticky"}), (9, always)):
            for acknowledged, expected in ((True, counts), (False, names - counts)):
                only = ProblemFilter(is_open=None, acknowledged=acknowledged, now=minutes_later(minute))
                assert {problem.task for problem in store.problems(only)} == expected
                assert store.count_problems(only) == len(expected)

    def test_only_open_problems_are_acknowledged(self, store: Store) -> None:
        a, b, c = (a_problem(store, name) for name in "abc")
        change_problem(store, b.number, at=T0 + 5, is_open=False)
        store.remove([c.number], minutes_later(1))
        asked = [4711, c.id, b.id, a.id, a.id, 1 << 70, -1]
        assert store.acknowledge(asked, Acknowledgement(T0, "ann"), minutes_later(2), "ann") == [a.id]
        assert [problem.acknowledgement is not None for problem in store.problems(ANY)] == [False, False, True]
        assert [len(store.problem_notes(problem.id)) for problem in (a, b, c)] == [1, 0, 0]
        assert store.acknowledge([], Acknowledgement(T0, "ann"), minutes_later(2), "ann") == []

    def test_an_acknowledgement_is_taken_back_once(self, store: Store) -> None:
        a, b = a_problem(store), a_problem(store, "b")
        store.acknowledge([a.id], Acknowledgement(T0, "ann", "on it"), minutes_later(1), "ann")
        assert store.acknowledge([b.id, a.id], None, minutes_later(2), "bob") == [a.id]
        assert problem_of(store, "a").acknowledgement is None
        assert store.acknowledge([a.id], None, minutes_later(3), "bob") == []
        assert store.problem_notes(a.id) == [
            ProblemNote(minutes_later(1), "ann", "acknowledged", "on it"),
            ProblemNote(minutes_later(2), "bob", "unacknowledged"),
        ]

    def test_the_answer_is_in_the_order_of_the_question(self, store: Store) -> None:
        ids = [a_problem(store, name).id for name in "abcd"]
        asked = [ids[2], ids[0], ids[3], ids[0]]
        assert store.acknowledge(asked, Acknowledgement(T0, "ann"), T0, "ann") == [ids[2], ids[0], ids[3]]
        assert store.comment(asked, "x", T0, "ann") == [ids[2], ids[0], ids[3]]
        assert store.acknowledge(asked, None, T0, "ann") == [ids[2], ids[0], ids[3]]

    def test_of_many_notes_the_latest_are_returned(self, store: Store) -> None:
        number = a_problem(store).id
        for i in range(MAX_PROBLEM_NOTES + 2):
            store.comment([number], str(i), T0, "ann")
        found = [note.text for note in store.problem_notes(number)]
        assert found == [str(i) for i in range(2, MAX_PROBLEM_NOTES + 2)]

    def test_comments_are_kept_in_order_of_open_and_closed_problems(self, store: Store) -> None:
        a, b = a_problem(store), a_problem(store, "b")
        text = "é\0 'x' \"y\"\n{}"
        assert store.comment([a.id], text, minutes_later(2), "a\nn") == [a.id]
        change_problem(store, b.number, at=T0 + 5, is_open=False)
        assert store.comment([b.id, 4711, a.id, 1 << 70], "later", minutes_later(1), "bob") == [b.id, a.id]
        assert store.problem_notes(a.id) == [
            ProblemNote(minutes_later(2), "a\nn", "commented", text),
            ProblemNote(minutes_later(1), "bob", "commented", "later"),
        ]
        assert [note.text for note in store.problem_notes(b.id)] == ["later"]
        store.remove([a.number], minutes_later(3))
        assert store.comment([a.id], "gone", minutes_later(4), "ann") == [a.id]

    def test_another_problem_of_the_task_is_not_acknowledged(self, store: Store) -> None:
        first = a_problem(store)
        store.acknowledge([first.id], Acknowledgement(T0, "ann"), T0, "ann")
        change_problem(store, first.number, opened=T0 + 5)
        (second,) = store.problems()
        assert (second.acknowledgement, store.problem_notes(second.id)) == (None, [])

    def test_any_text_comes_back(self, store: Store) -> None:
        opened = a_problem(store)
        ack = Acknowledgement(T0, "\1\0", "\0 \\ {}", severity=3, worst_since=3)
        store.acknowledge([opened.id], ack, T0, "ann")
        assert problem_of(store, "a").acknowledgement == ack

    # Keeping them

    def test_closed_problems_are_forgotten_with_their_notes_and_open_ones_stay(self, store: Store) -> None:
        old, late, still = a_problem(store), a_problem(store, "b"), a_problem(store, "c")
        for problem in (old, late, still):
            store.comment([problem.id], "x", T0, "ann")
        change_problem(store, old.number, at=T0 + 5, is_open=False)
        change_problem(store, late.number, at=T0 + DAY, is_open=False)
        while store.prune(Instant(T0 + 5 + KEEP), KEEP):
            pass
        assert tasks_of(store, ANY) == ["c", "b", "a"], "it is as old as `keep`, and no older"
        assert store.prune(Instant(T0 + 6 + KEEP), KEEP) > 0
        while store.prune(Instant(T0 + 6 + KEEP), KEEP):
            pass
        assert tasks_of(store, ANY) == ["c", "b"]
        assert (store.find_problem(old.id), store.problem_notes(old.id)) == (None, [])
        assert store.comment([old.id], "late", T0, "ann") == []
        while store.prune(Instant(T0 + 10 * KEEP), KEEP):
            pass
        assert store.problems(ANY) == [still]
        assert len(store.problem_notes(still.id)) == 1

    def test_problems_of_a_removed_task_are_forgotten(self, store: Store) -> None:
        opened, other = a_problem(store), a_problem(store, "b")
        store.comment([opened.id], "x", T0, "ann")
        store.remove([opened.number], minutes_later(1))
        while store.prune(Instant(minutes_later(1) + KEEP), KEEP):
            pass
        assert tasks_of(store, ANY) == ["b", "a"]
        while store.prune(Instant(minutes_later(1) + KEEP + 1), KEEP):
            pass
        assert store.problems(ANY) == [other]
        assert store.problem_notes(opened.id) == []
        change_problem(store, other.number, opened=T0 + 5)
        assert store.problems()[0].id > other.id, "no id is given twice"

    def test_the_problem_of_a_removed_task_is_as_old_as_the_removal(self, store: Store) -> None:
        opened = a_problem(store)
        store.record(Batch(claims=[a_claim(opened.number)])).result()
        store.remove([opened.number], minutes_later(1))
        ended_later = a_finish(opened.number)._replace(ended=T0 + DAY)
        store.record(Batch(finishes=[ended_later])).result()
        while store.prune(Instant(minutes_later(1) + KEEP + 1), KEEP):
            pass
        assert store.find_removed("a") is not None, "its run is younger"
        assert store.problems(ANY) == []

    def test_an_id_is_never_given_twice(self, store: Store) -> None:
        opened = a_problem(store)
        change_problem(store, opened.number, at=T0 + 5, is_open=False)
        while store.prune(Instant(T0 + 2 * KEEP), KEEP):
            pass
        assert store.problems(ANY) == []
        change_problem(store, opened.number)
        assert problem_of(store, "a").id > opened.id

    def test_problems_outlive_a_restart(self, store: Store, tmp_path: Path) -> None:
        a, b = a_problem(store), a_problem(store, "b", state=WARNING)
        store.acknowledge([a.id], Acknowledgement(T0, "ann", "on it", Instant(T0 + DAY)), minutes_later(1), "ann")
        store.acknowledge([b.id], Acknowledgement(T0, "ann"), minutes_later(1), "ann")
        store.acknowledge([b.id], None, minutes_later(1), "ann")
        store.comment([b.id], "known", minutes_later(2), "bob")
        change_problem(store, b.number, at=minutes_later(3), is_open=False)
        before = store.problems(ANY), list(store.open_problems()), store.problem_notes(a.id), store.problem_notes(b.id)
        again = self.reopen(store, tmp_path)
        if again is None:
            pytest.skip("this store keeps nothing")
        after = again.problems(ANY), list(again.open_problems()), again.problem_notes(a.id), again.problem_notes(b.id)
        assert after == before
        again.close()
