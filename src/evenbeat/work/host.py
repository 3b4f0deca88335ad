"""The function host: `python -m evenbeat.work.host DESCRIPTOR LIFELINE sync|async`. It imports the user's modules.

A sync host calls one function at a time and reports its result before it starts the next, so that the node knows which
run is to blame if the host has to be killed. An async host executes all of its runs at the same time.
"""

import fcntl
import os
import signal
import sys
from contextlib import suppress

from evenbeat.work.async_host import AsyncHost
from evenbeat.work.functions import add_function_folder, capture_logging, capture_output
from evenbeat.work.host_environment import RefusingHost, enter_host_environment
from evenbeat.work.node_socket import NodeConnection
from evenbeat.work.sync_host import SyncHost


def _kill_group_when_node_ends(lifeline: int) -> None:
    # The node holds the other end of this pipe. When that closes, the kernel kills our whole process group: this works
    # even while a function keeps the interpreter busy, and ends what it has started.
    os.set_inheritable(lifeline, False)  # noqa: FBT003
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        if not os.read(lifeline, 1):
            os._exit(0)  # it was closed before we asked for the signal


def main(descriptor: int, lifeline: int, kind: str) -> None:
    """Serve until the node has ended."""
    folder = os.getcwd()
    # First of all, as the kernel checks the permissions of the user who calls F_SETOWN below.
    environment, refusal = enter_host_environment()
    _kill_group_when_node_ends(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["EVENBEAT_HOST"] = "1"
    add_function_folder(folder, environment.user or "")
    connection = NodeConnection(descriptor)
    if refusal:
        RefusingHost(connection, refusal).serve()
        os._exit(0)
    capture_output()
    capture_logging()
    (AsyncHost if kind == "async" else SyncHost)(connection).serve()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
