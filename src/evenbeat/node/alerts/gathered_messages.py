"""Departures: where the gather of a channel has ended, everything that waits for it leaves in one message."""

import asyncio
from typing import Final

from msgspec.structs import replace

from evenbeat.core.alerts import ItemKind, ProblemFacts, start
from evenbeat.core.channels import Channel
from evenbeat.model import SEVERITY, State
from evenbeat.node.alerts.decisions import AlertDecisions
from evenbeat.node.alerts.engine_state import AlertState
from evenbeat.node.alerts.messages import MessageComposer, PlannedItem
from evenbeat.node.alerts.problems_to_notify import Case
from evenbeat.store.alert_records import AlertDecision, MessagePart, MessageRecord
from evenbeat.when.windows import FOREVER
from evenbeat.wire.sender_documents import ITEM_LIMIT

PART_ITEMS: Final = 100
"""Items that are committed at once, in a few milliseconds."""


class MessageDepartures:
    """Makes messages, and commits each with the alerts that it tells."""

    def __init__(self, state: AlertState, decisions: AlertDecisions, composer: MessageComposer) -> None:
        self._state = state
        self._decisions = decisions
        self._composer = composer

    def leaves_at(self, key: str, gathered: int, now: int) -> int:
        """When the next message for a channel leaves: FOREVER while it waits for the end of the one before."""
        channel = self._state.contacts.channel(key)
        if channel is None:
            return now
        per_hour = self._state.contacts.contacts[channel.contact].contact.per_hour
        return max(gathered, self._state.deliveries.may_leave_at(key, per_hour, now))

    async def let_leave(self) -> None:
        """Where a gather has ended, everything that waits for the channel becomes one message."""
        for key, gathered in self._state.cases.leaving_channels().items():
            now = self._state.now()
            channel = self._state.contacts.channel(key)
            if channel is None or self._state.leaves(channel.contact):
                continue
            if self.leaves_at(key, gathered, now) <= now:
                await self._leave(channel)

    async def _leave(self, channel: Channel) -> None:
        some = await self._still_leaving(channel)
        if not some:
            return
        first = await self._first_to_leave(some, channel)
        if first > self._state.now() and len(some) < ITEM_LIMIT:
            self._state.cases.leave_at(channel.key, first)  # what would have left sooner is over
            return
        # The recovery of a problem may have had to wait for longer than the next problem of the same task.
        some.sort(key=lambda case: case.id)
        more = self._state.cases.count_leaving(channel.key) - len(some)
        id_ = await asyncio.to_thread(self._state.store.reserve_messages, 1)
        record = MessageRecord(id_, channel.key, channel.contact, self._state.now(), 0, is_complete=False)
        document = self._composer.begin(id_, channel.contact, len(some))
        while some and not record.is_complete:
            part = await document.next_part([self._planned_item(case, channel) for case in some[:PART_ITEMS]])
            told, rest = some[: len(part.states)], some[len(part.states) :]
            is_last = part.is_full or not rest
            if part.unwanted:
                # What the engine decided by is older than what the store says: it reads that, and decides anew.
                self._state.news.problems_changed(part.unwanted)
                if not record.items and len(part.unwanted) == len(told):
                    some = rest
                    continue
            ending = self._composer.end(more + len(rest), self._state.now()) if is_last else b""
            said = [
                (case, state) for case, state in zip(told, part.states, strict=True) if case.id not in part.unwanted
            ]
            await self._start(channel, id_, said)
            if await self._commit_part(record, len(said), part.text + ending, is_last=is_last):
                document.keep(part)
                record = replace(record, items=record.items + len(said), is_complete=is_last)
            elif not record.items:
                return
            some = rest
        if record.items:
            self._state.deliveries.add(record)

    async def _start(self, channel: Channel, message: int, some: list[tuple[Case, State | None]]) -> None:
        """These items leave in this message, which says these states."""
        now = self._state.now()
        for case, state in some:
            item = self._planned_item(case, channel)
            alert = start(case.alert(channel.key), _facts_said(case, state), message, now)
            self._state.keep(case, channel.key, channel.contact, alert)
            word = "reminder" if item.is_reminder else item.kind.value
            decision = AlertDecision(now, case.id, channel.key, channel.contact, "sent", "", message, word)
            self._state.writer.note(decision)
            self._state.cases.decide_anew(case)
            await self._state.slices.yield_to_turns()

    async def _commit_part(self, before: MessageRecord, items: int, text: bytes, *, is_last: bool) -> bool:
        """Commit a part of a message with the alerts that it tells: no part keeps runs waiting for their claims. If the
        node ends before the last one, the message is delivered as it is, and the next one tells the rest.

        False if the part was refused: then the store knows otherwise of its alerts, and they are decided again.
        """
        if before.items:
            self._state.writer.put_part(MessagePart(before.id, items, text, is_last))
        else:
            self._state.writer.put_message(replace(before, items=items, document=text, is_complete=is_last))
        refused = await self._state.commit()
        if before.id in refused.messages:
            return False
        self._state.counts.add("sent", items)
        return True

    async def _still_leaving(self, channel: Channel) -> list[Case]:
        """What waits for a channel, once more decided: a period may have closed meanwhile."""
        some = self._state.cases.leaving(channel.key, ITEM_LIMIT)
        for case in some:
            self._decisions.decide(case)
            await self._state.slices.yield_to_turns()
        await self._state.commit()
        still = []
        for case in some:
            if case.alert(channel.key).is_leaving:
                still.append(case)
            await self._state.slices.yield_to_turns()
        return still

    async def _first_to_leave(self, some: list[Case], channel: Channel) -> int:
        """When the gather of the first of these cases ends."""
        first: int = FOREVER
        for case in some:
            first = min(first, case.alert(channel.key).leaves_at)
            await self._state.slices.yield_to_turns()
        return first

    def _planned_item(self, case: Case, channel: Channel) -> PlannedItem:
        alert, policy = case.alert(channel.key), self._state.contacts.policy(case.route, channel, self._state.now())
        return PlannedItem(case.id, ItemKind(alert.waiting), alert.is_reminder, alert.sent, policy.severities)


def _facts_said(case: Case, state: State | None) -> ProblemFacts:
    """The facts of a case as its message says them: the state may have changed since it was decided."""
    facts = case.facts()
    return facts._replace(severity=SEVERITY[state]) if state else facts
