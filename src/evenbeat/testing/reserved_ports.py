"""Ports for servers that are started, killed and started again: no other program is given one of them in between."""

import os
import random
import socket
import weakref
from contextlib import suppress
from typing import Final

_LOCALHOST: Final = "127.0.0.1"
_LOWEST: Final = 10_000
_HIGHEST: Final = 32_767
"""Linux takes ports from 32,768 on for connections and for servers that ask for any port, other systems from 49,152."""


class ReservedPort:
    """A TCP port of this machine that nothing listens on, reserved for as long as this object lives.

    The reservation is a UDP socket on the same number: TCP does not see it, and another process that looks for a port
    does. The system closes it with the process.
    """

    def __init__(self) -> None:
        numbers = range(_LOWEST, _HIGHEST + 1)
        for number in random.sample(numbers, len(numbers)):  # so that two processes rarely try the same ones
            with suppress(OSError):
                self._reserve(number)
                return
        raise RuntimeError(f"no port from {_LOWEST} to {_HIGHEST} is free")

    def _reserve(self, number: int) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as reservation:
            reservation.bind((_LOCALHOST, number))
            socket.create_server((_LOCALHOST, number)).close()
            weakref.finalize(self, os.close, reservation.detach())
        self.number = number
