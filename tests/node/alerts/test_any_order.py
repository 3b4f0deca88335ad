"""Whatever happens to tasks, contacts and the node, in any order: what contacts are told is balanced and complete."""

import random
from contextlib import suppress
from typing import Any

import pytest
from alerting_node import AlertingNode

from evenbeat.admin.downtimes import add_downtime, end_downtime
from evenbeat.admin.problem_actions import perform_problem_request
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Outcome, Period
from evenbeat.node.loop.missing_and_long import TimedProblemsWatch
from evenbeat.store.contract import Conflict, Filter, ProblemFilter
from evenbeat.wire.requests import AcknowledgeProblems, AddDowntime, EndDowntime
from evenbeat.wire.sender_documents import MessageItem, message_decoder

_SEVERITY = {"ok": 0, "warning": 1, "unknown": 2, "critical": 3}
_TASKS: dict[str, dict[str, Any]] = {
    "gw": {"check": True, "attempts": 2},
    "web": {"check": True, "attempts": 1, "depends": ["gw"]},
    "app": {"check": True, "attempts": 1, "depends": ["web"], "when_unreachable": "skip"},
    "db": {"check": True, "attempts": 1, "repeat": "10m"},
    "job": {"longer_than": "20s"},
}


class Receiver:
    """What one contact got, and what it should make of it."""

    def __init__(self) -> None:
        self.knows: dict[int, int] = {}
        """Problems without a recovery, and the severity that was told last."""
        self.seen: set[int] = set()
        """Messages."""
        self.forgave: set[int] = set()
        """Problems that were open when the contact was removed: it is owed nothing."""


class World:
    """A node, five tasks, two contacts, and all that may happen to them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.node = AlertingNode()
        self.states = dict.fromkeys(_TASKS, 0)
        self.receivers = {name: Receiver() for name in ("ops", "boss")}
        self.downtimes: list[str] = []
        self.is_down = False
        self.hangs = False
        self.lost = 0.1
        """How often the answer of a receiver does not arrive."""
        self.log: list[str] = []
        self.node.periods(day=Period(ranges=("00:00-24:00",), zone="UTC"))
        for contact in self.receivers:
            self.node.contact(contact, period="day")
        for task in _TASKS:
            self.add(task)
        self.watch = self.new_watch()

    def new_watch(self) -> TimedProblemsWatch:
        return TimedProblemsWatch(self.node.turns, Instant(self.node.now))

    # Events

    def add(self, name: str) -> None:
        notify = ["ops", {"to": "boss", "after": "5m"}]
        self.node.add(name, every="1m", phase="0s", gather="10s", notify=notify, **_TASKS[name])

    def define(self, name: str, gather: str, notify: list[Any]) -> None:
        keys = {key: value for key, value in _TASKS[name].items() if key != "check"}
        self.node.set(name, command=["true"], every="1m", phase="0s", gather=gather, notify=notify, **keys)

    def exists(self, name: str) -> bool:
        return self.node.store.find(name) is not None

    def happen(self) -> None:
        events = [
            (30, self.a_state),
            (4, self.a_downtime),
            (4, self.a_downtime_ends),
            (4, self.a_pause),
            (4, self.a_resume),
            (4, self.an_acknowledgement),
            (3, self.a_removal),
            (3, self.a_return),
            (2, self.a_contact_goes),
            (3, self.a_contact_comes),
            (2, self.a_restart),
            (1, self.a_clock),
            (3, self.receivers_down),
            (2, self.a_forced_run),
            (2, self.a_period),
            (2, self.a_definition),
            (2, self.a_hang),
        ]
        ((_, event),) = self.random.choices(events, [weight for weight, _ in events])
        self.log.append(f"{(self.node.now - 20_000 * DAY) / SECOND:.0f}: {event()}")

    def some(self) -> str:
        return self.random.choice(list(_TASKS))

    def a_state(self) -> str:
        name = self.some()
        self.states[name] = self.random.choice((0, 0, 1, 2, 3))
        return f"{name} is {self.states[name]}"

    def a_downtime(self) -> str:
        name = self.some()
        if not self.exists(name):
            return ""
        names, length = (name,), self.random.choice((MINUTE, 10 * MINUTE, HOUR))
        request = AddDowntime("ana", names, end=Instant(self.node.clock.now() + length), dependents=True)
        changed = add_downtime(self.node.admin, request)
        assert changed.downtime is not None
        self.downtimes.append(changed.downtime.id)
        self.node.node.apply_changes()
        return f"downtime of {names}"

    def a_downtime_ends(self) -> str:
        while self.downtimes:
            which = self.downtimes.pop()
            try:
                end_downtime(self.node.admin, EndDowntime(which, "ana"))
            except Exception:  # over already
                continue
            self.node.node.apply_changes()
            return "a downtime ends"
        return ""

    def a_pause(self) -> str:
        name = self.some()
        if self.exists(name):
            self.node.pause(name)
        return f"{name} pauses"

    def a_resume(self) -> str:
        for name in _TASKS:
            if self.exists(name):
                self.node.pause(name, paused=False)
        return "all resume"

    def an_acknowledgement(self) -> str:
        name = self.some()
        if self.exists(name):
            only, until = Filter(names=(name,)), Instant(self.node.clock.now() + 3 * MINUTE)
            request = self.random.choice(
                (
                    AcknowledgeProblems(only, "ana"),
                    AcknowledgeProblems(only, "ana", sticky=True),
                    AcknowledgeProblems(only, "ana", until=until),
                    AcknowledgeProblems(only, "ana", is_withdrawn=True),
                )
            )
            try:
                reply = perform_problem_request(self.node.admin, request)
            except Conflict:
                return ""
            assert reply.problems is not None
            self.node.engine.news.problems_changed(reply.problems.ids)
        return f"ack {name}"

    def a_removal(self) -> str:
        name = self.random.choice(("app", "db", "job"))
        if self.exists(name):
            self.node.remove(name)
        return f"{name} goes"

    def a_return(self) -> str:
        self.node.contact("boss", period="day")
        for name in _TASKS:
            if not self.exists(name):
                self.add(name)
        return "all return"

    def a_contact_goes(self) -> str:
        if "boss" in self.node.engine.contacts.contacts:
            self.node.no_contact("boss")
            boss = self.receivers["boss"]
            boss.forgave |= {p.id for p in self.node.store.problems(ProblemFilter(is_open=None))}
        return "boss goes"

    def a_contact_comes(self) -> str:
        self.node.contact("boss", period="day")
        return "boss comes"

    def a_restart(self) -> str:
        for order in self.node.sender.under_way:
            if self.random.random() < 0.5:
                self.receive(order.contact, order.document, is_marked=order.possible_repetition)
        self.node.restart(self.random.choice((0, MINUTE, HOUR)))
        self.watch = self.new_watch()
        return "restart"

    def a_clock(self) -> str:
        by = self.random.choice((-HOUR, -MINUTE, MINUTE, HOUR))
        self.node.clock_is_set(by)
        return f"clock {by / SECOND}"

    def receivers_down(self) -> str:
        self.is_down = not self.is_down
        return f"receivers down: {self.is_down}"

    def a_forced_run(self) -> str:
        name = self.some()
        if self.exists(name):
            self.node.force(name)
        return f"forced {name}"

    def a_period(self) -> str:
        hour = self.random.choice(("00:00-24:00", "00:00-00:30", "00:30-24:00"))
        self.node.periods(day=Period(ranges=(hour,), zone="UTC"))
        self.node.engine.news.has_settings = True
        return f"period {hour}"

    def a_definition(self) -> str:
        name = self.some()
        if self.exists(name):
            notify = self.random.choice((["ops", {"to": "boss", "after": "5m"}], ["ops"]))
            if "boss" not in self.node.engine.contacts.contacts:
                notify = ["ops"]
            self.define(name, self.random.choice(("0s", "10s", "1m")), notify)
            if notify == ["ops"]:
                self.receivers["boss"].forgave |= {p.id for p in self.node.store.problems(ProblemFilter(is_open=None))}
        return f"{name} is defined anew"

    def a_hang(self) -> str:
        self.hangs = not self.hangs
        return f"hangs: {self.hangs}"

    # Time

    def pass_by(self, seconds: int, step: int = 5) -> None:
        for _ in range(seconds // step):
            self.node.turn(step * SECOND)
            self.end_runs()
            self.node.turn()
            self.watch.look(Instant(self.node.now))
            self.node.notify()
            self.deliver()

    def end_runs(self) -> None:
        for name in list(self.node.under_way):
            if self.random.random() < (0.05 if self.hangs else 0.9):
                state = self.states[name]
                self.node.end(name, Outcome.FAILED if state else Outcome.SUCCEEDED, state)

    def deliver(self) -> None:
        arrived, lost = not self.is_down, self.random.random() < self.lost
        for order in self.node.sender.under_way:
            if arrived:
                self.receive(order.contact, order.document, is_marked=order.possible_repetition)
        if self.node.sender.under_way:
            self.node.sender.end_all(is_delivered=arrived and not lost, may_have_arrived=arrived, error="no")
            self.node.notify()

    # What contacts make of it

    def receive(self, contact: str, document: bytes, *, is_marked: bool) -> None:
        message, receiver = message_decoder.decode(document), self.receivers[contact]
        if message.message in receiver.seen:
            assert is_marked, (message.message, self.log)
            return
        receiver.seen.add(message.message)
        for item in message.items:
            self.understand(receiver, item, contact)

    def understand(self, receiver: Receiver, item: MessageItem, contact: str) -> None:
        told = receiver.knows.get(item.problem)
        now = f"{(self.node.now - 20_000 * DAY) / SECOND:.0f}"
        self.log.append(
            f"{now}: {contact} gets {item.kind} {item.problem} {item.task} {item.cause} {item.state} {item.reminder}"
        )
        said = "\n".join(self.log[-40:])
        if item.kind == "problem":
            if told is not None and item.problem not in receiver.forgave:
                assert item.reminder or item.closed or _SEVERITY[item.state] > told or item.flapping, said
            receiver.knows[item.problem] = _SEVERITY[item.state]
        elif item.kind == "recovery":
            assert told is not None or item.problem in receiver.forgave, said
            receiver.knows.pop(item.problem, None)
        else:
            assert told is not None or item.problem in receiver.forgave, said


@pytest.mark.parametrize("seed", range(12))
def test_balanced_and_nothing_is_lost(seed: int) -> None:
    world = World(seed)
    for _ in range(40):
        world.happen()
        world.pass_by(world.random.choice((5, 15, 30, 60, 300)))
    node = world.node
    world.is_down, world.lost, world.hangs = False, 0, False
    world.node.periods(day=Period(ranges=("00:00-24:00",), zone="UTC"))
    world.a_return()
    world.a_resume()
    world.a_contact_comes()
    for name in _TASKS:
        world.define(name, "10s", ["ops", {"to": "boss", "after": "5m"}])
    while world.a_downtime_ends():
        pass
    said = "\n".join(world.log)
    for name in _TASKS:
        world.states[name] = 2 if name != "web" else 0
    # From here on nothing keeps what is wrong from being told, but the dependencies of "web" and "app".
    node.restart(400 * DAY)  # downtimes are over
    world.watch = world.new_watch()
    with suppress(Conflict):
        perform_problem_request(node.admin, AcknowledgeProblems(Filter(names=tuple(_TASKS)), "ana", is_withdrawn=True))
    world.pass_by(1_800, step=15)
    for problem in node.store.problems(ProblemFilter()):
        if problem.task in ("gw", "db", "job"):
            assert problem.id in world.receivers["ops"].knows, (problem, said)
            assert problem.id in world.receivers["boss"].knows, (problem, said)
    world.states = dict.fromkeys(_TASKS, 0)
    world.pass_by(3_600, step=15)
    assert node.store.problems(ProblemFilter()) == [], said
    assert node.store.unfinished_messages() == [], said
    said = "\n".join(world.log)
    assert world.receivers["ops"].knows == {}, said
    boss = world.receivers["boss"]
    assert boss.knows.keys() <= boss.forgave, said
    for known in node.store.open_alert_problems():
        raise AssertionError((known, said))
