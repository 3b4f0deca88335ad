"""Setting and ending downtimes: what people ask for by command, page, API and program."""

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from evenbeat.admin.stored_downtimes import (
    DOWNTIME_PREFIX,
    declared_downtimes,
    downtimes_of_people,
    encode_downtime,
    find_downtime,
    forgotten_settings,
    stored_downtimes,
)
from evenbeat.admin.task_names import require_tasks
from evenbeat.core.downtimes import is_over
from evenbeat.core.references import missing_periods
from evenbeat.core.scope import Scope
from evenbeat.load.downtimes import downtime_errors, patterns_error
from evenbeat.model import MAX_DOWNTIME, MAX_DOWNTIME_NAMES, MINUTE, Downtime, DowntimeLimit, Instant, Invalid
from evenbeat.name_patterns import is_pattern
from evenbeat.report.downtime_words import downtime_sentence, selection_words
from evenbeat.store.contract import Conflict, Filter, Store
from evenbeat.when.instant import LATEST
from evenbeat.wire.replies import ChangeResult, NotFound
from evenbeat.wire.requests import AddDowntime, EndDowntime

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import TaskAdmin

MAX_DOWNTIMES: Final = 10_000
"""Downtimes that people have set, those that are over and still kept among them."""
_START_GRACE: Final = MINUTE
"""A start that is past by less than this is now: the clock of the caller may be behind."""


def change_downtimes(admin: "TaskAdmin", request: AddDowntime | EndDowntime) -> ChangeResult:
    """Set or end a downtime."""
    return add_downtime(admin, request) if isinstance(request, AddDowntime) else end_downtime(admin, request)


def add_downtime(admin: "TaskAdmin", request: AddDowntime) -> ChangeResult:
    """Set a downtime."""
    with admin.locked():
        now = admin.now()
        downtime = new_downtime(admin.store, request, now)
        known = stored_downtimes(admin.store)
        forgotten = forgotten_settings(known, now)
        if len(known) - len(forgotten) >= MAX_DOWNTIMES:
            raise Invalid(f"there are {MAX_DOWNTIMES:,} downtimes already, accepted: no more; some have to end first")
        taken = {one.id for one in known}
        while downtime.id in taken:
            downtime = replace(downtime, id=_new_id())
        admin.store.set_settings({**forgotten, DOWNTIME_PREFIX + downtime.id: encode_downtime(downtime)})
        admin.audit(f"downtime {downtime.id}", "created", request.who, downtime_sentence(downtime))
        return admin.announce_downtime(downtime, now)


def end_downtime(admin: "TaskAdmin", request: EndDowntime) -> ChangeResult:
    """End a downtime that a person has set. One that has not begun leaves no trace but in the audit."""
    with admin.locked():
        now = admin.now()
        found = find_downtime(admin.store, request.id)
        if found is None or (request.scope is not None and not is_within(found, request.scope)):
            raise NotFound(f"there is no downtime {request.id!r}")
        if is_over(found, now):
            raise Conflict(f"the downtime {found.id} is over already")
        if any(found in some for some in declared_downtimes(admin.store).values()):
            raise Conflict(f"the downtime {found.id} is declared by {found.who}; change it there")
        has_begun = found.start is None or found.start < now
        ended = replace(found, end=now, ended_by=request.who) if has_begun else found
        admin.store.set_settings({DOWNTIME_PREFIX + found.id: encode_downtime(ended) if has_begun else None})
        action = "ended" if has_begun else "removed"
        admin.audit(f"downtime {found.id}", action, request.who, selection_words(found))
        return admin.announce_downtime(ended, now)


def is_within(downtime: Downtime, scope: Scope) -> bool:
    """Are all tasks that it could include, dependents too, of this scope?"""
    limit = downtime.limited_to
    if limit is not None and scope.contains(limit.owner or "", limit.labels):
        return True
    return not downtime.dependents and scope.contains(downtime.owner or "", downtime.labels)


def new_downtime(store: Store, request: AddDowntime, now: Instant) -> Downtime:
    """The downtime that is asked for; raise Invalid for what is wrong with it, with the key as its place."""
    start = now if request.start is None else request.start
    if start < now - _START_GRACE:
        raise Invalid("it is in the past, accepted: now, or a time in the future", place="from")
    start = max(start, now)
    if request.end is None:
        raise Invalid("a downtime without an end, accepted: a time at most a year after its begin", place="until")
    if not start < request.end:
        words = "it ends before it begins" if request.start is not None else "it is in the past"
        raise Invalid(f"{words}, accepted: a time after its begin", place="until")
    if request.end > start + MAX_DOWNTIME or request.end >= LATEST:
        raise Invalid("accepted: a time at most 366 days after its begin", place="until")
    if len(request.names) > MAX_DOWNTIME_NAMES:
        raise Invalid(f"{len(request.names):,} names, accepted: up to {MAX_DOWNTIME_NAMES:,}", place="names")
    if not (request.names or request.owner is not None or request.labels):
        raise Invalid("which tasks? Accepted: one or more of names, owner, labels; the name '*' means all")
    scope = request.scope
    downtime = Downtime(
        _new_id(),
        request.names,
        request.owner,
        request.labels,
        start,
        request.end,
        request.period,
        request.dependents,
        request.comment,
        request.who,
        now,
        limited_to=None if scope is None else DowntimeLimit(scope.owner, dict(scope.labels)),
    )
    for path, problem in (*downtime_errors(downtime), *missing_periods(downtime, store.periods())):
        raise Invalid(problem, place=".".join(map(str, path)))
    if problem := patterns_error([*downtimes_of_people(store, now), downtime]):
        raise Invalid(problem, place="names")
    return replace(downtime, names=_names_of_tasks(store, request.names, scope))


def _names_of_tasks(store: Store, names: Sequence[str], scope: Scope | None) -> tuple[str, ...]:
    """Patterns as they are; of others the names of the tasks that have them as name or id, which must be there."""
    plain = tuple(name for name in names if not is_pattern(name))
    entries = [
        entry
        for entry in (store.entries(Filter(names=plain)) if plain else ())
        if scope is None or scope.contains(entry.owner, entry.task.labels)
    ]
    known = {entry.id: entry.task.name for entry in entries} | {entry.task.name: entry.task.name for entry in entries}
    for name in plain:
        if name not in known:
            require_tasks(store, Filter((name,)), scope)
    return tuple(dict.fromkeys(known.get(name, name) for name in names))


def _new_id() -> str:
    return f"d{secrets.token_hex(3)}"
