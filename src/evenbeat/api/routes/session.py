"""/v1/session: exchange a token or a sign-in link for a cookie that no script can read, and sign out."""

import logging
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.auth.cookie_sessions import SESSION_SECONDS
from evenbeat.api.http.route import Call, Role, Route, address_of
from evenbeat.model import Invalid
from evenbeat.store.contract import StoreError
from evenbeat.wire.requests import ApiToken, RecordSignIn

_log: Final = logging.getLogger("evenbeat.api")


class Credentials(Struct, forbid_unknown_fields=True):
    """A token, to begin a session with."""

    token: Annotated[str, Meta(max_length=200)]


class LinkCode(Struct, forbid_unknown_fields=True):
    """The part of a sign-in link after its #."""

    code: Annotated[str, Meta(max_length=200)]


class Standing(Struct):
    """What the caller may do."""

    role: str | None
    """read, operate or admin; null for nothing yet."""
    needs_token: bool
    """Must the caller send a token first?"""


async def _sign_in(call: Call) -> Response:
    access, request = _authenticator(call), call.request
    if await access.is_open():
        access.require_local(request)
        return _session_response(Standing("admin", needs_token=False))
    id_, token = await access.verify_token(request, call.body.token)
    await _audit_sign_in(call, token.name)
    return await _response_with_cookie(call, id_, token)


async def _audit_sign_in(call: Call, name: str) -> None:
    """Write a sign-in to the audit, a few a minute for each token and address. If that fails, signing in goes on."""
    address = address_of(call.request)
    if _authenticator(call).noted_sign_ins.take_token(f"{address} {name}"):
        return
    try:
        await call.context.node.ask(RecordSignIn(name, address))
    except (StoreError, Invalid) as e:
        _log.warning("a sign-in is not in the audit: %s", e, extra={"action": "audit_failed", "who": name})


async def _sign_in_by_link(call: Call) -> Response:
    access, request = _authenticator(call), call.request
    if await access.is_open():
        access.require_local(request)
        return _session_response(Standing("admin", needs_token=False))
    id_, token = await access.redeem_link(request, call.body.code)
    return await _response_with_cookie(call, id_, token)


async def _response_with_cookie(call: Call, id_: str, token: ApiToken) -> Response:
    access, request = _authenticator(call), call.request
    response = _session_response(Standing(token.role, needs_token=False))
    # Behind a proxy that terminates TLS, the browser's Origin shows that the connection is secure.
    is_secure = access.is_secure or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        access.cookie,
        await access.begin_session(id_, token),
        max_age=SESSION_SECONDS,
        path="/",
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


async def _read_session(call: Call) -> Standing:
    caller = await _authenticator(call).identify(call.request)
    if caller is None:
        return Standing(None, needs_token=True)
    return Standing(caller.role.name.lower(), needs_token=False)


async def _sign_out(call: Call) -> Response:
    access = _authenticator(call)
    if word := call.request.cookies.get(access.cookie):
        await access.end_session(word)
    response = Response(status_code=204)
    response.delete_cookie(access.cookie, path="/", httponly=True, samesite="strict")
    return response


def _authenticator(call: Call) -> TokenAuthenticator:
    access: TokenAuthenticator = call.request.scope["evenbeat.access"]
    return access


def _session_response(standing: Standing) -> Response:
    return Response(msgspec.json.encode(standing), media_type="application/json")


ROUTES: Final = (
    Route(
        "GET",
        "/v1/session",
        Role.ANYBODY,
        _read_session,
        "What the caller may do, and whether a token is needed.",
        Standing,
        "Session",
    ),
    Route(
        "POST",
        "/v1/session",
        Role.ANYBODY,
        _sign_in,
        "Begin a session: exchange a token for a cookie, as the page does.",
        Standing,
        "Session",
        body=Credentials,
        error_statuses=(413, 415),
    ),
    Route(
        "POST",
        "/v1/session/link",
        Role.ANYBODY,
        _sign_in_by_link,
        "Begin a session with a link from `evenbeat token link`, which works once.",
        Standing,
        "Session",
        body=LinkCode,
        error_statuses=(413, 415),
    ),
    Route(
        "DELETE", "/v1/session", Role.ANYBODY, _sign_out, "End the session of the cookie.", None, "Session", status=204
    ),
)
"""The routes of sessions."""
