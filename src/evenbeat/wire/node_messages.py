"""Messages between the nodes of a cluster: events for watchers at other nodes, and questions about running runs."""

from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.wire.events import Event
from evenbeat.wire.live_runs import RunningRuns


class NodeIsWatched(Struct, tag="watching"):
    """A client watches the events of this node, and should get those of all nodes."""

    node: str


class EventsOfNode(Struct, tag="happened"):
    """What has happened at this node."""

    node: str
    events: list[Event] = []
    left_out: int = 0
    """Events that are not sent."""
    started: int | None = None
    """Runs that were started in the last second; sent once a second."""


class RunningQuestion(Struct, tag="what runs"):
    """This node asks all others which runs are running there."""

    node: str
    question: int
    most: int


class RunningAnswer(Struct, tag="runs"):
    """The answer of `node` to a question."""

    node: str
    to: str
    question: int
    running: RunningRuns


NodeMessage = NodeIsWatched | EventsOfNode | RunningQuestion | RunningAnswer
node_message_decoder: Final = msgspec.json.Decoder(NodeMessage)
