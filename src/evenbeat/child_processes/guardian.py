"""The guardian process: ends the runs of worker processes when their supervisor is gone, or cannot do it in time.

Workers notice the end of their supervisor and end their runs. If all of them are killed at once, for example by
`pkill -9 -f evenbeat`, no worker is left to do that. So the command line of the guardian does not contain that name,
see `cleanup`. Its supervisor sends it the worker processes, each the leader of a session, through a pipe; it lives as
long as that pipe is open. It costs nothing per run.
"""

import os
import select
import signal
from typing import Final

from evenbeat.child_processes.process_table import SessionLeader, end_sessions
from evenbeat.clock.system_clock import boot_time

_POLL_MILLISECONDS: Final = 250
"""Milliseconds between two readings of the boot-time clock, which goes on while the machine sleeps, unlike a timer."""
_READ_SIZE: Final = 1 << 16
_KILL_TIMEOUT: Final = 10.0
"""Seconds for what was killed to end."""


def guardian_message(sign: bytes, worker: SessionLeader) -> bytes:
    """A line for the guardian. `+`: this worker exists; `-`: nothing of it is left. `!TIME`: a deadline, 0 for none."""
    return b"%b%d %d\n" % (sign, worker.pid, worker.started)


def main() -> None:
    """Wait until the supervisor has ended, and kill everything in the sessions of its workers."""
    os.chdir("/")  # it keeps no file system in use
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    workers: dict[int, SessionLeader] = {}
    deadline = 0
    received = b""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while True:
        if poll.poll(_POLL_MILLISECONDS if deadline else None):
            data = os.read(0, _READ_SIZE)
            if not data:
                break
            *lines, received = (received + data).split(b"\n")
            for line in lines:
                numbers = [int(word) for word in line[1:].split()]
                match line[:1]:
                    case b"+":
                        workers[numbers[0]] = SessionLeader(numbers[0], numbers[1])
                    case b"-":
                        workers.pop(numbers[0], None)
                    case b"!":
                        deadline = numbers[0]
        elif deadline and boot_time() >= deadline:
            end_sessions(workers.values(), patience=_KILL_TIMEOUT)
            deadline = 0
    end_sessions(workers.values(), patience=_KILL_TIMEOUT)
