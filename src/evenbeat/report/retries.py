"""Retries of tasks for people and programs: which attempt comes next, and when."""

from evenbeat.model import FOREVER, Instant, RunKind, Task
from evenbeat.store.contract import Condition, RunRecord
from evenbeat.wire.events import WaitingRetry


def waiting_retry(condition: Condition) -> WaitingRetry | None:
    """The retry that a task waits for; None if it waits for none."""
    if condition.extra is None or condition.extra_kind is not RunKind.RETRY:
        return None
    return retry_of_task(condition.entry.task, condition.attempt, condition.extra)


def retry_of_task(task: Task, attempt: int, due: int) -> WaitingRetry | None:
    """The retry that follows an attempt; None for a check, whose retries have other rules."""
    if task.check or not task.retries or due >= FOREVER:
        return None
    return WaitingRetry(attempt + 1, task.retries + 1, Instant(due))


def attempt_of_run(run: RunRecord) -> int | None:
    """Of a retry of a task that has ended: which attempt it was."""
    return run.attempt if run.kind is RunKind.RETRY and run.state is None and run.ended is not None else None


def attempt_words(retry: WaitingRetry) -> str:
    """ "attempt 2 of 4"."""
    return f"attempt {retry.attempt} of {retry.attempts}"
