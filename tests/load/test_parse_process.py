"""A file that is read in a process of its own says the same, and is wrong at the same places."""

import sys
from pathlib import Path

import pytest

from evenbeat.load import parse_process
from evenbeat.load.config import BadFileError, Config
from evenbeat.load.files import load_file
from evenbeat.load.parse_process import load_in_subprocess

EXAMPLE = """
[node]
max_concurrent = 7
keep = "3d"
durability = "full"
[periods.office]
ranges = ["monday-friday 09:00-17:00"]
[limits]
db = 2
[checks."web {n}"]
for.n = ["[0-1200]"]
every = "5m"
period = "office"
limit = "db"
command = ["check_http", "-H", "ümlaut{n}"]
labels = { site = "a" }
[tasks.call]
cron = "H 3 * * *"
function = "m:f"
args = [1, 2.5, "x", true]
kwargs = { deep = false }
weight = 2
"""
BAD = "[tasks.a]\nevery = '5 parsecs'\ncommand = ['x']\n[tasks.b]\ncron = '* * * *'\ncommand = ['x']\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parse_process, "SUBPROCESS_FROM_BYTES", 10)
    path = tmp_path / "a.toml"
    path.write_text(EXAMPLE)
    return path


def not_here(_: Path) -> Config:
    pytest.fail("it was read here")


def test_it_says_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = load_file(file)
    monkeypatch.setattr(parse_process, "load_file", not_here)
    assert load_in_subprocess(file) == here
    assert len(here.tasks) == 1_202


def test_a_file_without_tasks_is_no_trouble(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("# nothing at all\n")
    monkeypatch.setattr(parse_process, "load_file", not_here)
    assert load_in_subprocess(file) == Config((), {}, {}, None)


def test_its_problems_are_told_as_here(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(BAD)
    with pytest.raises(BadFileError) as here:
        load_file(file)
    monkeypatch.setattr(parse_process, "load_file", not_here)
    with pytest.raises(BadFileError) as elsewhere:
        load_in_subprocess(file)
    assert (elsewhere.value.errors, elsewhere.value.errors_omitted) == (here.value.errors, here.value.errors_omitted)
    assert str(elsewhere.value) == str(here.value)


@pytest.mark.parametrize("program", ["/nobody/has/this", "/bin/true", "/bin/echo"])
def test_without_an_answer_it_is_read_here(file: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert load_in_subprocess(file) == load_file(file)


def test_a_small_file_is_read_here(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_process, "SUBPROCESS_FROM_BYTES", file.stat().st_size + 1)
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("it was read elsewhere"))
    assert load_in_subprocess(file) == load_file(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"gone\.toml: No such file"):
        load_in_subprocess(tmp_path / "gone.toml")
