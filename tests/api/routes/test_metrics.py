import asyncio
import re

import httpx
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.server import protected_application
from evenbeat.client.node_or_database import open_client
from evenbeat.core.gate import Reason
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import Outcome

LABELS = {"outcome", "reason", "state", "kind", "version", "le", "pool"}
WRONG_UNITS = ("milli", "micro", "minute", "hour", "_ms", "_us", "kilo", "mega", "percent")
WRONG_ENDS = ("_total", "_count", "_sum", "_bucket", "_info")


def scraped(context: ApiContext, accept: str = "") -> httpx.Response:
    async def asking() -> httpx.Response:
        transport = httpx.ASGITransport(
            app=protected_application(context, TokenAuthenticator(context, "127.0.0.1", is_open=True))
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/metrics", headers={"accept": accept})

    answer = asyncio.run(asking())
    assert answer.status_code == 200
    return answer


def families(context: ApiContext) -> dict[str, Metric]:
    answer = scraped(context)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = list(text_string_to_metric_families(answer.text))
    assert len({metric.name for metric in found}) == len(found)
    return {metric.name: metric for metric in found}


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def lint(metric: Metric) -> list[str]:
    """What promtool would say, and a little more."""
    wrong = []
    if not re.fullmatch(r"evenbeat_[a-z]+(_[a-z]+)*", metric.name):
        wrong.append("a name in lower case, with our prefix")
    if not re.fullmatch(r"[^.].*\.", metric.documentation):
        wrong.append("a sentence of help")
    if any(word in metric.name for word in WRONG_UNITS):
        wrong.append("base units")
    if any(word in metric.name.split("_") for word in ("gauge", "counter", "histogram", "evenbeats")):
        wrong.append("no type in the name")
    for sample in metric.samples:
        if not sample.labels.keys() <= LABELS:
            wrong.append(f"a label that may have any value: {sample.labels}")
        if metric.type == "counter" and not sample.name.endswith("_total"):
            wrong.append("counters end in _total")
        if metric.type == "gauge" and sample.name.endswith(WRONG_ENDS) and sample.name != "evenbeat_build_info":
            wrong.append("what is no counter does not end like one")
        if metric.type == "histogram" and "_seconds" not in metric.name:
            wrong.append("a unit")
    return wrong


def test_names_keep_to_the_conventions(context: ApiContext) -> None:
    found = families(context)
    assert {name: wrong for name, metric in found.items() if (wrong := lint(metric))} == {}
    assert {metric.type for metric in found.values()} == {"gauge", "counter", "histogram"}


def test_a_bad_name_would_be_found() -> None:
    text = '# HELP evenbeat_run_ms no\n# TYPE evenbeat_run_ms gauge\nevenbeat_run_ms{task="x"} 1\n'
    (metric,) = text_string_to_metric_families(text)
    assert len(lint(metric)) == 3


def test_what_the_node_did_is_in_the_numbers(context: ApiContext) -> None:
    before = families(context)
    with open_client(context.database, "ana") as client:
        client.add([task_from_table("good", {"every": "1d", "command": ["true"]}, check=False)], "ana")
        client.add([task_from_table("bad", {"every": "1d", "command": ["false"]}, check=False)], "ana")
        client.run_now(["good", "bad"], wait=True)
        client.run_now(["bad"], wait=True)
    after = families(context)

    def grown(name: str) -> dict[tuple[str, ...], float]:
        old = values(before[name])
        return {key: value - old[key] for key, value in values(after[name]).items() if value != old[key]}

    assert grown("evenbeat_runs") == {("succeeded",): 1, ("failed",): 2}
    assert grown("evenbeat_claimed_runs") == {(): 3}
    assert grown("evenbeat_problems") == {("critical",): 1}
    assert grown("evenbeat_tasks") == {(): 2}
    assert values(after["evenbeat_up"]) == values(after["evenbeat_ready"]) == {(): 1}
    assert values(after["evenbeat_workers"]) == {("default",): 1}
    assert values(after["evenbeat_worker_processes"])[()] >= 1
    assert values(after["evenbeat_load_forecast_peak"])[()] >= values(after["evenbeat_load_forecast_mean"])[()]
    for name in ("lateness_seconds", "run_duration_seconds"):
        counts = [sample.value for sample in after[f"evenbeat_{name}"].samples if sample.name.endswith("_count")]
        assert counts == [values(after["evenbeat_claimed_runs"])[()]]


def test_all_values_of_a_label_are_there_from_the_beginning(context: ApiContext) -> None:
    found = families(context)
    assert values(found["evenbeat_runs"]).keys() == {(outcome.value,) for outcome in Outcome}
    assert values(found["evenbeat_skips"]).keys() == {(reason.value,) for reason in Reason} - {("none",)}
    assert ("critical",) in values(found["evenbeat_checks"])
    assert values(found["evenbeat_problems"]).keys() == {("ok",), ("warning",), ("critical",), ("unknown",)}


def test_histograms_are_whole(context: ApiContext) -> None:
    for metric in families(context).values():
        if metric.type != "histogram":
            continue
        buckets = [(s.labels["le"], s.value) for s in metric.samples if s.name.endswith("_bucket")]
        (count,) = [s.value for s in metric.samples if s.name.endswith("_count")]
        assert [float(le) for le, _ in buckets] == sorted(float(le) for le, _ in buckets)
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == ("+Inf", count)


def test_open_metrics_is_spoken_to_who_asks_for_it(context: ApiContext) -> None:
    answer = scraped(context, "application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert "evenbeat_runs" in {metric.name for metric in open_metrics(answer.text)}  # type: ignore[no-untyped-call]


def test_of_a_node_that_is_gone_only_that_is_told(stopped_context: ApiContext) -> None:
    found = families(stopped_context)
    assert values(found["evenbeat_up"]) == values(found["evenbeat_ready"]) == {(): 0}
    assert [name for name, metric in found.items() if metric.type == "counter"] == ["evenbeat_api_refused"]
