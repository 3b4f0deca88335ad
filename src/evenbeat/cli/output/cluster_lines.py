"""A cluster as short lines: its nodes, workers and pools, and their problems."""

from rich.markup import escape

from evenbeat.core.run_lease import WORKER_SILENT_AFTER
from evenbeat.model import SECOND
from evenbeat.report.cluster_document import (
    ClusterDocument,
    ClusterNodeDocument,
    ClusterWorkerDocument,
    PoolDocument,
)
from evenbeat.when.duration import spoken_duration


def cluster_lines(cluster: ClusterDocument) -> list[str]:
    """Lines with rich markup, for a terminal."""
    lines = ["nodes:", *(f"  {_node(node)}" for node in cluster.nodes)]
    lines += ["workers:" if cluster.workers else "[red]no worker has been heard of[/red]"]
    lines += [f"  {_worker(worker)}" for worker in cluster.workers]
    if cluster.pools:
        lines += ["pools:", *(f"  {_pool(name, pool)}" for name, pool in cluster.pools.items())]
    if cluster.unheld:
        lines.append(f"[red]{len(cluster.unheld)} partitions are held by no node: their tasks do not run[/red]")
    return lines


def _node(node: ClusterNodeDocument) -> str:
    who = f"{escape(node.name)} {node.pid} ({escape(node.id)})"
    if not node.is_alive:
        return f"[red]{who}: its lease ended {_seconds_text(-(node.expires_in or 0.0))} ago[/red]"
    status = node.status
    text = f"{who}: {_counted(node.partition_count, 'partition')}, {_counted(status.tasks, 'task')}, "
    text += f"{status.pending:,} of {status.slots:,} slots taken"
    if node.expires_in is not None:
        text += f", lease {node.expires_in:.1f} s"
    text += f", {escape(node.page)}" if node.page else ""
    text += f"\n    [red]the store fails: {escape(status.store)}[/red]" if status.store != "ok" else ""
    return text if node.queue == "ok" else f"{text}\n    [red]the queue: {escape(node.queue)}[/red]"


def _worker(worker: ClusterWorkerDocument) -> str:
    who = f"{escape(worker.name)} {worker.pid} ({escape(worker.id)}), pool {escape(', '.join(worker.pools))}"
    if worker.silent_for * SECOND >= WORKER_SILENT_AFTER:
        return f"[red]{who}: silent for {_seconds_text(worker.silent_for)}[/red]"
    text = f"{who}: {worker.held:,} of {worker.slots:,} slots taken" + (", leaving" if worker.is_leaving else "")
    return f"{text}\n    [red]{escape(worker.problem)}[/red]" if worker.problem else text


def _pool(name: str, pool: PoolDocument) -> str:
    waiting = f", {_counted(pool.waiting, 'run')} waiting" if pool.waiting else ""
    if pool.without_worker_for is not None:
        return f"[red]{escape(name)}: no worker for {_seconds_text(pool.without_worker_for)}{waiting}[/red]"
    return f"{escape(name)}: {_counted(pool.workers, 'worker')}, {_counted(pool.slots, 'slot')}{waiting}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _seconds_text(seconds: float) -> str:
    return spoken_duration(round(seconds) * SECOND)
