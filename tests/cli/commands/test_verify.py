import pytest

from conftest import Evenbeat
from evenbeat.core import gate, lifecycle, run_lease
from evenbeat.core.problems import Problems
from evenbeat.core.run_lease import RunFate
from evenbeat.model import State
from evenbeat.sim import chain_explore
from evenbeat.sim import cluster_model as cluster
from evenbeat.sim import verify as verifier
from evenbeat.sim.alert_explore import ALERT_SENTENCES
from evenbeat.sim.alert_model import AlertShape
from evenbeat.sim.chain_explore import CHAIN_SENTENCES, CHAIN_WORLDS
from evenbeat.sim.cluster_limits import LimitShape
from evenbeat.sim.dependency_explore import DEPENDENCY_SENTENCES, DependencyShape
from evenbeat.sim.following_problems_explore import SUCCESSION_SENTENCES, SUCCESSION_WORLDS
from evenbeat.sim.hold_explore import HOLD_SENTENCES
from evenbeat.sim.hold_model import HoldShape
from evenbeat.sim.network_explore import NETWORK_SENTENCES
from evenbeat.sim.network_model import NetworkShape
from evenbeat.sim.problem_explore import PROBLEM_SENTENCES
from evenbeat.sim.problem_model import ProblemShape
from evenbeat.sim.properties import WORLD_SENTENCES
from evenbeat.sim.retry_explore import RETRY_SENTENCES
from evenbeat.sim.retry_model import RetryShape
from evenbeat.sim.state import WorldShape

SMALL = (WorldShape("one task", 1, (1,), ()), WorldShape("two tasks, one slot", 2, (1,), ()))
CLUSTERS = (
    LimitShape("a limit", 2, 1, 1),
    cluster.ClusterShape("a cluster", workers=1, claims=1, tries=1, deaths=0, steady=True),
)
PROBLEMS = (ProblemShape("problems of a check", checks=1, states=(State.OK, State.CRITICAL), edits=False),)
DEPENDENCIES = (DependencyShape("two tasks", 2),)
HOLDS = (HoldShape("a check and its parent", runs=False),)
ALERTS = (AlertShape("a channel", repeats=False),)
RETRIES = (RetryShape("a task that tries again", (1,)),)
CHAINS = CHAIN_WORLDS[:1]
NETWORKS = (NetworkShape("a network", 1),)
_OF_PROBLEMS = PROBLEM_SENTENCES | DEPENDENCY_SENTENCES | HOLD_SENTENCES
_OF_ALERTS = ALERT_SENTENCES | SUCCESSION_SENTENCES | NETWORK_SENTENCES
ALL_SENTENCES = (
    WORLD_SENTENCES | RETRY_SENTENCES | CHAIN_SENTENCES | _OF_PROBLEMS | _OF_ALERTS | cluster.CLUSTER_SENTENCES
)


@pytest.fixture(autouse=True)
def small_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    from evenbeat.cli.commands import verify

    monkeypatch.setattr(verify, "WORLDS", SMALL)
    monkeypatch.setattr(verify, "RETRY_WORLDS", RETRIES)
    monkeypatch.setattr(verify, "CHAIN_WORLDS", CHAINS)
    monkeypatch.setattr(chain_explore, "_PARENTS", ("a",))
    monkeypatch.setattr(verify, "PROBLEM_WORLDS", PROBLEMS)
    monkeypatch.setattr(verify, "DEPENDENCY_WORLDS", DEPENDENCIES)
    monkeypatch.setattr(verify, "HOLD_WORLDS", HOLDS)
    monkeypatch.setattr(verify, "ALERT_WORLDS", ALERTS)
    monkeypatch.setattr(verify, "NETWORK_WORLDS", NETWORKS)
    monkeypatch.setattr(verify, "CLUSTERS", CLUSTERS)


def one_slot_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = gate.verify
    monkeypatch.setattr(lifecycle, "verify", lambda a, free, by_limit: honest(a, free + 1, by_limit))


def test_json_has_the_promised_keys_and_everything_holds(evenbeat: Evenbeat) -> None:
    result = evenbeat("verify", "--json")
    assert result.code == 0
    assert list(result.json) == ["states", "transitions", "properties", "worlds"]
    assert result.json["properties"] == dict.fromkeys(ALL_SENTENCES, "holds")
    assert {str(n) for n in range(1, 15)} < set(result.json["properties"])
    assert [world["name"] for world in result.json["worlds"]] == [
        shape.name
        for shape in (
            *(*SMALL, *RETRIES, *CHAINS, *PROBLEMS, *DEPENDENCIES, *HOLDS),
            *(*ALERTS, *SUCCESSION_WORLDS, *NETWORKS, *CLUSTERS),
        )
    ]
    for count in ("states", "transitions"):
        assert result.json[count] == sum(world[count] for world in result.json["worlds"])


def test_people_read_a_line_for_each_world_and_a_sentence_for_each_property(evenbeat: Evenbeat) -> None:
    result = evenbeat("verify")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("one task: ")
    assert lines[1].startswith("two tasks, one slot: ")
    for name, sentence in ALL_SENTENCES.items():
        assert any(name in line and "holds" in line and sentence in line for line in lines)


def test_a_broken_property_exits_with_one_and_the_shortest_way_to_it(
    evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_slot_too_many(monkeypatch)
    result = evenbeat("verify")
    assert result.code == 1
    assert "two tasks, one slot: " in result.out
    assert "not explored to its end" in result.out
    assert "property 3 fails in the world 'two tasks, one slot'" in result.err
    assert "3. release" in result.err
    assert "4. " not in result.err


def test_json_tells_a_counterexample_and_leaves_the_rest_open(
    evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_slot_too_many(monkeypatch)
    result = evenbeat("verify", "--json")
    assert result.code == 1
    assert result.json["properties"]["3"] == "fails"
    assert result.json["properties"]["1"] == "open"
    assert result.json["counterexample"]["property"] == "3"
    assert result.json["counterexample"]["events"][-1] == "release"


def test_a_cluster_that_breaks_a_property_is_told_like_any_world(
    evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lease, "run_fate", lambda driven, now: RunFate.LOST if driven.worker else RunFate.STAY)
    result = evenbeat("verify")
    assert result.code == 1
    assert "property cluster: permitted fails in the world 'a cluster'" in result.err


def test_so_is_a_world_of_problems(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Problems, "learn_results", lambda _self, _rows, _now: [])
    result = evenbeat("verify")
    assert result.code == 1
    assert "property problems: open fails in the world 'problems of a check'" in result.err
    assert "2. task 0: CRITICAL" in result.err


def test_one_world_of_a_given_size(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "_EVERY_SWITCH", ("enabled",))
    found = evenbeat("verify", "--tasks", "1", "--slots", "1", "--json").json
    assert [world["name"] for world in found["worlds"]] == ["tasks: 1, slots: 1"]
    assert set(found["properties"]) == set(WORLD_SENTENCES)


@pytest.mark.parametrize("option", ["--tasks", "--slots"])
@pytest.mark.parametrize("number", ["0", "-1", "4", "1000000"])
def test_a_size_that_would_not_end_is_refused(evenbeat: Evenbeat, option: str, number: str) -> None:
    result = evenbeat("verify", f"{option}={number}")
    assert result.code == 2
    assert result.err == f"evenbeat verify: {option}: {number} is out of range, accepted: 1 to 3\n"
    assert result.out == ""
