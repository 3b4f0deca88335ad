"""Crashes and takeovers between any two steps of the engine: every contact is told everything once, or it is marked.

Engines live and die on one store. What arrives at the receiver is compared with what happened: each problem that was
told is followed by one recovery, in order, and nothing arrives twice unless it is marked as a possible repetition.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from itertools import pairwise
from typing import Any, cast
from unittest.mock import patch

import msgspec
import pytest
from budget import examples
from hand_driven_node import T0
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.load.task_tables import task_from_table
from evenbeat.model import PARTITION_COUNT, SEVERITY, Contact, Instant, State
from evenbeat.model import SECOND as S
from evenbeat.node.alerts import gathered_messages
from evenbeat.node.alerts.node_services import NodeServices
from evenbeat.node.alerts.notification_engine import AlertEngine
from evenbeat.store.alert_records import AlertBatch, AlertRefusals
from evenbeat.store.cluster_contract import LeaseLost
from evenbeat.store.contract import Batch, ProblemFilter, Store
from evenbeat.store.memory import MemoryStore
from evenbeat.store.problem_records import ProblemChange
from evenbeat.wire.sender_documents import DeliveryEnd, DeliveryOrder, MessageDocument, message_decoder

ALL = frozenset(range(PARTITION_COUNT))
TASKS = ("a", "b", "c")
CHANNELS = 2


class ImmediateLoop(asyncio.SelectorEventLoop):
    """What would be done in a thread is done at once: each round of the loop is the same in each run of a test."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as e:
            future.set_exception(e)
        return future


class NodeStore:
    """The store as one node sees it: with a lease, it may record only what falls into its partitions."""

    def __init__(self, store: MemoryStore, may_record: Callable[[], bool]) -> None:
        self._store = store
        self._may_record = may_record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def record_alerts(self, batch: AlertBatch) -> Future[AlertRefusals]:
        if self._may_record():
            return self._store.record_alerts(batch)
        fenced: Future[AlertRefusals] = Future()
        fenced.set_exception(LeaseLost("the lease is lost"))
        return fenced


class LivingEngine:
    """An engine and what its sender was ordered."""

    def __init__(self, world: "World") -> None:
        self.held: frozenset[int] = frozenset()
        self.ordered: list[DeliveryOrder] = []
        node = NodeServices(
            now=lambda: Instant(world.now),
            find_period=lambda _: None,
            link=lambda: "",
            has_turned=lambda: True,
            settle_holds=_nothing,
            held_partitions=lambda: self.held,
        )
        store = NodeStore(world.store, lambda: bool(self.held) or not world.is_fenced)
        self.engine = AlertEngine(cast("Store", store), node, self.ordered.append)

    async def step(self) -> None:
        """A round, as the node makes it."""
        try:
            await self.engine.step()
        except LeaseLost:
            self.engine.begin_anew()


async def _nothing() -> None:
    """There is nothing to settle."""


class World:
    """Two nodes, one of which tells the contact; a store; and a receiver."""

    def __init__(self, *, is_fenced: bool, repeat: str = "1m") -> None:
        self.is_fenced = is_fenced
        """May only the node that tells the contact record anything? Else versions alone guard against the other."""
        self.now: int = T0
        self.store = MemoryStore()
        contact = Contact(webhook="http://localhost:1/", email=("ops@localhost",))
        self.store.set_settings({"contacts:x": msgspec.json.encode({"ops": contact}).decode()})
        keys = {"every": "1m", "command": ["true"], "notify": ["ops"], "gather": "5s", "repeat": repeat, "phase": "0s"}
        keys = {key: value for key, value in keys.items() if value}
        entries = self.store.create([task_from_table(name, keys, check=True) for name in TASKS], "x", T0)
        self.numbers = {entry.task.name: entry.number for entry in entries}
        self.opened: dict[str, int] = {}
        self.received: list[tuple[str, MessageDocument]] = []
        self.heard: list[tuple[int, str, str]] = []
        """When, through which channel, and what: each item of each message once."""
        self.loop = ImmediateLoop()
        self.engines = [LivingEngine(self), LivingEngine(self)]
        self.engines[0].held = ALL

    # What happens

    def change(self, name: str, state: State) -> None:
        """The check has this state, HARD."""
        self.now += 1
        is_open = state != State.OK
        if name not in self.opened:
            if not is_open:
                return
            self.opened[name] = self.now
        opened = self.opened[name] if is_open else self.opened.pop(name)
        change = ProblemChange(
            self.numbers[name], "state", opened, self.now, state or State.CRITICAL, SEVERITY[state] or 3, is_open
        )
        self.store.record(Batch(problems=[change])).result()
        self.look()

    def look(self) -> None:
        """Both nodes hear of all problems."""
        for living in self.engines:
            living.engine.news.problems_changed([p.id for p in self.store.problems(ProblemFilter(is_open=None))])

    def step(self, which: int) -> None:
        self.loop.run_until_complete(self.engines[which].step())

    def crash(self, which: int, rounds: int) -> None:
        """The node dies after so many rounds of its loop, somewhere in a step; another one starts in its place."""

        async def die() -> None:
            going = asyncio.create_task(self.engines[which].step())
            for _ in range(rounds):
                await asyncio.sleep(0)
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

        self.loop.run_until_complete(die())
        held = self.engines[which].held
        self.engines[which] = LivingEngine(self)
        self.engines[which].held = held

    def interrupt(self, which: int, rounds: int) -> None:
        """The partition of the contact changes hands in the middle of a step of one node; the other goes round, and the
        first one, which was only slow, goes on.
        """

        async def both() -> None:
            going = asyncio.create_task(self.engines[which].step())
            for _ in range(rounds):
                await asyncio.sleep(0)
            self.take_over()
            await self.engines[1 - which].step()
            await going

        self.loop.run_until_complete(both())

    def go(self) -> None:
        """Whoever has the contact goes round, until what waits has left."""
        for _ in range(2):
            which = 0 if self.engines[0].held else 1
            self.look()
            self.step(which)
            self.now += 5 * S

    @property
    def master(self) -> int:
        """The node that tells the contact."""
        return 0 if self.engines[0].held else 1

    def live(self, seconds: int, each: int = 5) -> None:
        """Time passes: both nodes go round, and what leaves is delivered at once."""
        for _ in range(seconds // each):
            self.now += each * S
            self.look()
            for which in (0, 1):
                self.step(which)
                self.deliver(which, arrives=True, is_reported=True)

    def fail_over(self, rounds: int) -> None:
        """The master dies somewhere in a step, and the other one takes over; what it had ordered is delivered."""
        master = self.master
        self.crash(master, rounds)
        self.take_over()
        self.step(1 - master)

    def times(self, what: str) -> list[int]:
        """In seconds: when something was heard, through each channel alike."""
        channels = sorted({channel for _, channel, _ in self.heard})
        found = [[at for at, channel, item in self.heard if (channel, item) == (one, what)] for one in channels]
        assert found[0] == found[1], found
        return found[0]

    def live_through(self, what: str, one: Any, two: Any) -> None:
        match what:
            case "change":
                self.change(one, two)
            case "go":
                self.go()
            case "pass":
                self.now += one * S
            case "crash":
                self.crash(one, two)
            case "interrupt":
                self.interrupt(one, two)
            case "deliver":
                self.deliver(one, arrives=two != "badly", is_reported=two != "unheard")

    def take_over(self) -> None:
        """The partition of the contact goes to the other node, which may learn of it first."""
        for living in self.engines:
            living.held = ALL - living.held

    def deliver(self, which: int, *, arrives: bool, is_reported: bool) -> None:
        """The sender works on its orders: they arrive or do not, and the node hears of it or does not."""
        living = self.engines[which]
        ordered, living.ordered[:] = living.ordered[:], []
        for order in ordered:
            if arrives:
                document = message_decoder.decode(order.document)
                document.possible_repetition = order.possible_repetition
                known = [(channel, one.message) for channel, one in self.received]
                if (order.channel, order.message) not in known:
                    items = [f"{'reminder' if item.reminder else item.kind} {item.task}" for item in document.items]
                    self.heard += [((self.now - T0) // S, order.channel, item) for item in items]
                self.received.append((order.channel, document))
            if is_reported:
                living.engine.delivery_ended(
                    DeliveryEnd(order.message, order.channel, arrives, may_have_arrived=not arrives)
                )
            else:
                # As if the sender had died: what became of it is unknown.
                living.engine.delivery_ended(
                    DeliveryEnd(order.message, order.channel, is_delivered=False, may_have_arrived=True)
                )

    def come_to_rest(self) -> None:
        """All problems close, and everything that is owed is sent."""
        for name in TASKS:
            self.change(name, State.OK)
        for _ in range(60):
            self.look()
            for which in (0, 1):
                self.step(which)
                self.deliver(which, arrives=True, is_reported=True)
            self.now += 7 * S
        assert self.store.unfinished_messages() == []
        assert [len(living.engine.cases) for living in self.engines] == [0, 0]

    # What must be true

    def check_and_close(self) -> None:
        """All problems close: that is heard once, and nothing arrived twice that is not marked."""
        self.come_to_rest()
        self.check()

    def check(self) -> None:
        channels = {channel for channel, _ in self.received}
        assert len(channels) <= CHANNELS
        for channel in channels:
            self._check_channel([document for other, document in self.received if other == channel])

    def _check_channel(self, documents: list[MessageDocument]) -> None:
        seen: set[int] = set()
        told: dict[int, list[str]] = {}
        # What a slow sender was ordered first may arrive last: of all deliveries but one each is marked.
        unmarked = [document.message for document in documents if not document.possible_repetition]
        assert len(unmarked) == len(set(unmarked)), "twice, and not marked"
        for document in documents:
            if document.message in seen:
                continue
            seen.add(document.message)
            for item in document.items:
                told.setdefault(item.problem, []).append(item.kind)
        for kinds in told.values():
            assert kinds[0] == "problem"
            assert kinds.count("recovery") == 1
            assert kinds[-1] == "recovery"
        closed = {record.id for record in self.store.problems(ProblemFilter(is_open=None))}
        assert told.keys() <= closed


EVENTS = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(TASKS), st.sampled_from((State.OK, State.WARNING, State.CRITICAL))),
    st.tuples(st.just("go"), st.just(0), st.just(0)),
    st.tuples(st.just("pass"), st.sampled_from((1, 5, 61)), st.just(0)),
    st.tuples(st.just("crash"), st.integers(0, 1), st.integers(0, 80)),
    st.tuples(st.just("interrupt"), st.integers(0, 1), st.integers(0, 80)),
    st.tuples(st.just("deliver"), st.integers(0, 1), st.sampled_from(("well", "badly", "unheard"))),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    events=st.lists(EVENTS, min_size=3, max_size=30), is_fenced=st.booleans(), part_items=st.sampled_from((1, 2, 100))
)
def test_whatever_dies_each_contact_is_told_everything_once_or_it_is_marked(
    events: list[tuple[str, Any, Any]], part_items: int, *, is_fenced: bool
) -> None:
    world = World(is_fenced=is_fenced)
    with closing(world.loop), patch.object(gathered_messages, "PART_ITEMS", part_items):
        world.change("a", State.CRITICAL)
        for event in events:
            world.live_through(*event)
        world.come_to_rest()
        world.check()


HOUR = 3_600
ROUNDS = range(0, 24, 3)
"""Of the loop, after which a master fails: a step has about twenty."""


@pytest.mark.parametrize("fails_at", [HOUR // 2, HOUR - 615], ids=["icinga2 #4420", "icinga2 #4435"])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_failover_repeats_no_problem_and_no_reminder(fails_at: int, rounds: int) -> None:
    """icinga2 #4420, #4435: a notification interval runs, one master fails, and the other one sends the next reminder
    twice; when the first one comes back, it is sent again.
    """
    world = World(is_fenced=True, repeat="1h")
    with closing(world.loop):
        world.change("a", State.CRITICAL)
        world.live(HOUR + 600)
        assert len(world.times("reminder a")) == 1
        world.live(fails_at)
        world.fail_over(rounds)
        world.live(HOUR // 2)
        world.take_over()  # the first one is back
        world.live(HOUR // 2)
        assert len(world.times("problem a")) == 1
        first, second = world.times("reminder a")
        assert HOUR <= second - first < HOUR + 60
        world.check_and_close()


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_reminder_is_not_sent_by_both_masters(rounds: int) -> None:
    """icinga2 #4647: in a cluster some reminders are sent by both masters within a second, and the recovery as well.
    Here the contact changes hands in the middle of the step in which each of them leaves.
    """
    world = World(is_fenced=True, repeat="10m")
    with closing(world.loop):
        world.change("a", State.CRITICAL)
        world.live(60)
        for _ in range(5):
            world.live(590)
            world.now += 15 * S
            world.look()
            world.interrupt(world.master, rounds)
            world.live(5)
        reminders = world.times("reminder a")
        assert len(reminders) == 5
        assert min(after - before for before, after in pairwise(reminders)) >= 600
        world.change("a", State.OK)
        world.look()
        world.step(world.master)
        world.now += 5 * S
        world.interrupt(world.master, rounds)
        world.live(60)
        assert (len(world.times("problem a")), len(world.times("recovery a"))) == (1, 1)
        world.check_and_close()


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_failover_starts_no_reminder_where_they_are_off(rounds: int) -> None:
    """icinga2 #4461: with interval = 0 the second master sends the problem again after the first one failed."""
    world = World(is_fenced=True, repeat="")
    with closing(world.loop):
        world.change("a", State.CRITICAL)
        world.live(600)
        for _ in range(2):
            world.fail_over(rounds)
            world.live(24 * HOUR, each=HOUR // 4)
        assert [item for _, _, item in world.heard] == ["problem a"] * CHANNELS
        world.check_and_close()


def test_a_problem_that_closed_before_a_node_that_died_had_decided_it_is_accounted_for() -> None:
    world = World(is_fenced=True)
    with closing(world.loop):
        world.change("a", State.CRITICAL)
        world.change("a", State.OK)
        for _ in range(2):
            world.crash(0, 0)
            world.step(0)
        found = [numbered.decision for numbered in world.store.alert_decisions()]
        assert [(decision.contact, decision.reason) for decision in found] == [
            ("ops", "over before it was sent")
        ] * CHANNELS
