"""The load over HTTP: what is planned, what was done, who makes a peak, and what more tasks would make of it."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from evenbeat.api.http.errors import MOST_ERRORS, FieldError, Problem, invalid, pointer
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes import definitions
from evenbeat.api.routes.documents import KindWord, NewTask, Number, Time, TimeText
from evenbeat.api.routes.task_answers import moment, pointed
from evenbeat.model import HOUR, SECOND, Instant, Kind, Task
from evenbeat.report.documents import instant
from evenbeat.report.outlook.outlook import Planned, counts, in_steps
from evenbeat.store.contract import Store
from evenbeat.when.curve import Floats, Stretch, summarize
from evenbeat.when.instant import LATEST
from evenbeat.when.nearest import listed
from evenbeat.when.period import Period, compile_periods

_TAG: Final = "Load"
_MINUTE: Final = 60
_DAY: Final = 86_400
_MOST_TASKS: Final = 1_000
_MOST_LISTED: Final = 20_000
"""Runs by cron entries and calendars in a forecast: they are walked one by one."""

_MOST_CALENDARS: Final = 20
"""Different calendar expressions in a forecast: to spread tasks around one takes a sample of thousands of its times."""

Step = Annotated[int, Meta(ge=1, le=3_600)]


class LoadQuery(Struct):
    """How far back and ahead, in seconds, and how long a step is."""

    back: Annotated[int, Meta(ge=0, le=3_600)] = 600
    ahead: Annotated[int, Meta(ge=1, le=_DAY)] = 600
    step: Step = 1


class LoadTasksQuery(Struct, rename={"start": "from"}):
    """Which seconds."""

    start: TimeText | None = None
    """The first second; this one, if it is left out."""
    seconds: Annotated[int, Meta(ge=1, le=600)] = 1
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class DayQuery(Struct):
    """How long a step is, in seconds."""

    step: Step = _MINUTE


class UpcomingQuery(Struct):
    """How far ahead, in seconds, and how many."""

    seconds: Annotated[int, Meta(ge=1, le=_DAY)] = 600
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class ForecastBody(Struct, forbid_unknown_fields=True):
    """Tasks that might come, or replace those of their names; how many hours to look at."""

    tasks: Annotated[tuple[dict[str, Any], ...], Meta(max_length=_MOST_TASKS)]
    hours: Annotated[int, Meta(ge=1, le=24)] = 1


class ForecastRequest(Struct, forbid_unknown_fields=True):
    """Tasks that might come, or replace those of their names; how many hours to look at."""

    tasks: Annotated[tuple[NewTask, ...], Meta(max_length=_MOST_TASKS)]
    hours: Annotated[int, Meta(ge=1, le=24)] = 1


class Even(Struct):
    """How even a load is: starts in the fullest second, on average, and the one over the other."""

    peak: float
    mean: float
    peak_to_mean: float


class Load(Struct, rename={"start": "from"}):
    """Starts per step."""

    now: Time
    start: Time
    step: Step
    planned: list[Number]
    """From `from` on."""
    done: list[Number]
    """The same steps, up to the one that lasts."""
    peak: float
    mean: float
    peak_to_mean: float
    """Of the plan: the fullest step over the average one."""


class PlannedRun(Struct):
    """A run by its schedule, or by its `start_at`."""

    task: str
    at: Time
    kind: KindWord


class LoadTasks(Struct):
    """Who is planned for some seconds, in order."""

    tasks: list[PlannedRun]
    total: Number


class Day(Struct, rename={"start": "from"}):
    """The next 24 hours, in starts per step."""

    start: Time
    step: Step
    planned: list[Number]


class Upcoming(Struct):
    """The next runs, in order."""

    upcoming: list[PlannedRun]


class ForecastAnswer(Struct):
    """How even the load is without and with the tasks; the curves in starts per minute."""

    before: Even
    after: Even
    curve_before: list[Number]
    curve_after: list[Number]


async def load(call: Call) -> Load:
    q: LoadQuery = call.query
    step = q.step * SECOND
    now = call.house.now()
    back, ahead = -(-q.back // q.step), -(-q.ahead // q.step)
    here = now // step * step
    stretch = Stretch(Instant(here - back * step), (back + ahead) * q.step)
    outlook = await call.house.outlooks.current()
    planned = await call.house.work(lambda: in_steps(outlook.planned(stretch), q.step))
    starts = await call.house.read(lambda store: store.starts(stretch.start, Instant(here)))
    done = [0] * back
    for second, count in starts.items():
        done[(second * SECOND - stretch.start) // step] += count
    even = _even(planned)
    return Load(
        _text(now),
        _text(stretch.start),
        q.step,
        counts(planned),
        done,
        even.peak,
        even.mean,
        even.peak_to_mean,
    )


async def load_tasks(call: Call) -> LoadTasks:
    q: LoadTasksQuery = call.query
    asked = moment(q.start, "/query/from")
    start = (call.house.now() if asked is None else asked) // SECOND * SECOND
    stretch = Stretch(Instant(start), q.seconds)
    if stretch.end > LATEST:
        raise invalid(FieldError("/query/from", "no time is planned that late, accepted: before the year 2200"))
    outlook = await call.house.outlooks.current()
    return await call.house.work(
        lambda: LoadTasks(
            _listed(outlook.upcoming(stretch.start, stretch.end, q.limit)), int(outlook.planned(stretch).sum())
        )
    )


async def day(call: Call) -> Day:
    q: DayQuery = call.query
    start = Instant(call.house.now() // (q.step * SECOND) * q.step * SECOND)
    outlook = await call.house.outlooks.current()
    planned = await call.house.work(lambda: counts(in_steps(outlook.planned(Stretch(start, _DAY)), q.step)))
    return Day(_text(start), q.step, planned)


async def upcoming(call: Call) -> Upcoming:
    q: UpcomingQuery = call.query
    now = call.house.now()
    outlook = await call.house.outlooks.current()
    end = Instant(now + q.seconds * SECOND)
    return await call.house.work(lambda: Upcoming(_listed(outlook.upcoming(now, end, q.limit))))


async def forecast(call: Call) -> ForecastAnswer:
    body: ForecastBody = call.body
    tasks = await call.house.work(_tasks, body.tasks)
    stretch = Stretch(Instant(call.house.now() // HOUR * HOUR + HOUR), body.hours * 3_600)
    outlook = await call.house.outlooks.current()

    def read(store: Store) -> tuple[dict[str, Period], list[Task]]:
        periods = {name: period for name, (_, period) in store.periods().items()}
        for i, task in enumerate(tasks):
            if task.period is not None and task.period not in periods:
                known = listed(sorted(periods), "none is defined")
                detail = f"there is no period {task.period!r}, known: {known}"
                raise invalid(FieldError(f"/tasks/{i}/period", detail))
        found = (store.find(task.name) for task in tasks)
        return compile_periods(periods), [entry.task for entry in found if entry is not None]

    periods, old = await call.house.read(read)
    with pointed("/tasks"):
        before, after = await call.house.work(outlook.forecast, tasks, stretch, periods, old, _MOST_LISTED)
    return ForecastAnswer(
        _even(before), _even(after), counts(in_steps(before, _MINUTE)), counts(in_steps(after, _MINUTE))
    )


def _tasks(bodies: tuple[dict[str, Any], ...]) -> list[Task]:
    tasks: dict[str, Task] = {}
    errors: list[FieldError] = []
    more = 0
    for i, body in enumerate(bodies):
        if len(errors) >= MOST_ERRORS:
            break  # those explain the rest
        at = pointer(("tasks", i))
        try:
            task = definitions.whole(body)
        except Problem as e:
            errors += [FieldError(at + error.pointer, error.detail, error.column) for error in e.errors]
            more += e.more
            continue
        if task.name in tasks:
            errors.append(FieldError(f"{at}/name", f"{task.name!r} is there twice; names are unique"))
        tasks[task.name] = task
    if errors:
        raise invalid(*errors, more=more)
    calendars = len({task.schedule.calendar for task in tasks.values()} - {None})
    if calendars > _MOST_CALENDARS:
        detail = f"{calendars} different calendar expressions, accepted: up to {_MOST_CALENDARS}"
        raise invalid(FieldError("/tasks", detail))
    return list(tasks.values())


def _even(curve: Floats) -> Even:
    found = summarize(curve)
    return Even(found.peak, round(found.mean, 6), round(found.peak_to_mean, 6))


def _listed(runs: list[Planned]) -> list[PlannedRun]:
    return [PlannedRun(run.task, _text(run.at), _word(run)) for run in runs]


def _word(run: Planned) -> KindWord:
    return "start-at" if run.kind is Kind.START_AT else "grid"


def _text(t: Instant) -> str:
    return instant(t) or ""


ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/v1/load", Role.READ, load, "Starts planned and done, around now.", Load, _TAG, LoadQuery),
    Route("GET", "/v1/load/tasks", Role.READ, load_tasks, "Who makes a peak.", LoadTasks, _TAG, LoadTasksQuery),
    Route("GET", "/v1/load/day", Role.READ, day, "Starts planned for the next 24 hours.", Day, _TAG, DayQuery),
    Route("GET", "/v1/upcoming", Role.READ, upcoming, "The next runs.", Upcoming, _TAG, UpcomingQuery),
    Route(
        "POST",
        "/v1/forecast",
        Role.READ,
        forecast,
        "What the load would be with more tasks, or other ones.",
        ForecastAnswer,
        _TAG,
        body=ForecastBody,
        described=ForecastRequest,
    ),
)
