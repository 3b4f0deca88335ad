"""Deliver a message to one of the services that apprise knows, by its URL. Mails to mailto:ADDRESS need no apprise."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from evenbeat.core.channels import shown_url
from evenbeat.sender.attempt import Attempt, NotDelivered
from evenbeat.sender.mail import deliver_to_mailto
from evenbeat.sender.text import subject_of, text_of, worst_item
from evenbeat.wire.sender_documents import MessageDocument

_INSTALL: Final = "this needs apprise, which is not installed: pip install 'evenbeat[notify]', then restart the node"
_LIBRARIES: Final = ("apprise", "requests", "urllib3")
_NOWHERE: Final = logging.NullHandler()
_MOST_WORDS: Final = 3
"""Messages of apprise that are kept of one attempt: the last ones."""


def deliver_by_apprise(attempt: Attempt) -> tuple[str, str]:
    """Deliver it to the URL; raise NotDelivered. Return what there is to say about it, and an empty problem."""
    place = attempt.order.place
    url = attempt.resolve(place, "send")
    if url.startswith("mailto:") and not url.startswith("mailto://"):
        return deliver_to_mailto(attempt, url)
    try:
        import apprise  # noqa: PLC0415 - optional, and only this process needs it
    except ImportError:
        raise NotDelivered(f"{shown_url(place)}: {_INSTALL}") from None
    with _own_messages() as said:
        # Without a time limit of its own apprise works in this thread, not in a pool that hanging services would fill.
        asset = apprise.AppriseAsset(
            app_id="evenbeat", app_desc="evenbeat", secure_logging=True, async_mode=False, service_timeout=0
        )
        service = apprise.Apprise(asset=asset)
        if not service.add(url):
            problem = "apprise does not know such a URL, or a part of it is missing"
            raise NotDelivered(f"{shown_url(place)}: {problem}", detail=attempt.quote("; ".join(said)))
        document = attempt.document()
        attempt.waits_for = shown_url(place)
        attempt.remaining()
        attempt.has_left = True
        is_delivered = service.notify(
            title=subject_of(document),
            body=text_of(document),
            body_format=apprise.NotifyFormat.TEXT,
            notify_type=_type(document),
        )
    if not is_delivered:
        # Apprise tells a service that refused from one that did not answer only in words.
        problem = f"{shown_url(place)}: apprise could not deliver it"
        raise NotDelivered(problem, may_have_arrived=True, detail=attempt.quote("; ".join(said)))
    return "apprise delivered it", ""


def _type(document: MessageDocument) -> str:
    """What services show as a colour or a sign."""
    if not document.items:
        return "info"
    item = worst_item(document.items)
    if item.kind == "recovery":
        return "success"
    if item.kind == "acknowledged":
        return "info"
    return "failure" if item.state == "critical" else "warning"


class _Messages(logging.Handler):
    """Keeps what apprise says in one thread: other threads deliver to others at the same time."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.said.append(record.getMessage())
            del self.said[:-_MOST_WORDS]


@contextmanager
def _own_messages() -> Iterator[list[str]]:
    """What apprise says while this thread delivers. Nothing of it gets into the log of the node."""
    for name in _LIBRARIES:
        logging.getLogger(name).propagate = False
        logging.getLogger(name).addHandler(_NOWHERE)  # or Python writes warnings to standard error
    logger = logging.getLogger(_LIBRARIES[0])
    handler = _Messages()
    logger.addHandler(handler)
    try:
        yield handler.said
    finally:
        logger.removeHandler(handler)
