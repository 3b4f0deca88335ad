"""Schedules over HTTP: the next times of a task, and what a definition would mean before it is one."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.cross_check import must_refer_to_what_is_there
from evenbeat.admin.task_admin import Desk
from evenbeat.api.http.errors import FieldError, Problem, invalid
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes import definitions
from evenbeat.api.routes.documents import TaskDraft, Time, TimeText
from evenbeat.api.routes.task_answers import found, moment
from evenbeat.core.permission import is_blocked
from evenbeat.model import Instant, Invalid, Job, Task
from evenbeat.report.preview import Preview, blocked, paused, preview
from evenbeat.store.contract import Store
from evenbeat.when.period import Period, compile_periods
from evenbeat.when.schedule import has_own_phase

_TAG: Final = "Schedules"
_SHOWN: Final = 10
_UNNAMED: Final = "unnamed"
"""Stands for the name of a task that has none yet, on which H and the second depend."""
_SOMETHING: Final = Job(command=("noop",))


class NextQuery(Struct, rename={"start": "from"}):
    """How many times, and after when."""

    n: Annotated[int, Meta(ge=1, le=100)] = 10
    start: TimeText | None = None
    """Now, if it is left out."""


class NextTimes(Struct):
    """When a task will run."""

    schedule: str
    text: str
    resolved: str | None
    zone: str
    next: list[Time]
    warnings: list[str]


class Validated(Struct):
    """Whether a definition can be used, and what it would mean; null and empty where it cannot."""

    valid: bool
    errors: list[FieldError]
    text: str | None
    resolved: str | None
    zone: str | None
    next: list[Time]
    warnings: list[str]


async def next_times(call: Call) -> Preview:
    q: NextQuery = call.query
    asked = moment(q.start, "/query/from")
    start = call.house.now() if asked is None else asked

    def read(store: Store) -> Preview:
        entry = found(store, call.path["name"])
        task = entry.task
        shown = preview(task, _period_of(task, store), start, q.n)
        if not task.passive and is_blocked(permission_of(store), entry.owner, task):
            return blocked(shown, entry.owner)
        return paused(shown, task) if task.paused or not task.enabled else shown

    return await call.house.read(read)


async def validate(call: Call) -> Validated:
    try:
        task = await call.house.work(definitions.whole, call.body, _UNNAMED)
        shown = await _preview(call, task)
    except Problem as e:
        return Validated(valid=False, errors=e.listed(), text=None, resolved=None, zone=None, next=[], warnings=[])
    return Validated(
        valid=True,
        errors=[],
        text=shown.text,
        resolved=shown.resolved,
        zone=shown.zone,
        next=shown.next,
        warnings=shown.warnings,
    )


async def _preview(call: Call, task: Task) -> Preview:
    now = call.house.now()
    period, old = await call.house.read(lambda store: _surroundings(store, task, call.house.now))
    if task.schedule.every is not None and not has_own_phase(task.schedule):
        outlook = await call.house.outlooks.current()
        (task,) = await call.house.work(outlook.place, [task], old)
    return await call.house.work(preview, task, period, now, _SHOWN)


def _surroundings(store: Store, task: Task, now: Callable[[], Instant]) -> tuple[Period | None, list[Task]]:
    """The period of a task, and the one in whose stead it would come; raise 422 for what it refers to in vain."""
    periods = {name: period for name, (_, period) in store.periods().items()}
    limits = {} if task.limit is None else Desk(store, now).limits()
    try:
        # What there is to run may be said later: a schedule alone can be looked at too.
        must_refer_to_what_is_there([replace(task, job=_SOMETHING)], periods, limits)
    except Invalid as e:
        raise invalid(FieldError(f"/{e.place.rpartition('.')[2]}", e.problem)) from None
    old = store.find(task.name)
    return _period_of(task, store), [] if old is None or old.task.name != task.name else [old.task]


def _period_of(task: Task, store: Store) -> Period | None:
    if task.period is None:
        return None
    return compile_periods({name: period for name, (_, period) in store.periods().items()})[task.period]


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/tasks/{name}/next",
        Role.READ,
        next_times,
        "The next times of a task, and its schedule in plain English.",
        NextTimes,
        _TAG,
        NextQuery,
    ),
    Route(
        "POST",
        "/v1/validate",
        Role.READ,
        validate,
        "What a definition, or only a schedule, would mean; always 200, for `valid` says whether it can be used.",
        Validated,
        _TAG,
        body=dict[str, Any],
        described=TaskDraft,
    ),
)
