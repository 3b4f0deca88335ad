"""The runs that are claimed or running in a live node."""

from heapq import nsmallest

from evenbeat.core.timebox import NO_TIMEBOX
from evenbeat.model import Instant, RunKind
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.node.scheduler import Scheduler
from evenbeat.wire.live_runs import RunningRun, RunningRuns


def running_runs_of(node: Scheduler, most: int) -> RunningRuns:
    """The runs of this moment, at most so many, the oldest first."""
    turns = node.turns
    since = [(turns.started_runs.get(token, run.claimed), token) for token, run in turns.pending_runs.items()]
    return RunningRuns([_running_run(turns, token) for _, token in nsmallest(most, since)], len(since))


def _running_run(turns: TurnLoop, token: int) -> RunningRun:
    run, started = turns.pending_runs[token], turns.started_runs.get(token)
    return RunningRun(
        turns.tasks.name_of(run.number, run.name),
        Instant(run.nominal),
        RunKind(run.kind),
        Instant(run.claimed),
        None if started is None else Instant(started),
        run.timebox if run.timebox < NO_TIMEBOX else None,
        run.number,
        turns.stops.words(token),
    )
