"""/metrics: the node's metrics in the format of Prometheus. Labels have few values, all known in advance."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.responses import Response

from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.refusals import REASONS
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.health import health_errors, numbers_of
from evenbeat.core.gate import Reason
from evenbeat.model import SECOND, Instant, Outcome
from evenbeat.store.contract import StoreError
from evenbeat.when.curve import Stretch
from evenbeat.wire.cluster_messages import DEFAULT_POOL
from evenbeat.wire.cluster_view import PoolView
from evenbeat.wire.metrics import AlertMetrics, ClusterMetrics, Histogram, NodeMetrics

_FORECAST_SECONDS: Final = 600
"""Seconds that the forecast looks ahead."""
_MAX_POOLS: Final = 100
"""Pools that have metrics of their own, those without a worker first."""
_DELIVERY_COUNTERS: Final = {
    "handed_over_again": ("redispatched", "Runs that were handed over again, as their message was gone."),
    "permissions_unused": ("reopened", "Runs that a worker was granted and did not take."),
    "results_late": ("late_results", "Results that came when the run was accounted for already: they change nothing."),
    "runs_lost": ("lost", "Runs whose worker is gone or was cut off."),
    "runs_set_aside": ("set_aside", "Runs that were handed over too often, and that no worker took."),
    "runs_without_worker": ("without_worker", "Runs that were given up, as their pool had no worker."),
    "runs_too_large": ("too_large", "Runs that are larger than a message may be."),
    "queue_messages_unreadable": ("unreadable", "Messages of the queue that could not be decoded."),
}
"""Counters of what happens to runs that are handed over, and what each is called where it is counted."""


class StartForecast(NamedTuple):
    """Of runs in a second."""

    peak: float
    mean: float


class MetricsCollector(Collector):
    """The metrics at one instant; None while the node does not answer or the plan is unknown."""

    def __init__(
        self,
        numbers: NodeMetrics | None,
        forecast: StartForecast | None = None,
        refused: Mapping[str, int] | None = None,
    ) -> None:
        self._numbers = numbers
        self._forecast = forecast
        self._refused = refused or {}

    def collect(self) -> Iterable[Metric]:
        """All metric families; for a node that does not answer, only that fact."""
        numbers = self._numbers
        info = GaugeMetricFamily("evenbeat_build_info", "Which evenbeat serves this; always 1.", labels=["version"])
        info.add_metric([version("evenbeat")], 1)
        yield info
        yield _gauge("up", "1 if the node answers.", numbers is not None)
        is_ready = numbers is not None and not health_errors(numbers)
        yield _gauge("ready", "1 if the node does its work, as reported by /readyz.", is_ready)
        if numbers is not None:
            yield from _task_metrics(numbers)
            yield from _run_metrics(numbers)
            yield from _alert_metrics(numbers.alerts)
            yield from _node_metrics(numbers)
            yield from _worker_metrics(numbers)
            if numbers.cluster is not None:
                yield from _cluster_metrics(numbers.cluster)
        if self._forecast is not None:
            ahead = f"a second of the next {_FORECAST_SECONDS // 60} minutes, as schedules plan them."
            yield _gauge("load_forecast_peak", f"Runs in the fullest {ahead}", self._forecast.peak)
            yield _gauge("load_forecast_mean", f"Runs on the average in {ahead}", self._forecast.mean)
        meaning = "Requests that the API refused, and connections that it closed, by why."
        refused = CounterMetricFamily("evenbeat_api_refused", meaning, labels=["reason"])
        for reason in REASONS:
            refused.add_metric([reason], self._refused.get(reason, 0))
        yield refused


def _task_metrics(numbers: NodeMetrics) -> Iterable[Metric]:
    status = numbers.status
    yield _gauge("tasks", "Tasks that there are.", status.tasks)
    yield _gauge("idle_tasks", "Tasks that wait for their time.", status.idle)
    yield _gauge("disabled_tasks", "Tasks that do not run until they are enabled.", status.disabled)
    yield _gauge("waiting_tasks", "Tasks that are due and held back by slots or limits.", status.waiting)
    yield _gauge("late_tasks", "Tasks that have been due for more than a second.", status.late)
    yield _gauge("stale_tasks", "Tasks whose result is overdue.", status.stale)
    slope = GaugeMetricFamily("evenbeat_runs_to_come", "First and catch-up runs that are planned.", labels=["kind"])
    slope.add_metric(["first"], status.first_runs_to_come)
    slope.add_metric(["catch-up"], status.catch_ups_to_come)
    yield slope
    checks = GaugeMetricFamily("evenbeat_checks", "Checks, by their state.", labels=["state"])
    for state, count in status.states.items():
        checks.add_metric([state], count)
    yield checks
    problems = GaugeMetricFamily("evenbeat_problems", "Open problems of tasks, by their state.", labels=["state"])
    for state, count in numbers.problems.items():
        problems.add_metric([state], count)
    yield problems


def _alert_metrics(alerts: AlertMetrics) -> Iterable[Metric]:
    told = "What contacts were to be told of problems, by what was decided."
    items = CounterMetricFamily("evenbeat_notifications", told, labels=["outcome"])
    for outcome in ("sent", "suppressed", "waiting"):
        items.add_metric([outcome], alerts.outcomes.get(outcome, 0))
    yield items
    messages = CounterMetricFamily("evenbeat_messages", "Messages that have ended, by how.", labels=["outcome"])
    for outcome in ("delivered", "given up"):
        messages.add_metric([outcome], alerts.outcomes.get(outcome, 0))
    yield messages
    failed = alerts.outcomes.get("failed", 0)
    yield _counter("failed_deliveries", "Deliveries of messages that failed, and are tried again.", failed)
    yield _gauge("messages_waiting", "Messages that have left and are not delivered yet.", alerts.messages)
    yield _gauge("messages_waiting_age_seconds", "Since the oldest of them left.", alerts.oldest)
    yield _counter("sender_restarts", "How often the sender process was started again.", alerts.sender_restarts)


def _run_metrics(numbers: NodeMetrics) -> Iterable[Metric]:
    status = numbers.status
    yield _gauge("pending_runs", "Runs that are claimed or running.", status.pending)
    yield _gauge("slots", "Runs that may be pending at the same time.", status.slots)
    yield _counter("claimed_runs", "Runs that were claimed and handed over.", status.runs)
    runs = CounterMetricFamily("evenbeat_runs", "Runs that have ended, by how.", labels=["outcome"])
    for outcome in Outcome:
        runs.add_metric([outcome.value], status.outcomes.get(outcome.value, 0))
    yield runs
    yield _counter("task_retries", "Runs of tasks that tried again what had failed.", numbers.retries)
    skips = CounterMetricFamily("evenbeat_skips", "Nominal times without a run, by why.", labels=["reason"])
    for reason in Reason:
        if reason is not Reason.NONE:
            skips.add_metric([reason.value], status.skipped.get(reason.value, 0))
    yield skips
    yield _histogram("lateness_seconds", "From when runs were due until they started.", numbers.lateness)
    yield _histogram("run_duration_seconds", "How long runs lasted.", numbers.duration)


def _node_metrics(numbers: NodeMetrics) -> Iterable[Metric]:
    yield _gauge("uptime_seconds", "Since the node was started.", numbers.status.uptime)
    yield _gauge("last_turn_age_seconds", "Since the last turn of the scheduler.", numbers.last_turn)
    yield _counter("cpu_seconds", "Processor time of the node itself, without its workers.", numbers.cpu)
    if (history := numbers.status.history) is not None:
        yield _gauge("database_bytes", "The size of the database, free pages included.", history.size)
        yield _gauge("database_free_bytes", "Free pages within it.", history.free)
        yield _gauge("database_growth_bytes", "By how much it grows within a day.", history.growth_per_day)
        yield _gauge("database_forecast_bytes", "What it becomes with this retention.", history.forecast)
        if history.disk_free is not None:
            yield _gauge("database_disk_free_bytes", "Free bytes of the disk of the database.", history.disk_free)
    yield _gauge("store_ok", "1 if the store takes what it is offered.", numbers.status.store == "ok")
    yield _gauge("store_queue_batches", "Batches on their way into the store.", numbers.unsafe)
    yield _gauge("store_queue_age_seconds", "How long the oldest of them has been.", numbers.oldest_unsafe)
    yield _histogram("store_commit_seconds", "How long the store took to keep batches.", numbers.commit_time)


def _worker_metrics(numbers: NodeMetrics) -> Iterable[Metric]:
    """A single node counts as one worker, whatever the number of its processes."""
    cluster = numbers.cluster
    processes = numbers.workers if cluster is None else cluster.processes
    yield _gauge("worker_processes", "Worker processes that are up.", processes)
    yield _counter("worker_restarts", "Worker processes that ended before they were told to.", numbers.worker_restarts)
    alone = {DEFAULT_POOL: PoolView(min(numbers.workers, 1), numbers.status.slots, 0, None)}
    pools = alone if cluster is None else cluster.pools
    shown = sorted(pools.items(), key=lambda item: (item[1].without_worker_for is None, item[0]))[:_MAX_POOLS]
    yield _gauge("pools", "Pools that tasks or workers have named lately.", len(pools))
    yield _by_pool("workers", "Workers that serve a pool.", {name: pool.workers for name, pool in shown})
    yield _by_pool(
        "pool_slots", "Runs that they can have at the same time.", {name: pool.slots for name, pool in shown}
    )
    waiting = {name: pool.waiting for name, pool in shown}
    yield _by_pool("pool_waiting", "Runs of this node that no worker has taken yet.", waiting)
    without = {name: pool.without_worker_for or 0.0 for name, pool in shown}
    yield _by_pool("pool_without_worker_seconds", "How long a pool has had no worker; 0 if it has.", without)


def _cluster_metrics(place: ClusterMetrics) -> Iterable[Metric]:
    yield _gauge("cluster_nodes", "Nodes of the cluster that are alive.", place.nodes)
    yield _gauge("node_partitions", "Partitions that this node holds.", place.partitions)
    yield _gauge("partitions_unheld", "Partitions that no living node holds: their tasks do not run.", place.unheld)
    yield _gauge("node_lease_remaining_seconds", "For which this node may act; below 0 it may not.", place.lease)
    yield _gauge("queue_up", "1 if this node can reach the queue.", place.queue == "ok")
    for name, (key, meaning) in _DELIVERY_COUNTERS.items():
        yield _counter(name, meaning, place.handing.get(key, 0))
    yield _counter("takeovers", "Nodes whose lease had ended, and whose partitions this one set free.", place.takeovers)
    yield _counter("fenced", "How often this node's own lease was taken away.", place.fenced)


def _by_pool(name: str, meaning: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"evenbeat_{name}", meaning, labels=["pool"])
    for pool, value in values.items():
        family.add_metric([pool], value)
    return family


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"evenbeat_{name}", meaning, value=float(value))


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(f"evenbeat_{name}", meaning, value=value)


def _histogram(name: str, meaning: str, found: Histogram) -> Metric:
    bounds = [*map(floatToGoString, found.bounds), "+Inf"]
    buckets = [(bound, float(count)) for bound, count in zip(bounds, found.counts, strict=True)]
    return HistogramMetricFamily(f"evenbeat_{name}", meaning, buckets=buckets, sum_value=found.sum)


async def _forecast(context: ApiContext) -> StartForecast | None:
    try:
        outlook = await context.outlook_cache.current()
    except StoreError:
        return None
    stretch = Stretch(Instant(context.now() // SECOND * SECOND), _FORECAST_SECONDS)
    curve = await context.run_in_thread(outlook.planned, stretch)
    return StartForecast(float(curve.max()), float(curve.mean()))


async def _metrics_response(call: Call) -> Response:
    try:
        numbers = await numbers_of(call.context)
    except StoreError:
        numbers = None  # evenbeat_up shows it
    registry = CollectorRegistry(auto_describe=False)  # of this process only whom it refused: the node is watched
    registry.register(MetricsCollector(numbers, await _forecast(call.context), call.context.refusals.counts))
    encode, media = choose_encoder(call.request.headers.get("accept", ""))
    return Response(encode(registry), media_type=media, headers={"content-type": media})


ROUTES: Final = (
    Route(
        "GET",
        "/metrics",
        Role.READ,
        _metrics_response,
        "The node's metrics, for Prometheus.",
        str,
        "Health",
        media="text/plain",
    ),
)
