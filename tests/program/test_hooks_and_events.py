"""What a program hears of its node: hooks, events, and the log on its terminal."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, eventually

from evenbeat.app import App
from evenbeat.model import Invalid
from evenbeat.program.views import Event, RunInfo, SkipInfo, TaskChange
from evenbeat.store.contract import StoreError


@pytest.fixture
def app() -> Iterator[App]:
    app = App(":memory:", workers=1)
    yield app
    app.stop(wait=True)


class TestHooks:
    def test_each_end_is_told_to_the_hooks_for_it(self, app: App) -> None:
        heard: list[tuple[str, str]] = []

        @app.on_success
        def good(run: RunInfo) -> None:
            heard.append(("good", run.task))

        @app.on_failure("b*")
        async def bad(run: RunInfo) -> None:
            await asyncio.sleep(0)
            heard.append(("bad", f"{run.task} {run.status} {run.output.strip()}"))

        app.command("fine", ["true"], every="1d")
        app.command("broken", ["sh", "-c", "echo no; exit 3"], every="1d")
        app.command("other", ["false"], every="1d")
        app.start()
        app.force("fine", wait=True)
        app.force("broken", "other", wait=True)
        app.force("fine", wait=True)
        app.stop(wait=True)
        assert heard == [("good", "fine"), ("bad", "broken 3 no"), ("good", "fine")]

    def test_a_hook_that_fails_is_logged_and_hinders_nothing(self, app: App, caplog: pytest.LogCaptureFixture) -> None:
        heard: list[str] = []

        @app.on_success
        def broken(run: RunInfo) -> None:
            raise ZeroDivisionError(run.task)

        app.on_success(lambda run: heard.append(run.task))
        app.command("fine", ["true"], every="1d")
        app.start()
        app.force("fine", wait=True)
        app.stop(wait=True)
        assert heard == ["fine"]
        assert any("broken failed for fine" in message for message in caplog.messages)

    def test_skipped_times_are_told(self, app: App) -> None:
        heard: list[SkipInfo] = []
        app.on_skip(heard.append)
        app.command("late", ["true"], every="1s")
        app.start()
        eventually(lambda: app.history("late"))
        app.pause("late")
        eventually(lambda: heard)
        app.stop(wait=True)
        assert (heard[0].task, heard[0].reason) == ("late", "disabled")

    def test_a_hook_is_a_function(self, app: App) -> None:
        with pytest.raises(Invalid, match="on_failure: a hook is a function, found int"):
            app.on_failure(3)  # type: ignore[call-overload]


class TestEvents:
    def test_a_loop_of_the_program_hears_what_happens(self, app: App) -> None:
        async def program() -> list[Event]:
            async def listen() -> list[Event]:
                return [event async for event in app.events()]

            async with app:
                listening = asyncio.create_task(listen())
                await asyncio.sleep(0)
                await app.aio.create("hello", every="1d", command=["echo", "hello"])
                await app.aio.force("hello", wait=True)
            return await asyncio.wait_for(listening, PATIENCE)  # the node has stopped: so have the events

        heard = asyncio.run(program())
        assert heard[0] == TaskChange("hello", "created")
        assert [(run.task, run.output) for run in heard if isinstance(run, RunInfo)] == [("hello", "hello\n")]

    def test_another_program_hears_the_node_of_its_machine(self, tmp_path: Path) -> None:
        app, other = App(tmp_path / "a.db", workers=1), App(tmp_path / "a.db")
        app.start()

        async def program() -> Event:
            events = other.events()
            hearing = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.1)
            while not hearing.done():
                await other.aio.create(f"hello {os.urandom(4).hex()}", every="1d", command=["true"])
                await asyncio.sleep(0.1)
            await events.aclose()
            return hearing.result()

        heard = asyncio.run(program())
        app.stop(wait=True)
        assert isinstance(heard, TaskChange)
        assert heard.change == "created"
        with pytest.raises(StoreError, match="the node does not answer"):
            asyncio.run(anext(other.events()))

    def test_without_a_node_there_are_no_events(self, app: App) -> None:
        with pytest.raises(Invalid, match="no node of this program runs"):
            asyncio.run(anext(app.events()))


class TestAwaitable:
    def test_each_method_can_be_awaited_on_the_loop_of_the_node(self, app: App) -> None:
        async def program() -> None:
            async with app:
                await app.aio.create("here", every="1d", command=["echo", "here"])
                (run,) = await app.aio.force("here", wait=True)
                assert run.output == "here\n"
                assert (await app.aio.why("here")).answer
                assert [task.name for task in await app.aio.list()] == ["here"]

        asyncio.run(program())

    def test_none_is_forgotten(self, app: App) -> None:
        here: set[str] = {"run", "start", "stop", "is_running", "database", "events", "aio"}
        declaring = {"task", "check", "command", "period", "limit", "contact", "on_success", "on_failure", "on_skip"}
        helpers = {"name_of", "function_of", "keys_on_request", "declared"}
        public = {name for name in dir(app) if not name.startswith("_")}
        assert public - here - declaring - helpers == {name for name in dir(app.aio) if not name.startswith("_")}


PROGRAM = """
from evenbeat.app import App

app = App(":memory:", workers=1)

@app.task(cron="@reboot")
def fine(run):
    return "all of it"

@app.task(cron="@reboot")
def broken():
    raise ValueError("no such file")

@app.on_failure
def enough(run):
    app.stop()

if __name__ == "__main__":
    app.run()
"""


class TestTerminal:
    def run(self, tmp_path: Path, text: str) -> str:
        program = tmp_path / "program.py"
        program.write_text(text)
        done = subprocess.run(
            [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        return done.stderr

    def test_a_program_shows_how_its_runs_end(self, tmp_path: Path) -> None:
        shown = self.run(tmp_path, PROGRAM)
        assert "INFO    ready, 2 tasks\n" in shown
        assert "WARNING broken failed with status 1: ValueError: no such file\n" in shown

    def test_a_program_that_configures_logging_decides_itself(self, tmp_path: Path) -> None:
        configured = "import logging\nlogging.basicConfig(level=logging.ERROR, format='mine %(message)s')\n"
        assert self.run(tmp_path, configured + PROGRAM) == ""

    def test_the_log_is_as_it_was_when_the_program_goes_on(self) -> None:
        code = "from evenbeat.program.terminal_log import log_to_terminal as log; import logging\n"
        code += "with log(): pass\nassert not logging.getLogger('evenbeat').hasHandlers()"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_records_of_runs_are_of_one_logger(app: App, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "evenbeat")
    app.command("fine", ["echo", "well"], every="1d")
    app.start()
    app.force("fine", wait=True)
    app.stop(wait=True)
    found: list[Any] = [record for record in caplog.records if record.name == "evenbeat.runs"]
    assert [(record.task, record.action, record.levelname) for record in found] == [("fine", "succeeded", "INFO")]
    assert found[0].getMessage().endswith(": well")
