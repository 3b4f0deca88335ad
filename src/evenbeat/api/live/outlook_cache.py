"""The outlook on planned runs: computed when it is first asked for, and again after tasks or periods change."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.submitters import SUBMITTED_ACTION
from evenbeat.core.permission import CommandPolicy, is_blocked
from evenbeat.model import Entry, Task
from evenbeat.report.outlook.columns import outlook_columns
from evenbeat.report.outlook.outlook import Outlook
from evenbeat.store.contract import Change, Store
from evenbeat.when.period import compile_periods

ReadOutlook = Callable[[Callable[[Store], Outlook]], Awaitable[Outlook]]

_REST_FACTOR: Final = 9
"""Reading a hundred thousand tasks takes a second or two: under constant change, a tenth of the time goes into it."""
_ACTIONS_WITHOUT_CHANGE: Final = (
    "forced",
    "applied",
    "signed in",
    "signed in by link",
    "sign-in link created",
    SUBMITTED_ACTION,
)
"""Actions of the audit that leave all tasks as they were."""
_CHANGES_READ: Final = 100


class OutlookCache:
    """One outlook, shared by all requests."""

    def __init__(self, read: ReadOutlook) -> None:
        self._read = read
        self._reading = asyncio.Lock()
        self._outlook: Outlook | None = None
        self._newest: tuple[Change | None, CommandPolicy] | None = None
        self._rested = 0.0

    async def current(self) -> Outlook:
        """The latest outlook, computed in a thread, once for all requests that wait for it."""
        async with self._reading:
            return await self._read(self._current)

    def _current(self, store: Store) -> Outlook:
        newest = (_newest_change(store), permission_of(store))
        if self._outlook is None or (newest != self._newest and time.monotonic() >= self._rested):
            start = time.monotonic()
            periods = compile_periods({name: period for name, (_, period) in store.periods().items()})
            tasks = ((_paused_if_blocked(entry, newest[1]), entry.created) for entry in store.entries())
            self._outlook = Outlook(outlook_columns(tasks, periods))
            self._newest = newest
            end = time.monotonic()
            self._rested = end + _REST_FACTOR * (end - start)
        return self._outlook


def _paused_if_blocked(entry: Entry, permission: CommandPolicy) -> Task:
    """A task whose command may not run is planned like a paused one: not at all."""
    return replace(entry.task, paused=True) if is_blocked(permission, entry.owner, entry.task) else entry.task


def _newest_change(store: Store) -> Change | None:
    """The newest change of tasks or periods, which the audit records."""
    changes = store.changes(most=_CHANGES_READ)
    return next(
        (change for change in changes if change.action not in _ACTIONS_WITHOUT_CHANGE), changes[0] if changes else None
    )
