"""Part of the store contract: what problems are held for, what channels know of problems, and what was decided."""

from pathlib import Path

import pytest

from evenbeat.model import DAY, Acknowledgement, Cause, Instant, State
from evenbeat.store.alert_records import (
    NONE_REFUSED,
    AlertBatch,
    AlertDecisionFilter,
    AlertProblem,
    AlertRecord,
    AlertRefusals,
    NumberedDecision,
    ProblemKey,
)
from evenbeat.store.contract import Batch, ContradictoryBatch, Store
from evenbeat.store.problem_records import OpenProblem
from evenbeat.testing.samples import (
    T0,
    a_claim,
    a_decision,
    a_finish,
    a_hold,
    a_message,
    a_problem_change,
    a_task,
    an_alert,
)
from evenbeat.testing.store_history import minutes_later, record_run
from evenbeat.testing.store_problems import KEEP, a_problem, change_problem, problem_of
from evenbeat.testing.store_runs import number_of

WEBHOOK, MAIL = "ops/webhook/1a2b3c4d", "boss/email/9f8e7d6c"


def hold(store: Store, task: int, word: str, at: int, opened: int = T0) -> None:
    """Record what the problem of a check is held for."""
    store.record(Batch(holds=[a_hold(task, word, at, opened)])).result()


def keep(store: Store, *alerts: AlertRecord) -> AlertRefusals:
    """Record alerts alone."""
    return store.record_alerts(AlertBatch(list(alerts))).result()


def refused(*alerts: AlertRecord, messages: tuple[int, ...] = ()) -> AlertRefusals:
    """What `record_alerts` answers if just these are refused."""
    return AlertRefusals(frozenset(alert.key for alert in alerts), frozenset(messages))


def prune_all(store: Store, now: int) -> None:
    """Prune until nothing is left to delete."""
    while store.prune(Instant(now), KEEP):
        pass


class HoldsContract:
    """A problem is held with a batch, and free again when it closes."""

    def test_a_problem_is_held_since_the_reason_began(self, store: Store) -> None:
        number = a_problem(store).number
        seen = []
        for minute, word in enumerate(("downtime", "downtime", "outside period", "", "", "downtime")):
            hold(store, number, word, minutes_later(minute))
            found = problem_of(store, "a")
            (opened,) = store.open_problems()
            assert (opened.hold, opened.held_since) == (found.hold, found.held_since or 0)
            ((for_alerts, _),) = store.open_alert_problems()
            assert (for_alerts.hold, for_alerts.held_since) == (found.hold, found.held_since)
            seen.append((found.hold, found.held_since))
        assert seen == [
            ("downtime", minutes_later(0)),
            ("downtime", minutes_later(0)),
            ("outside period", minutes_later(2)),
            ("", None),
            ("", None),
            ("downtime", minutes_later(5)),
        ]

    def test_it_is_held_in_the_batch_that_opens_it(self, store: Store) -> None:
        number = number_of(store)
        twice = [a_hold(number, "paused", T0 + 1), a_hold(number, "downtime", T0 + 2)]
        store.record(Batch(problems=[a_problem_change(number)], holds=twice)).result()
        assert list(store.open_problems()) == [OpenProblem(number, "state", T0, 2, 2, "downtime", T0 + 2)]

    def test_only_the_open_problem_that_is_meant_is_held(self, store: Store) -> None:
        a, b = a_problem(store), a_problem(store, "b")
        change_problem(store, b.number, at=T0 + 5, is_open=False)
        store.record(
            Batch(
                holds=[
                    a_hold(a.number, "x", T0 + 6, opened=T0 + 1),
                    a_hold(a.number, "y", T0 + 6)._replace(cause=Cause.FAILED.value),
                    a_hold(b.number, "z", T0 + 6),
                    a_hold(4711, "z", T0 + 6),
                ]
            )
        ).result()
        assert [(problem_of(store, name).hold, problem_of(store, name).held_since) for name in "ab"] == [("", None)] * 2
        change_problem(store, b.number, at=T0 + 7)
        assert problem_of(store, "b").hold == "", "it was closed when it was to be held"

    @pytest.mark.parametrize("way", ["closed", "superseded"])
    def test_a_problem_that_closes_is_held_no_longer(self, store: Store, way: str) -> None:
        opened = a_problem(store)
        hold(store, opened.number, "downtime", T0 + 1)
        if way == "closed":
            change_problem(store, opened.number, at=T0 + 5, is_open=False)
        else:
            change_problem(store, opened.number, opened=T0 + 5)
        closed = store.find_problem(opened.id)
        assert closed is not None
        assert (closed.hold, closed.held_since, closed.closed) == ("", None, T0 + 5)
        change_problem(store, opened.number, at=T0 + 9)
        again = store.find_problem(opened.id)
        assert again is not None
        assert (again.hold, again.held_since, again.closed) == ("", None, None)

    def test_a_removed_task_keeps_no_problem_held_and_a_restored_one_does(self, store: Store) -> None:
        opened = a_problem(store)
        hold(store, opened.number, "downtime", T0 + 1)
        store.record(Batch(claims=[a_claim(opened.number)])).result()
        store.remove([opened.number], minutes_later(1))
        hold(store, opened.number, "paused", minutes_later(2))
        assert (problem_of(store, "a").hold, problem_of(store, "a").held_since) == ("", None)
        store.create([a_task("a", check=True)], "me", minutes_later(3))
        assert (problem_of(store, "a").hold, problem_of(store, "a").held_since) == ("downtime", T0 + 1)

    def test_many_are_held_at_once(self, store: Store) -> None:
        entries = store.create([a_task(f"t{i:04}", check=True) for i in range(1_500)], "me", T0)
        numbers = [entry.number for entry in entries]
        changes = [a_problem_change(number) for number in numbers]
        store.record(Batch(problems=changes, holds=[a_hold(n, "unreachable", T0 + 1) for n in numbers[::3]])).result()
        assert {problem.number for problem in store.problems() if problem.hold} == set(numbers[::3])

    def test_a_batch_that_is_refused_holds_nothing(self, store: Store) -> None:
        number = a_problem(store).number
        bad = store.record(Batch(finishes=[a_finish(4711)], holds=[a_hold(number, "downtime", T0)]))
        assert isinstance(bad.exception(), ContradictoryBatch)
        assert problem_of(store, "a").hold == ""


class AlertsContract:
    """What each channel knows of each problem, and the log of what was decided."""

    def reopen(self, store: Store, folder: Path) -> Store | None:
        raise NotImplementedError

    # Problems, as alerts need them

    def test_problems_are_found_by_their_keys(self, store: Store) -> None:
        a, b = a_problem(store), a_problem(store, "b", opened=T0 + 5)
        change_problem(store, b.number, opened=T0 + 5, at=T0 + 6, is_open=False)
        keys = [
            ProblemKey(b.number, "state", T0 + 5),
            ProblemKey(a.number, "state", T0 + 1),
            ProblemKey(a.number, "failed", T0),
            ProblemKey(a.number, "state", T0),
            ProblemKey(4711, "state", T0),
            ProblemKey(b.number, "state", T0 + 5),
        ]
        assert store.problem_ids(keys) == [b.id, None, None, a.id, None, b.id]
        assert store.problem_ids([]) == []

    def test_a_problem_says_what_its_alerts_depend_on(self, store: Store) -> None:
        number = number_of(store)
        store.record(Batch(claims=[a_claim(number)])).result()
        flapping = a_finish(number, output="bad", state=2)._replace(flapping=True)
        changes = [a_problem_change(number), a_problem_change(number, at=T0 + 3, state=State.WARNING)]
        store.record(Batch(finishes=[flapping], problems=changes, holds=[a_hold(number, "downtime", T0 + 4)])).result()
        (id_,) = store.problem_ids([ProblemKey(number, "state", T0)])
        assert id_ is not None
        ack = Acknowledgement(T0, "ann", "on it", Instant(T0 + DAY), sticky=True, severity=1, worst_since=1)
        store.acknowledge([id_], ack, T0, "ann")
        expected = AlertProblem(
            id_, number, "a", "state", T0, T0 + 3, 1, 1, None, "", True, "downtime", T0 + 4, ack,
        )  # fmt: skip
        assert list(store.open_alert_problems()) == [(expected, [])]
        assert store.alert_problems([id_, id_, 4711, -1, 1 << 70]) == [(expected, [])]
        change_problem(store, number, at=T0 + 9, is_open=False, reason="changed")
        closed = expected._replace(
            state=2, severity=3, closed=T0 + 9, reason="changed", flapping=False, hold="", held_since=None
        )
        assert store.alert_problems([id_]) == [(closed, [])]
        assert list(store.open_alert_problems()) == []

    def test_a_check_that_flaps_and_is_ok_just_now_is_as_severe_as_it_was(self, store: Store) -> None:
        number = a_problem(store, state=State.UNKNOWN).number
        change_problem(store, number, at=T0 + 1, state=State.WARNING)
        change_problem(store, number, at=T0 + 2, state=State.OK)
        ((problem, _),) = store.open_alert_problems()
        assert (problem.state, problem.severity, problem.since) == (0, 2, T0 + 2)

    def test_open_problems_and_closed_ones_that_are_not_over_come_by_id(self, store: Store) -> None:
        _, b, c, d, e = (a_problem(store, name) for name in "abcde")
        keep(
            store,
            an_alert(e.id, is_over=True),
            an_alert(b.id, WEBHOOK, is_over=True),
            an_alert(b.id, MAIL, sent=3),
            an_alert(c.id, is_over=True),
            an_alert(d.id, sent=1),
        )
        for problem in (b, c):
            change_problem(store, problem.number, at=T0 + 5, is_open=False)
        store.remove([d.number], minutes_later(1))
        found = list(store.open_alert_problems())
        assert [(problem.task, [alert.channel for alert in alerts]) for problem, alerts in found] == [
            ("a", []),
            ("b", [MAIL, WEBHOOK]),
            ("d", [WEBHOOK]),
            ("e", [WEBHOOK]),
        ]
        assert [(problem.closed, problem.reason) for problem, _ in found] == [
            (None, ""),
            (T0 + 5, ""),
            (minutes_later(1), "removed"),
            (None, ""),
        ]

    # Rows and their versions

    def test_a_row_comes_back_as_it_was_recorded_with_the_next_version(self, store: Store) -> None:
        problem = a_problem(store).id
        odd = "o\0ps/we\1b\\\"'{}/é"
        full = AlertRecord(
            problem, odd, "o\0ps", 0, 3, True, T0, "recovery", True, T0 + 1, T0 + 2, "h\0eld", T0 + 3, 0, False
        )
        assert keep(store, full, an_alert(problem)) == NONE_REFUSED
        assert store.alerts(problem) == [full._replace(version=1), an_alert(problem, version=1)]
        ((_, alerts),) = store.alert_problems([problem])
        assert alerts == store.alerts(problem)
        assert [type(value) for value in alerts[0]] == [type(value) for value in full]
        changed = AlertRecord(problem, odd, "you", 1, sent=1, is_over=True)
        assert keep(store, changed) == NONE_REFUSED
        assert store.alerts(problem) == [changed._replace(version=2), an_alert(problem, version=1)]
        assert store.alerts(4711) == store.alerts(-1) == store.alerts(1 << 70) == []

    def test_a_row_of_another_version_is_refused_and_the_others_are_kept(self, store: Store) -> None:
        a, b = a_problem(store).id, a_problem(store, "b").id
        keep(store, an_alert(a), an_alert(b))
        keep(store, an_alert(a, version=1, sent=1))
        rows = [
            an_alert(a, version=1, sent=2),
            an_alert(b, version=1, sent=2),
            an_alert(a, MAIL, version=1, sent=2),
            an_alert(b, MAIL, sent=2),
            an_alert(4711, sent=2),
        ]
        decisions = [a_decision(*row.key) for row in rows]
        answer = store.record_alerts(
            AlertBatch(rows, [*decisions, a_decision(a, "x/email/1"), a_decision(4711, "x/email/1")])
        )
        assert answer.result() == refused(rows[0], rows[2], rows[4])
        assert [(row.channel, row.version, row.sent) for row in store.alerts(a)] == [(WEBHOOK, 2, 1)]
        assert [(row.channel, row.version, row.sent) for row in store.alerts(b)] == [(MAIL, 1, 2), (WEBHOOK, 2, 2)]
        assert [found.decision.key for found in store.alert_decisions()] == [(a, "x/email/1"), (b, MAIL), (b, WEBHOOK)]
        assert keep(store, an_alert(a, version=0)) == refused(an_alert(a)), "the row exists"

    def test_a_message_is_refused_with_all_its_alerts(self, store: Store) -> None:
        ids = [a_problem(store, name).id for name in "abc"]
        keep(store, *(an_alert(id_) for id_ in ids))
        first, second = store.reserve_messages(1), store.reserve_messages(1)
        stale, together = an_alert(ids[0], message=first), an_alert(ids[1], version=1, message=first)
        alone = an_alert(ids[2], version=1, message=second)
        rows = [stale, together, alone]
        batch = AlertBatch(
            rows, [a_decision(*row.key, message=row.message) for row in rows], [a_message(first), a_message(second)]
        )
        assert store.record_alerts(batch).result() == refused(stale, together, messages=(first,))
        assert [row.version for id_ in ids for row in store.alerts(id_)] == [1, 1, 2]
        assert [message.id for message in store.messages()] == [second]
        assert store.message_document(first) is None
        assert [found.decision.message for found in store.alert_decisions()] == [second]

    def test_a_row_twice_in_a_batch_contradicts_it(self, store: Store) -> None:
        problem = a_problem(store).id
        twice = [an_alert(problem), an_alert(problem, sent=2)]
        batch = AlertBatch([an_alert(problem, MAIL), *twice], [a_decision(problem)], [a_message(1)])
        assert isinstance(store.record_alerts(batch).exception(), ContradictoryBatch)
        assert isinstance(store.record_alerts(AlertBatch(messages=[a_message(1)] * 2)).exception(), ContradictoryBatch)
        assert (store.alerts(problem), store.alert_decisions(), store.messages()) == ([], [], [])

    def test_they_are_recorded_after_the_batches_before(self, store: Store) -> None:
        numbers = [number_of(store, name) for name in "abcdef"]
        futures = []
        for id_, number in enumerate(numbers, 1):
            opening = store.record(Batch(problems=[a_problem_change(number)]))
            futures.append(store.record_alerts(AlertBatch([an_alert(id_)])))
            futures.append(store.record_alerts(AlertBatch([an_alert(id_, version=1, sent=3)])))
        assert [future.result() for future in futures] == [NONE_REFUSED] * 12
        assert opening.done()
        assert [store.alerts(id_) for id_ in range(1, 7)] == [[an_alert(id_, version=2, sent=3)] for id_ in range(1, 7)]

    def test_thousands_are_recorded_at_once(self, store: Store) -> None:
        entries = store.create([a_task(f"t{i:04}", check=True) for i in range(3_000)], "me", T0)
        store.record(Batch(problems=[a_problem_change(entry.number) for entry in entries])).result()
        ids = [problem.id for problem, _ in store.open_alert_problems()]
        rows = [an_alert(id_, channel, sent=2) for id_ in ids for channel in (WEBHOOK, MAIL)]
        batch = AlertBatch(rows, [a_decision(*row.key, at=T0 + i) for i, row in enumerate(rows)])
        assert store.record_alerts(batch).result() == NONE_REFUSED
        found = list(store.open_alert_problems())
        assert [(problem.id, len(alerts)) for problem, alerts in found] == [(id_, 2) for id_ in ids]
        assert [d.decision.key for d in store.alert_decisions(AlertDecisionFilter(most=10**6))] == [
            row.key for row in reversed(rows)
        ]

    # The log of decisions

    def test_decisions_are_read_by_what_they_are_about_newest_first(self, store: Store) -> None:
        a, b, c = (a_problem(store, name) for name in "abc")
        change_problem(store, a.number, opened=T0 + 1)
        a2 = problem_of(store, "a").id
        decisions = [
            a_decision(a.id, WEBHOOK, T0 + 5, "suppressed", "downtime"),
            a_decision(a.id, MAIL, T0 + 3, "waiting"),
            a_decision(b.id, WEBHOOK, T0 + 4),
            a_decision(a2, WEBHOOK, T0 + 5, "sent", "\0\\'", 7),
        ]
        for decision in decisions:
            store.record_alerts(AlertBatch(decisions=[decision])).result()
        found = store.alert_decisions()
        assert [row.decision for row in found] == [decisions[i] for i in (3, 0, 2, 1)]
        assert [row.task for row in found] == ["a", "a", "b", "a"]
        assert found[0] == NumberedDecision(found[0].number, "a", decisions[3])
        for only, expected in (
            (AlertDecisionFilter(problem=a.id), [0, 1]),
            (AlertDecisionFilter(problem=c.id), []),
            (AlertDecisionFilter(problem=1 << 70), []),
            (AlertDecisionFilter(task="a"), [3, 0, 1]),
            (AlertDecisionFilter(task="none"), []),
            (AlertDecisionFilter(task="a", problem=b.id), []),
            (AlertDecisionFilter(contact="boss"), [1]),
            (AlertDecisionFilter(task="a", contact="ops"), [3, 0]),
            (AlertDecisionFilter(since=Instant(T0 + 4)), [3, 0, 2]),
            (AlertDecisionFilter(until=Instant(T0 + 4)), [1]),
            (AlertDecisionFilter(task="a", since=Instant(T0 + 4), until=Instant(T0 + 6)), [3, 0]),
            (AlertDecisionFilter(most=1), [3]),
            (AlertDecisionFilter(before=(T0 + 5, found[0].number)), [0, 2, 1]),
            (AlertDecisionFilter(task="a", before=(T0 + 5, found[1].number), most=1), [1]),
        ):
            assert [row.decision for row in store.alert_decisions(only)] == [decisions[i] for i in expected], only

    def test_decisions_go_by_the_present_name_of_the_task(self, store: Store) -> None:
        first, other = a_problem(store), a_problem(store, "b")
        decisions = [a_decision(first.id), a_decision(other.id, at=T0 + 1)]
        store.record_alerts(AlertBatch(decisions=decisions)).result()
        store.update([(first.number, a_task("z", check=True))], minutes_later(1))
        store.remove([other.number], minutes_later(1))
        for name, expected in (("a", []), ("z", [decisions[0]]), ("b", [decisions[1]])):
            found = store.alert_decisions(AlertDecisionFilter(task=name))
            assert [(row.task, row.decision) for row in found] == [(name, decision) for decision in expected]

    # Keeping them

    def test_a_problem_stays_until_nothing_is_to_be_sent_and_takes_what_was_decided_along(self, store: Store) -> None:
        over, waits, still = (a_problem(store, name) for name in "abc")
        rows = [an_alert(over.id, is_over=True), an_alert(waits.id, sent=3), an_alert(waits.id, MAIL, is_over=True)]
        batch = AlertBatch([*rows, an_alert(still.id)], [a_decision(row.problem, at=T0 + 2 * KEEP) for row in rows])
        store.record_alerts(batch).result()
        for problem in (over, waits):
            change_problem(store, problem.number, at=T0 + 5, is_open=False)
        prune_all(store, T0 + 2 * KEEP)
        assert [problem.id for problem, _ in store.open_alert_problems()] == [waits.id, still.id]
        assert (store.find_problem(over.id), store.alerts(over.id)) == (None, [])
        assert {found.decision.problem for found in store.alert_decisions()} == {waits.id}
        assert len(store.alerts(waits.id)) == 2
        keep(store, an_alert(waits.id, version=1, is_over=True))
        prune_all(store, T0 + 2 * KEEP)
        assert (store.find_problem(waits.id), store.alerts(waits.id), store.alert_decisions()) == (None, [], [])
        assert len(store.alerts(still.id)) == 1

    def test_a_removed_task_stays_until_nothing_is_to_be_sent(self, store: Store) -> None:
        opened = a_problem(store)
        record_run(store, opened.number, T0, outcome="failed")
        keep(store, an_alert(opened.id, sent=3))
        store.remove([opened.number], minutes_later(1))
        prune_all(store, T0 + 2 * KEEP)
        assert [(problem.task, problem.reason) for problem, _ in store.open_alert_problems()] == [("a", "removed")]
        assert store.find_removed("a") is not None
        keep(store, an_alert(opened.id, version=1, is_over=True))
        prune_all(store, T0 + 2 * KEEP)
        assert (store.find_removed("a"), store.alert_problems([opened.id])) == (None, [])

    def test_decisions_go_like_history(self, store: Store) -> None:
        problem = a_problem(store).id
        decisions = [a_decision(problem, at=T0), a_decision(problem, at=T0 + 1), a_decision(problem, at=T0 + DAY)]
        store.record_alerts(AlertBatch([an_alert(problem)], decisions)).result()
        prune_all(store, T0 + 1 + KEEP)
        assert [found.decision for found in store.alert_decisions()] == [decisions[2], decisions[1]]
        assert len(store.alerts(problem)) == 1

    def test_they_outlive_a_restart(self, store: Store, tmp_path: Path) -> None:
        a, b = a_problem(store), a_problem(store, "b")
        hold(store, b.number, "downtime", T0 + 1)
        id_ = store.reserve_messages(3)
        rows = [an_alert(a.id, sent=3, message=id_), an_alert(b.id, MAIL, waiting="problem", leaves_at=T0 + 9)]
        store.record_alerts(AlertBatch(rows, [a_decision(*row.key) for row in rows], [a_message(id_)])).result()

        def everything(store: Store) -> list[object]:
            return [
                list(store.open_alert_problems()), list(store.open_problems()), store.alert_decisions(),
                store.messages(), store.unfinished_messages(), store.message_document(id_),
            ]  # fmt: skip

        before = everything(store)
        again = self.reopen(store, tmp_path)
        if again is None:
            pytest.skip("this store keeps nothing")
        assert everything(again) == before
        assert again.reserve_messages(1) > id_ + 2, "no id is given twice"
        assert keep(again, an_alert(a.id, sent=1)) == refused(an_alert(a.id))
        again.close()
