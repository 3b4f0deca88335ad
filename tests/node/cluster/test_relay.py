"""What nodes tell each other for those who watch: all of it, only while somebody watches, and never without bounds."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import msgspec
import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.load.task_tables import task_from_table
from evenbeat.model import MINUTE, Instant, Outcome, RunKind
from evenbeat.node.cluster import relay
from evenbeat.node.cluster.relay import EventRelay
from evenbeat.node.process.event_publisher import MAX_EVENTS_PER_MESSAGE, MAX_PLAIN_RUNS_PER_SECOND, EventBroadcaster
from evenbeat.wire import node_messages
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent
from evenbeat.wire.live_runs import RunningRun, RunningRuns


class Air:
    """Everybody hears everything, also themselves."""

    def __init__(self) -> None:
        self.relays: list[EventRelay] = []
        self.sent: list[bytes] = []
        self.is_up = True

    def send(self, data: bytes) -> bool:
        if self.is_up:
            self.sent.append(data)
            for each in self.relays:
                each.receive(data)
        return self.is_up


def a_relay(
    air: Air, name: str, runs: Sequence[RunningRun] = (), time: Callable[[], float] = lambda: 0.0
) -> EventRelay:
    made = EventRelay(name, air.send, lambda most: RunningRuns(list(runs[:most]), len(runs)), time)
    air.relays.append(made)
    return made


def run_of(task: str, claimed: int, started: int | None = None) -> RunningRun:
    begun = None if started is None else Instant(started)
    return RunningRun(task, Instant(0), RunKind.GRID, Instant(claimed), begun, 1)


CHANGED: Event = TaskEvent("a", "changed")


def test_nothing_is_sent_unless_somebody_watches_another_node() -> None:
    air, clock = Air(), [0.0]
    here, there = (a_relay(air, name, time=lambda: clock[0]) for name in ("here", "there"))
    heard: list[tuple[Sequence[Event], int]] = []
    there.on_events = lambda events, left_out: heard.append((events, left_out))
    here.send_events([CHANGED], 0)
    here.send_started(3)
    assert air.sent == []
    there.announce()
    assert (here.is_watched, there.is_watched) == (True, False)
    here.send_events([CHANGED], 7)
    here.send_started(3)
    there.send_events([CHANGED], 0)
    assert heard == [([CHANGED], 0), ([], 7)]
    assert (here.started_elsewhere(), there.started_elsewhere()) == (0, 3)
    clock[0] = relay.WATCHED_FOR
    assert not here.is_watched
    assert there.started_elsewhere() == 0


def test_who_is_watched_says_so_again_but_not_all_the_time() -> None:
    air, clock = Air(), [0.0]
    here, there = (a_relay(air, name, time=lambda: clock[0]) for name in ("here", "there"))
    for second in range(31):
        clock[0] = float(second)
        here.announce()
        assert there.is_watched
    assert len(air.sent) == 7


def test_a_message_is_small_whatever_happens() -> None:
    air = Air()
    here, there = (a_relay(air, name) for name in ("here", "there"))
    heard: list[Event] = []
    left: list[int] = []

    def hear(events: Sequence[Event], left_out: int) -> None:
        heard.extend(events)
        left.append(left_out)

    there.on_events = hear
    there.announce()
    run = RunEvent(
        "\u0416" * 256,
        *(Instant(0), RunKind.GRID, Instant(0), Instant(0), Outcome.FAILED, 2, None),
        *(True, 1, False, "\U0001f525" * 1_000, True),
    )
    here.send_events([run] * 1_500, 5)
    assert len(heard) == 1_000
    assert sum(left) == 505
    assert max(map(len, air.sent)) < 1_000_000


def test_what_nobody_understands_is_passed_over() -> None:
    air = Air()
    here = a_relay(air, "here")
    for strange in (b"", b"{", b'{"type":"news"}', b'{"type":"watching","node":5}', b"\xff"):
        here.receive(strange)
    assert not here.is_watched


def test_what_runs_is_asked_of_all_and_those_that_began_first_are_in_front() -> None:
    async def asking() -> tuple[RunningRuns, RunningRuns]:
        air = Air()
        here = a_relay(air, "here", [run_of("b", 20), run_of("d", 1, 40)])
        a_relay(air, "there", [run_of("c", 30), run_of("a", 0, 10)])
        a_relay(air, "yonder")
        return await here.all_running(3, 2), await here.all_running(100, 0)

    whole, alone = asyncio.run(asking())
    assert ([run.task for run in whole.runs], whole.total) == (["a", "b", "c"], 4)
    assert ([run.task for run in alone.runs], alone.total) == (["b", "d"], 2)


def test_a_node_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_ANSWER_TIMEOUT", 0.01)

    async def asking() -> list[RunningRuns]:
        air = Air()
        here = a_relay(air, "here", [run_of("a", 1)])
        a_relay(air, "there", [run_of("b", 2)])
        some = await here.all_running(9, 5)
        air.is_up = False
        return [some, await here.all_running(9, 5)]

    some, none = asyncio.run(asking())
    assert [run.task for run in some.runs] == ["a", "b"]
    assert [run.task for run in none.runs] == ["a"]


def test_an_answer_to_somebody_else_or_to_another_question_is_none() -> None:
    async def asking() -> RunningRuns:
        air = Air()
        here = a_relay(air, "here", [run_of("a", 1)])
        strange = RunningRuns([run_of("x", 0)], 1)
        for to, question in (("yonder", 1), ("here", 0)):
            answer = msgspec.json.encode(node_messages.RunningAnswer("there", to, question, strange))
            asyncio.get_running_loop().call_soon(here.receive, answer)
        good = msgspec.json.encode(node_messages.RunningAnswer("there", "here", 1, RunningRuns([run_of("b", 2)], 1)))
        asyncio.get_running_loop().call_later(0.01, here.receive, good)
        return await here.all_running(9, 1)

    assert [run.task for run in asyncio.run(asking()).runs] == ["a", "b"]


# With a hub at each end


class RelayingNode:
    """A node driven by hand with an event broadcaster, whose relay uses the shared air."""

    def __init__(self, air: Air, name: str) -> None:
        self.driven = HandDrivenNode(slots=10_000)
        node = self.driven.node
        self.relay = a_relay(air, name, time=self.driven.loop.time)
        node.membership.others = SimpleNamespace(relay=self.relay, problem="")  # type: ignore[misc]
        self.hub = EventBroadcaster(node, self.driven.loop)
        self.feeds: list[EventMessage] = []

    def watch(self) -> None:
        self.hub.watch(self._hear)

    def _hear(self, line: bytes) -> bool:
        self.feeds.append(msgspec.json.decode(line, type=EventMessage))
        return True

    def add(self, count: int, prefix: str = "t") -> None:
        keys = {"every": "1m", "phase": "0s", "command": ["true"]}
        self.driven.admin.add([task_from_table(f"{prefix}{i}", keys, check=False) for i in range(count)], "ana", "ana")
        self.driven.node.apply_changes()

    def all_run(self, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        for run in self.driven.turn(MINUTE):
            self.driven.end(run.name, outcome, 0 if outcome is Outcome.SUCCEEDED else 1)
        self.driven.turn()

    @property
    def events(self) -> list[Event]:
        return [event for feed in self.feeds for event in feed.events]


def test_a_watcher_hears_what_happens_at_another_node() -> None:
    air = Air()
    here, there = RelayingNode(air, "here"), RelayingNode(air, "there")
    here.watch()
    there.add(2)
    there.all_run(Outcome.FAILED)
    there.driven.loop.wait(1.5)
    here.driven.loop.wait(1.5)
    received = {(event.task, event.outcome) for event in here.events if isinstance(event, RunEvent)}
    assert received == {("t0", Outcome.FAILED), ("t1", Outcome.FAILED)}
    assert {event.name for event in here.events if isinstance(event, TaskEvent)} == {"t0", "t1"}
    assert there.feeds == []
    assert here.feeds[-1].seq - here.feeds[0].seq == len(here.events)
    assert here.feeds[-1].started_last_second == 2


def test_what_is_heard_is_not_told_on() -> None:
    air = Air()
    here, there = RelayingNode(air, "here"), RelayingNode(air, "there")
    here.watch()
    there.watch()
    there.add(1)
    there.driven.loop.wait(0.5)
    here.driven.loop.wait(0.5)
    assert [type(event) for event in here.events] == [type(event) for event in there.events] == [TaskEvent]


def test_plain_runs_of_each_node_are_bounded() -> None:
    air = Air()
    here, there = RelayingNode(air, "here"), RelayingNode(air, "there")
    here.watch()
    there.add(MAX_PLAIN_RUNS_PER_SECOND + 40)
    there.driven.loop.wait(0.5)
    there.all_run()
    there.driven.loop.wait(0.5)
    here.driven.loop.wait(0.5)
    assert sum(isinstance(event, RunEvent) for event in here.events) == MAX_PLAIN_RUNS_PER_SECOND


def test_what_is_too_much_leaves_a_gap() -> None:
    air = Air()
    here = RelayingNode(air, "here")
    a_relay(air, "there")
    here.watch()
    before = here.feeds[-1].seq
    for _ in range(3):
        air.relays[0].on_events([CHANGED] * (MAX_EVENTS_PER_MESSAGE // 2), 1)  # type: ignore[misc]
    here.driven.loop.wait(0.5)
    assert len(here.events) == MAX_EVENTS_PER_MESSAGE
    assert here.feeds[-1].seq - before == MAX_EVENTS_PER_MESSAGE // 2 * 3 + 3


def test_who_comes_back_sees_that_something_may_have_been_missed() -> None:
    air = Air()
    here = RelayingNode(air, "here")
    here.watch()
    here.hub._watchers.clear()
    here.watch()
    assert here.feeds[-1].seq > here.feeds[0].seq
