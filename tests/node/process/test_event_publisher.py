"""What those who watch a node are told: all that matters, soon, numbered, and never at the cost of the node."""

import asyncio
import logging
import socket
from pathlib import Path

import msgspec
import pytest
from hand_driven_node import T0, Hand
from live_node import LiveNode
from problem_seeds import seed_problem
from waiting import PATIENCE, eventually

from evenbeat.client.socket import subscribe_to_events
from evenbeat.load.task_keys import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Outcome, Period, RunKind, State
from evenbeat.node.process import control_socket, event_publisher
from evenbeat.store.contract import Filter, StoreError
from evenbeat.store.sqlite.ownership import socket_address, socket_path
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent
from evenbeat.wire.requests import ForceTasks, SubscribeToEvents


class Watcher:
    """Reads everything, as long as it wants to."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.feeds: list[EventMessage] = []
        self.keeps_up = True

    def tell(self, line: bytes) -> bool:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        if self.keeps_up:
            self.feeds.append(msgspec.json.decode(line, type=EventMessage))
        return self.keeps_up

    def heard(self, seconds: float = 0.15) -> list[Event]:
        """What is told in the next moment."""
        before = len(self.feeds)
        self.hand.loop.wait(seconds)
        return [event for feed in self.feeds[before:] for event in feed.events]

    @property
    def last(self) -> EventMessage:
        return self.feeds[-1]


class House:
    def __init__(self) -> None:
        self.hand = Hand(slots=1_000)
        self.hub = event_publisher.EventBroadcaster(self.hand.node, self.hand.loop)

    def watcher(self) -> Watcher:
        watcher = Watcher(self.hand)
        self.hub.watch(watcher.tell)
        return watcher

    def tasks(self, count: int) -> None:
        self.hand.desk.add(
            [task_from_table(f"t{i:03}", ONCE_A_MINUTE, check=False) for i in range(count)], "ana", "ana"
        )
        self.hand.node.apply_changes()

    def all_run(self, outcome: Outcome = Outcome.SUCCEEDED, status: int = 0) -> None:
        for run in self.hand.turn(MINUTE):
            self.hand.end(run.name, outcome, status)
        self.hand.turn()


ONCE_A_MINUTE = {"every": "1m", "phase": "0s", "command": ["true"]}


@pytest.fixture
def house() -> House:
    return House()


def runs(events: list[Event]) -> list[str]:
    return [event.task for event in events if isinstance(event, RunEvent)]


def test_the_first_feed_comes_at_once_and_tells_how_the_node_is(house: House) -> None:
    house.hand.add("a")
    watcher = house.watcher()
    (first,) = watcher.feeds
    assert first.status is not None
    assert first.status.tasks == 1
    assert first.events == []
    assert first.boot == house.hand.node.start_id
    assert house.hand.node.start_id != Hand().node.start_id


def test_a_run_that_ends_is_told_with_all_that_a_page_shows(house: House) -> None:
    hand = house.hand
    hand.add("web/ping", check=True, attempts=2)
    watcher = house.watcher()
    hand.turn(MINUTE)
    nominal = hand.under_way["web/ping"].nominal
    begun = hand.now
    output = b"\n PING CRITICAL \nmore " + b"x" * 2_000
    hand.end("web/ping", Outcome.FAILED, 2, lasted=3 * SECOND, output=output)
    hand.turn()
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


def test_a_task_has_no_state_and_a_first_line_has_an_end(house: House) -> None:
    hand = house.hand
    hand.add("a")
    watcher = house.watcher()
    hand.turn(MINUTE)
    hand.end("a", output=b"y" * 5_000)
    hand.turn()
    (event,) = watcher.heard()
    assert isinstance(event, RunEvent)
    assert event.state is None
    assert event.output == "y" * 200
    assert not event.notable


def test_what_happens_within_a_moment_is_told_together_and_numbered(house: House) -> None:
    watcher = house.watcher()
    before = watcher.last.seq
    house.tasks(3)
    house.all_run()
    assert len(watcher.heard(event_publisher.GATHER_SECONDS / 2)) == 0
    assert len(watcher.heard(event_publisher.GATHER_SECONDS)) == 6
    assert len(watcher.feeds) == 2
    assert watcher.last.seq == before + 6
    house.all_run()
    watcher.heard()
    assert watcher.last.seq == before + 9


def test_of_plain_runs_some_are_told_in_a_second_of_notable_ones_all(house: House) -> None:
    house.tasks(event_publisher.MAX_PLAIN_RUNS_PER_SECOND + 30)
    watcher = house.watcher()
    house.all_run()
    assert len(runs(watcher.heard())) == event_publisher.MAX_PLAIN_RUNS_PER_SECOND
    house.all_run(Outcome.FAILED, 1)
    assert len(runs(watcher.heard())) == event_publisher.MAX_PLAIN_RUNS_PER_SECOND + 30
    house.all_run()
    assert runs(watcher.heard()) == [], "not another one in this second"
    house.hand.loop.wait(1)
    house.all_run()
    assert len(runs(watcher.heard())) == event_publisher.MAX_PLAIN_RUNS_PER_SECOND


def test_more_than_anybody_can_read_leaves_a_gap_in_the_numbers(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_publisher, "MAX_EVENTS_PER_MESSAGE", 10)
    house.tasks(25)
    watcher = house.watcher()
    before = watcher.last.seq
    house.all_run(Outcome.FAILED, 1)
    assert len(watcher.heard()) == 10
    assert watcher.last.seq == before + 25


def test_tasks_that_come_change_and_go_are_named(house: House) -> None:
    watcher, hand = house.watcher(), house.hand
    hand.add("a")
    hand.pause("a")
    hand.pause("a", paused=False)
    hand.set("a", new_name="b", every="1h", phase="30m", command=["true"])
    hand.remove("b")
    assert watcher.heard() == [
        TaskEvent("a", "created", next=Instant(T0 + MINUTE)),
        TaskEvent("a", "changed", next=None),
        TaskEvent("a", "changed", next=Instant(T0 + MINUTE)),
        TaskEvent("a", "removed"),
        TaskEvent("b", "created", next=Instant(T0 + 30 * MINUTE)),
        TaskEvent("b", "removed"),
    ]


def test_a_changed_period_tells_the_next_times_that_it_moves(house: House) -> None:
    hand = house.hand
    hand.desk.set_periods({"day": Period(ranges=("00:00-24:00",))}, "ana", "ana")
    hand.node.apply_changes()
    hand.add("inside", period="day", every="1m", phase="0s")
    hand.add("free")
    watcher = house.watcher()
    hand.desk.set_periods({"day": Period(ranges=("09:00-17:00",))}, "ana", "ana")
    hand.node.apply_changes()
    (event,) = watcher.heard()
    assert isinstance(event, TaskEvent)
    assert (event.name, event.change) == ("inside", "changed")
    assert event.next is not None
    assert T0 + 9 * HOUR <= event.next < T0 + 9 * HOUR + MINUTE


def test_the_end_of_a_run_tells_when_the_next_is_due(house: House) -> None:
    hand = house.hand
    hand.add("web", check=True, attempts=3, every="10m", retry="20s", phase="0s")
    hand.advance(MINUTE)
    watcher = house.watcher()
    (run,) = hand.turn(9 * MINUTE)
    hand.end("web", Outcome.FAILED, 2)
    hand.turn()
    (soft,) = watcher.heard()
    assert soft.next == run.nominal + 20 * SECOND, "its retry"
    hand.turn(20 * SECOND)
    hand.end("web")
    hand.turn()
    (well,) = watcher.heard()
    assert well.next == run.nominal + 10 * MINUTE


def test_of_many_changed_tasks_the_number_is_told(house: House) -> None:
    watcher = house.watcher()
    house.tasks(event_publisher.MAX_NAMED_TASKS)
    assert len(watcher.heard()) == event_publisher.MAX_NAMED_TASKS
    before = watcher.last.seq
    house.hand.pause("t*")
    house.all_run()
    house.hand.remove("t01*")
    assert watcher.heard() == [TaskEvent(None, "many", event_publisher.MAX_NAMED_TASKS + 10)]
    assert watcher.last.seq == before + 1


def test_a_change_that_changes_nothing_is_no_event(house: House) -> None:
    house.tasks(2)
    watcher = house.watcher()
    house.hand.pause("t*", paused=False)
    assert watcher.heard() == []


def test_the_run_of_a_task_that_was_removed_meanwhile_still_has_its_name(house: House) -> None:
    hand = house.hand
    hand.add("gone", check=True)
    watcher = house.watcher()
    hand.turn(MINUTE)
    hand.remove("gone")
    hand.end("gone", Outcome.FAILED, 1)
    hand.turn()
    told = watcher.heard()
    assert told[0] == TaskEvent("gone", "removed")
    assert runs(told) == ["gone"]


def test_a_result_that_somebody_tells_is_told_on(house: House) -> None:
    hand = house.hand
    hand.add("backup", check=True)
    watcher = house.watcher()
    now = Instant(hand.now)
    hand.beat.passive.submit(hand.row("backup"), 2, "disk is full", now, now)
    (event,) = watcher.heard()
    assert isinstance(event, RunEvent)
    assert (event.task, event.state, event.output, event.notable) == ("backup", State.CRITICAL, "disk is full", True)


def test_the_status_comes_once_a_second(house: House) -> None:
    house.tasks(7)
    watcher = house.watcher()
    house.all_run()
    house.hand.loop.wait(3.5)
    told = [feed for feed in watcher.feeds[1:] if feed.status is not None]
    assert [feed.started_last_second for feed in told] == [7, 0, 0]
    assert [feed.status.runs for feed in told if feed.status is not None] == [7, 7, 7]


def test_who_falls_behind_is_let_go_and_the_others_are_not(house: House) -> None:
    slow, quick = house.watcher(), house.watcher()
    slow.keeps_up = False
    house.tasks(1)
    assert [event.change for event in quick.heard() if isinstance(event, TaskEvent)] == ["created"]
    slow.keeps_up = True
    house.all_run()
    quick.heard(2)
    assert runs([event for feed in quick.feeds for event in feed.events]) == ["t000"]
    assert len(slow.feeds) == 1, "nothing after it was let go"


def test_while_nobody_watches_nothing_is_gathered_and_the_numbers_say_so(house: House) -> None:
    first = house.watcher()
    house.tasks(2)
    first.heard()
    house.all_run()  # gathered, not told
    house.hub.leave(first.tell)
    house.hub.leave(first.tell)
    told = len(first.feeds)
    second = house.watcher()
    missed = second.last.seq
    assert missed == first.last.seq + 2
    house.hub.leave(second.tell)
    house.all_run()
    house.hand.loop.wait(5)
    assert len(first.feeds) == told
    third = house.watcher()
    assert third.last.seq > missed
    assert third.heard() == []
    house.hub.leave(third.tell)
    assert house.watcher().last.seq == third.last.seq, "nothing happened, so nothing was missed"


def test_what_was_before_is_told_to_those_who_were_there(house: House) -> None:
    early = house.watcher()
    house.tasks(1)
    late = house.watcher()
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
        async for feed in subscribe_to_events(database):
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
    with node.door() as door:
        door.add([task_from_table("a", {"every": "1h", "command": ["echo", "hello"]}, check=False)], "cli")
        door.run_now(["a"], wait=False)


def test_whoever_does_not_read_is_dropped_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(control_socket, "UNSENT_LIMIT", 0)
    monkeypatch.setattr(event_publisher, "MAX_NAMED_TASKS", 1_000_000)  # long lines, soon more than the kernel keeps
    caplog.set_level(logging.WARNING, "evenbeat.control")
    long_name = "x" * 240
    with LiveNode(tmp_path / "a.db") as node, node.door() as door, socket.socket(socket.AF_UNIX) as idle:
        tasks = [
            task_from_table(f"{long_name}{i}", {"every": "1h", "command": ["noop"]}, check=False) for i in range(90)
        ]
        door.add(tasks, "cli")
        with socket_address(socket_path(node.database)) as address:
            idle.connect(address)
        idle.sendall(msgspec.json.encode(SubscribeToEvents()) + b"\nwhatever else it says\n")

        def dropped() -> bool:
            for paused in (True, False):
                door.pause(Filter(), paused=paused)
            return "did not keep up" in caplog.text

        eventually(dropped)
        assert caplog.text.count("did not keep up") == 1
        status = door.status()
        assert status is not None, "the node itself is well"
        assert status.tasks == 90


def test_a_connection_may_ask_before_it_watches(tmp_path: Path) -> None:
    with LiveNode(tmp_path / "a.db") as node, node.door() as door, socket.socket(socket.AF_UNIX) as mine:
        door.add([task_from_table("a", {"every": "1h", "command": ["noop"]}, check=False)], "cli")
        with socket_address(socket_path(node.database)) as address:
            mine.connect(address)
        mine.settimeout(PATIENCE)
        lines = mine.makefile("rb")
        mine.sendall(msgspec.json.encode(ForceTasks(("a",), "ana", wait=True)) + b"\n")
        assert b"succeeded" in lines.readline()
        mine.sendall(msgspec.json.encode(SubscribeToEvents()) + b"\n")
        assert msgspec.json.decode(lines.readline(), type=EventMessage).boot == node.node.start_id


def test_what_people_do_with_problems_is_told_and_of_many_only_the_number(house: House) -> None:
    house.tasks(1)
    watcher = house.watcher()
    house.hub.announce_tasks(["t000", "gone"], "acknowledged")
    known, gone = watcher.heard()
    assert isinstance(known, TaskEvent)
    assert (known.name, known.change, known.next is None) == ("t000", "acknowledged", False)
    assert gone == TaskEvent("gone", "acknowledged")
    house.hub.announce_tasks([f"t{i}" for i in range(event_publisher.MAX_NAMED_TASKS + 1)], "commented")
    assert watcher.heard() == [TaskEvent(None, "many", event_publisher.MAX_NAMED_TASKS + 1)]
    other = house.watcher()
    before = other.last.seq
    house.hub.leave(watcher.tell)
    house.hub.leave(other.tell)
    house.hub.announce_tasks(["t000"], "acknowledged")
    assert house.watcher().last.seq > before  # who comes later sees that there was something


def test_a_page_hears_of_an_acknowledgement_through_the_socket(tmp_path: Path) -> None:
    seen: list[Event] = []
    node = LiveNode(tmp_path / "evenbeat.db")

    async def see() -> None:
        is_first = True
        async for feed in subscribe_to_events(node.database):
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
    with node.door() as door:
        assert door.acknowledge(Filter(("web",))).tasks == ["web"]
