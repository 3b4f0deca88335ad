"""File descriptors: raise the limit to what the system allows, and keep some in reserve.

A node that has run out of descriptors must still be able to end what a dead worker has left, and to replace it.
"""

import os
import resource
from contextlib import suppress
from types import TracebackType
from typing import Final

_RESERVED_DESCRIPTORS: Final = 16
"""Starting a worker process takes eight, a running one holds three, and listing processes takes one."""
_original_limits: tuple[int, int] | None = None
"""The limits that this process was started with; None as long as they were not raised."""


def raise_descriptor_limit() -> None:
    """Raise our limit to what the system allows. Workers and their runs get the limits that we were started with."""
    global _original_limits  # noqa: PLW0603 - limits are of the process
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    _original_limits = _original_limits or limits
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))


def restore_raised_limit() -> None:
    """Raise the limit again if it was raised before: another process may have lowered it since."""
    if _original_limits is not None:
        raise_descriptor_limit()


def restore_original_limit(process: int) -> None:
    """Give a child the limits that we were started with.

    Programs that close every possible descriptor would be slow with a high limit, and some use `select`.
    """
    if _original_limits is not None:
        with suppress(OSError):
            resource.prlimit(process, resource.RLIMIT_NOFILE, _original_limits)


class DescriptorReserve:
    """Descriptors that are held open for no other purpose than to be free inside `with`."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._hold()

    def __enter__(self) -> None:
        self.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hold()

    def close(self) -> None:
        """Release all of them."""
        while self._held:
            os.close(self._held.pop())

    def _hold(self) -> None:
        with suppress(OSError):  # what is missing now is taken the next time
            while len(self._held) < _RESERVED_DESCRIPTORS:
                self._held.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
