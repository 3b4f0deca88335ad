"""A worker's estimate of the cluster's clock, from the times in the answers of nodes."""

from collections import deque
from typing import Final

_SAMPLES: Final = 8


class ClusterClock:
    """`offset`: how far the cluster's clock is ahead of the boot-time clock of this machine."""

    def __init__(self, guess: int) -> None:
        self.offset = guess
        self.is_known = False
        self._samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES)

    def learn(self, sent: int, told: int, now: int) -> None:
        """A request was `sent` and answered `now`, both by the clock here; in between it was `told` by the cluster's
        clock.

        The quickest of the last answers gives the best estimate.
        """
        if now < sent:
            return
        self._samples.append((now - sent, told - (sent + now) // 2))
        self.offset = min(self._samples)[1]
        self.is_known = True
