"""Messages and orders for tests of the sender, with what they do not care about filled in."""

from typing import Any

import msgspec

from evenbeat.core.channels import Channel, channels_of
from evenbeat.model import SECOND, Contact
from evenbeat.wire.sender_documents import DeliveryOrder, MessageDocument, MessageItem

LINK = "https://monitor.example.org/#problems"


def item(task: str = "web1/http", **fields: Any) -> MessageItem:
    """An item about a check that is CRITICAL."""
    known: dict[str, Any] = {
        "kind": "problem",
        "reminder": False,
        "task": task,
        "cause": "state",
        "state": "critical",
        "flapping": False,
        "problem": 7,
        "since": "2026-11-19T00:41:02.500000+00:00",
        "output": "HTTP CRITICAL - connection refused|time=0.01s\nsecond line",
        "labels": {},
        "reason": "",
    }
    return MessageItem(**(known | fields))


def document(*items: MessageItem, **fields: Any) -> MessageDocument:
    """A message to the contact ops; without items, about one check."""
    known: dict[str, Any] = {
        "message": 12,
        "contact": "ops",
        "possible_repetition": False,
        "items": list(items) if items or fields.get("test") else [item()],
        "link": LINK,
        "created": "2026-11-19T02:46:00+00:00",
    }
    return MessageDocument(**(known | fields))


def order(
    contact: Contact, message: MessageDocument | None = None, *, seconds: float = 30, **fields: Any
) -> DeliveryOrder:
    """The order to deliver a message through the first channel of a contact."""
    message = document() if message is None else message
    channel = channels_of(message.contact, contact)[0]
    return channel_order(channel, contact, message, seconds=seconds, **fields)


def channel_order(
    channel: Channel, contact: Contact, message: MessageDocument, *, seconds: float = 30, **fields: Any
) -> DeliveryOrder:
    known: dict[str, Any] = {
        "message": message.message,
        "channel": channel.key,
        "contact": channel.contact,
        "kind": channel.kind,
        "document": msgspec.json.encode(message),
        "place": channel.place,
        "secret": contact.secret,
        "smtp": contact.smtp,
        "sender": contact.sender,
        "timeout": int(seconds * SECOND),
    }
    return DeliveryOrder(**(known | fields))
