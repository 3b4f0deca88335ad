"""A rate limit: a token bucket for each key, of a given size, refilled at a given rate."""

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import Final

_MAX_BUCKETS: Final = 10_000
"""Buckets that are remembered; the least recently used is dropped first."""


class RateLimiter:
    """One bucket for each key, initially full."""

    def __init__(self, size: float, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._per_second = per_second
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take_token(self, key: str) -> int:
        """Take one token and return 0; if there is none, return the whole seconds until there is one."""
        now = self._now()
        left = self._left(key, now)
        if left < 1:
            return max(1, ceil((1 - left) / self._per_second))
        self._put(key, left - 1, now)
        return 0

    def give_back(self, key: str) -> None:
        """Put a token back that was not used after all."""
        now = self._now()
        self._put(key, min(self._left(key, now) + 1, self._size), now)

    def _left(self, key: str, now: float) -> float:
        left, at = self._buckets.get(key, (self._size, now))
        return min(self._size, left + (now - at) * self._per_second)

    def _put(self, key: str, left: float, now: float) -> None:
        self._buckets[key] = left, now
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)


def client_network(host: str) -> str:
    """The key of a client: its address, or for IPv6 the 64-bit network that one client has to itself."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Address(int(address) >> 64 << 64))
    return host
