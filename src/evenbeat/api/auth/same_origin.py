"""Requests that pages of other web sites send from the browser of somebody who is signed in are refused."""

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from evenbeat.api.http.errors import HttpError

SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def require_same_origin(request: Request, is_secure: bool) -> None:  # noqa: FBT001
    """Refuse a change that a page of another site sends: changes come from our own page, or from no page at all."""
    if request.method in SAFE_METHODS:
        return
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise HttpError(403, "this request comes from a page of another site")
    origin = request.headers.get("origin")
    if origin is None:
        return
    parsed = urlsplit(origin)
    schemes = ("https",) if is_secure else ("http", "https")
    if parsed.scheme not in schemes or parsed.netloc.lower() != request.headers.get("host", "").lower():
        raise HttpError(403, "this request comes from a page of another site: its Origin differs from its Host")
