"""What workers ask and tell the nodes of a small cluster, and what they are answered.

A node looks at its clock after it has got a message, and whoever it answers may get that at any time: so it may have
been stopped in between. That something is over, or kept, is true for ever: when that arrives makes no difference.
"""

from collections.abc import Iterator
from typing import Final

from evenbeat.core import run_lease
from evenbeat.core.run_lease import Hand
from evenbeat.sim.cluster_model import NOW, Broken, Message, Node, Part, Phase, Shape, State, put, task_of
from evenbeat.sim.cluster_node import Found, with_part

WORKERS: Final = ("worker 0", "worker 1", "worker 2", "worker 3")


def message_events(shape: Shape, state: State) -> Iterator[Found]:
    """A node that may act gets a message."""
    acting = [(i, node) for i, node in enumerate(state.nodes) if node is not None and node.until > 0]
    if not acting:
        return
    for message in state.messages:
        if message.kind == "question":
            p = task_of(message.tokens[0])
            for i, node in acting:
                part = node.parts[p]
                if part is not None and part.stage == "serving" and part.phase is None:
                    yield f"node {i} gets {told(message)}", _asked(state, i, p, part, message)
        elif message.kind == "tidings":
            for i, node in acting:
                for p, part in enumerate(node.parts):
                    if part is not None and part.stage == "serving" and part.phase is None:
                        yield f"node {i} gets {told(message)} for task {p}", _heard(shape, state, i, p, part, message)
    yield from _reports(state, acting)


def told(message: Message) -> str:
    """For people."""
    about = " ".join(map(str, message.tokens)) or "nothing"
    return f"{message.kind} of {about} of worker {message.worker}, {message.sent} ticks old"


def _asked(state: State, i: int, p: int, part: Part, message: Message) -> State:
    token, worker = message.tokens[0], state.workers[message.worker]
    hand = (
        run_lease.granted(part.hand, WORKERS[message.worker], NOW - message.sent, NOW) if part.token == token else None
    )
    if hand is not None:
        permission = message._replace(kind="permission")
        granted = state._replace(messages=state.messages | {permission})
        return with_part(granted, i, p, part._replace(hand=hand))
    if worker is None:
        return state
    refused = worker._replace(asked=tuple(a for a in worker.asked if a != (token, message.sent)))
    return state._replace(workers=put(state.workers, message.worker, refused))


def _heard(shape: Shape, state: State, i: int, p: int, part: Part, message: Message) -> State:
    """Renew what is its own, take back what was never begun, and say what is over."""
    name = WORKERS[message.worker]
    for token in message.tokens:
        if task_of(token) != p:
            continue
        hand = run_lease.renewed(part.hand, name, NOW) if token == part.token else None
        if hand is None:
            state = forgotten(state, message.worker, token)
        else:
            part = part._replace(hand=hand)
            answer = Message("renewal", message.worker, (token,), message.sent)
            state = state._replace(messages=with_latest(shape, state.messages, answer))
    if part.token and part.token not in message.tokens and run_lease.is_untaken(part.hand, name, NOW - message.settled):
        part = part._replace(hand=Hand())
    return with_part(state, i, p, part)


def with_latest(shape: Shape, messages: frozenset[Message], new: Message) -> frozenset[Message]:
    """One more; the oldest of its kind is lost if there are too many."""
    same = [m for m in messages if m.kind == new.kind and m.worker == new.worker and m != new]
    if len(same) >= shape.tidings:
        messages = messages - {max(same, key=lambda m: (m.sent, m.settled, m.tokens))}
    return messages | {new}


def forgotten(state: State, w: int, token: int) -> State:
    """The worker learns that a run is over: it ends it, if it goes on, and keeps nothing of it."""
    worker = state.workers[w]
    if worker is None or all(h.token != token for h in worker.held):
        return state
    if any(book.token == token for book in state.books):
        raise Broken("cluster: kept", f"worker {w} is told that {token} is over")
    kept = worker._replace(held=tuple(h for h in worker.held if h.token != token))
    return state._replace(workers=put(state.workers, w, kept))


def _reports(state: State, acting: list[tuple[int, Node]]) -> Iterator[Found]:
    """A worker tells how a run ended, again and again until the node says that it is kept, or that nobody wants it."""
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
                    yield f"node {i} does not want the result of {held.token}", forgotten(state, w, held.token)
                else:
                    what = "finish" if held.stage == "ended" else "again"
                    reported = with_part(state, i, p, part._replace(phase=Phase(what, held.token)))
                    yield f"node {i} gets the result of {held.token}", reported
