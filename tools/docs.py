"""Keep the documentation true: run every example in it and compare, or write down what it prints now.

A fenced block marked `console` holds commands after `$ ` and what they print; one marked `python` is run as it stands
(its asserts are the test). `python -m tools.docs` compares and exits 1 on a difference, `--write` updates the blocks.
What stands after `$ ` in a block marked `text`, and lines of code that begin with `evenbeat`, need a node: a newcomer's
test types them in a terminal (tests/test_newcomer.py, tests/test_how_to_pages.py).
"""

import difflib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Final

from evenbeat.cli.main import main

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(?P<kind>console|python)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"^```text\n(?P<block>\$ .*?)^```$|^    (?P<line>evenbeat [^\n]*)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)#\s]*)(?:#(?P<section>[^)\s]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


_VARIABLE: Final = (
    (re.compile(r"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"), "TIME"),
    (re.compile(r"\(\d+ s\)"), "(5 s)"),
    (re.compile(r"Acknowledged by \S+:"), "Acknowledged by ana:"),
    (re.compile(r"was CRITICAL for [^)]*\)"), "was CRITICAL for 9 s)"),
    (re.compile(r"HTTP 200 \w+"), "HTTP 200 OK"),
    (re.compile(r"evenbeat@[^>\s]+>"), "evenbeat@host>"),
    (re.compile(r"^set [0-9a-f]{7}:", re.MULTILINE), "set ID:"),
)
"""What differs from one day, machine and database to another."""


def pages() -> list[Path]:
    """Every page we wrote."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def rendered(text: str) -> str:
    """The page with the present output of each of its commands; python blocks are run and left as they are."""
    return _BLOCK.sub(_rendered_block, text)


def _rendered_block(block: re.Match[str]) -> str:
    if block["kind"] == "python":
        exec(compile(block["body"], "documentation", "exec"), {})  # noqa: S102 - our own pages
        return block.group()
    commands = [line for line in block["body"].splitlines() if line.startswith("$ ")]
    return "```console\n" + "\n".join(f"{line}\n{_output(line[2:])}" for line in commands) + "```"


def _output(command: str) -> str:
    program, *argv = shlex.split(command)
    if program != "evenbeat":
        raise ValueError(f"only evenbeat commands can be shown, not {command!r}")
    out = io.StringIO()
    # argparse has printed its message by the time it exits.
    with redirect_stdout(out), redirect_stderr(out), suppress(SystemExit):
        main(argv)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def typed(text: str) -> Iterator[tuple[str, list[str]]]:
    """What a page tells its reader to type, in order, and what that prints: `...` is any number of lines."""
    for found in _TYPED.finditer(text):
        if found["line"]:
            yield found["line"], ["..."]
        else:
            yield from commands(found["block"])


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block with the lines that it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, out = part.partition("\n")
        yield command, lasting(out)


def lasting(text: str) -> list[str]:
    """The lines of a page or of an output, without what differs from time to time."""
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return [line.rstrip() for line in text.strip().splitlines()]


def contains(out: list[str], wanted: list[str]) -> bool:
    """Do all lines stand there, one after the other, where `...` is any number of lines?"""
    if not wanted:
        return not out
    if wanted[0] == "...":
        return any(contains(out[i:], wanted[1:]) for i in range(len(out) + 1))
    return bool(out) and out[0] == wanted[0] and contains(out[1:], wanted[1:])


def broken_links(page: Path) -> Iterator[str]:
    """Links to files that do not exist, or to sections that a page does not have."""
    for link in _LINK.finditer(page.read_text()):
        target, section = link["target"], link["section"]
        if "://" in target:
            continue
        file = page.parent / target if target else page
        if not file.exists():
            yield target
        elif section and file.suffix == ".md" and section not in sections(file.read_text()):
            yield f"{target}#{section}"


def sections(text: str) -> set[str]:
    """The names under which the headings of a page are reached."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in _HEADING.findall(text)}


def check(*, write: bool) -> int:
    """Compare all pages, or write them."""
    differences = 0
    for page in pages():
        old = page.read_text()
        new = rendered(old)
        differences += old != new
        if write:
            page.write_text(new)
        else:
            before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
            sys.stdout.writelines(difflib.unified_diff(before, after, str(page), "now"))
    return 0 if write or not differences else 1


if __name__ == "__main__":
    sys.exit(check(write="--write" in sys.argv[1:]))
