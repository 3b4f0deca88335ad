"""The books of a node: who may start what, whose it is, whose result counts."""

from collections.abc import Callable, Sequence

import pytest

from evenbeat.core import run_lease
from evenbeat.core.run_lease import RunLease
from evenbeat.model import SECOND, Outcome
from evenbeat.queue.nats.batches import HandedOverRun
from evenbeat.queue.nats.handed_over_runs import HandedOverRuns, RunReportEffect
from evenbeat.wire.cluster_messages import RunReport, StartRequest, WorkerStatus
from evenbeat.wire.plain_results import PlainResults, encode_records, tokens_of
from evenbeat.wire.worker_frames import RunResult

NOW = 1_000 * SECOND


def books(*tokens: int, owned: Sequence[int] | None = None) -> HandedOverRuns:
    """With these runs open; the task of a run has the number of its token. Owns these, or all."""
    made = HandedOverRuns(lambda task: owned is None or task in owned)
    for token in tokens:
        made.open[token] = HandedOverRun(token, token, None, None, "default", NOW)
    return made


def ask(made: HandedOverRuns, worker: str, *tokens: int, asked: int = 5) -> tuple[list[int], list[int]]:
    granted, refused = made.grant(StartRequest(worker, asked, [(t, t) for t in tokens]), NOW)
    return [item.token for item in granted], refused


def tell(
    made: HandedOverRuns, worker: str, *held: int, settled: int = 0, now: int = NOW
) -> tuple[list[int], list[int], list[int]]:
    tidings = WorkerStatus(worker, 0, settled, "w", 1, ["default"], 1, False, [(t, t) for t in held], 0, "", 1, 0)
    reply = made.apply_status(tidings, now)
    return reply.renewed, reply.not_ours, [item.token for item in reply.reopened]


def report(worker: str, *tokens: int) -> RunReport:
    return RunReport(worker, [], [(t, RunResult(t, Outcome.SUCCEEDED, 0, 1, 2, b"")) for t in tokens])


def plain_report(worker: str, *tokens: int) -> RunReport:
    return RunReport(worker, [], [], list(tokens), encode_records((token, 1, 2) for token in tokens))


MakeReport = Callable[..., RunReport]
BOTH_REPORTS = pytest.mark.parametrize("report", [report, plain_report])
NOTHING = RunReportEffect([], [], [], [], PlainResults([], [], []))


def tokens_of_results(effect: RunReportEffect) -> list[int]:
    return tokens_of(effect.results) + tokens_of(effect.plain)


def test_a_run_is_granted_to_one_worker_however_often_it_asks() -> None:
    made = books(1, 2)
    assert ask(made, "a", 1) == ([1], [])
    assert ask(made, "a", 1, asked=6) == ([1], [])
    assert ask(made, "b", 1, 2) == ([2], [1])


def test_what_is_unknown_is_refused_by_its_owner_and_by_nobody_else() -> None:
    assert ask(books(owned=[7]), "a", 7, 8) == ([], [7])


def test_what_was_adopted_is_not_started_but_goes_on_where_it_is() -> None:
    made = books(1)
    made.open[1].lease = RunLease(renewed_at=NOW, adopted=True)
    assert ask(made, "a", 1) == ([], [1])
    assert tell(made, "b", 1) == ([1], [], [])
    assert tell(made, "a", 1) == ([], [1], [])


def test_tidings_renew_what_is_the_workers_and_end_what_is_not() -> None:
    made = books(1, 2, owned=[1, 2, 3])
    ask(made, "a", 1)
    assert tell(made, "a", 1, 2, 3, 4) == ([1], [2, 3], [])


def test_a_permission_that_was_not_used_is_open_again_once_that_is_settled() -> None:
    made = books(1)
    ask(made, "a", 1, asked=5)
    assert tell(made, "a", settled=4) == ([], [], [])
    assert tell(made, "b", settled=9) == ([], [], [])
    assert ask(made, "b", 1) == ([], [1])
    assert tell(made, "a", settled=5) == ([], [], [1])
    assert ask(made, "b", 1) == ([1], [])


@BOTH_REPORTS
def test_a_result_counts_once_and_is_stored_for_its_worker(report: MakeReport) -> None:
    made = books(1, 2)
    ask(made, "a", 1, 2)
    assert tokens_of_results(made.apply_report(report("a", 1))) == [1]
    assert made.apply_report(report("a", 1)) == NOTHING  # it is on its way into the store
    assert tell(made, "a", 1, 2) == ([2], [], [])
    assert ask(made, "b", 1) == ([], [1])
    assert made.mark_stored([1, 2], NOW) == {"a": [1]}
    again = made.apply_report(report("a", 1))
    assert (again.safe, again.late) == ([1], [])


@BOTH_REPORTS
def test_results_that_nobody_waits_for_are_late(report: MakeReport) -> None:
    made = books(1, 2, owned=[1, 2, 3])
    ask(made, "a", 1, 2)
    late = made.apply_report(report("b", 1, 3, 4))
    assert (tokens_of_results(late), late.safe, [task for task, _ in late.late]) == ([], [1, 3], [1, 3])
    assert 1 in made.open


@BOTH_REPORTS
def test_runs_of_a_silent_worker_are_lost_and_no_others(report: MakeReport) -> None:
    made = books(1, 2, 3, 4)
    ask(made, "a", 1)
    ask(made, "b", 2)
    made.open[3].lease = RunLease(renewed_at=NOW, adopted=True)
    lost_at = NOW + run_lease.RUN_LEASE_DURATION + run_lease.RUN_LEASE_MARGIN
    tell(made, "b", 2, now=NOW + SECOND)
    assert made.take_lost(lost_at - 1) == []
    assert [item.token for item in made.take_lost(lost_at)] == [1, 3]
    assert sorted(made.open) == [2, 4]
    assert [task for task, _ in made.apply_report(report("a", 1)).late] == [1]


@BOTH_REPORTS
def test_what_is_forgotten_is_no_business_of_ours(report: MakeReport) -> None:
    made = books(1, 2, owned=[])
    ask(made, "a", 1, 2)
    made.apply_report(report("a", 2))
    assert [item.token for item in made.forget([1, 2, 3])] == [1]
    assert made.mark_stored([2], NOW) == {}
    assert tell(made, "a", 1, 2) == ([], [], [])
    assert made.apply_report(report("a", 1, 2)) == NOTHING


def test_of_plain_results_of_which_some_count_the_others_are_late_or_repeated() -> None:
    made = books(1, 2, 3, owned=[1, 2, 3])
    ask(made, "a", 1, 2)
    ask(made, "b", 3)
    made.apply_report(plain_report("a", 2))
    made.mark_stored([2], NOW)
    effect = made.apply_report(plain_report("a", 1, 2, 3))
    assert (effect.plain, effect.safe) == (PlainResults([1], [1], [2]), [2, 3])
    assert [(task, result.started, result.ended) for task, result in effect.late] == [(3, 1, 2)]


@pytest.mark.parametrize("tasks", [[], [1, 2]])
def test_plain_results_without_a_task_each_are_refused_as_a_whole(tasks: list[int]) -> None:
    made = books(1)
    ask(made, "a", 1)
    with pytest.raises(ValueError, match="1 plain results"):
        made.apply_report(RunReport("a", [], [], tasks, encode_records([(1, 1, 2)])))
    assert 1 in made.open
