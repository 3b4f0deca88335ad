"""The OpenAPI 3.1 document, made from the same routes and types as the application."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import msgspec

from evenbeat.api.http.errors import PROBLEM_MEDIA_TYPE, PROBLEM_TYPES, ProblemDocument
from evenbeat.api.http.route import JSON, Role, Route
from evenbeat.api.routes.task_answers import IF_MATCH

_COMMON_STATUSES: Final = (400, 401, 403, 422, 429, 503)
"""Statuses of errors that every route may answer with."""
_BODY_STATUSES: Final = (408, 413, 415)
_REF_TEMPLATE: Final = "#/components/schemas/{name}"
_HEADERS: Final = {
    "ETag": "The version of the task, for If-Match.",
    "Location": "Where the task is.",
}
_DESCRIPTION: Final = (
    "Tasks and their runs. A name in a path is one percent-encoded segment: web/ping is web%2Fping. Times are ISO 8601 "
    "with an offset, durations are texts such as 5m or 1h30m. Errors are problem documents, as RFC 9457 has them."
)

JsonObject = dict[str, Any]


def openapi_document(routes: Sequence[Route]) -> JsonObject:
    """The document of all routes except HTML pages."""
    documented = [route for route in routes if route.media != "text/html"]
    schemas = _Schemas(documented)
    paths: dict[str, JsonObject] = {}
    for route in documented:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "evenbeat", "version": version("evenbeat"), "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "As `evenbeat token` makes it."},
                "session": {"type": "apiKey", "in": "cookie", "name": "evenbeat_session"},
            },
        },
    }


class _Schemas:
    """The schemas of every type of every route, each once."""

    def __init__(self, routes: Sequence[Route]) -> None:
        types: list[Any] = [ProblemDocument]
        for route in routes:
            types += [kind for kind in (route.answer, route.query, _body(route)) if kind not in (None, bytes)]
        self._types = types
        described, components = msgspec.json.schema_components(types, ref_template=_REF_TEMPLATE)
        self._described: Final = [_plain_schema(schema) for schema in described]
        self.components: Final = _plain_schema(components)
        self._queries = {}
        for query in {route.query for route in routes if route.query is not None}:
            # Parameters are described one by one.
            self._queries[query] = self.components.pop(self.of(query)["$ref"].rpartition("/")[2])

    def of(self, kind: Any) -> JsonObject:
        """The schema of a type."""
        return next(schema for known, schema in zip(self._types, self._described, strict=True) if known is kind)

    def parameters(self, route: Route) -> list[JsonObject]:
        """The parameters of the query."""
        if route.query is None:
            return []
        fields = self._queries[route.query]["properties"]
        return [
            {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
            for name, schema in fields.items()
        ]


def _body(route: Route) -> Any:
    return route.documented_body_type or route.body


def _operation(route: Route, schemas: _Schemas) -> JsonObject:
    names = re.findall(r"\{(\w+)", route.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]
    parameters += schemas.parameters(route)
    problems = {*_COMMON_STATUSES, *route.error_statuses, *((404,) if names else ())}
    if route.conditional:
        about = "A version from an ETag: the change is made only if that is the current version."
        schema = {"type": "string", "pattern": IF_MATCH}
        parameters.append(
            {"name": "If-Match", "in": "header", "required": False, "description": about, "schema": schema}
        )
        problems.add(412)
    found: JsonObject = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "x-role": route.role.name.lower(),
        "security": [] if route.role is Role.ANYBODY else [{"token": []}, {"session": []}],
        "parameters": parameters,
        "responses": {},
    }
    if route.body is bytes:
        found["requestBody"] = {"required": False, "content": {"*/*": {}}}
        problems |= {408, 413}
    elif route.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": schemas.of(_body(route))}}}
        problems |= {*_BODY_STATUSES}
    for status in (route.status, *route.other_statuses):
        found["responses"][str(status)] = _success_response(route, status, schemas)
    for status in sorted(problems):
        content = {PROBLEM_MEDIA_TYPE: {"schema": schemas.of(ProblemDocument)}}
        found["responses"][str(status)] = {"description": PROBLEM_TYPES[status].title, "content": content}
    return found


def _success_response(route: Route, status: int, schemas: _Schemas) -> JsonObject:
    found: JsonObject = {"description": HTTPStatus(status).phrase}
    if route.answer is not None:
        schema = schemas.of(route.answer) if route.media == JSON else {"type": "string"}
        found["content"] = {route.media: {"schema": schema}}
    if route.headers:
        found["headers"] = {
            name: {"description": _HEADERS[name], "required": True, "schema": {"type": "string"}}
            for name in route.headers
        }
    return found


def _operation_id(route: Route) -> str:
    words = re.findall(r"\w+", route.path.removeprefix("/v1"))
    return "_".join([route.method.lower(), *words])


def _plain_schema(schema: Any) -> Any:
    """The schema as plain JSON values, simplified: msgspec emits prefixItems for fixed tuples; OpenAPI needs items."""
    return _simplify(msgspec.json.decode(msgspec.json.encode(schema)))


def _simplify(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_simplify(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _simplify(value) for key, value in schema.items()}
    first, *others = found.get("prefixItems", [None])
    if first is not None and all(other == first for other in others):
        del found["prefixItems"]
        found["items"] = first
    return found


def _without_null(schema: JsonObject) -> JsonObject:
    """The schema of a parameter without null: a query has no text for null, the parameter is omitted instead."""
    kept = {key: value for key, value in schema.items() if key != "default" or value not in (None, [], "")}
    if "anyOf" in kept:
        kinds = [kind for kind in kept.pop("anyOf") if kind != {"type": "null"}]
        kept = {**kept, **kinds[0]} if len(kinds) == 1 else {**kept, "anyOf": kinds}
    return kept
