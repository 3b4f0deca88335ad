"""What a request brings along, read within bounds and turned into what its route wants. Its time the guard keeps."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import msgspec
from starlette.requests import ClientDisconnect, Request

from evenbeat.api.http.errors import FieldError, Problem, explained, invalid, pointer
from evenbeat.api.http.route import JSON, Route

_DEEPEST: Final = 32
"""Lists in tables in lists: no document of ours has a quarter of it."""
_QUICK: Final = 16 << 10
"""Bytes that are decoded in less than a millisecond; more goes to a thread."""
_BYTES_PER_VALUE: Final = 10
"""A body has at most one value for so many bytes of its limit. Small values take far more memory than they have
bytes, and more time: of a definition each has a name and some text."""
_MOST_PARAMETERS: Final = 1_000
Work = Callable[..., Awaitable[Any]]
"""Runs a function elsewhere than on the event loop."""


def query_of(route: Route, request: Request) -> Any:
    """The parameters; all that are unknown or repeated are refused at once."""
    given = request.query_params.multi_items()
    if len(given) > _MOST_PARAMETERS:
        raise invalid(FieldError("/query", f"{len(given):,} parameters, accepted: up to {_MOST_PARAMETERS:,}"))
    wanted = {} if route.query is None else _fields(route.query)
    found: dict[str, Any] = {}
    errors = []
    for name, value in given:
        if name not in wanted:
            known = f"accepted: {', '.join(wanted)}" if wanted else "this path has none"
            errors.append(FieldError(f"/query{pointer((name,))}", f"{name[:64]!r} is not a parameter, {known}"))
        elif wanted[name].is_list:
            found.setdefault(name, []).append(value)
        elif name in found:
            errors.append(FieldError(f"/query{pointer((name,))}", f"{name!r} is there more than once"))
        else:
            found[name] = value
    if errors:
        raise invalid(*errors)
    if route.query is None:
        return None
    try:
        query: Any = msgspec.convert(found, route.query, strict=False)
    except msgspec.ValidationError as e:
        raise invalid(explained(e, "/query")) from None
    # For msgspec the text "null" is nothing, too.
    nothing = [name for name in found if getattr(query, wanted[name].attribute) is None]
    if nothing:
        raise invalid(*(FieldError(f"/query/{name}", "null is not a value; leave it out") for name in nothing))
    return query


class _Field(NamedTuple):
    attribute: str
    is_list: bool


@cache
def _fields(query: type) -> dict[str, _Field]:
    """By the names they have in a request: `from` cannot be a name here."""
    fields = msgspec.structs.fields(query)
    return {field.encode_name: _Field(field.name, get_origin(_bare(field.type)) is tuple) for field in fields}


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


async def body_of(route: Route, request: Request, work: Work) -> Any:
    """The body, as what the route says it is; a large one is decoded by `work`."""
    if route.body is None:
        return None
    if route.body is not bytes:
        _must_be_json(request)
    data = await _read(request, route.limit)
    if route.body is bytes:
        return data
    return _converted(route, data) if len(data) <= _QUICK else await work(_converted, route, data)


def _converted(route: Route, data: bytes) -> Any:
    most = route.limit // _BYTES_PER_VALUE
    # Commas in texts are counted too: it need not be exact, it must be quick.
    if data.count(b",") > most:
        raise Problem(413, f"more than {most:,} values in lists and tables; accepted: up to that")
    found = _decoded(data)
    try:
        return msgspec.convert(found, route.body)
    except msgspec.ValidationError as e:
        raise invalid(explained(e)) from None


def _must_be_json(request: Request) -> None:
    said = request.headers.get("content-type", "")
    media, _, parameters = said.lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('"')
    if media.strip() != JSON or charset not in ("", "utf-8"):
        raise Problem(415, f"found {said[:64]!r}, accepted: {JSON}")


async def _read(request: Request, limit: int) -> bytes:
    said = request.headers.get("content-length", "")
    too_large = Problem(413, f"more than {limit:,} bytes; accepted: up to that", headers={"Connection": "close"})
    if said.isdecimal() and int(said[:20]) > limit:
        raise too_large
    data = bytearray()
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > limit:
                raise too_large
    except ClientDisconnect:
        raise Problem(400, "the body ended before its end") from None
    return bytes(data)


def _decoded(data: bytes) -> Any:
    too_deep = Problem(400, f"nested too deeply; accepted: {_DEEPEST} levels")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise Problem(400, f"the body is not JSON: {e}") from None
    except RecursionError:
        raise too_deep from None
    level = [found]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return found
    raise too_deep


def _within(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
