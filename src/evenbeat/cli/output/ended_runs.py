"""Runs whose ends a command has waited for."""

from rich.console import Console

from evenbeat.model import Instant, Outcome
from evenbeat.report.documents import iso_time
from evenbeat.report.words import duration_words, outcome_words
from evenbeat.wire.replies import EndedRun


def ended_run_document(run: EndedRun) -> dict[str, object]:
    """The run for --json."""
    return {
        "task": run.task,
        "started": iso_time(Instant(run.started)),
        "ended": iso_time(Instant(run.ended)),
        "outcome": run.outcome,
        "status": run.status,
        "output": run.output,
    }


def print_ended_run(out: Console, run: EndedRun) -> None:
    """How a run ended, and its output."""
    good = run.outcome == Outcome.SUCCEEDED
    words = f"{outcome_words(run.outcome, run.status)}, {duration_words(run.ended - run.started)}"
    out.print(run.task, style="bold", end=" ", markup=False)
    out.print(words, style="green" if good else "red", markup=False)
    if run.output:
        out.print(run.output.rstrip("\n"), markup=False)
