import asyncio
import re
from collections.abc import Mapping, MutableMapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from starlette.applications import Starlette

from evenbeat.web.routes import STATIC, web_routes

FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
MODULES = [name for name in FILES if name.endswith(".js")]
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Page:
    """An application with nothing but the page, asked over ASGI."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._app = Starlette(routes=web_routes(folder))

    def get(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> httpx.Response:
        """The answer to a path that is sent exactly as it is written here: a client would tidy it up."""
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(key.lower().encode(), value.encode()) for key, value in (headers or {}).items()],
        }
        asyncio.run(self._app(scope, receive, send))
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=body)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page()


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and the text inside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.inline += data.strip()


def tags() -> Tags:
    return Tags((STATIC / "index.html").read_text())


# Serving


def test_the_page_is_served_at_the_root(page: Page) -> None:
    answer = page.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.content == (STATIC / "index.html").read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_as_it_is_with_its_type(page: Page, name: str) -> None:
    answer = page.get(f"/static/{name}")
    assert answer.status_code == 200
    assert answer.content == (STATIC / name).read_bytes()
    assert answer.headers["content-type"].split(";")[0] == TYPES[name.rpartition(".")[2]]


def test_a_file_that_the_browser_has_is_not_sent_again(page: Page) -> None:
    first = page.get("/static/app.js")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        again = page.get("/static/app.js", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert page.get("/static/app.js", headers={"If-None-Match": '"other"'}).status_code == 200


def test_tags_differ_from_file_to_file(page: Page) -> None:
    assert len({page.get(f"/static/{name}").headers["etag"] for name in FILES}) == len(FILES)


def test_the_head_can_be_asked_for(page: Page) -> None:
    assert page.get("/static/app.css", method="HEAD").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_files_can_only_be_read(page: Page, method: str) -> None:
    assert page.get("/static/app.js", method=method).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "../routes.py",
        "..%2froutes.py",
        "%2e%2e/routes.py",
        "views/../../routes.py",
        "views%2f..%2f..%2froutes.py",
        "..\\routes.py",
        "..%5croutes.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "./app.js",
        "app.js/",
        "app.js%00.css",
        "views",
        "",
    ],
)
def test_nothing_beside_the_files_can_be_asked_for(page: Page, path: str) -> None:
    assert page.get(f"/static/{path}").status_code == 404


def test_files_of_other_kinds_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>here")
    (tmp_path / "secret.key").write_text("secret")
    page = Page(tmp_path)
    assert page.get("/").text == "<p>here"
    assert page.get("/static/secret.key").status_code == 404


# What a strict content security policy asks of the files


def test_the_page_has_no_inline_script_style_or_handler() -> None:
    found = tags()
    assert found.inline == ""
    for tag, attributes in found.found:
        assert tag != "style"
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]


def test_all_that_the_page_names_is_there_and_ours() -> None:
    named = [attributes.get("src") or attributes.get("href") for _, attributes in tags().found]
    files = [name for name in named if name and not name.startswith("#")]
    assert len(files) > 5
    for name in files:
        assert name.startswith("/static/")
        assert name.removeprefix("/static/") in FILES


@pytest.mark.parametrize("name", MODULES)
def test_modules_make_no_markup_of_text_and_load_nothing_from_elsewhere(name: str) -> None:
    text = (STATIC / name).read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:|\.cssText"
    assert re.findall(forbidden, text) == []
    assert set(re.findall(r"https?://[^\"'\s]+", text)) <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", MODULES)
def test_what_modules_import_is_there(name: str) -> None:
    found = re.findall(r"(?:\bfrom|\bimport\()\s*\"([^\"]+)\"", (STATIC / name).read_text())
    for target in found:
        path = ((STATIC / name).parent / target).resolve().relative_to(STATIC.resolve()).as_posix()
        assert path in FILES


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".css")])
def test_style_sheets_load_nothing(name: str) -> None:
    assert re.findall(r"@import|url\(", (STATIC / name).read_text()) == []
