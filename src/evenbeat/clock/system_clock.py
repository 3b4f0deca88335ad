"""The clocks of this machine: one that people and NTP set, and one that nobody sets."""

import time


def boot_time() -> int:
    """Microseconds since the machine was started, time asleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


def wall_time() -> int:
    """Microseconds since 1970, by the clock that can be set."""
    return time.time_ns() // 1_000
