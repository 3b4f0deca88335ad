"""Finds the route of a path. Paths are split before they are decoded: a name is one segment, slashes included."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

from evenbeat.api.http.route import Route
from evenbeat.model import Entry

_PATH_SUFFIX: Final = ":path}"


class _PathPattern(NamedTuple):
    segments: tuple[str, ...]
    methods: dict[str, Route]


class RouteMatch(NamedTuple):
    """The routes of a path, by method, and the path's variables."""

    methods: Mapping[str, Route]
    variables: Mapping[str, str]

    @property
    def allowed(self) -> str:
        """The value of the header Allow."""
        return ", ".join(sorted({*self.methods, *(["HEAD"] if "GET" in self.methods else [])}))


class Router:
    """All routes, by path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        patterns: dict[str, _PathPattern] = {}
        for route in routes:
            pattern = patterns.setdefault(route.path, _PathPattern(tuple(route.path.split("/")), {}))
            if pattern.methods.get(route.method, route) != route:
                raise ValueError(f"{route.method} {route.path} is defined twice")
            pattern.methods[route.method] = route
        # A literal segment takes precedence over a variable in the same place.
        self._patterns = sorted(patterns.values(), key=lambda p: [_rank(segment) for segment in p.segments])

    def find(self, scope: Scope) -> RouteMatch | None:
        """The routes of a request's path; None if there are none, or if the path is not UTF-8."""
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        try:
            segments = [unquote_to_bytes(segment).decode() for segment in raw.split(b"/")]
        except UnicodeDecodeError:
            return None
        for pattern in self._patterns:
            found = _match(pattern.segments, segments)
            if found is not None:
                return RouteMatch(pattern.methods, found)
        return None


def _rank(segment: str) -> tuple[int, str]:
    return (2 if segment.endswith(_PATH_SUFFIX) else 1 if segment.startswith("{") else 0, segment)


def _match(pattern: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    found = {}
    if pattern[-1].endswith(_PATH_SUFFIX) and len(segments) >= len(pattern):
        last = len(pattern) - 1
        found[pattern[-1][1 : -len(_PATH_SUFFIX)]] = "/".join(segments[last:])
        pattern, segments = pattern[:-1], segments[:last]
    if len(pattern) != len(segments):
        return None
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{") and segment:
            found[wanted[1:-1]] = segment
        elif wanted != segment:
            return None
    return found


def task_url(entry: Entry) -> str:
    """The path of a task. The names . and .. have a meaning in every URL, even encoded: their tasks go by id."""
    name = entry.task.name
    return f"/v1/tasks/{entry.id if name in ('.', '..') else quote(name, safe='')}"
