"""Downtimes over HTTP: list, set and end them."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.responses import JSONResponse, Response

from evenbeat.admin.downtimes import is_within, new_downtime
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request, json_pointer
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.task_answers import errors_at, parse_request_time
from evenbeat.model import MAX_DOWNTIME_NAMES, TEXT_LIMIT, Downtime, Instant, Invalid, Name
from evenbeat.report.downtimes import KnownDowntime, downtime_document, read_downtimes
from evenbeat.store.contract import Conflict, Store
from evenbeat.when.duration import parse_duration
from evenbeat.wire.documents import DowntimeDocument, DowntimePage, Duration, TimeText
from evenbeat.wire.replies import NotFound
from evenbeat.wire.requests import AddDowntime, EndDowntime

_TAG: Final = "Downtimes"


class DowntimeQuery(Struct):
    """Selects downtimes, and a page of them."""

    all: Annotated[bool, Meta(description="Also those that are over, for 30 days.")] = False
    after: Annotated[str, Meta(max_length=256, description="The `next` of the page before.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Downtimes on a page.")] = 100


class NewDowntime(Struct, forbid_unknown_fields=True, rename={"start": "from", "length": "for"}):
    """Which tasks, all that is given must fit; and when: `until` or `for`."""

    names: Annotated[tuple[Name, ...], Meta(max_length=MAX_DOWNTIME_NAMES)] = ()
    """Names, or patterns with * and ?."""
    owner: Name | None = None
    labels: Annotated[dict[Name, Name], Meta(max_length=100)] = {}
    start: TimeText | None = None
    """Without it, now."""
    until: TimeText | None = None
    """At most a year after it begins."""
    length: Duration | None = None
    """Instead of `until`: how long it lasts."""
    period: Name | None = None
    """Only while this period is open."""
    dependents: bool = True
    """So are the tasks that depend on these."""
    comment: Annotated[str, Meta(max_length=TEXT_LIMIT)] = ""


async def list_downtimes(call: Call) -> dict[str, Any]:
    q: DowntimeQuery = call.query
    found = await call.context.read_store(lambda store: _visible(call, store, is_all=q.all))
    after = next((i for i, known in enumerate(found, 1) if known.downtime.id == q.after), len(found))
    rest = found[after:] if q.after else found
    page = rest[: q.limit]
    return {
        "downtimes": [downtime_document(known) for known in page],
        "next": page[-1].downtime.id if len(rest) > len(page) else None,
        "total": len(found),
    }


async def read_downtime(call: Call) -> dict[str, Any]:
    return downtime_document(await _find(call, call.path_variables["id"]))


async def add_downtime(call: Call) -> Response:
    now = call.context.now()
    request = _request(call, now)

    def check(store: Store) -> None:
        try:
            new_downtime(store, request, now)
        except NotFound:
            raise
        except Invalid as e:
            pointer = json_pointer(tuple(e.place.split("."))) if e.place else ""
            raise invalid_request(FieldError(pointer, e.problem)) from None

    await call.context.read_store(check)
    changed = (await call.context.node.ask(request)).changed
    assert changed is not None
    assert changed.downtime is not None
    document = downtime_document(await _find(call, changed.downtime.id))
    return JSONResponse(document, 201, {"Location": f"/v1/downtimes/{changed.downtime.id}"})


async def end_downtime(call: Call) -> dict[str, Any]:
    id_ = call.path_variables["id"]
    before = await _find(call, id_)
    try:
        changed = (await call.context.node.ask(EndDowntime(before.downtime.id, call.who, call.scope))).changed
    except Conflict as e:
        raise HttpError(409, str(e)) from None
    assert changed is not None
    ended: Downtime = changed.downtime or before.downtime
    known = KnownDowntime(ended, is_active=False, is_over=True, next_change=None, is_declared=False)
    return downtime_document(known)


def _request(call: Call, now: Instant) -> AddDowntime:
    body: NewDowntime = call.body
    start = parse_request_time(body.start, "/from")
    end = parse_request_time(body.until, "/until")
    if body.length is not None:
        if end is not None:
            raise invalid_request(FieldError("/for", "accepted: either `for` or `until`"))
        with errors_at("/for"):
            end = Instant((now if start is None else start) + parse_duration(body.length))
    return AddDowntime(
        *(call.who, body.names, body.owner, body.labels, start, end, body.period, body.dependents, body.comment),
        scope=call.scope,
    )


def _visible(call: Call, store: Store, *, is_all: bool) -> list[KnownDowntime]:
    """The downtimes whose every task the caller may see."""
    found = read_downtimes(store, call.context.now(), is_all=is_all)
    scope = call.scope
    return found if scope is None else [known for known in found if is_within(known.downtime, scope)]


async def _find(call: Call, id_: str) -> KnownDowntime:
    known = await call.context.read_store(lambda store: _visible(call, store, is_all=True))
    found = next((one for one in known if one.downtime.id == id_), None)
    if found is None:
        raise HttpError(404, f"there is no downtime {id_[:64]!r}")
    return found


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        *("GET", "/v1/downtimes", Role.READ, list_downtimes, "Downtimes, the earliest first.", DowntimePage, _TAG),
        query=DowntimeQuery,
    ),
    Route(
        *("POST", "/v1/downtimes", Role.OPERATE, add_downtime, "Set a downtime.", DowntimeDocument, _TAG),
        body=NewDowntime,
        status=201,
        error_statuses=(404,),
        headers=("Location",),
    ),
    Route(*("GET", "/v1/downtimes/{id}", Role.READ, read_downtime, "A downtime.", DowntimeDocument, _TAG)),
    Route(
        *("DELETE", "/v1/downtimes/{id}", Role.OPERATE, end_downtime),
        *("End a downtime. One that has not begun is forgotten.", DowntimeDocument, _TAG),
        error_statuses=(404, 409),
    ),
)
