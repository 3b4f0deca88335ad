"""Messages between the workers and the nodes of a small cluster.

A node looks at its clock after it has got a message, and whoever it answers may get that at any time: so it may have
been stopped in between. That something is over, or kept, is true for ever: when that arrives makes no difference.
"""

from collections.abc import Iterator
from typing import Final

from evenbeat.core import run_lease
from evenbeat.core.run_lease import RunLease
from evenbeat.sim.cluster_model import (
    NOW,
    ClusterShape,
    ModelCluster,
    ModelMessage,
    ModelNode,
    ModelPartition,
    PendingWrite,
    PropertyBroken,
    replaced_at,
    task_of,
)
from evenbeat.sim.cluster_node import NextState, with_part

WORKERS: Final = ("worker 0", "worker 1", "worker 2", "worker 3")


def message_events(shape: ClusterShape, state: ModelCluster) -> Iterator[NextState]:
    """A node that may act receives a message."""
    acting = [(i, node) for i, node in enumerate(state.nodes) if node is not None and node.until > 0]
    if not acting:
        return
    for message in state.messages:
        if message.kind == "question":
            p = task_of(message.tokens[0])
            for i, node in acting:
                part = node.parts[p]
                if part is not None and part.stage == "serving" and part.phase is None:
                    yield f"node {i} gets {message_text(message)}", _request_received(state, i, p, part, message)
        elif message.kind == "tidings":
            for i, node in acting:
                for p, part in enumerate(node.parts):
                    if part is not None and part.stage == "serving" and part.phase is None:
                        yield (
                            f"node {i} gets {message_text(message)} for task {p}",
                            _status_received(shape, state, i, p, part, message),
                        )
    yield from _reports(state, acting)


def message_text(message: ModelMessage) -> str:
    """A message in the words of a counterexample."""
    about = " ".join(map(str, message.tokens)) or "nothing"
    return f"{message.kind} of {about} of worker {message.worker}, {message.sent} ticks old"


def _request_received(state: ModelCluster, i: int, p: int, part: ModelPartition, message: ModelMessage) -> ModelCluster:
    token, worker = message.tokens[0], state.workers[message.worker]
    hand = (
        run_lease.granted_lease(part.hand, WORKERS[message.worker], NOW - message.sent, NOW)
        if part.token == token
        else None
    )
    if hand is not None:
        permission = message._replace(kind="permission")
        granted = state._replace(messages=state.messages | {permission})
        return with_part(granted, i, p, part._replace(hand=hand))
    if worker is None:
        return state
    refused = worker._replace(asked=tuple(a for a in worker.asked if a != (token, message.sent)))
    return state._replace(workers=replaced_at(state.workers, message.worker, refused))


def _status_received(
    shape: ClusterShape, state: ModelCluster, i: int, p: int, part: ModelPartition, message: ModelMessage
) -> ModelCluster:
    """Answer the status of a worker: renew its runs, take back those it never began, and name those that are over."""
    name = WORKERS[message.worker]
    for token in message.tokens:
        if task_of(token) != p:
            continue
        hand = run_lease.renewed_lease(part.hand, name, NOW) if token == part.token else None
        if hand is None:
            state = with_run_forgotten(state, message.worker, token)
        else:
            part = part._replace(hand=hand)
            answer = ModelMessage("renewal", message.worker, (token,), message.sent)
            state = state._replace(messages=with_message(shape, state.messages, answer))
    if (
        part.token
        and part.token not in message.tokens
        and run_lease.was_never_started(part.hand, name, NOW - message.settled)
    ):
        part = part._replace(hand=RunLease())
    return with_part(state, i, p, part)


def with_message(shape: ClusterShape, messages: frozenset[ModelMessage], new: ModelMessage) -> frozenset[ModelMessage]:
    """The messages with one more; the oldest of its kind is lost if there are too many."""
    same = [m for m in messages if m.kind == new.kind and m.worker == new.worker and m != new]
    if len(same) >= shape.tidings:
        messages = messages - {max(same, key=lambda m: (m.sent, m.settled, m.tokens))}
    return messages | {new}


def with_run_forgotten(state: ModelCluster, w: int, token: int) -> ModelCluster:
    """The worker learns that a run is over: it ends the run if it goes on, and forgets it."""
    worker = state.workers[w]
    if worker is None or all(h.token != token for h in worker.held):
        return state
    if any(book.token == token for book in state.books):
        raise PropertyBroken("cluster: kept", f"worker {w} is told that {token} is over")
    kept = worker._replace(held=tuple(h for h in worker.held if h.token != token))
    return state._replace(workers=replaced_at(state.workers, w, kept))


def _reports(state: ModelCluster, acting: list[tuple[int, ModelNode]]) -> Iterator[NextState]:
    """A worker reports how a run ended, repeatedly, until the node says that this is stored or not wanted."""
    for w, worker in enumerate(state.workers):
        for held in worker.held if worker is not None else ():
            if held.stage not in ("ended", "killed"):
                continue
            p = task_of(held.token)
            for i, node in acting:
                part = node.parts[p]
                if part is None or part.stage != "serving" or part.phase is not None:
                    continue
                if part.token != held.token:
                    yield f"node {i} does not want the result of {held.token}", with_run_forgotten(state, w, held.token)
                else:
                    what = "finish" if held.stage == "ended" else "again"
                    reported = with_part(state, i, p, part._replace(phase=PendingWrite(what, held.token)))
                    yield f"node {i} gets the result of {held.token}", reported
