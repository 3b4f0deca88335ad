"""One reader asks for as much work as a request can: it is bounded, it leaves the loop, and others get their turn."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process_server import HERE, InProcessServer
from waiting import PATIENCE

from evenbeat import did_you_mean
from evenbeat.api.http import receive
from evenbeat.api.http import threads as workshop
from evenbeat.api.http.errors import MAX_ERRORS, HttpError
from evenbeat.api.http.threads import FairThreadPool, set_current_caller
from evenbeat.api.routes import definitions
from evenbeat.load import config_errors
from evenbeat.model import Job, Schedule, Task
from evenbeat.name_patterns import pattern_regex

MEGABYTE = 1 << 20
LARGEST_ANSWER = 64 << 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessServer]:
    with InProcessServer(tmp_path_factory.mktemp("reader")) as server:
        tasks = [Task("a" * 200 + str(i), Schedule(every=60_000_000), job=Job(command=("noop",))) for i in range(50)]
        server.admin.add(tasks, "ana", "ana")
        yield server


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many known words each unknown one was compared with."""
    made: list[int] = []

    def counted(word: str, known: Any, **more: Any) -> list[str]:
        assert len(word) <= did_you_mean.LONGEST
        made.append(len(known))
        return get_close_matches(word, known, **more)

    monkeypatch.setattr(did_you_mean, "get_close_matches", counted)
    return made


def test_eighty_thousand_unknown_keys_are_counted_not_compared(server: InProcessServer, comparisons: list[int]) -> None:
    body = json.dumps({f"k{i}": 1 for i in range(80_000)})
    assert len(body) < MEGABYTE
    answer = server("POST", "/v1/validate", content=body, headers={"content-type": "application/json"})
    found = answer.json()
    assert found["valid"] is False
    assert len(found["errors"]) == MAX_ERRORS + 1
    # ... and one for the schedule that is missing.
    assert found["errors"][-1] == {"pointer": "", "detail": "and 79,901 more"}
    assert len(comparisons) <= config_errors._MOST_SUGGESTIONS
    assert len(answer.content) < LARGEST_ANSWER


WORDS = ["".join(chr(97 + (i * 7 + j * j) % 26) for j in range(40)) + str(i) for i in range(1_000)]
MONSTERS: dict[str, tuple[str, Any]] = {
    "empty keys": ("/v1/validate", {f"k{i}": None for i in range(60_000)}),
    "a long key": ("/v1/validate", {"k" * 1_000_000: 1}),
    "variables": ("/v1/validate", {"every": "1m", "command": ["x"], "env": {f"={i}": "v" for i in range(60_000)}}),
    "a long interval": ("/v1/validate", {"every": "1m" * 300_000}),
    "a long command": ("/v1/validate", {"every": "1m", "command": "'x " * 300_000}),
    "a long choice": ("/v1/validate", {"every": "1m", "command": ["x"], "spread": "x" * 1_000_000}),
    "zones": ("/v1/forecast", {"tasks": [{"name": w, "cron": "0 0 * * *", "zone": w} for w in WORDS]}),
    "keys of many": ("/v1/forecast", {"tasks": [{"name": w, **dict.fromkeys(WORDS[:15], 1)} for w in WORDS]}),
    "no names": ("/v1/forecast", {"tasks": [{"name": "x" * 500}] * 1_000}),
    "no period": ("/v1/validate", {"every": "1m", "command": ["x"], "period": "x" * 256}),
    "others": ("/v1/periods/preview", {"include": [f"{'x' * 250}{i}" for i in range(100)]}),
    "no days": ("/v1/periods/preview", {"ranges": ["x" * 1_000]}),
    "a country": ("/v1/periods/preview", {"ranges": ["holidays"], "holidays": "x" * 256}),
}


@pytest.mark.parametrize("monster", MONSTERS)
def test_answers_and_suggestions_are_bounded(server: InProcessServer, comparisons: list[int], monster: str) -> None:
    path, body = MONSTERS[monster]
    answer = server("POST", path, json=body)
    assert answer.status_code in (200, 413, 422), answer.text[:500]
    assert len(answer.content) < LARGEST_ANSWER
    assert len(comparisons) <= MAX_ERRORS + config_errors._MOST_SUGGESTIONS
    assert sum(comparisons) <= MAX_ERRORS * did_you_mean.MOST_COMPARED


def test_an_unknown_word_is_not_compared_with_any_number_of_known_ones(comparisons: list[int]) -> None:
    many = [f"period {i}" for i in range(did_you_mean.MOST_COMPARED + 1)]
    assert did_you_mean.nearest_words("perid 1", many) == []
    assert did_you_mean.nearest_words("x" * 10_000, many[:10]) == []
    assert comparisons == []
    assert did_you_mean.nearest_words("perid 1", many[:10]) == ["period 1"]
    assert did_you_mean.list_known(many) == f"{', '.join(many[:20])} and {len(many) - 20:,} more"


def test_small_values_by_the_hundred_thousand_are_refused_before_they_are_decoded(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "_decode_json", pytest.fail)
    for piece in (b"[]", b"{}", b"1", b'""'):
        body = b'{"a":[' + b",".join([piece] * 200_000) + b"]}"
        answer = server("POST", "/v1/validate", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, "values" in answer.json()["detail"]) == (413, True)


def test_parameters_are_bounded_too(server: InProcessServer) -> None:
    answer = server("GET", f"/v1/tasks?{'&'.join(['x'] * 10_000)}")
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 1)
    answer = server("GET", f"/v1/tasks?{'x' * 30_000}=1")
    assert answer.status_code == 422
    assert len(answer.content) < LARGEST_ANSWER


def test_a_forecast_walks_only_so_many_times(server: InProcessServer) -> None:
    every_second = [{"name": f"t{i}", "calendar": "*-*-* *:*:*", "command": ["x"]} for i in range(3)]
    answer = server("POST", "/v1/forecast", json={"tasks": every_second, "hours": 24})
    assert (answer.status_code, "fewer tasks or hours" in answer.text) == (422, True)
    many = [{"name": f"t{i}", "calendar": f"*-*-* 05:00:{i}", "command": ["x"]} for i in range(21)]
    answer = server("POST", "/v1/forecast", json={"tasks": many, "hours": 1})
    assert (answer.status_code, "21 different calendar expressions" in answer.text) == (422, True)
    assert server("POST", "/v1/forecast", json={"tasks": many[:20], "hours": 1}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/validate", "/v1/forecast"])
def test_definitions_and_large_bodies_are_worked_on_beside_the_loop(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    threads = set()

    def watched(work: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*arguments: Any) -> Any:
            threads.add(threading.get_ident())
            return work(*arguments)

        return watching

    monkeypatch.setattr(definitions, "parse_task", watched(definitions.parse_task))
    monkeypatch.setattr(receive, "_decode_json", watched(receive._decode_json))
    body = {"every": "1m", "command": ["x" * 50_000]}
    answer = server("POST", path, json=body if path.endswith("e") else {"tasks": [body | {"name": "x"}]})
    assert answer.status_code == 200
    assert threads
    assert threading.get_ident() not in threads  # which is where the loop of this request ran


def test_many_stars_cost_no_more_than_a_few() -> None:
    # With a backtracking star this would take longer than the universe has been there.
    matcher = pattern_regex("*a" * 100 + "*b")
    assert matcher.match("a" * 256) is None
    assert pattern_regex("*a*a*b").match("xaxab") is not None
    assert pattern_regex("a?c*").match("abcd\n") is not None


# Threads


def test_a_caller_has_some_of_the_threads_and_others_get_theirs() -> None:
    async def story() -> None:
        shop, end, began = FairThreadPool(), threading.Event(), threading.Semaphore(0)

        def long() -> None:
            began.release()
            assert end.wait(PATIENCE)

        async def of(caller: str, work: Callable[[], Any]) -> Any:
            set_current_caller(caller)
            return await shop.run(work)

        greedy = [
            asyncio.create_task(of("greedy", long))
            for _ in range(workshop.MAX_RUNNING_PER_CALLER + workshop.MAX_WAITING_PER_CALLER)
        ]
        for _ in range(workshop.MAX_RUNNING_PER_CALLER):
            assert await asyncio.to_thread(began.acquire, timeout=PATIENCE)
        assert not began.acquire(blocking=False)
        # Others are worked for, and so is whoever has yet to be recognised.
        assert await asyncio.wait_for(asyncio.create_task(of("modest", lambda: 7)), PATIENCE) == 7
        assert await asyncio.wait_for(asyncio.create_task(of("", lambda: 8)), PATIENCE) == 8
        with pytest.raises(HttpError, match="4 requests of greedy are running and 100 are waiting") as refused:
            await asyncio.create_task(of("greedy", long))
        assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "1")
        end.set()
        await asyncio.wait_for(asyncio.gather(*greedy), PATIENCE)
        assert not shop._lanes
        shop.close()

    asyncio.run(story())


def test_requests_are_worked_on_in_the_name_of_their_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    do = FairThreadPool.run

    async def watched(self: FairThreadPool, work: Callable[[], Any]) -> Any:
        seen.add(workshop._current_caller.get())
        return await do(self, work)

    with InProcessServer(tmp_path) as server:
        reader = server.token("grafana", "read")
        monkeypatch.setattr(FairThreadPool, "run", watched)
        asyncio.run(_get(server, reader))
    assert seen == {"", "grafana"}


async def _get(server: InProcessServer, token: str) -> None:
    transport = httpx.ASGITransport(app=server.app, client=(HERE, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url=server.url) as client:
        answer = await client.get("/v1/tasks", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
