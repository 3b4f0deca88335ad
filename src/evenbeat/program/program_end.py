"""What is done when the program ends: in the main thread, while thread pools still accept work.

Once the last line of a program has run, Python closes every thread pool and only then waits for its threads. A node
that noticed by itself that the main thread has ended would be too late: its loop can hand nothing to a thread.
"""

import concurrent.futures.thread  # noqa: F401 - what it registers for the end of the program is to come after ours
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_ends: Final[dict[object, Callable[[], None]]] = {}
_registering: Final = threading.Lock()
_is_registered = False


@contextmanager
def at_program_end(end: Callable[[], None]) -> Iterator[None]:
    """Within this block, `end` is called when the program ends; it may wait until this block is left."""
    global _is_registered  # noqa: PLW0603 - once per process
    with _registering:
        if not _is_registered:
            # The last registered is called first. `atexit` is too late: it comes after the threads have ended.
            os.register_at_fork(after_in_child=_ends.clear)  # the threads of these blocks are not in the child
            threading._register_atexit(_end_all)  # type: ignore[attr-defined]
            _is_registered = True
    key = object()
    _ends[key] = end
    try:
        yield
    finally:
        _ends.pop(key, None)


def _end_all() -> None:
    while _ends:
        for end in list(_ends.values()):
            end()
