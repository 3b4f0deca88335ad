"""Collects what was decided about alerts, and commits it: nothing leaves the node before that."""

import asyncio
import logging
from typing import Final

from evenbeat.node.alerts.problems_to_notify import Case, ChannelAlert
from evenbeat.store.alert_contract import AlertStore
from evenbeat.store.alert_records import (
    AlertBatch,
    AlertDecision,
    AlertKey,
    AlertRecord,
    AlertRefusals,
    MessageAttempt,
    MessageEnd,
    MessagePart,
    MessageRecord,
)
from evenbeat.store.cluster_contract import LeaseLost
from evenbeat.store.contract import StoreError

_RETRY_DELAY: Final = 1.0
"""Seconds until a failing store is asked again."""
_log: Final = logging.getLogger("evenbeat.alerts")


class AlertWriter:
    """One batch after the other: while the store fails, alerts wait."""

    def __init__(self, store: AlertStore) -> None:
        self._store = store
        self._batch = AlertBatch()
        self._alerts: dict[AlertKey, AlertRecord] = {}

    @property
    def size(self) -> int:
        """How much waits to be committed."""
        return len(self._alerts) + len(self._batch.decisions)

    def put_alert(self, case: Case, known: ChannelAlert) -> ChannelAlert:
        """A channel knows this from now on; returned with the version that its row will have."""
        key = (case.id, known.channel)
        waiting = self._alerts.get(key)
        replaced = known.version if waiting is None else waiting.version
        self._alerts[key] = AlertRecord(case.id, known.channel, known.contact, replaced, **known.alert._asdict())
        return known._replace(version=replaced + 1)

    def note(self, decision: AlertDecision) -> None:
        """This was decided."""
        self._batch.decisions.append(decision)

    def put_message(self, message: MessageRecord) -> None:
        """A message leaves."""
        self._batch.messages.append(message)

    def put_part(self, part: MessagePart) -> None:
        """A message gets a further part."""
        self._batch.parts.append(part)

    def put_attempt(self, attempt: MessageAttempt) -> None:
        """The delivery of a message begins, or has failed."""
        self._batch.attempts.append(attempt)

    def put_end(self, end: MessageEnd) -> None:
        """A message has ended."""
        self._batch.message_ends.append(end)

    async def commit(self) -> AlertRefusals:
        """Commit everything; a failing store is asked again and again. Raise LeaseLost if the node may not act."""
        batch, self._batch = self._batch, AlertBatch()
        batch.alerts, self._alerts = list(self._alerts.values()), {}
        if batch == AlertBatch():
            return AlertRefusals()
        logged = ""
        while True:
            try:
                # In a thread: the store looks at each row before it takes the batch.
                return await asyncio.wrap_future(await asyncio.to_thread(self._store.record_alerts, batch))
            except LeaseLost:
                raise
            except StoreError as e:
                if str(e) != logged:
                    _log.error("notifications wait for the store: %s", e, extra={"action": "store_failing"})
                logged = str(e)
                await asyncio.sleep(_RETRY_DELAY)

    def discard(self) -> None:
        """Another node decides now."""
        self._batch, self._alerts = AlertBatch(), {}
