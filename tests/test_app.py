"""The Python way: declare, run, and change tasks from a program - in real processes where that matters."""

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from problem_seeds import seed_problem
from waiting import PATIENCE, eventually, eventually_async

from evenbeat.app import App
from evenbeat.model import Invalid, Outcome, State
from evenbeat.program.views import RunInfo, TaskInfo
from evenbeat.store.contract import Conflict, StoreError
from evenbeat.store.sqlite.ownership import DatabaseInUse, DatabaseOwnership, is_node_running
from evenbeat.store.sqlite.sqlite_store import SqliteStore


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path / "a.db", workers=1)


def tidy() -> None:
    """A function of this module."""


async def a_tidy() -> None: ...


def counting() -> Iterator[int]:
    yield 1


async def acounting() -> AsyncIterator[int]:
    yield 1


class Tool:
    def __call__(self) -> None: ...

    def tidy(self) -> None: ...


def two_of_one_name() -> tuple[Callable[[], None], Callable[[], None]]:
    """As a module has them in which the second replaces the first."""

    def twin() -> None: ...

    first = twin

    def twin() -> None: ...  # type: ignore[no-redef]

    first.__qualname__ = twin.__qualname__ = "twin"
    return first, twin


PROGRAM = """
import sys
from evenbeat.app import App

app = App(sys.argv[1], workers=1) if len(sys.argv) > 1 else App("nowhere.db", workers=1)

@app.task(cron="@reboot")
def hello(run):
    print("hello from", run.name)

@app.task(name="later", every="1d")
async def other(run):
    return "async"

@app.check(every="1d", attempts=1)
def disk(run):
    return 2, "full"

app.check("ping", every="1d", command=["sh", "-c", "echo pong; exit 1"])
app.command("last", ["true"], every="1d")
"""
GUARDED = PROGRAM + '\nif __name__ == "__main__":\n    app.run()\n'
UNGUARDED = PROGRAM + "\napp.run()\n"


class TestDeclaring:
    def test_a_function_of_a_module_is_found_by_its_module(self, app: App, tmp_path: Path) -> None:
        assert app.task(every="1h")(tidy) is tidy
        app.task(every="1h")(a_tidy)
        self.start_briefly(app)
        found = {c.entry.task.name: c.entry.task.job.function for c in app.list()}
        assert found == {"tidy": f"{__name__}:tidy", "a_tidy": f"{__name__}:a_tidy"}

    def start_briefly(self, app: App) -> None:
        async def brief() -> None:
            async with app:
                pass

        asyncio.run(brief())

    def test_what_is_wrong_is_told_where_it_is_written(self, app: App) -> None:
        with pytest.raises(Invalid, match="every"):
            app.task(every="5 parsecs")(tidy)
        with pytest.raises(Invalid, match="evrey"):
            app.task(evrey="5m")(tidy)
        with pytest.raises(Invalid, match="needs a name"):
            app.check(every="5m", command=["true"])

    def test_a_name_is_declared_once(self, app: App) -> None:
        app.task(every="1h")(tidy)
        with pytest.raises(Invalid, match="the name 'tidy' is taken"):
            app.command("tidy", ["true"], every="1h")

    def test_a_function_that_nobody_else_can_find_is_refused(self, app: App) -> None:
        def inner() -> None: ...

        with pytest.raises(Invalid, match="cannot be found from outside"):
            app.task(every="1h")(inner)
        with pytest.raises(Invalid, match="cannot be found from outside"):
            app.task(every="1h")(lambda: None)
        with pytest.raises(Invalid, match="cannot be found from outside"):
            app.task(every="1h")(self.start_briefly)

    @pytest.mark.parametrize("function", [counting, acounting])
    def test_a_generator_is_refused(self, app: App, function: Callable[..., object]) -> None:
        for declare in (app.task, app.check):
            with pytest.raises(Invalid, match=f"{function.__name__} is a generator: calling it runs nothing"):
                declare(every="1h")(function)

    @pytest.mark.parametrize(
        ("thing", "message"),
        [
            (functools.partial(tidy), r"a functools.partial .* declare tidy itself, with args="),
            (Tool, "the class Tool is not a function"),
            (Tool(), "a Tool is not a function"),
            (Tool().tidy, "Tool.tidy cannot be found from outside"),
            (None, "a NoneType is not a function"),
        ],
    )
    def test_what_cannot_be_found_by_its_name_is_refused(self, app: App, thing: Any, message: str) -> None:
        with pytest.raises(Invalid, match=message):
            app.task(every="1h")(thing)
        with pytest.raises(Invalid, match=message):
            app.check(name="c", every="1h")(thing)

    def test_a_decorator_without_keys_is_refused(self, app: App) -> None:
        with pytest.raises(Invalid, match=r"@app.check\(every="):
            app.check(tidy)  # type: ignore[arg-type]

    def test_two_functions_of_one_name_are_refused_and_both_are_named(self, app: App) -> None:
        first, second = two_of_one_name()
        app.task(name="a", every="1h")(first)
        app.task(name="also a", every="1h")(first)
        message = rf"'a' is {__name__}:twin at .*test_app.py:\d+, 'b' is {__name__}:twin at .*test_app.py:\d+: both"
        with pytest.raises(Invalid, match=message):
            app.task(name="b", every="1h")(second)

    def test_a_function_that_was_replaced_since_keeps_the_app_from_starting(
        self, app: App, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = two_of_one_name()
        monkeypatch.setattr(sys.modules[__name__], "twin", first, raising=False)
        app.task(name="a", every="1h")(first)
        monkeypatch.setattr(sys.modules[__name__], "twin", second)
        with pytest.raises(Invalid, match=rf"'a' is declared with .* but {__name__}:twin is something else"):
            self.start_briefly(app)

    def test_another_decorator_around_it_is_fine(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        first, _ = two_of_one_name()
        app.task(name="a", every="1h")(first)

        @functools.wraps(first)
        def wrapper() -> None:
            first()

        monkeypatch.setattr(sys.modules[__name__], "twin", wrapper, raising=False)
        self.start_briefly(app)
        assert app.read("a").entry.task.job.function == f"{__name__}:twin"

    def test_what_is_no_longer_declared_goes_and_what_was_created_stays(self, app: App, tmp_path: Path) -> None:
        app.command("one", ["true"], every="1h")
        app.command("two", ["true"], every="1h")
        self.start_briefly(app)
        app.create("mine", every="1h", command=["true"])
        phase = app.read("two").entry.task.schedule.phase
        again = App(tmp_path / "a.db", workers=1)
        again.command("two", ["true"], every="1h")
        self.start_briefly(again)
        assert [c.entry.task.name for c in again.list()] == ["mine", "two"]
        assert again.read("two").entry.task.schedule.phase == phase

    def test_programs_that_give_an_app_a_name_share_its_tasks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        entries = []
        for program in ("/srv/uvicorn", "/srv/manage.py"):
            monkeypatch.setattr(sys.modules["__main__"], "__file__", program, raising=False)
            app = App(tmp_path / "a.db", workers=1, name="shop")
            app.command("tidy", ["true"], every="1h")
            app.start()
            app.stop(wait=True)
            entries.append(app.read("tidy").entry)
        assert entries[0] == entries[1]
        assert entries[0].owner == "app:shop"

    @pytest.mark.parametrize("name", ["", " shop", "a\nb"])
    def test_a_name_that_nobody_could_type_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(Invalid, match="name: "):
            App(tmp_path / "a.db", name=name)

    def test_a_name_that_somebody_else_has_keeps_it_from_starting(self, app: App) -> None:
        app.create("one", every="1h", command=["true"])
        app.command("one", ["true"], every="1h")
        with pytest.raises(Invalid, match="is taken by a task of program:"):
            self.start_briefly(app)
        assert not is_node_running(app.database)


class TestCrudl:
    """Without a node."""

    def test_create_read_update_delete_and_list(self, app: App) -> None:
        created = app.create("web", check=True, every="5m", command=["true"], labels={"team": "a"})
        assert app.read("web").entry == app.read(created.id).entry == created
        updated = app.update("web", every="10m", **{"labels.team": "b"})
        assert (updated.version, updated.task.labels) == (2, {"team": "b"})
        assert app.update("web", every="10m").version == 2
        app.create("mail", every="5m", command=["true"])
        assert [c.entry.task.name for c in app.list(labels={"team": "b"})] == ["web"]
        app.pause("web")
        assert [c.entry.task.name for c in app.list(state="disabled")] == ["web"]
        app.resume("web")
        app.delete("web")
        assert [c.entry.task.name for c in app.list()] == ["mail"]
        assert app.history("mail") == []

    def test_a_task_can_be_updated_by_its_id_and_keeps_its_name(self, app: App) -> None:
        created = app.create("web", every="5m", command=["true"])
        assert app.update(created.id, priority=2).task.name == "web"

    def test_none_takes_a_key_away(self, app: App) -> None:
        app.create("web", every="5m", command=["true"], priority=7)
        assert app.update("web", priority=None).task.priority == 0

    def test_who_is_not_there_is_named(self, app: App) -> None:
        app.create("web", every="5m", command=["true"])
        for ask in (app.read, app.history, app.update):
            with pytest.raises(Invalid, match=r"there is no task 'w\*'"):
                ask("w*")
        with pytest.raises(Invalid, match="already: web"):
            app.create("web", every="5m", command=["true"])

    def test_naming_nobody_does_not_mean_everybody(self, app: App) -> None:
        app.create("web", every="5m", command=["true"])
        for do in (app.delete, app.pause, app.resume):
            with pytest.raises(Invalid, match="no task is named"):
                do()
        assert len(app.list()) == 1
        app.delete("*")
        assert app.list() == []

    def test_downtimes_are_set_listed_and_ended(self, app: App) -> None:
        app.create("web", check=True, every="5m", command=["true"])
        made = app.downtime("w*", length="2h", comment="new disks")
        assert (made.names, made.comment, made.who) == (("w*",), "new disks", "program")
        assert [known.id for known in app.downtimes()] == [made.id]
        assert [downtime.id for downtime in app.read("web").downtimes] == [made.id]
        app.end_downtime(made.id)
        assert app.downtimes() == []
        assert len(app.downtimes(is_all=True)) == 1
        later = app.downtime(owner="ops", start="2150-01-01", until="2150-02-01", dependents=False)
        assert (later.owner, later.dependents) == ("ops", False)
        with pytest.raises(Invalid, match="length: give either `until` or `length`"):
            app.downtime("web", until="2150-01-01", length="2h")
        with pytest.raises(Invalid, match="start: 'soon' is not a time"):
            app.downtime("web", start="soon", length="2h")

    def test_a_pause_may_have_an_end_and_a_reason(self, app: App) -> None:
        app.create("web", check=True, every="5m", command=["true"])
        app.pause("web", length="2h", reason="it moves")
        pause = app.read("web").entry.task.pause
        assert pause is not None
        assert pause.until is not None
        assert (pause.until - pause.at) // 10**6 in (7_199, 7_200)
        assert (pause.who, pause.reason) == ("program", "it moves")
        app.resume("web")
        assert app.read("web").entry.task.pause is None

    def test_problems_are_listed_acknowledged_and_commented_on(self, app: App) -> None:
        app.create("web", check=True, every="5m", command=["true"])
        assert app.problems() == []
        assert isinstance(app.database, Path)
        store = SqliteStore(app.database)
        seed_problem(store, "web")
        store.close()
        assert app.acknowledge("web", comment="on it").tasks == ["web"]
        assert app.comment("web", "the cable").tasks == ["web"]
        assert app.problems(acknowledged=False) == []
        (problem,) = app.problems("w*", acknowledged=True)
        assert problem.acknowledgement is not None
        assert (problem.acknowledgement.who, problem.acknowledgement.comment) == ("program", "on it")
        app.acknowledge("web", until="2199-01-01T01:00+01:00")
        (problem,) = app.problems()
        assert problem.acknowledgement is not None
        assert problem.acknowledgement.until == datetime(2199, 1, 1, tzinfo=UTC)
        with pytest.raises(Invalid, match="until: 'soon' is not a time"):
            app.acknowledge("web", until="soon")
        app.acknowledge("web", withdraw=True)
        with pytest.raises(Conflict, match="'web' is not acknowledged"):
            app.acknowledge("web", withdraw=True)
        with pytest.raises(Invalid, match="no task is named"):
            app.acknowledge(comment="all of them?")

    def test_why_nobody_was_notified(self, app: App) -> None:
        app.create("web", check=True, every="5m", command=["true"])
        app.set_contact("ops", email=["ops@example.org"])
        app.create("db", check=True, every="5m", command=["true"], notify=["ops"])
        assert isinstance(app.database, Path)
        with closing(SqliteStore(app.database)) as store:
            seed_problem(store, "web")
            seed_problem(store, "db")
        assert [line.text for line in app.why("web").notified] == ["nobody is notified: it has no `notify`"]
        (line,) = app.why("db").notified
        assert (line.contact, line.outcome, line.text) == ("ops", "waiting", "ops is told within 30 s")
        assert app.why("db", "2001-01-01").notified[0].text.startswith("nobody was notified then")

    def test_without_a_node_nothing_is_run(self, app: App) -> None:
        app.create("web", every="5m", command=["true"])
        with pytest.raises(Invalid, match="no node is running on"):
            app.force("web")

    def test_without_a_database_there_is_nothing_to_read(self, app: App) -> None:
        with pytest.raises(StoreError):
            app.list()


class TestWithin:
    """`async with app`: a node on the program's own loop."""

    def test_the_program_changes_tasks_on_the_loop_and_from_other_threads(self, app: App) -> None:
        async def program() -> tuple[list[TaskInfo], list[RunInfo]]:
            async with app:
                app.create("here", every="1d", command=["echo", "here"])
                await asyncio.to_thread(app.create, "there", every="1d", command=["echo", "there"])
                app.update("here", priority=3)
                app.force("here")
                (ended,) = await asyncio.to_thread(app.force, "there", wait=True)
                assert (ended.outcome, ended.output) == ("succeeded", "there\n")
                runs = await eventually_async(lambda: [run for run in app.history("here") if run.ended])
                with pytest.raises(RuntimeError, match="call it from another thread"):
                    app.force("here", wait=True)
                await asyncio.to_thread(app.pause, "there")
                app.delete("here")
                return app.list(), runs

        conditions, runs = asyncio.run(program())
        assert [(c.entry.task.name, c.entry.task.paused) for c in conditions] == [("there", True)]
        assert [run.output for run in runs] == ["here\n"]
        assert not is_node_running(app.database)

    def test_it_can_be_lived_in_again(self, app: App) -> None:
        async def program() -> None:
            for _ in range(2):
                async with app:
                    assert is_node_running(app.database)
                assert not is_node_running(app.database)

        asyncio.run(program())

    def test_it_says_why_it_cannot_start(self, app: App) -> None:
        async def program() -> None:
            async with app:
                pytest.fail("it started")

        with DatabaseOwnership(Path(app.database)), pytest.raises(DatabaseInUse):
            asyncio.run(program())

    def test_an_error_of_the_program_stops_the_node_and_is_told(self, app: App) -> None:
        async def program() -> None:
            async with app:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            asyncio.run(program())
        assert not is_node_running(app.database)

    def test_leaving_lets_runs_end_also_if_the_node_was_stopping_already(self, app: App) -> None:
        async def program() -> None:
            async with app:
                app.create("long", every="1d", command=["sleep", "0.4"])
                app.force("long")
                await eventually_async(lambda: app.read("long").running_since)
                app.stop()
                await asyncio.sleep(0)

        asyncio.run(program())
        assert app.read("long").outcome == Outcome.SUCCEEDED


class TestProgram:
    """In a process of its own."""

    def start(self, tmp_path: Path, text: str) -> "subprocess.Popen[str]":
        program = tmp_path / "program.py"
        program.write_text(text)
        return subprocess.Popen(
            [sys.executable, str(program), str(tmp_path / "a.db")], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )

    def test_declared_functions_and_commands_run(self, tmp_path: Path) -> None:
        process = self.start(tmp_path, GUARDED)
        app = App(tmp_path / "a.db")
        try:
            eventually(lambda: process.poll() is not None or is_up(app))
            assert process.poll() is None, process.communicate()[1]
            eventually(lambda: app.read("hello").outcome)
            ended = {e.task: (e.outcome, e.status, e.output) for e in app.force("later", "disk", "ping", wait=True)}
            assert ended == {
                "later": ("succeeded", 0, "async\n"),
                "disk": ("failed", 2, "full\n"),
                "ping": ("failed", 1, "pong\n"),
            }
        finally:
            process.terminate()
            _, output = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
        assert app.read("hello").output == "hello from hello\n"
        assert [app.read(name).state for name in ("disk", "ping")] == [State.CRITICAL, State.WARNING]
        assert app.read("last").entry.task.job.command == ("true",)

    def test_a_module_that_runs_its_app_whenever_it_is_imported_is_refused_by_the_host(self, tmp_path: Path) -> None:
        process = self.start(tmp_path, UNGUARDED)
        app = App(tmp_path / "a.db")
        try:
            eventually(lambda: process.poll() is not None or is_up(app))
            found = eventually(lambda: app.read("hello") if app.read("hello").outcome else None)
            assert found is not None
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)
        assert found.outcome == Outcome.BROKEN
        assert 'under `if __name__ == "__main__":`' in found.output


def is_up(app: App) -> bool:
    if not is_node_running(app.database):
        return False
    try:
        return any(c.entry.task.name == "hello" for c in app.list())
    except StoreError:
        return False


def test_in_a_host_no_node_is_started(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "EVENBEAT_HOST", "1")

    async def program() -> None:
        async with app:
            pytest.fail("it started")

    with pytest.raises(RuntimeError, match="imported to run a task"):
        app.run()
    with pytest.raises(RuntimeError, match="imported to run a task"):
        asyncio.run(program())
