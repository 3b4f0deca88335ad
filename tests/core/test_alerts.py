"""What contacts are told of problems; public bug reports of other systems are played as scenarios in virtual time."""

import numpy as np
import pytest
from alert_scenario import AlertScenario
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.alerts import (
    HOLD_OF_WORD,
    Alert,
    Hold,
    ItemKind,
    NotSent,
    Policy,
    ProblemFacts,
    decide,
    end,
    start,
)
from evenbeat.core.problem_holds import ASK_AGAIN_AFTER, PARENTS_LIMIT, Holds
from evenbeat.core.task import ALL_FLAGS, Flag
from evenbeat.model import SECOND, Instant, State
from evenbeat.when.windows import FOREVER

OK, WARNING, CRITICAL = State.OK, State.WARNING, State.CRITICAL
HOUR = 3_600
OPENED = 1_000_000 * SECOND
FACTS = ProblemFacts(OPENED, is_open=True, severity=3, state=CRITICAL)
POLICY = Policy(30 * SECOND)


@pytest.fixture
def world() -> AlertScenario:
    found = AlertScenario()
    found.contact("ops")
    return found


# Bug reports: twice at a failover


@pytest.mark.parametrize("report", ["icinga2 #4420", "icinga2 #4435"])
def test_a_failover_repeats_no_problem_and_no_reminder(world: AlertScenario, report: str) -> None:
    """icinga2 #4420, #4435: a notification interval runs, one master fails, and the other one sends the next reminder
    twice; when the first one comes back, it is sent again.
    """
    world.contact("ops", repeat=HOUR)
    world.check("web")
    world.result(CRITICAL, "web")
    world.after(HOUR + 600)
    assert world.told() == ["problem web CRITICAL", "reminder web CRITICAL"]
    fails_at = {"icinga2 #4420": HOUR // 2, "icinga2 #4435": HOUR - 615}[report]
    world.after(fails_at)
    world.restart()
    world.after(1)
    world.result(CRITICAL, "web")
    world.after(HOUR // 2)
    world.restart()
    world.after(1)
    world.result(CRITICAL, "web")
    world.after(HOUR // 2)
    reminders = [sent.at for sent in world.sent[1:]]
    assert len(reminders) == 2
    assert reminders[1] - reminders[0] >= HOUR


def test_a_reminder_is_not_sent_by_both_nodes(world: AlertScenario) -> None:
    """icinga2 #4647: in a cluster some reminders are sent by both masters within a second, and the recovery as well."""
    world.contact("ops", repeat=600)
    world.check("web")
    world.result(CRITICAL, "web")
    for _ in range(5):
        world.after(300)
        world.restart()
        world.after(1)
        world.result(CRITICAL, "web")
    world.after(60)
    world.result(OK, "web")
    world.restart()
    world.after(60)
    assert world.told().count("recovery web") == 1
    reminders = [sent.at for sent in world.sent if "reminder" in sent.text]
    assert min(np.diff(reminders)) >= 600


def test_a_failover_starts_no_reminder_where_they_are_off(world: AlertScenario) -> None:
    """icinga2 #4461: with interval = 0 the second master sends the problem again after the first one failed."""
    world.check("web")
    world.result(CRITICAL, "web")
    world.after(600)
    world.restart()
    world.after(HOUR)
    world.result(CRITICAL, "web")
    world.after(24 * HOUR, step=20)
    assert world.told() == ["problem web CRITICAL"]


# Bug reports: unbalanced after a downtime or flapping


def test_a_problem_that_outlasts_a_downtime_is_sent_and_so_is_its_recovery(world: AlertScenario) -> None:
    """icinga2 #5713: OK, a downtime begins, critical, the downtime ends: no problem; then OK: a recovery."""
    world.check("db")
    world.downtime("db", on=True)
    world.result(CRITICAL, "db")
    world.after(HOUR)
    world.downtime("db", on=False)
    assert world.asked == ["db"]
    world.after(60)
    assert world.told() == []
    world.result(CRITICAL, "db")
    world.after(60)
    assert world.told() == ["problem db CRITICAL"]
    world.result(OK, "db")
    world.after(60)
    assert world.told() == ["problem db CRITICAL", "recovery db"]
    assert ("ops", "db", "downtime") in world.notes


def test_no_recovery_of_a_problem_that_came_and_went_in_a_downtime(world: AlertScenario) -> None:
    """icinga2 #5713, the other half: nobody heard of the problem, so nobody hears that it is over."""
    world.check("db")
    world.downtime("db", on=True)
    world.result(CRITICAL, "db")
    world.after(60)
    world.result(OK, "db")
    world.downtime("db", on=False)
    world.after(HOUR)
    assert world.told() == []
    assert world.notes[-1] == ("ops", "db", NotSent.OVER)


def test_a_recovery_is_sent_within_a_downtime_if_the_problem_was(world: AlertScenario) -> None:
    """icinga2 #4427: the downtime ends with services still critical, so they are notified; a new downtime begins, they
    recover in it, it ends, and no recovery is sent.
    """
    world.check("app")
    world.downtime("app", on=True)
    world.result(CRITICAL, "app")
    world.downtime("app", on=False)
    world.after(1)
    world.result(CRITICAL, "app")
    world.after(60)
    assert world.told() == ["problem app CRITICAL"]
    world.downtime("app", on=True)
    world.result(OK, "app")
    world.after(60)
    assert world.told() == ["problem app CRITICAL", "recovery app"]
    world.downtime("app", on=False)
    world.after(HOUR)
    assert len(world.sent) == 2


def test_problem_and_recovery_come_in_pairs_through_many_downtimes(world: AlertScenario) -> None:
    """icinga2 #3153: named with the reports of a recovery without a problem, and of a problem without a recovery. Its
    own text could not be found, so this plays all ways in which downtime and problem overlap.
    """
    world.check("app")
    for first, second in (("on", "bad"), ("bad", "on")):
        for third, fourth in (("off", "ok"), ("ok", "off")):
            for what in (first, second, third, fourth):
                if what in ("on", "off"):
                    world.downtime("app", on=what == "on")
                else:
                    world.result(CRITICAL if what == "bad" else OK, "app")
                world.after(60)
                if what == "off" and world.case("app").is_open:
                    world.result(CRITICAL, "app")
                    world.after(60)
            for _ in range(20):  # so that it does not flap
                world.result(OK, "app")
                world.after(60)
    told = world.told()
    assert told == ["problem app CRITICAL", "recovery app"] * (len(told) // 2)
    assert len(told) == 6


def test_the_recovery_of_a_check_that_flapped_is_sent(world: AlertScenario) -> None:
    """icinga2 #7427: the check fails many times and begins to flap; when it stops, no contact gets the recovery."""
    world.check("http")
    for _ in range(12):
        world.result(CRITICAL, "http")
        world.after(60)
        world.result(OK, "http")
        world.after(60)
    assert bool(world.columns.flapping[world.rows["http"]])
    # What alternated before the flapping was noticed came in pairs; since then there was nothing more.
    alternated = len(world.sent)
    assert world.told()[-1] == "problem http CRITICAL"
    for _ in range(30):
        world.result(OK, "http")
        world.after(60)
    assert world.told()[alternated:] == ["recovery http"]
    assert world.told() == ["problem http CRITICAL", "recovery http"] * (len(world.sent) // 2)


# Bug reports: dependencies


def test_a_dependency_causes_no_notifications(world: AlertScenario) -> None:
    """icinga2 #8201: firewall, switch behind it, esx behind that, each checked three times. The firewall fails; those
    behind it turn HARD before, meanwhile or after. Only the firewall is notified, and its recovery releases nothing.
    """
    world.check("firewall", attempts=3)
    world.check("switch", depends=["firewall"], attempts=3)
    world.check("esx", depends=["switch"], attempts=3)
    for _ in range(3):
        for name in ("esx", "switch", "firewall"):
            world.result(CRITICAL, name)
            world.after(20)
    world.after(HOUR)
    assert world.told() == ["problem firewall CRITICAL"]
    world.result(OK, "firewall")
    world.after(40)
    for name in ("switch", "esx"):
        world.result(OK, name)
        world.after(20)
    world.after(HOUR)
    assert world.told() == ["problem firewall CRITICAL", "recovery firewall"]


def test_children_are_checked_again_before_their_old_states_are_sent(world: AlertScenario) -> None:
    """icinga2 #8506: "on recovery: re-check children"; without it a parent that recovers releases the problems of all
    children, and seconds later their recoveries.
    """
    children = [f"child{i}" for i in range(10)]
    world.check("parent")
    world.check(*children, depends=["parent"])
    world.result(CRITICAL, "parent")
    world.result(CRITICAL, *children)
    world.after(30)
    world.result(OK, "parent")
    world.after(1)
    assert set(world.asked) >= set(children)
    world.after(3)
    world.result(OK, *children)
    world.after(HOUR)
    assert world.told() == ["problem parent CRITICAL", "recovery parent"]


def test_children_that_are_checked_every_few_seconds_wait_as_well(world: AlertScenario) -> None:
    """icinga2 #9348: host and services change state every minute, the services being checked every 7 s: right after the
    recovery of the host come the problems of the services that were not checked since.
    """
    services = [str(i) for i in range(100)]
    world.check("host")
    world.check(*services, depends=["host"])
    for second in range(0, 420, 5):
        host_state = CRITICAL if second // 60 % 2 else OK
        world.result(host_state, "host")
        world.after(1)
        checked = [name for name in services if (second // 5 + int(name)) % 2]
        world.result(host_state, *checked)
        world.after(4)
    world.after(60)
    assert world.told() == ["problem host CRITICAL", "recovery host"] * 3


def test_a_router_that_recovers_releases_no_old_problem_but_one_that_persists_surfaces(world: AlertScenario) -> None:
    """icinga2 #5208: the VPN router is SOFT, then HARD down; hosts behind it follow, without notifications. The router
    is up again: lots of "host down" are sent, followed by lots of recoveries.
    """
    world.check("router", attempts=3)
    world.check("host1", "host2", depends=["router"])
    world.result(CRITICAL, "router")
    world.after(10)
    world.result(CRITICAL, "host1")
    for _ in range(2):
        world.after(60)
        world.result(CRITICAL, "router")
    world.result(CRITICAL, "host2")
    world.after(HOUR)
    assert world.told() == ["problem router CRITICAL"]
    world.run_begins("host1")
    world.after(5)
    world.result(OK, "router")
    world.after(5)
    world.result(CRITICAL, "host1", began=10)  # its run began while the router was down
    world.after(60)
    assert world.told() == ["problem router CRITICAL", "recovery router"]
    world.result(CRITICAL, "host1")
    world.result(OK, "host2")
    world.after(1)
    world.result(OK, "router")
    world.after(60)
    assert world.told()[2:] == ["problem host1 CRITICAL"]


def test_a_problem_that_opens_on_a_run_from_before_waits_for_another(world: AlertScenario) -> None:
    world.check("router")
    world.check("host", depends=["router"])
    world.result(CRITICAL, "router")
    world.run_begins("host")
    world.after(5)
    world.result(OK, "router")
    world.after(5)
    world.result(CRITICAL, "host", began=10)
    assert world.case("host").hold is Hold.AWAITING_RESULT
    world.after(1)
    world.result(OK, "router")
    world.result(CRITICAL, "host")
    world.after(1)
    world.result(OK, "router")
    world.after(60)
    assert world.told() == ["problem host CRITICAL"]


# What is told to whom


def test_a_contact_with_a_delay_is_told_later_and_not_of_what_is_over(world: AlertScenario) -> None:
    world.contact("boss", after=1800)
    world.check("web", "db")
    world.result(CRITICAL, "web", "db")
    world.after(1700)
    world.result(OK, "db")
    world.after(200)
    assert world.told("boss") == ["problem web CRITICAL"]
    assert ("boss", "db", NotSent.OVER) in world.notes
    assert [sent.at for sent in world.sent if sent.contact == "boss"] == [1830]


def test_delays_count_from_the_end_of_a_downtime(world: AlertScenario) -> None:
    world.contact("boss", after=1800)
    world.check("web")
    world.result(CRITICAL, "web")
    world.after(900)
    world.downtime("web", on=True)
    world.after(900)
    world.downtime("web", on=False)
    world.after(1)
    world.result(CRITICAL, "web")
    world.after(1798)
    assert world.told("boss") == []
    world.after(40)
    assert world.told("boss") == ["problem web CRITICAL"]


def test_an_acknowledgement_stops_escalation_until_it_is_worse(world: AlertScenario) -> None:
    world.contact("ops", repeat=600)
    world.contact("boss", after=1800)
    world.check("web")
    world.result(WARNING, "web")
    world.after(60)
    world.acknowledge("web")
    world.after(HOUR)
    assert world.told("ops") == ["problem web WARNING", "acknowledged web"]
    assert world.told("boss") == []
    assert ("boss", "web", NotSent.ACKNOWLEDGED) in world.notes
    world.result(CRITICAL, "web")
    world.after(60)
    assert world.told("ops")[2:] == ["problem web CRITICAL"]
    world.after(1800)
    assert world.told("boss") == ["problem web CRITICAL"]


def test_a_hundred_checks_behind_one_switch_are_one_message_at_each_end(world: AlertScenario) -> None:
    names = [f"check{i}" for i in range(100)]
    world.check(*names)
    for name in names:
        world.result(CRITICAL, name)
    world.after(10)
    world.result(CRITICAL, names[0])
    world.after(60)
    assert {sent.at for sent in world.sent} == {30}
    assert len(world.sent) == 100


def test_no_recovery_after_a_delivery_was_given_up_but_the_next_reminder_is_sent(world: AlertScenario) -> None:
    world.contact("ops", repeat=HOUR)
    world.check("web", "db")
    world.delivers = False
    world.result(CRITICAL, "web", "db")
    world.after(60)
    world.end(1, is_delivered=False)
    world.result(OK, "db")
    world.after(60)
    assert ("ops", "db", NotSent.GIVEN_UP) in world.notes
    world.delivers = True
    world.after(HOUR)
    assert world.told()[2:] == ["reminder web CRITICAL"]
    world.result(OK, "web")
    world.after(60)
    assert world.told()[3:] == ["recovery web"]


def test_a_recovery_waits_for_the_end_of_the_message_with_the_problem(world: AlertScenario) -> None:
    world.check("web")
    world.delivers = False
    world.result(CRITICAL, "web")
    world.after(60)
    world.result(OK, "web")
    world.after(HOUR)
    assert world.told() == ["problem web CRITICAL"]
    world.end(1)
    world.after(60)
    assert world.told() == ["problem web CRITICAL", "recovery web"]


def test_only_the_period_of_the_contact_delays_a_recovery(world: AlertScenario) -> None:
    world.check("web")
    world.result(CRITICAL, "web")
    world.after(60)
    world.closed_until("ops", 8 * HOUR)
    world.downtime("web", on=True)
    world.result(OK, "web")
    world.after(8 * HOUR - 1)
    assert world.told() == ["problem web CRITICAL"]
    world.after(60)
    assert world.told() == ["problem web CRITICAL", "recovery web"]


def test_who_is_removed_is_sent_nothing_and_who_comes_back_knows_what_they_knew(world: AlertScenario) -> None:
    world.contact("boss")
    world.check("web")
    world.result(CRITICAL, "web")
    world.after(60)
    boss = world.policies["boss"]
    world.policies["boss"] = None
    world.after(60)
    world.policies["boss"] = boss
    world.after(60)
    world.result(OK, "web")
    world.after(60)
    assert world.told("boss") == ["problem web CRITICAL", "recovery web"]
    world.result(CRITICAL, "web")
    world.after(60)
    world.policies["boss"] = None
    world.result(OK, "web")
    world.after(60)
    assert world.told("boss")[2:] == ["problem web CRITICAL"]
    assert world.notes[-1] == ("boss", "web", NotSent.CONTACT_REMOVED)


def test_a_missed_reminder_is_not_made_up_for(world: AlertScenario) -> None:
    world.contact("ops", repeat=HOUR)
    world.check("web")
    world.result(CRITICAL, "web")
    world.after(60)
    world.columns.flags[world.rows["web"]] &= ~np.uint32(Flag.ENABLED)
    world.after(5 * HOUR)
    assert world.notes == [("ops", "web", NotSent.PAUSED)]
    world.columns.flags[world.rows["web"]] |= np.uint32(Flag.ENABLED)
    world.result(CRITICAL, "web")
    world.after(1)
    world.result(CRITICAL, "web")
    world.after(600)
    assert len(world.sent) == 1
    world.after(HOUR)
    assert world.told()[1:] == ["reminder web CRITICAL"]


def test_reminders_after_a_missed_one_keep_the_pace_that_began_with_the_end_of_a_downtime(
    world: AlertScenario,
) -> None:
    world.contact("ops", repeat=HOUR)
    world.check("web")
    world.result(CRITICAL, "web")
    world.after(600)
    world.downtime("web", on=True)
    world.after(600)
    world.downtime("web", on=False)
    world.after(1)
    world.result(CRITICAL, "web")
    world.after(HOUR - 60)
    world.columns.flags[world.rows["web"]] &= ~np.uint32(Flag.ENABLED)
    world.after(HOUR)
    world.columns.flags[world.rows["web"]] |= np.uint32(Flag.ENABLED)
    world.result(CRITICAL, "web")
    world.after(1)
    world.result(CRITICAL, "web")
    world.after(HOUR)
    assert [(sent.at, sent.text) for sent in world.sent[1:]] == [(1_200 + 2 * HOUR + 30, "reminder web CRITICAL")]


# What holds a problem


def test_parents_are_asked_before_a_problem_is_told_and_one_that_is_soft_holds_it(world: AlertScenario) -> None:
    world.check("router", attempts=3)
    world.check("host", depends=["router"])
    world.result(CRITICAL, "host")
    assert world.asked == ["router"]
    world.after(60)
    assert world.case("host").hold is Hold.CHECKING_PARENTS
    world.result(CRITICAL, "router")
    world.after(60)
    assert world.told() == []
    world.result(OK, "router")
    world.after(60)
    assert world.told() == ["problem host CRITICAL"]


def test_parents_hold_a_problem_for_five_minutes_at_most(world: AlertScenario) -> None:
    world.check("router")
    world.check("host", depends=["router"])
    world.result(CRITICAL, "host")
    world.after(PARENTS_LIMIT // SECOND + 29)
    assert world.told() == []
    world.after(1)
    assert world.told() == ["problem host CRITICAL"]


def test_a_parent_is_not_asked_for_each_of_its_dependents(world: AlertScenario) -> None:
    names = [f"host{i}" for i in range(50)]
    world.check("router")
    world.check(*names, depends=["router"])
    for name in names:
        world.result(CRITICAL, name)
        world.after(1)
    assert world.asked.count("router") == 1 + 50 * SECOND // ASK_AGAIN_AFTER


def test_a_problem_surfaces_when_the_time_for_its_fresh_result_passes(world: AlertScenario) -> None:
    world.check("web")
    world.downtime("web", on=True)
    world.result(CRITICAL, "web")
    world.downtime("web", on=False)
    world.after(599)
    assert world.case("web").hold is Hold.AWAITING_RESULT
    world.after(40)
    assert world.told() == ["problem web CRITICAL"]


def test_a_problem_that_was_told_is_not_told_again_after_a_restart(world: AlertScenario) -> None:
    world.check("web", "db")
    world.result(CRITICAL, "web")
    world.after(60)
    world.result(CRITICAL, "db")
    world.after(10)
    world.restart()
    world.after(60)
    assert world.told() == ["problem web CRITICAL"]
    world.result(CRITICAL, "web", "db")
    world.after(60)
    assert world.told() == ["problem web CRITICAL", "problem db CRITICAL"]


def test_a_result_that_nobody_expects_is_not_awaited_for_ever(world: AlertScenario) -> None:
    world.check("web", "db")
    rows = np.array([world.rows["db"], world.rows["web"]])
    world.result(CRITICAL, "web", "db")
    world.columns.flags[rows] |= int(Flag.DOWNTIME)
    world.holds = Holds(world.columns, world.problems, world.times, world.reachability, lambda some: some * 0 + FOREVER)
    world.holds.restore(rows, np.full(2, Hold.DOWNTIME, np.uint8), world.now)
    assert world.holds.settle(world.now) == []
    world.columns.flags[rows] &= ALL_FLAGS ^ int(Flag.DOWNTIME)
    assert [update.hold for update in world.holds.settle(world.now)] == [Hold.AWAITING_RESULT] * 2
    assert world.holds.settle(Instant(world.now + PARENTS_LIMIT - 1)) == []
    assert [update.hold for update in world.holds.settle(Instant(world.now + PARENTS_LIMIT))] == [Hold.NONE] * 2


# One decision


def test_holds_and_their_words_belong_together() -> None:
    assert {HOLD_OF_WORD[hold.word] for hold in Hold} == set(Hold)
    assert [hold.word for hold in Hold][:3] == ["", "downtime", "unreachable"]


def test_the_same_problem_that_opens_again_is_sent_again() -> None:
    alert = decide(Alert(), FACTS, POLICY, OPENED).alert
    alert = end(start(alert, FACTS, 1, OPENED), 1, is_delivered=True)
    closed = FACTS._replace(is_open=False)
    recovery = decide(alert, closed, POLICY, OPENED).alert
    assert recovery.waiting == ItemKind.RECOVERY
    left = start(recovery, closed, 2, OPENED)
    assert left.is_over
    again = decide(left, FACTS, POLICY, OPENED).alert
    assert (again.waiting, again.message) == ("", 2)
    back = decide(end(again, 2, is_delivered=True), FACTS, POLICY, OPENED).alert
    assert (back.waiting, back.is_known) == (ItemKind.PROBLEM, False)


def test_nothing_starts_that_does_not_wait() -> None:
    with pytest.raises(ValueError, match="nothing is leaving"):
        start(Alert(), FACTS, 1, OPENED)


def test_an_end_of_another_message_changes_nothing() -> None:
    alert = start(decide(Alert(), FACTS, POLICY, OPENED).alert, FACTS, 7, OPENED)
    assert end(alert, 6, is_delivered=True) == alert


def test_a_gather_that_is_shortened_counts_for_what_waits() -> None:
    alert = decide(Alert(), FACTS, POLICY, OPENED).alert
    assert alert.leaves_at == OPENED + 30 * SECOND
    assert decide(alert, FACTS, Policy(5 * SECOND), OPENED + SECOND).alert.leaves_at == OPENED + 6 * SECOND


def test_what_waits_leaves_after_the_clock_was_set_back() -> None:
    policy = POLICY._replace(after=60 * SECOND)
    now = OPENED - HOUR * SECOND
    alert = decide(Alert(), FACTS, policy, now)
    assert alert.again_at == now + 60 * SECOND
    assert decide(alert.alert, FACTS, policy, alert.again_at).alert.leaves_at == now + 90 * SECOND


_TIMES = st.integers(OPENED - 100 * SECOND, OPENED + 100 * SECOND)
_ALERTS = st.builds(
    Alert,
    sent=st.sampled_from((0, 1, 3)),
    is_known=st.booleans(),
    last_sent=_TIMES,
    waiting=st.sampled_from(("", *ItemKind)),
    is_reminder=st.booleans(),
    leaves_at=st.just(0) | _TIMES,
    counts_from=st.just(0) | _TIMES,
    held=st.sampled_from(("", *NotSent)),
    message=st.sampled_from((0, 1)),
)
_FACTS = st.builds(
    ProblemFacts,
    opened=_TIMES,
    is_open=st.booleans(),
    severity=st.sampled_from((1, 2, 3)),
    state=st.just(CRITICAL),
    hold=st.sampled_from(Hold),
)
_POLICIES = st.none() | st.builds(
    Policy,
    gather=st.integers(0, 60 * SECOND),
    is_wanted=st.booleans(),
    after=st.sampled_from((0, 30 * SECOND)),
    repeat=st.sampled_from((0, 60 * SECOND)),
    severities=st.sampled_from((frozenset[int](), frozenset((3,)))),
    opens_at=st.just(0) | _TIMES,
)


@given(_ALERTS, _FACTS, _POLICIES, _TIMES)
def test_a_decision_is_final_until_something_changes_whatever_was_stored(
    alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int
) -> None:
    first = decide(alert, facts, policy, now)
    again = decide(first.alert, facts, policy, now)
    assert (again.alert, again.note) == (first.alert, "")
    assert again.again_at > now
    if again.again_at < FOREVER:
        before = decide(again.alert, facts, policy, again.again_at - 1)
        assert (before.alert, before.note) == (again.alert, "")
