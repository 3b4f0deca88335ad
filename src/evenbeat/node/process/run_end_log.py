"""Logs ends of runs: failures of tasks and state changes of checks, or every end. The history has them all."""

import logging
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from evenbeat.core.task import Flag
from evenbeat.core.telling_lines import summary_line
from evenbeat.model import Outcome, State
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.words import duration_words, has_run_failed, outcome_words, state_words
from evenbeat.store.contract import Finish

_MAX_LINES_PER_SECOND: Final = 10
"""Lines per second; further ones are only counted, as the history has them."""
_UNREMARKABLE_OUTCOMES: Final = (Outcome.SUCCEEDED, Outcome.DROPPED)
_log: Final = logging.getLogger("evenbeat.runs")


class _SeenState(NamedTuple):
    state: int
    hard: bool


_HARD_OK: Final = _SeenState(State.OK, hard=True)


class RunEndLogger:
    """Logs ends of runs as they happen."""

    def __init__(self, node: Scheduler, *, is_every_end: bool = False) -> None:
        """With `is_every_end` plain successes too, else only what is notable."""
        self._node = node
        self._is_every_end = is_every_end
        self._seen: dict[int, _SeenState] = {}
        """Checks that are not in a HARD OK state."""
        self._second = 0
        self._logged = 0
        self._dropped = 0
        c = node.tasks.columns
        rows = node.tasks.all_rows()
        for row in rows[(c.state[rows] != State.OK) | ~c.hard[rows]].tolist():
            self._seen[int(c.number[row])] = _SeenState(int(c.state[row]), bool(c.hard[row]))

    def attach(self) -> None:
        """Subscribe to ends of runs and submitted results."""
        for listeners in (self._node.turns.on_finished, self._node.turns.passive.on_submitted):
            listeners.append(lambda _, finishes: self.look(finishes))

    def look(self, finishes: Sequence[Finish]) -> None:
        """Log some finished runs."""
        for finish in finishes:
            if finish.notable or self._is_every_end:
                self._look(finish)

    def _look(self, finish: Finish) -> None:
        row = self._node.tasks.row(finish.task)
        if row is None:  # the task was removed while it ran
            self._seen.pop(finish.task, None)
            return
        if finish.outcome == Outcome.CANCELLED:
            self._log_line(row, finish, logging.INFO, "stopped", "cancelled")
        elif self._node.tasks.columns.flags[row] & int(Flag.CHECK):
            self._check(row, finish)
        elif finish.outcome not in _UNREMARKABLE_OUTCOMES:
            self._log_line(row, finish, logging.WARNING, "failed", outcome_words(finish.outcome, finish.status))
        elif self._is_every_end and finish.outcome == Outcome.SUCCEEDED:
            words = f"succeeded in {duration_words(finish.ended - finish.started)}"
            self._log_line(row, finish, logging.INFO, "succeeded", words)

    def _check(self, row: int, finish: Finish) -> None:
        before, now = self._seen.pop(finish.task, _HARD_OK), _SeenState(finish.state, finish.hard)
        if now != _HARD_OK:
            self._seen[finish.task] = now
        if now != before:
            level = logging.INFO if now.state == State.OK else logging.WARNING
            attempts = int(self._node.tasks.columns.attempts[row])
            words = state_words(State(now.state), hard=now.hard, attempt=finish.attempt, attempts=attempts)
            self._log_line(row, finish, level, "state", f"is {words}")

    def _log_line(self, row: int, finish: Finish, level: int, action: str, words: str) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._dropped:
                command = "evenbeat history" if self._is_every_end else "evenbeat history --failed"
                _log.warning("%d more, see `%s`", self._dropped, command, extra={"action": "more"})
            self._second, self._logged, self._dropped = second, 0, 0
        if self._logged == _MAX_LINES_PER_SECOND:
            self._dropped += 1
            return
        self._logged += 1
        is_check = bool(self._node.tasks.columns.flags[row] & int(Flag.CHECK))
        output = summary_line(finish.output, is_check=is_check, has_failed=has_run_failed(finish.outcome))
        name = self._node.tasks.names.name(row)
        message = f"{name} {words}: {output}" if output else f"{name} {words}"
        _log.log(level, "%s", message, extra={"action": action, "task": name, "outcome": finish.outcome})
