"""Problems wait for checks of another scheduler: that one runs them once more, and what comes of it counts here."""

import asyncio
from operator import methodcaller
from pathlib import Path

from cluster_nodes import Cluster, cluster, task
from message_receivers import HttpReceiver
from waiting import eventually_async

from evenbeat.model import Contact, NotifyContact, RunKind
from evenbeat.store.contract import Filter, ProblemFilter
from evenbeat.testing.postgres_server import PostgresServer

HOSTS = tuple(f"host-{i}" for i in range(12))
HOUR = 3600


def told(receiver: HttpReceiver) -> list[str]:
    return [
        f"{item['kind']} {item['task']}" for request in list(receiver.requests) for item in request.document["items"]
    ]


def holds(c: Cluster, name: str) -> list[str]:
    """What holds the open problems of a task."""
    return [problem.hold for problem in c.store.problems(ProblemFilter(Filter(names=(name,))))]


async def _scenario(c: Cluster, receiver: HttpReceiver, folder: Path) -> None:
    await c.do(methodcaller("set_contact", "ops", Contact(webhook=receiver.url("ok/ops"))))
    notify = (NotifyContact("ops"),)
    switch = ("sh", "-c", f"test ! -e {folder}/switch || exit 2")
    await c.add(task("switch", HOUR, *switch, check=True, attempts=3, notify=notify, gather=0))
    behind = {"check": True, "attempts": 1, "depends": ("switch",), "notify": notify, "gather": 0}
    await c.add(*(task(name, HOUR, "sh", "-c", f"test ! -e {folder}/{name} || exit 2", **behind) for name in HOSTS))
    await c.start_worker()
    one, two = await c.start(), await c.start()
    await eventually_async(lambda: one.names and two.names, "both nodes have tasks")
    await eventually_async(lambda: all(map(c.runs, ("switch", *HOSTS))), "everything has run")
    await eventually_async(lambda: len(one.names) + len(two.names) == len(HOSTS) + 1, "who has what is settled")
    elsewhere = one if "switch" in two.names else two
    first, second, *_ = sorted(elsewhere.names)

    async def fail(name: str) -> None:
        (folder / name).touch()
        await c.do(lambda client: client.run_now([name], wait=True))

    before = len(c.runs("switch"))
    await fail(first)
    await eventually_async(lambda: told(receiver) == [f"problem {first}"], "the switch is fine: the problem is told")
    runs = c.runs("switch")
    assert len(runs) == before + 1, "the switch ran once more before that"
    # At the full hour it has run on its grid already, and its first run is still to come: then that one is made.
    assert runs[0].kind in (RunKind.CATCH_UP, RunKind.FIRST), "off its grid"

    (folder / "switch").touch()
    await fail(second)
    await eventually_async(lambda: len(c.runs("switch")) == before + 2, "the switch runs once more")
    assert not c.store.problems(ProblemFilter(Filter(names=("switch",)))), "it is SOFT"
    await asyncio.sleep(3)  # much longer than this node needs to learn of that result
    assert holds(c, second) == ["checking parents"]
    for _ in range(2):
        await c.do(lambda client: client.run_now(["switch"], wait=True))
    await eventually_async(lambda: holds(c, second) == ["unreachable"], "the switch is down")
    await eventually_async(lambda: "problem switch" in told(receiver), "the switch is told")
    assert told(receiver) == [f"problem {first}", "problem switch"]


def test_a_check_of_another_scheduler_is_run_before_a_problem_is_told(
    newest_postgres: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async def whole(receiver: HttpReceiver) -> None:
        async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
            await _scenario(made, receiver, tmp_path)

    with HttpReceiver() as receiver:
        asyncio.run(whole(receiver))
