"""The workers of a small cluster, deaths of processes, and the passing of time.

Any worker may come upon the message of any open run at any time, however often: the queue may lose, double and keep
what it likes, or be wiped. Runs end when they like. A process that is stopped is one that nothing happens to; only a
worker with a run that it must end holds the time up, unless the shape lets it be stopped for a while.
"""

from collections.abc import Iterator

from evenbeat.core import run_lease
from evenbeat.core.run_lease import RunLease
from evenbeat.sim.cluster_messages import WORKERS, message_text, with_message
from evenbeat.sim.cluster_model import (
    LONG_GONE,
    NOW,
    ClusterShape,
    ModelCluster,
    ModelMessage,
    ModelNode,
    ModelPartition,
    ModelRun,
    ModelWorker,
    PropertyBroken,
    replaced_at,
    task_of,
)
from evenbeat.sim.cluster_node import NextState


def worker_events(shape: ClusterShape, state: ModelCluster) -> Iterator[NextState]:
    """Workers ask for runs, send their status, begin and end runs."""
    offered = published(state)
    for w, worker in enumerate(state.workers):
        if worker is None:
            continue
        for token in offered:
            if may_ask(shape, worker, token):
                asked = worker._replace(asked=tuple(sorted((*worker.asked, (token, 0)))))
                yield f"worker {w} asks for {token}", _sent(state, w, asked, ModelMessage("question", w, (token,), 0))
        tidings = _status_of(w, worker)
        if not shape.steady and tidings not in state.messages:
            yield f"worker {w} tells", state._replace(messages=with_message(shape, state.messages, tidings))
        for held in worker.held:
            yield from _run_events(state, w, held)
    for message in state.messages:
        receiver = state.workers[message.worker]
        if receiver is None:
            continue
        if message.kind == "permission" and accepts(receiver, message):
            yield (
                f"worker {message.worker} gets {message_text(message)}",
                _permitted(shape, state, message.worker, message),
            )
        elif message.kind == "renewal" and is_news(receiver, message):
            renewed = tuple(
                h._replace(renewed=counts_from(message)) if h.token == message.tokens[0] else h for h in receiver.held
            )
            after = replaced_at(state.workers, message.worker, receiver._replace(held=renewed))
            yield f"worker {message.worker} gets {message_text(message)}", state._replace(workers=after)


def _status_of(w: int, worker: ModelWorker) -> ModelMessage:
    return ModelMessage("tidings", w, tuple(h.token for h in worker.held), 0, settled(worker))


def published(state: ModelCluster) -> list[int]:
    """The runs in the queue: those whose claims are committed."""
    return [book.token for book in state.books if book.token]


def may_ask(shape: ClusterShape, worker: ModelWorker, token: int) -> bool:
    """May a worker ask for this run? Not if it holds it."""
    ages = [age for asked, age in worker.asked if asked == token]
    return len(ages) < shape.asks and 0 not in ages and all(h.token != token for h in worker.held)


def settled(worker: ModelWorker) -> int:
    """Up to when, relative to now, all questions are settled: before the oldest one that may still be answered."""
    return 1 + max((age for _, age in worker.asked), default=0)


def accepts(worker: ModelWorker, message: ModelMessage) -> bool:
    """Does a worker use this permission? Only for an open question, not one that is given up or led to a start."""
    return (message.tokens[0], message.sent) in worker.asked and run_lease.is_permission_valid(NOW - message.sent, NOW)


def counts_from(message: ModelMessage) -> int:
    """The time from which a renewed run counts: when the message was sent that is answered now."""
    return message.sent


def is_news(worker: ModelWorker, message: ModelMessage) -> bool:
    """Does it renew a run?"""
    return any(h.token == message.tokens[0] and h.stage == "running" and message.sent < h.renewed for h in worker.held)


def _sent(state: ModelCluster, w: int, worker: ModelWorker, message: ModelMessage) -> ModelCluster:
    return state._replace(workers=replaced_at(state.workers, w, worker), messages=state.messages | {message})


def _permitted(shape: ClusterShape, state: ModelCluster, w: int, message: ModelMessage) -> ModelCluster:
    worker, token = state.workers[w], message.tokens[0]
    assert worker is not None
    held = ModelRun(token, "starting", counts_from(message))
    asked = tuple(a for a in worker.asked if a[0] != token)
    after = state._replace(
        workers=replaced_at(state.workers, w, ModelWorker(asked, tuple(sorted((*worker.held, held)))))
    )
    return after if shape.stall else _begun(after, w, held)


def _begun(state: ModelCluster, w: int, held: ModelRun) -> ModelCluster:
    p = task_of(held.token)
    book, done = state.books[p], f"worker {w} begins {held.token}"
    if book.token != held.token or book.is_started:
        raise PropertyBroken("cluster: permitted", done)
    if any(h.stage == "running" and task_of(h.token) == p for k in state.workers if k is not None for h in k.held):
        raise PropertyBroken("cluster: alone", done)
    after = _changed(state, w, held, ModelRun(held.token, "running", held.renewed))
    return after._replace(books=replaced_at(state.books, p, book._replace(is_started=True)))


def _run_events(state: ModelCluster, w: int, held: ModelRun) -> Iterator[NextState]:
    if held.stage == "starting":
        yield f"worker {w} begins {held.token}", _begun(state, w, held)
    elif held.stage == "running":
        yield f"{held.token} ends", _changed(state, w, held, ModelRun(held.token, "ended", 0))
        if run_lease.has_lease_expired(NOW - held.renewed, NOW):
            yield f"worker {w} ends {held.token} itself", killed(state, w, held)


def killed(state: ModelCluster, w: int, held: ModelRun) -> ModelCluster:
    """A worker ends a run itself: that has a result too, which it keeps reporting."""
    return _changed(state, w, held, ModelRun(held.token, "killed", 0))


def _changed(state: ModelCluster, w: int, old: ModelRun, new: ModelRun) -> ModelCluster:
    worker = state.workers[w]
    assert worker is not None
    held = tuple(new if h == old else h for h in worker.held)
    return state._replace(workers=replaced_at(state.workers, w, worker._replace(held=held)))


# What befalls processes


def death_events(state: ModelCluster) -> Iterator[NextState]:
    """Each process may die; the runs of a worker die with it."""
    if not state.deaths:
        return
    less = state._replace(deaths=state.deaths - 1)
    for i, node in enumerate(state.nodes):
        if node is not None:
            yield f"node {i} dies", less._replace(nodes=replaced_at(state.nodes, i, None))
    for w, worker in enumerate(state.workers):
        if worker is not None:
            yield f"worker {w} dies", died(less, w)


def died(state: ModelCluster, w: int) -> ModelCluster:
    """A worker dies, and its runs with it."""
    return state._replace(workers=replaced_at(state.workers, w, None))


# Time


def tick_events(shape: ClusterShape, state: ModelCluster) -> Iterator[NextState]:
    """Time passes on all clocks, on all but one, or on one only."""
    if any(not _lets_time_pass(shape, h) for worker in state.workers if worker for h in worker.held):
        return
    yield "a tick", ticked(shape, state, frozenset())
    if state.skips:
        clocks = ["store"]
        clocks += [f"node {i}" for i, node in enumerate(state.nodes) if node is not None]
        clocks += [f"worker {w}" for w, worker in enumerate(state.workers) if worker is not None]
        less = state._replace(skips=state.skips - 1)
        for clock in clocks:
            yield f"a tick, {clock} is slow", ticked(shape, less, frozenset([clock]))
            yield f"a tick, {clock} is fast", ticked(shape, less, frozenset(clocks) - {clock})


def _lets_time_pass(shape: ClusterShape, held: ModelRun) -> bool:
    if held.stage == "starting":
        return held.waited < shape.stall
    return held.stage != "running" or not run_lease.has_lease_expired(NOW - held.renewed + shape.stall, NOW)


def ticked(shape: ClusterShape, state: ModelCluster, slow: frozenset[str]) -> ModelCluster:
    """One tick later, except on the `slow` clocks."""
    by = [int(f"worker {w}" not in slow) for w in range(len(state.workers))]
    nodes = tuple(
        None if node is None else _older_node(shape, node, int(f"node {i}" not in slow), by)
        for i, node in enumerate(state.nodes)
    )
    workers = tuple(
        _older_worker(shape, worker) if worker is not None and step else worker
        for worker, step in zip(state.workers, by, strict=True)
    )
    leases = state.leases
    if "store" not in slow and shape.nodes > 1:
        leases = tuple(expires if expires == LONG_GONE else max(expires - 1, -1) for expires in leases)
    messages = (m._replace(sent=m.sent + by[m.worker], settled=m.settled + by[m.worker]) for m in state.messages)
    after = state._replace(leases=leases, nodes=nodes, workers=workers)
    there = frozenset(m for m in messages if _is_relevant(shape, after, m))
    for w, worker in enumerate(workers):
        if shape.steady and worker is not None and by[w] and any(book.token for book in state.books):
            there = with_message(shape, there, _status_of(w, worker))
    return after._replace(messages=there)


def _is_relevant(shape: ClusterShape, state: ModelCluster, message: ModelMessage) -> bool:
    """Could this message change anything, now or later?"""
    worker = state.workers[message.worker]
    if message.kind == "permission":
        return worker is not None and message.sent <= shape.delay and accepts(worker, message)
    if message.kind == "renewal":
        return worker is not None and message.sent <= shape.delay and is_news(worker, message)
    if message.kind == "question":
        return message.sent <= shape.delay and any(book.token == message.tokens[0] for book in state.books)
    # A status about no open claim is not looked at.
    return message.sent <= shape.delay and any(book.token for book in state.books)


def _older_node(shape: ClusterShape, node: ModelNode, step: int, by: list[int]) -> ModelNode:
    parts = tuple(None if part is None else _older_part(shape, part, step, by) for part in node.parts)
    answer = node.answer if node.answer == LONG_GONE else min(node.answer + step, shape.lease + 1)
    until = node.until if shape.nodes == 1 else max(node.until - step, 0)
    return node._replace(until=until, answer=answer, parts=parts)


def _older_part(shape: ClusterShape, part: ModelPartition, step: int, by: list[int]) -> ModelPartition:
    hand = part.hand
    if not hand.worker and not hand.adopted:
        return part
    on_its_clock = by[WORKERS.index(hand.worker)] if hand.worker else 0
    asked = max(hand.asked - on_its_clock, NOW - shape.delay - shape.permit - 2) if hand.worker else 0
    renewed = max(hand.renewed_at - step, NOW - shape.hold - shape.margin - 1)
    return part._replace(hand=RunLease(hand.worker, asked, renewed, hand.adopted))


def _older_worker(shape: ClusterShape, worker: ModelWorker) -> ModelWorker:
    asked = tuple(
        (token, age + 1) for token, age in worker.asked
        if run_lease.is_permission_valid(NOW - age - 1, NOW) and age <= shape.delay
    )  # fmt: skip
    held = tuple(
        h._replace(renewed=min(h.renewed + 1, shape.hold + shape.stall + 2), waited=h.waited + (h.stage == "starting"))
        if h.stage in ("starting", "running")
        else h
        for h in worker.held
    )
    return ModelWorker(asked, held)
