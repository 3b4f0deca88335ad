"""`evenbeat verify`: every reachable state of small worlds of tasks, on the code that schedules for real."""

import argparse
import sys

from evenbeat.cli.common import console, print_json
from evenbeat.sim.explore import Counterexample
from evenbeat.sim.properties import SENTENCES
from evenbeat.sim.verify import WORLDS, Verified, said, verify, world_of


def answer(args: argparse.Namespace) -> int:
    """Print what was explored and what holds; exit 1, with the shortest counterexample, if something does not."""
    given = args.tasks is not None or args.slots is not None
    shapes = (world_of(args.tasks, args.slots),) if given else WORLDS
    verified = []
    for one in verify(shapes):
        verified.append(one)
        if not args.json:
            _show_world(one)
    counterexample = verified[-1].explored.counterexample
    if args.json:
        print_json(_document(verified))
    else:
        _show(verified)
    if counterexample is None:
        return 0
    print(counterexample, file=sys.stderr)
    return 1


def _document(verified: list[Verified]) -> dict[str, object]:
    worlds = [
        {"name": shape.name, "states": explored.states, "transitions": explored.transitions}
        for shape, explored in verified
    ]
    found: dict[str, object] = {
        "states": _states(verified),
        "transitions": _transitions(verified),
        "properties": said(verified),
        "worlds": worlds,
    }
    counterexample = verified[-1].explored.counterexample
    if counterexample is not None:
        found["counterexample"] = _in_json(counterexample)
    return found


def _in_json(found: Counterexample) -> dict[str, object]:
    return {
        "property": found.property,
        "sentence": found.sentence,
        "world": found.world,
        "events": [str(event) for event in found.events],
        "state": str(found.state),
    }


def _states(verified: list[Verified]) -> int:
    return sum(v.explored.states for v in verified)


def _transitions(verified: list[Verified]) -> int:
    return sum(v.explored.transitions for v in verified)


def _show_world(one: Verified) -> None:
    explored = one.explored
    end = "" if explored.counterexample is None else ", not explored to its end"
    out = console()
    out.print(f"{one.shape.name}: {explored.states:,} states, {explored.transitions:,} transitions{end}", markup=False)
    # A world can take a minute: whoever reads along through a pipe sees it now.
    sys.stdout.flush()


def _show(verified: list[Verified]) -> None:
    out = console()
    out.print(f"{_states(verified):,} states, {_transitions(verified):,} transitions in all\n", markup=False)
    for name, verdict in said(verified).items():
        out.print(f"  {name:<13} {verdict}  {SENTENCES[name]}", markup=False)
