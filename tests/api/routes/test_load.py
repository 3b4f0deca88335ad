import asyncio
import time
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from api_client import ApiClient
from live_node import LiveNode
from waiting import eventually

from evenbeat.api.http.context import ApiContext
from evenbeat.model import MINUTE, SECOND, Instant, Job, Schedule, Task
from evenbeat.report.outlook.outlook import Outlook
from evenbeat.store.contract import Filter, Store


def seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def pointers(answer: Any) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["pointer"] for error in answer.json()["errors"]]


def upcoming(api: ApiClient, prefix: str, **query: Any) -> list[dict[str, str]]:
    answer = api.get("/v1/upcoming", params={"limit": 1000, **query})
    assert answer.status_code == 200, answer.text
    return [run for run in answer.json()["upcoming"] if run["task"].startswith(prefix)]


def test_the_load_is_what_schedules_plan_and_history_has(api: ApiClient, live_node: LiveNode) -> None:
    api.add("load/steady", every="1s", phase="500ms")
    eventually(lambda: len(live_node.runs("load/steady")) >= 4)
    answer = api.get("/v1/load", params={"back": 60, "ahead": 30}).json()
    assert len(answer["planned"]) == 90
    assert len(answer["done"]) == 60
    assert seconds(answer["from"], answer["now"]) == pytest.approx(60, abs=1)
    # It is due once a second from the moment on when it was there.
    assert answer["planned"][60:] == [1] * 30
    assert answer["planned"][:30] == [0] * 30
    store_has = Counter(run.claimed // SECOND for run in live_node.runs("load/steady"))
    first = datetime.fromisoformat(answer["from"])
    for i, count in enumerate(answer["done"][:-5]):
        assert count == store_has[int((first + timedelta(seconds=i)).timestamp())]
    assert sum(answer["done"]) >= 3
    assert answer["peak"] == 1
    assert answer["peak_to_mean"] == pytest.approx(answer["peak"] / answer["mean"], rel=1e-4)
    api.ask("DELETE", "/v1/tasks/load%2Fsteady")


def test_longer_steps_are_sums_and_begin_at_full_ones(api: ApiClient) -> None:
    api.add("load/minutely", every="10s")
    answer = api.get("/v1/load", params={"back": 90, "ahead": 600, "step": 60}).json()
    assert datetime.fromisoformat(answer["from"]).second == 0
    assert (len(answer["done"]), len(answer["planned"])) == (2, 12)
    assert answer["planned"][3:] == [6] * 9
    day = api.get("/v1/load/day").json()
    assert len(day["planned"]) == 1_440
    assert day["planned"][1:] == [6] * 1_439
    api.ask("DELETE", "/v1/tasks/load%2Fminutely")


def test_who_makes_a_peak(api: ApiClient) -> None:
    for i in range(5):
        task = {"name": f"peak/{i}", "cron": "0 3 1 1 *", "second": 0, "command": ["noop"]}
        assert api.post("/v1/tasks", json=task).status_code == 201
    query = {"from": "2031-01-01T03:00:00.7", "seconds": 1, "limit": 3}
    answer = api.get("/v1/load/tasks", params=query).json()
    assert answer["total"] == 5
    assert [(run["task"], run["at"]) for run in answer["tasks"]] == [
        (f"peak/{i}", "2031-01-01T03:00:00+00:00") for i in range(3)
    ]
    assert api.get("/v1/load/tasks", params={**query, "from": "2031-01-01T03:00:01"}).json() == {
        "tasks": [],
        "total": 0,
    }
    for i in range(5):
        api.ask("DELETE", f"/v1/tasks/peak%2F{i}")


def test_upcoming_runs_are_in_order_and_follow_every_change(api: ApiClient) -> None:
    assert upcoming(api, "up/") == []
    api.add("up/a", every="1m")
    found = upcoming(api, "up/", seconds=600)
    assert len(found) == 10
    times = [run["at"] for run in found]
    assert times == sorted(times)
    assert {seconds(a, b) for a, b in pairwise(times)} == {60}
    api.post("/v1/tasks/up%2Fa/pause")
    eventually(lambda: upcoming(api, "up/") == [])
    api.post("/v1/tasks/up%2Fa/resume")
    eventually(lambda: upcoming(api, "up/"))
    api.ask("DELETE", "/v1/tasks/up%2Fa")
    eventually(lambda: upcoming(api, "up/") == [])


def test_a_start_that_was_asked_for_is_told_as_such(api: ApiClient) -> None:
    soon = (datetime.fromtimestamp(time.time()).astimezone() + timedelta(minutes=5)).replace(microsecond=0)
    api.add("later", every="1m", start_at=soon.isoformat())
    first, second, *_ = upcoming(api, "later")
    assert (datetime.fromisoformat(first["at"]), first["kind"]) == (soon, "start-at")
    assert second["kind"] == "grid"
    assert 0 < seconds(first["at"], second["at"]) <= 60
    api.ask("DELETE", "/v1/tasks/later")


def test_a_forecast_tells_the_load_without_and_with_some_tasks(api: ApiClient) -> None:
    crowd = [{"name": f"new-{i}", "every": "1m", "command": ["noop"]} for i in range(60)]
    answer = api.post("/v1/forecast", json={"tasks": crowd})
    assert answer.status_code == 200, answer.text
    forecast = answer.json()
    assert (len(forecast["curve_before"]), len(forecast["curve_after"])) == (60, 60)
    assert [b - a for a, b in zip(forecast["curve_before"], forecast["curve_after"], strict=True)] == [60] * 60
    assert forecast["after"]["mean"] == pytest.approx(forecast["before"]["mean"] + 1)
    together = [{**task, "every": "1m", "spread": "aligned"} for task in crowd]
    worse = api.post("/v1/forecast", json={"tasks": together, "hours": 2}).json()
    assert len(worse["curve_after"]) == 120
    assert worse["after"]["peak"] >= 60
    assert api.get("/v1/tasks", params={"contains": "new-"}).json()["total"] == 0


def test_a_forecast_of_a_change_counts_the_task_once(api: ApiClient) -> None:
    api.add("twice", every="1m")
    faster = {"name": "twice", "every": "30s", "command": ["noop"]}
    forecast = api.post("/v1/forecast", json={"tasks": [faster]}).json()
    assert [b - a for a, b in zip(forecast["curve_before"], forecast["curve_after"], strict=True)] == [1] * 60
    api.ask("DELETE", "/v1/tasks/twice")


def test_what_cannot_be_forecast_is_refused_with_pointers(api: ApiClient) -> None:
    good = {"name": "a", "every": "1m"}
    bad = {"name": "b", "cron": "61 * * * *"}
    assert pointers(api.post("/v1/forecast", json={"tasks": [good, bad, good]})) == ["/tasks/1/cron", "/tasks/2/name"]
    assert pointers(api.post("/v1/forecast", json={"tasks": [{**good, "period": "none"}]})) == ["/tasks/0/period"]
    assert pointers(api.post("/v1/forecast", json={"tasks": [], "hours": 25})) == ["/hours"]
    assert pointers(api.post("/v1/forecast", json={"tasks": [good] * 1001})) == ["/tasks"]


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/v1/load?back=3601", "/query/back"),
        ("/v1/load?ahead=0", "/query/ahead"),
        ("/v1/load?step=0", "/query/step"),
        ("/v1/load/day?step=3601", "/query/step"),
        ("/v1/load/tasks?seconds=601", "/query/seconds"),
        ("/v1/load/tasks?from=yesterday", "/query/from"),
        ("/v1/load/tasks?from=2199-12-31T23:59:59Z&seconds=2", "/query/from"),
        ("/v1/upcoming?limit=1001", "/query/limit"),
    ],
)
def test_every_question_is_bounded(api: ApiClient, path: str, pointer: str) -> None:
    assert pointers(api.get(path)) == [pointer]


class Counting:
    """A store that counts how often all of it is read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        if name == "entries":
            self.read += 1
        return getattr(self._store, name)


def test_tasks_are_read_once_for_all_who_ask_and_again_only_after_a_change(live_node: LiveNode) -> None:
    context = ApiContext(live_node.database)
    context.store = store = Counting(context.store)

    async def ask(times: int) -> list[Outlook]:
        return await asyncio.gather(*(context.outlook_cache.current() for _ in range(times)))

    with asyncio.Runner() as runner, live_node.client() as client:
        first = runner.run(ask(20))
        assert store.read == 1
        assert len({id(outlook) for outlook in first}) == 1
        client.add([Task(name="one more", schedule=Schedule(every=MINUTE), job=Job(command=("noop",)))], "me")
        eventually(lambda: len(runner.run(ask(3))[0]) == len(first[0]) + 1)
        assert store.read == 2
        client.run_now(["one more"], wait=False)
        runner.run(ask(1))
        assert store.read == 2
        assert runner.run(ask(1))[0].upcoming(context.now(), Instant(context.now() + MINUTE), 5)
        client.remove(Filter(names=("one more",)))
    context.close()
