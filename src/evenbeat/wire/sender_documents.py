"""What a node and its sender process say to each other, and the document that a message to a contact consists of.

A frame is its length in four bytes, then msgpack, as between a node and its workers. Durations are microseconds.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from evenbeat.model import SECOND
from evenbeat.wire.documents import StateWord, TimestampText
from evenbeat.wire.worker_frames import FrameSplitter

DELIVERY_TIMEOUT: Final = 30 * SECOND
"""Time for one delivery: finding the address, connecting, sending, and the answer."""
ITEM_LIMIT: Final = 10_000
"""Most items of a message; `more` counts the others."""
TOLD_LIMIT: Final = 20
"""Most names in `told` of an item."""
RESULT_TEXT_LIMIT: Final = 1_000
"""Most characters of `error` and of `detail` of a DeliveryEnd."""
MAX_DELIVERY_FRAME: Final = 64 << 20
MAX_DOCUMENT_SIZE: Final = MAX_DELIVERY_FRAME - (8 << 20)
"""Bytes of a document; the rest of an order may be a command of many words."""
_LENGTH: Final = 4
_words_decoder: Final = msgspec.json.Decoder(tuple[str, ...])


class MessageItem(Struct):
    """What a message says about one problem."""

    kind: Literal["problem", "recovery", "acknowledged"]
    reminder: bool
    task: str
    """Of a problem of the node itself: the name of the node's problem, and `cause` is "node"."""
    cause: str
    state: StateWord
    """The present one; of a recovery the worst that the problem has had."""
    flapping: bool
    problem: int
    """The id of the problem."""
    since: TimestampText
    """When the problem opened."""
    output: str
    """Of the latest result."""
    labels: dict[str, str]
    reason: str
    """Why it closed, if not by a result: removed, changed, superseded."""
    told: list[str] = []
    """Other contacts that were sent this problem, at most TOLD_LIMIT."""
    acknowledge: str = ""
    """The command that acknowledges it; "" if there is nothing to acknowledge."""
    closed: TimestampText | None = None
    """Of a recovery: when."""
    who: str = ""
    """Who acknowledged it ..."""
    comment: str = ""
    """... and what they said."""


class MessageDocument(Struct):
    """A message to one channel of a contact: the JSON that a webhook gets, and what all texts are made of."""

    message: int
    """Its id: the same for each repetition."""
    contact: str
    possible_repetition: bool
    """A delivery of it was started before, and how that ended is not known."""
    items: list[MessageItem]
    more: int = 0
    """Items that are left out."""
    link: str = ""
    """The page with all problems; "" if the node does not know its address."""
    test: bool = False
    """Somebody asked for it with `evenbeat contacts test`: it has no items."""
    created: TimestampText | None = None
    """When the message was put together."""


class DeliveryOrder(Struct, frozen=True):
    """Node to sender: deliver this message through this channel, once. The node repeats it if that fails.

    The values of URLs and secrets may be references (env:NAME, file:PATH): the sender resolves them.
    """

    message: int
    channel: str
    """The key of the channel; the sender delivers one message at a time to each."""
    contact: str
    kind: Literal["send", "webhook", "command", "email"]
    document: bytes
    """A MessageDocument as JSON."""
    place: str
    """As in `core.channels`: a URL or a reference; of a command its words, of email its addresses, as a JSON list."""
    secret: str | None = None
    """Signs the webhook."""
    smtp: str = "smtp://localhost:25"
    """The mail server, for email and for URLs that begin with mailto:."""
    sender: str | None = None
    """The From of a mail."""
    possible_repetition: bool = False
    """Set in the document that is delivered."""
    timeout: int = DELIVERY_TIMEOUT

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a command, or the addresses of email."""
        return _words_decoder.decode(self.place)


Refusal = Literal["", "for good", "too large"]


class DeliveryEnd(Struct, frozen=True, tag="end"):
    """Sender to node: a delivery has ended."""

    message: int
    channel: str
    is_delivered: bool
    error: str = ""
    """Why it was not delivered, for people, without secrets; of a delivered mail, which addresses were refused."""
    detail: str = ""
    """What the receiver answered, such as "HTTP 200 OK"."""
    lasted: int = 0
    may_have_arrived: bool = False
    """Not delivered as far as we know, but the receiver may have it: the next attempt is a possible repetition."""
    refusal: Refusal = ""
    """Not delivered, and the receiver would refuse this message again, whenever it is repeated; or any so large."""


class SenderReady(Struct, frozen=True, tag="ready"):
    """Sender to node: ready for orders."""

    pid: int


FrameFromSender = DeliveryEnd | SenderReady

message_decoder: Final = msgspec.json.Decoder(MessageDocument)
order_decoder: Final = msgspec.msgpack.Decoder(DeliveryOrder)
sender_frame_decoder: Final = msgspec.msgpack.Decoder(FrameFromSender)
_encoder: Final = msgspec.msgpack.Encoder()


def encode_delivery_frame(message: DeliveryOrder | FrameFromSender) -> bytes:
    """A whole frame."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH, "big") + body


def delivery_frames() -> FrameSplitter:
    """Splits what arrives from the other side into frames."""
    return FrameSplitter(MAX_DELIVERY_FRAME)
