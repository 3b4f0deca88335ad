"""Explore every reachable state of problems that one task has one after the other, and what a channel is told of them.

Messages are under way for any time and end in any order: later ones pass those that the receiver refuses. The decisions
are those of `core.alerts`; shortest counterexample first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from evenbeat.core.alerts import Alert, ItemKind, Policy, ProblemFacts
from evenbeat.model import State
from evenbeat.sim.alert_model import ALERT_RULES, AlertRules
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.verify import VerifiedWorld

_NOW: Final = 100_000
_OPENED: Final = _NOW - 600
_GATHER: Final = 30
_CRITICAL: Final = 3
_DRAIN_LIMIT: Final = 40
SUCCESSION_ERRORS: Final = "succession: errors"


class SuccessionShape(NamedTuple):
    """What can happen in a world."""

    name: str
    problems: int = 2
    """How many of them may be unsettled at once."""
    causes: int = 1
    """How many of them may be open at once."""
    closes: bool = False
    """The period of the contact closes, and opens."""
    cuts: bool = False
    """The node ends before it has recorded all parts of a message: it is delivered with the first item alone."""


SUCCESSION_WORLDS: Final = (
    SuccessionShape("succession: two problems, a contact that is closed at times", closes=True, cuts=True),
    SuccessionShape("succession: three problems, two of which may be open at once", 3, 2, cuts=True),
)


class Told(NamedTuple):
    """A problem, and what the channel knows of it: as it is recorded, and what it really received."""

    is_open: bool = True
    alert: Alert = Alert()
    under_way: str = ""
    """The ItemKind in the message under way."""
    knows: bool = False


class SuccessionState(NamedTuple):
    """The unsettled problems of the task in the order in which they opened."""

    problems: tuple[Told, ...] = ()
    is_open: bool = True
    """The period of the contact."""

    def __str__(self) -> str:
        return f"contact open: {self.is_open}; {'; '.join(map(str, self.problems)) or 'no problem'}"


class SuccessionStep(NamedTuple):
    """What an event did."""

    before: SuccessionState
    event: str
    after: SuccessionState
    started: tuple[tuple[int, str], ...] = ()
    """The places of problems, and the ItemKinds, in the message that left."""


class SuccessionWorld:
    """A world that can be put into any state. What an event does from there is one step."""

    def __init__(self, shape: SuccessionShape, rules: AlertRules = ALERT_RULES) -> None:
        self.shape = shape
        self._rules = rules
        self.drained: set[SuccessionState] = set()
        """States that lead to an end, for `nothing_is_lost`."""

    def steps(self, state: SuccessionState) -> Iterator[SuccessionStep]:
        """Everything that can happen next, and what it does."""
        known = state.problems
        for place, told in enumerate(known):
            if told.is_open:
                closed = (*known[:place], told._replace(is_open=False), *known[place + 1 :])
                yield self._changed(state, closed, f"problem {place} closes")
        if len(known) < self.shape.problems and sum(told.is_open for told in known) < self.shape.causes:
            yield self._changed(state, (*known, Told()), f"problem {len(known)} opens")
        if self.shape.closes:
            other = self._decided(state._replace(is_open=not state.is_open))
            yield SuccessionStep(state, f"contact open: {not state.is_open}", other)
        waiting = sum(told.alert.is_leaving for told in known)
        if waiting:
            yield self._leave(state)
        if waiting > 1 and self.shape.cuts:
            yield self._leave(state, most=1)
        for message in sorted({told.alert.message for told in known} - {0}):
            yield self._end(state, message, is_delivered=True)
            yield self._end(state, message, is_delivered=False)

    def quiet_steps(self, state: SuccessionState) -> Iterator[SuccessionStep]:
        """What time and deliveries that succeed lead to, when nothing else happens."""
        decided = self._decided(state)
        messages = {told.alert.message for told in decided.problems} - {0}
        if messages:
            yield self._end(decided, min(messages), is_delivered=True)
        elif any(told.alert.is_leaving for told in decided.problems):
            yield self._leave(decided)

    def _changed(self, state: SuccessionState, problems: tuple[Told, ...], event: str) -> SuccessionStep:
        return SuccessionStep(state, event, self._decided(state._replace(problems=problems)))

    def _decided(self, state: SuccessionState) -> SuccessionState:
        policy = Policy(_GATHER, opens_at=0 if state.is_open else _NOW + 1_000)
        decided: list[Told] = []
        for told in state.problems:
            has_earlier = any(self._rules.is_unfinished(one.alert, is_open=one.is_open) for one in decided)
            alert = self._rules.decide(told.alert, _facts_of(told), policy, _NOW, has_earlier=has_earlier).alert
            decided.append(told._replace(alert=_aged(alert)))
        settled = [one for one in decided if one.is_open or not one.alert.is_over or one.alert.message or one.knows]
        return state._replace(problems=_renumbered(settled))

    def _leave(self, state: SuccessionState, most: int | None = None) -> SuccessionStep:
        """The gather of the first item has ended: all that waits becomes one message."""
        state = self._decided(state)
        number = 1 + max(told.alert.message for told in state.problems)
        after: list[Told] = []
        started: list[tuple[int, str]] = []
        for place, told in enumerate(state.problems):
            kind = str(told.alert.waiting)
            if not told.alert.is_leaving or len(started) == most:
                after.append(told)
                continue
            started.append((place, kind))
            alert = self._rules.start(told.alert, _facts_of(told), number, _NOW)
            after.append(told._replace(alert=_aged(alert), under_way=kind))
        event = "a message leaves" if most is None else "a message leaves, and is cut by the end of the node"
        left = self._changed(state, tuple(after), event)
        return left._replace(before=state, started=tuple(started))

    def _end(self, state: SuccessionState, message: int, *, is_delivered: bool) -> SuccessionStep:
        ended = []
        for told in state.problems:
            if told.alert.message != message:
                ended.append(told)
                continue
            # A recovery that is given up ends it too: that is the guarantee.
            knows = told.under_way != ItemKind.RECOVERY and (told.knows or is_delivered)
            alert = self._rules.end(told.alert, message, is_delivered=is_delivered)
            ended.append(told._replace(alert=alert, under_way="", knows=knows))
        return self._changed(state, tuple(ended), f"message {message}: {'delivered' if is_delivered else 'given up'}")


def _facts_of(told: Told) -> ProblemFacts:
    return ProblemFacts(_OPENED, told.is_open, _CRITICAL, State.CRITICAL)


def _aged(alert: Alert) -> Alert:
    """The alert as of an earlier time; nothing but the end of a gather waits for time."""
    return alert._replace(leaves_at=alert.leaves_at and _NOW, last_sent=alert.last_sent and 1, counts_from=0)


def _renumbered(problems: list[Told]) -> tuple[Told, ...]:
    """With the smallest numbers of messages that keep their order."""
    numbers = {message: i for i, message in enumerate(sorted({0, *(one.alert.message for one in problems)}))}
    return tuple(one._replace(alert=one.alert._replace(message=numbers[one.alert.message])) for one in problems)


def recovery_before_the_next_problem(_: SuccessionWorld, step: SuccessionStep) -> bool:
    """A problem is not sent while the channel knows of an earlier problem of the same task, which is over, or may come
    to know of it: unless that recovery stands before it in the same message.
    """
    is_over = [not told.is_open for told in step.before.problems]
    for place, kind in step.started:
        if kind != ItemKind.PROBLEM:
            continue
        recovered = {earlier for earlier, its in step.started if its == ItemKind.RECOVERY and earlier < place}
        earlier_ones = enumerate(step.before.problems[:place])
        if any(
            is_over[number] and (told.knows or told.under_way) and number not in recovered
            for number, told in earlier_ones
        ):
            return False
    return True


def not_held_up(_: SuccessionWorld, step: SuccessionStep) -> bool:
    """A problem waits for an earlier one only if that is over while a message about it is under way."""
    problems = step.after.problems
    for place, told in enumerate(problems):
        is_behind = any(earlier.under_way and not earlier.is_open for earlier in problems[:place])
        is_first = told.is_open and not told.alert.sent and step.after.is_open
        if is_first and told.alert.is_leaving is is_behind:
            return False
    return True


def balanced(_: SuccessionWorld, step: SuccessionStep) -> bool:
    """A recovery of each problem is sent if and only if the problem was sent, and not given up."""
    for place, kind in step.started:
        told = step.before.problems[place]
        if told.under_way or told.is_open is not (kind == ItemKind.PROBLEM) or told.knows is told.is_open:
            return False
    return not any(told.knows and told.alert.is_over and not told.alert.message for told in step.after.problems)


def nothing_is_lost(world: SuccessionWorld, step: SuccessionStep) -> bool:
    """When all deliveries succeed, the channel gets to know of each problem that is open, unless it was given up, and
    of the end of all others.
    """
    state = step.after._replace(is_open=True)
    if state in world.drained:
        return True
    world.drained.add(state)
    for _ in range(_DRAIN_LIMIT):
        following = next(world.quiet_steps(state), None)
        if following is None:
            last = world._decided(state).problems
            return all(told.is_open and (told.knows or told.alert.sent) for told in last)
        state = following.after
    return False


SuccessionProperties = Mapping[str, Callable[[SuccessionWorld, SuccessionStep], bool]]
SUCCESSION_PROPERTIES: Final[SuccessionProperties] = {
    "succession: in order": recovery_before_the_next_problem,
    "succession: not held": not_held_up,
    "succession: balanced": balanced,
    "succession: not lost": nothing_is_lost,
}
SUCCESSION_SENTENCES: Final = {
    name: " ".join((holds.__doc__ or "").split()) for name, holds in SUCCESSION_PROPERTIES.items()
} | {SUCCESSION_ERRORS: "Nothing that can happen to problems that follow each other raises an error."}


def explore_succession(
    shape: SuccessionShape,
    rules: AlertRules = ALERT_RULES,
    most: int | None = None,
    properties: SuccessionProperties = SUCCESSION_PROPERTIES,
) -> ExplorationResult:
    """Breadth first from no problem until nothing new turns up, or `most` states have: then it is incomplete."""
    world = SuccessionWorld(shape, rules)

    def transitions(state: SuccessionState) -> Iterator[Transition[SuccessionState]]:
        for step in world.steps(state):
            broken = next((name for name, holds in properties.items() if not holds(world, step)), None)
            yield Transition(step.event, step.after, broken)

    exploration = StateExploration(shape, transitions, SUCCESSION_SENTENCES, SUCCESSION_ERRORS)
    return exploration.run(SuccessionState(), most)


def verify_successions(shapes: Iterable[SuccessionShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_succession)
