"""The load over HTTP: planned and past starts, the tasks behind a peak, and a forecast with more tasks."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from evenbeat.api.http.errors import MAX_ERRORS, FieldError, HttpError, invalid_request, json_pointer
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes import definitions
from evenbeat.api.routes.task_answers import errors_at, parse_request_time
from evenbeat.did_you_mean import list_known
from evenbeat.model import HOUR, SECOND, Instant, RunKind, Task
from evenbeat.report.documents import iso_time
from evenbeat.report.outlook.outlook import ScheduledRun, rounded_counts, sum_in_steps
from evenbeat.store.contract import Store
from evenbeat.when.curve import Floats, Stretch, summarize
from evenbeat.when.instant import LATEST
from evenbeat.when.period import CompiledPeriod, compile_periods
from evenbeat.wire.documents import Count, KindWord, NewTask, TimestampText, TimeText

_TAG: Final = "Load"
_MINUTE: Final = 60
_DAY: Final = 86_400
_MAX_TASKS: Final = 1_000
_MAX_LISTED_RUNS: Final = 20_000
"""Maximum runs by cron entries and calendars in a forecast, as they are computed one by one."""

_MAX_CALENDARS: Final = 20
"""Different calendar expressions in a forecast: to spread tasks around one takes a sample of thousands of its times."""

StepSeconds = Annotated[int, Meta(ge=1, le=3_600)]


class LoadQuery(Struct):
    """How far back and ahead, in seconds, and how long a step is."""

    back: Annotated[int, Meta(ge=0, le=3_600)] = 600
    ahead: Annotated[int, Meta(ge=1, le=_DAY)] = 600
    step: StepSeconds = 1


class LoadTasksQuery(Struct, rename={"start": "from"}):
    """Selects a span of seconds."""

    start: TimeText | None = None
    """The first second; the current one by default."""
    seconds: Annotated[int, Meta(ge=1, le=600)] = 1
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class DayQuery(Struct):
    """How long a step is, in seconds."""

    step: StepSeconds = _MINUTE


class UpcomingQuery(Struct):
    """How far ahead, in seconds, and how many."""

    seconds: Annotated[int, Meta(ge=1, le=_DAY)] = 600
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class ForecastBody(Struct, forbid_unknown_fields=True):
    """Tasks that might come, or replace those of their names; how many hours to look at."""

    tasks: Annotated[tuple[dict[str, Any], ...], Meta(max_length=_MAX_TASKS)]
    hours: Annotated[int, Meta(ge=1, le=24)] = 1


class ForecastRequest(Struct, forbid_unknown_fields=True):
    """Tasks that might come, or replace those of their names; how many hours to look at."""

    tasks: Annotated[tuple[NewTask, ...], Meta(max_length=_MAX_TASKS)]
    hours: Annotated[int, Meta(ge=1, le=24)] = 1


class Even(Struct):
    """How even a load is: starts in the fullest second, on average, and the one over the other."""

    peak: float
    mean: float
    peak_to_mean: float


class Load(Struct, rename={"start": "from"}):
    """Starts per step."""

    now: TimestampText
    start: TimestampText
    step: StepSeconds
    planned: list[Count]
    """From `from` on."""
    done: list[Count]
    """The same steps, up to the one that lasts."""
    peak: float
    mean: float
    peak_to_mean: float
    """Of the plan: the fullest step over the average one."""


class PlannedRun(Struct):
    """A run by its schedule, or by its `start_at`."""

    task: str
    at: TimestampText
    kind: KindWord


class LoadTasks(Struct):
    """Runs planned for some seconds, in order."""

    tasks: list[PlannedRun]
    total: Count


class Day(Struct, rename={"start": "from"}):
    """The next 24 hours, in starts per step."""

    start: TimestampText
    step: StepSeconds
    planned: list[Count]


class Upcoming(Struct):
    """The next runs, in order."""

    upcoming: list[PlannedRun]


class ForecastAnswer(Struct):
    """How even the load is without and with the tasks; the curves in starts per minute."""

    before: Even
    after: Even
    curve_before: list[Count]
    curve_after: list[Count]


async def read_load(call: Call) -> Load:
    q: LoadQuery = call.query
    step = q.step * SECOND
    now = call.context.now()
    back, ahead = -(-q.back // q.step), -(-q.ahead // q.step)
    here = now // step * step
    stretch = Stretch(Instant(here - back * step), (back + ahead) * q.step)
    outlook = await call.context.outlook_cache.current()
    planned = await call.context.run_in_thread(lambda: sum_in_steps(outlook.planned(stretch), q.step))
    starts = await call.context.read_store(lambda store: store.starts(stretch.start, Instant(here)))
    done = [0] * back
    for second, count in starts.items():
        done[(second * SECOND - stretch.start) // step] += count
    even = _evenness(planned)
    return Load(
        _time_text(now),
        _time_text(stretch.start),
        q.step,
        rounded_counts(planned),
        done,
        even.peak,
        even.mean,
        even.peak_to_mean,
    )


async def list_load_tasks(call: Call) -> LoadTasks:
    q: LoadTasksQuery = call.query
    asked = parse_request_time(q.start, "/query/from")
    start = (call.context.now() if asked is None else asked) // SECOND * SECOND
    stretch = Stretch(Instant(start), q.seconds)
    if stretch.end > LATEST:
        raise invalid_request(FieldError("/query/from", "no time is planned that late, accepted: before the year 2200"))
    outlook = await call.context.outlook_cache.current()
    return await call.context.run_in_thread(
        lambda: LoadTasks(
            _planned_runs(outlook.upcoming(stretch.start, stretch.end, q.limit)), int(outlook.planned(stretch).sum())
        )
    )


async def read_day(call: Call) -> Day:
    q: DayQuery = call.query
    start = Instant(call.context.now() // (q.step * SECOND) * q.step * SECOND)
    outlook = await call.context.outlook_cache.current()
    planned = await call.context.run_in_thread(
        lambda: rounded_counts(sum_in_steps(outlook.planned(Stretch(start, _DAY)), q.step))
    )
    return Day(_time_text(start), q.step, planned)


async def list_upcoming(call: Call) -> Upcoming:
    q: UpcomingQuery = call.query
    now = call.context.now()
    outlook = await call.context.outlook_cache.current()
    end = Instant(now + q.seconds * SECOND)
    return await call.context.run_in_thread(lambda: Upcoming(_planned_runs(outlook.upcoming(now, end, q.limit))))


async def forecast_load(call: Call) -> ForecastAnswer:
    body: ForecastBody = call.body
    tasks = await call.context.run_in_thread(_parse_tasks, body.tasks)
    stretch = Stretch(Instant(call.context.now() // HOUR * HOUR + HOUR), body.hours * 3_600)
    outlook = await call.context.outlook_cache.current()

    def read(store: Store) -> tuple[dict[str, CompiledPeriod], list[Task]]:
        periods = {name: period for name, (_, period) in store.periods().items()}
        for i, task in enumerate(tasks):
            if task.period is not None and task.period not in periods:
                known = list_known(sorted(periods), "none is defined")
                detail = f"there is no period {task.period!r}, known: {known}"
                raise invalid_request(FieldError(f"/tasks/{i}/period", detail))
        found = (store.find(task.name) for task in tasks)
        return compile_periods(periods), [entry.task for entry in found if entry is not None]

    periods, old = await call.context.read_store(read)
    with errors_at("/tasks"):
        before, after = await call.context.run_in_thread(
            outlook.forecast, tasks, stretch, periods, old, _MAX_LISTED_RUNS
        )
    return ForecastAnswer(
        _evenness(before),
        _evenness(after),
        rounded_counts(sum_in_steps(before, _MINUTE)),
        rounded_counts(sum_in_steps(after, _MINUTE)),
    )


def _parse_tasks(bodies: tuple[dict[str, Any], ...]) -> list[Task]:
    tasks: dict[str, Task] = {}
    errors: list[FieldError] = []
    more = 0
    for i, body in enumerate(bodies):
        if len(errors) >= MAX_ERRORS:
            break  # these explain the rest
        at = json_pointer(("tasks", i))
        try:
            task = definitions.parse_task(body)
        except HttpError as e:
            errors += [FieldError(at + error.pointer, error.detail, error.column) for error in e.errors]
            more += e.errors_omitted
            continue
        if task.name in tasks:
            errors.append(FieldError(f"{at}/name", f"{task.name!r} is there twice; names are unique"))
        tasks[task.name] = task
    if errors:
        raise invalid_request(*errors, more=more)
    calendars = len({task.schedule.calendar for task in tasks.values()} - {None})
    if calendars > _MAX_CALENDARS:
        detail = f"{calendars} different calendar expressions, accepted: up to {_MAX_CALENDARS}"
        raise invalid_request(FieldError("/tasks", detail))
    return list(tasks.values())


def _evenness(curve: Floats) -> Even:
    found = summarize(curve)
    return Even(found.peak, round(found.mean, 6), round(found.peak_to_mean, 6))


def _planned_runs(runs: list[ScheduledRun]) -> list[PlannedRun]:
    return [PlannedRun(run.task, _time_text(run.at), _kind_word(run)) for run in runs]


def _kind_word(run: ScheduledRun) -> KindWord:
    return "start-at" if run.kind is RunKind.START_AT else "grid"


def _time_text(t: Instant) -> str:
    return iso_time(t) or ""


ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/v1/load", Role.READ, read_load, "Starts planned and done, around now.", Load, _TAG, LoadQuery),
    Route("GET", "/v1/load/tasks", Role.READ, list_load_tasks, "Who makes a peak.", LoadTasks, _TAG, LoadTasksQuery),
    Route("GET", "/v1/load/day", Role.READ, read_day, "Starts planned for the next 24 hours.", Day, _TAG, DayQuery),
    Route("GET", "/v1/upcoming", Role.READ, list_upcoming, "The next runs.", Upcoming, _TAG, UpcomingQuery),
    Route(
        "POST",
        "/v1/forecast",
        Role.READ,
        forecast_load,
        "The load with additional or changed tasks.",
        ForecastAnswer,
        _TAG,
        body=ForecastBody,
        documented_body_type=ForecastRequest,
    ),
)
