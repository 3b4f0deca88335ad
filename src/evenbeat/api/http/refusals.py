"""Requests and connections that are refused: each is counted for /metrics and logged, and none of their texts is."""

import logging
from collections import Counter
from typing import Final

REASON_BY_STATUS: Final = {
    401: "unauthenticated",
    403: "forbidden",
    408: "slow",
    413: "too-large",
    429: "too-many",
}
"""Answers that refuse somebody; others say that something is wrong with what was asked."""
BUSY_REASON: Final = "busy"
"""503: too many requests are being answered."""
CONNECTION_REASON: Final = "connection"
"""Closed, as there were too many and it was waited for the longest."""
REASONS: Final = (*REASON_BY_STATUS.values(), BUSY_REASON, CONNECTION_REASON)
_log: Final = logging.getLogger("evenbeat.api")


class RefusalCounter:
    """How many there were since the api process was started, by reason."""

    def __init__(self) -> None:
        self.counts: Final = Counter(dict.fromkeys(REASONS, 0))

    def note(self, reason: str, address: str, route: str = "", who: str = "") -> None:
        """Count one and log it; `route` is a pattern of ours, as paths have names and tokens of others in them."""
        self.counts[reason] += 1
        fields = {"reason": reason, "address": address, "route": route, "who": who}
        # A repeated line is counted by the handler, not written: whoever is refused cannot fill the disk.
        _log.warning("refused", extra={"action": "refused", **{key: value for key, value in fields.items() if value}})
