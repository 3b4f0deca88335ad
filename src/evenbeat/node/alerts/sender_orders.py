"""Makes the orders by which the sender delivers messages."""

from evenbeat.core.channels import Channel
from evenbeat.model import Contact
from evenbeat.wire.sender_documents import DeliveryOrder


def order_of(
    message: int, channel: Channel, contact: Contact, document: bytes, *, possible_repetition: bool = False
) -> DeliveryOrder:
    """Deliver this message through this channel, once."""
    return DeliveryOrder(
        message=message,
        channel=channel.key,
        contact=channel.contact,
        kind=channel.kind,
        document=document,
        place=channel.place,
        secret=contact.secret,
        smtp=contact.smtp,
        sender=contact.sender,
        possible_repetition=possible_repetition,
    )
