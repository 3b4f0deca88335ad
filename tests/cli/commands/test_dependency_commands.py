"""Dependencies on the command line, on a database that no node is running on."""

from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.model import MINUTE, Outcome, RunKind
from evenbeat.store.contract import FOREVER, NEVER, Batch, ProgressRecord, SubmittedResult
from evenbeat.store.sqlite.sqlite_store import SqliteStore

NOW = 4_000_000_000_000_000
"""Far ahead: no result is overdue."""


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evenbeat: Evenbeat) -> Path:
    path = tmp_path / "tasks.db"
    monkeypatch.setenv("EVENBEAT_DB", str(path))
    keys = ("--every", "1h", "--attempts", "1", "--owner", "ana")
    assert evenbeat("add", "gw", "--check", *keys, "--", "true").code == 0
    assert evenbeat("add", "web", "--check", *keys, "--depends", "gw", "--", "true").code == 0
    found = evenbeat(
        *("add", "job", "--every", "1h", "--owner", "ana", "--depends-any", "gw", "--depends-any", "web"),
        *("--when-unreachable", "skip", "--", "true"),
    )
    assert (found.code, found.err) == (0, "")
    return path


def fail(database: Path, name: str, state: int) -> None:
    """A result, as a node would have recorded it."""
    store = SqliteStore(database)
    entry = store.find(name)
    assert entry is not None
    number = entry.number
    place = ProgressRecord(number, NOW, FOREVER, 0, NEVER, NOW)
    result = SubmittedResult(
        *(number, NOW, 0, RunKind.TOLD, NOW, NOW, NOW, Outcome.FAILED.value, state, "", state, state, True, 1, 0),
        *(False, NOW, NOW, FOREVER, 0, True),
    )
    store.record(Batch(standings=[place], told=[result])).result()
    store.close()


def test_a_task_is_added_with_what_it_depends_on(evenbeat: Evenbeat) -> None:
    job = evenbeat("show", "job", "--json").json["task"]
    assert (job["depends_any"], job["when_unreachable"]) == (["gw", "web"], "skip")
    assert evenbeat("set", "job", 'depends=["web"]', "depends_any=").code == 0
    assert evenbeat("show", "job", "--json").json["task"]["depends"] == ["web"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("set", "web", 'depends=["gww"]'), "depends: there is no check 'gww', did you mean 'gw'?"),
        (("set", "web", 'depends=["web"]'), "depends: 'web' cannot depend on itself"),
        (("set", "web", 'depends=["job"]'), "depends: 'job' is no check: only the state of a check says whether it is"),
        (("set", "gw", 'depends=["web"]'), "depends: tasks depend on each other in a circle: gw -> web -> gw"),
        (("set", "gw", "when_unreachable=skip"), "`when_unreachable` has no effect here: the task depends on nothing"),
        (("rm", "gw"), "the check 'gw' must stay, under this name: tasks depend on it: 'job' of ana, 'web' of ana"),
    ],
)
def test_what_is_wrong_is_said(evenbeat: Evenbeat, argv: tuple[str, ...], message: str) -> None:
    before = evenbeat("ls", "--json").json
    found = evenbeat(*argv)
    assert found.code == 2
    assert message in found.err
    assert evenbeat("ls", "--json").json == before


def test_all_may_go_together(evenbeat: Evenbeat) -> None:
    assert evenbeat("rm", "gw", "web", "job").code == 0


def test_lists_say_what_is_unreachable(evenbeat: Evenbeat, database: Path) -> None:
    assert evenbeat("ls", "--state", "unreachable", "--json").json["tasks"] == []
    fail(database, "gw", 2)
    found = evenbeat("ls", "--state", "unreachable", "--json").json["tasks"]
    assert [(task["name"], task["unreachable_through"]) for task in found] == [("job", ["gw", "web"]), ("web", ["gw"])]
    lines = evenbeat("ls").out.splitlines()
    assert [line.split("   ")[0] for line in lines if "unreachable" in line] == ["job", "web"]
    shown = evenbeat("show", "job").out
    assert "unreachable: 'gw', 'web' are not fine; its runs are skipped" in shown
    why = evenbeat("why", "job").out
    assert "'gw' is CRITICAL" in why
    assert "'web' is unreachable itself, through 'gw'" in why
    fail(database, "gw", 1)
    assert evenbeat("ls", "--state", "unreachable", "--json").json["tasks"] == []


def test_a_check_that_has_not_been_run_for_long_counts_as_fine(evenbeat: Evenbeat, database: Path) -> None:
    fail(database, "gw", 2)
    store = SqliteStore(database)
    entry = store.find("gw")
    assert entry is not None
    store.record(Batch(standings=[ProgressRecord(entry.number, MINUTE, FOREVER, 0, NEVER, NOW)])).result()
    store.close()
    assert evenbeat("show", "gw", "--json").json["stale"]
    assert evenbeat("ls", "--state", "unreachable", "--json").json["tasks"] == []


def test_check_config_says_the_same(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    keys = 'every = "1h"\ncommand = ["true"]\n'
    file.write_text(f'[checks.a]\n{keys}depends = ["b"]\n[checks.b]\n{keys}depends = ["a"]\n')
    found = evenbeat("check-config", str(file))
    assert (found.code, found.err) == (2, f"{file}:4:11: tasks depend on each other in a circle: a -> b -> a\n")
    assert evenbeat("apply", str(file)).err.endswith(found.err)
