"""What the nodes of a cluster tell each other of what happens, as long as anybody watches one of them."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.wire.events import Event
from evenbeat.wire.live_runs import RunningRun, RunningRuns

ANNOUNCE_INTERVAL: Final = 5.0
"""Seconds after which a node that is watched says so again ..."""
WATCHED_FOR: Final = 15.0
"""... and for which it is believed."""
_COUNT_VALID_FOR: Final = 2.5
"""Seconds for which a node's count of the last second is true enough."""
_EVENTS_PER_MESSAGE: Final = 100
"""Events of one message: it stays below what a server takes, however long names and outputs are."""
_MAX_EVENTS: Final = 1_000
"""Told to others at one time; of what is more, only how much it is."""
_MAX_RUNS: Final = 500
"""Of one node, in an answer to what runs."""
_ANSWER_TIMEOUT: Final = 0.5
"""Seconds in which nodes say what runs there."""
_log: Final = logging.getLogger("evenbeat.cluster")


class NodeIsWatched(Struct, tag="watching"):
    """Somebody watches this node, and wants to know of all."""

    node: str


class EventsOfNode(Struct, tag="happened"):
    """At this node."""

    node: str
    events: list[Event] = []
    left_out: int = 0
    """Events that are not told."""
    started: int | None = None
    """Runs that were started in the last second; told once a second."""


class RunningQuestion(Struct, tag="what runs"):
    """This node asks all others."""

    node: str
    question: int
    most: int


class RunningAnswer(Struct, tag="runs"):
    """The answer to it."""

    node: str
    to: str
    question: int
    running: RunningRuns


_decoder: Final = msgspec.json.Decoder(NodeIsWatched | EventsOfNode | RunningQuestion | RunningAnswer)


class EventRelay:
    """Of one node. While nobody watches anywhere, nothing is sent."""

    def __init__(
        self,
        me: str,
        send: Callable[[bytes], bool],
        running: Callable[[int], RunningRuns],
        time: Callable[[], float],
    ) -> None:
        """`send` tells all nodes, ourselves among them; `running` says what runs here."""
        self._me = me
        self._send = send
        self._running = running
        self._time = time
        self.on_events: Callable[[Sequence[Event], int], None] | None = None
        """Told what happened at other nodes, and how much more."""
        self._watched_until = float("-inf")
        self._announced = float("-inf")
        self._started: dict[str, tuple[int, float]] = {}
        """What each of the others has told of its last second, and when."""
        self._question = 0
        self._answers: list[RunningRuns] = []
        self._has_answer = asyncio.Event()
        self._asking = asyncio.Lock()

    @property
    def is_watched(self) -> bool:
        """Does anybody watch another node?"""
        return self._time() < self._watched_until

    # Telling

    def announce(self) -> None:
        """Somebody watches this node."""
        if self._time() - self._announced >= ANNOUNCE_INTERVAL:
            self._announced = self._time()
            self._tell(NodeIsWatched(self._me))

    def tell(self, events: Sequence[Event], left_out: int) -> None:
        """What has happened here."""
        if not self.is_watched:
            return
        told = events[:_MAX_EVENTS]
        left_out += len(events) - len(told)
        for at in range(0, len(told), _EVENTS_PER_MESSAGE):
            self._tell(EventsOfNode(self._me, list(told[at : at + _EVENTS_PER_MESSAGE])))
        if left_out:
            self._tell(EventsOfNode(self._me, left_out=left_out))

    def tell_started(self, count: int) -> None:
        """So many runs in the last second."""
        if self.is_watched:
            self._tell(EventsOfNode(self._me, started=count))

    def started_elsewhere(self) -> int:
        """Runs of the last second at all other nodes, as far as they told."""
        now = self._time()
        self._started = {node: told for node, told in self._started.items() if now - told[1] < _COUNT_VALID_FOR}
        return sum(count for count, _ in self._started.values())

    async def all_running(self, most: int, others: int) -> RunningRuns:
        """What runs here and at so many other nodes; whoever does not answer in time is left out."""
        async with self._asking:
            self._question += 1
            self._answers = []
            if others and self._tell(RunningQuestion(self._me, self._question, min(most, _MAX_RUNS))):
                try:
                    async with asyncio.timeout(_ANSWER_TIMEOUT):
                        while len(self._answers) < others:
                            self._has_answer.clear()
                            await self._has_answer.wait()
                except TimeoutError:
                    _log.debug("not all nodes have told what runs there", extra={"action": "node_silent"})
            found = [self._running(most), *self._answers]
        runs = nsmallest(most, (run for running in found for run in running.runs), key=_running_since)
        return RunningRuns(runs, sum(running.total for running in found))

    def _tell(self, word: NodeIsWatched | EventsOfNode | RunningQuestion | RunningAnswer) -> bool:
        return self._send(msgspec.json.encode(word))

    # Hearing

    def hear(self, data: bytes) -> None:
        """What a node has told."""
        try:
            word = _decoder.decode(data)
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
                self._tell(RunningAnswer(self._me, node, question, self._running(max(0, min(most, _MAX_RUNS)))))
            case RunningAnswer(_, to, question, running):
                if to == self._me and question == self._question:
                    self._answers.append(running)
                    self._has_answer.set()


def _running_since(run: RunningRun) -> int:
    return run.claimed if run.started is None else run.started
