"""The engine of notifications: what contacts are told, in messages, and what is recorded of it."""

import pytest
from alerting_node import AlertingNode

from evenbeat.model import DAY, HOUR, SECOND, SEVERITY, Outcome, Period, State
from evenbeat.node.answers.metrics import alert_metrics_of
from evenbeat.store.contract import Batch, ProblemFilter
from evenbeat.store.problem_records import ProblemChange


@pytest.fixture
def node() -> AlertingNode:
    node = AlertingNode()
    node.contact("ops")
    return node


class TestOneProblem:
    def test_it_is_told_once_its_gather_ends_and_then_its_recovery(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2, "CRITICAL - no answer")
        node.notify(29)
        assert node.messages == []
        node.notify(1)
        (message,) = node.messages
        (item,) = message.items
        assert (item.kind, item.task, item.state, item.output) == ("problem", "web", "critical", "CRITICAL - no answer")
        node.deliver()
        node.result("web", 0)
        node.notify(30)
        node.deliver()
        assert node.told() == ["problem web", "recovery web"]
        assert node.reasons("web") == ["sent problem", "sent recovery"]
        assert {record.state for record in node.store.messages()} == {"delivered"}

    def test_a_problem_that_is_over_before_its_gather_ends_is_not_told(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.result("web", 0)
        node.pass_by(120)
        assert node.messages == []
        assert node.reasons("web") == ["suppressed over before it was sent"]

    def test_a_recovery_that_had_to_wait_comes_before_the_next_problem_of_its_task(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.result("web", 0)
        node.result("web", 2)
        node.notify(60)
        node.deliver()
        node.notify(30)
        assert node.told() == ["problem web", "recovery web", "problem web"]

    @pytest.mark.parametrize(("before", "after", "told"), [(1, 2, 1), (2, 1, 2)])
    def test_what_a_message_said_counts_if_the_state_has_just_changed(
        self, node: AlertingNode, before: int, after: int, told: int
    ) -> None:
        node.check("web", "ops")
        node.result("web", before)
        (problem,) = node.store.problems(ProblemFilter())

        def becomes(state: int) -> None:
            """It is committed, by another node of a cluster maybe, and not heard of yet."""
            key = (problem.number, "state", problem.opened, node.now)
            node.store.record(Batch(problems=[ProblemChange(*key, state, SEVERITY[State(state)], is_open=True)]))

        becomes(after)
        node.notify(30)
        node.deliver()
        assert [item.state for item in node.items()] == [State(after).name.lower()]
        becomes(2)
        node.engine.news.problems_changed([problem.id])
        node.pass_by(120)
        assert len(node.messages) == told

    def test_that_a_recovery_was_given_up_is_recorded(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver()
        node.result("web", 0)
        node.notify(30)
        for _ in range(200):
            node.deliver(is_delivered=False, error="gone")
            node.notify(600)
        assert node.reasons("web") == ["sent problem", "sent recovery", "given up gone"]
        (problem,) = node.store.problems(ProblemFilter(is_open=False))
        assert [alert.message for alert in node.store.alerts(problem.id)] == [0]

    def test_a_problem_that_is_over_does_not_hurry_the_next(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.check("db", "ops")
        node.result("web", 2)
        node.notify(20)
        node.result("db", 2)
        node.result("web", 0)
        node.notify(15)
        assert node.told() == []
        node.notify(14)
        assert node.told() == ["problem db"]

    def test_a_task_that_fails_is_told_too(self, node: AlertingNode) -> None:
        node.add("backup", notify=["ops"])
        node.force("backup")
        node.turn()
        node.end("backup", Outcome.FAILED, 1, output=b"no space left")
        node.turn()
        node.pass_by(60)
        (item,) = node.items()
        assert (item.task, item.cause, item.state, item.output) == ("backup", "failed", "critical", "no space left")

    def test_each_place_of_each_contact_gets_a_message_of_its_own(self, node: AlertingNode) -> None:
        node.contact("ops", webhook="http://localhost:1/a", command=["notify"], email=["ops@localhost"])
        node.contact("boss", send=["slack://a", "slack://b"])
        node.check("web", "ops", {"to": "boss", "after": "5m"})
        node.result("web", 1)
        node.pass_by(60)
        assert sorted(order.kind for order in node.sender.orders) == ["command", "email", "webhook"]
        node.pass_by(300)
        assert [order.kind for order in node.sender.orders].count("send") == 2
        (item, _) = node.items("boss")
        assert item.told == ["ops"]

    def test_a_worse_state_is_told_at_once_and_a_better_one_is_not(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        for state in (1, 2, 1):
            node.result("web", state)
            node.pass_by(60)
        assert [item.state for item in node.items()] == ["warning", "critical"]

    def test_reminders_come_at_the_interval_that_the_task_says(self, node: AlertingNode) -> None:
        node.check("web", "ops", repeat="1h")
        node.result("web", 2)
        node.pass_by(3 * 3600 + 600, step=60)
        assert node.told() == ["problem web", "reminder web", "reminder web", "reminder web"]

    def test_an_acknowledgement_is_told_and_ends_reminders(self, node: AlertingNode) -> None:
        node.check("web", "ops", repeat="1h")
        node.result("web", 2)
        node.pass_by(60)
        node.acknowledge("web", comment="on it")
        node.pass_by(2 * 3600, step=60)
        assert node.told() == ["problem web", "acknowledged web"]
        *_, item = node.items()
        assert (item.who, item.comment) == ("ana", "on it")
        assert "suppressed acknowledged" in node.reasons("web")


class TestGathered:
    def test_all_that_waits_for_a_contact_is_one_message(self, node: AlertingNode) -> None:
        names = [f"check-{i:02}" for i in range(20)]
        for name in names:
            node.check(name, "ops")
        for name in names:
            node.result(name, 2, "x" * 300)
        node.pass_by(60)
        assert [len(message.items) for message in node.messages] == [20]
        assert [item.task for item in node.items()] == names
        assert all(len(item.output) == 300 for item in node.items())

    def test_outputs_of_a_long_message_are_cut(self, node: AlertingNode) -> None:
        names = [f"check-{i:03}" for i in range(101)]
        for name in names:
            node.check(name, "ops")
            node.force(name)
        node.turn()
        for name in names:
            node.end(name, Outcome.FAILED, 2, output=("ä" * 300).encode())
        node.turn()
        node.notify()
        node.pass_by(60)
        assert [len(item.output.encode()) for item in node.items()] == [256] * 101

    def test_of_a_task_that_failed_the_end_of_a_long_output_stays(self, node: AlertingNode) -> None:
        names = [f"job-{i:03}" for i in range(101)]
        for name in names:
            node.add(name, notify=["ops"])
            node.force(name)
        node.turn()
        for name in names:
            node.end(name, Outcome.FAILED, 1, output=b"step\n" * 100 + b"disk full\n")
        node.turn()
        node.notify()
        node.pass_by(60)
        assert [item.output.splitlines()[-1] for item in node.items()] == ["disk full"] * 101

    def test_what_waits_while_a_message_is_on_its_way_follows_it(self, node: AlertingNode) -> None:
        for name in ("a", "b", "c"):
            node.check(name, "ops")
        node.result("a", 2)
        node.notify(30)
        node.result("b", 2)
        node.notify(30)
        node.result("c", 2)
        node.notify(600)
        assert node.told() == ["problem a"]
        node.deliver()
        assert [[item.task for item in message.items] for message in node.messages] == [["a"], ["b", "c"]]

    def test_more_messages_than_an_hour_may_have_wait_for_a_digest(self, node: AlertingNode) -> None:
        node.contact("ops", per_hour=2)
        for i in range(5):
            node.check(f"check-{i}", "ops")
            node.result(f"check-{i}", 2)
            node.pass_by(60)
        assert [len(message.items) for message in node.messages] == [1, 1]
        node.pass_by(3600)
        assert [len(message.items) for message in node.messages] == [1, 1, 3]


class TestDelivery:
    def test_a_failed_delivery_is_repeated_and_marked_only_if_it_may_have_arrived(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="connection refused")
        node.notify(4)
        assert len(node.sender.orders) == 1
        node.notify(1)
        node.deliver(is_delivered=False, error="timeout", may_have_arrived=True)
        node.notify(10)
        node.deliver()
        assert [order.possible_repetition for order in node.sender.orders] == [False, False, True]
        assert len({order.message for order in node.sender.orders}) == 1
        (record,) = node.store.messages()
        assert (record.state, record.attempts) == ("delivered", 3)

    def test_after_a_day_a_message_is_given_up_and_nobody_is_owed_a_recovery(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        while node.store.unfinished_messages():
            node.deliver(is_delivered=False, error="no route to host")
            node.notify(600)
        (record,) = node.store.messages()
        assert (record.state, record.error) == ("given up", "no route to host")
        assert record.ended is not None
        assert DAY - HOUR <= record.ended - record.created <= DAY + HOUR
        node.result("web", 0)
        node.pass_by(600)
        assert set(node.told()) == {"problem web"}
        assert node.reasons("web")[-2:] == ["given up no route to host", "suppressed given up"]

    def test_nothing_leaves_before_it_is_committed(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.store.is_failing = True
        node.now += 30 * SECOND
        going = node.loop.create_task(node.engine.step())
        node.loop.wait(20)
        assert not going.done()
        assert node.sender.orders == []
        node.store.is_failing = False
        node.loop.run_until_complete(going)
        assert node.told() == ["problem web"]


class TestRestart:
    def test_a_message_on_its_way_is_delivered_again_and_marked(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        (first,) = node.sender.orders
        node.restart(5 * SECOND)
        node.notify()
        (again,) = node.sender.orders
        assert (again.message, again.document, again.possible_repetition) == (first.message, first.document, True)
        node.deliver()
        node.result("web", 0)
        node.pass_by(60)
        assert node.told() == ["problem web", "recovery web"]

    def test_what_waits_needs_a_fresh_result_and_then_leaves(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(10)
        node.restart()
        node.notify(25)
        assert node.reasons("web") == ["waiting awaiting a fresh result"]
        assert node.messages == []
        node.result("web", 2)
        node.pass_by(30)
        assert node.told() == ["problem web"]

    def test_a_run_is_asked_for_and_if_it_is_fine_nobody_is_told(self, node: AlertingNode) -> None:
        node.check("web", "ops", every="1h")
        node.result("web", 2)
        node.restart()
        node.notify()
        node.turn(SECOND)
        assert "web" in node.under_way
        node.end("web", Outcome.SUCCEEDED, 0)
        node.turn()
        node.pass_by(600)
        assert node.messages == []
        assert node.reasons("web") == ["waiting awaiting a fresh result", "suppressed over before it was sent"]

    def test_the_rate_of_an_hour_outlives_it(self, node: AlertingNode) -> None:
        node.contact("ops", per_hour=1)
        node.check("a", "ops")
        node.result("a", 2)
        node.pass_by(60)
        node.restart()
        node.result("a", 0)
        node.pass_by(1200)
        assert node.messages == []
        node.pass_by(2400)
        assert node.told() == ["recovery a"]


class TestChanges:
    def test_a_contact_that_is_added_later_gets_problems_that_are_open(self, node: AlertingNode) -> None:
        node.check("web")
        node.result("web", 2)
        node.pass_by(60)
        node.contact("boss")
        node.redefine("web", "boss")
        node.pass_by(60)
        assert node.told("boss") == ["problem web"]

    def test_so_does_the_first_contact_that_there_is(self) -> None:
        node = AlertingNode()
        node.check("web")
        node.result("web", 2)
        node.notify()
        assert len(node.engine.cases) == 0
        node.contact("ops")
        node.redefine("web", "ops")
        node.notify()
        node.pass_by(60)
        assert node.told() == ["problem web"]

    def test_a_contact_that_is_not_notified_any_more_still_gets_the_recovery(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.pass_by(60)
        node.redefine("web")
        node.result("web", 0)
        node.pass_by(60)
        assert node.told() == ["problem web", "recovery web"]

    def test_a_removed_task_is_told_as_a_recovery_with_its_reason(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.pass_by(60)
        node.remove("web")
        node.pass_by(60)
        *_, item = node.items()
        assert (item.kind, item.task, item.reason) == ("recovery", "web", "removed")

    def test_a_renamed_task_keeps_its_problem(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.pass_by(60)
        node.redefine("web", "ops", new_name="www")
        node.result("www", 0)
        node.pass_by(60)
        assert node.told() == ["problem web", "recovery www"]

    def test_messages_to_a_removed_contact_end(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="no")
        node.redefine("web")
        node.no_contact("ops")
        node.pass_by(60)
        assert len(node.sender.orders) == 1
        (record,) = node.store.messages()
        assert (record.state, record.error) == ("given up", "contact removed")
        node.result("web", 0)
        node.pass_by(60)
        assert len(node.sender.orders) == 1

    def test_a_contact_that_is_there_again_gets_what_its_removal_kept_from_it(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="no")
        node.no_contact("ops")
        node.pass_by(60)
        node.contact("ops")
        node.pass_by(60)
        node.no_contact("ops")
        node.pass_by(60)
        node.contact("ops")
        node.pass_by(60)
        assert node.told() == ["problem web"] * 2, "the second one arrived, and is not repeated"
        node.result("web", 0)
        node.pass_by(60)
        assert node.told()[2:] == ["recovery web"]

    def test_that_also_holds_if_it_is_soon_there_again(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="no")
        node.no_contact("ops")
        node.notify(5)
        node.contact("ops")
        node.pass_by(60)
        assert node.told() == ["problem web"] * 2

    def test_a_contact_that_is_tested_right_after_it_was_changed_stays_changed(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.notify()
        node.contact("ops", webhook="http://localhost:1/new")
        testing = node.loop.create_task(node.node.alerts.test("ops", "ana"))
        while not node.sender.under_way:
            node.loop.wait(0)
        node.sender.end_all()
        node.loop.run_until_complete(testing)
        node.result("web", 2)
        node.notify(30)
        assert [order.place for order in node.sender.orders] == ["http://localhost:1/new"] * 2

    def test_a_contact_outside_its_period_is_told_when_it_opens(self, node: AlertingNode) -> None:
        node.periods(day=Period(ranges=("08:00-20:00",), zone="UTC"))
        node.contact("ops", period="day")
        node.check("web", "ops")
        node.result("web", 2)
        node.pass_by(7 * 3600, step=600)
        assert node.messages == []
        node.pass_by(3700, step=60)
        assert node.told() == ["problem web"]
        assert "waiting outside the contact's period" in node.reasons("web")

    def test_a_gather_ends_in_time_although_the_clock_is_set_back(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.clock_is_set(-HOUR)
        node.notify()
        node.notify(30)
        assert node.told() == ["problem web"]

    def test_a_delivery_is_tried_again_in_time_although_the_clock_is_set_back(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False)
        node.clock_is_set(-HOUR)
        node.notify(600)
        assert len(node.sender.orders) == 2

    def test_a_paused_task_keeps_its_problem_without_reminders(self, node: AlertingNode) -> None:
        node.check("web", "ops", repeat="10m")
        node.result("web", 2)
        node.pass_by(60)
        node.pause("web")
        node.pass_by(3600, step=60)
        assert node.told() == ["problem web"]


def test_metrics_count_what_contacts_were_told_and_what_is_on_its_way(node: AlertingNode) -> None:
    node.check("web", "ops")
    node.check("db", "ops")
    node.result("web", 2)
    node.result("db", 2)
    node.result("db", 0)
    node.notify(30)
    node.deliver(is_delivered=False, error="no")
    node.now += 3 * SECOND
    found = alert_metrics_of(node.node)
    assert (found.messages, found.oldest) == (1, 3.0)
    assert found.outcomes == {"sent": 1, "suppressed": 1, "failed": 1}
    node.pass_by(10)
    found = alert_metrics_of(node.node)
    assert (found.messages, found.oldest, found.outcomes["delivered"]) == (0, 0.0, 1)


def test_what_does_not_fit_into_a_message_goes_with_the_next(
    node: AlertingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenbeat.node.alerts.messages._FULL_SIZE", 30_000)
    names = [f"c{n}" for n in range(5)]
    for name in names:
        node.check(name, "ops", labels={f"l{n}": "x" * 250 for n in range(50)})
    for name in names:
        node.result(name, 2)
    node.notify(30)
    assert [(len(m.items), m.more) for m in node.messages] == [(2, 3)]
    node.pass_by(30)
    assert [(len(m.items), m.more) for m in node.messages] == [(2, 3), (2, 1), (1, 0)]
    assert sorted(node.told()) == [f"problem {name}" for name in names]


class TestClockThatIsSet:
    def test_a_retry_comes_as_soon_as_planned(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="no")
        node.clock_is_set(-DAY)
        node.notify(5)
        assert len(node.sender.orders) == 2

    def test_nothing_is_given_up_for_it(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        node.clock_is_set(30 * DAY)
        node.deliver(is_delivered=False, error="the network comes up with the time")
        node.pass_by(60)
        assert [record.state for record in node.store.messages()] == ["delivered"]

    @pytest.mark.parametrize("by", [-DAY, -HOUR // 2])
    def test_the_rate_of_messages_is_as_before(self, node: AlertingNode, by: int) -> None:
        node.contact("ops", per_hour=1)
        node.check("web", "ops")
        node.check("db", "ops")
        node.result("web", 2)
        node.pass_by(60)
        node.clock_is_set(by)
        node.result("db", 2)
        node.pass_by(3400, step=60)
        assert node.told() == ["problem web"]
        node.pass_by(240, step=60)
        assert node.told() == ["problem web", "problem db"]

    def test_a_node_that_starts_on_an_earlier_clock_waits_for_nothing_in_the_future(self, node: AlertingNode) -> None:
        node.contact("ops", per_hour=1)
        node.check("web", "ops")
        node.check("db", "ops")
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="no")
        node.restart(after=-DAY)
        node.pass_by(620)
        assert node.told() == ["problem web"]
        node.result("db", 2)
        node.pass_by(3660, step=60)
        assert node.told() == ["problem web", "problem db"]
