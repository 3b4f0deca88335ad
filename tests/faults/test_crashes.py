"""Real nodes, workers and children are killed, and stores fail; an oracle looks at what the runs wrote down.

`make test` makes one pass over every fault, `make faults` (EVENBEAT_FAULTS=full) many storms of them.
"""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import run_oracle
from budget import IS_FULL
from crashing_node import CrashingNode
from run_oracle_checks import Result, unretried
from run_oracle_jobs import CHAIN
from waiting import eventually

BOUNDARIES = (
    "before claim commit",
    "in claim commit",
    "after claim commit",
    "after dispatch",
    "before finish commit",
    "in finish commit",
    "after finish commit",
)
CHAINS = [(point,) * 3 for point in BOUNDARIES] if IS_FULL else [BOUNDARIES[:4], BOUNDARIES[4:]]
RETRY = 3
"""The kind of a run in the store."""
LOSING = frozenset(BOUNDARIES[2:6])
"""With these a run is claimed whose end no store will ever hear of."""
STORE_FAULTS = ("slow", "full", "write error", "read-only", *(["locked"] if IS_FULL else []))
STORMS = range(1, 61) if IS_FULL else range(1)


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[CrashingNode]:
    made = CrashingNode(tmp_path)
    yield made
    made.close()


def outcomes(crashing: CrashingNode) -> Counter[str]:
    tasks = run_oracle.read(crashing.database, crashing.log).tasks
    return Counter(run.outcome for task in tasks for run in task.runs)


@pytest.mark.parametrize("points", CHAINS, ids="; ".join)
def test_a_node_is_killed_at_every_boundary(crashing: CrashingNode, points: tuple[str, ...]) -> None:
    for i, point in enumerate(points):
        # Not too soon the first time, so that there is something to lose; then as soon as it comes back.
        crashing.start(crash=(point, 1 if i else 8))
        crashing.force("rare", "plain0")
        crashing.stop_runs("stopped")
        crashing.wait_for_crash()
    crashing.start()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []
    assert bool(outcomes(crashing)["lost"]) or LOSING.isdisjoint(points)


def test_workers_and_children_are_killed(crashing: CrashingNode) -> None:
    crashing.start()
    eventually(lambda: bool(crashing.running("forks")), "it runs, with a child of its own")
    crashing.kill_runs("forks")
    eventually(lambda: bool(crashing.running("slow")), "it runs")
    crashing.kill_runs("slow")
    crashing.live_on()
    assert outcomes(crashing)["killed"]
    eventually(lambda: bool(crashing.running("slow") and crashing.running("forks")), "both run")
    crashing.kill_workers()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []
    assert outcomes(crashing)["lost"]


def test_a_run_is_stopped_and_the_node_is_killed(crashing: CrashingNode) -> None:
    """Before the run has ended; it is cancelled nonetheless, and chains and retries go on where they were."""
    crashing.start()
    for name in ("stopped", "slow"):
        eventually(lambda: bool(crashing.running(name)), "it runs")  # noqa: B023 - asked at once
        crashing.stop_runs(name)
        crashing.kill()
        crashing.start()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []
    evidence = run_oracle.read(crashing.database, crashing.log)
    assert outcomes(crashing)["cancelled"]
    kinds = {task.name: Counter(run.kind for run in task.runs) for task in evidence.tasks}
    assert kinds["tries"][RETRY]
    assert kinds["follows"][CHAIN]
    assert kinds["mourns"][CHAIN]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_is_killed_with_all_who_could_clear_up_after_it(crashing: CrashingNode, how: signal.Signals) -> None:
    crashing.start()
    eventually(lambda: bool(crashing.running("slow") and crashing.running("forks")), "both run")
    crashing.kill_all_but_runs(how, guardian=True)
    assert crashing.running("forks")
    crashing.start()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []
    assert outcomes(crashing)["lost"]


def test_a_node_and_its_workers_are_killed_and_no_other_comes(crashing: CrashingNode) -> None:
    crashing.start()
    eventually(lambda: bool(crashing.running("slow") and crashing.running("forks")), "both run")
    crashing.kill_all_but_runs(signal.SIGKILL, guardian=False)
    eventually(lambda: not crashing.running(), "nothing runs without a node")
    crashing.start()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []


def test_retries_of_a_check_go_on_where_they_were(crashing: CrashingNode) -> None:
    """Attempts neither skip nor count double when the node, a worker or the run of a SOFT check is killed."""
    crashing.start()
    for blow in (crashing.kill, crashing.kill_workers, lambda: crashing.kill_runs("sick"), crashing.kill) * (
        5 if IS_FULL else 1
    ):
        eventually(lambda: is_soft(crashing, "sick"), "it is SOFT")
        if blow != crashing.kill:
            # A moment before it is tried again: then there is something to lose.
            eventually(lambda: bool(crashing.running("sick")) or not is_soft(crashing, "sick"), "it is tried again")
        blow()
        if blow == crashing.kill:
            crashing.start()
    eventually(lambda: any(run.state and run.hard for run in results(crashing, "sick")), "it is HARD once")
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []
    (sick,) = (task for task in run_oracle.read(crashing.database, crashing.log).tasks if task.name == "sick")
    disturbed = [line.at for line in run_oracle.read_log(crashing.log) if line.word in ("taken-up", "up")]
    lost = [run.claimed for run in sick.results if run.state is None]
    assert unretried(sick.definition, sick.results, [*disturbed, *lost]) == []
    assert any(run.kind == RETRY for run in sick.results)


def results(crashing: CrashingNode, name: str) -> list[Result]:
    """Of a check, so far."""
    (task,) = (task for task in run_oracle.read(crashing.database, crashing.log).tasks if task.name == name)
    return sorted((run for run in task.results if run.state is not None), key=lambda run: run.started)


def is_soft(crashing: CrashingNode, name: str) -> bool:
    """Is that what its latest result says?"""
    known = results(crashing, name)
    return bool(known) and not known[-1].hard


def test_a_task_is_removed_while_it_runs_and_the_node_is_killed(crashing: CrashingNode) -> None:
    crashing.start()
    eventually(lambda: bool(crashing.running("leaving")), "it runs")
    crashing.remove("leaving")
    crashing.kill()
    crashing.start()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []


@pytest.mark.parametrize("heals", [True, False] if IS_FULL else [True])
def test_a_store_fails_for_a_while(crashing: CrashingNode, heals: bool) -> None:
    for fault in STORE_FAULTS:
        crashing.start(store=(fault, 3, 1.0 if heals else 600.0))
        eventually(lambda: crashing.wrote("fault"), "the store fails")
        crashing.force("rare", "plain0")
        if heals:
            eventually(lambda: crashing.wrote("healed"), "the store heals")
        crashing.kill()
    crashing.start()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []


@pytest.mark.parametrize("seed", STORMS)
def test_a_storm(crashing: CrashingNode, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4 if IS_FULL else 2):
        crash = (chance.choice(BOUNDARIES), chance.choice([1, 1, 2, 3, 5, 8, 13]))
        faults = [(fault, chance.randrange(1, 9), 0.5 + chance.random()) for fault in STORE_FAULTS]
        crashing.start(crash=crash, store=chance.choice([None, None, None, None, *faults]))
        crashing.force(*chance.sample(["rare", "plain0", "slow", "fails", "blinks", "each1"], 3))
        crashing.stop_runs(*chance.sample(["stopped", "slow", "tries", "follows", "both"], 2))
        if chance.random() < 0.3:
            crashing.remove("leaving")
        if chance.random() < 0.3:
            crashing.kill_runs("slow", "all1", "forks")
        crashing.wait_for_crash()
    crashing.start()
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []
