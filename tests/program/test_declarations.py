"""What a program declares: values as Python has them, functions with and without a schedule, periods and limits."""

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import shop_functions
from shop_functions import ping, resize, ship, tidy
from waiting import eventually

from evenbeat.app import App
from evenbeat.model import MINUTE, SECOND, Invalid, Spread


@pytest.fixture
def app() -> App:
    return App(":memory:")


def keys_of(app: App, **keys: Any) -> dict[str, Any]:
    return app.create("x", command=["true"], **keys).keys


class TestValues:
    @pytest.mark.parametrize(
        ("keys", "found"),
        [
            ({"every": timedelta(minutes=5)}, {"every": "5m"}),
            ({"every": timedelta(seconds=1.5)}, {"every": "1s500ms"}),
            ({"every": "5m", "timebox": timedelta(seconds=30)}, {"timebox": "30s"}),
            ({"cron": "0 9 * * *", "zone": ZoneInfo("Europe/Paris")}, {"zone": "Europe/Paris"}),
            ({"at": datetime(2150, 1, 1, 9)}, {"at": "2150-01-01T09:00:00"}),  # noqa: DTZ001 - a time of the zone
            ({"at": datetime(2150, 1, 1, 9, tzinfo=UTC)}, {"at": "2150-01-01T09:00:00+00:00"}),
            ({"at": date(2150, 1, 1)}, {"at": "2150-01-01"}),
            ({"every": "5m", "start_at": datetime(2150, 1, 1, tzinfo=UTC)}, {"start_at": "2150-01-01T00:00:00+00:00"}),
            ({"every": "5m", "cwd": Path("/tmp")}, {"cwd": "/tmp"}),
            ({"every": "5m", "spread": Spread.HASH}, {"spread": "hash"}),
            ({"every": "5m", "retries": 1, "backoff": timedelta(seconds=9)}, {"retries": 1, "backoff": "9s"}),
            ({"every": "5m", "retries": 1, "retry_on": [75, ConnectionError]}, {"retry_on": (75, "ConnectionError")}),
            ({"every": "5m", "retries": 1, "retry_on": 75}, {"retry_on": (75,)}),
        ],
    )
    def test_python_says_what_files_say_as_text(self, app: App, keys: dict[str, Any], found: dict[str, Any]) -> None:
        made = keys_of(app, **keys)
        assert {key: made[key] for key in found} == found

    def test_a_delay_is_a_time_from_now_on(self, app: App) -> None:
        before = datetime.now(UTC)
        at = datetime.fromisoformat(keys_of(app, at=timedelta(hours=1))["at"])
        assert timedelta(hours=1) <= at - before < timedelta(hours=1, minutes=1)

    def test_what_no_file_can_have_is_refused_by_key(self, app: App) -> None:
        with pytest.raises(Invalid, match=r"every: .* is negative, accepted: durations from 0 on"):
            keys_of(app, every=timedelta(minutes=-5))
        with Path("/usr/share/zoneinfo/UTC").open("rb") as file:
            nameless = ZoneInfo.from_file(file)
        with pytest.raises(Invalid, match="zone: a ZoneInfo without a key"):
            keys_of(app, every="5m", zone=nameless)

    def test_durations_and_times_of_methods(self, app: App) -> None:
        app.create("web", every=timedelta(minutes=5), command=["true"])
        app.pause("web", length=timedelta(hours=2))
        pause = app.read("web").entry.task.pause
        assert pause is not None
        assert pause.until is not None
        assert (pause.until - pause.at) // SECOND in (7_199, 7_200)
        app.resume("web")
        paris = timezone(timedelta(hours=1))
        made = app.downtime(
            "web",
            start=datetime(2150, 1, 1, 1, tzinfo=paris),
            until=datetime(2150, 1, 2),  # noqa: DTZ001 - in UTC
        )
        assert (made.start, made.end) == (datetime(2150, 1, 1, tzinfo=UTC), datetime(2150, 1, 2, tzinfo=UTC))
        assert (made.is_active, made.is_over) == (False, False)

    def test_what_is_read_has_times_and_durations_of_python(self, app: App) -> None:
        before = datetime.now(UTC)
        made = app.create("web", every="5m", command=["true"], labels={"team": "shop"})
        assert before - timedelta(seconds=1) < made.created <= datetime.now(UTC)
        assert (made.name, made.every, made.labels) == ("web", timedelta(minutes=5), {"team": "shop"})
        found = app.read("web")
        assert found.next_run is not None
        assert found.next_run > before
        assert (found.last_start, found.running_since, found.timebox) == (None, None, None)
        assert found.entry.task.schedule.every == 5 * MINUTE


class TestFunctions:
    def test_the_decorator_needs_no_brackets(self, app: App) -> None:
        assert app.task(tidy) is tidy
        assert app.declared().tasks == ()
        app.task(every="5m")(ship)
        assert [task.name for task in app.declared().tasks] == ["ship"]

    def test_keys_of_a_function_without_a_schedule_are_checked_where_they_are_written(self, app: App) -> None:
        with pytest.raises(Invalid, match="timebxo"):
            app.task(timebxo="5m")(tidy)
        with pytest.raises(Invalid, match="schedule"):
            app.check()(ping)

    def test_a_name_is_taken_once_with_or_without_a_schedule(self, app: App) -> None:
        app.task(tidy)
        with pytest.raises(Invalid, match="the name 'tidy' is taken"):
            app.command("tidy", ["true"], every="5m")

    def test_tasks_are_created_from_functions(self, app: App) -> None:
        made = app.create(tidy, every="1h")
        assert (made.name, made.task.job.function) == ("tidy", "shop_functions:tidy")
        assert app.create("tidy twice", tidy, every="1h").task.job.function == "shop_functions:tidy"
        with pytest.raises(Invalid, match="cannot be found from outside"):
            app.create(lambda: None, every="1h")
        with pytest.raises(Invalid, match="two functions"):
            app.create(tidy, tidy, every="1h")

    def test_a_function_stands_for_the_task_that_it_is_declared_as(self, app: App) -> None:
        app.check(name="the ping", every="5m")(ping)
        app.task(every="1h", depends=ping)(tidy)
        (task,) = (task for task in app.declared().tasks if task.name == "tidy")
        assert task.depends == ("the ping",)
        with pytest.raises(Invalid, match=r"depends: shop_functions:ship is not declared as a task"):
            app.task(every="1h", depends=[ship])(resize)


class TestPeriodsAndLimits:
    def test_they_are_there_with_the_tasks_that_name_them(self, app: App) -> None:
        app.period("office", "monday-friday 09:00-17:00", zone=ZoneInfo("Europe/Paris"))
        app.limit("db", 2)
        app.task(every="5m", period="office", limit="db")(tidy)
        app.start()
        try:
            found = app.read("tidy").entry.task
            assert (found.period, found.limit) == ("office", "db")
        finally:
            app.stop(wait=True)

    def test_what_is_wrong_is_refused_where_it_is_written(self, app: App) -> None:
        with pytest.raises(Invalid, match=r"period 'office'.*'noday'"):
            app.period("office", "noday 09:00-17:00")
        with pytest.raises(Invalid, match=r"period 'office'.*rangse"):
            app.period("office", rangse=[])
        app.period("office", "09:00-17:00")
        with pytest.raises(Invalid, match="the period 'office' is declared twice"):
            app.period("office")
        with pytest.raises(Invalid, match="the limit 'db' is 0, accepted: 1 to 1000000"):
            app.limit("db", 0)


class TestLater:
    def test_a_function_runs_once_with_its_own_arguments_and_the_keys_of_its_decorator(self, app: App) -> None:
        app.task(timebox="1m", labels={"team": "shop"})(resize)
        before = datetime.now(UTC)
        made = app.later(resize, ["a.png"], timedelta(minutes=10), kwargs={"width": 5}, priority=3)
        assert made.name.startswith("resize-")
        found = made.task
        assert (found.job.function, found.job.args, found.job.kwargs) == (
            "shop_functions:resize",
            ("a.png",),
            {"width": 5},
        )
        assert (found.timebox, found.labels, found.priority) == (MINUTE, {"team": "shop"}, 3)
        assert found.schedule.at is not None
        delay = datetime.fromisoformat(found.schedule.at) - before
        assert timedelta(minutes=10) <= delay < timedelta(minutes=11)

    def test_twice_is_two_runs(self, app: App) -> None:
        assert len({app.later(tidy, delay="1h").name for _ in range(3)}) == 3
        assert app.later(tidy, at=datetime(2150, 1, 1, tzinfo=UTC), name="new year").name == "new year"

    def test_a_time_that_has_passed_is_refused(self, app: App) -> None:
        with pytest.raises(Invalid, match="is in the past, so the task never runs"):
            app.later(tidy, at=datetime(2020, 1, 1, tzinfo=UTC))
        with pytest.raises(Invalid, match=r"delay: .* is negative"):
            app.later(tidy, delay=timedelta(seconds=-1))
        with pytest.raises(Invalid, match="delay: give either `delay` or `at`"):
            app.later(tidy, delay=5, at="2150-01-01")

    def test_without_a_delay_it_runs_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", str(Path(shop_functions.__file__).parent))
        app = App(":memory:", workers=1)
        app.start()
        try:
            made = app.later(resize, ["a.png"])
            (run,) = eventually(lambda: [run for run in app.history(made.name) if run.ended])
            assert (run.succeeded, run.output) == (True, "a.png 100\n")
        finally:
            app.stop(wait=True)
