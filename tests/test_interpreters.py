"""Which Pythons the suite runs on, and that the package says the same."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tools.interpreters import OLDEST, oldest_and_newest, version_of

ROOT = Path(__file__).parents[1]


def install(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    return program


def test_the_oldest_and_the_newest_of_this_machine_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = install(tmp_path / "bin", "python3", "echo 3 12")
    install(tmp_path / "bin", "python3.13", "exit 127")
    install(tmp_path / "bin", "python3.10", "echo 3 10")
    (tmp_path / "bin" / "python3.12").symlink_to(usual)
    install(tmp_path / "bin", "python3-config", "echo 3 99")
    install(tmp_path / "pyenv" / "shims", "python3.14", "echo 3 14")
    newest = install(tmp_path / "pyenv" / "versions" / "3.13.0" / "bin", "python3", "echo 3 13")
    monkeypatch.setenv("PATH", f"{tmp_path}/pyenv/shims:{tmp_path}/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert oldest_and_newest() == [usual, newest]
    newest.unlink()
    assert oldest_and_newest() == [usual]
    usual.unlink()
    with pytest.raises(SystemExit, match=r"no Python from 3\.11 on"):
        oldest_and_newest()


def test_the_python_that_runs_this_test_is_one(tmp_path: Path) -> None:
    assert version_of(Path(sys.executable)) == sys.version_info[:2]
    assert version_of(tmp_path / "missing") is None


def test_the_package_names_the_oldest_python_that_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={OLDEST[0]}.{OLDEST[1]}"
    assert f"Programming Language :: Python :: {OLDEST[0]}.{OLDEST[1]}" in project["classifiers"]


def test_each_python_gets_an_environment_of_its_own() -> None:
    usual, other = planned("test"), planned("test", f"PYTHON={sys.executable}")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert ".venv/bin/python -m pytest" in usual
    assert f".venv-{version}/bin/python -m pytest" in other
    assert f"{sys.executable} -m venv .venv-{version}" in other


def planned(*words: str) -> str:
    """What make would do, asked from a shell: a make that runs these tests passes on what it was asked for."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    command = ["make", "--dry-run", "--always-make", *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
