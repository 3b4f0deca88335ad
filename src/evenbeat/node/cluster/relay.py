"""The event relay of a cluster: while a client watches one node, all nodes send it their events."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Final

import msgspec

from evenbeat.wire.events import Event
from evenbeat.wire.live_runs import RunningRun, RunningRuns
from evenbeat.wire.node_messages import (
    EventsOfNode,
    NodeIsWatched,
    NodeMessage,
    RunningAnswer,
    RunningQuestion,
    node_message_decoder,
)

ANNOUNCE_INTERVAL: Final = 5.0
"""Seconds after which a watched node announces itself again ..."""
WATCHED_FOR: Final = 15.0
"""... and for which other nodes regard it as watched."""
_COUNT_VALID_FOR: Final = 2.5
"""Seconds for which a node's count of the last second is used."""
_EVENTS_PER_MESSAGE: Final = 100
"""Events in one message: it stays below the limit of the server, however long names and outputs are."""
_MAX_EVENTS: Final = 1_000
"""Events that are sent at one time; of more only the number is sent."""
_MAX_RUNS: Final = 500
"""Running runs in the answer of one node."""
_ANSWER_TIMEOUT: Final = 0.5
"""Seconds in which nodes have to answer what runs there."""
_log: Final = logging.getLogger("evenbeat.cluster")


class EventRelay:
    """Exchanges events with the other nodes. While no client watches any node, nothing is sent."""

    def __init__(
        self,
        me: str,
        send: Callable[[bytes], bool],
        running: Callable[[int], RunningRuns],
        time: Callable[[], float],
    ) -> None:
        """`send` reaches all nodes, this one too; `running` gives the runs of this node."""
        self._me = me
        self._send = send
        self._running = running
        self._time = time
        self.on_events: Callable[[Sequence[Event], int], None] | None = None
        """Called with events of other nodes, and the number of those left out."""
        self._watched_until = float("-inf")
        self._announced = float("-inf")
        self._started: dict[str, tuple[int, float]] = {}
        """The number of runs that each other node started in its last second, and when it said so."""
        self._question = 0
        self._answers: list[RunningRuns] = []
        self._has_answer = asyncio.Event()
        self._asking = asyncio.Lock()

    @property
    def is_watched(self) -> bool:
        """Does a client watch another node?"""
        return self._time() < self._watched_until

    # Sending

    def announce(self) -> None:
        """A client watches this node: ask the others for their events."""
        if self._time() - self._announced >= ANNOUNCE_INTERVAL:
            self._announced = self._time()
            self._send_message(NodeIsWatched(self._me))

    def send_events(self, events: Sequence[Event], left_out: int) -> None:
        """Send what has happened here, if a client watches another node."""
        if not self.is_watched:
            return
        sent = events[:_MAX_EVENTS]
        left_out += len(events) - len(sent)
        for at in range(0, len(sent), _EVENTS_PER_MESSAGE):
            self._send_message(EventsOfNode(self._me, list(sent[at : at + _EVENTS_PER_MESSAGE])))
        if left_out:
            self._send_message(EventsOfNode(self._me, left_out=left_out))

    def send_started(self, count: int) -> None:
        """Send the number of runs that were started here in the last second."""
        if self.is_watched:
            self._send_message(EventsOfNode(self._me, started=count))

    def started_elsewhere(self) -> int:
        """Runs that the other nodes started in the last second, as far as they have said."""
        now = self._time()
        self._started = {node: told for node, told in self._started.items() if now - told[1] < _COUNT_VALID_FOR}
        return sum(count for count, _ in self._started.values())

    async def all_running(self, most: int, others: int) -> RunningRuns:
        """The runs of this node and of so many others; a node that does not answer in time is left out."""
        async with self._asking:
            self._question += 1
            self._answers = []
            if others and self._send_message(RunningQuestion(self._me, self._question, min(most, _MAX_RUNS))):
                try:
                    async with asyncio.timeout(_ANSWER_TIMEOUT):
                        while len(self._answers) < others:
                            self._has_answer.clear()
                            await self._has_answer.wait()
                except TimeoutError:
                    _log.debug("not all nodes have answered what runs there", extra={"action": "node_silent"})
            found = [self._running(most), *self._answers]
        runs = nsmallest(most, (run for running in found for run in running.runs), key=_running_since)
        return RunningRuns(runs, sum(running.total for running in found))

    def _send_message(self, word: NodeMessage) -> bool:
        return self._send(msgspec.json.encode(word))

    # Receiving

    def receive(self, data: bytes) -> None:
        """A message of a node has arrived."""
        try:
            word = node_message_decoder.decode(data)
        except msgspec.DecodeError:  # of a node of another version; it can be done without
            return
        if word.node == self._me:
            return
        match word:
            case NodeIsWatched():
                self._watched_until = self._time() + WATCHED_FOR
            case EventsOfNode(node, events, left_out, started):
                if started is not None:
                    self._started[node] = (started, self._time())
                if (events or left_out) and self.on_events is not None:
                    self.on_events(events, left_out)
            case RunningQuestion(node, question, most):
                self._send_message(RunningAnswer(self._me, node, question, self._running(max(0, min(most, _MAX_RUNS)))))
            case RunningAnswer(_, to, question, running):
                if to == self._me and question == self._question:
                    self._answers.append(running)
                    self._has_answer.set()


def _running_since(run: RunningRun) -> int:
    return run.claimed if run.started is None else run.started
