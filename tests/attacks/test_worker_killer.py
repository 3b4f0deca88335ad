"""A task that kills its worker process takes no run of others along twice, and is set aside, also over restarts."""

import os
import signal
from pathlib import Path

import pytest
from live_node import LiveNode
from queue_node import Courier, is_alive, play
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

    def lost(living: LiveNode, name: str) -> int:
        return sum(run.outcome is Outcome.LOST for run in living.runs(name))

    def succeeded(living: LiveNode, name: str) -> int:
        return sum(run.outcome is Outcome.SUCCEEDED for run in living.runs(name))

    with LiveNode(Path(database)) as living:
        forced(evenbeat, database, *names)
        eventually(lambda: all(living.runs(name) and living.runs(name)[0].started for name in names))
        forced(evenbeat, database, "killer")
        eventually(lambda: lost(living, "killer") == 3)
        # Their repeated runs are with workers of their own: what the killer does then is none of their business.
        go.touch()
        eventually(lambda: all(succeeded(living, name) == 1 for name in names))
        assert [lost(living, name) for name in names] == [1] * BYSTANDERS
        said = evenbeat("why", "killer", "--db", database).out
        assert "it is set aside: 3 workers in a row died with it" in said
        assert "`evenbeat run killer`" in said
        assert "lost, set aside" in evenbeat("ls", "--db", database).out
        assert (
            "set aside, as 3 worker processes in a row died with it" in evenbeat("show", "killer", "--db", database).out
        )
    with LiveNode(Path(database)) as living:
        shown = evenbeat("show", "killer", "--db", database, "--json").json
        assert (shown["worker_deaths"], shown["set_aside"]) == (3, True)
        forced(evenbeat, database, "bystander-0", "killer")
        eventually(lambda: lost(living, "killer") == 4)
        forced(evenbeat, database, "bystander-0")
        eventually(lambda: succeeded(living, "bystander-0") == 3)
        assert len(living.runs("killer")) == 4, "once for the command, and not again"
        assert lost(living, "bystander-0") == 1
        # The way back: a run that ends by itself.
        assert evenbeat("set", "killer", 'command=["true"]', "--db", database).code == 0
        assert evenbeat("run", "killer", "--wait", "--db", database).code == 0
        shown = evenbeat("show", "killer", "--db", database, "--json").json
        assert (shown["worker_deaths"], shown["set_aside"]) == (0, False)
        assert "set aside" not in evenbeat("why", "killer", "--db", database).out.splitlines()[0]


def test_a_suspect_shares_its_worker_with_nobody() -> None:
    async def scene(courier: Courier) -> None:
        others = courier.send(*[Job(command=("sleep", "300"))] * 3, timebox=600)
        await courier.until(lambda: len(courier.started) == 3)
        before = set(courier.queue.pids)
        killers = courier.send(*[Job(command=(KILLER,), shell=True)] * 3, alone=True)
        fine = courier.send(Job(command=("echo", "fine")), alone=True)
        results = await courier.answers([*killers, *fine])
        assert [result.outcome for result in results] == [Outcome.LOST] * 3 + [Outcome.SUCCEEDED]
        assert before <= set(courier.queue.pids), "the workers of others live"
        assert not any(token in courier.results for token in others)
        assert courier.queue.restarts == 3
        # Their workers go with them.
        await courier.until(lambda: set(courier.queue.pids) == before)

    play(scene, workers=2)


def test_a_suspect_among_async_functions_shares_its_host_with_nobody() -> None:
    async def scene(courier: Courier) -> None:
        function = f"{FUNCTIONS}:anap"
        others = courier.send(*[Job(function=function, args=(300,))] * 2, timebox=600)
        await courier.until(lambda: len(courier.started) == 2)
        killer = Job(function=f"{FUNCTIONS}:acrash")
        (first,) = await courier.answers(courier.send(killer, alone=True))
        # Only now it is known that the function is asynchronous, but even then it was alone.
        (second,) = await courier.answers(courier.send(killer, alone=True))
        assert (first.outcome, second.outcome) == (Outcome.LOST, Outcome.LOST)
        assert not any(token in courier.results for token in others)

    play(scene)


def test_more_suspects_than_workers_for_them_all_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspect_workers, "MAX_ISOLATED", 2)

    async def scene(courier: Courier) -> None:
        tokens = courier.send(*[Job(command=("sleep", "300"))] * 5, alone=True, timebox=600)
        await courier.until(lambda: len(courier.started) == 5)
        pids = courier.queue.pids
        assert len(pids) == 3
        courier.queue.cancel(tokens[:4])
        await courier.answers(tokens[:4])
        await courier.until(lambda: len(courier.queue.pids) == 2)
        os.kill(courier.queue.pids[1], signal.SIGKILL)
        (last,) = await courier.answers(tokens[4:])
        assert last.outcome is Outcome.LOST
        await courier.until(lambda: len(courier.queue.pids) == 1)
        assert not any(map(is_alive, set(pids) - set(courier.queue.pids)))

    play(scene)
