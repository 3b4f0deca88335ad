"""Decides what each channel is to be told of each problem, by the rules of `core.alerts`; what changes is committed."""

from collections.abc import Iterator

from evenbeat.core.alerts import WAITING_NOTES, Alert, decide
from evenbeat.core.channels import Channel
from evenbeat.node.alerts.engine_state import AlertState
from evenbeat.node.alerts.problems_to_notify import Case
from evenbeat.store.alert_records import AlertDecision
from evenbeat.when.windows import FOREVER


class AlertDecisions:
    """Decides cases anew, as often as wanted."""

    def __init__(self, state: AlertState) -> None:
        self._state = state

    async def decide_all(self) -> None:
        """Decide all cases of which something has changed, or whose time has come."""
        while (case := self._state.cases.next_undecided(self._state.now())) is not None:
            self.decide(case)
            await self._state.commit_if_many()
            await self._state.slices.yield_to_turns()
        await self._state.commit()

    def decide(self, case: Case) -> None:
        """Decide what each channel is to be told of a case."""
        now, facts = self._state.now(), case.facts()
        again_at: int = FOREVER
        for key, contact, channel in self._channels_of(case):
            alert = case.alert(key)
            policy = None if channel is None else self._state.contacts.policy(case.route, channel, now)
            has_earlier = not alert.sent and self._state.cases.has_unfinished_before(case, key)
            decision = decide(alert, facts, policy, now, has_earlier=has_earlier)
            again_at = min(again_at, decision.again_at)
            if decision.alert != alert:
                self._state.keep(case, key, contact, decision.alert)
            if decision.note:
                self._note(case, key, contact, decision.note, decision.alert)
        if case.is_settled:
            self._state.cases.forget(case)
        else:
            self._state.cases.look_again(case, again_at)

    def _channels_of(self, case: Case) -> Iterator[tuple[str, str, Channel | None]]:
        """Key, contact and channel, which is None if it is not there any more: of all that are, or were, concerned."""
        wanted = {c.key: c for c in self._state.contacts.channels_of(case.route) if self._state.tells(c.contact)}
        for channel in wanted.values():
            yield channel.key, channel.contact, channel
        for known in case.alerts:
            if known.channel not in wanted:
                yield known.channel, known.contact, self._state.contacts.channel(known.channel)

    def _note(self, case: Case, key: str, contact: str, reason: str, alert: Alert) -> None:
        decision = "waiting" if reason in WAITING_NOTES else "suppressed"
        self._state.counts.add(decision)
        self._state.writer.note(
            AlertDecision(self._state.now(), case.id, key, contact, decision, reason, item=_item_of(alert))
        )


def _item_of(alert: Alert) -> str:
    return "reminder" if alert.is_reminder else alert.waiting
