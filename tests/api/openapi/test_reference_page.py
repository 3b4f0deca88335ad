import re
from html.parser import HTMLParser
from typing import Any

from api_client import ApiClient
from msgspec import Struct

from evenbeat.api.application import ROUTES
from evenbeat.api.http.errors import PROBLEM_TYPES
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.openapi.document import openapi_document
from evenbeat.api.openapi.reference_page import reference_page
from evenbeat.web.routes import STATIC


class Reader(HTMLParser):
    """Collects what a page refers to, and checks that what is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.all_attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.all_attributes |= set(found)
        self.ids += [value for key, value in attrs if key == "id" and value]
        self.links += [value for key, value in attrs if key in ("href", "src") and value]
        if tag not in ("meta", "link"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_every_route_is_in_the_document_with_its_role(api: ApiClient) -> None:
    whole = api.get("/v1/openapi.json").json()
    for route in ROUTES:
        operation = whole["paths"][route.path][route.method.lower()]
        assert operation["x-role"] == route.role.name.lower()
        assert operation["summary"].endswith((".", "?"))
        assert str(route.status) in operation["responses"]
    identifiers = [one["operationId"] for path in whole["paths"].values() for one in path.values()]
    assert len(identifiers) == len(set(identifiers))


def test_every_reference_of_the_document_leads_somewhere(api: ApiClient) -> None:
    text = api.get("/v1/openapi.json").text
    schemas = api.get("/v1/openapi.json").json()["components"]["schemas"]
    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert wanted <= set(schemas)
    assert "TaskDocument" in wanted


def test_the_page_needs_nothing_from_elsewhere_and_its_links_lead_somewhere(api: ApiClient) -> None:
    answer = api.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Reader(answer.text)
    assert not {"script", "style", "img", "iframe"} & set(page.tags)
    assert not [name for name in page.all_attributes if name == "style" or name.startswith("on")]
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == {"/static/reference.css", "/v1/openapi.json"}
    assert (STATIC / "reference.css").is_file()
    assert api.get("/static/reference.css").headers["content-type"].startswith("text/css")
    assert {f"problem-{kind.word}" for kind in PROBLEM_TYPES.values()} <= set(page.ids)


def test_what_the_page_is_made_of_is_escaped() -> None:
    class Odd(Struct):
        """<script>alert(1)</script>"""

        field: int = 1

    async def handler(_: Call) -> Any: ...

    route = Route("GET", "/v1/<b>", Role.READ, handler, "<script>alert(2)</script>.", Odd, "<i>tag</i>")
    page = reference_page(openapi_document([route]))
    Reader(page)
    assert "<script" not in page
    assert "<i>tag" not in page
    assert "<b>tag" not in page


def test_files_of_the_page_that_are_not_there_are_problems_too(api: ApiClient) -> None:
    answer = api.get("/static/nothing.js")
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
    answer = api.post("/static/reference.css")
    assert (answer.status_code, answer.headers["content-type"]) == (405, "application/problem+json")
