"""How much is tried at random: a part in `make test`, everything in `make properties` and `make faults`."""

import os
from typing import Final

IS_FULL: Final = os.environ.get("EVENBEAT_FAULTS") == "full"


def examples(full: int) -> int:
    """Of this many random examples, how many to try: a quarter unless the budget is full."""
    return full if IS_FULL else max(3, full // 4)
