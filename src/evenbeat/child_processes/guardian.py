"""A process that ends what worker processes run when their supervisor is gone, or cannot do it in time.

Workers see the end of their supervisor and end what they run. If all of them are killed at once, nobody is left to do
it: `pkill -9 -f evenbeat` is enough. So the command line of the guardian does not have that name in it, see `keeper`.
It is told which worker processes there are, each the leader of a session, and lives as long as the pipe through which
it hears of them. It costs nothing per run.
"""

import os
import select
import signal
import time
from typing import Final

from evenbeat.child_processes.process_table import SessionLeader, end_sessions

_POLL_MILLISECONDS: Final = 250
"""Milliseconds between two looks at the clock, which goes on while the machine sleeps, unlike a timer."""
_READ_SIZE: Final = 1 << 16
_KILL_TIMEOUT: Final = 10.0
"""Seconds for what was killed to end."""


def guardian_message(sign: bytes, worker: SessionLeader) -> bytes:
    """What the guardian hears of a worker: `+` it is there, `-` nothing of it is left. And `!TIME`: see `expect`."""
    return b"%b%d %d\n" % (sign, worker.pid, worker.started)


def _boot_time() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


def main() -> None:
    """Watch until the supervisor has gone, and end what it has left."""
    os.chdir("/")  # it keeps no file system in use
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    workers: dict[int, SessionLeader] = {}
    until = 0
    heard = b""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while True:
        if poll.poll(_POLL_MILLISECONDS if until else None):
            data = os.read(0, _READ_SIZE)
            if not data:
                break
            *lines, heard = (heard + data).split(b"\n")
            for said in lines:
                numbers = [int(word) for word in said[1:].split()]
                match said[:1]:
                    case b"+":
                        workers[numbers[0]] = SessionLeader(numbers[0], numbers[1])
                    case b"-":
                        workers.pop(numbers[0], None)
                    case b"!":
                        until = numbers[0]
        elif until and _boot_time() >= until:
            end_sessions(workers.values(), patience=_KILL_TIMEOUT)
            until = 0
    end_sessions(workers.values(), patience=_KILL_TIMEOUT)
