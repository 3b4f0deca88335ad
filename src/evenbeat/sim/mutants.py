"""Can the verifier fail? Each condition of gate and lifecycle, turned into its opposite, must break a property.

`python -m evenbeat.sim.mutants` tries them all; it exits with 1 if one survives that is not known to change nothing.
"""

import ast
import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from types import ModuleType
from typing import Final, NamedTuple

from evenbeat.core import alerts, gate, lifecycle, problem_holds, problems
from evenbeat.core.alerts import Hold
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.problem_holds import Holds
from evenbeat.core.problems import Problems
from evenbeat.model import State
from evenbeat.sim.alert_explore import explore_alerts
from evenbeat.sim.alert_model import ALERT_RULES, AlertRules, AlertShape
from evenbeat.sim.explore import ExplorationResult, explore
from evenbeat.sim.following_problems_explore import SUCCESSION_WORLDS, explore_succession
from evenbeat.sim.hold_explore import explore_holds
from evenbeat.sim.hold_model import HoldShape
from evenbeat.sim.problem_explore import explore_problems
from evenbeat.sim.problem_model import ProblemShape
from evenbeat.sim.state import WorldShape

SHAPES: Final = (
    WorldShape(
        "every switch",
        1,
        (1, 0),
        ("enabled", "open", "mine", "reachable", "skips_unreachable", "permitted", "soon"),
        occasions=True,
    ),
    WorldShape("a limit", 3, (2,), (), limits=(1, 0)),
    WorldShape("saturation", 2, (1, 0), ("enabled",)),
    WorldShape("a backlog", 1, (1,), ("enabled", "soon"), each=1, occasions=True, behind=True),
    WorldShape("two backlogs", 2, (2, 1), (), each=2),
    WorldShape("a backlog beside none", 2, (2,), (), each=1, occasions=True),
    WorldShape("a second nominal time", 1, (1,), ("enabled",), behind=True),
)
"""Small worlds: a counterexample is a few events long, so these show soon what they show at all."""

PROBLEM_SHAPES: Final = (
    ProblemShape("one task", states=(State.OK, State.WARNING, State.CRITICAL)),
    ProblemShape("a check and a task", 2, 1, (State.OK, State.CRITICAL), edits=False),
)
"""Small worlds of problems."""

HOLD_SHAPES: Final = (
    HoldShape("a check", runs=False, switches=("in_downtime", "is_paused", "is_closed")),
    HoldShape("a parent", runs=False, parent_switches=("is_paused", "is_closed", "is_idle"), flaps=True, skips=True),
    HoldShape("no check", runs=False, switches=("in_downtime",), jobs=True),
    HoldShape("no check, runs", switches=("in_downtime",), jobs=True),
    HoldShape("runs", switches=("in_downtime",)),
    HoldShape("elsewhere", runs=False, parent_switches=("is_paused", "is_idle"), is_elsewhere=True),
    HoldShape("two checks", 2, runs=False),
    HoldShape("two checks and runs", 2, switches=("in_downtime",)),
)
"""Small worlds of what is held."""

ALERT_SHAPES: Final = (
    AlertShape("holds", tuple(Hold), has_delay=True, set_back=True),
    AlertShape("acknowledgements", (Hold.NONE, Hold.DOWNTIME), ("plain", "sticky", "ending"), has_delay=True),
    AlertShape("a contact", (Hold.NONE, Hold.PAUSED), ("plain",), ("is_there", "is_wanted", "is_open", "is_picky")),
    AlertShape("reminders", (Hold.NONE, Hold.DOWNTIME), ("plain",), ("repeats",)),
    AlertShape("a task that comes back", switches=("is_there",), returns=True),
)
"""Small worlds of one channel."""

MOST_STATES: Final = 1_000
"""States of each shape that are explored for one mutant."""

_ALERT_STATES: Final = 5
"""Times as many of the worlds of one channel, whose states are quickly explored."""

MODULES: Final[tuple[ModuleType, ...]] = (gate, lifecycle, problems, problem_holds, alerts)
"""Modules of the core whose conditions are turned into their opposites."""

_NO_CLOCK: Final = "the worlds have no clock: `sim.engine` simulates it, unit tests and tests/paths check it"
_NOT_A_TASK: Final = "it decides nothing about runs of tasks: unit tests check it"
_CLUSTER: Final = "`sim.cluster_mutants` plants bugs in it"
UNEXPLORED_MODULES: Final = {
    "access_rules": _NOT_A_TASK,
    "acknowledgement": "the worlds of problems have no people: unit tests check it",
    "asked_runs": _NO_CLOCK,
    "chain_rules": _NOT_A_TASK,
    "chains": "`sim.chain_explore` explores it, and tests plant bugs in it",
    "changed_definitions": _NO_CLOCK,
    "channels": _NOT_A_TASK,
    "check_states": "the worlds have no checks: unit tests compare it with slow oracles",
    "clock_steps": _NO_CLOCK,
    "columns": "memory, no rule",
    "crash_loop": _NO_CLOCK,
    "delivery_pace": _NO_CLOCK,
    "dependencies": _NOT_A_TASK,
    "downtimes": "the worlds begin and end downtimes at once: unit tests compare it with slow oracles",
    "drop_guard": _NO_CLOCK,
    "environment": _NOT_A_TASK,
    "first_run_pace": _NO_CLOCK,
    "flapping": "the worlds of problems flap at once: unit tests check when a check does",
    "freshness": _NO_CLOCK,
    "history_size": _NOT_A_TASK,
    "label_index": "memory, no rule",
    "limit_shares": _CLUSTER,
    "lost_runs": "`sim.retry_explore` explores it, and tests plant bugs in it",
    "missed_times": _NO_CLOCK,
    "missing_and_long": "the worlds have no looks at what is missing or long: unit tests check it",
    "name_index": "memory, no rule",
    "next_time": _NO_CLOCK,
    "output_excerpt": _NOT_A_TASK,
    "partition_ownership": _CLUSTER,
    "passive_results": _NO_CLOCK,
    "permission": _NOT_A_TASK,
    "placement": "the worlds have no load wheel: `sim.engine` places tasks with it",
    "plugin": _NOT_A_TASK,
    "problems_of_node": _NO_CLOCK,
    "reachability": "`sim.dependency_explore` explores it, and tests plant bugs in it",
    "references": _NOT_A_TASK,
    "retention": _NOT_A_TASK,
    "retries": "`sim.retry_explore` explores it, and tests plant bugs in it",
    "run_arguments": _NOT_A_TASK,
    "run_lease": _CLUSTER,
    "run_plan": "the runs of the worlds have no timebox and no outcome: unit tests check it",
    "run_summaries": _NOT_A_TASK,
    "scope": _NOT_A_TASK,
    "stopped_runs": "the worlds stop tasks with it, and tests plant bugs in it; unit tests check how a stop counts",
    "submitted_results": "the worlds have no checks: unit tests check it",
    "task": "columns and flags, no rule",
    "task_columns": "the columns of the worlds are filled in directly",
    "task_defaults": _NOT_A_TASK,
    "task_graph": _NOT_A_TASK,
    "telling_lines": _NOT_A_TASK,
    "timebox": _NO_CLOCK,
    "times": _NO_CLOCK,
    "timetable": "the worlds use it as it is: its own stateful tests check it",
    "whole_output": _NOT_A_TASK,
    "worker_deaths": "the workers of the worlds do not die by their tasks: unit tests check it",
}
"""All other modules of the core, with the reason."""

UNEXPLORED_FUNCTIONS: Final = {
    "begin": "the worlds have no pace",
    "plan_first_runs": "the worlds have no pace",
    "assign_catch_up_turns": "the worlds never stop, so nobody catches up",
    "_end_catching_up": "the worlds never stop, so nobody catches up",
    "postpone_until": "the worlds have no clock to start at",
    "end_postponement": "the worlds have no clock to start at",
    "_skip_pauses": "the worlds switch tasks off and on at once, and keep no backlog over a pause",
    "_advance_nominal": "the worlds switch tasks off and on at once, and keep no backlog over a pause",
    "skip_until": "the worlds switch tasks off and on at once, and keep no backlog over a pause",
    "_free": "the worlds switch tasks off and on at once, and keep no backlog over a pause",
    "_suspend": "the off-grid runs of the worlds are occasions, which are refused and not owed",
    "is_paced": "the worlds have no pace",
    "off_grid_times": "the worlds have no pace",
    "next_grid_due": "the worlds have no pace, and no passive checks",
    "least_gap": "the worlds have no clock, so nothing is near",
    "_is_near_the_grid": "the worlds have no clock, so nothing is near",
    "account": "the grids of the worlds do not move",
    "_move_grids": "the grids of the worlds do not move",
    "reason_to_wait": "for people who ask; no decision looks at it",
    "_retry_when_open": "the worlds have no checks",
    "_go_on_retrying": "the worlds have no checks",
    "restore_removed": "in the worlds a name that was removed does not come back while its run lasts",
    "apply_results": "the worlds have no checks",
    "record_starts": "the worlds have no clock, every last start is now",
    "add_restored": "the worlds have one node, which never stops; those of `cluster_verify` have several",
    "prepare_hand_over": "the worlds have one node",
    "hand_over": "the worlds have one node",
    "release": "the worlds have no clock, so nothing is due soon",
    "_certain_to_run": "the worlds have no clock, so nothing is due soon",
    "_release_due": "their queues are short, and verified as a whole",
    "count_by_state": "for monitoring; no decision looks at it",
    "learn_given_up": "the tasks of the worlds do not try again: those of `sim.retry_explore` do",
    "_order_key": "their queues are short, and verified as a whole",
    "split_front": "their queues are short, and verified as a whole",
}
"""Functions whose conditions no world reaches, with the reason. Unit tests and simulations cover them."""

EQUIVALENT_MUTANTS: Final[dict[tuple[str, str, str], str]] = {
    ("_take_slots", "~a.forced & a.on_grid", "& to |"): "too_soon holds on the grid only, and no forced run is on it",
    ("_skip", "reason != _DISABLED", "negate"): "the off-grid runs of the worlds are refused and not owed",
    **dict.fromkeys(
        (
            ("_verify_and_execute", "retries.any()", "not"),
            ("_verify_and_execute", "reason == _PERIOD_CLOSED", "negate"),
            ("_verify_and_execute", "kind == RunKind.RETRY", "negate"),
            ("_verify_and_execute", "flags & _CHECK != 0", "negate"),
            ("_verify_and_execute", "flags & _CHECK", "& to |"),
            ("_verify_and_execute", "off_grid & (kind == RunKind.RETRY)", "& to |"),
            ("_verify_and_execute", "off_grid & (kind == RunKind.RETRY) & (reason == _PERIOD_CLOSED)", "& to |"),
            (
                "_verify_and_execute",
                "off_grid & (kind == RunKind.RETRY) & (reason == _PERIOD_CLOSED) & (flags & _CHECK != 0)",
                "& to |",
            ),
            ("_execute", "self.retries.nominals", "not"),
            ("_skip", "self.retries.nominals", "not"),
            ("_skip", "(c.nominal[rows] <= now) | settled & (c.off_grid_due[rows] <= now)", "| to &"),
            ("_skip", "settled & (c.off_grid_due[rows] <= now)", "& to |"),
            ("_skip", "c.off_grid_due[rows] <= now", "negate"),
            ("_skip", "c.nominal[rows] <= now", "negate"),
            ("learn_runs", "~retried", "drop ~"),
        ),
        "the tasks of the worlds do not try again: those of `sim.retry_explore` do",
    ),
    **dict.fromkeys(
        (
            ("_verify_and_execute", "self.has_chains", "not"),
            ("_verify_and_execute", "flags & _CHAINED != 0", "negate"),
            ("_verify_and_execute", "flags & _CHAINED", "& to |"),
            ("_verify_and_execute", "settles & (flags & _CHAINED != 0)", "& to |"),
        ),
        "the tasks of these worlds do not follow others; `sim.chain_explore` has such",
    ),
    ("_verify_and_execute", "near.any()", "not"): "the worlds have no clock, so nothing is near",
    ("_verify_and_execute", "~near", "drop ~"): "the worlds have no clock, so nothing is near",
    ("", "Flag.CATCHING_UP | Flag.PASSIVE", "| to &"): "the worlds have none of these",
    ("", "Flag.CATCHING_UP | Flag.PASSIVE | Flag.POSTPONED", "| to &"): "the worlds have none of these",
    (
        "_check_foreign_parents",
        "lacks_run & self._notify(child)",
        "& to |",
    ): "who is asked looks whether a run is lacking",
    ("_need_results", "expected < FOREVER", "negate"): "the worlds have no clock: unit tests check it",
    ("learn_ends", "self._columns.flags[rows] & _RUNNING", "& to |"): "what has no run is forgotten with the next look",
    (
        "_counted",
        "since or facts.opened",
        "or to and",
    ): "the pace of reminders: due or not due is the same in the worlds",
    ("_follow", "problem & _OPEN", "& to |"): "a shortcut: the long way gives the same where it may be taken",
    ("reconcile", "(result_at > 0) & (result_at < now)", "& to |"): "each result of the worlds came before now",
    ("complete", "flags & _SPECIAL", "& to |"): "a shortcut: who is in the timetable is put there again, as it was",
    ("_execute", "flags & _SPECIAL", "& to |"): "a shortcut: the long way gives the same where it may be taken",
    **dict.fromkeys(
        (
            ("", "_ENABLED | _MINE", "| to &"),
            ("", "_ENABLED | _MINE | _REACHABLE", "| to &"),
            ("", "_ENABLED | _MINE | _REACHABLE | _PERMITTED", "| to &"),
            ("", "_RUNNABLE | _RUNNING", "| to &"),
            ("", "_RUNNABLE | _RUNNING | _SPECIAL", "| to &"),
        ),
        "only for what is due soon, and the worlds have no clock",
    ),
}
"""(function, source of the condition, rule) of the mutants that change no behaviour, with the reason."""

_SOURCE: Final = {module: inspect.getsource(module) for module in MODULES}
"""The source at the start, so that an edit meanwhile does not shift what is mutated."""

_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_PREDICATES: Final = ("_has_flag", "is_open", "_is_too_soon")
"""Methods that return a mask."""


class Mutant(NamedTuple):
    """One condition turned into its opposite."""

    module: str
    function: str
    line: int
    source: str
    rule: str
    place: int
    """Position of the mutated node in the order of ast.walk."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.function, self.source, self.rule

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.rule} `{self.source}`"


class MutantFate(NamedTuple):
    """What became of a mutant: the property that fails (or the exception), and after how many events."""

    caught_by: str
    events: int
    world: str


def mutants() -> list[Mutant]:
    """All mutants, in the order of the source."""
    found = (m for module in MODULES for m in _mutants_of(module))
    return sorted(found, key=lambda m: (m.module, m.line, m.place))


def _mutants_of(module: ModuleType) -> Iterator[Mutant]:
    tree = ast.parse(_SOURCE[module])
    name = module.__name__.rpartition(".")[2]
    places = {node: place for place, node in enumerate(ast.walk(tree))}
    # An annotation decides nothing; the operand of an Invert is mutated with it.
    annotations = (getattr(n, a, None) for n in places for a in ("annotation", "returns"))
    passed_over = {n for a in annotations if isinstance(a, ast.AST) for n in ast.walk(a)}
    passed_over |= {n.operand for n in places if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Invert)}
    tests = {n.test for n in places if isinstance(n, ast.If | ast.IfExp)}
    functions = _functions(tree)
    for node, place in places.items():
        function = functions.get(node, "")
        if node in passed_over or function in UNEXPLORED_FUNCTIONS:
            continue
        rule = _rule(node, is_test=node in tests)
        if rule and isinstance(node, ast.expr):
            yield Mutant(name, function, node.lineno, ast.unparse(node), rule, place)


def _functions(tree: ast.Module) -> dict[ast.AST, str]:
    """The function each node is in, or the class."""
    within: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        # Outer functions come first, so the innermost one is kept.
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            within |= dict.fromkeys(ast.walk(node), node.name)
    return within


def _rule(node: ast.AST, *, is_test: bool) -> str:
    match node:
        case ast.Compare():
            return "negate"
        case ast.UnaryOp(op=ast.Invert()):
            return "drop ~"
        case ast.BinOp(op=ast.BitAnd()):
            return "& to |"
        case ast.BinOp(op=ast.BitOr()):
            return "| to &"
        case ast.BoolOp(op=ast.And()):
            return "and to or"
        case ast.BoolOp(op=ast.Or()):
            return "or to and"
        case ast.Call(func=ast.Attribute(attr=name)) if name in _PREDICATES:
            return "invert"
        case _:
            return "not" if is_test else ""


class _ConditionInverter(ast.NodeTransformer):
    def __init__(self, target: ast.AST, rule: str) -> None:
        self.target = target
        self.rule = rule

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self._changed(node), node) if node is self.target else self.generic_visit(node)

    def _changed(self, node: ast.AST) -> ast.expr:
        match node:
            case ast.Compare(left, [op], right):
                return ast.Compare(left, [_OPPOSITE[type(op)]()], right)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return operand
            case ast.BinOp(left, op, right):
                return ast.BinOp(left, ast.BitOr() if isinstance(op, ast.BitAnd) else ast.BitAnd(), right)
            case ast.BoolOp(op, values):
                return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            case ast.expr():
                return ast.UnaryOp(ast.Invert() if self.rule == "invert" else ast.Not(), node)
        raise TypeError(f"no condition: {node}")


def mutated(mutant: Mutant) -> type[Lifecycle]:
    """A class Lifecycle with the mutated condition in it, or in its gate."""
    changed = _mutated_module(mutant, gate if mutant.module == "gate" else lifecycle)
    if mutant.module == "gate":
        around = _load(lifecycle, ast.parse(_SOURCE[lifecycle]))
        vars(around)["verify"] = vars(changed)["verify"]
        changed = around
    kind: type[Lifecycle] = vars(changed)["Lifecycle"]
    return kind


def mutated_problems(mutant: Mutant) -> type[Problems]:
    """A class Problems with the mutated condition in it."""
    kind: type[Problems] = vars(_mutated_module(mutant, problems))["Problems"]
    return kind


def mutated_holds(mutant: Mutant) -> type[Holds]:
    """A class Holds with the mutated condition in it."""
    kind: type[Holds] = vars(_mutated_module(mutant, problem_holds))["Holds"]
    return kind


def mutated_alerts(mutant: Mutant) -> AlertRules:
    """The functions of `core.alerts` with the mutated condition in them."""
    changed = vars(_mutated_module(mutant, alerts))
    return AlertRules(changed["decide"], changed["start"], changed["end"], changed["is_unfinished"])


def _mutated_module(mutant: Mutant, source: ModuleType) -> ModuleType:
    tree = ast.parse(_SOURCE[source])
    target = list(ast.walk(tree))[mutant.place]
    return _load(source, ast.fix_missing_locations(_ConditionInverter(target, mutant.rule).visit(copy.copy(tree))))


def _load(module: ModuleType, tree: ast.AST) -> ModuleType:
    assert isinstance(tree, ast.Module)
    fresh = ModuleType(module.__name__)
    exec(compile(tree, f"<mutant of {module.__name__}>", "exec"), vars(fresh))  # noqa: S102 - our own source
    return fresh


def explore_mutant(mutant: Mutant, most: int = MOST_STATES) -> MutantFate | None:
    """Explore until a world shows the change; None if none does."""
    try:
        match mutant.module:
            case "problems":
                explored = _explore_problem_worlds(mutated_problems(mutant), most)
            case "problem_holds":
                explored = _explore_hold_worlds(mutated_holds(mutant), most)
            case "alerts":
                explored = _explore_alert_worlds(mutated_alerts(mutant), most * _ALERT_STATES)
            case _:
                explored = _explore_worlds(mutated(mutant), most)
        for found in explored:
            if found.counterexample is not None:
                broken = found.counterexample
                return MutantFate(f"property {broken.property}", len(broken.events), broken.world)
    except Exception as error:  # an error counts as noticed
        return MutantFate(f"raises {type(error).__name__}: {error}", 0, "")
    return None


def _explore_worlds(kind: type[Lifecycle], most: int) -> Iterator[ExplorationResult]:
    return (explore(shape, kind, most) for shape in SHAPES)


def _explore_problem_worlds(kind: type[Problems], most: int) -> Iterator[ExplorationResult]:
    return (explore_problems(shape, kind, most) for shape in PROBLEM_SHAPES)


def _explore_hold_worlds(kind: type[Holds], most: int) -> Iterator[ExplorationResult]:
    return (explore_holds(shape, kind, most) for shape in HOLD_SHAPES)


def _explore_alert_worlds(rules: AlertRules, most: int) -> Iterator[ExplorationResult]:
    return chain(
        (explore_succession(shape, rules, most) for shape in SUCCESSION_WORLDS),
        (explore_alerts(shape, rules, most) for shape in ALERT_SHAPES),
    )


def _explore_originals(most: int) -> Iterator[ExplorationResult]:
    return chain(
        _explore_worlds(Lifecycle, most),
        _explore_problem_worlds(Problems, most),
        _explore_hold_worlds(Holds, most),
        _explore_alert_worlds(ALERT_RULES, most * _ALERT_STATES),
    )


def try_all_mutants(say: Callable[[str], object], most: int = MOST_STATES) -> int:
    """Try all mutants and report each; returns how many survive unexcused, or -1 if the original fails too."""
    for explored in _explore_originals(most):
        found = explored.counterexample
        if found is not None:
            say(f"the original fails, so nothing can be told: {found}\n")
            return -1
    caught, survivors, excused = 0, 0, 0
    for mutant in mutants():
        fate = explore_mutant(mutant, most)
        if fate is not None:
            caught += 1
            say(f"caught    {mutant}: {fate.caught_by}, {fate.events} events, {fate.world}\n")
        elif mutant.key in EQUIVALENT_MUTANTS:
            excused += 1
            say(f"the same  {mutant}: {EQUIVALENT_MUTANTS[mutant.key]}\n")
        else:
            survivors += 1
            say(f"SURVIVES  {mutant}\n")
    say(f"{caught} caught, {excused} equivalent, {survivors} survive\n")
    return survivors


if __name__ == "__main__":
    sys.exit(try_all_mutants(sys.stdout.write) != 0)
