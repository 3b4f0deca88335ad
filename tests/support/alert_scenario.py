"""Checks, what they depend on and who is notified, in virtual time, by the production code of `core/` alone.

Once a second everything is decided, as a node does; a message is delivered at once unless the scenario says otherwise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenbeat.core.alerts import Alert, Decision, Hold, ItemKind, Policy, ProblemFacts, decide, end, start
from evenbeat.core.check_states import CheckStates, apply_results
from evenbeat.core.columns import Ints
from evenbeat.core.problem_holds import Holds, HoldUpdate
from evenbeat.core.problems import Problems, ProblemUpdate
from evenbeat.core.reachability import Reachability
from evenbeat.core.task import ALL_FLAGS, Flag, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import MINUTE, SECOND, SEVERITY, Acknowledgement, Instant, Schedule, State, Task

BEGIN = Instant(10**15)
GATHER = 30 * SECOND


class Sent(NamedTuple):
    """An item that left."""

    at: int
    """Seconds since the beginning of the scenario."""
    contact: str
    text: str


class Case:
    """A problem, and what the contacts know of it."""

    def __init__(self, row: int, opened: int) -> None:
        self.row = row
        self.opened = opened
        self.is_open = True
        self.state = State.OK
        self.worst = State.OK
        self.hold = Hold.NONE
        self.ack: Acknowledgement | None = None
        self.alerts: dict[str, Alert] = {}

    def facts(self) -> ProblemFacts:
        shown = self.worst if self.state is State.OK else self.state
        return ProblemFacts(self.opened, self.is_open, SEVERITY[shown], self.state, hold=self.hold, ack=self.ack)


class AlertScenario:
    """A node without a store: `restart` forgets what a node would forget."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.columns = TaskColumns()
        self.rows: dict[str, int] = {}
        self.problems = Problems(self.columns)
        self.times = ScheduleTimes(self.columns)
        self.reachability = Reachability(self.columns, self.rows.get)
        self.holds = self._new_holds()
        self.policies: dict[str, Policy | None] = {}
        self.cases: list[Case] = []
        self.sent: list[Sent] = []
        self.notes: list[tuple[str, str, str]] = []
        """Of whom, of which check, and why not."""
        self.asked: list[str] = []
        """Checks that were asked for a run."""
        self.under_way: dict[int, list[tuple[Case, str]]] = {}
        self.delivers = True
        self._message = 0

    def _new_holds(self) -> Holds:
        return Holds(self.columns, self.problems, self.times, self.reachability, self._expected_by)

    def _expected_by(self, rows: Ints) -> Ints:
        return np.full(len(rows), self.now + 10 * MINUTE, dtype=np.int64)

    # What there is

    def check(self, *names: str, depends: Sequence[str] = (), attempts: int = 1) -> None:
        for name in names:
            row = int(self.columns.allocate(1)[0])
            self.rows[name] = row
            self.columns.flags[row] |= int(Flag.CHECK | Flag.NOTIFIES)
            self.columns.attempts[row] = attempts
            task = Task(name, Schedule(every=MINUTE, phase=0), check=True, depends=tuple(depends))
            self.reachability.define(np.array([row]), [task])
        self.reachability.settle()

    def contact(self, name: str, *, after: int = 0, repeat: int = 0) -> None:
        """Who is notified of all checks; in seconds."""
        self.policies[name] = Policy(GATHER, after=after * SECOND, repeat=repeat * SECOND)

    def closed_until(self, contact: str, seconds: int) -> None:
        """The period of the contact opens so much later."""
        policy = self.policies[contact]
        assert policy is not None
        self.policies[contact] = policy._replace(opens_at=self.now + seconds * SECOND)

    # What happens

    def result(self, state: State, *names: str, began: int = 0) -> None:
        """Runs that began some seconds ago have these results."""
        c = self.columns
        rows = np.array([self.rows[name] for name in names], dtype=np.int64)
        known = CheckStates(
            c.state[rows], c.hard[rows], c.attempt[rows], c.changes[rows], c.flapping[rows], c.result_at[rows]
        )
        started = np.full(len(rows), self.now - began * SECOND, dtype=np.int64)
        after = apply_results(known, np.full(len(rows), state, np.uint8), started, c.attempts[rows]).condition
        c.state[rows], c.hard[rows], c.attempt[rows] = after.state, after.hard, after.attempt
        c.changes[rows], c.flapping[rows], c.result_at[rows] = after.changes, after.flapping, after.result_at
        c.flags[rows] &= ALL_FLAGS ^ int(Flag.RUNNING)
        self.reachability.learn_results(rows)
        self._take(self.problems.learn_results(rows, self.now))
        self.holds.learn_ends(self.reachability.settle(), self.now)
        self.decide()

    def run_begins(self, *names: str) -> None:
        self.columns.flags[[self.rows[name] for name in names]] |= int(Flag.RUNNING)

    def downtime(self, *names: str, on: bool) -> None:
        rows = np.array([self.rows[name] for name in names], dtype=np.int64)
        self.columns.flags[rows] &= ALL_FLAGS ^ int(Flag.DOWNTIME)
        if on:
            self.columns.flags[rows] |= int(Flag.DOWNTIME)
        else:
            self.holds.learn_ends(rows, self.now)
        self.decide()

    def acknowledge(self, name: str) -> None:
        case = self.case(name)
        severity = case.facts().severity
        case.ack = Acknowledgement(self.now, "ann", severity=severity, worst_since=severity)
        self.decide()

    def restart(self) -> None:
        """The node stops and starts, or another one takes over: all that is durable is known."""
        known = {case.row: case.hold for case in self.cases if case.is_open}
        self.holds = self._new_holds()
        self.holds.restore(np.array(list(known), np.int64), np.array(list(known.values()), np.uint8), self.now)
        self.decide()

    def after(self, seconds: int, step: int = 1) -> None:
        """Time passes, so many seconds at a time."""
        for _ in range(0, seconds, step):
            self.now = Instant(self.now + step * SECOND)
            self.decide()

    # What follows

    def decide(self) -> None:
        self._hold(self.holds.settle(self.now))
        names = {row: name for name, row in self.rows.items()}
        self.asked += [names[row] for row in self.holds.wanted_runs().tolist()]
        for contact in self.policies:
            leaving = [case for case in self.cases if self._decided(case, contact).alert.is_leaving]
            if any(case.alerts[contact].leaves_at <= self.now for case in leaving):
                self._leave(contact, leaving)

    def _decided(self, case: Case, contact: str) -> Decision:
        decision = decide(case.alerts.get(contact, Alert()), case.facts(), self.policies[contact], self.now)
        case.alerts[contact] = decision.alert
        if decision.note:
            self.notes.append((contact, self._name(case), decision.note))
        return decision

    def _leave(self, contact: str, cases: list[Case]) -> None:
        self._message += 1
        self.under_way[self._message] = [(case, contact) for case in cases]
        for case in cases:
            alert, facts = case.alerts[contact], case.facts()
            state = facts.state.name if alert.waiting == ItemKind.PROBLEM else ""
            kind = "reminder" if alert.is_reminder else str(alert.waiting)
            text = f"{kind} {self._name(case)} {state}".strip()
            self.sent.append(Sent((self.now - BEGIN) // SECOND, contact, text))
            case.alerts[contact] = start(alert, facts, self._message, self.now)
        if self.delivers:
            self.end(self._message)

    def end(self, message: int, *, is_delivered: bool = True) -> None:
        """The delivery of a message ends."""
        for case, contact in self.under_way.pop(message):
            case.alerts[contact] = end(case.alerts[contact], message, is_delivered=is_delivered)
        self.decide()

    def _take(self, updates: list[ProblemUpdate]) -> None:
        for update in updates:
            case = next((c for c in self.cases if (c.row, c.opened) == (update.row, update.opened)), None)
            if case is None:
                case = Case(update.row, update.opened)
                self.cases.append(case)
            case.is_open = update.is_open
            if not case.is_open:
                continue
            case.state = update.state
            case.worst = max(case.worst, update.state, key=SEVERITY.__getitem__)
            if case.ack is not None:
                worst = max(case.ack.worst_since, case.facts().severity)
                case.ack = Acknowledgement(case.ack.at, "ann", severity=case.ack.severity, worst_since=worst)

    def _hold(self, updates: list[HoldUpdate]) -> None:
        for update in updates:
            next(c for c in self.cases if (c.row, c.opened) == (update.row, update.opened)).hold = update.hold

    # What is asked

    def case(self, name: str) -> Case:
        """The latest problem of a check."""
        return next(case for case in reversed(self.cases) if case.row == self.rows[name])

    def told(self, contact: str = "ops") -> list[str]:
        return [sent.text for sent in self.sent if sent.contact == contact]

    def _name(self, case: Case) -> str:
        return next(name for name, row in self.rows.items() if row == case.row)
