"""Cases: the problems of which a channel is to be told, or may be, with what each channel knows of them; in memory.

A case takes about 500 bytes: what the channels know of the problems of a storm is the same, and kept once.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Struct

from evenbeat.admin.alert_routes import NO_ROUTE, Route, alert_of
from evenbeat.core.alerts import HOLD_OF_WORD, Alert, Hold, ProblemFacts, is_unfinished
from evenbeat.model import Acknowledgement, State
from evenbeat.store.alert_records import AlertProblem, AlertRecord
from evenbeat.when.windows import FOREVER

NO_ALERT: Final = Alert()
_Value = TypeVar("_Value")


class ChannelAlert(NamedTuple):
    """What a channel knows of a problem."""

    channel: str
    """The key of the channel."""
    contact: str
    version: int
    """That the row has in the store once everything that was decided is committed; 0: there is none."""
    alert: Alert


class Case(Struct, gc=False):
    """A problem with its alerts."""

    id: int
    task: int
    """The number of the task."""
    opened: int
    state: int = 0
    severity: int = 0
    is_open: bool = True
    flapping: bool = False
    reason: str = ""
    hold: Hold = Hold.NONE
    ack: Acknowledgement | None = None
    route: Route = NO_ROUTE
    alerts: tuple[ChannelAlert, ...] = ()
    look_at: int = FOREVER
    """When time alone changes something."""
    is_doubtful: bool = False
    """The store knows of its alerts otherwise: they are to be read again."""

    def facts(self) -> ProblemFacts:
        """What the decisions for all channels depend on."""
        return ProblemFacts(
            self.opened,
            self.is_open,
            self.severity,
            State(self.state),
            self.flapping,
            self.reason,
            self.hold,
            self.ack,
        )

    def find(self, channel: str) -> ChannelAlert | None:
        """What a channel knows; None if it knows nothing."""
        return next((known for known in self.alerts if known.channel == channel), None)

    def alert(self, channel: str) -> Alert:
        """What a channel knows, be it nothing."""
        known = self.find(channel)
        return NO_ALERT if known is None else known.alert

    @property
    def is_settled(self) -> bool:
        """Is nothing to be told any more, unless the problem opens again, and the end of each message recorded?"""
        return not self.is_open and all(known.alert.is_over and not known.alert.message for known in self.alerts)


class Cases:
    """All cases by the ids of their problems; which are to be decided anew, and what waits for each channel."""

    def __init__(self) -> None:
        self._cases: dict[int, Case] = {}
        self._of_task: dict[int, tuple[int, ...]] = {}
        """Cases by their task, in the order in which they opened."""
        self._undecided: dict[int, None] = {}
        self._timetable: list[tuple[int, int]] = []
        """A heap of when to look at which case; entries of cases that have another time now are obsolete."""
        self._leaving: dict[str, dict[int, None]] = {}
        """By channel: the cases with an item that waits for nothing but the end of its gather, in that order."""
        self._leave_at: dict[str, int] = {}
        """By channel with such items: when the first gather ends. Its message takes all of them along."""
        self._in_message: dict[int, set[int]] = {}
        """Cases by the message under way that tells of them."""
        self._shared: dict[Any, Any] = {}
        """One object for equal routes and alerts: those of a storm differ in nothing."""

    def __len__(self) -> int:
        return len(self._cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(list(self._cases.values()))

    def get(self, number: int) -> Case | None:
        """The case of a problem."""
        return self._cases.get(number)

    # What is known of problems

    def learn(self, problem: AlertProblem, route: Route) -> Case:
        """A problem is so, and its task says that: the case has to be decided."""
        case = self._cases.get(problem.id)
        if case is None:
            case = self._cases[problem.id] = Case(problem.id, problem.number, problem.opened)
            self._of_task[case.task] = tuple(sorted((*self._of_task.get(case.task, ()), case.id)))
        case.state, case.severity, case.flapping = problem.state, problem.severity, problem.flapping
        case.is_open, case.reason = problem.closed is None, problem.reason
        case.hold = HOLD_OF_WORD.get(problem.hold, Hold.NONE)
        case.ack = problem.acknowledgement
        case.route = self._share(route)
        self.decide_anew(case)
        self.decide_later_ones(case)
        return case

    def restore_alerts(self, case: Case, records: Iterable[AlertRecord]) -> None:
        """The store has these alerts of a case."""
        for known in case.alerts:
            self._unlink(case, known)
        case.alerts = ()
        for record in records:
            self.set_alert(case, ChannelAlert(record.channel, record.contact, record.version, alert_of(record)))

    def set_alert(self, case: Case, known: ChannelAlert) -> None:
        """A channel knows this of a case from now on."""
        before = case.find(known.channel)
        if before is not None:
            self._unlink(case, before)
        known = self._share(known)
        alerts = (*(other for other in case.alerts if other is not before), known)
        case.alerts = self._share(alerts)
        alert = known.alert
        if alert.is_leaving:
            self._leaving.setdefault(known.channel, {})[case.id] = None
            self._leave_at[known.channel] = min(self._leave_at.get(known.channel, FOREVER), alert.leaves_at)
        if alert.message:
            self._in_message.setdefault(alert.message, set()).add(case.id)

    def clear(self) -> None:
        """Forget everything."""
        for known in (
            self._cases,
            self._of_task,
            self._undecided,
            self._leaving,
            self._leave_at,
            self._in_message,
            self._shared,
        ):
            known.clear()
        self._timetable.clear()

    def forget(self, case: Case) -> None:
        """Nothing is to be told of it any more."""
        for known in case.alerts:
            self._unlink(case, known)
        if self._cases.pop(case.id, None) is not None:
            others = tuple(number for number in self._of_task.pop(case.task) if number != case.id)
            if others:
                self._of_task[case.task] = others
        self._undecided.pop(case.id, None)

    def _unlink(self, case: Case, known: ChannelAlert) -> None:
        leaving = self._leaving.get(known.channel)
        if leaving is not None:
            leaving.pop(case.id, None)
            if not leaving:
                del self._leaving[known.channel], self._leave_at[known.channel]
        told = self._in_message.get(known.alert.message)
        if told is not None:
            told.discard(case.id)
            if not told:
                del self._in_message[known.alert.message]

    def _share(self, value: _Value) -> _Value:
        shared: _Value = self._shared.setdefault(value, value)
        return shared

    # What is to be decided

    def has_unfinished_before(self, case: Case, channel: str) -> bool:
        """Is there an earlier problem of the same task for whose end the channel is not told of this one?"""
        return any(
            is_unfinished(self._cases[number].alert(channel), is_open=self._cases[number].is_open)
            for number in self._of_task.get(case.task, ())
            if number < case.id
        )

    def decide_anew(self, case: Case) -> None:
        """Something has changed about this case."""
        self._undecided[case.id] = None

    def decide_later_ones(self, case: Case) -> None:
        """Later problems of the task of this case may have waited for the end of a message about it."""
        self._undecided.update((number, None) for number in self._of_task.get(case.task, ()) if number > case.id)

    def look_again(self, case: Case, at: int) -> None:
        """Decide the case at this time, if nothing changes before."""
        if at == case.look_at:
            return
        case.look_at = at
        if at < FOREVER:
            heappush(self._timetable, (at, case.id))

    def next_undecided(self, now: int) -> Case | None:
        """A case to decide now; None if there is none."""
        while self._timetable and self._timetable[0][0] <= now:
            at, number = heappop(self._timetable)
            case = self._cases.get(number)
            if case is not None and case.look_at == at:
                case.look_at = FOREVER
                self._undecided[number] = None
        while self._undecided:
            number = next(iter(self._undecided))
            del self._undecided[number]
            if number in self._cases:
                return self._cases[number]
        self._shared.clear()
        return None

    def next_look(self) -> int:
        """When time alone changes something next, the end of a gather aside."""
        while self._timetable:
            at, number = self._timetable[0]
            case = self._cases.get(number)
            if case is not None and case.look_at == at:
                return at
            heappop(self._timetable)
        return FOREVER

    # What leaves

    def leaving_channels(self) -> dict[str, int]:
        """The keys of channels for which something is leaving, and when the first gather ends."""
        return dict(self._leave_at)

    def leave_at(self, channel: str, at: int) -> None:
        """The first gather for a channel ends later than was thought."""
        self._leave_at[channel] = at

    def leaving(self, channel: str, most: int) -> list[Case]:
        """What is leaving for a channel, in the order in which it began to wait."""
        return [self._cases[number] for number in islice(self._leaving.get(channel, ()), most)]

    def count_leaving(self, channel: str) -> int:
        """How many items that are."""
        return len(self._leaving.get(channel, ()))

    def told_in(self, message: int) -> list[Case]:
        """The cases that a message under way tells of."""
        return [self._cases[number] for number in sorted(self._in_message.get(message, ()))]

    def messages(self) -> set[int]:
        """The messages under way that some case was told in."""
        return set(self._in_message)
