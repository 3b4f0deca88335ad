"""Real nodes, workers and children are killed, and stores fail; an oracle looks at what the runs wrote down.

`make test` makes one pass over every fault, `make faults` (EVENBEAT_FAULTS=full) many storms of them.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import run_oracle
from crashing_node import CrashingNode
from run_oracle_checks import Result, unretried
from waiting import eventually

IS_FULL = os.environ.get("EVENBEAT_FAULTS") == "full"
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
def house(tmp_path: Path) -> Iterator[CrashingNode]:
    made = CrashingNode(tmp_path)
    yield made
    made.close()


def outcomes(house: CrashingNode) -> Counter[str]:
    tasks = run_oracle.read(house.database, house.log).tasks
    return Counter(run.outcome for task in tasks for run in task.runs)


@pytest.mark.parametrize("points", CHAINS, ids="; ".join)
def test_a_node_is_killed_at_every_boundary(house: CrashingNode, points: tuple[str, ...]) -> None:
    for i, point in enumerate(points):
        # Not too soon the first time, so that there is something to lose; then as soon as it comes back.
        house.start(crash=(point, 1 if i else 8))
        house.force("rare", "plain0")
        house.wait_for_crash()
    house.start()
    house.live_on()
    house.stop()
    assert house.findings() == []
    assert bool(outcomes(house)["lost"]) or LOSING.isdisjoint(points)


def test_workers_and_children_are_killed(house: CrashingNode) -> None:
    house.start()
    eventually(lambda: bool(house.running("forks")), "it runs, with a child of its own")
    house.kill_runs("forks")
    eventually(lambda: bool(house.running("slow")), "it runs")
    house.kill_runs("slow")
    house.live_on()
    assert outcomes(house)["killed"]
    eventually(lambda: bool(house.running("slow") and house.running("forks")), "both run")
    house.kill_workers()
    house.live_on()
    house.stop()
    assert house.findings() == []
    assert outcomes(house)["lost"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_is_killed_with_all_who_could_clear_up_after_it(house: CrashingNode, how: signal.Signals) -> None:
    house.start()
    eventually(lambda: bool(house.running("slow") and house.running("forks")), "both run")
    house.kill_all_but_runs(how, guardian=True)
    assert house.running("forks")
    house.start()
    house.live_on()
    house.stop()
    assert house.findings() == []
    assert outcomes(house)["lost"]


def test_a_node_and_its_workers_are_killed_and_no_other_comes(house: CrashingNode) -> None:
    house.start()
    eventually(lambda: bool(house.running("slow") and house.running("forks")), "both run")
    house.kill_all_but_runs(signal.SIGKILL, guardian=False)
    eventually(lambda: not house.running(), "nothing runs without a node")
    house.start()
    house.live_on()
    house.stop()
    assert house.findings() == []


def test_retries_of_a_check_go_on_where_they_were(house: CrashingNode) -> None:
    """Attempts neither skip nor count double when the node, a worker or the run of a SOFT check is killed."""
    house.start()
    for blow in (house.kill, house.kill_workers, lambda: house.kill_runs("sick"), house.kill) * (5 if IS_FULL else 1):
        eventually(lambda: is_soft(house, "sick"), "it is SOFT")
        if blow != house.kill:
            # A moment before it is tried again: then there is something to lose.
            eventually(lambda: bool(house.running("sick")) or not is_soft(house, "sick"), "it is tried again")
        blow()
        if blow == house.kill:
            house.start()
    eventually(lambda: any(run.state and run.hard for run in results(house, "sick")), "it is HARD once")
    house.live_on()
    house.stop()
    assert house.findings() == []
    (sick,) = (task for task in run_oracle.read(house.database, house.log).tasks if task.name == "sick")
    disturbed = [line.at for line in run_oracle.read_log(house.log) if line.word in ("taken-up", "up")]
    lost = [run.claimed for run in sick.results if run.state is None]
    assert unretried(sick.definition, sick.results, [*disturbed, *lost]) == []
    assert any(run.kind == RETRY for run in sick.results)


def results(house: CrashingNode, name: str) -> list[Result]:
    """Of a check, so far."""
    (task,) = (task for task in run_oracle.read(house.database, house.log).tasks if task.name == name)
    return sorted((run for run in task.results if run.state is not None), key=lambda run: run.started)


def is_soft(house: CrashingNode, name: str) -> bool:
    """Is that what its latest result says?"""
    known = results(house, name)
    return bool(known) and not known[-1].hard


def test_a_task_is_removed_while_it_runs_and_the_node_is_killed(house: CrashingNode) -> None:
    house.start()
    eventually(lambda: bool(house.running("leaving")), "it runs")
    house.remove("leaving")
    house.kill()
    house.start()
    house.live_on()
    house.stop()
    assert house.findings() == []


@pytest.mark.parametrize("heals", [True, False] if IS_FULL else [True])
def test_a_store_fails_for_a_while(house: CrashingNode, heals: bool) -> None:
    for fault in STORE_FAULTS:
        house.start(store=(fault, 3, 1.0 if heals else 600.0))
        eventually(lambda: house.wrote("fault"), "the store fails")
        house.force("rare", "plain0")
        if heals:
            eventually(lambda: house.wrote("healed"), "the store heals")
        house.kill()
    house.start()
    house.live_on()
    house.stop()
    assert house.findings() == []


@pytest.mark.parametrize("seed", STORMS)
def test_a_storm(house: CrashingNode, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        crash = (chance.choice(BOUNDARIES), chance.choice([1, 1, 2, 3, 5, 8, 13]))
        faults = [(fault, chance.randrange(1, 9), 0.5 + chance.random()) for fault in STORE_FAULTS]
        house.start(crash=crash, store=chance.choice([None, None, None, None, *faults]))
        house.force(*chance.sample(["rare", "plain0", "slow", "fails", "blinks", "each1"], 3))
        if chance.random() < 0.3:
            house.remove("leaving")
        if chance.random() < 0.3:
            house.kill_runs("slow", "all1", "forks")
        house.wait_for_crash()
    house.start()
    house.live_on()
    house.stop()
    assert house.findings() == []
