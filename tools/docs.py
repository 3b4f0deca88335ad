"""Keep the documentation true: run every example in it and compare, or write down what it prints now.

A fenced block marked `console` holds commands after `$ ` and what they print; one marked `python` is run as it stands
(its asserts are the test). `python -m tools.docs` compares and exits 1 on a difference, `--write` updates the blocks.
"""

import difflib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from evenbeat.cli.main import main

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(?P<kind>console|python)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")


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


def broken_links(page: Path) -> Iterator[str]:
    """Links to files that do not exist."""
    for link in _LINK.finditer(page.read_text()):
        target = link["target"]
        if "://" not in target and not (page.parent / target).exists():
            yield target


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
