"""The API reference: the OpenAPI document for programs, and an HTML page of it for people, without scripts."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import msgspec
from starlette.responses import Response

from evenbeat.api.http.errors import PROBLEM_TYPES
from evenbeat.api.http.route import JSON, Call, Role, Route
from evenbeat.api.openapi.document import JsonObject, openapi_document

_HTML: Final = "text/html"


def routes(others: Sequence[Route]) -> tuple[Route, ...]:
    """The routes of the reference, which describe all others and themselves."""

    async def openapi(_: Call) -> Response:
        return Response(content, media_type=JSON)

    async def docs(_: Call) -> Response:
        return Response(page, media_type=f"{_HTML}; charset=utf-8")

    own = (
        Route(
            *("GET", "/v1/openapi.json", Role.READ, openapi, "This reference, for programs.", dict[str, Any]),
            tag="Reference",
        ),
        Route("GET", "/docs", Role.READ, docs, "This reference.", str, "Reference", media=_HTML),
    )
    whole = openapi_document((*others, *own))
    content = msgspec.json.encode(whole)
    page = reference_page(whole).encode()
    return own


def reference_page(whole: JsonObject) -> str:
    """The reference as an HTML page."""
    operations = [
        (path, method, operation) for path, methods in whole["paths"].items() for method, operation in methods.items()
    ]
    tags = list(dict.fromkeys(operation["tags"][0] for _, _, operation in operations))
    info = whole["info"]
    contents = "".join(f'<li><a href="#{_section(tag)}">{escape(tag)}</a></li>' for tag in tags)
    parts = []
    for tag in tags:
        inside = "".join(_operation(*one) for one in operations if one[2]["tags"][0] == tag)
        parts.append(f'<section id="{_section(tag)}"><h2>{escape(tag)}</h2>{inside}</section>')
    schemas = "".join(_schema(name, schema) for name, schema in whole["components"]["schemas"].items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}: the HTTP API</title>"
        '<link rel="stylesheet" href="/static/reference.css"></head><body><main>'
        f"<h1>{escape(info['title'])}: the HTTP API</h1><p>{escape(info['description'])}</p>"
        '<p>For programs: <a href="/v1/openapi.json">OpenAPI 3.1</a>.</p>'
        f'<nav><ul>{contents}<li><a href="#documents">Documents</a></li>'
        '<li><a href="#problems">Problems</a></li></ul></nav>'
        f'{"".join(parts)}<section id="documents"><h2>Documents</h2>{schemas}</section>{_problem_types()}'
        "</main></body></html>"
    )


def _operation(path: str, method: str, operation: JsonObject) -> str:
    parts = [
        f'<article id="{escape(operation["operationId"])}">'
        f"<h3><code><b>{escape(method.upper())}</b> {escape(path)}</code></h3><p>{escape(operation['summary'])} "
        f"<small>{_role(operation['x-role'])}</small></p>"
    ]
    if operation["parameters"]:
        rows = [
            (p["name"], p["in"], _kind(p["schema"]), p.get("description") or p["schema"].get("description", ""))
            for p in operation["parameters"]
        ]
        parts.append(_table(("parameter", "in", "kind", ""), rows))
    body = operation.get("requestBody", {}).get("content", {})
    parts += [f"<p>Takes {_content(media, content)}</p>" for media, content in body.items()]
    for status, response in operation["responses"].items():
        if status < "400":
            content = "".join(_content(*one) for one in response.get("content", {}).items()) or "nothing"
            headers = "".join(f", with the header <code>{escape(name)}</code>" for name in response.get("headers", ()))
            parts.append(f"<p><b>{status}</b>: {content}{headers}</p>")
    refused = ", ".join(
        f'<a href="#problem-{PROBLEM_TYPES[int(status)].word}">{status}</a>'
        for status in operation["responses"]
        if status >= "400"
    )
    return f"{''.join(parts)}<p>Problems: {refused}</p></article>"


def _role(word: str) -> str:
    return "Open to everybody." if word == "anybody" else f"Role: {escape(word)}."


def _content(media: str, content: JsonObject) -> str:
    return f"{_kind(content.get('schema', {}))} <small>{escape(media)}</small>"


def _schema(name: str, schema: JsonObject) -> str:
    about = escape(schema.get("description", ""))
    needed = schema.get("required", ())
    rows = [
        (key, _kind(inner), "always" if key in needed else "", inner.get("description", ""))
        for key, inner in schema.get("properties", {}).items()
    ]
    inside = _table(("key", "kind", "", ""), rows) if rows else f"<p>{_kind(schema)}</p>"
    return f'<article id="{_document(name)}"><h3>{escape(name)}</h3><p>{about}</p>{inside}</article>'


def _kind(schema: JsonObject) -> str:
    """A schema in a few words, as HTML."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_document(name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"[{', '.join(_kind(one) for one in schema['prefixItems'])}]"
        case "array":
            return f"list of {_kind(schema.get('items', {}))}"
        case "object" if "additionalProperties" in schema:
            inner = schema["additionalProperties"]
            return f"table of {_kind(inner)}" if isinstance(inner, dict) else "object"
        case None:
            return "anything"
        case word:
            return f"{escape(str(word))}{_bounds(schema)}"


_BOUNDS: Final = (
    ("format", "{}"),
    ("minimum", "from {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "up to {}"),
    ("maxLength", "up to {} characters"),
    ("default", "default {}"),
)


def _bounds(schema: JsonObject) -> str:
    bounds = [text.format(_json(schema[key])) for key, text in _BOUNDS if key in schema]
    return f" <small>({escape(', '.join(bounds))})</small>" if bounds else ""


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table. The first column is a name; the column `kind` is HTML already; the others are text."""
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    kind = head.index("kind")
    lines = []
    for row in rows:
        cells = [text if place == kind else escape(text) for place, text in enumerate(row)]
        lines.append(f"<tr><td><code>{cells[0]}</code></td>{''.join(f'<td>{cell}</td>' for cell in cells[1:])}</tr>")
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _problem_types() -> str:
    inside = "".join(
        f'<article id="problem-{kind.word}"><h3>{status} {escape(kind.title)}</h3>'
        f"<p>{escape(kind.meaning)}</p></article>"
        for status, kind in PROBLEM_TYPES.items()
    )
    return f'<section id="problems"><h2>Problems</h2>{inside}</section>'


def _section(tag: str) -> str:
    return "about-" + escape(tag.lower().replace(" ", "-"))


def _document(name: str) -> str:
    return "document-" + escape(name)
