"""An App with a store inside the program: in memory or one's own, in another thread, stopped and started again.

The Instinct document asks for these: an in-memory scheduler, pluggable stores, a start in another thread, a stop.
"""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, eventually

from evenbeat.app import App
from evenbeat.model import Invalid, Outcome
from evenbeat.store.contract import Batch, Conflict, StoreError, WithdrawnTasks
from evenbeat.store.memory import MemoryStore
from evenbeat.store.opening import IN_MEMORY


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.chdir(tmp_path)
    app = App(IN_MEMORY, workers=1)
    yield app
    app.stop(wait=True)


def names(app: App, **only: str) -> list[str]:
    return [condition.entry.task.name for condition in app.list(**only)]


class TestInMemory:
    def test_create_read_update_delete_and_list_without_a_node_and_without_a_file(
        self, app: App, tmp_path: Path
    ) -> None:
        created = app.create("web", check=True, every="5m", command=["true"])
        assert app.read(created.id).entry == created
        assert app.update("web", every="10m").version == 2
        app.pause("web")
        assert [c.entry.task.name for c in app.list(state="disabled")] == ["web"]
        with pytest.raises(Invalid, match="no node of this program runs"):
            app.force("web")
        app.delete("web")
        assert (app.list(), list(tmp_path.iterdir())) == ([], [])

    def test_what_a_task_depends_on_is_checked_as_everywhere(self, app: App) -> None:
        keys: dict[str, Any] = {"every": "5m", "command": ["true"]}
        with pytest.raises(Invalid, match="there is no check 'gw'"):
            app.create("web", check=True, depends=["gw"], **keys)
        app.create("gw", check=True, **keys)
        app.create("web", check=True, depends=["gw"], **keys)
        with pytest.raises(Invalid, match="in a circle: gw -> web -> gw"):
            app.update("gw", depends=["web"])
        with pytest.raises(Invalid, match="'gw' must stay, under this name: tasks depend on it: 'web' of"):
            app.delete("gw")
        assert (names(app), app.read("web").unreachable_through) == (["gw", "web"], ())
        app.delete("*")
        assert names(app) == []

    def test_two_of_them_know_nothing_of_each_other(self, app: App) -> None:
        app.create("web", every="5m", command=["true"])
        assert App(IN_MEMORY).list() == []

    def test_tasks_by_owner(self, app: App) -> None:
        for name, owner in (("a", "ana"), ("b", "ana"), ("c", "bob"), ("d", None)):
            assert app.create(name, every="5m", command=["true"], owner=owner).owner == owner or owner is None
        assert (names(app, owner="ana"), names(app, owner="bob")) == (["a", "b"], ["c"])
        app.pause(owner="ana")
        assert names(app, state="disabled") == ["a", "b"]
        app.resume("a", owner="ana")
        app.resume("a", owner="bob")
        assert names(app, state="disabled") == ["b"]
        app.delete(owner="ana")
        assert names(app) == ["c", "d"]
        with pytest.raises(Invalid, match="no task is named"):
            app.delete()

    def test_a_queue_is_for_clusters(self) -> None:
        with pytest.raises(Invalid, match="a queue is for a cluster"):
            App(IN_MEMORY, queue="nats://127.0.0.1:4222")


class TestStarting:
    def test_it_is_started_in_a_thread_stopped_and_started_again(self, app: App) -> None:
        app.create("echo", every="1d", command=["echo", "here"])
        for times in (1, 2):
            app.start()
            assert app.is_running
            (ended,) = app.force("echo", wait=True)
            assert (ended.outcome, ended.output) == ("succeeded", "here\n")
            app.create(f"new {times}", every="1d", command=["true"])
            assert app.force(f"new {times}", wait=True)[0].outcome == "succeeded"
            app.stop(wait=True)
            assert [app.is_running, len(app.history("echo"))] == [False, times]
        assert names(app) == ["echo", "new 1", "new 2"]

    @pytest.mark.parametrize("where", [IN_MEMORY, "a.db"])
    def test_run_works_in_any_thread_and_can_be_called_again(
        self, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        app = App(where, workers=1)
        app.command("echo", ["echo", "here"], every="1d")
        for times in (1, 2):
            thread = threading.Thread(target=app.run)
            thread.start()
            eventually(lambda: app.is_running)
            app.force("echo", wait=True)
            app.stop()
            thread.join(PATIENCE)
            assert not thread.is_alive()
            assert len(app.history("echo")) == times

    def test_a_stop_that_comes_before_it_is_up_is_not_lost(self, app: App) -> None:
        thread = threading.Thread(target=app.run)
        thread.start()
        while thread.is_alive() and not app.is_running:
            app.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()

    def test_a_stop_of_what_does_not_run_does_not_stop_what_is_started_later(self, app: App) -> None:
        app.stop()
        app.start()
        assert app.is_running

    def test_while_it_runs_it_cannot_be_started(self, app: App) -> None:
        app.start()
        with pytest.raises(RuntimeError, match="this app is running already"):
            app.start()
        with pytest.raises(RuntimeError, match="this app is running already"):
            app.run()
        app.create("one", every="1h", command=["true"])
        (run,) = app.force("one", wait=True)
        assert run.outcome == "succeeded", "the node that runs goes on"
        assert app.is_running

    def test_start_says_why_it_cannot(self, app: App, tmp_path: Path) -> None:
        app.create("one", every="1h", command=["true"])
        app.command("one", ["true"], every="1h")
        with pytest.raises(Invalid, match="is taken by a task of program:"):
            app.start()
        app.delete("one")
        app.start()
        assert names(app) == ["one"]

    def test_changes_from_many_threads_while_it_starts_are_all_there(self, app: App) -> None:
        def create(some: range) -> None:
            for i in some:
                app.create(f"t{i:03}", every="1d", command=["true"])

        threads = [threading.Thread(target=create, args=(range(n * 20, n * 20 + 20),)) for n in range(5)]
        for thread in threads:
            thread.start()
        app.start()
        for thread in threads:
            thread.join()
        assert len(app.list()) == 100
        ended = app.force(*names(app), wait=True)
        assert {end.outcome for end in ended} == {"succeeded"}

    def test_whoever_waits_for_a_run_is_told_that_the_node_stopped(self, app: App) -> None:
        app.create("long", every="1d", command=["sleep", "60"])
        app._options = type(app._options)(workers=1, grace=0.0)
        app.start()
        found: list[BaseException] = []

        def wait() -> None:
            try:
                app.force("long", wait=True)
            except StoreError as e:
                found.append(e)

        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: app.read("long").running_since)
        app.stop(wait=True)
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not found or "stopped before it had answered" in str(found[0])
        assert app.read("long").outcome == Outcome.INTERRUPTED

    def test_within_a_loop_too(self, app: App) -> None:
        async def program() -> list[str]:
            async with app:
                app.create("here", every="1d", command=["echo", "here"])
                await asyncio.to_thread(app.create, "there", every="1d", command=["echo", "there"])
                (ended,) = await asyncio.to_thread(app.force, "there", wait=True)
                return [ended.output, *names(app)]

        assert asyncio.run(program()) == ["there\n", "here", "there"]


class Counting(MemoryStore):
    """A store of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = 0
        self.is_closed = False

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        self.claims += sum(len(batch.claims) for batch in batches)
        return super().record(*batches)

    def close(self) -> None:
        self.is_closed = True


class TestOwnStore:
    def test_a_store_of_ones_own_keeps_everything_and_stays_open(self, tmp_path: Path) -> None:
        store = Counting()
        first = App(store=store, workers=1)
        first.command("echo", ["echo", "here"], every="1d")
        first.start()
        first.force("echo", wait=True)
        first.stop(wait=True)
        assert (store.claims, store.is_closed) == (1, False)
        second = App(store=store, workers=1)
        assert [run.output for run in second.history("echo")] == ["here\n"]

    def test_a_database_and_a_store_are_one_too_many(self) -> None:
        with pytest.raises(Invalid, match="give one of them"):
            App("a.db", store=MemoryStore())


SESSION = """
import json, sys, time
from datetime import UTC, datetime, timedelta
from evenbeat.app import App

scheduler = App(":memory:", workers=1)

def stop(run):
    run.stop_node()

def say(word):
    print(word)

def session():
    before = len(scheduler.history())
    began = time.time()
    scheduler.run()
    runs = scheduler.history()
    return {"ran": [run.task for run in reversed(runs[:len(runs) - before])], "lasted": time.time() - began}

if __name__ == "__main__":
    here = __file__
    for name, keys in {
        "reboot": {"cron": "@reboot"}, "shutdown": {"cron": "@shutdown"}, "second": {"every": "1s"},
    }.items():
        scheduler.create(name, function=f"{here}:say", args=[name], **keys)
    scheduler.create("stop", function=f"{here}:stop", every="2s")
    listed = [condition.entry.task.name for condition in scheduler.list()]
    first = session()
    scheduler.update("stop", start_at=(datetime.now(UTC) + timedelta(seconds=4)).isoformat())
    print(json.dumps({"listed": listed, "first": first, "second": session()}))
"""
"""The sessions of the document, with seconds in place of its minutes."""


def test_the_sessions_of_the_instinct_document(tmp_path: Path) -> None:
    program = tmp_path / "session.py"
    program.write_text(SESSION)
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["listed"] == ["reboot", "second", "shutdown", "stop"]
    first, second = said["first"], said["second"]
    for session in (first, second):
        assert sorted(set(session["ran"]) - {"second"}) == ["reboot", "shutdown", "stop"]
        assert session["ran"][-1] == "shutdown"
        assert [session["ran"].count(name) for name in ("reboot", "shutdown", "stop")] == [1, 1, 1]
    assert second["lasted"] > 3, "the stop was postponed while nothing ran"
    assert second["ran"].count("second") >= 2
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"session.py"}


ENDS = """
import logging, sys, threading, time
from pathlib import Path
from evenbeat.app import App

logging.getLogger("evenbeat").addHandler(logging.NullHandler())
app = App(sys.argv[1], workers=1)
app.command("last", ["touch", "stopped"], cron="@shutdown")
app.command("other", ["touch", "other"], every="1d")

def work_on_then_stop():
    time.sleep(1)  # the main thread has ended
    app.force("other", wait=True)  # the node hands a part of it to a thread
    app.stop()

if __name__ == "__main__":
    {lines}
"""
IN_DAEMON = "threading.Thread(target=app.run, daemon=True).start()"
IN_THREAD = "threading.Thread(target=app.run).start()"
WAIT = "while not app.is_running: time.sleep(0.01)"


def _program(folder: Path, *lines: str) -> list[str]:
    (folder / "program.py").write_text(ENDS.replace("{lines}", "\n    ".join(lines)))
    return [sys.executable, "program.py"]


class TestAProgramThatEnds:
    """It stops its node in order and without a word, however the node was started."""

    @pytest.mark.parametrize("database", [":memory:", "even.db"])
    @pytest.mark.parametrize(
        "lines",
        [
            ["app.start()"],
            ["app.start()", "time.sleep(1)"],
            [IN_DAEMON, WAIT],
            [IN_DAEMON, "time.sleep(0.2)"],
            [IN_THREAD, WAIT, "threading.Thread(target=work_on_then_stop).start()"],
        ],
        ids=["started", "started a while ago", "in a daemon thread", "about to start", "in a thread that goes on"],
    )
    def test_stops_its_node_in_order(self, tmp_path: Path, lines: list[str], database: str) -> None:
        words = [*_program(tmp_path, *lines), database]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "stopped").exists()
        assert (tmp_path / "other").exists() == ("work_on" in lines[-1])

    def test_a_child_that_was_forked_has_no_node_to_wait_for(self, tmp_path: Path) -> None:
        lines = ["import os", "app.start()", "child = os.fork()", "if child: os.waitpid(child, 0)"]
        done = subprocess.run(
            [*_program(tmp_path, *lines), "even.db"], cwd=tmp_path, timeout=PATIENCE, check=False, capture_output=True
        )
        assert done.returncode == 0
        assert (tmp_path / "stopped").exists()

    def test_ctrl_c_stops_a_node_in_a_thread_that_outlasts_the_main_thread(self, tmp_path: Path) -> None:
        # Whoever runs the tests in the background may have it ignored.
        is_heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        words = [*_program(tmp_path, is_heard, IN_THREAD, WAIT, "Path('up').touch()"), "even.db"]
        with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as program:
            try:
                eventually((tmp_path / "up").exists, "the node is up")
                with pytest.raises(subprocess.TimeoutExpired):
                    program.wait(1)  # it has come to its end by now
                program.send_signal(signal.SIGINT)
                stderr = program.communicate(timeout=PATIENCE)[1]
            finally:
                program.kill()
        assert (program.returncode, stderr) == (0, "")
        assert (tmp_path / "stopped").exists()


class TestContacts:
    def test_what_is_declared_is_there_with_the_tasks_that_name_it_and_goes_with_them(self) -> None:
        store = MemoryStore()
        app = App(store=store, workers=0)
        app.contact("ops", email=["ops@example.org"])
        app.contact("boss", webhook="https://hooks.example.org/", states=["critical"])
        app.command("tidy", ["true"], every="1h", notify=["ops", {"to": "boss", "after": "30m"}], repeat="4h")
        _run_once(app)
        assert {info.name: (info.tasks, info.places[0].shown) for info in app.contacts()} == {
            "boss": (1, "https://hooks.example.org"),
            "ops": (1, "ops@example.org"),
        }
        with pytest.raises(Conflict, match="the contact 'ops' cannot go: the task 'tidy'"):
            app.remove_contact("ops")
        _run_once(App(store=store, workers=0))
        assert app.contacts() == []

    def test_what_is_set_stays_until_it_is_removed(self, app: App) -> None:
        app.set_contact("ops", email="ops@example.org")
        app.create("a", every="1h", command=["true"], notify="ops")
        app.update("a", notify=None)
        app.set_contact("ops", email="ops@example.org", per_hour=5)
        (info,) = app.contacts()
        assert (info.owner, info.per_hour, info.tasks) == ("api", 5, 0)
        app.remove_contact("ops")
        assert app.contacts() == []

    def test_a_wrong_contact_is_refused_where_it_is_declared(self, app: App) -> None:
        app.contact("ops", email=["ops@example.org"])
        with pytest.raises(Invalid, match="the contact 'ops' is declared twice"):
            app.contact("ops", email=["bo@example.org"])
        with pytest.raises(Invalid, match="'emial' is not a key here"):
            app.contact("boss", emial=["bo@example.org"])
        app.command("tidy", ["true"], every="1h", notify=["opps"])
        with pytest.raises(Invalid, match="there is no contact 'opps', did you mean 'ops'"):
            _run_once(app)


def _run_once(app: App) -> None:
    """Until the node is up."""
    app.start()
    app.stop(wait=True)
