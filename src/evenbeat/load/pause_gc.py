"""Do without the collector of cycles for a while: among many new things that all stay it finds none, and looks long."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Nothing of what is read is a cycle, and looking for some costs a third of the time of a large file."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
