"""What the pages of docs/how-to ask their reader to type, and the one table of what no test types in a terminal."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.docs import ROOT, commands

FOLDER: Final = ROOT / "docs" / "how-to"
_FENCE: Final = re.compile(r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(
    r"^    (?P<line>(?:evenbeat|crontab|createuser|createdb|umask|systemctl|pip|curl|make|python3) "
    r"(?:[^\n]*\\\n)*[^\n]*)$",
    re.MULTILINE,
)
_SHELLS: Final = ("sh", "bash", "")

_CURL: Final = "tests/api/test_curl.py runs the block as it stands, in bash and without a terminal"
_RUN_AS_IT_STANDS: Final = "tests/test_docs.py runs it in this process and compares what it prints"
_INSTALLS: Final = "installs packages, which tests do not: tests/test_how_to_pages.py has them installed"
_IDS: Final = "has an id that only the reader knows; the route is typed by"
OTHERWISE: Final[dict[str, dict[str, str]]] = {
    "access.md": {
        "curl -H @auth https://beat.example.org": "needs that host; tests/api/test_curl.py sends the same header",
    },
    "cluster.md": {
        "pip install": _INSTALLS,
        "createuser": "PostgreSQL of evenbeat.testing is started with this user, and without passwords",
        "systemctl": "needs systemd as the first process; what the units start is typed instead of it",
    },
    "http.md": {
        "evenbeat up examples/first.toml": "tests/api/test_curl.py starts this node, on a port that is free",
        "(umask 077": "tests/api/test_curl.py writes this file",
        "curl -fsS -H @auth -X POST http://127.0.0.1:8629/v1/problems/acknowledge": f"{_IDS} "
        "tests/api/routes/test_problem_routes.py",
        "curl -fsS -H @auth -X POST http://127.0.0.1:8629/v1/downtimes": f"{_IDS} "
        "tests/api/routes/test_downtime_routes.py",
        "curl": _CURL,
    },
    "load-spikes.md": {"evenbeat spread": _RUN_AS_IT_STANDS},
    "migrate.md": {
        "evenbeat import crontab examples/crontab": _RUN_AS_IT_STANDS,
        "evenbeat next": _RUN_AS_IT_STANDS,
        "evenbeat explain": _RUN_AS_IT_STANDS,
        "mkdir dump": "asks an Icinga 2, which no test has; what it answers is in tests/load/importers/corpus/icinga",
    },
    "passive.md": {
        "curl": _CURL,
        "url=$(curl": _CURL,
        "#!/bin/sh": "a script of the reader; tests/api/routes/test_heartbeats.py sends what it sends",
    },
    "working-hours.md": {"evenbeat period ": _RUN_AS_IT_STANDS},
}
"""By page, what a command begins with, and how it is tried instead of being typed by test_how_to_pages.py."""
TYPED_ELSEWHERE: Final = {
    "notifications.md": "tests/test_notifications_how_to.py",
    "load-spikes.md": "tests/test_docs.py",
    "http.md": "tests/api/test_curl.py",
    "python.md": "tests/program/test_python_pages.py",
    "python-migrate.md": "tests/program/test_migration_recipes.py",
    "python-web.md": "tests/program/test_web_recipes.py",
}
"""The tests of pages of which test_how_to_pages.py types nothing: they are programs, or need several terminals."""


def names() -> list[str]:
    """All pages."""
    return sorted(page.name for page in FOLDER.iterdir())


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


def shown(name: str) -> Iterator[tuple[str, list[str]]]:
    """All that a page shows to be typed, in order, with what it prints: `...` is any number of lines."""
    return shown_in(text_of(name))


def shown_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """As `shown`, for the text of a page. A block of a shell is one command."""
    places = [(found.start(), found) for found in _FENCE.finditer(text)]
    without = _FENCE.sub(lambda found: re.sub(r"[^\n]", "#", found.group()), text)
    places += [(found.start(), found) for found in _INDENTED.finditer(without)]
    for _, found in sorted(places, key=lambda place: place[0]):
        if "line" in found.groupdict():
            yield re.sub(r"\s*\\\n\s*", " ", found["line"]), ["..."]
        elif found["body"].startswith("$ "):
            yield from commands(found["body"])
        elif found["kind"] in _SHELLS or found["body"].startswith(("evenbeat ", "curl ", "(umask ")):
            yield found["body"], ["..."]


def to_type(name: str) -> list[tuple[str, list[str]]]:
    """What a newcomer types of a page in a terminal: all but what `OTHERWISE` has."""
    return [(command, wanted) for command, wanted in shown(name) if reason_not_to_type(name, command) is None]


def reason_not_to_type(name: str, command: str) -> str | None:
    """What `OTHERWISE` says of a command; None if nothing."""
    excused = OTHERWISE.get(name, {})
    return next((reason for begin, reason in excused.items() if command.startswith(begin)), None)


def file_of_test(name: str) -> Path:
    """The file with the test that types a page."""
    return ROOT / TYPED_ELSEWHERE.get(name, "tests/test_how_to_pages.py")
