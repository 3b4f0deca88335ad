"""Refused requests and connections: each is counted for /metrics and logged, without any text of the request."""

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
"""Statuses that refuse a caller; other statuses mean an error in the request."""
BUSY_REASON: Final = "busy"
"""503: too many requests are being answered."""
CONNECTION_REASON: Final = "connection"
"""Closed because there were too many, and it was idle the longest."""
REASONS: Final = (*REASON_BY_STATUS.values(), BUSY_REASON, CONNECTION_REASON)
_log: Final = logging.getLogger("evenbeat.api")


class RefusalCounter:
    """Refusals since the api process started, by reason."""

    def __init__(self) -> None:
        self.counts: Final = Counter(dict.fromkeys(REASONS, 0))

    def note(self, reason: str, address: str, route: str = "", who: str = "") -> None:
        """Count and log a refusal; `route` is the pattern, as the path itself may contain names and tokens."""
        self.counts[reason] += 1
        fields = {"reason": reason, "address": address, "route": route, "who": who}
        # The log handler counts repeated lines instead of writing them: refused callers cannot fill the disk.
        _log.warning("refused", extra={"action": "refused", **{key: value for key, value in fields.items() if value}})
