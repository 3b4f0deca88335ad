"""The workers of a small cluster, what befalls processes, and how time goes on for all of them.

Any worker may come upon the message of any open run at any time, however often: the queue may lose, double and keep
what it likes, or be wiped. Runs end when they like. A process that is stopped is one that nothing happens to; only a
worker with a run that it must end holds the time up, unless the shape lets it be stopped for a while.
"""

from collections.abc import Iterator

from evenbeat.core import run_lease
from evenbeat.core.run_lease import Hand
from evenbeat.sim.cluster_messages import WORKERS, told, with_latest
from evenbeat.sim.cluster_model import GONE, NOW, Broken, Held, Message, Node, Part, Shape, State, Worker, put, task_of
from evenbeat.sim.cluster_node import Found


def worker_events(shape: Shape, state: State) -> Iterator[Found]:
    """Workers ask, tell, begin and end runs."""
    offered = published(state)
    for w, worker in enumerate(state.workers):
        if worker is None:
            continue
        for token in offered:
            if may_ask(shape, worker, token):
                asked = worker._replace(asked=tuple(sorted((*worker.asked, (token, 0)))))
                yield f"worker {w} asks for {token}", _sent(state, w, asked, Message("question", w, (token,), 0))
        tidings = _tidings(w, worker)
        if not shape.steady and tidings not in state.messages:
            yield f"worker {w} tells", state._replace(messages=with_latest(shape, state.messages, tidings))
        for held in worker.held:
            yield from _run_events(state, w, held)
    for message in state.messages:
        receiver = state.workers[message.worker]
        if receiver is None:
            continue
        if message.kind == "permission" and accepts(receiver, message):
            yield f"worker {message.worker} gets {told(message)}", _permitted(shape, state, message.worker, message)
        elif message.kind == "renewal" and is_news(receiver, message):
            renewed = tuple(
                h._replace(renewed=counts_from(message)) if h.token == message.tokens[0] else h for h in receiver.held
            )
            after = put(state.workers, message.worker, receiver._replace(held=renewed))
            yield f"worker {message.worker} gets {told(message)}", state._replace(workers=after)


def _tidings(w: int, worker: Worker) -> Message:
    return Message("tidings", w, tuple(h.token for h in worker.held), 0, settled(worker))


def published(state: State) -> list[int]:
    """The runs that are in the queue: those whose claims are committed."""
    return [book.token for book in state.books if book.token]


def may_ask(shape: Shape, worker: Worker, token: int) -> bool:
    """Not for what it holds."""
    ages = [age for asked, age in worker.asked if asked == token]
    return len(ages) < shape.asks and 0 not in ages and all(h.token != token for h in worker.held)


def settled(worker: Worker) -> int:
    """How long ago: before the oldest question that may still be answered, or before now if there is none."""
    return 1 + max((age for _, age in worker.asked), default=0)


def accepts(worker: Worker, message: Message) -> bool:
    """Only an answer to a question that is open: what is given up, or led to a start, is not."""
    return (message.tokens[0], message.sent) in worker.asked and run_lease.may_start(NOW - message.sent, NOW)


def counts_from(message: Message) -> int:
    """How long a run has gone on without being renewed: from when that was sent which is answered now."""
    return message.sent


def is_news(worker: Worker, message: Message) -> bool:
    """Does it renew a run?"""
    return any(h.token == message.tokens[0] and h.stage == "running" and message.sent < h.renewed for h in worker.held)


def _sent(state: State, w: int, worker: Worker, message: Message) -> State:
    return state._replace(workers=put(state.workers, w, worker), messages=state.messages | {message})


def _permitted(shape: Shape, state: State, w: int, message: Message) -> State:
    worker, token = state.workers[w], message.tokens[0]
    assert worker is not None
    held = Held(token, "starting", counts_from(message))
    asked = tuple(a for a in worker.asked if a[0] != token)
    after = state._replace(workers=put(state.workers, w, Worker(asked, tuple(sorted((*worker.held, held))))))
    return after if shape.stall else _begun(after, w, held)


def _begun(state: State, w: int, held: Held) -> State:
    p = task_of(held.token)
    book, done = state.books[p], f"worker {w} begins {held.token}"
    if book.token != held.token or book.is_started:
        raise Broken("cluster: permitted", done)
    if any(h.stage == "running" and task_of(h.token) == p for k in state.workers if k is not None for h in k.held):
        raise Broken("cluster: alone", done)
    after = _changed(state, w, held, Held(held.token, "running", held.renewed))
    return after._replace(books=put(state.books, p, book._replace(is_started=True)))


def _run_events(state: State, w: int, held: Held) -> Iterator[Found]:
    if held.stage == "starting":
        yield f"worker {w} begins {held.token}", _begun(state, w, held)
    elif held.stage == "running":
        yield f"{held.token} ends", _changed(state, w, held, Held(held.token, "ended", 0))
        if run_lease.must_end(NOW - held.renewed, NOW):
            yield f"worker {w} ends {held.token} itself", killed(state, w, held)


def killed(state: State, w: int, held: Held) -> State:
    """What a worker ended itself has a result too, which it keeps telling."""
    return _changed(state, w, held, Held(held.token, "killed", 0))


def _changed(state: State, w: int, old: Held, new: Held) -> State:
    worker = state.workers[w]
    assert worker is not None
    held = tuple(new if h == old else h for h in worker.held)
    return state._replace(workers=put(state.workers, w, worker._replace(held=held)))


# What befalls processes


def deaths(state: State) -> Iterator[Found]:
    """Each process may die; the runs of a worker die with it."""
    if not state.deaths:
        return
    less = state._replace(deaths=state.deaths - 1)
    for i, node in enumerate(state.nodes):
        if node is not None:
            yield f"node {i} dies", less._replace(nodes=put(state.nodes, i, None))
    for w, worker in enumerate(state.workers):
        if worker is not None:
            yield f"worker {w} dies", died(less, w)


def died(state: State, w: int) -> State:
    """It takes its runs with it."""
    return state._replace(workers=put(state.workers, w, None))


# Time


def ticks(shape: Shape, state: State) -> Iterator[Found]:
    """Time goes on for all; or for all but one clock, or for one clock only."""
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


def _lets_time_pass(shape: Shape, held: Held) -> bool:
    if held.stage == "starting":
        return held.waited < shape.stall
    return held.stage != "running" or not run_lease.must_end(NOW - held.renewed + shape.stall, NOW)


def ticked(shape: Shape, state: State, slow: frozenset[str]) -> State:
    """One tick later, but not on the clocks that are slow."""
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
        leases = tuple(expires if expires == GONE else max(expires - 1, -1) for expires in leases)
    messages = (m._replace(sent=m.sent + by[m.worker], settled=m.settled + by[m.worker]) for m in state.messages)
    after = state._replace(leases=leases, nodes=nodes, workers=workers)
    there = frozenset(m for m in messages if _matters(shape, after, m))
    for w, worker in enumerate(workers):
        if shape.steady and worker is not None and by[w] and any(book.token for book in state.books):
            there = with_latest(shape, there, _tidings(w, worker))
    return after._replace(messages=there)


def _matters(shape: Shape, state: State, message: Message) -> bool:
    """Would it change anything, now or later?"""
    worker = state.workers[message.worker]
    if message.kind == "permission":
        return worker is not None and message.sent <= shape.delay and accepts(worker, message)
    if message.kind == "renewal":
        return worker is not None and message.sent <= shape.delay and is_news(worker, message)
    if message.kind == "question":
        return message.sent <= shape.delay and any(book.token == message.tokens[0] for book in state.books)
    # Tidings are about open claims; or nobody looks at them.
    return message.sent <= shape.delay and any(book.token for book in state.books)


def _older_node(shape: Shape, node: Node, step: int, by: list[int]) -> Node:
    parts = tuple(None if part is None else _older_part(shape, part, step, by) for part in node.parts)
    answer = node.answer if node.answer == GONE else min(node.answer + step, shape.lease + 1)
    until = node.until if shape.nodes == 1 else max(node.until - step, 0)
    return node._replace(until=until, answer=answer, parts=parts)


def _older_part(shape: Shape, part: Part, step: int, by: list[int]) -> Part:
    hand = part.hand
    if not hand.worker and not hand.adopted:
        return part
    on_its_clock = by[WORKERS.index(hand.worker)] if hand.worker else 0
    asked = max(hand.asked - on_its_clock, NOW - shape.delay - shape.permit - 2) if hand.worker else 0
    renewed = max(hand.renewed - step, NOW - shape.hold - shape.margin - 1)
    return part._replace(hand=Hand(hand.worker, asked, renewed, hand.adopted))


def _older_worker(shape: Shape, worker: Worker) -> Worker:
    asked = tuple(
        (token, age + 1) for token, age in worker.asked
        if run_lease.may_start(NOW - age - 1, NOW) and age <= shape.delay
    )  # fmt: skip
    held = tuple(
        h._replace(renewed=min(h.renewed + 1, shape.hold + shape.stall + 2), waited=h.waited + (h.stage == "starting"))
        if h.stage in ("starting", "running")
        else h
        for h in worker.held
    )
    return Worker(asked, held)
