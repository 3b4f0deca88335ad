"""What `python program.py` shows on its terminal: how runs end, and where the page is."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from evenbeat.client.sign_in_text import sign_in_text
from evenbeat.node.process.log_format import CondensingHandler
from evenbeat.node.scheduler import Scheduler

_FORMAT: Final = "%(asctime)s %(levelname)-7s %(message)s"
_log: Final = logging.getLogger("evenbeat.node")


@contextmanager
def log_to_terminal() -> Iterator[None]:
    """Write log records to stderr, unless the program says itself where they go."""
    logger = logging.getLogger("evenbeat")
    if logger.hasHandlers():
        yield
        return
    handler, level = CondensingHandler(), logger.level
    handler.setFormatter(logging.Formatter(_FORMAT, "%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


def log_ready(node: Scheduler, who: str) -> None:
    """Say that the node is up. A link to sign in is shown to a person at a terminal, and never logged."""
    count = node.status().tasks
    where = f"; the page is {node.page}" if node.page else ""
    _log.info("ready, %d task%s%s", count, "" if count == 1 else "s", where, extra={"action": "ready"})
    if node.page and sys.stderr.isatty():
        sys.stderr.write(sign_in_text(node, node.database, node.page, who) + "\n")
