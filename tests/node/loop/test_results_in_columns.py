"""Results that come as columns mean the same as those that come one by one."""

from hand_driven_node import T0, HandDrivenNode
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import MINUTE, SECOND, Outcome
from evenbeat.store.contract import TaskProgress
from evenbeat.wire.plain_results import PlainResults, full_results
from evenbeat.wire.worker_frames import RunResult

TASKS = ("a task", "another task", "a check", "a removed task")


class Ended(HandDrivenNode):
    """A node with a run of each task, of which some results have come."""

    def __init__(self) -> None:
        super().__init__()
        for name in TASKS:
            self.add(name, check=name == "a check")
        runs = {run.name: run for run in self.turn(MINUTE)}
        self.tokens = [runs[name].token for name in TASKS]
        self.remove("a removed task")

    def learned(self) -> tuple[list[TaskProgress], object, object, object]:
        self.turn(SECOND)
        progress = [self.progress(name) for name in TASKS[:3]]
        counts = self.turns.counts
        return progress, sorted(self.store.runs(), key=lambda run: run.task), counts.outcomes, sorted(counts.lateness)


@given(
    plain=st.lists(st.sampled_from([0, 1, 2, 3, 3, 99]), max_size=5),
    failed=st.lists(st.integers(0, 3), max_size=2),
    stopped=st.booleans(),
    late=st.integers(-2 * SECOND, 2 * SECOND),
)
def test_columns_are_learned_as_single_results_are(
    plain: list[int], failed: list[int], stopped: bool, late: int
) -> None:
    outcomes = []
    for as_columns in (True, False):
        node = Ended()
        tokens = [node.tokens[i] if i < len(TASKS) else 777 for i in plain]
        started = T0 + MINUTE + late
        results = PlainResults(tokens, [started] * len(tokens), [started + 5] * len(tokens))
        if stopped:
            node.turns.stops.ask(node.tokens[0], "stopped by ana")
        node.turns.add_results(results if as_columns else full_results(results))
        node.turns.add_results([RunResult(node.tokens[i], Outcome.FAILED, 2, T0, T0, b"down") for i in failed])
        outcomes.append(node.learned())
    assert outcomes[0] == outcomes[1]


def test_what_a_run_without_output_has_written_is_known_to_who_reads_it() -> None:
    node = Ended()
    node.turns.read_outputs[node.tokens[0]] = b"so far"
    node.turns.add_results(PlainResults([node.tokens[0]], [T0 + MINUTE], [T0 + MINUTE]))
    node.turn(SECOND)
    assert node.turns.read_outputs == {node.tokens[0]: b""}
