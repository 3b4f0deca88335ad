"""The engine of notifications: follows the problems of tasks, decides for each channel, gathers, and sends.

It is one loop beside the turns, in small slices; each round is `step`:

    learn    what has changed about problems, tasks and contacts since the last round: read from the store, in a thread
    decide   for each of these problems and each channel, by `core.alerts`; what changes is committed (`decisions`)
    leave    where the gather of a channel has ended, all that waits for it becomes one message (`gathered_messages`)
    deliver  messages whose turn it is go to the sender, and what it reports is recorded (`message_delivery`)

Everything is derived from what is committed, so a restart begins by reading that, and goes on.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

from evenbeat.admin.task_admin import LiveChange
from evenbeat.core.partition_ownership import partition_of_contact
from evenbeat.model import HOUR, SECOND, Instant
from evenbeat.node.alerts.decisions import AlertDecisions
from evenbeat.node.alerts.engine_state import AlertState, SomeContacts, leaves_none
from evenbeat.node.alerts.gathered_messages import MessageDepartures
from evenbeat.node.alerts.message_delivery import GIVEN_UP, MessageDispatch
from evenbeat.node.alerts.messages import MessageComposer
from evenbeat.node.alerts.node_services import NodeServices
from evenbeat.node.alerts.problem_changes import KnownProblem, with_routes
from evenbeat.store.alert_records import AlertRecord, MessageFilter, MessageRecord
from evenbeat.store.cluster_contract import LeaseLost
from evenbeat.store.contract import ProblemFilter, Store, StoreError
from evenbeat.when.windows import FOREVER
from evenbeat.wire.sender_documents import DeliveryEnd, DeliveryOrder

_LEAST_PAUSE: Final = 0.1
"""Seconds between two rounds: what happens meanwhile is looked at together."""
_LONGEST_PAUSE: Final = 60.0
_RETRY_DELAY: Final = 1.0
"""Seconds until a failing store is asked again."""
_FAILED_DELAY: Final = 10.0
"""Seconds until the engine begins anew after it failed."""
_FINISH_TIMEOUT: Final = 5.0
"""Seconds that deliveries have to end before another node, or the next one, goes on with them."""
_READ_AT_ONCE: Final = 100
"""Problems that are read at once when the engine starts."""
_MOST_UNSEEN: Final = 1_000
"""Latest closed problems that are looked at when the engine starts: was it decided that nobody is told of them?"""
_MOST_LATELY: Final = 100_000
"""Messages of the last hour that are looked at."""
_log: Final = logging.getLogger("evenbeat.alerts")


class AlertEngine:
    """Tells contacts of problems."""

    def __init__(self, store: Store, node: NodeServices, order: Callable[[DeliveryOrder], None]) -> None:
        """`order` has a message delivered once; `delivery_ended` is called with what becomes of it."""
        self._node = node
        self._state = state = AlertState(store, node)
        self.news, self.contacts = state.news, state.contacts
        self.cases, self.deliveries, self.counts = state.cases, state.deliveries, state.counts
        self._decisions = AlertDecisions(state)
        composer = MessageComposer(store, node.link)
        self._departures = MessageDepartures(state, self._decisions, composer)
        self._dispatch = MessageDispatch(state, composer, order)
        self.problem = ""
        """Why nobody is told anything now; "" if all is well."""
        self._begins_anew = True
        self.is_idle = False
        """There are no contacts, and none is owed anything: problems are not even read."""
        self._round = asyncio.Lock()

    # The loop

    async def run(self) -> None:
        """Go on until cancelled. A store that fails is asked again; after anything else that fails, and after a lost
        lease, the engine begins anew: all that it knows is in the store.
        """
        while True:
            try:
                await self.step()
                self.problem = ""
                await self._wait()
            except LeaseLost:
                self.begin_anew()
                await asyncio.sleep(_RETRY_DELAY)
            except StoreError as e:
                self._report(f"notifications wait for the store: {e}")
                await asyncio.sleep(_RETRY_DELAY)
            except Exception as e:
                if not threading.main_thread().is_alive():
                    return  # the program ends: Python starts no thread any more, and the node is about to stop
                _log.critical("notifications failed, and begin anew", exc_info=e, extra={"action": "failed"})
                self.problem = f"notifications failed: {e!r}"
                self.begin_anew()
                await asyncio.sleep(_FAILED_DELAY)

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            _log.error("%s", problem, extra={"action": "store_failing"})
        self.problem = problem

    async def _wait(self) -> None:
        """Until there is news, or something is due."""
        pause = (self.next_due() - self._state.now()) / SECOND
        if pause > 0 and not self.has_news:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.is_there.wait(), min(pause, _LONGEST_PAUSE))
        await asyncio.sleep(_LEAST_PAUSE)

    async def step(self) -> None:
        """One round."""
        async with self._round:
            self.news.is_there.clear()
            self._state.slices.begin()
            await self._learn()
            await self._dispatch.take_ends()
            await self._decisions.decide_all()
            await self._departures.let_leave()
            await self._dispatch.start_due()

    @property
    def has_news(self) -> bool:
        """Is there something to do at once?"""
        news = self.news
        return self._dispatch.has_ends or news.has_settings or not news.is_read or news.is_there.is_set()

    def next_due(self) -> int:
        """When time alone makes something due."""
        now = self._state.now()
        leaves = [self._departures.leaves_at(key, at, now) for key, at in self.cases.leaving_channels().items()]
        return min(self.cases.next_look(), self.deliveries.next_due(), *leaves, FOREVER)

    def tells(self, contact: str) -> bool:
        """Does this node, among all, tell this contact?"""
        return partition_of_contact(contact) in self._node.held_partitions()

    def failing_contacts(self) -> list[str]:
        """The contacts with a place whose latest delivery failed."""
        return self.deliveries.failing_contacts(lambda key: self.contacts.channel(key) is not None)

    # What the node reports, on its loop

    def delivery_ended(self, ended: DeliveryEnd) -> None:
        """The sender reports the end of a delivery."""
        self._dispatch.delivery_ended(ended)
        self.news.is_there.set()

    def tasks_changed(self, change: LiveChange) -> None:
        """Tasks have other definitions or are gone, or settings have changed."""
        self.news.tasks_changed(change)

    def clock_was_set(self, by: int) -> None:
        """Whatever depends on the time is decided anew."""
        self.deliveries.clock_was_set(by)
        for case in self.cases:
            self.cases.decide_anew(case)
        self.news.is_there.set()

    def begin_anew(self) -> None:
        """Other nodes may have told contacts meanwhile: the next round begins with what the store has."""
        self._begins_anew = True
        self.news.is_there.set()

    async def finish(self, leaves: SomeContacts) -> None:
        """Start nothing more for these contacts, and let what is being delivered to them end, for a moment."""
        self._state.leaves = leaves
        deadline = asyncio.get_running_loop().time() + _FINISH_TIMEOUT
        while any(delivery.is_ordered and leaves(delivery.contact) for delivery in self.deliveries):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(_LEAST_PAUSE)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_TIMEOUT), self._round:
                pass  # what was being committed is committed

    # Learn

    async def _learn(self) -> None:
        """Look again at what has changed; at everything, if this node tells other contacts than before."""
        if self.news.has_settings:
            self.contacts.define(await self.news.learn_contacts())
            for case in self.cases:
                self.cases.decide_anew(case)
                await self._state.slices.yield_to_turns()
        self._begins_anew |= self.is_idle and bool(self.contacts.contacts)
        if self._begins_anew or self._state.held != self._node.held_partitions():
            await self._restore()
        self.is_idle = not (self.contacts.contacts or len(self.cases) or len(self.deliveries))
        if self.is_idle:
            self.news.forget()
            return
        if not self.news.is_read:
            await self._node.settle_holds()
        while not self.news.is_read:
            self.news.find_cases_of_tasks(self.cases)
            for known in await self.news.read():
                self._learn_problem(known)
                await self._state.slices.yield_to_turns()
        await self._dispatch.resolve_unknown()

    async def _restore(self) -> None:
        """Read what is open, what is known of it, and the messages on their way."""
        self._begins_anew, self._state.held = False, self._node.held_partitions()
        try:
            await self._read_everything()
        except BaseException:
            self._begins_anew = True
            raise
        self._state.leaves = leaves_none

    async def _read_everything(self) -> None:
        self._state.writer.discard()
        self.cases.clear()
        unfinished = await asyncio.to_thread(self._state.store.unfinished_messages)
        since = Instant(self._state.now() - HOUR)
        lately = await asyncio.to_thread(self._state.store.messages, MessageFilter(since=since, most=_MOST_LATELY))
        self.deliveries.restore(filter(self._is_ours, unfinished), reversed(lately), self._state.now())
        for record in await asyncio.to_thread(self._latest_given_up):
            self.deliveries.note_delivery(record.channel, record.contact, is_failing=True)
        found = self._state.store.open_alert_problems()
        while some := await asyncio.to_thread(
            lambda: with_routes(self._state.store, list(islice(found, _READ_AT_ONCE)))
        ):
            for known in some:
                self._learn_problem(known)
                await self._state.slices.yield_to_turns()
        for known in await asyncio.to_thread(self._closed_unseen):
            self._learn_problem(known)
            await self._state.slices.yield_to_turns()

    def _closed_unseen(self) -> list[KnownProblem]:
        """Problems that opened and closed before a node that died could decide them: it is still to be recorded that
        they were over before they were sent. What was decided has left an alert.
        """
        since = self._state.now() - HOUR
        closed = self._state.store.problems(ProblemFilter(is_open=False, most=_MOST_UNSEEN))
        ids = [problem.id for problem in closed if problem.closed is not None and problem.closed >= since]
        found = with_routes(self._state.store, self._state.store.alert_problems(ids))
        return [known for known in found if known.route.notify and not any(map(self._is_ours, known.alerts))]

    def _latest_given_up(self) -> list[MessageRecord]:
        """Of the channels of this node: the latest messages, where they were given up."""
        keys = [channel.key for channel in self.contacts.channels() if self._state.tells(channel.contact)]
        latest = (record for key in keys for record in self._state.store.messages(MessageFilter(channel=key, most=1)))
        return [record for record in latest if record.state == GIVEN_UP]

    def _is_ours(self, record: MessageRecord | AlertRecord) -> bool:
        return self._state.tells(record.contact)

    def _learn_problem(self, known: KnownProblem) -> None:
        is_new = self.cases.get(known.problem.id) is None
        ours = list(filter(self._is_ours, known.alerts))
        if is_new and not ours and not any(self._state.tells(wish.to) for wish in known.route.notify):
            return  # nobody is told of it from here, and nobody was
        case = self.cases.learn(known.problem, known.route)
        if is_new or case.is_doubtful:
            self.cases.restore_alerts(case, ours)
            case.is_doubtful = False
