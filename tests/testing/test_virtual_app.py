"""An App on a virtual clock: an hour passes, and the test says what ran."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from evenbeat.app import App
from evenbeat.model import Invalid, State
from evenbeat.program.views import RunInfo, SkipInfo
from evenbeat.testing.app import TestApp

HOUR = timedelta(hours=1)
seen: list[object] = []


def tidy() -> str:
    print("tidying")  # noqa: T201 - it is the output of its run
    return "tidied"


async def fetch(run) -> None:  # type: ignore[no-untyped-def]
    run.cursor = (run.cursor or 0) + 1
    await asyncio.sleep(0)
    seen.append(run.cursor)


def count(of: dict[str, int], odd: bool = False) -> object:
    return object() if odd else {"a": of["a"] + 1, "at": (1, 2)}


def broken() -> None:
    raise ValueError("no such file")


def mail(address: str, copies: dict[str, list[int]] | None = None) -> None:
    seen.append((address, copies))


def ping() -> tuple[int, str]:
    return 2, "no answer"


@pytest.fixture
def app() -> App:
    seen.clear()
    return App(":memory:")


class TestAnHour:
    def test_passes_in_no_time(self, app: App) -> None:
        app.task(every="5m")(tidy)
        began = time.monotonic()
        with TestApp(app) as shop:
            runs = shop.advance(HOUR)
            assert [run.task for run in runs] == ["tidy"] * 12
            assert runs[0].output == "tidying\ntidied\n"
            gaps = {b.started - a.started for a, b in pairwise(runs) if a.started and b.started}
            assert gaps == {timedelta(minutes=5)}
            assert shop.now == datetime(2026, 1, 1, 1, tzinfo=UTC)
            assert len(shop.advance(timedelta(days=30))) == 30 * 24 * 12
        assert time.monotonic() - began < HOUR.total_seconds()

    def test_goes_by_cron_and_zone(self, app: App) -> None:
        app.task(cron="30 9 * * *", zone="Europe/Paris", second=0)(tidy)
        with TestApp(app, start=datetime(2026, 7, 1, tzinfo=UTC)) as shop:
            (run,) = shop.advance_to("2026-07-01T12:00")
            assert run.started == datetime(2026, 7, 1, 7, 30, tzinfo=UTC)
            with pytest.raises(Invalid, match="has passed: it is 2026-07-01T12:00"):
                shop.advance_to("2026-07-01")

    def test_nothing_of_the_next_one_runs_in_it(self, app: App) -> None:
        app.task(every="1h", phase="50ms")(tidy)
        with TestApp(app) as shop:
            assert [len(shop.advance("1h")), len(shop.advance("1h")), len(shop.advance("49ms"))] == [1, 1, 0]
            assert len(shop.advance("1ms")) == 1


class TestFunctions:
    def test_asynchronous_ones_go_on_where_they_were(self, app: App) -> None:
        app.task(every="20m")(fetch)
        with TestApp(app) as shop:
            shop.advance(HOUR)
        assert seen == [1, 2, 3]

    def test_within_a_loop_too(self, app: App) -> None:
        app.task(every="20m")(fetch)

        async def test() -> None:
            with TestApp(app) as shop:
                shop.advance(HOUR)

        asyncio.run(test())
        assert seen == [1, 2, 3]

    def test_a_failure_is_a_failed_run(self, app: App) -> None:
        app.task(every="1h")(broken)
        with TestApp(app) as shop:
            (run,) = shop.advance(HOUR)
            assert (run.outcome, run.output.splitlines()[-1]) == ("failed", "ValueError: no such file")
            assert [problem.cause for problem in app.problems()] == ["failed"]

    def test_a_check_becomes_hard(self, app: App) -> None:
        app.check(every="1h", retry="1m", attempts=3)(ping)
        with TestApp(app) as shop:
            shop.advance(HOUR)
            found = app.read("ping")
            assert (found.state, found.hard, found.output) == (State.CRITICAL, True, "no answer\n")
            assert len(shop.runs) == 4

    def test_commands_end_as_the_test_says(self, app: App) -> None:
        app.command("backup", ["no-such-program"], every="1h")
        app.command("fine", ["no-such-program"], every="1h")
        with TestApp(app, commands={"backup": (1, "disk full")}) as shop:
            assert {run.task: (run.status, run.output) for run in shop.advance(HOUR)} == {
                "backup": (1, "disk full\n"),
                "fine": (0, ""),
            }


class TestMethods:
    def test_they_work_on_the_virtual_clock(self, app: App) -> None:
        app.task(mail)
        with TestApp(app) as shop:
            app.later(mail, ["ana"], timedelta(minutes=10), kwargs={"copies": {"bob": [1, 2]}})
            assert shop.advance(timedelta(minutes=9)) == []
            assert len(shop.advance(timedelta(minutes=1))) == 1
            assert seen == [("ana", {"bob": [1, 2]})]
            app.create(tidy, every="10m")
            app.pause("tidy", length=HOUR)
            assert shop.advance(HOUR) == []
            assert len(shop.advance(HOUR)) == 6
            assert [skip.reason for skip in shop.skips] == ["disabled"] * 6
            (run,) = shop.force("tidy")
            assert run.started == shop.now
            assert len(app.history("tidy")) == 7

    def test_what_lasts_delays_what_comes_next(self, app: App) -> None:
        app.task(every="10m", phase=0)(tidy)
        with TestApp(app, lasts={"tidy": timedelta(minutes=15)}) as shop:
            runs = shop.advance(HOUR)
        assert [run.length for run in runs] == [timedelta(minutes=15)] * len(runs)
        assert {skip.reason for skip in shop.skips} == {"coalesced"}

    def test_hooks_are_called_and_may_ask_for_more(self, app: App) -> None:
        @app.on_failure
        def tell(run: RunInfo) -> None:
            app.later(mail, [run.task])

        app.on_skip(seen.append)
        app.task(every="1h", phase=0)(broken)
        with TestApp(app) as shop:
            shop.advance(timedelta(minutes=61))
            app.pause("broken")
            shop.advance(HOUR)
        assert seen[0] == ("broken", None)
        assert isinstance(seen[-1], SkipInfo)

    def test_an_error_of_a_hook_is_an_error_of_the_test(self, app: App) -> None:
        def wrong(run: RunInfo) -> None:
            raise AssertionError(run.task)

        app.on_success(wrong)
        app.task(every="1h")(tidy)
        with TestApp(app) as shop, pytest.raises(AssertionError, match="tidy"):
            shop.advance(HOUR)


class TestResults:
    def test_what_a_function_returns_can_be_read(self, app: App) -> None:
        app.task(every="1h")(tidy)
        app.task(count)
        with TestApp(app) as shop:
            with pytest.raises(Invalid, match="no run of 'tidy' has ended"):
                app.result("tidy")
            (run,) = shop.advance(HOUR)
            assert app.result(run) == app.result("tidy") == app.result(app.history("tidy")[0]) == "tidied"
            made = app.later(count, [{"a": 2}])
            shop.advance("1s")
            assert app.result(made) == {"a": 3, "at": [1, 2]}
            made = app.later(count, [{"a": 2}], kwargs={"odd": True})
            shop.advance("1s")
            with pytest.raises(Invalid, match=r"what the run of 'count-\w+' returned is not kept: a object that is no"):
                app.result(made)


class TestBeginAndEnd:
    def test_each_begins_anew(self, app: App) -> None:
        app.task(every="10m")(tidy)
        for _ in range(2):
            with TestApp(app) as shop:
                assert len(shop.advance(HOUR)) == 6
                assert len(app.history()) == 6
        assert app.list() == []
        with pytest.raises(RuntimeError, match="with TestApp"):
            shop.advance(HOUR)

    def test_an_app_that_runs_is_not_taken_over(self, app: App) -> None:
        app.start()
        try:
            with pytest.raises(RuntimeError, match="this app is running already"), TestApp(app):
                pytest.fail("it began")
        finally:
            app.stop(wait=True)
