"""Pauses the cyclic garbage collector: among many new objects that all stay alive, it searches long for nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 50_000
"""New objects: to search them stops the process for some 20 ms."""


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause it while reading: files produce no cycles, and for a large one the search takes a third of the time.

    After a large one what is there is never searched again: otherwise the first search would begin at once, and stop a
    live node for a tenth of a second per 30,000 tasks. Objects outside of cycles are freed all the same.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > _MANY:
                gc.freeze()
            gc.enable()
