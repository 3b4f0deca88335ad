"""How much of each kind of work the contenders get."""

from typing import Final, NamedTuple


class Sizes(NamedTuple):
    """Checks, functions, intervals and seconds of every measure."""

    seconds: int = 15
    """Of each measurement at a rate; what comes before it is warm-up."""
    warm_up: int = 12
    overload_checks: int = 10_000
    """Each of them every second."""
    overload_functions: int = 100_000
    """Each of them every second."""
    offered_checks: int = 5_000
    offered_functions: int = 2_000
    offered_every: int = 10
    spread_checks: int = 3_000
    spread_every: int = 30
    start_checks: int = 100_000
    start_every: int = 600
    start_most_seconds: int = 300
    settle_seconds: int = 15
    """From the first run until memory is looked at."""


NORMAL: Final = Sizes()
