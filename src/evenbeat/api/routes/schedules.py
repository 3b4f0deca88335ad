"""Schedules over HTTP: the next times of a task, and a preview of a definition."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.stored_references import UnchangedTasks, check_references, shared_names
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request, json_pointer
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes import definitions
from evenbeat.api.routes.task_answers import find_task, parse_request_time
from evenbeat.core.permission import is_blocked
from evenbeat.model import Invalid, Job, Task
from evenbeat.report.preview import SchedulePreview, preview_of_blocked, preview_of_paused, preview_schedule
from evenbeat.store.contract import Store
from evenbeat.when.period import CompiledPeriod, compile_periods
from evenbeat.when.schedule import has_own_phase
from evenbeat.wire.documents import TaskDraft, TimestampText, TimeText

_TAG: Final = "Schedules"
_TIMES_SHOWN: Final = 10
_PLACEHOLDER_NAME: Final = "unnamed"
"""Stands for the name of a task without one, on which H and the second depend."""
_PLACEHOLDER_COMMAND: Final = Job(command=("noop",))


class NextQuery(Struct, rename={"start": "from"}):
    """How many times, and after when."""

    n: Annotated[int, Meta(ge=1, le=100)] = 10
    start: TimeText | None = None
    """Now by default."""


class NextTimes(Struct):
    """When a task will run."""

    schedule: str
    text: str
    resolved: str | None
    zone: str
    next: list[TimestampText]
    warnings: list[str]


class Validated(Struct):
    """Whether a definition can be used, and what it would mean; null and empty where it cannot."""

    valid: bool
    errors: list[FieldError]
    text: str | None
    resolved: str | None
    zone: str | None
    next: list[TimestampText]
    warnings: list[str]


async def list_next_times(call: Call) -> SchedulePreview:
    q: NextQuery = call.query
    asked = parse_request_time(q.start, "/query/from")
    start = call.context.now() if asked is None else asked

    def read(store: Store) -> SchedulePreview:
        entry = find_task(store, call.path_variables["name"])
        task = entry.task
        shown = preview_schedule(task, _period_of(task, store), start, q.n)
        if not task.passive and is_blocked(permission_of(store), entry.owner, task):
            return preview_of_blocked(shown, entry.owner)
        return preview_of_paused(shown, task) if task.paused or not task.enabled else shown

    return await call.context.read_store(read)


async def validate_task(call: Call) -> Validated:
    try:
        task = await call.context.run_in_thread(definitions.parse_task, call.body, _PLACEHOLDER_NAME)
        shown = await _preview(call, task)
    except HttpError as e:
        return Validated(
            valid=False, errors=e.errors_shown(), text=None, resolved=None, zone=None, next=[], warnings=[]
        )
    return Validated(
        valid=True,
        errors=[],
        text=shown.text,
        resolved=shown.resolved,
        zone=shown.zone,
        next=shown.next,
        warnings=shown.warnings,
    )


async def _preview(call: Call, task: Task) -> SchedulePreview:
    now = call.context.now()
    period, old = await call.context.read_store(lambda store: _period_and_replaced_tasks(store, task))
    if task.schedule.every is not None and not has_own_phase(task.schedule):
        outlook = await call.context.outlook_cache.current()
        (task,) = await call.context.run_in_thread(outlook.place, [task], old)
    return await call.context.run_in_thread(preview_schedule, task, period, now, _TIMES_SHOWN)


def _period_and_replaced_tasks(store: Store, task: Task) -> tuple[CompiledPeriod | None, list[Task]]:
    """The period of a task, and the task it would replace; raise 422 for references to missing things."""
    try:
        # The command may be missing: a schedule alone can be previewed too.
        check_references([replace(task, job=_PLACEHOLDER_COMMAND)], shared_names(store), UnchangedTasks(store))
    except Invalid as e:
        raise invalid_request(FieldError(json_pointer(tuple(e.place.split("."))), e.problem)) from None
    old = store.find(task.name)
    return _period_of(task, store), [] if old is None or old.task.name != task.name else [old.task]


def _period_of(task: Task, store: Store) -> CompiledPeriod | None:
    if task.period is None:
        return None
    return compile_periods({name: period for name, (_, period) in store.periods().items()})[task.period]


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/tasks/{name}/next",
        Role.READ,
        list_next_times,
        "The next times of a task, and its schedule in plain English.",
        NextTimes,
        _TAG,
        NextQuery,
    ),
    Route(
        "POST",
        "/v1/validate",
        Role.READ,
        validate_task,
        "What a definition, or only a schedule, would mean; always 200, for `valid` says whether it can be used.",
        Validated,
        _TAG,
        body=dict[str, Any],
        documented_body_type=TaskDraft,
    ),
)
