"""What a node reports of itself: its own problems to the contacts in `[node] notify`, and that it works to `ping`.

Neither is committed: the store may be what fails. A dead node reports nothing; the one that misses its ping does.
"""

import asyncio
import logging
import shutil
import socket
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Final

from evenbeat.admin.contacts import UsableContact
from evenbeat.core.channels import Channel
from evenbeat.core.crash_loop import WITHIN, CrashLoop
from evenbeat.core.problems_of_node import OwnProblem, OwnProblems, OwnWishes
from evenbeat.model import SECOND, Contact, ContactState, Instant
from evenbeat.node.alerts.messages import encode_items, time_text
from evenbeat.node.answers.problems import SLOW_COMMIT
from evenbeat.node.answers.status import status_of
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.history_status import outgrown_disk_words
from evenbeat.when.duration import spoken_duration
from evenbeat.wire.sender_documents import MessageItem

_INTERVAL: Final = 10.0
"""Seconds between two looks."""
_PING_INTERVAL: Final = 30.0
"""Seconds between two calls of `ping`, at least."""
_COMMIT_TIMEOUT: Final = 5.0
"""Seconds within which the store must commit something for the node to count as working."""
_LATE_SHARE: Final = 100
"""A node is late if at least one of so many of its tasks has been due for a minute."""
_LATE_CLASSES: Final = ("1-10 min", "> 10 min")
_LEAST_FREE: Final = 1 << 30
_LEAST_FREE_SHARE: Final = 20
"""A disk is nearly full with less than this many bytes, and less than this part of it, free."""
_CRASH_LOOP: Final = "worker deaths"
"""Each node of a cluster sees all workers: the one that tells a contact of the problems of tasks tells it of this."""
_WITHIN_WORDS: Final = spoken_duration(WITHIN)
_PING: Final = "node/webhook/ping"
_STATE: Final = ContactState.CRITICAL
"""Of any problem of a node."""
_log: Final = logging.getLogger("evenbeat.alerts")


async def report_node(node: Scheduler) -> None:
    """Report until cancelled."""
    reports = NodeReports(node)
    while True:
        await asyncio.sleep(_INTERVAL)
        try:
            await reports.look()
        except Exception:
            _log.exception("the node could not report its own problems", extra={"action": "failed"})


class NodeReports:
    """Of one node."""

    def __init__(self, node: Scheduler) -> None:
        self._node = node
        self._known: dict[str, OwnProblems] = {}
        """By contact."""
        self._under_way: set[str] = set()
        """Contacts to which a message is being delivered: what is new meanwhile is in the next one."""
        self._crash_loop = CrashLoop()
        self._crash_loop.look(node.queue.restarts_by_worker, node.clock.elapsed())
        self._most_nodes = 0
        self._takeovers = 0
        self._pinged_at = -_PING_INTERVAL
        self._deliveries: set[asyncio.Task[None]] = set()

    async def look(self) -> None:
        """Look once what is wrong, and whether the node works."""
        node = self._node
        if node.live.notify:
            found = await self.problems()
            for wish in node.live.notify:
                usable = node.alerts.engine.contacts.contacts.get(wish.to)
                if usable is not None and wish.to not in self._under_way:
                    channels = [(channel, usable.contact) for channel in usable.channels]
                    own = found if node.alerts.engine.tells(wish.to) else _without_shared(found)
                    self._tell(wish.to, channels, own, self._wishes(wish.to, usable, wish.after))
        if node.live.ping and node.loop.time() - self._pinged_at >= _PING_INTERVAL and await self._works():
            self._pinged_at = node.loop.time()
            self._start(self._ping(node.live.ping))

    async def problems(self) -> dict[str, str]:
        """What is wrong now, by kind."""
        node = self._node
        found = {}
        if node.outbox.store_error:
            found["store"] = f"the store fails: {node.outbox.store_error}"
        elif node.outbox.oldest_age() > SLOW_COMMIT:
            found["store"] = "the store does not commit anything"
        if node.queue.problem:
            found["workers"] = node.queue.problem
        if deaths := self._crash_loop.look(node.queue.restarts_by_worker, node.clock.elapsed()):
            found[_CRASH_LOOP] = f"worker processes die again and again: {deaths:,} within {_WITHIN_WORDS}"
        if node.alerts.engine.problem or node.alerts.sender.problem:
            found["notifications"] = node.alerts.engine.problem or node.alerts.sender.problem
        if (late := late_words(node)) is not None:
            found["late"] = late
        if (full := await asyncio.to_thread(full_disk_words, node.database)) is not None:
            found["disk"] = full
        elif (status := node.history_status) is not None and (words := outgrown_disk_words(status)) is not None:
            found["disk forecast"] = words
        return found | self._cluster_problems()

    def _cluster_problems(self) -> dict[str, str]:
        others = self._node.others
        if others is None:
            return {}
        if others.problem:
            return {"cluster": others.problem}
        numbers = others.metrics()
        if numbers.takeovers > self._takeovers:
            # The one that took over its tasks says so, until there are as many nodes again.
            self._most_nodes = max(self._most_nodes, numbers.nodes + numbers.takeovers - self._takeovers)
        elif numbers.nodes >= self._most_nodes:
            self._most_nodes = 0
        self._takeovers = numbers.takeovers
        if numbers.nodes < self._most_nodes:
            return {"cluster node": f"a node of the cluster is gone: {numbers.nodes} of {self._most_nodes} are left"}
        return {}

    def _tell(
        self, contact: str, channels: Sequence[tuple[Channel, Contact]], found: Mapping[str, str], wishes: OwnWishes
    ) -> None:
        known = self._known.setdefault(contact, OwnProblems())
        now = self._node.clock.now()
        begun, over = known.look(found, now, wishes)
        if begun or over:
            # Counted as told until the delivery has ended: the next look does not send it again.
            known.was_told(begun, over, now)
            self._under_way.add(contact)
            self._start(self._deliver(contact, known, channels, begun, over))

    def _wishes(self, name: str, usable: UsableContact, after: int) -> OwnWishes:
        """How a contact wants to be told: as of problems of tasks, so its rate is the same too."""
        engine, now = self._node.alerts.engine, self._node.clock.now()
        states, per_hour = usable.contact.states, usable.contact.per_hour
        rates = [engine.deliveries.rate_allows_at(channel.key, per_hour, now) for channel in usable.channels]
        return OwnWishes(
            after, not states or _STATE in states, max(engine.contacts.opens_at(name, now), max(rates, default=now))
        )

    async def _deliver(
        self,
        contact: str,
        known: OwnProblems,
        channels: Sequence[tuple[Channel, Contact]],
        begun: Sequence[OwnProblem],
        over: Sequence[OwnProblem],
    ) -> None:
        items = [_item(problem, is_over=False) for problem in begun] + [
            _item(problem, is_over=True) for problem in over
        ]
        link = self._node.live.page or self._node.page

        def document(message: int, contact: str, now: Instant) -> bytes:
            return encode_items(message, contact, items, link, now)

        try:
            ends = await self._node.alerts.deliver_now(channels, document)
        finally:
            self._under_way.discard(contact)
        now = self._node.clock.now()
        for end in ends:
            if end.is_delivered:
                self._node.alerts.engine.deliveries.count_uncommitted(end.channel, now)
        if not any(end.is_delivered for end in ends):
            known.was_not_told(begun, over, now)

    async def _works(self) -> bool:
        """Does the node make turns, and does the store commit?"""
        turns = self._node.turns
        if turns.last_turn is None or self._node.clock.elapsed() - turns.last_turn > _INTERVAL * SECOND:
            return False
        try:
            async with asyncio.timeout(_COMMIT_TIMEOUT):
                await self._node.outbox.wait_committed()
        except TimeoutError:
            return False
        return True

    async def _ping(self, url: str) -> None:
        channel, contact = Channel(_PING, "node", "webhook", url, "ping"), Contact(webhook=url)
        (ended,) = await self._node.alerts.deliver_now([(channel, contact)], _ping_document)
        if not ended.is_delivered:
            _log.warning("`ping` of [node] failed: %s", ended.error, extra={"action": "ping_failed"})

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._deliveries.add(task)  # the loop itself would not keep it
        task.add_done_callback(self._deliveries.discard)


def _without_shared(found: Mapping[str, str]) -> dict[str, str]:
    return {kind: words for kind, words in found.items() if kind != _CRASH_LOOP}


def late_words(node: Scheduler) -> str | None:
    """What to say of tasks that are long due; None if it is not worth it."""
    status = status_of(node)
    late = sum(status.late_by.get(words, 0) for words in _LATE_CLASSES)
    if not late or late * _LATE_SHARE < status.tasks:
        return None
    return f"{late:,} of {status.tasks:,} tasks have been due for more than a minute and have not started"


def full_disk_words(database: str) -> str | None:
    """What to say of the disk of the database; None if it has room, or is none of this machine's."""
    path = Path(database)
    if not path.is_absolute() or not path.exists():
        return None
    usage = shutil.disk_usage(path.parent)
    if usage.free >= _LEAST_FREE or usage.free * _LEAST_FREE_SHARE >= usage.total:
        return None
    return f"the disk of the database is nearly full: {usage.free >> 20} MiB are free of {usage.total >> 20} MiB"


def _ping_document(message: int, contact: str, now: Instant) -> bytes:
    return encode_items(message, contact, [], "", now)


def _item(problem: OwnProblem, *, is_over: bool) -> MessageItem:
    return MessageItem(
        kind="recovery" if is_over else "problem",
        reminder=False,
        task=f"node {socket.gethostname()}: {problem.kind}",
        cause="node",
        state=_STATE.value,
        flapping=False,
        problem=0,
        since=time_text(Instant(problem.since)),
        output=problem.words,
        labels={},
        reason="",
    )
