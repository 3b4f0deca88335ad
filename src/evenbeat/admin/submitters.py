"""Who submits the results of each check, for the audit: noted when it is another than before, not for every result.

So the submitter of a result is the one of the last such line before it, and a heartbeat that comes every minute for a
year is one line.
"""

from typing import Final, NamedTuple

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.store.contract import AuditFilter

SUBMITTED_ACTION: Final = "result submitted"
_AUDIT_LINES: Final = 100
"""Lines of a task's audit that are searched for the last submitter, once after a start of the node."""
_MAX_REMEMBERED: Final = 200_000
"""Checks whose submitters are cached; for further ones the audit is read again."""


class Submitter(NamedTuple):
    """The token or user, and the address, that a result came from."""

    who: str
    source: str


class Submitters:
    """The last submitter of each check."""

    def __init__(self) -> None:
        self._latest: dict[str, Submitter] = {}

    def knows(self, name: str, submitter: Submitter) -> bool:
        """Is it the same submitter as last time?"""
        return self._latest.get(name) == submitter

    def note(self, task_admin: TaskAdmin, name: str, submitter: Submitter) -> None:
        """Write the submitter to the audit, unless the audit has it as the last one. Blocks."""
        if len(self._latest) >= _MAX_REMEMBERED:
            self._latest.clear()
        if name not in self._latest and _latest_in_audit(task_admin, name) == submitter:
            self._latest[name] = submitter
            return
        self._latest[name] = submitter
        task_admin.audit(name, SUBMITTED_ACTION, submitter.who, f"from {submitter.source}")


def _latest_in_audit(task_admin: TaskAdmin, name: str) -> Submitter | None:
    for _, change in task_admin.store.audit(AuditFilter(name, most=_AUDIT_LINES)):
        if change.action == SUBMITTED_ACTION:
            return Submitter(change.who, change.detail.removeprefix("from "))
    return None
