"""What runs have written, while they are under way and when they have ended: asked of their workers, and of the store.

Nothing is sent or kept while no caller reads an output: each question of a caller becomes one to a worker.
"""

import asyncio
from typing import Final

from evenbeat.core.output_excerpt import whole_characters
from evenbeat.model import Instant, RunKind
from evenbeat.node.live_tasks import waiting_reason
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.run_output import ended_part, stored_run
from evenbeat.store.contract import StoreError
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.requests import MAX_OUTPUT_WAIT, ReadOutput

MAX_READERS: Final = 100
"""Questions that are answered at the same time."""
_POLL_INTERVAL: Final = 0.1
"""Seconds between two questions to the worker of a run that has written nothing new."""
_MAX_QUESTIONS: Final = 20
_REMEMBERED: Final = 60.0
"""Seconds for which the end of an output is kept that was read: the caller's next question is about that."""


class LiveOutput:
    """Answers questions about the outputs of runs."""

    def __init__(self, node: Scheduler) -> None:
        self._node = node
        self._readers = 0
        self._tokens: dict[tuple[int, int], int] = {}
        """Of runs whose outputs are read, by task and time of the claim."""

    async def read(self, question: ReadOutput) -> OutputPart:
        """The next part of an output; it is waited for if there is none yet."""
        if self._readers >= MAX_READERS:
            raise StoreError(f"the outputs of {MAX_READERS} runs are read already; accepted: so many at the same time")
        time = asyncio.get_running_loop().time
        deadline = time() + min(question.wait, MAX_OUTPUT_WAIT)
        self._readers += 1
        try:
            while True:
                part = await self._part(question)
                if part.text or part.ended is not None or time() >= deadline:
                    return part
                await asyncio.sleep(_POLL_INTERVAL)
        finally:
            self._readers -= 1

    async def _part(self, question: ReadOutput) -> OutputPart:
        now = self._node.clock.now()
        run = next((run for run in self._node.turns.pending_runs.values() if _is_meant(run, question)), None)
        if run is not None:
            return await self._part_of_running(run, question.position, now)
        record = await asyncio.to_thread(stored_run, self._node.store, question)
        if record is None:
            return OutputPart(now, None, waiting=self._waiting(question.number, now))
        if record.ended is None:  # its end is on the way into the store
            return _nothing_new(record.claimed, record.nominal, record.kind, record.started, question.position, now)
        written = self._node.turns.read_outputs.get(self._tokens.get((question.number, record.claimed), 0))
        return await asyncio.to_thread(ended_part, self._node.store, record, question.position, now, written)

    async def _part_of_running(self, run: PendingRun, position: int, now: Instant) -> OutputPart:
        self._remember(run)
        started = self._node.turns.started_runs.get(run.token)
        for _ in range(_MAX_QUESTIONS):  # while others read the same run, an answer may be one to their question
            frame = await self._node.queue.read_output(run.token, position)
            if frame is None or frame.asked == position:
                break
        begun = None if started is None else Instant(started)
        about = Instant(run.claimed), Instant(run.nominal), RunKind(run.kind), begun
        if frame is None or frame.asked != position or not (data := whole_characters(frame.data)):
            return _nothing_new(*about, position, now)
        end, left_out = frame.start + len(data), frame.start - position
        return OutputPart(now, *about, end, left_out, data.decode("utf-8", "replace"))

    def _waiting(self, number: int, now: Instant) -> str:
        row = self._node.tasks.row(number)
        return "" if row is None else waiting_reason(self._node.tasks, row, now)

    def _remember(self, run: PendingRun) -> None:
        if run.token in self._node.turns.read_outputs:
            return
        self._node.turns.read_outputs[run.token] = b""
        self._tokens[run.number, run.claimed] = run.token
        asyncio.get_running_loop().call_later(_REMEMBERED, self._forget, run)

    def _forget(self, run: PendingRun) -> None:
        self._node.turns.read_outputs.pop(run.token, None)
        self._tokens.pop((run.number, run.claimed), None)


def _is_meant(run: PendingRun, question: ReadOutput) -> bool:
    if run.number != question.number:
        return False
    if question.run is not None:
        return run.claimed == question.run
    if question.since is not None:
        return run.claimed >= question.since and (run.kind == RunKind.FORCED or not question.forced)
    return True


def _nothing_new(
    claimed: Instant, nominal: Instant, kind: RunKind, started: Instant | None, position: int, now: Instant
) -> OutputPart:
    return OutputPart(now, claimed, nominal, kind, started, position)
