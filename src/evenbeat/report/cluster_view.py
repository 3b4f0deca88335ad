"""A cluster as a whole, put together from what its nodes publish in their leases."""

from collections.abc import Sequence
from typing import Final

import msgspec

from evenbeat.model import Instant
from evenbeat.store.cluster_contract import ClusterSnapshot, NodeLease
from evenbeat.wire.cluster_view import ClusterView, NodeInfo, NodeView, PoolView, WorkerView
from evenbeat.wire.status import Lateness, LimitStatus, Status

_node_info_decoder: Final = msgspec.json.Decoder(NodeInfo)


def decode_node_info(lease: NodeLease) -> NodeInfo:
    """What a node has published in its lease."""
    return _node_info_decoder.decode(lease.about)


def cluster_view_of(view: ClusterSnapshot, now: int | None = None) -> ClusterView:
    """What all nodes publish, put together; `now` may be later than the snapshot."""
    now = view.now if now is None else max(now, view.now)
    nodes = [
        NodeView(
            lease.node,
            lease.epoch,
            round((lease.expires - now) / 1e6, 3),
            [p for p, holder in enumerate(view.holders) if holder == lease.node],
            decode_node_info(lease),
        )
        for lease in view.leases
    ]
    living = [node for node in nodes if node.expires_in > 0]
    held = {partition for node in living for partition in node.partitions}
    workers: dict[str, WorkerView] = {}
    for node in living:
        for worker in node.about.workers:
            known = workers.get(worker.id)
            if known is None or worker.silent_for < known.silent_for:
                workers[worker.id] = worker
    names = sorted({name for node in living for name in node.about.pools})
    return ClusterView(
        Instant(now),
        nodes,
        [partition for partition in range(len(view.holders)) if partition not in held],
        sorted(workers.values(), key=lambda worker: (worker.name, worker.id)),
        {name: _merge_pools([node.about.pools[name] for node in living if name in node.about.pools]) for name in names},
        view.shares,
    )


def _merge_pools(seen: Sequence[PoolView]) -> PoolView:
    """The best of what several nodes see: one of them may be cut off from the queue."""
    alone = [pool.without_worker_for for pool in seen]
    without = None if None in alone else min(length for length in alone if length is not None)
    waiting = sum(pool.waiting for pool in seen)
    return PoolView(max(p.workers for p in seen), max(p.slots for p in seen), waiting, without)


def merge_statuses(statuses: Sequence[Status]) -> Status | None:
    """The statuses of several nodes as one; None without any."""
    if not statuses:
        return None
    first = statuses[0]

    def total(name: str) -> int:
        return sum(getattr(status, name) for status in statuses)

    def counts(name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for status in statuses:
            for word, count in getattr(status, name).items():
                found[word] = found.get(word, 0) + count
        return found

    late = [status.lateness for status in statuses]
    return Status(
        tasks=total("tasks"),
        idle=total("idle"),
        pending=total("pending"),
        slots=total("slots"),
        waiting=total("waiting"),
        late=total("late"),
        stale=total("stale"),
        disabled=total("disabled"),
        states=counts("states"),
        runs=total("runs"),
        outcomes=counts("outcomes"),
        skipped=counts("skipped"),
        late_by=counts("late_by"),
        runs_per_second=round(sum(status.runs_per_second for status in statuses), 3),
        lateness=Lateness(max(of.p50 for of in late), max(of.p99 for of in late), max(of.max for of in late)),
        uptime=max(status.uptime for status in statuses),
        generation=first.generation,
        first_runs_to_come=total("first_runs_to_come"),
        catch_ups_to_come=total("catch_ups_to_come"),
        to_come_until=max((s.to_come_until for s in statuses if s.to_come_until is not None), default=None),
        store=next((status.store for status in statuses if status.store != "ok"), "ok"),
        problems=list(dict.fromkeys(problem for status in statuses for problem in status.problems)),
        executes=any(status.executes for status in statuses),
        slots_source=first.slots_source,
        limits={
            name: LimitStatus(of.most, sum(s.limits[name].running for s in statuses if name in s.limits), of.source)
            for name, of in first.limits.items()
        },
        files=next((status.files for status in statuses if status.files != "ok"), "ok"),
        messages_waiting=total("messages_waiting"),
        messages_waiting_since=min(
            (s.messages_waiting_since for s in statuses if s.messages_waiting_since is not None), default=None
        ),
        history=next((status.history for status in statuses if status.history is not None), None),
        failing_contacts=sorted({contact for status in statuses for contact in status.failing_contacts}),
    )
