"""`evenbeat problems`, `ack` and `comment` on a database without a node; tests/client asks live nodes and URLs."""

from pathlib import Path
from typing import Any

import pytest
from problem_seeds import seed_problem

from conftest import Evenbeat
from evenbeat.model import Cause, State
from evenbeat.store.contract import Batch
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_hold, a_task


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Four tasks: `web` and `db` have open problems, `job` fails, `mail` had a problem."""
    path = tmp_path / "a.db"
    store = SqliteStore(path)
    checks = [a_task(name, check=True, enabled=False, team=team) for name, team in (("web", "ops"), ("db", "data"))]
    store.create(checks, "ana", T0)
    seed_problem(store, "web")
    seed_problem(store, "db", State.WARNING)
    seed_problem(store, "job", cause=Cause.FAILED)
    seed_problem(store, "mail")
    seed_problem(store, "mail", at=T0 + 60_000_000, is_open=False)
    store.close()
    return str(path)


def listed(evenbeat: Evenbeat, *argv: str) -> list[str]:
    result = evenbeat("problems", "--json", *argv)
    assert list(result.json) == ["problems", "more"]
    return [problem["task"] for problem in result.json["problems"]]


def one(evenbeat: Evenbeat, database: str, task: str) -> dict[str, Any]:
    (problem,) = evenbeat("problems", task, "--all", "--json", "--db", database).json["problems"]
    found: dict[str, Any] = problem
    return found


@pytest.mark.parametrize(
    ("argv", "tasks"),
    [
        ([], ["job", "db", "web"]),
        (["--all"], ["mail", "job", "db", "web"]),
        (["--closed"], ["mail"]),
        (["web", "m*"], ["web"]),
        (["w?b", "--all"], ["web"]),
        (["--owner", "ana", "--label", "team=data"], ["db"]),
        (["--owner", "bob"], []),
        (["--cause", "failed"], ["job"]),
        (["--state", "warning"], ["db"]),
        (["--acknowledged"], ["db"]),
        (["--unacknowledged", "--all"], ["mail", "job", "web"]),
        (["-n", "2"], ["job", "db"]),
    ],
)
def test_problems_are_listed_newest_first_by_what_is_asked_for(
    evenbeat: Evenbeat, database: str, argv: list[str], tasks: list[str]
) -> None:
    assert evenbeat("ack", "db", "--db", database).code == 0
    assert listed(evenbeat, *argv, "--db", database) == tasks


def test_people_read_a_table(evenbeat: Evenbeat, database: str) -> None:
    evenbeat("ack", "web", "-m", "on it\nsoon", "--db", database)
    head, job, db, web = evenbeat("problems", "--db", database).out.splitlines()
    assert head.split() == ["id", "state", "since", "task", "acknowledged", "output"]
    assert [line.split()[1] for line in (job, db, web)] == ["failing", "WARNING", "CRITICAL"]
    assert ": on it" in web
    assert "soon" not in web
    assert "mail" not in evenbeat("problems", "--db", database).out
    assert "CRITICAL, over" in evenbeat("problems", "--closed", "--db", database).out
    assert evenbeat("problems", "--owner", "bob", "--db", database).out == "no open problems\n"
    assert "--limit shows more than 1" in evenbeat("problems", "-n", "1", "--db", database).out


def test_the_exit_status_is_that_of_ls(evenbeat: Evenbeat, database: str) -> None:
    assert evenbeat("problems", "--owner", "bob", "--db", database).code == 0
    assert evenbeat("problems", "web", "--db", database).code == 0
    assert evenbeat("problems", "mail", "--db", database).code == 1
    assert evenbeat("problems", "nothing*", "--db", database).code == 1


def test_one_problem_is_shown_with_its_times_and_notes(evenbeat: Evenbeat, database: str) -> None:
    number = str(one(evenbeat, database, "web")["id"])
    evenbeat("ack", "web", "-m", "on it", "--for", "2h", "--sticky", "--db", database)
    evenbeat("comment", "web", "two lines\nof words", "--db", database)
    result = evenbeat("problems", "--id", number, "--db", database)
    assert result.code == 0
    assert "opened Fri 2027-01-15 08:00:00+00:00" in result.out
    assert "sticky: on it" in result.out
    assert "commented: two lines\n    of words" in result.out
    document = evenbeat("problems", "--id", number, "--json", "--db", database).json
    assert [note["action"] for note in document.pop("notes")] == ["acknowledged", "commented"]
    # It opened in the future, by the clock of the test.
    assert [entry["kind"] for entry in document.pop("timeline")] == ["acknowledged", "commented", "opened"]
    assert document == one(evenbeat, database, "web")
    assert document["acknowledged"]["sticky"] is True


def test_a_problem_that_is_held_says_why_nobody_is_notified(evenbeat: Evenbeat, database: str) -> None:
    number = one(evenbeat, database, "web")["id"]
    store = SqliteStore(Path(database))
    found = store.find_problem(number)
    assert found is not None
    store.record(Batch(holds=[a_hold(found.number, "downtime", T0 + 60_000_000)])).result()
    store.close()
    web, db = one(evenbeat, database, "web"), one(evenbeat, database, "db")
    assert (web["hold"], web["held_since"]) == ("downtime", "2027-01-15T08:01:00+00:00")
    assert "hold" not in db
    words = "nobody is notified of it since Fri 2027-01-15 08:01:00+00:00: downtime"
    assert f"\n  {words}\n" in evenbeat("problems", "--id", str(number), "--db", database).out
    assert "nobody is notified" not in evenbeat("problems", "--id", str(db["id"]), "--db", database).out
    assert any(words in reason for reason in evenbeat("why", "web", "--json", "--db", database).json["reasons"])


def test_ack_and_withdraw_say_what_they_did(evenbeat: Evenbeat, database: str) -> None:
    number = one(evenbeat, database, "web")["id"]
    assert evenbeat("ack", "web", "--db", database).out == f"acknowledged: problem {number} of web\n"
    assert evenbeat("ack", "*", "--db", database).out == "acknowledged: 3 problems of 3 tasks\n"
    found = evenbeat("ack", "web", "--withdraw", "--json", "--db", database)
    assert (found.code, found.json) == (0, {"ids": [number], "tasks": ["web"]})
    assert one(evenbeat, database, "web")["acknowledged"] is None
    again = evenbeat("ack", "web", "--withdraw", "--json", "--db", database)
    assert (again.code, again.json) == (1, {"ids": [], "tasks": []})
    assert again.err == "evenbeat ack: 'web' is not acknowledged\n"
    assert evenbeat("ack", "--id", str(number), "--db", database).code == 0
    assert one(evenbeat, database, "web")["acknowledged"] is not None


def test_a_task_without_an_open_problem_is_said_so(evenbeat: Evenbeat, database: str) -> None:
    for argv in (["ack", "mail"], ["comment", "mail", "hm"]):
        result = evenbeat(*argv, "--db", database)
        assert (result.code, result.out) == (1, "")
        assert result.err == f"evenbeat {argv[0]}: 'mail' has no open problem\n"


def test_a_closed_problem_takes_a_comment_by_its_id(evenbeat: Evenbeat, database: str) -> None:
    number = str(one(evenbeat, database, "mail")["id"])
    assert evenbeat("comment", "--id", number, "it was the disk", "--db", database).code == 0
    assert evenbeat("ack", "--id", number, "--db", database).err == f"evenbeat ack: problem {number} is closed\n"
    assert "it was the disk" in evenbeat("problems", "--id", number, "--db", database).out


def test_who_did_it_is_in_the_audit(evenbeat: Evenbeat, database: str) -> None:
    evenbeat("ack", "web", "-m", "on it", "--db", database)
    (change,) = evenbeat("audit", "web", "-n", "1", "--json", "--db", database).json["changes"]
    assert change["action"] == "acknowledged"
    assert change["detail"].endswith(": on it")
    assert change["who"] == one(evenbeat, database, "web")["acknowledged"]["by"]


def test_show_and_why_say_it(evenbeat: Evenbeat, database: str) -> None:
    evenbeat("ack", "web", "-m", "on it", "--db", database)
    assert ": on it" in evenbeat("show", "web", "--db", database).out
    problems = evenbeat("show", "web", "--json", "--db", database).json["problems"]
    assert problems == [one(evenbeat, database, "web")]
    assert evenbeat("show", "mail", "--json", "--db", database).json["problems"] == []
    (said,) = [r for r in evenbeat("why", "web", "--json", "--db", database).json["reasons"] if "problem" in r]
    assert said.startswith(f"open problem {problems[0]['id']}: CRITICAL since Fri 2027-01-15 08:00:00+00:00, acknowl")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["ack"], "which tasks?"),
        (["ack", "wbe"], "there is no task 'wbe'; did you mean 'web'?"),
        (["ack", "web", "--until", "2001-01-01"], "--until: 2001-01-01 has passed"),
        (["ack", "web", "--until", "soon"], "--until: 'soon' is not a time"),
        (["ack", "web", "--for", "0s"], "--for: 0s is no time at all"),
        (["ack", "web", "--for", "1h", "--until", "2199-01-01"], "not allowed with argument"),
        (["ack", "web", "--withdraw", "-m", "x"], "--withdraw: "),
        (["ack", "web", "-m", "x" * 5_000], "5,000 characters, accepted: at most 4,096"),
        (["ack", "web", "-m", "a\x1b[2Jb"], "U+001B"),
        (["ack", "--id", "99"], "there is no problem 99"),
        (["ack", "--id", "99999999999999999999"], "--id: 99999999999999999999 is out of range"),
        (["comment", "web", " "], "an empty comment"),
        (["comment", "hm"], "which problem? Give either NAME or --id"),
        (["comment", "wbe", "hm"], "did you mean 'web'?"),
        (["problems", "--id", "99"], "--id: there is no problem 99"),
        (["problems", "--id", "0"], "--id: 0 is out of range"),
        (["problems", "web", "--id", "1"], "needs neither names nor other options"),
        (["problems", "--limit", "0"], "--limit: 0 is out of range"),
        (["problems", "--label", "team"], "--label: 'team' is not K=V"),
        (["problems", "--closed", "--all"], "not allowed with argument"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    evenbeat: Evenbeat, database: str, argv: list[str], said: str
) -> None:
    result = evenbeat(*argv, "--db", database)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert listed(evenbeat, "--acknowledged", "--db", database) == []


def test_a_comment_cannot_command_the_terminal_or_forge_a_line(evenbeat: Evenbeat, database: str) -> None:
    evenbeat("ack", "web", "-m", "a\n99   CRITICAL   forged", "--db", database)
    assert len(evenbeat("problems", "--db", database).out.splitlines()) == 4
    lines = evenbeat("audit", "web", "-n", "1", "--db", database).out.splitlines()
    assert len(lines) == 1
