"""Whoever answers - a live node, a database, a URL or this program - the summaries are the same."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest
from http_server import HttpServer
from live_node import LiveNode

from conftest import Evenbeat
from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.in_process import InProcessBackend, InProcessClient
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.client.store_based import wall_clock
from evenbeat.model import DAY, HOUR, MINUTE, Instant
from evenbeat.store.contract import Batch, Store
from evenbeat.store.memory import MemoryStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import a_claim, a_finish, a_task
from evenbeat.wire.replies import NotFound
from evenbeat.wire.summaries import Summaries

WAYS = ("live node", "URL", "database", "program")
BEGIN = Instant(wall_clock() // DAY * DAY - DAY)
"""The midnight before the last."""


class Asked(NamedTuple):
    """One of the ways to ask."""

    client: Callable[[], Client]

    def summaries(self, name: str, by: str, since: Instant | None = None, until: Instant | None = None) -> Summaries:
        with closing(self.client()) as client:
            return client.summaries(name, by, since, until)  # type: ignore[arg-type]


def seed(store: Store) -> None:
    """A check that ran every minute for three hours, and a task that never did."""
    check, _ = store.create([a_task("web", check=True, enabled=False), a_task("new", enabled=False)], "test", BEGIN)
    for minute in range(180):
        nominal = BEGIN + minute * MINUTE
        fails = minute % 60 == 7
        outcome, state = ("failed", 2) if fails else ("succeeded", 0)
        finish = a_finish(
            check.number, nominal, f"x | load={minute % 60}s", outcome=outcome, state=state, notable=fails
        )
        store.record(Batch(claims=[a_claim(check.number, nominal)]), Batch(finishes=[finish])).result()


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Asked]]:
    folder = tmp_path_factory.mktemp("ways")
    alone, memory = folder / "alone.db", MemoryStore()
    for path in (alone, folder / "near.db", folder / "serving.db"):
        with closing(SqliteStore(path)) as store:
            seed(store)
    seed(memory)
    with ExitStack() as stack:
        near = stack.enter_context(LiveNode(folder / "near.db", grace=0.1))
        stack.enter_context(LiveNode(folder / "serving.db", grace=0.1))
        url = f"http://127.0.0.1:{stack.enter_context(HttpServer(folder)).port}"
        yield {
            "live node": Asked(lambda: DatabaseClient(near.database, "eva")),
            "URL": Asked(lambda: HttpClient(ApiConnection(url))),
            "database": Asked(lambda: DatabaseClient(alone, "eva")),
            "program": Asked(lambda: InProcessClient(memory, InProcessBackend(memory), "eva")),
        }


@pytest.fixture(params=WAYS)
def asked(request: pytest.FixtureRequest, ways: dict[str, Asked]) -> Asked:
    return ways[request.param]


def test_hours_and_days(asked: Asked) -> None:
    hours, days = asked.summaries("web", "hour"), asked.summaries("web", "day")
    assert (hours.task, hours.by, days.by) == ("web", "hour", "day")
    assert [(s.runs, s.outcomes, s.states) for s in hours.summaries] == [
        (60, {"failed": 1, "succeeded": 59}, {"ok": 59, "critical": 1})
    ] * 3
    (day,) = days.summaries
    assert (day.runs, day.outcomes, day.complete) == (180, {"failed": 3, "succeeded": 177}, True)
    assert day.since <= hours.summaries[0].since
    (series,) = day.series
    assert (series.label, series.unit, series.count, series.min, series.max) == ("load", "s", 180, 0.0, 59.0)
    assert series.mean == pytest.approx(29.5)
    assert (day.duration.p50, day.duration.max) == (1.0, 1.0)


def test_only_some_hours(asked: Asked) -> None:
    since, until = Instant(BEGIN + HOUR), Instant(BEGIN + 2 * HOUR)
    assert len(asked.summaries("web", "hour", since, until).summaries) == 1
    assert asked.summaries("web", "hour", since=Instant(BEGIN + 5 * HOUR)).summaries == []


def test_a_task_that_never_ran_and_one_that_is_not_there(asked: Asked) -> None:
    assert asked.summaries("new", "hour").summaries == []
    with pytest.raises(NotFound, match="there is no task 'nope'"):
        asked.summaries("nope", "hour")


class TestCommand:
    """`evenbeat history NAME --by hour`."""

    @pytest.fixture(autouse=True)
    def database(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(SqliteStore(tmp_path / "evenbeat.db")) as store:
            seed(store)
        monkeypatch.setenv("EVENBEAT_DB", str(tmp_path / "evenbeat.db"))

    def test_a_line_for_each_hour(self, evenbeat: Evenbeat) -> None:
        lines = evenbeat("history", "web", "--by", "hour").out.splitlines()
        assert len(lines) == 3
        assert all("60 runs" in line and "59 succeeded, 1 failed" in line for line in lines)
        assert "load 0..29.5..59s" in lines[0]
        assert len(evenbeat("history", "web", "--by", "hour", "-n", "2").out.splitlines()) == 2

    def test_as_json(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("history", "web", "--by", "day", "--json").json
        assert found["layer"] in ("days", "runs")
        assert [(day["runs"], day["outcomes"]["failed"]) for day in found["summaries"]] == [(180, 3)]

    def test_what_is_refused(self, evenbeat: Evenbeat) -> None:
        for argv, words in (
            (["--by", "day"], "the NAME of a task"),
            (["wep", "--by", "day"], "there is no task 'wep'"),
        ):
            refused = evenbeat("history", *argv)
            assert (refused.code, words in refused.err) == (2, True)
