"""The table of the house can say no: small houses, each with one import too many, checked by the real table."""

import subprocess
import sys
import tomllib
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import grimp
import pytest

PROJECT = Path(__file__).parents[1]
RoomsContract = import_module("tools.rooms").RoomsContract
ROOMS = {
    "model",
    "child_processes",
    "when",
    "core",
    "store",
    "queue",
    "work",
    "node",
    "load",
    "app",
    "api",
    "web",
    "cli",
    "sim",
    "testing",
    "admin",
    "bench",
    "client",
    "report",
    "wire",
}

with (PROJECT / "pyproject.toml").open("rb") as f:
    IMPORT_LINTER: dict[str, Any] = tomllib.load(f)["tool"]["importlinter"]
(TABLE,) = IMPORT_LINTER["contracts"]

CLEAN = {
    "model.py": "import msgspec\n",
    "when/grid.py": "import numpy\nfrom HOUSE.model import Task\n",
    "core/gate.py": "from HOUSE.when import grid\nfrom HOUSE import model\n",
    "core/guard.py": "from HOUSE.model import Task\n",
    "store/sqlite.py": "import sqlite3\nimport HOUSE.model\n",
    "wire/frames.py": "import msgspec\n",
    "queue/local.py": "import asyncio\nfrom HOUSE.wire import frames\n",
    "work/runner.py": "import asyncio\nfrom HOUSE.core import guard\nfrom HOUSE.wire import frames\n",
    "cli/main.py": "import rich.table\nfrom HOUSE.when.grid import x\n",
    "__main__.py": "from HOUSE.cli.main import run\n",
}
"""A house that keeps the rules; store and queue may use what when and core may not."""

numbers = count()


def build(folder: Path, files: dict[str, str]) -> str:
    """Write a package; its name is new each time, so that no house is mistaken for another already imported."""
    house = f"house{next(numbers)}"
    for path, text in {"__init__.py": "", **files}.items():
        file = folder / house / path
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text.replace("HOUSE", house))
    return house


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Which lines the contract complains about, for the clean house with some files changed or added."""
    monkeypatch.syspath_prepend(tmp_path)

    def check(changes: dict[str, str], base: dict[str, str] = CLEAN) -> list[str]:
        house = build(tmp_path, {**base, **changes})
        graph = grimp.build_graph(house, include_external_packages=True, cache_dir=None)
        options = {"may_import": TABLE["may_import"], "never": TABLE["never"]}
        contract = RoomsContract("rooms", {"root_packages": [house]}, options)
        result = contract.check(graph, verbose=False)
        lines: list[str] = [line.replace(house, "HOUSE") for line in result.metadata["broken"]]
        assert result.kept is not bool(lines)
        return lines

    return check


def test_a_clean_house_is_kept(broken: Any) -> None:
    assert broken({}) == []


def test_rooms_that_are_not_built_yet_cost_nothing(broken: Any) -> None:
    assert broken({}, base={"model.py": "import msgspec\n"}) == []


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("when/clock.py", "import math\nimport asyncio\n", "HOUSE.when.clock imports asyncio (line 2)"),
        ("when/clock.py", "from time import monotonic\n", "HOUSE.when.clock imports time (line 1)"),
        ("when/dice.py", "def f():\n    import random\n", "HOUSE.when.dice imports random (line 2)"),
        ("when/deep/er.py", "import subprocess\n", "HOUSE.when.deep.er imports subprocess (line 1)"),
        ("core/gate.py", "\n\nfrom HOUSE.store import sqlite\n", "HOUSE.core.gate imports HOUSE.store.sqlite (line 3)"),
        ("core/loop.py", "import asyncio.events\n", "HOUSE.core.loop imports asyncio (line 1)"),
        ("store/sqlite.py", "from HOUSE.core import gate\n", "HOUSE.store.sqlite imports HOUSE.core.gate (line 1)"),
        ("model.py", "import requests\n", "HOUSE.model imports requests (line 1)"),
        ("model.py", "import socket\n", "HOUSE.model imports socket (line 1)"),
        ("queue/local.py", "import requests\n", "HOUSE.queue.local imports requests (line 1)"),
        ("load/toml.py", "from HOUSE.store import sqlite\n", "HOUSE.load.toml imports HOUSE.store.sqlite (line 1)"),
        ("web/page.py", "import HOUSE.work.runner\n", "HOUSE.web.page imports HOUSE.work.runner (line 1)"),
        ("sim/world.py", "import time\n", "HOUSE.sim.world imports time (line 1)"),
        ("work/runner.py", "import HOUSE.queue.local\n", "HOUSE.work.runner imports HOUSE.queue.local (line 1)"),
    ],
)
def test_one_import_too_many_is_named_with_module_and_line(broken: Any, path: str, text: str, complaint: str) -> None:
    assert broken({path: text}) == [complaint]


def test_an_import_on_two_lines_names_both(broken: Any) -> None:
    text = "import asyncio\n\nimport asyncio\n"
    assert broken({"when/clock.py": text}) == ["HOUSE.when.clock imports asyncio (line 1, 3)"]


def test_what_a_room_must_never_reach_it_must_not_reach_through_others(broken: Any) -> None:
    """Work may import core.guard and core may import numpy, but work must stay free of numpy."""
    assert broken({"core/guard.py": "import numpy\n"}) == [
        "HOUSE.work.runner reaches numpy: HOUSE.work.runner -> HOUSE.core.guard -> numpy"
    ]


def test_a_room_reached_through_others_is_found_as_well(broken: Any) -> None:
    changes = {"core/guard.py": "from HOUSE.core import helper\n", "core/helper.py": "import HOUSE.store.sqlite\n"}
    assert broken(changes) == [
        "HOUSE.core.helper imports HOUSE.store.sqlite (line 1)",
        "HOUSE.work.runner reaches store: "
        "HOUSE.work.runner -> HOUSE.core.guard -> HOUSE.core.helper -> HOUSE.store.sqlite",
    ]


def test_part_of_a_room_may_be_open_while_the_rest_is_closed(broken: Any) -> None:
    assert broken({"work/runner.py": "import HOUSE.core.guard\n"}) == []
    assert broken({"work/runner.py": "import HOUSE.core.gate\n"})[0] == (
        "HOUSE.work.runner imports HOUSE.core.gate (line 1)"
    )


def test_a_room_that_is_not_in_the_table_is_reported(broken: Any) -> None:
    assert broken({"attic/box.py": "import os\n"}) == [
        "HOUSE.attic: the table has no room 'attic'",
        "HOUSE.attic.box: the table has no room 'attic'",
    ]


def test_several_problems_are_all_named(broken: Any) -> None:
    assert broken({"when/clock.py": "import time\n", "model.py": "import requests\n"}) == [
        "HOUSE.model imports requests (line 1)",
        "HOUSE.when.clock imports time (line 1)",
    ]


def lint_imports(folder: Path, house: str) -> "subprocess.CompletedProcess[str]":
    """The command that a developer runs, with the real table, on another house."""
    lists = "\n".join(f"{key} = {TABLE[key]!r}" for key in ("may_import", "never"))
    (folder / "lint.toml").write_text(
        f"[tool.importlinter]\nroot_package = '{house}'\ninclude_external_packages = true\n"
        f"contract_types = {IMPORT_LINTER['contract_types']!r}\n"
        f"[[tool.importlinter.contracts]]\nname = 'The house'\ntype = 'rooms'\n{lists}\n"
    )
    command = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--config", str(folder / "lint.toml")],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{PROJECT}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_keeps_a_clean_house(tmp_path: Path) -> None:
    done = lint_imports(tmp_path, build(tmp_path, CLEAN))
    assert "The house KEPT" in done.stdout
    assert done.returncode == 0


def test_the_command_fails_and_prints_module_and_line(tmp_path: Path) -> None:
    house = build(tmp_path, {**CLEAN, "when/clock.py": "import math\nimport asyncio\n"})
    done = lint_imports(tmp_path, house)
    assert "The house BROKEN" in done.stdout
    assert f"{house}.when.clock imports asyncio (line 2)" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_the_table_has_a_row_for_every_room_of_the_house(room: str) -> None:
    rows = [line.partition(":")[0] for line in TABLE["may_import"]]
    assert rows.count(room) == 1


def test_the_table_speaks_of_no_room_that_the_house_does_not_have() -> None:
    rows = {line.partition(":")[0] for key in ("may_import", "never") for line in TABLE[key]}
    assert rows - ROOMS == {"__main__"}
