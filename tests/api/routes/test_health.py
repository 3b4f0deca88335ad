import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from live_node import LiveNode
from msgspec.structs import replace

from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.routes import health
from evenbeat.api.routes.health import health_errors, numbers_of
from evenbeat.api.server import protected_application
from evenbeat.report.status import NO_WORKERS_TEXT
from evenbeat.wire.metrics import ClusterMetrics, NodeMetrics


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with LiveNode(tmp_path_factory.mktemp("node") / "node.db", grace=0.1) as node:
        yield node


@pytest.fixture
def context(node: LiveNode) -> Iterator[ApiContext]:
    """With a live node."""
    with closing(ApiContext(node.database)) as context:
        yield context


def ask(context: ApiContext, path: str) -> httpx.Response:
    async def asking() -> httpx.Response:
        transport = httpx.ASGITransport(
            app=protected_application(context, TokenAuthenticator(context, "127.0.0.1", is_open=True))
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path)

    return asyncio.run(asking())


def test_a_node_that_does_its_work_is_ready(context: ApiContext) -> None:
    for path in ("/healthz", "/readyz"):
        answer = ask(context, path)
        assert (answer.status_code, answer.json()) == (200, {"ok": True, "problems": []})


def test_without_a_node_the_server_is_alive_and_not_ready(stopped_context: ApiContext) -> None:
    assert ask(stopped_context, "/healthz").status_code == 200
    answer = ask(stopped_context, "/readyz")
    assert answer.status_code == 503
    (problem,) = answer.json()["problems"]
    assert "the node does not answer" in problem


def test_a_node_that_stands_still_is_not_ready(
    context: ApiContext, node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "UNRESPONSIVE_SECONDS", 0.2)
    over, stands = threading.Event(), threading.Event()

    def stand_still() -> None:
        stands.set()
        over.wait(60)

    node.do(stand_still)
    assert stands.wait(60)
    try:
        answer = ask(context, "/readyz")
    finally:
        over.set()
    assert answer.status_code == 503
    assert answer.json()["problems"] == ["the node has not answered for 0.2 s"]


def test_a_store_that_fails_makes_it_not_ready_and_its_reason_is_not_for_everybody(
    context: ApiContext, node: LiveNode
) -> None:
    done = threading.Event()

    def fail(said: str) -> None:
        node.node.outbox.store_error = said
        done.set()

    node.do(lambda: fail("/secret/place: the disk is full"))
    assert done.wait(60)
    answer = ask(context, "/readyz")
    node.do(lambda: fail(""))
    assert answer.status_code == 503
    assert "the store cannot take anything" in answer.json()["problems"][0]
    assert "/secret" not in answer.text


def test_a_node_without_workers_on_purpose_is_ready_and_says_so(
    context: ApiContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = asyncio.run(numbers_of(context))
    without = replace(well, workers=0, last_turn=0.1, oldest_unsafe=0.0, status=replace(well.status, executes=False))

    async def numbers(_: ApiContext) -> NodeMetrics:
        return without

    monkeypatch.setattr(health, "numbers_of", numbers)
    answer = ask(context, "/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "problems": [], "notes": [NO_WORKERS_TEXT]})


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"last_turn": 5.1}, "the scheduler has made no turn for 5 s"),
        ({"oldest_unsafe": 10.1}, "the store has not taken what was offered for 10 s"),
        ({"workers": 0}, "no worker process is alive"),
        ({"queue": "out of /secret"}, "runs cannot be started; the node's log says why"),
    ],
)
def test_each_sign_of_life_counts(context: ApiContext, wrong: dict[str, Any], problem: str) -> None:
    well = asyncio.run(numbers_of(context))
    assert health_errors(replace(well, last_turn=4.9, oldest_unsafe=9.9, workers=1)) == []
    assert health_errors(replace(well, **wrong)) == [problem]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"lease": -2.2}, "its lease ran out 2 s ago: the database does not answer"),
        ({"queue": "nats://secret is out of reach"}, "the queue is out of reach; the node's log says why"),
    ],
)
def test_in_a_cluster_lease_and_queue_count_and_workers_do_not(
    context: ApiContext, wrong: dict[str, Any], problem: str
) -> None:
    place = ClusterMetrics(2, 128, 0, 3.9, "ok", 0, 0, {}, {}, 0)
    well = replace(asyncio.run(numbers_of(context)), last_turn=0.1, oldest_unsafe=0.0, workers=0, cluster=place)
    assert health_errors(well) == []
    assert health_errors(replace(well, cluster=replace(place, **wrong))) == [problem]


def test_many_who_ask_are_one_question_to_the_node(context: ApiContext, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = context.node.ask

    async def counting(request: Any) -> Any:
        asked.append(request)
        return await real(request)

    monkeypatch.setattr(context.node, "ask", counting)

    async def many() -> None:
        await asyncio.gather(*(numbers_of(context) for _ in range(50)))

    asyncio.run(many())
    assert len(asked) == 1
