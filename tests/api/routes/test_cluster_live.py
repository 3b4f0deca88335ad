"""The API of a node in a cluster: whatever is asked of it is true of all nodes, whoever has the task."""

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any

import httpx
import pytest
from live_cluster import WORKER_SECRETS, LiveCluster, LiveScheduler
from prometheus_client.parser import text_string_to_metric_families
from waiting import PATIENCE, eventually

from api.routes.test_metrics import lint, values
from conftest import Evenbeat
from evenbeat.node.process.listen import ListenAddress, check_listen_safety
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.postgres_server import find_postgres_binaries

pytestmark = pytest.mark.skipif(not find_postgres_binaries(), reason="no PostgreSQL here")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def _is_settled(found: dict[str, Any]) -> bool:
    """Both nodes are there and have their part, and what each knows of the other is not older than that."""
    nodes = found["nodes"]
    is_shared = len(nodes) == 2 and all(node["partition_count"] > 64 and node["queue"] == "ok" for node in nodes)
    return is_shared and not found["unheld"] and bool(found["workers"])


def test_who_there_is_and_who_has_what(cluster: LiveCluster) -> None:
    for member in (cluster.first, cluster.second):
        deadline = time.monotonic() + 60
        while not _is_settled(found := member.get("/v1/cluster")):
            assert time.monotonic() < deadline, "they never agreed"  # what a node knows of others is up to a second old
            time.sleep(0.1)
        assert found["is_single"] is False
        assert {node["id"] for node in found["nodes"]} == {
            m.membership.lease.id for m in (cluster.first, cluster.second)
        }
        held = [partition for node in found["nodes"] for partition in node["partitions"]]
        assert sorted(held) == list(range(found["partitions"]))
        assert found["unheld"] == []
        for node in found["nodes"]:
            assert node["is_alive"]
            assert 0 < node["expires_in"] <= 5
            assert node["partition_count"] == len(node["partitions"]) > 64
            assert node["queue"] == "ok"
            assert node["page"] in (cluster.first.node.page, cluster.second.node.page)
            assert node["epoch"] > 0
        (worker,) = found["workers"]
        assert (worker["name"], worker["pid"], worker["pools"]) == ("smith", cluster.worker.pid, ["default"])
        assert found["pools"]["default"]["workers"] == 1
        assert found["pools"]["default"]["without_worker_for"] is None
        assert sum(found["shares"]["slots"].values()) <= 512
        assert member.get("/v1/workers")["workers"][0]["id"] == worker["id"]
        nodes = member.get("/v1/nodes")["nodes"]
        assert {node["id"] for node in nodes} == {node["id"] for node in found["nodes"]}
        assert all([worker["pid"] for worker in node["workers"]] == [cluster.worker.pid] for node in nodes)
        assert all("@" not in node["database"] or "evenbeat@" in node["database"] for node in nodes)
        eventually(lambda member=member: member.get("/readyz") == {"ok": True, "problems": []})  # type: ignore[misc]


def test_what_a_worker_runs_has_neither_its_secrets_nor_more_variables_than_it_should(cluster: LiveCluster) -> None:
    tell = cluster.folder / "tell_environment.py"
    tell.write_text("import json, os\ndef tell():\n    return json.dumps(dict(os.environ))\n")
    cluster.first.post("/v1/tasks", 201, name="env of a command", every="1d", command=["/usr/bin/env"])
    cluster.first.post("/v1/tasks", 201, name="env of a function", every="1d", function=f"{tell}:tell")
    said = {
        what: cluster.first.ask("POST", f"/v1/tasks/env of a {what}/run?wait=true")["output"]
        for what in ("command", "function")
    }
    command = dict(line.split("=", 1) for line in said["command"].splitlines())
    function = json.loads(said["function"])
    for found in (command, function):
        assert not found.keys() & {*WORKER_SECRETS, "EVENBEAT_QUEUE"}
        assert found["SITE"] == "berlin"
    assert ("OTHER" in command, function["OTHER"]) == (False, "paris")


def test_tasks_are_changed_through_either_node(cluster: LiveCluster) -> None:
    first, second = cluster.first, cluster.second
    ours, theirs = cluster.tasks("changed", labels={"team": "a"})
    listed = second.get("/v1/tasks", label="team=a", limit=1_000)
    assert {ours, theirs} <= {task["name"] for task in listed["tasks"]}
    assert listed["total"] == len(listed["tasks"])
    path = f"/v1/tasks/{theirs}"
    version = first.get(path)["version"]
    etag = {"If-Match": f'"{version}"'}
    assert first.ask("PATCH", path, json={"every": "2d"}, headers=etag)["task"]["every"] == "2d"
    first.ask("PATCH", path, 412, json={"every": "3d"}, headers=etag)
    assert second.get(path)["task"]["every"] == "2d"
    whole = {"every": "3d", "command": ["noop"], "pool": "default"}
    assert second.ask("PUT", path, json=whole)["task"].items() >= whole.items()
    first.post(f"{path}/pause")
    eventually(lambda: second.get("/v1/status")["disabled"] >= 1)
    first.post(f"{path}/resume")
    actions = {change["action"] for change in second.get(f"{path}/changes")["changes"]}
    assert {"created", "changed"} <= actions
    first.ask("DELETE", path, 204)
    second.ask("GET", path, 404)
    eventually(lambda: not second.has(theirs))


def test_a_file_is_applied_to_all(cluster: LiveCluster) -> None:
    tables = {f"applied {i}": {"every": "1d", "command": ["noop"]} for i in range(12)}
    owners = {"upload:x": {"tasks": tables, "limits": {"few": 30}}}
    assert len(cluster.first.post("/v1/apply", owners=owners)["created"]) == 12
    at = [eventually(partial(cluster.holder, name)) for name in tables]
    assert {id(member) for member in at} == {id(cluster.first), id(cluster.second)}
    eventually(lambda: sum(cluster.second.get("/v1/cluster")["shares"]["limits"].get("few", {}).values()) == 30)
    owners = {"upload:x": {"tasks": {}}}
    assert len(cluster.second.post("/v1/apply", owners=owners)["removed"]) == 12


def test_what_another_node_has_is_run_and_explained_by_whoever_is_asked(cluster: LiveCluster) -> None:
    first, second = cluster.first, cluster.second
    ours, theirs = cluster.tasks("forced", command=["echo", "done"])
    for name in (ours, theirs):
        ended = first.ask("POST", f"/v1/tasks/{name}/run", params={"wait": "true"})
        assert (ended["task"], ended["outcome"], ended["output"].strip()) == (name, "succeeded", "done")
    runs = second.post("/v1/runs", tasks=[ours, theirs], wait=True)["runs"]
    assert {run["task"] for run in runs} == {ours, theirs}
    assert first.post("/v1/actions", action="run", filter={"names": [ours, theirs]})["count"] == 2
    for name in (ours, theirs):
        eventually(partial(_has_run, second, name, 3))
        assert "runs next" in first.get(f"/v1/tasks/{name}/why")["answer"]
        assert "ran then" in first.get(f"/v1/tasks/{name}/why", at=_minute(second, name))["answer"]
    total = first.get("/v1/tasks")["total"]
    for member in (first, second):  # of the others a node knows what they told with their leases
        eventually(partial(_knows_of, member, total))


def _has_run(member: LiveScheduler, name: str, times: int) -> bool:
    return len(member.get(f"/v1/tasks/{name}/history")["runs"]) == times


def _knows_of(member: LiveScheduler, tasks: int) -> bool:
    return bool(member.get("/v1/status")["tasks"] == tasks)


def _minute(member: LiveScheduler, name: str) -> str:
    return str(member.get(f"/v1/tasks/{name}/history")["runs"][0]["started"])[:16]


def test_what_a_run_writes_at_another_machine_is_read_at_any_node(cluster: LiveCluster, evenbeat: Evenbeat) -> None:
    gate = cluster.folder / "written"
    script = ["sh", "-c", 'echo one; until test -e "$0"; do sleep 0.02; done; echo two', str(gate)]
    for name in cluster.tasks("writes", command=script):
        gate.unlink(missing_ok=True)
        path = f"/v1/tasks/{name}"
        cluster.first.post(f"{path}/run", 202)

        def read(wait: float = 0.5, **query: Any) -> Any:
            return cluster.first.get(f"{path}/output/live", wait=wait, **query)  # noqa: B023

        part: Any = eventually(lambda: found if (found := read())["text"] else None)
        assert (part["text"], part["position"], part["ended"]) == ("one\n", 4, None)
        assert evenbeat("logs", name, "--db", cluster.dsn).out == "one\n"
        gate.touch()
        last: Any = eventually(lambda: found if (found := read(run=part["run"], position=4))["ended"] else None)  # noqa: B023
        assert (last["text"], last["outcome"]) == ("two\n", "succeeded")
        assert cluster.second.client.get(f"{path}/output", params={"run": part["run"]}).text == "one\ntwo\n"


def test_results_and_heartbeats_reach_the_node_that_has_the_check(cluster: LiveCluster) -> None:
    first = cluster.first
    for name in cluster.tasks("told", check=True, passive=True, command=None):
        taken = first.post(f"/v1/tasks/{name}/result", 202, status=2, output="disk full")
        assert (taken["task"], taken["state"]) == (name, "critical")
        token = first.post(f"/v1/tasks/{name}/beat", 201)["token"]
        assert first.client.get(f"/v1/beat/{token}").status_code < 300
        assert cluster.second.get(f"/v1/tasks/{name}")["state"] == "ok"


def test_problems_are_acknowledged_through_any_node_and_directly(
    cluster: LiveCluster, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = cluster.first, cluster.second
    both = cluster.tasks("in trouble", check=True, passive=True, command=None, labels={"team": "trouble"})
    for name in both:
        first.post(f"/v1/tasks/{name}/result", 202, status=2, output="disk full|x=1")
    for member in (first, second):  # each sees the problems of the tasks of both
        found = member.get("/v1/problems", label="team=trouble")
        assert ({problem["task"] for problem in found["problems"]}, found["total"]) == (set(both), 2)
    ids = [problem["id"] for problem in found["problems"]]
    assert sorted(first.post("/v1/problems/acknowledge", ids=ids, comment="on it")["ids"]) == sorted(ids)
    assert second.get("/v1/problems", label="team=trouble", acknowledged="false")["total"] == 0
    monkeypatch.setenv("EVENBEAT_TOKEN", cluster.token)
    places = (("--db", cluster.dsn), ("--url", second.node.page.rstrip("/")))
    near, far = (evenbeat("problems", "--label", "team=trouble", "--json", *place).json for place in places)
    assert near == far
    assert {problem["acknowledged"]["by"] for problem in near["problems"]} == {"tests"}
    assert evenbeat("ack", "--label", "team=trouble", "--withdraw", "--db", cluster.dsn).code == 0
    assert second.post("/v1/problems/comment", ids=ids[:1], text="the cable")["ids"] == ids[:1]
    notes = first.get(f"/v1/problems/{ids[0]}")["notes"]
    assert [note["action"] for note in notes] == ["acknowledged", "unacknowledged", "commented"]
    for name in both:
        assert any("not acknowledged" in reason for reason in first.get(f"/v1/tasks/{name}/why")["reasons"])
        first.post(f"/v1/tasks/{name}/result", 202, status=0)
    assert second.get("/v1/problems", label="team=trouble")["total"] == 0
    assert second.get("/v1/problems", label="team=trouble", which="closed")["total"] == 2


def test_plans_are_of_all_tasks(cluster: LiveCluster) -> None:
    both = set(cluster.tasks("planned", every="10m"))
    planned = cluster.first.get("/v1/upcoming", seconds=660, limit=1_000)["upcoming"]
    assert both <= {run["task"] for run in planned}
    assert sum(cluster.second.get("/v1/load", ahead=660)["planned"]) >= 2
    assert sum(cluster.second.get("/v1/load/day")["planned"]) >= 2 * 143


def test_what_happens_at_one_node_is_told_to_who_watches_the_other(cluster: LiveCluster) -> None:
    ours, theirs = cluster.tasks("watched", command=["sleep", "2"])
    heard: list[tuple[str, dict[str, Any]]] = []
    is_open = threading.Event()

    def listen() -> None:
        with cluster.first.client.stream("GET", "/v1/events") as stream:
            name = ""
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    heard.append((name, json.loads(line.removeprefix("data: "))))
                    is_open.set()
                if {ours, theirs} <= _ended(heard) and _changed(heard, theirs) and _started(heard) >= 1:
                    return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert is_open.wait(PATIENCE)
    eventually(lambda: cluster.second.on_loop(lambda: cluster.second.membership.others.relay.is_watched))
    cluster.second.post("/v1/runs", 202, tasks=[ours, theirs])
    eventually(lambda: {ours, theirs} <= {run["task"] for run in cluster.first.get("/v1/running")["running"]})
    assert cluster.first.get("/v1/running")["total"] >= 2
    cluster.first.ask("PATCH", f"/v1/tasks/{theirs}", json={"labels": {"seen": "yes"}})
    thread.join(PATIENCE)
    assert not thread.is_alive(), heard


def _ended(heard: list[tuple[str, dict[str, Any]]]) -> set[str]:
    return {data["task"] for name, data in heard if name == "run"}


def _changed(heard: list[tuple[str, dict[str, Any]]], task: str) -> bool:
    return any(n == "task" and (data["name"], data["change"]) == (task, "changed") for n, data in heard)


def _started(heard: list[tuple[str, dict[str, Any]]]) -> int:
    """In all seconds that were told of, at all nodes."""
    return sum(data["started_last_second"] for name, data in heard if name == "status")


def test_a_pool_without_a_worker_is_seen_everywhere(
    cluster: LiveCluster, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, theirs = cluster.tasks("far", pool="far [away]", command=["true"])
    cluster.first.post("/v1/runs", 202, tasks=[theirs])
    why = eventually(lambda: _untaken(cluster.first.get(f"/v1/tasks/{theirs}/why")))
    assert why is not None
    assert "no worker has taken it yet" in why["answer"]
    assert any("'far [away]' has had no worker" in reason for reason in why["reasons"])
    pool = eventually(lambda: cluster.first.get("/v1/cluster")["pools"].get("far [away]"))
    assert (pool["workers"], pool["waiting"]) == (0, 1)
    text = eventually(lambda: _seconds_alone(cluster.second))
    found = {metric.name: metric for metric in text_string_to_metric_families(text)}
    assert {name: wrong for name, metric in found.items() if (wrong := lint(metric))} == {}
    assert values(found["evenbeat_pool_waiting"])["far [away]",] == 1
    assert values(found["evenbeat_workers"]) == {("far [away]",): 0, ("default",): 1}
    assert values(found["evenbeat_cluster_nodes"]) == {(): 2}
    assert 64 < values(found["evenbeat_node_partitions"])[()] < 192
    assert values(found["evenbeat_partitions_unheld"]) == {(): 0}
    assert 0 < values(found["evenbeat_node_lease_remaining_seconds"])[()] <= 4
    assert values(found["evenbeat_queue_up"]) == values(found["evenbeat_ready"]) == {(): 1}
    counters = ("handed_over_again", "results_late", "runs_lost", "runs_set_aside", "takeovers", "fenced")
    assert all(values(found[f"evenbeat_{name}"]) == {(): 0} for name in counters)

    monkeypatch.setenv("EVENBEAT_TOKEN", cluster.token)
    near, far = (
        evenbeat("status", *where) for where in (("--db", cluster.dsn), ("--url", cluster.first.node.page.rstrip("/")))
    )
    for shown in (near, far):
        assert shown.code == 0
        assert shown.out.count("partitions, ") == 2
        assert re.search(rf"smith {cluster.worker.pid} \(\w+\), pool default: ", shown.out)
        assert "far [away]: no worker for " in shown.out
        assert ", 1 run waiting" in shown.out
    as_json = evenbeat("status", "--db", cluster.dsn, "--json").json
    over_http = evenbeat("status", "--url", cluster.first.node.page.rstrip("/"), "--json").json
    assert list(as_json) == list(over_http)
    assert list(as_json)[-1] == "cluster"
    assert as_json["cluster"].keys() == over_http["cluster"].keys()
    assert as_json["cluster"]["nodes"][0].keys() == over_http["cluster"]["nodes"][0].keys()


def test_status_without_a_node_says_what_starts_one_and_no_password(cluster: LiveCluster, evenbeat: Evenbeat) -> None:
    dsn = cluster.postgres.create_database().replace("evenbeat@", "evenbeat:secret@")
    PostgresStore(dsn).close()
    shown = evenbeat("status", "--db", dsn)
    assert shown.code == 1
    assert "`evenbeat scheduler` starts one" in shown.out
    assert "secret" not in shown.out + shown.err
    assert evenbeat("status", "--db", dsn, "--json").json["live"] is False


def _untaken(why: dict[str, Any]) -> dict[str, Any] | None:
    return why if any("has had no worker" in reason for reason in why["reasons"]) else None


def _seconds_alone(member: LiveScheduler) -> str:
    text = member.client.get("/metrics").text
    found = re.search(r'evenbeat_pool_without_worker_seconds{pool="far \[away\]"} (\S+)', text)
    return text if found and float(found[1]) > 0 else ""


def test_a_cluster_makes_no_token_and_says_which_command_does(
    cluster: LiveCluster, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENBEAT_DB", raising=False)
    bare = cluster.postgres.create_database("bare")
    for command, more in (("scheduler", ()), ("up", ("--workers", "0"))):
        refused = evenbeat(command, "--db", bare, "--queue", "nats://127.0.0.1:1", "--listen", "127.0.0.1:0", *more)
        assert refused.code == 2
        assert (
            "there is no token that could let anybody in: `evenbeat token add admin --role admin --db " in refused.err
        )
    monkeypatch.setenv("EVENBEAT_DB", bare)
    refused = evenbeat("scheduler", "--queue", "nats://127.0.0.1:1", "--listen", "127.0.0.1:0")
    assert "`evenbeat token add admin --role admin` makes one" in refused.err
    assert evenbeat("token", "add", "admin", "--role", "admin").code == 0
    check_listen_safety(ListenAddress("127.0.0.1", 0), bare)


def test_a_link_of_a_cluster_works_once_at_any_of_its_nodes(
    cluster: LiveCluster, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_DB", cluster.dsn)
    assert "`evenbeat token link NAME`, one of: tests" in evenbeat("token", "link").err
    shown = evenbeat("token", "link", "tests", "--json").json
    pages = [member.node.page for member in (cluster.first, cluster.second)]
    page, _, code = shown["link"].partition("#/sign-in/")
    assert page in pages
    with ThreadPoolExecutor(4) as at_once:
        answers = list(
            at_once.map(lambda page: httpx.post(f"{page}v1/session/link", json={"code": code}, timeout=60), pages * 2)
        )
    assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401]


def test_a_run_is_stopped_through_either_node_wherever_its_worker_is(cluster: LiveCluster) -> None:
    tasks = cluster.tasks("endless", command=["sleep", "600"], timebox="1h")
    for name in tasks:
        cluster.first.post(f"/v1/tasks/{name}/run", 202)
    for name in tasks:
        eventually(lambda name=name: cluster.first.get(f"/v1/tasks/{name}")["running_since"])  # type: ignore[misc]
    filter_ = {"names": list(tasks)}
    done = cluster.first.post("/v1/runs/stop", filter=filter_, reason="wrong database", wait=True)["stopped"]
    assert {(run["task"], run["run"]["outcome"]) for run in done} == {(name, "cancelled") for name in tasks}
    for member in (cluster.first, cluster.second):
        for name in tasks:
            (run, *_) = member.get(f"/v1/tasks/{name}/history", runs=True)["runs"]
            assert (run["outcome"], run["output"]) == ("cancelled", "stopped by tests: wrong database")
            assert "stopped" in {change["action"] for change in member.get(f"/v1/tasks/{name}/changes")["changes"]}


def test_a_cursor_is_set_through_either_node_wherever_its_task_is(cluster: LiveCluster) -> None:
    tasks = cluster.tasks("pages", command=["sh", "-c", 'echo "from $EVENBEAT_CURSOR"'])
    for member in (cluster.first, cluster.second):
        for name in tasks:
            cursor = f"{name} by {member.node.page}"
            assert member.ask("PUT", f"/v1/tasks/{name}/cursor", json={"cursor": cursor})["cursor"] == cursor
            assert member.ask("POST", f"/v1/tasks/{name}/run?wait=true")["output"] == f"from {cursor}\n"
    for member, name in product((cluster.first, cluster.second), tasks):
        assert member.get(f"/v1/tasks/{name}/cursor")["cursor"]
    for name in tasks:
        assert cluster.second.ask("DELETE", f"/v1/tasks/{name}/cursor")["cursor"] is None
        assert cluster.first.ask("POST", f"/v1/tasks/{name}/run?wait=true")["output"] == "from \n"


def test_a_cursor_is_set_beside_the_nodes_by_the_one_that_has_its_task(
    cluster: LiveCluster, evenbeat: Evenbeat
) -> None:
    tasks = cluster.tasks("pages beside", command=["sh", "-c", 'echo "from $EVENBEAT_CURSOR"'])
    for name in tasks:
        assert evenbeat("cursor", name, "--set", "here", "--db", cluster.dsn).code == 0
        assert cluster.first.ask("POST", f"/v1/tasks/{name}/run?wait=true")["output"] == "from here\n"
