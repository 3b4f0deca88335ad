"""A newcomer: README and tutorial are typed in a real terminal, in a fresh folder, and do what they say."""

import re
from functools import reduce
from pathlib import Path

from newcomer import block, do, is_up, page, plain
from terminal import Terminal
from tools.docs import typed


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
