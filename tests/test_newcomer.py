"""A newcomer: README, tutorial and how-tos are typed in a real terminal, in a fresh folder, and do what they say."""

import re
import shutil
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

import pytest
from terminal import Terminal, programs
from tools.docs import ROOT, contains, lasting, typed
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


def test_the_readme_in_a_folder_of_ones_own(terminal: Terminal, folder: Path) -> None:
    (folder / "shop.toml").write_text(block("README.md", "toml"))
    commands = list(typed(page("README.md")))
    assert len(commands) >= 5
    for command, wanted in commands:
        do(terminal, command, wanted)
        if command.endswith("&"):
            is_up(terminal)
    assert (folder / "backup.tar.gz").exists()


def test_the_program_of_the_readme_runs_beside_the_command_line(terminal: Terminal, folder: Path) -> None:
    (folder / "shop.py").write_text(block("README.md", "python"))
    do(terminal, "python shop.py &")
    is_up(terminal, "--db", "shop.db")
    do(terminal, "evenbeat run fetch_mail --wait --db shop.db", ["...", "batch 1"])
    do(terminal, "evenbeat run fetch_mail --wait --db shop.db", ["...", "batch 2"])


def test_what_make_run_says_and_the_readme_work_in_the_same_shell(terminal: Terminal, folder: Path, path: Path) -> None:
    said = re.findall(r'@echo "    (.*?)"$', page("Makefile"), re.MULTILINE)
    places = (("$(CURDIR)/out", str(folder / "out")), ("$(CURDIR)/$(VENV)/bin", str(path)), ("\\$$", "$"))
    lines = [reduce(lambda text, place: text.replace(*place), places, line) for line in said]
    assert len(lines) >= 4
    (folder / "out").mkdir()
    do(terminal, "evenbeat up examples/first.toml --db out/evenbeat.db --listen 127.0.0.1:0 &")
    is_up(terminal, "--db", "out/evenbeat.db")
    for line in lines:
        do(terminal, line)
    shop = folder / "shop"
    shop.mkdir()
    (shop / "shop.toml").write_text(block("README.md", "toml"))
    do(terminal, f"cd {shop}")
    for command, wanted in typed(page("README.md")):
        do(terminal, command, wanted)
        if command.endswith("&"):
            is_up(terminal)


def test_the_tutorial(terminal: Terminal, folder: Path, path: Path) -> None:
    commands = list(typed(page("docs/tutorial.md")))
    (up, _), *rest = commands
    do(terminal, f"{up} &")
    with Terminal(folder, path) as other:
        do(other, "export EVENBEAT_DB=first.db")
        is_up(other)
        for command, wanted in rest:
            if command == "evenbeat ls":
                heading, *rows = plain(wanted)
                do(other, command, [heading, *("...",)])
                names = [row.split("  ")[0] for row in rows if row != "..."]
                listed = [line.split("  ")[0] for line in plain(other.type(command)[1])]
                assert set(names) <= set(listed)
            elif command.startswith("evenbeat up"):
                do(terminal, "kill %1; wait")
                do(terminal, command.replace(":8629", ":0") + " &")
                is_up(other)
            else:
                do(other, command, wanted)


PASSIVE: Final = """
[checks."{name}"]
passive = true
every = "1d"
labels = {{ site = "berlin", team = "shop" }}
"""
"""A check whose results the test submits, in place of one whose plugin this machine may not have."""


def start(terminal: Terminal, folder: Path, tasks: str) -> None:
    (folder / "tasks.toml").write_text(tasks)
    do(terminal, "evenbeat up tasks.toml &")
    is_up(terminal)


def test_how_to_say_what_depends_on_what(terminal: Terminal, folder: Path) -> None:
    tasks = block("docs/how-to/dependencies.md", "toml").replace('every = "1m"', 'passive = true\nevery = "1d"')
    tasks = re.sub(r'command = \["check_.*\n', "", tasks)
    start(terminal, folder, tasks)
    do(terminal, "evenbeat result gw/ping critical 'no answer'")
    (why, wanted), (remove, refusal) = typed(page("docs/how-to/dependencies.md"))
    do(terminal, why, [*wanted, "..."])
    code, lines = terminal.type(remove)
    assert (code, contains(plain(lines), plain(refusal))) == (2, True), lines


def test_how_to_set_downtimes_and_pause(terminal: Terminal, folder: Path) -> None:
    tasks = "".join(PASSIVE.format(name=name) for name in ("web1", "web2", "db"))
    start(terminal, folder, f'{tasks}\n[tasks.report]\nevery = "1h"\ncommand = ["true"]\n')
    written = re.findall(r"^set ([0-9a-f]{7}):", page("docs/how-to/downtime.md"), re.MULTILINE)
    ids: dict[str, str] = {}
    for typed_command, wanted in typed(page("docs/how-to/downtime.md")):
        command = reduce(lambda text, known: text.replace(*known), ids.items(), typed_command)
        if command.startswith("evenbeat downtime add"):
            code, lines = terminal.type(command)
            assert (code, plain(lines)) == (0, plain(wanted))
            ids[written[len(ids)]] = lines[0].split()[1].rstrip(":")
        elif command.startswith("evenbeat downtime list"):
            code, lines = terminal.type(command)
            assert (code, plain(lines)[0], len(lines)) == (0, plain(wanted)[0], len(wanted))
        else:
            do(terminal, command, [line.strip() if line.strip() == "..." else line for line in wanted])


def test_how_to_see_and_acknowledge_problems(terminal: Terminal, folder: Path) -> None:
    start(terminal, folder, PASSIVE.format(name="web") + '[tasks.backup]\nat = "2099-01-01"\ncommand = ["false"]\n')
    do(terminal, "evenbeat run backup")
    eventually(lambda: "failing" in "".join(terminal.type("evenbeat problems")[1]))
    do(terminal, "evenbeat result web critical 'no answer from 10.0.0.7'")
    for command, wanted in typed(page("docs/how-to/problems.md")):
        if command == "evenbeat problems":
            heading, *rows = [line.split() for line in plain(terminal.type(command)[1])]
            assert heading == wanted[0].split()
            assert [row[1:2] for row in rows] == [line.split()[1:2] for line in wanted[1:]]
        elif "--id 12" in command:
            shown = plain(terminal.type(command.replace("12", "2"))[1])
            told = [line for line in plain(wanted) if "ops was told" not in line]
            assert [line.split(" TIME")[0] for line in shown] == [line.split(" TIME")[0] for line in told]
        elif command == "evenbeat why report":
            continue  # a run that is tried again: tests/report/test_retry_words.py
        elif command.startswith("evenbeat why"):
            do(terminal, command)  # who was told needs contacts: test_notifications_how_to.py has them
        else:
            do(terminal, command, wanted)


def test_how_to_run_a_job_after_others(terminal: Terminal, folder: Path) -> None:
    chains = page("docs/how-to/chains.md")
    assert "evenbeat set" in chains
    start(terminal, folder, block("docs/how-to/chains.md", "toml"))
    for command, wanted in typed(chains):
        do(terminal, command, wanted)
    do(terminal, "evenbeat why copy", ["...", "  - it waits for 'backup', 'dump'", "..."])


def test_how_to_take_results_from_outside(terminal: Terminal, folder: Path) -> None:
    (folder / "tasks.toml").write_text(block("docs/how-to/passive.md", "toml"))
    do(terminal, "evenbeat up tasks.toml --listen 127.0.0.1:0 &")
    is_up(terminal)
    for command, wanted in typed(page("docs/how-to/passive.md")):
        do(terminal, command, wanted)


def test_how_to_let_others_in(terminal: Terminal, folder: Path) -> None:
    (folder / "checks.toml").write_text(PASSIVE.format(name="web"))
    for command, wanted in typed(page("docs/how-to/access.md")):
        if "--tls-cert" in command:
            continue  # who has a certificate knows where it is
        if command.startswith("evenbeat up"):
            do(terminal, command.replace("8629", "127.0.0.1:0") + " &")
            is_up(terminal)
        else:
            if command.startswith("evenbeat token add"):
                terminal.type(f"evenbeat token rm {command.split()[3]}")  # the page shows other ways to make it
            do(terminal, command, wanted)


def test_how_to_use_working_hours(terminal: Terminal) -> None:
    do(terminal, "evenbeat add x --every 1d -- true")
    commands = list(typed(page("docs/how-to/working-hours.md")))
    assert len(commands) >= 3
    for command, wanted in commands:
        do(terminal, command, wanted)
