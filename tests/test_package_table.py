"""The table of packages can say no: small projects, each with one import too many, checked by the real table."""

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
MODULE = import_module("tools.package_table")
SOURCE = PROJECT / "src" / "evenbeat"
PACKAGES = {path.stem for path in SOURCE.iterdir() if not path.name.startswith(("__init__", "__pycache__", "py."))}

with (PROJECT / "pyproject.toml").open("rb") as f:
    IMPORT_LINTER: dict[str, Any] = tomllib.load(f)["tool"]["importlinter"]
TABLE, CYCLES = IMPORT_LINTER["contracts"]

CLEAN = {
    "model.py": "import msgspec\n",
    "when/grid.py": "import numpy\nfrom PROJ.model import Task\n",
    "core/gate.py": "from PROJ.when import grid\nfrom PROJ import model\n",
    "core/drop_guard.py": "from PROJ.model import Task\n",
    "store/sqlite.py": "import sqlite3\nimport PROJ.model\n",
    "wire/frames.py": "import msgspec\n",
    "queue/local.py": "import asyncio\nfrom PROJ.wire import frames\n",
    "work/runner.py": "import asyncio\nfrom PROJ.core import drop_guard\nfrom PROJ.wire import frames\n",
    "cli/output/lines.py": "import rich.table\nfrom PROJ.when.grid import x\n",
    "__main__.py": "from PROJ.cli.output.lines import run\n",
}
"""A project that keeps the rules; store and queue may use what when and core may not."""

numbers = count()


def build(folder: Path, files: dict[str, str]) -> str:
    """Write a package; its name is new each time, so that no project is mistaken for another already imported."""
    name = f"project{next(numbers)}"
    for path, text in {"__init__.py": "", **files}.items():
        file = folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text.replace("PROJ", name))
    return name


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Which lines the contract complains about, for the clean project with some files changed or added."""
    monkeypatch.syspath_prepend(tmp_path)

    def check(
        changes: dict[str, str], base: dict[str, str] = CLEAN, may_import: list[str] = TABLE["may_import"]
    ) -> list[str]:
        return complaints(
            tmp_path, MODULE.PackageTable, {**base, **changes}, may_import=may_import, never=TABLE["never"]
        )

    return check


def complaints(folder: Path, contract: Any, files: dict[str, str], **options: list[str]) -> list[str]:
    name = build(folder, files)
    graph = grimp.build_graph(name, include_external_packages=True, cache_dir=None)
    result = contract("contract", {"root_packages": [name]}, options).check(graph, verbose=False)
    lines: list[str] = [line.replace(name, "PROJ") for line in result.metadata["broken"]]
    assert result.kept is not bool(lines)
    return lines


def test_a_clean_project_keeps_the_rules(broken: Any) -> None:
    assert broken({}) == []


def test_rows_of_packages_that_do_not_exist_have_no_effect(broken: Any) -> None:
    assert broken({}, base={"model.py": "import msgspec\n"}) == []


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("when/clock.py", "import math\nimport asyncio\n", "PROJ.when.clock imports asyncio (line 2)"),
        ("when/clock.py", "from time import monotonic\n", "PROJ.when.clock imports time (line 1)"),
        ("when/dice.py", "def f():\n    import random\n", "PROJ.when.dice imports random (line 2)"),
        ("when/deep/er.py", "import subprocess\n", "PROJ.when.deep.er imports subprocess (line 1)"),
        ("core/gate.py", "\n\nfrom PROJ.store import sqlite\n", "PROJ.core.gate imports PROJ.store.sqlite (line 3)"),
        ("core/loop.py", "import asyncio.events\n", "PROJ.core.loop imports asyncio (line 1)"),
        ("store/sqlite.py", "from PROJ.core import gate\n", "PROJ.store.sqlite imports PROJ.core.gate (line 1)"),
        ("model.py", "import requests\n", "PROJ.model imports requests (line 1)"),
        ("model.py", "import socket\n", "PROJ.model imports socket (line 1)"),
        ("queue/local.py", "import requests\n", "PROJ.queue.local imports requests (line 1)"),
        ("load/toml.py", "from PROJ.store import sqlite\n", "PROJ.load.toml imports PROJ.store.sqlite (line 1)"),
        ("web/page.py", "import PROJ.work.runner\n", "PROJ.web.page imports PROJ.work.runner (line 1)"),
        ("sim/world.py", "import time\n", "PROJ.sim.world imports time (line 1)"),
        ("work/runner.py", "import PROJ.queue.local\n", "PROJ.work.runner imports PROJ.queue.local (line 1)"),
    ],
)
def test_one_import_too_many_is_named_with_module_and_line(broken: Any, path: str, text: str, complaint: str) -> None:
    assert broken({path: text}) == [complaint]


def test_an_import_on_two_lines_names_both(broken: Any) -> None:
    text = "import asyncio\n\nimport asyncio\n"
    assert broken({"when/clock.py": text}) == ["PROJ.when.clock imports asyncio (line 1, 3)"]


def test_what_a_package_must_never_reach_it_must_not_reach_through_others(broken: Any) -> None:
    """Work may import core.drop_guard and core may import numpy, but work must stay free of numpy."""
    assert broken({"core/drop_guard.py": "import numpy\n"}) == [
        "PROJ.work.runner reaches numpy: PROJ.work.runner -> PROJ.core.drop_guard -> numpy"
    ]


def test_a_package_reached_through_others_is_found_as_well(broken: Any) -> None:
    changes = {"core/drop_guard.py": "from PROJ.core import helper\n", "core/helper.py": "import PROJ.store.sqlite\n"}
    assert broken(changes) == [
        "PROJ.core.helper imports PROJ.store.sqlite (line 1)",
        "PROJ.work.runner reaches store: "
        "PROJ.work.runner -> PROJ.core.drop_guard -> PROJ.core.helper -> PROJ.store.sqlite",
    ]


def test_a_row_may_name_one_module_of_a_package(broken: Any) -> None:
    assert broken({"work/runner.py": "import PROJ.core.drop_guard\n"}) == []
    assert broken({"work/runner.py": "import PROJ.core.gate\n"})[0] == (
        "PROJ.work.runner imports PROJ.core.gate (line 1)"
    )


def test_a_package_that_is_not_in_the_table_is_reported(broken: Any) -> None:
    assert broken({"attic/box.py": "import os\n"}) == [
        "PROJ.attic: the table has no row for 'attic'",
        "PROJ.attic.box: the table has no row for 'attic'",
    ]


def test_several_problems_are_all_named(broken: Any) -> None:
    assert broken({"when/clock.py": "import time\n", "model.py": "import requests\n"}) == [
        "PROJ.model imports requests (line 1)",
        "PROJ.when.clock imports time (line 1)",
    ]


SUB_PACKAGES = ["node: model", "node.loop: node.clock, model", "node.cluster: node.loop"]
NODE = {
    "model.py": "",
    "node/clock.py": "",
    "node/scheduler.py": "from PROJ.node.loop import turn\nfrom PROJ.node.cluster import relay\n",
    "node/loop/turn.py": "import PROJ.node.clock\nimport PROJ.model\nfrom PROJ.node.loop import turn_pacing\n",
    "node/loop/turn_pacing.py": "",
    "node/cluster/relay.py": "from PROJ.node.loop.turn import Turn\n",
}


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        (
            "node/loop/turn_pacing.py",
            "import PROJ.node.scheduler\n",
            "PROJ.node.loop.turn_pacing imports PROJ.node.scheduler (line 1)",
        ),
        (
            "node/loop/turn_pacing.py",
            "from PROJ.node.cluster import relay\n",
            "PROJ.node.loop.turn_pacing imports PROJ.node.cluster.relay (line 1)",
        ),
        ("node/cluster/relay.py", "import PROJ.model\n", "PROJ.node.cluster.relay imports PROJ.model (line 1)"),
        ("node/clock.py", "import numpy\n", "PROJ.node.clock imports numpy (line 1)"),
    ],
)
def test_the_row_of_a_sub_package_replaces_that_of_its_package(
    broken: Any, path: str, text: str, complaint: str
) -> None:
    assert broken({}, NODE, SUB_PACKAGES) == ["PROJ.model: the table has no row for 'model'"]
    assert broken({path: text}, NODE, ["model: ", *SUB_PACKAGES]) == [complaint]


CYCLE_FREE = {"a.py": "import PROJ.b\nimport PROJ.c.d\n", "b.py": "from PROJ.c import d\n", "c/d.py": "import json\n"}


def test_imports_in_one_direction_are_no_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert complaints(tmp_path, MODULE.NoImportCycles, CYCLE_FREE) == []


@pytest.mark.parametrize(
    "text",
    [
        "import PROJ.a\n",
        "def f():\n    from PROJ.a import g\n",
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from PROJ import a\n",
    ],
)
def test_a_cycle_is_found_where_it_is_short_and_wherever_the_import_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    lines = complaints(tmp_path, MODULE.NoImportCycles, {**CYCLE_FREE, "c/d.py": text})
    assert lines == ["import cycle: PROJ.c.d -> PROJ.a -> PROJ.c.d"]


def test_cycles_without_a_module_in_common_are_all_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    files = {"a.py": "import PROJ.b\n", "b.py": "import PROJ.a\n", "c.py": "import PROJ.d\n", "d.py": "import PROJ.c\n"}
    assert complaints(tmp_path, MODULE.NoImportCycles, files) == [
        "import cycle: PROJ.b -> PROJ.a -> PROJ.b",
        "import cycle: PROJ.d -> PROJ.c -> PROJ.d",
    ]


def test_a_known_import_closes_no_cycle_and_is_named_once_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    cyclic = {**CYCLE_FREE, "c/d.py": "import PROJ.a\n"}
    assert complaints(tmp_path, MODULE.NoImportCycles, cyclic, known=["c.d -> a"]) == []
    needless = ": closes no cycle (any more): remove it from the list"
    assert complaints(tmp_path, MODULE.NoImportCycles, CYCLE_FREE, known=["c.d -> a"]) == ["c.d -> a" + needless]
    assert complaints(tmp_path, MODULE.NoImportCycles, CYCLE_FREE, known=["a -> b"]) == ["a -> b" + needless]


def lint_imports(folder: Path, name: str) -> "subprocess.CompletedProcess[str]":
    """The command that a developer runs, with the real table, on another project."""
    lists = "\n".join(f"{key} = {TABLE[key]!r}" for key in ("may_import", "never"))
    (folder / "lint.toml").write_text(
        f"[tool.importlinter]\nroot_package = '{name}'\ninclude_external_packages = true\n"
        f"contract_types = {IMPORT_LINTER['contract_types']!r}\n"
        f"[[tool.importlinter.contracts]]\nname = 'The table'\ntype = '{TABLE['type']}'\n{lists}\n"
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


def test_the_command_passes_a_clean_project(tmp_path: Path) -> None:
    done = lint_imports(tmp_path, build(tmp_path, CLEAN))
    assert "The table KEPT" in done.stdout
    assert done.returncode == 0


def test_the_command_fails_and_prints_module_and_line(tmp_path: Path) -> None:
    name = build(tmp_path, {**CLEAN, "when/clock.py": "import math\nimport asyncio\n"})
    done = lint_imports(tmp_path, name)
    assert "The table BROKEN" in done.stdout
    assert f"{name}.when.clock imports asyncio (line 2)" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_the_table_has_one_row_for_every_package(package: str) -> None:
    rows = [line.partition(":")[0] for line in TABLE["may_import"]]
    assert rows.count(package) == 1


def test_the_table_names_no_package_or_module_that_does_not_exist() -> None:
    names = {line.partition(":")[0] for key in ("may_import", "never") for line in TABLE[key]}
    names |= {name.strip() for line in TABLE["may_import"] for name in line.partition(":")[2].split(",") if "." in name}
    paths = [SOURCE.joinpath(*name.split(".")) for name in sorted(names)]
    assert [path for path in paths if not path.is_dir() and not path.with_suffix(".py").is_file()] == []
