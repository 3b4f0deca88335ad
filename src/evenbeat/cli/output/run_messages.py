"""What is worth reading of the runs that end: failures of tasks, changes of checks. The rest is in the history."""

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from evenbeat.core.task import Flag
from evenbeat.model import Outcome, State
from evenbeat.report.words import first_line, outcome_words, state_words
from evenbeat.store.contract import Finish

if TYPE_CHECKING:
    from evenbeat.node.scheduler import Scheduler

_MAX_LINES_PER_SECOND: Final = 10
"""Lines in a second: what is more is counted, as nobody can read it and the history has it."""
_UNREMARKABLE_OUTCOMES: Final = (Outcome.SUCCEEDED, Outcome.DROPPED)
_log: Final = logging.getLogger("evenbeat.runs")


class _SeenState(NamedTuple):
    state: int
    hard: bool


_HARD_OK: Final = _SeenState(State.OK, hard=True)


class RunEndLogger:
    """Logs them as they come."""

    def __init__(self, node: "Scheduler") -> None:
        self._node = node
        self._seen: dict[int, _SeenState] = {}
        """The checks that are not well."""
        self._second = 0
        self._told = 0
        self._untold = 0
        c = node.tasks.columns
        rows = node.tasks.all_rows()
        for row in rows[(c.state[rows] != State.OK) | ~c.hard[rows]].tolist():
            self._seen[int(c.number[row])] = _SeenState(int(c.state[row]), bool(c.hard[row]))

    def attach(self) -> None:
        """Listen to the node, beside whoever does already."""
        for listeners in (self._node.turns.on_finished, self._node.turns.on_submitted):
            listeners.append(lambda _, finishes: self.look(finishes))

    def look(self, finishes: Sequence[Finish]) -> None:
        """Runs have ended."""
        for finish in finishes:
            if finish.notable:
                self._look(finish)

    def _look(self, finish: Finish) -> None:
        row = self._node.tasks.row(finish.task)
        if row is None:  # it was removed while it ran
            self._seen.pop(finish.task, None)
            return
        if self._node.tasks.columns.flags[row] & int(Flag.CHECK):
            self._check(row, finish)
        elif finish.outcome not in _UNREMARKABLE_OUTCOMES:
            self._tell(row, finish, logging.WARNING, "failed", outcome_words(finish.outcome, finish.status))

    def _check(self, row: int, finish: Finish) -> None:
        before, now = self._seen.pop(finish.task, _HARD_OK), _SeenState(finish.state, finish.hard)
        if now != _HARD_OK:
            self._seen[finish.task] = now
        if now != before:
            level = logging.INFO if now.state == State.OK else logging.WARNING
            attempts = int(self._node.tasks.columns.attempts[row])
            words = state_words(State(now.state), hard=now.hard, attempt=finish.attempt, attempts=attempts)
            self._tell(row, finish, level, "state", f"is {words}")

    def _tell(self, row: int, finish: Finish, level: int, action: str, words: str) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._untold:
                _log.warning("%d more, see `evenbeat history --failed`", self._untold, extra={"action": "more"})
            self._second, self._told, self._untold = second, 0, 0
        if self._told == _MAX_LINES_PER_SECOND:
            self._untold += 1
            return
        self._told += 1
        name, said = self._node.tasks.names.name(row), first_line(finish.output)
        message = f"{name} {words}: {said}" if said else f"{name} {words}"
        _log.log(level, "%s", message, extra={"action": action, "task": name, "outcome": finish.outcome})
