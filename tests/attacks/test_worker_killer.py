"""A task that kills its worker process takes no run of others along twice, and is set aside, also over restarts."""

import os
import signal
from pathlib import Path

import pytest
from live_node import LiveNode
from queue_node import QueueNode, is_alive, play
from waiting import eventually

from conftest import Evenbeat
from evenbeat.model import Job, Outcome
from evenbeat.queue.local import suspect_workers

KILLER = "kill -9 $PPID; sleep 300"
BYSTANDERS = 5
FUNCTIONS = Path(__file__).parents[1] / "support" / "sample_functions.py"


def forced(evenbeat: Evenbeat, database: str, *names: str) -> None:
    for name in names:
        assert evenbeat("run", name, "--db", database).code == 0


def test_a_forced_killer_is_repeated_twice_and_then_set_aside_for_good(evenbeat: Evenbeat, tmp_path: Path) -> None:
    database, go = str(tmp_path / "x.db"), tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do sleep 0.05; done; echo done"
    names = [f"bystander-{i}" for i in range(BYSTANDERS)]
    for name in names:
        assert evenbeat("add", name, "--every", "1d", "--shell", "--db", database, "--", waits).code == 0
    assert evenbeat("add", "killer", "--every", "1d", "--shell", "--db", database, "--", KILLER).code == 0

    def lost(live_node: LiveNode, name: str) -> int:
        return sum(run.outcome is Outcome.LOST for run in live_node.runs(name))

    def succeeded(live_node: LiveNode, name: str) -> int:
        return sum(run.outcome is Outcome.SUCCEEDED for run in live_node.runs(name))

    with LiveNode(Path(database)) as live_node:
        forced(evenbeat, database, *names)
        eventually(lambda: all(live_node.runs(name) and live_node.runs(name)[0].started for name in names))
        forced(evenbeat, database, "killer")
        eventually(lambda: lost(live_node, "killer") == 3)
        # Their repeated runs are with workers of their own: what the killer does then is none of their business.
        go.touch()
        eventually(lambda: all(succeeded(live_node, name) == 1 for name in names))
        assert [lost(live_node, name) for name in names] == [1] * BYSTANDERS
        said = evenbeat("why", "killer", "--db", database).out
        assert "it is set aside: 3 workers in a row died with it" in said
        assert "`evenbeat run killer`" in said
        assert "lost, set aside" in evenbeat("ls", "--db", database).out
        assert (
            "set aside, as 3 worker processes in a row died with it" in evenbeat("show", "killer", "--db", database).out
        )
    with LiveNode(Path(database)) as live_node:
        shown = evenbeat("show", "killer", "--db", database, "--json").json
        assert (shown["worker_deaths"], shown["set_aside"]) == (3, True)
        forced(evenbeat, database, "bystander-0", "killer")
        eventually(lambda: lost(live_node, "killer") == 4)
        forced(evenbeat, database, "bystander-0")
        eventually(lambda: succeeded(live_node, "bystander-0") == 3)
        assert len(live_node.runs("killer")) == 4, "once for the command, and not again"
        assert lost(live_node, "bystander-0") == 1
        # The way back: a run that ends by itself.
        assert evenbeat("set", "killer", 'command=["true"]', "--db", database).code == 0
        assert evenbeat("run", "killer", "--wait", "--db", database).code == 0
        shown = evenbeat("show", "killer", "--db", database, "--json").json
        assert (shown["worker_deaths"], shown["set_aside"]) == (0, False)
        assert "set aside" not in evenbeat("why", "killer", "--db", database).out.splitlines()[0]


def test_a_suspect_shares_its_worker_with_nobody() -> None:
    async def scene(queue_node: QueueNode) -> None:
        others = queue_node.send(*[Job(command=("sleep", "300"))] * 3, timebox=600)
        await queue_node.until(lambda: len(queue_node.started) == 3)
        before = set(queue_node.queue.pids)
        killers = queue_node.send(*[Job(command=(KILLER,), shell=True)] * 3, alone=True)
        fine = queue_node.send(Job(command=("echo", "fine")), alone=True)
        results = await queue_node.answers([*killers, *fine])
        assert [result.outcome for result in results] == [Outcome.LOST] * 3 + [Outcome.SUCCEEDED]
        assert before <= set(queue_node.queue.pids), "the workers of others live"
        assert not any(token in queue_node.results for token in others)
        assert queue_node.queue.restarts == 3
        # Their workers go with them.
        await queue_node.until(lambda: set(queue_node.queue.pids) == before)

    play(scene, workers=2)


def test_a_suspect_among_async_functions_shares_its_host_with_nobody() -> None:
    async def scene(queue_node: QueueNode) -> None:
        function = f"{FUNCTIONS}:anap"
        others = queue_node.send(*[Job(function=function, args=(300,))] * 2, timebox=600)
        await queue_node.until(lambda: len(queue_node.started) == 2)
        killer = Job(function=f"{FUNCTIONS}:acrash")
        (first,) = await queue_node.answers(queue_node.send(killer, alone=True))
        # Only now it is known that the function is asynchronous, but even then it was alone.
        (second,) = await queue_node.answers(queue_node.send(killer, alone=True))
        assert (first.outcome, second.outcome) == (Outcome.LOST, Outcome.LOST)
        assert not any(token in queue_node.results for token in others)

    play(scene)


def test_more_suspects_than_workers_for_them_all_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspect_workers, "MAX_ISOLATED", 2)

    async def scene(queue_node: QueueNode) -> None:
        tokens = queue_node.send(*[Job(command=("sleep", "300"))] * 5, alone=True, timebox=600)
        await queue_node.until(lambda: len(queue_node.started) == 5)
        pids = queue_node.queue.pids
        assert len(pids) == 3
        queue_node.queue.cancel(tokens[:4])
        await queue_node.answers(tokens[:4])
        await queue_node.until(lambda: len(queue_node.queue.pids) == 2)
        os.kill(queue_node.queue.pids[1], signal.SIGKILL)
        (last,) = await queue_node.answers(tokens[4:])
        assert last.outcome is Outcome.LOST
        await queue_node.until(lambda: len(queue_node.queue.pids) == 1)
        assert not any(map(is_alive, set(pids) - set(queue_node.queue.pids)))

    play(scene)
