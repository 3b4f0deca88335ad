"""What a newcomer has and does: a fresh folder, a terminal in it, and commands that print what the pages say."""

import re
import shutil
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

import pytest
from terminal import Terminal, programs
from tools.docs import ROOT, contains, lasting
from waiting import eventually

QUESTIONS: Final = re.compile(r"evenbeat (ls|why|show|history|problems|status|periods)\b")
"""What may be typed again until it prints what the page says."""
VARIABLE: Final = (
    (re.compile(r"[-+]?\b\d+\.\d+ m?s\b|[-+]\d+\.\d+ s\b"), "SECONDS"),
    (re.compile(r"(in |for )?\b\d+ (d|h|min|s)( \d+ (h|min|s))?( ago)?\b|just now|less than a second"), "SPAN"),
    (re.compile(r"^(ended|set) [0-9a-f]{7}|^[0-9a-f]{7}\b"), "ID"),
    (re.compile(r"problem \d+|^\d+ "), "N "),
    (re.compile(r"of (ana\b|file:[^ ,]+)"), "of OWNER"),
    (re.compile(r"  +"), "  "),
)
"""What differs from one day and machine to another, beside what `lasting` leaves out."""


def plain(lines: Sequence[str]) -> list[str]:
    """Lines of a page or of the screen, without what differs."""
    return [reduce(_without, VARIABLE, line).rstrip() for line in lasting("\n".join(lines))]


def _without(line: str, variable: tuple[re.Pattern[str], str]) -> str:
    pattern, word = variable
    return pattern.sub(word, line)


def page(name: str) -> str:
    return (ROOT / name).read_text()


def block(name: str, kind: str, which: int = 0) -> str:
    """A fenced block of a page."""
    found: list[str] = re.findall(rf"^```{kind}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)
    return found[which]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return programs(tmp_path / "bin")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with a clone's examples."""
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


@pytest.fixture
def terminal(folder: Path, path: Path) -> Iterator[Terminal]:
    with Terminal(folder, path) as terminal:
        yield terminal


def do(terminal: Terminal, command: str, wanted: Sequence[str] = ("...",)) -> None:
    """Type a command: it succeeds and prints what is wanted."""
    expected = plain(wanted) or ["..."]
    shown: list[str] = []

    def fits() -> bool:
        code, lines = terminal.type(command)
        shown[:] = [f"exit status {code}", *plain(lines)]
        return code == 0 and contains(shown[1:], expected)

    if QUESTIONS.match(command):
        eventually(fits, f"{expected} by {command}")
    else:
        assert fits(), (command, shown, expected)


def is_up(terminal: Terminal, *options: str) -> None:
    eventually(lambda: '"live": true' in "".join(terminal.type(" ".join(("evenbeat ls --json", *options)))[1]))
