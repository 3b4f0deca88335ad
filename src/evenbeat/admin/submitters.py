"""Who submits the results of each check, for the audit: noted when it is another than before, not for every result.

So the submitter of a result is the one of the last such line before it, and a heartbeat that comes every minute for a
year is one line.
"""

from typing import Final, NamedTuple

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.store.contract import AuditFilter

SUBMITTED_ACTION: Final = "result submitted"
_AUDIT_LINES: Final = 100
"""Lines of a task's audit that are looked through for the last submitter, once after a start of the node."""
_MAX_REMEMBERED: Final = 200_000
"""Checks whose submitters are remembered; of more of them the audit is asked again."""


class Submitter(NamedTuple):
    """By which token or as which user, and from which address."""

    who: str
    source: str


class Submitters:
    """The latest of each check."""

    def __init__(self) -> None:
        self._latest: dict[str, Submitter] = {}

    def knows(self, name: str, submitter: Submitter) -> bool:
        """Was it the same one the last time?"""
        return self._latest.get(name) == submitter

    def note(self, desk: TaskAdmin, name: str, submitter: Submitter) -> None:
        """Write it down, unless the audit has it as the latest. Blocks."""
        if len(self._latest) >= _MAX_REMEMBERED:
            self._latest.clear()
        if name not in self._latest and _latest_in_audit(desk, name) == submitter:
            self._latest[name] = submitter
            return
        self._latest[name] = submitter
        desk.audit(name, SUBMITTED_ACTION, submitter.who, f"from {submitter.source}")


def _latest_in_audit(desk: TaskAdmin, name: str) -> Submitter | None:
    for _, change in desk.store.audit(AuditFilter(name, most=_AUDIT_LINES)):
        if change.action == SUBMITTED_ACTION:
            return Submitter(change.who, change.detail.removeprefix("from "))
    return None
