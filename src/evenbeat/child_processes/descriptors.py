"""Descriptors: as many as the system lets this process have, and some kept back for what must always work.

A node that is out of descriptors must still be able to end what a dead worker has left behind, and to replace it.
"""

import os
import resource
from contextlib import suppress
from types import TracebackType
from typing import Final

_RESERVED_DESCRIPTORS: Final = 16
"""A worker process takes eight to be started, and three while it lives; listing processes takes one."""
_original_limits: tuple[int, int] | None = None
"""The limits that this process was started with, before they were raised first."""


def raise_descriptor_limit() -> None:
    """To what the system allows. Workers, and what they run, get the limits that we were started with."""
    global _original_limits  # noqa: PLW0603 - limits are of the process
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    _original_limits = _original_limits or limits
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))


def restore_raised_limit() -> None:
    """If it was raised at all: somebody may have lowered it since."""
    if _original_limits is not None:
        raise_descriptor_limit()


def restore_original_limit(process: int) -> None:
    """Programs that close every descriptor they could have would be slow with a high limit, and some use `select`."""
    if _original_limits is not None:
        with suppress(OSError):
            resource.prlimit(process, resource.RLIMIT_NOFILE, _original_limits)


class DescriptorReserve:
    """Descriptors that are held for nothing, and free inside `with`."""

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
        """Hold none any more."""
        while self._held:
            os.close(self._held.pop())

    def _hold(self) -> None:
        with suppress(OSError):  # those that are not there now are taken the next time
            while len(self._held) < _RESERVED_DESCRIPTORS:
                self._held.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
