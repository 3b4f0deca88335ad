"""The task commands on a node over HTTP: each is run on the database and on the URL of one node, and tells the same."""

import json
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from waiting import PATIENCE, eventually

from conftest import Evenbeat, Result
from evenbeat.cli.main import main
from evenbeat.cli.which_database import user_name
from evenbeat.client import http, http_connection

SECRET = "evb_AAAAAAAA_of-nobody"
PLACES = ("d", "u")
"""What `@` stands for: each side has tasks of its own, of names of the same length."""


class Served(NamedTuple):
    database: Path
    url: str
    token: str
    reader: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node that lets in who has a token."""
    folder = tmp_path_factory.mktemp("served")
    database, log = folder / "a.db", folder / "log"
    tokens = []
    for role in ("admin", "read"):
        with redirect_stdout(StringIO()) as out:
            assert main(["token", "add", role, "--role", role, "--db", str(database)]) == 0
        tokens.append(out.getvalue().strip())
    with log.open("wb") as file:
        argv = ["up", "--json", "--workers", "1", "--db", str(database), "--listen", "127.0.0.1:0"]
        node = subprocess.Popen([sys.executable, "-m", "evenbeat", *argv], stdout=subprocess.DEVNULL, stderr=file)
    found = eventually(lambda: re.search(r"url=(\S+)", log.read_text()) or node.poll() is not None)
    assert isinstance(found, re.Match), log.read_text()
    yield Served(database, found[1], *tokens)
    node.terminate()
    node.wait(PATIENCE)
    assert tokens[0][4:] not in log.read_text()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENBEAT_DB", "EVENBEAT_URL", "EVENBEAT_TOKEN", "EVENBEAT_CA"):
        monkeypatch.delenv(name, raising=False)


Both = Callable[..., Result]


@pytest.fixture
def both(served: Served, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Run a command both ways; it must tell the same, up to what differs from run to run."""
    monkeypatch.setenv("EVENBEAT_TOKEN", served.token)

    def run(command: str, *argv: str) -> Result:
        options = (["--db", str(served.database)], ["--url", served.url])
        near, far = (
            evenbeat(command, *option, *(word.replace("@", place) for word in argv))
            for place, option in zip(PLACES, options, strict=True)
        )
        assert plain(far) == plain(near)
        return far

    return run


def plain(result: Result) -> tuple[int, str, str]:
    return result.code, _plain(result.out), _plain(result.err)


def _plain(text: str) -> str:
    for pattern, word in (
        (r"\b[du]-", "@-"),
        (r'"[du]"', '"@"'),
        (r"\b[du]\.toml", "@.toml"),
        ("upload:", "file:"),  # what was read elsewhere is no file of the node
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?\+\d\d:\d\d", "TIME"),
        (r"just now|less than a second|which is now", "1 s"),
        (r"(in )?\d+ (d|h|min|s)( \d+ (h|min|s))?( ago)?", "SPAN"),
        (r"[-+]?\d+\.\d+ m?s\b", "SECONDS"),
        (r"(?m)^\d+  ", "N  "),  # ids of problems, and who acknowledged them: a token, or a user
        (r"problem \d+", "problem N"),
        (r"\"id\": \d+", '"id": N'),
        (rf"by (admin|{user_name()})\b", "by WHO"),
        (rf'"owner": "(admin|{user_name()})"', '"owner": "WHO"'),
        (rf'"by": ?"(admin|{user_name()})"', '"by": "WHO"'),
        (r"evb_beat_[\w-]{32}", "TOKEN"),
        (r"  +", "  "),
    ):
        text = re.sub(pattern, word, text)
    return text


@pytest.fixture
def tasks(both: Both, served: Served, evenbeat: Evenbeat) -> Iterator[None]:
    """On both sides a task, a check that fails, and a passive one, paused; what is there afterwards goes."""
    both("add", "@-one", "--every", "1d", "--phase", "1h", "--owner", "ana", "--label", "side=@", "--", "echo", "hi")
    both(
        "add", "@-bad", "--check", "--cron", "0 3 * * *", "--zone", "Europe/Paris", "--", "sh", "-c", "echo no; exit 2"
    )
    both("add", "@-told", "--passive", "--every", "1d", "--phase", "0s")
    both("pause", "@-told")

    def have_run() -> bool:
        found = evenbeat("ls", "?-bad", "--json", "--db", str(served.database)).json["tasks"]
        return all(task["outcome"] for task in found)

    eventually(have_run)  # a new check runs at once, and then the next day
    yield
    both("rm", "@-*")


# Changes


class TestChanging:
    def test_add(self, both: Both) -> None:
        keys = ["--every", "1d", "--phase", "1h", "--timebox", "30s", "--env", "A=5", "--disabled"]
        assert both("add", "@-x", *keys, "--", "true").out == "created u-x\n"
        function = ["--function", "m:f", "--arg", "5", "--kwarg", "k=true"]
        assert both("add", "@-y", "--calendar", "daily", *function, "--json").json["created"] == ["u-y"]
        for name in ("@-x", "@-y"):
            both("show", name, "--json")
        assert "there is a task of this name already" in both("add", "@-x", "--every", "1d", "--", "true").err
        assert "there is no period 'p'" in both("add", "@-z", "--every", "1d", "--period", "p", "--", "true").err
        assert "there is nothing to run" in both("add", "@-z", "--every", "1d").err
        assert "is not a unit" in both("add", "@-z", "--every", "5x", "--", "true").err
        assert both("rm", "@-?", "--json").json["removed"] == ["u-x", "u-y"]

    @pytest.mark.usefixtures("tasks")
    def test_set(self, both: Both) -> None:
        assert both("set", "@-one", "priority=5", "labels.a=b").out == "changed u-one\n"
        assert both("set", "@-one", "priority=5").out == "1 unchanged\n"
        assert both("set", "@-one", "cron=0 3 * * *", "--json").json["changed"] == ["u-one"]
        assert both("show", "@-one", "--json").json["version"] == 3
        assert both("set", "@-one", "nope=1").code == 2
        assert both("set", "@-one", "limit=nobody").code == 2
        assert both("set", "@-told", "grace=5m").code == 0
        assert both("show", "@-told", "--json").json["paused"]
        assert "did you mean 'u-one'?" in both("set", "@-onee", "priority=1").err

    @pytest.mark.usefixtures("tasks")
    def test_pause_resume_and_rm(self, both: Both) -> None:
        assert both("pause", "--label", "side=@", "--json").json["changed"] == ["u-one"]
        assert both("pause", "@-one", "@-told").out == "2 unchanged\n"
        assert both("resume", "@-*").out == "2 changed, 1 unchanged\n"
        assert both("pause", "@-nobody*").code == 1
        assert both("rm").code == 2
        assert both("rm", "@-one", "@-two").code == 2
        assert both("rm", "@-one").out == "removed u-one\n"
        assert both("rm", "--owner", "nobody").code == 1

    @pytest.mark.usefixtures("tasks")
    def test_run(self, both: Both) -> None:
        assert "hi" in both("run", "@-one", "--wait").out
        waited = both("run", "@-one", "@-bad", "--wait", "--json")
        assert (waited.code, [run["outcome"] for run in waited.json["runs"]]) == (1, ["succeeded", "failed"])
        assert both("run", "@-one", "--json").json["asked"] == ["u-one"]
        passive = both("run", "@-one", "@-told")
        assert (passive.code, "is a passive check" in passive.err) == (2, True)
        assert both("run", "@-two").code == 2

    @pytest.mark.usefixtures("tasks")
    def test_stop(self, both: Both, served: Served, evenbeat: Evenbeat) -> None:
        both("add", "@-long", "--every", "1d", "--phase", "1h", "--label", "side=@", "--", "sleep", "600")
        both("run", "@-long")
        eventually(
            lambda: all(
                task["running_since"]
                for task in evenbeat("ls", "?-long", "--json", "--db", str(served.database)).json["tasks"]
            )
        )
        assert both("stop", "@-long", "--reason", "two\nlines").code == 2
        waited = both("stop", "@-lon*", "@-one", "--reason", "wrong database", "--wait", "--json")
        assert (waited.code, [run["found"] for run in waited.json["stopped"]]) == (0, ["run", "nothing"])
        ended = waited.json["stopped"][0]["run"]
        assert (ended["outcome"], "wrong database" in ended["output"]) == ("cancelled", True)
        assert both("stop", "@-long").code == 1
        assert "did you mean 'u-long'?" in both("stop", "@-lomg").err
        assert both("stop").code == 2
        both("rm", "@-long")

    @pytest.mark.usefixtures("tasks")
    def test_result_and_heartbeat(self, both: Both) -> None:
        assert both("result", "@-told", "warning", "slow | t=5s", "--ttl", "1d").code == 0
        assert both("result", "@-told", "2", "gone", "--json").json["state"] == "critical"
        old = both("result", "@-told", "ok", "--at", "2026-11-01", "--json")
        assert old.json["newest"] is False
        assert both("result", "@-one", "ok").code == 2
        assert both("result", "@-told", "fine").code == 2
        assert both("heartbeat", "@-told", "--drop").code == 2
        assert both("heartbeat", "@-one").code == 2

    @pytest.mark.usefixtures("tasks")
    def test_the_url_of_a_heartbeat_is_shown_and_tested(self, both: Both, served: Served, evenbeat: Evenbeat) -> None:
        made = both("heartbeat", "@-told")
        assert made.out.startswith(f"{served.url}v1/beat/evb_beat_")
        assert f"{made.out.strip()}/$?" in made.err
        tested = both("heartbeat", "@-told", "--test")
        assert (tested.code, "the test arrived" in tested.out) == (0, True)
        shown = evenbeat("show", "d-told", "--json", "--db", str(served.database)).json
        assert (shown["state"], shown["runs"][0]["kind"]) == (None, "log"), "a test changes no state"
        found = both("heartbeat", "@-told", "--test", "--json").json
        assert (found["url"], found["problem"]) == (f"{served.url}v1/beat/{found['token']}", None)
        for url, problem in (
            (f"{served.url}v1/beat/evb_beat_{'x' * 32}", "HTTP Error 404"),
            (found["url"], "it is not the one of '@-told'"),
            ("http://127.0.0.1:1/v1/beat/x", "Connection refused"),
        ):
            wrong = evenbeat("heartbeat", "d-told", "--test", url, "--db", str(served.database))
            assert (wrong.code, problem.replace("@", "d") in wrong.err) == (1, True), wrong.err
        assert both("heartbeat", "@-told", "--test", "ftp://x").code == 2
        assert both("heartbeat", "@-told", "--test", "--drop").code == 2

    def test_periods(self, both: Both) -> None:
        assert both("periods", "set", "@-days off", "december 25").out.startswith("created ")
        keys = ("zone=Europe/Paris", "exclude=@-days off")
        assert both("periods", "set", "@-office", "monday-friday 09:00-17:00", *keys).code == 0
        shown = both("periods", "@-office", "--json").json
        assert (shown["ranges"], shown["zone"]) == (["monday-friday 09:00-17:00"], "Europe/Paris")
        assert both("periods", "set", "@-office", "zone=", "--json").json == {"changed": "u-office"}
        assert both("periods", "@-office", "--json").json["zone"] == "UTC"
        assert "monday-friday 09:00-17:00; without @-days off; UTC time".replace("@", "u") in both("periods").out
        for wrong in (
            ("set", "@-office", "mon 25:00-3"),
            ("set", "@-office", "exclude=@-nothing"),
            ("set", "@-office", "exclude=@-office"),
            ("set", "@-office", "bogus=3"),
            ("set", "@-office", "a", "ranges=b"),
            ("set", " ", "a"),
            ("set", "@-office"),
            ("set",),
            ("rm", "@-nothing"),
            ("rm", "@-days off"),
            ("@-nothing",),
            ("ls", "@-office"),
            ("list", "@-office"),
            ("show", "@-office", "more"),
        ):
            assert both("periods", *wrong).code == 2, wrong
        both("add", "@-inside", "--every", "1h", "--period", "@-office", "--", "true")
        assert "uses it" in both("periods", "rm", "@-office").err
        both("rm", "@-inside")
        assert both("periods", "rm", "@-office").out.startswith("removed ")
        both("periods", "rm", "@-days off")
        assert "no periods" in both("periods").out

    def test_apply(self, both: Both, tmp_path: Path) -> None:
        def write(every: str, *names: str, more: str = "") -> str:
            for place in PLACES:
                text = f'[node]\nkeep = "30d"\n[limits]\n{place}-l = 3\n'
                text += f'[periods.{place}-p]\nranges = ["monday-friday"]\n'
                for name in names:
                    text += f'[tasks."{place}-{name}"]\nevery = "{every}"\nphase = "1s"\ncommand = ["true"]\n'
                (tmp_path / f"{place}.toml").write_text(text + more.replace("@", place))
            return str(tmp_path / "@.toml")

        file = write("1d", "a", "b", "c")
        assert both("apply", file).out == "3 created\n"
        assert both("apply", file, "--json").json == {"created": [], "changed": [], "removed": [], "unchanged": 3}
        owner = f"upload:{tmp_path / 'u.toml'}"
        assert both("show", "@-a", "--json").json["owner"] == owner
        said = "@.toml: your change is overwritten when that file is next applied"
        assert said in both("set", "@-a", "priority=1").err.replace("u.toml", "@.toml")
        assert both("rm", "@-c").err.endswith("u.toml creates its tasks again the next time it is applied\n")
        assert both("apply", file, "--json").json["created"] == ["u-c"]
        file = write("2d", "a")
        assert both("apply", file, "--json").json == {
            "created": [],
            "changed": ["u-a"],
            "removed": ["u-b", "u-c"],
            "unchanged": 0,
        }
        refused = both("apply", write("5x", "a"))
        assert refused.code == 2
        assert f"{tmp_path / 'u.toml'}:8:" in refused.err
        both("add", "@-mine", "--every", "1d", "--", "true")
        taken = both("apply", write("3d", "a", "mine"))
        assert (taken.code, "is taken by a task of" in taken.err) == (2, True)
        assert both("show", "@-a", "--json").json["task"]["every"] == "2d"  # all of it or nothing
        assert both("apply", str(tmp_path / "none-@.toml")).code == 2
        write("2d", "a", more='limit = "@-l"\nperiod = "@-p"\n')
        assert both("apply", file).out == "changed u-a\n"
        write("2d")
        assert both("apply", file).out == "removed u-a\n"
        both("rm", "@-mine")


# Questions


@pytest.mark.usefixtures("tasks")
class TestAsking:
    def test_ls(self, both: Both) -> None:
        both("run", "@-one", "@-bad", "--wait")
        for more in ([], ["--json"]):
            assert both("ls", "@-*", *more).out.count("u-") >= 3
            both("ls", "@-one", "@-t*", *more)
            both("ls", "--label", "side=@", "--owner", "ana", *more)
            both("ls", "@-*", "--state", "critical", *more)
            assert both("ls", "@-zzzz", *more).code == 1
            assert both("ls", "@-zzzz*", "--state", "disabled", *more).code == 1

    def test_ls_page_by_page(self, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http, "_PAGE_SIZE", 2)
        names = [task["name"] for task in both("ls", "@-*", "--json").json["tasks"]]
        assert names == ["u-bad", "u-one", "u-told"]

    def test_show(self, both: Both) -> None:
        for _ in range(7):
            both("run", "@-one", "@-bad", "--wait")
        both("result", "@-told", "ok", "fine")
        for name in ("@-one", "@-bad", "@-told"):
            both("show", name)
            both("show", name, "--json")
        assert len(both("show", "@-bad", "--json").json["runs"]) == 5
        assert "did you mean 'u-bad'?" in both("show", "@-bda").err

    def test_history(self, both: Both, served: Served, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(3):
            both("run", "@-one", "@-bad", "--wait")
        for more in ([], ["--failed"], ["--skips"], ["-n", "2"], ["--json"], ["--json", "--failed"]):
            both("history", "@-bad", *more)
        for page in (500, 2):
            monkeypatch.setattr(http, "_PAGE_SIZE", page)
            both("history", "@-one", "--json")
            whole = [evenbeat("history", "-n", "9", "--json", *option).json for option in self.options(served)]
            assert whole[0] == whole[1]
            assert len(whole[0]["runs"]) == 9
        for option in self.options(served):
            assert evenbeat("add", "gone", "--every", "1d", *option, "--", "true").code == 0
            evenbeat("run", "gone", "--wait", *option)
            assert evenbeat("rm", "gone", *option).code == 0
            assert [run["task"] for run in evenbeat("history", "gone", "--json", *option).json["runs"]] == ["gone"]
        assert both("history", "-n", "0").code == 2
        assert both("history", "@-two").code == 2

    def options(self, served: Served) -> tuple[list[str], list[str]]:
        return ["--db", str(served.database)], ["--url", served.url]

    def test_why(self, both: Both) -> None:
        both("run", "@-one", "--wait")
        for name in ("@-one", "@-bad", "@-told"):
            both("why", name)
            both("why", name, "--json")
            both("why", name, "--at", "2026-11-01T10:30")
        assert "--at: 'noon' is not a time" in both("why", "@-one", "--at", "noon").err
        assert both("why", "@-two").code == 2

    def test_problems_ack_and_comment(self, served: Served, evenbeat: Evenbeat, both: Both) -> None:
        assert both("problems", "@-one").out == "no open problems\n"
        assert both("ack", "@-one").err == "evenbeat ack: 'u-one' has no open problem\n"
        assert "did you mean 'u-one'?" in both("ack", "@-onee").err
        assert both("ack", "--id", "999999").code == both("problems", "--id", "999999").code == 2
        both("result", "@-told", "critical", "no answer|x=1")
        near, _ = self.options(served)
        eventually(lambda: held_by_pause(evenbeat("problems", "?-told", "--json", *near).json["problems"]) == 2)
        assert both("ack", "@-told", "--sticky").code == 0
        assert both("comment", "@-told", "on it").code == 0
        for more in ([], ["--all", "--cause", "state"], ["--state", "critical", "--acknowledged"]):
            assert "no answer" in both("problems", "@-told", *more).out
        assert both("problems", "@-told", "--unacknowledged").code == 1
        for command in ("show", "why"):
            assert "acknowledged by" in both(command, "@-told").out
        assert both("ack", "@-told", "--withdraw").code == 0
        assert both("ack", "@-told", "--withdraw").code == 1
        both("result", "@-told", "ok", "fine")
        assert both("problems", "@-told").code == 1
        assert both("problems", "@-told", "--closed").code == 0

    def test_status(self, served: Served, evenbeat: Evenbeat, both: Both) -> None:
        near, far = (evenbeat("status", "--json", *option) for option in self.options(served))
        assert (near.code, far.code) == (0, 0)
        assert list(near.json) == list(far.json)
        steady = ("live", "tasks", "slots", "disabled", "states", "store")
        assert [near.json[key] for key in steady] == [far.json[key] for key in steady]
        near, far = (evenbeat("status", *option) for option in self.options(served))
        assert re.sub(r"[\d.,]+", "N", near.out) == re.sub(r"[\d.,]+", "N", far.out)


def held_by_pause(problems: list[dict[str, Any]]) -> int:
    """How many the node has found to be held: it looks once a second."""
    return sum(problem.get("hold") == "paused" for problem in problems)


@pytest.mark.usefixtures("tasks")
def test_a_name_may_be_anything(both: Both) -> None:
    for name in ("@-a/b c", "@-ü%2F?#&=", "@-[x]"):
        both("add", name, "--every", "1d", "--phase", "1h", "--", "true")
        both("show", name)
        both("run", name, "--wait")
        both("history", name)
        assert both("rm", name).out == f"removed {name.replace('@', 'u')}\n"


def test_a_heartbeat_has_a_token(both: Both, served: Served, evenbeat: Evenbeat) -> None:
    evenbeat("add", "alive", "--passive", "--every", "1d", "--url", served.url)
    made = evenbeat("heartbeat", "alive", "--url", served.url, "--json").json
    assert made["task"] == "alive"
    assert len(made["token"]) > 16
    assert evenbeat("heartbeat", "alive", "--drop", "--url", served.url).code == 0
    evenbeat("rm", "alive", "--url", served.url)


# Where to


class TestWhereTo:
    def test_one_of_them(self, served: Served, evenbeat: Evenbeat) -> None:
        found = evenbeat("ls", "--url", served.url, "--db", str(served.database))
        assert found.code == 2
        assert "--db: not allowed with argument --url" in found.err

    def test_what_is_typed_beats_the_environment(
        self, served: Served, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("EVENBEAT_TOKEN", served.token)
        monkeypatch.setenv("EVENBEAT_URL", served.url)
        assert evenbeat("status", "--json").json["live"] is True
        assert "there is no database" in evenbeat("ls", "--db", str(tmp_path / "none.db")).err
        monkeypatch.setenv("EVENBEAT_DB", str(tmp_path / "none.db"))
        assert evenbeat("ls", "--url", served.url).code == 0
        both_set = evenbeat("ls")
        assert both_set.code == 2
        assert "EVENBEAT_URL and EVENBEAT_DB are both set" in both_set.err

    @pytest.mark.parametrize("argv", [("reload",), ("backup", "x"), ("token", "ls"), ("token", "rm", "x")])
    def test_what_cannot_be_done_over_http_says_so(
        self, served: Served, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
    ) -> None:
        assert evenbeat(*argv, "--url", served.url).code == 2
        monkeypatch.setenv("EVENBEAT_URL", served.url)
        found = evenbeat(*argv)
        assert found.code == 2
        assert "this cannot be done over HTTP" in found.err
        monkeypatch.setenv("EVENBEAT_DB", str(served.database.parent / "none.db"))
        assert "there is no database" in evenbeat(*argv).err

    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("", "this is not the URL of a node"),
            ("localhost:8629", "this is not the URL of a node"),
            ("ftp://localhost", "this is not the URL of a node"),
            ("http://localhost:99999", "this is not the URL of a node"),
            ("http://local host", "this is not the URL of a node"),
            ("http://x\r\nHost: y", "this is not the URL of a node"),
            ("http://ana:secret@localhost", "the token belongs into EVENBEAT_TOKEN"),
            ("http://localhost/?a=secret", "a URL with ? or #"),
        ],
    )
    def test_what_is_no_url_is_refused_and_not_repeated(self, evenbeat: Evenbeat, url: str, problem: str) -> None:
        found = evenbeat("ls", "--url", url)
        assert found.code == 2
        assert problem in found.err
        assert "secret" not in found.err


# Who may


class TestTokens:
    def test_one_is_needed(self, served: Served, evenbeat: Evenbeat) -> None:
        for argv in (["show", "x"], ["add", "x", "--every", "1d", "--passive"], ["status"]):
            found = evenbeat(*argv, "--url", served.url)
            assert (found.code, found.out) == (2, "")
            assert "a token is needed" in found.err
            assert "EVENBEAT_TOKEN" in found.err

    def test_a_wrong_one_is_told_and_not_shown(
        self, served: Served, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("EVENBEAT_TOKEN", SECRET)
        found = evenbeat("status", "--url", served.url)
        assert (found.code, found.out) == (2, "")
        assert "this token is not known here" in found.err
        for broken in (f"{SECRET}\r\nX: y", f"{SECRET}ü", "x" * 1_000):
            monkeypatch.setenv("EVENBEAT_TOKEN", broken)
            found = evenbeat("status", "--url", served.url)
            assert found.code == 2
            assert "EVENBEAT_TOKEN: there are signs in it" in found.err
            assert SECRET not in found.err

    def test_a_role_may_not_suffice(self, served: Served, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EVENBEAT_TOKEN", f" {served.reader}\n")
        assert evenbeat("ls", "--url", served.url).code == 0
        for argv in (["rm", "*"], ["pause", "*"], ["add", "x", "--every", "1d", "--passive"]):
            found = evenbeat(*argv, "--url", served.url)
            assert (found.code, found.out) == (2, "")
            assert "has the role read, and this needs" in found.err

    def test_values_of_variables_are_shown_to_admin_only(
        self, served: Served, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = ("--url", served.url)
        monkeypatch.setenv("EVENBEAT_TOKEN", served.token)
        add = ["add", "with-env", "--every", "1d", "--env", "A=hunter2", "--env", "B=env:B", *url, "--", "noop"]
        assert evenbeat(*add).code == 0
        assert 'A = "hunter2"' in evenbeat("show", "with-env", *url).out
        assert 'A = "hunter2"' in evenbeat("show", "with-env", "--db", str(served.database)).out
        monkeypatch.setenv("EVENBEAT_TOKEN", served.reader)
        for argv in (["show", "with-env"], ["show", "with-env", "--json"], ["ls", "--json"]):
            found = evenbeat(*argv, *url)
            assert (found.code, "hunter2" in found.out, "***hidden***" in found.out) == (0, False, True)
        assert 'B = "env:B"' in evenbeat("show", "with-env", *url).out
        assert evenbeat("set", "with-env", "timebox=5s", *url).code == 2
        monkeypatch.setenv("EVENBEAT_TOKEN", served.token)
        assert evenbeat("show", "with-env", "--json", *url).json["task"]["env"] == {"A": "hunter2", "B": "env:B"}
        assert evenbeat("rm", "with-env", *url).code == 0


# Others than a node


class Other:
    """A server that answers everything alike, and remembers what it was asked."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes = b"", *, hang_up: bool = False) -> None:
        self.asked: list[dict[str, str]] = []
        other = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                other.asked.append(dict(self.headers))
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.close_connection = hang_up
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> "Other":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(PATIENCE)


JSON = {"Content-Type": "application/json"}
PROBLEM = {"Content-Type": "application/problem+json"}


def refused(evenbeat: Evenbeat, other: Other) -> str:
    found = evenbeat("status", "--url", other.url)
    assert (found.code, found.out) == (1, "")
    assert SECRET not in found.err
    return found.err


class TestOthers:
    @pytest.fixture(autouse=True)
    def token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EVENBEAT_TOKEN", SECRET)

    def test_nobody_is_there(self, evenbeat: Evenbeat) -> None:
        with Other(200, {}) as other:
            pass
        assert f"{other.url} does not answer: Connection refused" in refused(evenbeat, other)

    @pytest.mark.parametrize(
        ("status", "headers", "body"),
        [
            (200, {"Content-Type": "text/html"}, b"<p>hello"),
            (404, {"Content-Type": "text/html"}, b"<p>gone"),
            (502, {}, b""),
            (200, JSON, b"{}"),
            (200, JSON, b"\xff"),
            (200, JSON, b"[" * 100_000),
            (422, PROBLEM, b"no"),
        ],
    )
    def test_it_is_no_node(self, evenbeat: Evenbeat, status: int, headers: dict[str, str], body: bytes) -> None:
        with Other(status, headers, body) as other:
            assert f"there is no evenbeat node at {other.url}" in refused(evenbeat, other)

    def test_it_speaks_something_else(self, evenbeat: Evenbeat) -> None:
        with Other(200, JSON) as other:
            other.url = other.url.replace("http:", "https:")
            assert f"{other.url} does not answer" in refused(evenbeat, other)

    def test_a_redirect_is_not_followed(self, evenbeat: Evenbeat) -> None:
        with Other(200, JSON) as elsewhere, Other(302, {"Location": f"{elsewhere.url}/v1/status"}) as other:
            assert f"{other.url} sends us to {elsewhere.url}" in refused(evenbeat, other)
            assert elsewhere.asked == []
            assert other.asked[0]["Authorization"] == f"Bearer {SECRET}"

    @pytest.mark.parametrize("headers", [{}, {"Transfer-Encoding": "identity", "Content-Length": "999999999999"}])
    def test_an_answer_may_be_too_large(
        self, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
    ) -> None:
        monkeypatch.setattr(http_connection, "MAX_RESPONSE_BYTES", 1 << 20)
        body = b" " * ((1 << 20) + 1) if not headers else b""
        with Other(200, JSON | headers, body, hang_up=True) as other:
            assert "answers with more than 1 MiB" in refused(evenbeat, other)

    def test_it_may_take_too_long(self, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_connection, "RESPONSE_TIMEOUT", 0.2)
        monkeypatch.setattr(http_connection.ApiConnection.request, "__kwdefaults__", {"headers": None, "patience": 0.2})
        with Other(200, JSON | {"Content-Length": "10"}) as other:
            assert "nothing has come for 0.2 s" in refused(evenbeat, other)

    def test_what_it_says_does_nothing_to_a_terminal(self, evenbeat: Evenbeat) -> None:
        said = json.dumps({"detail": "\x1b]0;gotcha\x07 no"}).encode()
        with Other(503, PROBLEM, said) as other:
            error = refused(evenbeat, other)
        assert "gotcha" in error
        assert "\x1b" not in error

    def test_who_hangs_up_between_two_questions_is_asked_again(self, evenbeat: Evenbeat) -> None:
        with Other(404, PROBLEM | {"Keep-Alive": "no"}, b'{"detail": "nothing"}', hang_up=True) as other:
            found = evenbeat("show", "x", "--url", other.url)
        assert (found.code, found.err) == (2, "evenbeat show: nothing\n")
        assert len(other.asked) == 2


# TLS


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    try:
        subprocess.run(["openssl", "req", *kind, *names, "-out", cert, "-keyout", key], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate, and is not installed")
    return cert, key


def test_certificates_are_verified(
    evenbeat: Evenbeat, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cert, key = pair
    monkeypatch.setenv("EVENBEAT_TOKEN", SECRET)
    with Other(503, PROBLEM, b'{"detail": "not now"}') as other:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        other.server.socket = context.wrap_socket(other.server.socket, server_side=True, do_handshake_on_connect=False)
        other.server.handle_error = lambda *_: None  # type: ignore[method-assign]
        url = other.url.replace("http:", "https:")
        stranger = evenbeat("status", "--url", url)
        assert stranger.code == 1
        assert "is not to be trusted" in stranger.err
        assert "--ca-file" in stranger.err
        assert other.asked == []
        assert "not now" in evenbeat("status", "--url", url, "--ca-file", str(cert)).err
        monkeypatch.setenv("EVENBEAT_CA", str(cert))
        assert "not now" in evenbeat("status", "--url", url).err
        assert other.asked[0]["Authorization"] == f"Bearer {SECRET}"
        for file, problem in ((key, "has no certificates in it"), (tmp_path / "none", "cannot be read")):
            found = evenbeat("status", "--url", url, "--ca-file", str(file))
            assert found.code == 2
            assert problem in found.err


def test_help_loads_no_tls(capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys; from evenbeat.cli.main import main\n"
        "try: main(['ls', '--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'rich', 'ssl', 'http.client', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    with pytest.raises(SystemExit):
        main(["ls", "--help"])
    assert "--url URL" in capsys.readouterr().out


def test_audit(both: Both, served: Served, evenbeat: Evenbeat) -> None:
    both("add", "@-audited", "--every", "1d", "--env", "PASSWORD=hunter2", "--", "true")
    both("set", "@-audited", "every=2d")
    both("rm", "@-audited")
    wheres = ["--db", str(served.database)], ["--url", served.url]
    for argv in (["--json", "-n", "3000"], ["-n", "2"], ["d-audited", "--since", "1h"], ["--who", "admin", "--json"]):
        near, far = (evenbeat("audit", *argv, *where) for where in wheres)
        assert (near.code, far) == (0, near)
        assert "hunter2" not in near.out
    assert "every: 1d -> 2d" in evenbeat("audit", "u-audited", *wheres[1]).out
