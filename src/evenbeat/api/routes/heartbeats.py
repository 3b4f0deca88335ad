"""Submitted results and heartbeats: with a heartbeat token, `curl` at the end of a script is enough."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from starlette.responses import PlainTextResponse, Response

from evenbeat.api.http.errors import FieldError, HttpError, invalid_request
from evenbeat.api.http.route import JSON, Call, Handler, Role, Route, address_of
from evenbeat.api.routes.task_answers import errors_at, parse_request_time, task_in_path
from evenbeat.model import MAX_EVERY, NAME_LIMIT, OUTPUT_LIMIT
from evenbeat.when.duration import parse_duration
from evenbeat.wire.documents import Duration, Heartbeat, Taken, TimeText, heartbeat_url
from evenbeat.wire.requests import (
    CreateHeartbeatToken,
    HeartbeatSignal,
    RemoveHeartbeatToken,
    SendHeartbeat,
    SubmitResult,
)

_TAG: Final = "Results and heartbeats"
MAX_EXIT_STATUS: Final = 255
OutputText = Annotated[str, Meta(max_length=OUTPUT_LIMIT)]


class Result(Struct, forbid_unknown_fields=True):
    """A result of a check: an exit status, a text, performance data."""

    status: Annotated[int, Meta(ge=0, le=3)]
    output: OutputText = ""
    perfdata: OutputText = ""
    ttl: Duration | None = None
    """How long it is valid: after that, without a newer result, the check is UNKNOWN."""
    at: TimeText | None = None
    """When the result was determined, if not just now."""


async def submit_result(call: Call) -> dict[str, Any]:
    result: Result = call.body
    entry, ttl = await task_in_path(call), None
    if result.ttl is not None:
        with errors_at("/ttl"):
            ttl = parse_duration(result.ttl)
        if not 1 <= ttl <= MAX_EVERY:
            raise invalid_request(FieldError("/ttl", f"{result.ttl!r} is out of range, accepted: up to 3653d"))
    at = parse_request_time(result.at, "/at")
    taken = (
        await call.context.node.ask(
            SubmitResult(
                entry.id, result.status, call.who, result.output, result.perfdata, ttl, at, address_of(call.request)
            )
        )
    ).taken
    assert taken is not None
    return {**msgspec.structs.asdict(taken), "state": taken.state.name.lower()}


async def create_heartbeat(call: Call) -> Response:
    token = (await call.context.node.ask(CreateHeartbeatToken((await task_in_path(call)).id, call.who))).token
    content = msgspec.json.encode(Heartbeat(token, heartbeat_url(str(call.request.base_url), token)))
    return Response(content, 201, {"Cache-Control": "no-store"}, JSON)


async def remove_heartbeat(call: Call) -> None:
    await call.context.node.ask(RemoveHeartbeatToken((await task_in_path(call)).id, call.who))


def _heartbeat_handler(signal: HeartbeatSignal) -> Handler:
    async def beat(call: Call) -> Response:
        return await _send(call, signal)

    return beat


async def send_exit_status(call: Call) -> Response:
    text = call.path_variables["status"]
    if not (text.isdecimal() and text.isascii() and len(text) <= 3 and int(text) <= MAX_EXIT_STATUS):
        raise HttpError(404, f"accepted: start, success, fail, log, or an exit status from 0 to {MAX_EXIT_STATUS}")
    status = int(text)
    return await _send(call, HeartbeatSignal.FAIL if status else HeartbeatSignal.SUCCESS, status)


async def _send(call: Call, signal: HeartbeatSignal, status: int | None = None) -> Response:
    token = call.path_variables["token"]
    if len(token) > NAME_LIMIT:
        raise HttpError(404, "this token is not valid")
    # Too long an output is cut, as that of a run is: the beat counts.
    output = (call.body or b"")[:OUTPUT_LIMIT].decode(errors="replace")
    source = address_of(call.request)
    await call.context.node.ask(SendHeartbeat(token, signal, call.who, output, source, status))
    return PlainTextResponse("ok")


_TASK_PATH: Final = "/v1/tasks/{name}"
_HEARTBEAT_PATHS: Final = (
    ("", _heartbeat_handler(HeartbeatSignal.SUCCESS), "Heartbeat: all is well"),
    ("/start", _heartbeat_handler(HeartbeatSignal.START), "Heartbeat: the work begins"),
    ("/success", _heartbeat_handler(HeartbeatSignal.SUCCESS), "Heartbeat: the work has succeeded"),
    ("/fail", _heartbeat_handler(HeartbeatSignal.FAIL), "Heartbeat: the work has failed"),
    ("/log", _heartbeat_handler(HeartbeatSignal.LOG), "Heartbeat: a line for the history, which changes no state"),
    ("/{status}", send_exit_status, "Heartbeat: the work has ended with this exit status, 0 for success"),
)


def _heartbeat_routes(path: str, handler: Handler, summary: str) -> tuple[Route, Route]:
    whole = f"/v1/beat/{{token}}{path}"
    get = Route(
        "GET",
        whole,
        Role.ANYBODY,
        handler,
        f"{summary}.",
        str,
        _TAG,
        error_statuses=(409,),
        media="text/plain",
    )
    return get, get._replace(method="POST", summary=f"{summary}; the body is its output.", body=bytes)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        *("POST", f"{_TASK_PATH}/result", Role.OPERATE, submit_result, "Tell the result of a check.", Taken, _TAG),
        body=Result,
        status=202,
        error_statuses=(409,),
    ),
    Route(
        *(
            "POST",
            f"{_TASK_PATH}/beat",
            Role.ADMIN,
            create_heartbeat,
            "Create a heartbeat token for a passive check.",
            Heartbeat,
            _TAG,
        ),
        status=201,
        error_statuses=(409,),
    ),
    Route(
        *(
            "DELETE",
            f"{_TASK_PATH}/beat",
            Role.ADMIN,
            remove_heartbeat,
            "Remove the heartbeat token.",
            None,
            _TAG,
        ),
        status=204,
    ),
    *(route for row in _HEARTBEAT_PATHS for route in _heartbeat_routes(*row)),
)
