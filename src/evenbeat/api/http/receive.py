"""Reads and decodes the query and body of a request, within limits of size. Time limits are in `request_limits`."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import msgspec
from starlette.requests import ClientDisconnect, Request

from evenbeat.api.http.errors import FieldError, HttpError, field_error_of, invalid_request, json_pointer
from evenbeat.api.http.route import JSON, Route

_MAX_DEPTH: Final = 32
"""Levels of nested lists and tables: no document of ours has a quarter as many."""
_DECODE_INLINE_BYTES: Final = 16 << 10
"""Bytes that are decoded in less than a millisecond; a larger body is decoded in a thread."""
_BYTES_PER_VALUE: Final = 10
"""A body may have one value for each 10 bytes of its limit: tiny values take far more memory and time than their
bytes suggest, and in a real definition each has a name and some text."""
_MAX_PARAMETERS: Final = 1_000
RunInThread = Callable[..., Awaitable[Any]]
"""Runs a function in a thread, off the event loop."""


def parse_query(route: Route, request: Request) -> Any:
    """Decode the query parameters; unknown or repeated ones are refused, all in one answer."""
    given = request.query_params.multi_items()
    if len(given) > _MAX_PARAMETERS:
        raise invalid_request(FieldError("/query", f"{len(given):,} parameters, accepted: up to {_MAX_PARAMETERS:,}"))
    wanted = {} if route.query is None else _query_fields(route.query)
    found: dict[str, Any] = {}
    errors = []
    for name, value in given:
        if name not in wanted:
            known = f"accepted: {', '.join(wanted)}" if wanted else "this path has none"
            errors.append(FieldError(f"/query{json_pointer((name,))}", f"{name[:64]!r} is not a parameter, {known}"))
        elif wanted[name].is_list:
            found.setdefault(name, []).append(value)
        elif name in found:
            errors.append(FieldError(f"/query{json_pointer((name,))}", f"{name!r} is given more than once"))
        else:
            found[name] = value
    if errors:
        raise invalid_request(*errors)
    if route.query is None:
        return None
    try:
        query: Any = msgspec.convert(found, route.query, strict=False)
    except msgspec.ValidationError as e:
        raise invalid_request(field_error_of(e, "/query")) from None
    # msgspec decodes the text "null" as None.
    nothing = [name for name in found if getattr(query, wanted[name].attribute) is None]
    if nothing:
        raise invalid_request(*(FieldError(f"/query/{name}", "null is not a value; leave it out") for name in nothing))
    return query


class _QueryField(NamedTuple):
    attribute: str
    is_list: bool


@cache
def _query_fields(query: type) -> dict[str, _QueryField]:
    """Fields by their names in a request, such as `from`, which Python does not allow as a name."""
    fields = msgspec.structs.fields(query)
    return {
        field.encode_name: _QueryField(field.name, get_origin(_without_annotation(field.type)) is tuple)
        for field in fields
    }


def _without_annotation(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


async def parse_body(route: Route, request: Request, work: RunInThread) -> Any:
    """Decode the body as the route's type; a large one is decoded by `work`."""
    if route.body is None:
        return None
    if route.body is not bytes:
        _require_json(request)
    data = await _read_body(request, route.limit)
    if route.body is bytes:
        return data
    return _decode_as(route, data) if len(data) <= _DECODE_INLINE_BYTES else await work(_decode_as, route, data)


def _decode_as(route: Route, data: bytes) -> Any:
    most = route.limit // _BYTES_PER_VALUE
    # Commas in texts are counted too: this need not be exact, but must be quick.
    if data.count(b",") > most:
        raise HttpError(413, f"more than {most:,} values in lists and tables; accepted: up to that")
    found = _decode_json(data)
    try:
        return msgspec.convert(found, route.body)
    except msgspec.ValidationError as e:
        raise invalid_request(field_error_of(e)) from None


def _require_json(request: Request) -> None:
    header = request.headers.get("content-type", "")
    media, _, parameters = header.lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('"')
    if media.strip() != JSON or charset not in ("", "utf-8"):
        raise HttpError(415, f"found {header[:64]!r}, accepted: {JSON}")


async def _read_body(request: Request, limit: int) -> bytes:
    length = request.headers.get("content-length", "")
    too_large = HttpError(413, f"more than {limit:,} bytes; accepted: up to that", headers={"Connection": "close"})
    if length.isdecimal() and int(length[:20]) > limit:
        raise too_large
    data = bytearray()
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > limit:
                raise too_large
    except ClientDisconnect:
        raise HttpError(400, "the connection closed before the end of the body") from None
    return bytes(data)


def _decode_json(data: bytes) -> Any:
    too_deep = HttpError(400, f"nested too deeply; accepted: {_MAX_DEPTH} levels")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise HttpError(400, f"the body is not JSON: {e}") from None
    except RecursionError:
        raise too_deep from None
    level = [found]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return found
    raise too_deep


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
