"""Periods over HTTP: create, read, change, delete, and when they are open."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from evenbeat.api.http.errors import FieldError, HttpError, invalid_request, json_pointer
from evenbeat.api.http.route import JSON, Call, Role, Route
from evenbeat.api.routes.task_answers import parse_request_time
from evenbeat.load.safe_text import name_error
from evenbeat.model import DAY, NAME_LIMIT, WEEK, Instant, Invalid, Name, Period, Prefer, ShortText
from evenbeat.store.contract import Store
from evenbeat.when.instant import LATEST, format_instant
from evenbeat.when.period import CompiledPeriod, compile_periods
from evenbeat.when.windows import Window
from evenbeat.wire.documents import TimestampText, TimeText, ZoneName
from evenbeat.wire.requests import RemovePeriod, SetPeriods

_TAG: Final = "Periods"
MAX_STRETCH: Final = 5 * 366 * DAY
"""The longest span for listing windows and finding the next opening or closing."""
MAX_WINDOWS: Final = 2_000
MAX_LINES: Final = 500
_UNSAVED_NAME: Final = "\n"
"""Stands for the name of a period without one; no stored period can have this name."""


class PeriodBody(Struct, forbid_unknown_fields=True):
    """A period; without ranges, holidays and others to include it is always open."""

    ranges: Annotated[tuple[ShortText, ...], Meta(max_length=MAX_LINES)] = ()
    """Lines such as "monday-friday 09:00-17:00"."""
    holidays: Name | None = None
    """A country, or a country and its part ("DE", "DE-BY")."""
    include: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    exclude: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    prefer: Prefer = Prefer.INCLUDE
    zone: ZoneName = "UTC"

    def period(self) -> Period:
        """The period of the request."""
        return Period(self.ranges, self.holidays, self.include, self.exclude, self.prefer, self.zone)


class PeriodDocument(Struct):
    """A period and its owner."""

    name: str
    owner: str
    ranges: tuple[str, ...]
    holidays: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    prefer: Prefer
    zone: str


class Periods(Struct):
    """All periods, ordered by name."""

    periods: list[PeriodDocument]


class WindowsQuery(Struct, rename={"start": "from", "end": "to"}):
    """From when (now) to when (a week later); at most five years and 2,000 windows."""

    start: TimeText | None = None
    end: TimeText | None = None


class Windows(Struct):
    """Whether a period is open at first, when it opens and closes next within five years, and when it is open."""

    inside: bool
    next_open: TimestampText | None
    next_close: TimestampText | None
    windows: list[tuple[TimestampText, TimestampText]]


async def list_periods(call: Call) -> Periods:
    found = await call.context.read_store(lambda store: store.periods())
    return Periods([_document(name, owner, period) for name, (owner, period) in sorted(found.items())])


async def read_period(call: Call) -> PeriodDocument:
    name = call.path_variables["name"]
    return _document(name, *await call.context.read_store(lambda store: _find_period(store, name)))


async def put_period(call: Call) -> Response:
    name, period = call.path_variables["name"], call.body.period()
    if not 1 <= len(name) <= NAME_LIMIT:
        raise invalid_request(FieldError("/name", f"a period has a name of 1 to {NAME_LIMIT} characters"))
    if problem := name_error(name):
        raise invalid_request(FieldError("/name", problem))
    known = await call.context.read_store(lambda store: _check_period(store, name, period))
    await call.context.node.ask(SetPeriods({name: period}, call.who, call.who))
    document = _document(name, *await call.context.read_store(lambda store: _find_period(store, name)))
    return Response(msgspec.json.encode(document), 200 if known else 201, media_type=JSON)


async def delete_period(call: Call) -> None:
    name = call.path_variables["name"]
    await call.context.read_store(lambda store: _find_period(store, name))
    await call.context.node.ask(RemovePeriod(name, call.who))


async def list_windows(call: Call) -> Windows:
    name = call.path_variables["name"]
    stretch = _stretch(call)

    def answer(store: Store) -> Windows:
        _find_period(store, name)
        return _windows(compile_periods(_periods_by_name(store))[name], *stretch)

    return await call.context.read_store(answer)


async def preview_period(call: Call) -> Windows:
    body: PeriodBody = call.body
    stretch = _stretch(call)
    return await call.context.read_store(
        lambda store: _windows(_compile_with_others(store, _UNSAVED_NAME, body.period()), *stretch)
    )


def _find_period(store: Store, name: str) -> tuple[str, Period]:
    found = store.periods().get(name)
    if found is None:
        raise HttpError(404, f"there is no period {name[:NAME_LIMIT]!r}")
    return found


def _periods_by_name(store: Store) -> dict[str, Period]:
    return {name: period for name, (_, period) in store.periods().items()}


def _check_period(store: Store, name: str, period: Period) -> bool:
    """Refuse, with pointers, what the node would refuse; does a period of this name exist already?"""
    _compile_with_others(store, name, period)
    return name in store.periods()


def _compile_with_others(store: Store, name: str, period: Period) -> CompiledPeriod:
    """Compile one period together with all others."""
    nouns = _periods_by_name(store)
    try:
        return compile_periods({**nouns, name: period})[name]
    except Invalid as e:
        place = e.place.removeprefix("periods.")
        own = place.removeprefix(f"{name}.") if place.startswith(f"{name}.") else ""
        field, _, index = own.partition("[")
        path: tuple[Any, ...] = (field, int(index.partition("]")[0])) if index else (field,) if field else ()
        raise invalid_request(
            FieldError(json_pointer(path), e.problem.replace(_UNSAVED_NAME, "this one"), e.column)
        ) from None


def _stretch(call: Call) -> tuple[Instant, Instant]:
    q: WindowsQuery = call.query
    asked = parse_request_time(q.start, "/query/from")
    start = call.context.now() if asked is None else asked
    end = parse_request_time(q.end, "/query/to")
    if end is None:
        end = Instant(start + WEEK)
    if not start < end <= start + MAX_STRETCH:
        raise invalid_request(FieldError("/query/to", "accepted is a time after `from`, by at most five years"))
    if start + MAX_STRETCH > LATEST:
        raise invalid_request(FieldError("/query/from", "accepted is a time at least five years before 2200"))
    return start, end


def _windows(period: CompiledPeriod, start: Instant, end: Instant) -> Windows:
    where = period.zone
    shown = period.windows(start, end)
    if len(shown) > MAX_WINDOWS:
        found = f"{len(shown):,} windows, accepted: at most {MAX_WINDOWS:,}; ask for a shorter time"
        raise invalid_request(FieldError("/query/to", found))
    opens, closes = _edges(shown, start, end)
    if opens is None or closes is None:
        furthest = Instant(start + MAX_STRETCH)
        opens, closes = _edges(period.windows(start, furthest), start, furthest)
    return Windows(
        bool(shown) and shown[0][0] == start,
        None if opens is None else format_instant(opens, where),
        None if closes is None else format_instant(closes, where),
        [(format_instant(o, where), format_instant(c, where)) for o, c in shown],
    )


def _edges(windows: list[Window], start: Instant, end: Instant) -> tuple[Instant | None, Instant | None]:
    """The next opening and closing among the windows of a stretch, which are cut at both ends."""
    opens = next((o for o, _ in windows if o > start), None)
    closes = next((c for _, c in windows if c < end), None)
    return opens, closes


def _document(name: str, owner: str, period: Period) -> PeriodDocument:
    return PeriodDocument(
        name, owner, period.ranges, period.holidays, period.include, period.exclude, period.prefer, period.zone
    )


ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/v1/periods", Role.READ, list_periods, "All periods.", Periods, _TAG),
    Route(
        "POST",
        "/v1/periods/preview",
        Role.READ,
        preview_period,
        "When a period would be open, without creating it.",
        Windows,
        _TAG,
        WindowsQuery,
        body=PeriodBody,
    ),
    Route("GET", "/v1/periods/{name}", Role.READ, read_period, "A period.", PeriodDocument, _TAG),
    Route(
        "PUT",
        "/v1/periods/{name}",
        Role.ADMIN,
        put_period,
        "Create a period (201) or replace it (200); tasks that use it follow the new one at once.",
        PeriodDocument,
        _TAG,
        body=PeriodBody,
        status=201,
        other_statuses=(200,),
        error_statuses=(409,),
    ),
    Route(
        "DELETE",
        "/v1/periods/{name}",
        Role.ADMIN,
        delete_period,
        "Delete a period that no task and no other period uses.",
        None,
        _TAG,
        status=204,
        error_statuses=(409,),
    ),
    Route(
        "GET",
        "/v1/periods/{name}/windows",
        Role.READ,
        list_windows,
        "When a period is open.",
        Windows,
        _TAG,
        WindowsQuery,
    ),
)
