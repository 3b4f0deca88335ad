"""The page: the files of `static`, read once, so that nothing beside them can be asked for."""

import hashlib
from pathlib import Path
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC: Final = Path(__file__).parent / "static"
"""Served as it is: there is no build step."""

_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types of the page's files; files of other kinds are not served."""

_HTML: Final = "index.html"


class Asset(NamedTuple):
    """One file, ready to send."""

    body: bytes
    media_type: str
    etag: str


def web_routes(folder: Path = STATIC) -> list[Route]:
    """The routes of the page: `/`, and `/static/...` for its files."""
    assets = _assets(folder)

    async def page(request: Request) -> Response:
        return _asset_response(request, assets[_HTML])

    async def static(request: Request) -> Response:
        asset = assets.get(request.path_params["file"])
        if asset is None:
            raise HTTPException(404, "the page has no such file")
        return _asset_response(request, asset)

    return [Route("/", page, name="page"), Route("/static/{file:path}", static, name="static")]


def _assets(folder: Path) -> dict[str, Asset]:
    """Every file of a kind we know, by its path below the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _MEDIA_TYPES and path.is_file():
            body = path.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[path.relative_to(folder).as_posix()] = Asset(body, _MEDIA_TYPES[path.suffix], etag)
    return found


def _asset_response(request: Request, asset: Asset) -> Response:
    """The file, or 304. Browsers ask each time: modules of two versions must never meet."""
    headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
    if _etag_matches(request.headers.get("if-none-match", ""), asset.etag):
        return Response(status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)


def _etag_matches(if_none_match: str, etag: str) -> bool:
    """Does the browser have this version already?"""
    tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
    return any(tag in (etag, "*") for tag in tags)
