"""What those who watch a node are told: all that matters, soon, numbered, and never at the cost of the node."""

import asyncio
import logging
import socket
from pathlib import Path

import msgspec
import pytest
from hand_driven_node import T0, HandDrivenNode
from live_node import LiveNode
from problem_seeds import seed_problem
from waiting import PATIENCE, eventually

from evenbeat.admin.downtimes import change_downtimes
from evenbeat.client.socket import NodeSocket
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Outcome, Period, RunKind, State
from evenbeat.node.process import event_publisher
from evenbeat.store.contract import Filter, StoreError
from evenbeat.store.sqlite.ownership import socket_address, socket_path
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent
from evenbeat.wire.requests import AddDowntime, ForceTasks, SubscribeToEvents


class Watcher:
    """Reads everything, as long as it wants to."""

    def __init__(self, driven: HandDrivenNode) -> None:
        self.driven = driven
        self.feeds: list[EventMessage] = []
        self.keeps_up = True

    def receive(self, line: bytes) -> bool:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        if self.keeps_up:
            self.feeds.append(msgspec.json.decode(line, type=EventMessage))
        return self.keeps_up

    def heard(self, seconds: float = 0.15) -> list[Event]:
        """What is told in the next moment."""
        before = len(self.feeds)
        self.driven.loop.wait(seconds)
        return [event for feed in self.feeds[before:] for event in feed.events]

    @property
    def last(self) -> EventMessage:
        return self.feeds[-1]


class BroadcastingNode:
    def __init__(self) -> None:
        self.driven = HandDrivenNode(slots=1_000)
        self.hub = event_publisher.EventBroadcaster(self.driven.node, self.driven.loop)

    def watcher(self) -> Watcher:
        watcher = Watcher(self.driven)
        self.hub.watch(watcher.receive)
        return watcher

    def tasks(self, count: int) -> None:
        self.driven.admin.add(
            [task_from_table(f"t{i:03}", ONCE_A_MINUTE, check=False) for i in range(count)], "ana", "ana"
        )
        self.driven.node.apply_changes()

    def all_run(self, outcome: Outcome = Outcome.SUCCEEDED, status: int = 0) -> None:
        for run in self.driven.turn(MINUTE):
            self.driven.end(run.name, outcome, status)
        self.driven.turn()


ONCE_A_MINUTE = {"every": "1m", "phase": "0s", "command": ["true"]}


@pytest.fixture
def broadcasting() -> BroadcastingNode:
    return BroadcastingNode()


def runs(events: list[Event]) -> list[str]:
    return [event.task for event in events if isinstance(event, RunEvent)]


def test_the_first_feed_comes_at_once_and_tells_how_the_node_is(broadcasting: BroadcastingNode) -> None:
    broadcasting.driven.add("a")
    watcher = broadcasting.watcher()
    (first,) = watcher.feeds
    assert first.status is not None
    assert first.status.tasks == 1
    assert first.events == []
    assert first.boot == broadcasting.driven.node.start_id
    assert broadcasting.driven.node.start_id != HandDrivenNode().node.start_id


def test_a_run_that_ends_is_told_with_all_that_a_page_shows(broadcasting: BroadcastingNode) -> None:
    driven = broadcasting.driven
    driven.add("web/ping", check=True, attempts=2)
    watcher = broadcasting.watcher()
    driven.turn(MINUTE)
    nominal = driven.under_way["web/ping"].nominal
    begun = driven.now
    output = b"\n PING CRITICAL \nmore " + b"x" * 2_000
    driven.end("web/ping", Outcome.FAILED, 2, lasted=3 * SECOND, output=output)
    driven.turn()
    assert watcher.heard() == [
        RunEvent(
            task="web/ping",
            nominal=Instant(nominal),
            kind=RunKind.GRID,
            started=Instant(begun),
            ended=Instant(begun + 3 * SECOND),
            outcome=Outcome.FAILED,
            status=2,
            state=State.CRITICAL,
            hard=False,
            attempt=1,
            flapping=False,
            output="PING CRITICAL",
            notable=True,
            next=Instant(nominal + 12 * SECOND),  # a retry
            number=1,
        )
    ]


def test_a_task_has_no_state_and_a_first_line_has_an_end(broadcasting: BroadcastingNode) -> None:
    driven = broadcasting.driven
    driven.add("a")
    watcher = broadcasting.watcher()
    driven.turn(MINUTE)
    driven.end("a", output=b"y" * 5_000)
    driven.turn()
    (event,) = watcher.heard()
    assert isinstance(event, RunEvent)
    assert event.state is None
    assert event.output == "y" * 200
    assert not event.notable


def test_what_happens_within_a_moment_is_told_together_and_numbered(broadcasting: BroadcastingNode) -> None:
    watcher = broadcasting.watcher()
    before = watcher.last.seq
    broadcasting.tasks(3)
    broadcasting.all_run()
    assert len(watcher.heard(event_publisher.GATHER_SECONDS / 2)) == 0
    assert len(watcher.heard(event_publisher.GATHER_SECONDS)) == 6
    assert len(watcher.feeds) == 2
    assert watcher.last.seq == before + 6
    broadcasting.all_run()
    watcher.heard()
    assert watcher.last.seq == before + 9


def test_of_plain_runs_some_are_told_in_a_second_of_notable_ones_all(broadcasting: BroadcastingNode) -> None:
    broadcasting.tasks(event_publisher.MAX_PLAIN_RUNS_PER_SECOND + 30)
    watcher = broadcasting.watcher()
    broadcasting.all_run()
    assert len(runs(watcher.heard())) == event_publisher.MAX_PLAIN_RUNS_PER_SECOND
    broadcasting.all_run(Outcome.FAILED, 1)
    assert len(runs(watcher.heard())) == event_publisher.MAX_PLAIN_RUNS_PER_SECOND + 30
    broadcasting.all_run()
    assert runs(watcher.heard()) == [], "not another one in this second"
    broadcasting.driven.loop.wait(1)
    broadcasting.all_run()
    assert len(runs(watcher.heard())) == event_publisher.MAX_PLAIN_RUNS_PER_SECOND


def test_more_than_anybody_can_read_leaves_a_gap_in_the_numbers(
    broadcasting: BroadcastingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_publisher, "MAX_EVENTS_PER_MESSAGE", 10)
    broadcasting.tasks(25)
    watcher = broadcasting.watcher()
    before = watcher.last.seq
    broadcasting.all_run(Outcome.FAILED, 1)
    assert len(watcher.heard()) == 10
    assert watcher.last.seq == before + 25


def test_tasks_that_come_change_and_go_are_named(broadcasting: BroadcastingNode) -> None:
    watcher, driven = broadcasting.watcher(), broadcasting.driven
    driven.add("a")
    driven.pause("a")
    driven.pause("a", paused=False)
    driven.set("a", new_name="b", every="1h", phase="30m", command=["true"])
    driven.remove("b")
    assert watcher.heard() == [
        TaskEvent("a", "created", next=Instant(T0 + MINUTE)),
        TaskEvent("a", "changed", next=None),
        TaskEvent("a", "changed", next=Instant(T0 + MINUTE)),
        TaskEvent("a", "removed"),
        TaskEvent("b", "created", next=Instant(T0 + 30 * MINUTE)),
        TaskEvent("b", "removed"),
    ]


def test_a_changed_period_tells_the_next_times_that_it_moves(broadcasting: BroadcastingNode) -> None:
    driven = broadcasting.driven
    driven.admin.set_periods({"day": Period(ranges=("00:00-24:00",))}, "ana", "ana")
    driven.node.apply_changes()
    driven.add("inside", period="day", every="1m", phase="0s")
    driven.add("free")
    watcher = broadcasting.watcher()
    driven.admin.set_periods({"day": Period(ranges=("09:00-17:00",))}, "ana", "ana")
    driven.node.apply_changes()
    (event,) = watcher.heard()
    assert isinstance(event, TaskEvent)
    assert (event.name, event.change) == ("inside", "changed")
    assert event.next is not None
    assert T0 + 9 * HOUR <= event.next < T0 + 9 * HOUR + MINUTE


def test_the_end_of_a_run_tells_when_the_next_is_due(broadcasting: BroadcastingNode) -> None:
    driven = broadcasting.driven
    driven.add("web", check=True, attempts=3, every="10m", retry="20s", phase="0s")
    driven.advance(MINUTE)
    watcher = broadcasting.watcher()
    (run,) = driven.turn(9 * MINUTE)
    driven.end("web", Outcome.FAILED, 2)
    driven.turn()
    (soft,) = watcher.heard()
    assert soft.next == run.nominal + 20 * SECOND, "its retry"
    driven.turn(20 * SECOND)
    driven.end("web")
    driven.turn()
    (well,) = watcher.heard()
    assert well.next == run.nominal + 10 * MINUTE


def test_of_many_changed_tasks_the_number_is_told(broadcasting: BroadcastingNode) -> None:
    watcher = broadcasting.watcher()
    broadcasting.tasks(event_publisher.MAX_NAMED_TASKS)
    assert len(watcher.heard()) == event_publisher.MAX_NAMED_TASKS
    before = watcher.last.seq
    broadcasting.driven.pause("t*")
    broadcasting.all_run()
    broadcasting.driven.remove("t01*")
    assert watcher.heard() == [TaskEvent(None, "many", event_publisher.MAX_NAMED_TASKS + 10)]
    assert watcher.last.seq == before + 1


def test_a_change_that_changes_nothing_is_no_event(broadcasting: BroadcastingNode) -> None:
    broadcasting.tasks(2)
    watcher = broadcasting.watcher()
    broadcasting.driven.pause("t*", paused=False)
    assert watcher.heard() == []


def test_the_run_of_a_task_that_was_removed_meanwhile_still_has_its_name(broadcasting: BroadcastingNode) -> None:
    driven = broadcasting.driven
    driven.add("gone", check=True)
    watcher = broadcasting.watcher()
    driven.turn(MINUTE)
    driven.remove("gone")
    driven.end("gone", Outcome.FAILED, 1)
    driven.turn()
    received = watcher.heard()
    assert received[0] == TaskEvent("gone", "removed")
    assert runs(received) == ["gone"]


def test_a_result_that_somebody_tells_is_told_on(broadcasting: BroadcastingNode) -> None:
    driven = broadcasting.driven
    driven.add("backup", check=True)
    watcher = broadcasting.watcher()
    now = Instant(driven.now)
    driven.turns.passive.submit(driven.row("backup"), 2, "disk is full", now, now)
    (event,) = watcher.heard()
    assert isinstance(event, RunEvent)
    assert (event.task, event.state, event.output, event.notable) == ("backup", State.CRITICAL, "disk is full", True)


def test_the_status_comes_once_a_second(broadcasting: BroadcastingNode) -> None:
    broadcasting.tasks(7)
    watcher = broadcasting.watcher()
    broadcasting.all_run()
    broadcasting.driven.loop.wait(3.5)
    received = [feed for feed in watcher.feeds[1:] if feed.status is not None]
    assert [feed.started_last_second for feed in received] == [7, 0, 0]
    assert [feed.status.runs for feed in received if feed.status is not None] == [7, 7, 7]


def test_who_falls_behind_is_let_go_and_the_others_are_not(broadcasting: BroadcastingNode) -> None:
    slow, quick = broadcasting.watcher(), broadcasting.watcher()
    slow.keeps_up = False
    broadcasting.tasks(1)
    assert [event.change for event in quick.heard() if isinstance(event, TaskEvent)] == ["created"]
    slow.keeps_up = True
    broadcasting.all_run()
    quick.heard(2)
    assert runs([event for feed in quick.feeds for event in feed.events]) == ["t000"]
    assert len(slow.feeds) == 1, "nothing after it was let go"


def test_while_nobody_watches_nothing_is_gathered_and_the_numbers_say_so(broadcasting: BroadcastingNode) -> None:
    first = broadcasting.watcher()
    broadcasting.tasks(2)
    first.heard()
    broadcasting.all_run()  # gathered, not told
    broadcasting.hub.leave(first.receive)
    broadcasting.hub.leave(first.receive)
    received = len(first.feeds)
    second = broadcasting.watcher()
    missed = second.last.seq
    assert missed == first.last.seq + 2
    broadcasting.hub.leave(second.receive)
    broadcasting.all_run()
    broadcasting.driven.loop.wait(5)
    assert len(first.feeds) == received
    third = broadcasting.watcher()
    assert third.last.seq > missed
    assert third.heard() == []
    broadcasting.hub.leave(third.receive)
    assert broadcasting.watcher().last.seq == third.last.seq, "nothing happened, so nothing was missed"


def test_what_was_before_is_told_to_those_who_were_there(broadcasting: BroadcastingNode) -> None:
    early = broadcasting.watcher()
    broadcasting.tasks(1)
    late = broadcasting.watcher()
    assert early.last.events == [TaskEvent("t000", "created", next=Instant(T0 + MINUTE))]
    assert early.last.seq == late.last.seq
    assert late.heard() == []


# Through the socket of a real node


def test_a_real_node_is_watched_until_it_stops(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    node = LiveNode(database)

    seen: list[Event] = []

    async def see() -> None:
        is_first = True
        async for feed in NodeSocket(socket_path(database)).events():
            if is_first:
                await asyncio.to_thread(_add_and_run, node)
            is_first = False
            seen.extend(feed.events)
            if runs(seen):
                node.do(lambda: node.node.stop("seen enough"))

    with node, pytest.raises(StoreError, match="stopped"):
        asyncio.run(asyncio.wait_for(see(), PATIENCE))
    assert isinstance(seen[0], TaskEvent)
    assert (seen[0].name, seen[0].change, seen[0].next is None) == ("a", "created", False)
    assert isinstance(seen[-1], RunEvent)
    assert seen[-1].output == "hello"
    assert seen[-1].kind is RunKind.FORCED
    with pytest.raises(StoreError, match="does not answer"):
        asyncio.run(asyncio.wait_for(see(), PATIENCE))


def _add_and_run(node: LiveNode) -> None:
    with node.client() as client:
        client.add([task_from_table("a", {"every": "1h", "command": ["echo", "hello"]}, check=False)], "cli")
        client.run_now(["a"], wait=False)


def test_whoever_does_not_read_is_dropped_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_publisher, "UNSENT_LIMIT", 0)
    monkeypatch.setattr(event_publisher, "MAX_NAMED_TASKS", 1_000_000)  # long lines, soon more than the kernel keeps
    caplog.set_level(logging.WARNING, "evenbeat.control")
    long_name = "x" * 240
    with LiveNode(tmp_path / "a.db") as node, node.client() as client, socket.socket(socket.AF_UNIX) as idle:
        tasks = [
            task_from_table(f"{long_name}{i}", {"every": "1h", "command": ["noop"]}, check=False) for i in range(90)
        ]
        client.add(tasks, "cli")
        with socket_address(socket_path(node.database)) as address:
            idle.connect(address)
        idle.sendall(msgspec.json.encode(SubscribeToEvents()) + b"\nwhatever else it says\n")

        def dropped() -> bool:
            for paused in (True, False):
                client.pause(Filter(), paused=paused)
            return "did not keep up" in caplog.text

        eventually(dropped)
        assert caplog.text.count("did not keep up") == 1
        status = client.status()
        assert status is not None, "the node itself is well"
        assert status.tasks == 90


def test_a_connection_may_ask_before_it_watches(tmp_path: Path) -> None:
    with LiveNode(tmp_path / "a.db") as node, node.client() as client, socket.socket(socket.AF_UNIX) as mine:
        client.add([task_from_table("a", {"every": "1h", "command": ["noop"]}, check=False)], "cli")
        with socket_address(socket_path(node.database)) as address:
            mine.connect(address)
        mine.settimeout(PATIENCE)
        lines = mine.makefile("rb")
        mine.sendall(msgspec.json.encode(ForceTasks(("a",), "ana", wait=True)) + b"\n")
        assert b"succeeded" in lines.readline()
        mine.sendall(msgspec.json.encode(SubscribeToEvents()) + b"\n")
        assert msgspec.json.decode(lines.readline(), type=EventMessage).boot == node.node.start_id


def test_what_people_do_with_problems_is_told_and_of_many_only_the_number(broadcasting: BroadcastingNode) -> None:
    broadcasting.tasks(1)
    watcher = broadcasting.watcher()
    broadcasting.hub.announce_tasks(["t000", "gone"], "acknowledged")
    known, gone = watcher.heard()
    assert isinstance(known, TaskEvent)
    assert (known.name, known.change, known.next is None) == ("t000", "acknowledged", False)
    assert gone == TaskEvent("gone", "acknowledged")
    broadcasting.hub.announce_tasks([f"t{i}" for i in range(event_publisher.MAX_NAMED_TASKS + 1)], "commented")
    assert watcher.heard() == [TaskEvent(None, "many", event_publisher.MAX_NAMED_TASKS + 1)]
    other = broadcasting.watcher()
    before = other.last.seq
    broadcasting.hub.leave(watcher.receive)
    broadcasting.hub.leave(other.receive)
    broadcasting.hub.announce_tasks(["t000"], "acknowledged")
    assert broadcasting.watcher().last.seq > before  # who comes later sees that there was something


def test_a_downtime_that_begins_or_ends_is_told_and_of_many_tasks_only_the_number(
    broadcasting: BroadcastingNode,
) -> None:
    driven, many = broadcasting.driven, event_publisher.MAX_NAMED_TASKS + 2
    broadcasting.tasks(many)
    watcher = broadcasting.watcher()

    def begin(name: str) -> None:
        asked = AddDowntime("ana", (name,), start=Instant(driven.now + MINUTE), end=Instant(driven.now + HOUR))
        change_downtimes(driven.admin, asked)
        driven.node.apply_changes()

    begin("t000")
    driven.turn()
    assert watcher.heard() == []
    driven.turn(MINUTE)
    (event,) = watcher.heard()
    assert isinstance(event, TaskEvent)
    assert (event.name, event.change) == ("t000", "downtime")
    begin("*")
    driven.turn(MINUTE)
    assert watcher.heard() == [TaskEvent(None, "many", many - 1)]


def test_a_page_hears_of_an_acknowledgement_through_the_socket(tmp_path: Path) -> None:
    seen: list[Event] = []
    node = LiveNode(tmp_path / "evenbeat.db")

    async def see() -> None:
        is_first = True
        async for feed in NodeSocket(socket_path(node.database)).events():
            if is_first:
                seed_problem(node.node.store, "web")
                await asyncio.to_thread(_acknowledge, node)
            is_first = False
            seen.extend(feed.events)
            if seen:
                node.do(lambda: node.node.stop("seen enough"))

    with node, pytest.raises(StoreError, match="stopped"):
        asyncio.run(asyncio.wait_for(see(), PATIENCE))
    assert seen == [TaskEvent("web", "acknowledged")]


def _acknowledge(node: LiveNode) -> None:
    with node.client() as client:
        assert client.acknowledge(Filter(("web",))).tasks == ["web"]
