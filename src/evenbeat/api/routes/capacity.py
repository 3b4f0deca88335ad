"""Slots and limits over HTTP: how many runs at the same time, where the number comes from, and changing it."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from evenbeat.admin.capacity import limit_capacities
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.wire.requests import GetStatus, SetLimit, SetSlots

_TAG: Final = "Now"


class Most(Struct, forbid_unknown_fields=True):
    """The maximum of concurrent runs."""

    most: Annotated[int, Meta(ge=1, le=1_000_000)]


class Place(Struct):
    """The maximum of concurrent runs, the current number, and the source of the maximum."""

    most: int
    running: int
    source: str
    """default, command line, a file or owner, or "set by" a user: that holds until it is reset."""


class Places(Struct):
    """All slots, and those of each limit; in a cluster, of all nodes together."""

    slots: Place
    limits: dict[str, Place]


async def read_capacity(call: Call) -> dict[str, Any]:
    status = (await call.context.node.ask(GetStatus())).status
    assert status is not None
    return {"slots": Place(status.slots, status.pending, status.slots_source), "limits": status.limits}


async def set_slots(call: Call) -> dict[str, Any]:
    await call.context.node.ask(SetSlots(call.body.most, call.who))
    return await read_capacity(call)


async def reset_slots(call: Call) -> dict[str, Any]:
    await call.context.node.ask(SetSlots(None, call.who))
    return await read_capacity(call)


async def set_limit(call: Call) -> dict[str, Any]:
    await call.context.node.ask(SetLimit(await _known_limit(call), call.body.most, call.who))
    return await read_capacity(call)


async def reset_limit(call: Call) -> dict[str, Any]:
    await call.context.node.ask(SetLimit(await _known_limit(call), None, call.who))
    return await read_capacity(call)


async def _known_limit(call: Call) -> str:
    name = call.path_variables["name"]
    if name not in await call.context.read_store(limit_capacities):
        raise HttpError(404, f"there is no limit {name[:256]!r}")
    return name


_LIMIT_PATH: Final = "/v1/limits/{name}"
ROUTES: Final = (
    Route("GET", "/v1/limits", Role.READ, read_capacity, "Slots and limits, and who says so.", Places, _TAG),
    Route("PUT", "/v1/slots", Role.ADMIN, set_slots, "Set how many runs at the same time.", Places, _TAG, body=Most),
    Route("DELETE", "/v1/slots", Role.ADMIN, reset_slots, "Back to what files say.", Places, _TAG),
    Route("PUT", _LIMIT_PATH, Role.ADMIN, set_limit, "Set a limit.", Places, _TAG, body=Most),
    Route("DELETE", _LIMIT_PATH, Role.ADMIN, reset_limit, "Back to what files say of a limit.", Places, _TAG),
)
