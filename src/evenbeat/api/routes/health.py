"""Health checks: /healthz for the api process, /readyz for the node: can it do its work?"""

import asyncio
import time
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct
from starlette.responses import Response

from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.report.status import NO_WORKERS_TEXT
from evenbeat.store.contract import StoreError
from evenbeat.wire.cluster_view import ClusterView
from evenbeat.wire.metrics import NodeMetrics
from evenbeat.wire.replies import Reply
from evenbeat.wire.requests import GetCluster, GetNodeMetrics, GetStatus, Request
from evenbeat.wire.status import Status

UNRESPONSIVE_SECONDS: Final = 5.0
"""Seconds without a turn of the loop, or an answer of the node, after which it is unhealthy."""
STUCK_WRITE_SECONDS: Final = 10.0
"""Seconds that the oldest batch may wait for its commit."""
_REPLY_MAX_AGE: Final = 1.0
"""Seconds for which one answer is shared by all callers, so that health checks cannot keep a node busy."""


class Health(Struct, omit_defaults=True):
    """Whether everything is well, and if not, the reasons."""

    ok: bool
    problems: list[str]
    notes: list[str] = []
    """Intended states worth knowing: a node without workers is ready, and executes nothing."""


class _CachedReply(NamedTuple):
    at: float
    reply: "asyncio.Task[Reply]"


_cached_replies: Final[WeakKeyDictionary[ApiContext, dict[type[Request], _CachedReply]]] = WeakKeyDictionary()


async def numbers_of(context: ApiContext) -> NodeMetrics:
    """The node's metrics, at most a second old; raise StoreError if it does not answer."""
    numbers = (await _cached_reply(context, GetNodeMetrics())).numbers
    assert numbers is not None
    return numbers


async def status_of(context: ApiContext) -> Status:
    """The status of the node, or of its whole cluster, at most a second old; raise StoreError if it does not answer."""
    status = (await _cached_reply(context, GetStatus())).status
    assert status is not None
    return status


async def cluster_view_of(context: ApiContext) -> ClusterView | None:
    """Members of the cluster, at most a second old; None for a single node. Raise StoreError if it does not answer."""
    return (await _cached_reply(context, GetCluster())).cluster


async def _cached_reply(context: ApiContext, request: GetNodeMetrics | GetStatus | GetCluster) -> Reply:
    """Answers of the node, shared by callers: looking at all its tasks is costly, and anyone may ask at any time."""
    looks = _cached_replies.setdefault(context, {})
    look = looks.get(type(request))
    if (
        look is None
        or time.monotonic() - look.at > _REPLY_MAX_AGE
        or look.reply.get_loop() is not asyncio.get_running_loop()
    ):
        look = looks[type(request)] = _CachedReply(time.monotonic(), asyncio.create_task(_ask_node(context, request)))
        look.reply.add_done_callback(lambda task: task.cancelled() or task.exception())  # the caller may be gone
    return await asyncio.shield(look.reply)


async def _ask_node(context: ApiContext, request: Request) -> Reply:
    try:
        async with asyncio.timeout(UNRESPONSIVE_SECONDS):
            return await context.node.ask(request)
    except TimeoutError:
        raise StoreError(f"the node has not answered for {UNRESPONSIVE_SECONDS:g} s") from None


def health_errors(numbers: NodeMetrics) -> list[str]:
    """The reasons why a node cannot do its work."""
    problems = []
    if numbers.last_turn > UNRESPONSIVE_SECONDS:
        problems.append(f"the scheduler has made no turn for {numbers.last_turn:.0f} s")
    if numbers.status.store != "ok":
        problems.append("the store cannot take anything; the node's log says why")
    if numbers.oldest_unsafe > STUCK_WRITE_SECONDS:
        problems.append(f"the store has not taken what was offered for {numbers.oldest_unsafe:.0f} s")
    if numbers.cluster is None:
        if not numbers.workers and numbers.status.executes:
            problems.append("no worker process is alive")
        elif numbers.queue:
            problems.append("runs cannot be started; the node's log says why")
        return problems
    # That a pool has no worker is no fault of the scheduler's: see evenbeat_pool_without_worker_seconds.
    if numbers.cluster.lease <= 0:
        problems.append(f"its lease ran out {-numbers.cluster.lease:.0f} s ago: the database does not answer")
    if numbers.cluster.queue != "ok":
        problems.append("the queue is out of reach; the node's log says why")
    return problems


async def _healthy(_: Call) -> Health:
    return Health(ok=True, problems=[])


async def _ready(call: Call) -> Response:
    notes = []
    try:
        numbers = await numbers_of(call.context)
        problems = health_errors(numbers)
        if not numbers.status.executes:
            notes.append(NO_WORKERS_TEXT)
    except StoreError as e:
        problems = [str(e)]
    health = Health(ok=not problems, problems=problems, notes=notes)
    return Response(msgspec.json.encode(health), 200 if health.ok else 503, media_type="application/json")


ROUTES: Final = (
    Route("GET", "/healthz", Role.ANYBODY, _healthy, "Is the server of the API alive?", Health, "Health"),
    Route(
        "GET",
        "/readyz",
        Role.ANYBODY,
        _ready,
        "Does the node do its work? 503 and the reasons if it does not.",
        Health,
        "Health",
    ),
)
