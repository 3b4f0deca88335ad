"""`evenbeat verify`: check every reachable state of small sets of tasks and small clusters, on the production code."""

import argparse
import sys
from itertools import chain

from evenbeat.cli.output.common import console, print_json
from evenbeat.sim import cluster_model as cluster
from evenbeat.sim.alert_explore import ALERT_SENTENCES, ALERT_WORLDS, verify_alerts
from evenbeat.sim.chain_explore import CHAIN_SENTENCES, CHAIN_WORLDS, verify_chains
from evenbeat.sim.cluster_verify import CLUSTERS, verify_clusters
from evenbeat.sim.dependency_explore import DEPENDENCY_SENTENCES, DEPENDENCY_WORLDS, verify_dependencies
from evenbeat.sim.explore import Counterexample
from evenbeat.sim.following_problems_explore import SUCCESSION_SENTENCES, SUCCESSION_WORLDS, verify_successions
from evenbeat.sim.hold_explore import HOLD_SENTENCES, HOLD_WORLDS, verify_holds
from evenbeat.sim.network_explore import NETWORK_SENTENCES, NETWORK_WORLDS, verify_networks
from evenbeat.sim.problem_explore import PROBLEM_SENTENCES, PROBLEM_WORLDS, verify_problems
from evenbeat.sim.properties import WORLD_SENTENCES
from evenbeat.sim.retry_explore import RETRY_SENTENCES, RETRY_WORLDS, verify_retries
from evenbeat.sim.verify import WORLDS, VerifiedWorld, property_verdicts, verify, world_of


def run_command(args: argparse.Namespace) -> int:
    """Print what was explored and which properties hold; exit 1, with the shortest counterexample, if one does not."""
    given = args.tasks is not None or args.slots is not None
    shapes = (world_of(args.tasks, args.slots),) if given else WORLDS
    of_jobs = RETRY_SENTENCES | CHAIN_SENTENCES
    of_problems = PROBLEM_SENTENCES | DEPENDENCY_SENTENCES | HOLD_SENTENCES
    of_alerts = ALERT_SENTENCES | SUCCESSION_SENTENCES | NETWORK_SENTENCES
    every_sentence = WORLD_SENTENCES | of_jobs | of_problems | of_alerts | cluster.CLUSTER_SENTENCES
    sentences = WORLD_SENTENCES if given else every_sentence
    verified: list[VerifiedWorld] = []
    others = (
        verify_retries(RETRY_WORLDS),
        verify_chains(CHAIN_WORLDS),
        verify_problems(PROBLEM_WORLDS),
        verify_dependencies(DEPENDENCY_WORLDS),
        verify_holds(HOLD_WORLDS),
        verify_alerts(ALERT_WORLDS),
        verify_successions(SUCCESSION_WORLDS),
        verify_networks(NETWORK_WORLDS),
        verify_clusters(CLUSTERS),
    )
    for one in chain(verify(shapes), *(() if given else others)):
        verified.append(one)
        if not args.json:
            _show_world(one)
        if one.explored.counterexample is not None:
            break
    counterexample = verified[-1].explored.counterexample
    if args.json:
        print_json(_document(verified, sentences))
    else:
        _show(verified, sentences)
    if counterexample is None:
        return 0
    print(counterexample, file=sys.stderr)
    return 1


def _document(verified: list[VerifiedWorld], sentences: dict[str, str]) -> dict[str, object]:
    worlds = [
        {"name": shape.name, "states": explored.states, "transitions": explored.transitions}
        for shape, explored in verified
    ]
    found: dict[str, object] = {
        "states": _states(verified),
        "transitions": _transitions(verified),
        "properties": property_verdicts(verified, sentences),
        "worlds": worlds,
    }
    counterexample = verified[-1].explored.counterexample
    if counterexample is not None:
        found["counterexample"] = _counterexample_document(counterexample)
    return found


def _counterexample_document(found: Counterexample) -> dict[str, object]:
    return {
        "property": found.property,
        "sentence": found.sentence,
        "world": found.world,
        "events": [str(event) for event in found.events],
        "state": str(found.state),
    }


def _states(verified: list[VerifiedWorld]) -> int:
    return sum(v.explored.states for v in verified)


def _transitions(verified: list[VerifiedWorld]) -> int:
    return sum(v.explored.transitions for v in verified)


def _show_world(one: VerifiedWorld) -> None:
    explored = one.explored
    end = "" if explored.counterexample is None else ", not explored to its end"
    out = console()
    out.print(f"{one.shape.name}: {explored.states:,} states, {explored.transitions:,} transitions{end}", markup=False)
    # A world can take a minute: flush, so that the reader of a pipe sees this line now.
    sys.stdout.flush()


def _show(verified: list[VerifiedWorld], sentences: dict[str, str]) -> None:
    out = console()
    out.print(f"{_states(verified):,} states, {_transitions(verified):,} transitions in all\n", markup=False)
    for name, verdict in property_verdicts(verified, sentences).items():
        out.print(f"  {name:<20} {verdict}  {sentences[name]}", markup=False)
