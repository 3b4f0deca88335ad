"""The clock of a cluster as a worker learns it: nodes say what time it is, in answers that take their time."""

from collections import deque
from typing import Final

_SAMPLES: Final = 8


class ClusterClock:
    """How far the cluster's clock is ahead of the boot-time clock here."""

    def __init__(self, guess: int) -> None:
        self.offset = guess
        self.is_known = False
        self._samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES)

    def learn(self, sent: int, told: int, now: int) -> None:
        """We asked when it was `sent` here, and heard `now` that it was `told`: somewhere between the two.

        The quickest of the last answers is the best.
        """
        if now < sent:
            return
        self._samples.append((now - sent, told - (sent + now) // 2))
        self.offset = min(self._samples)[1]
        self.is_known = True
