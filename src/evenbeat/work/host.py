"""The function host: `python -m evenbeat.work.host DESCRIPTOR LIFELINE sync|async`. It imports the user's modules.

A sync host calls one function at a time and tells its result before it begins the next, so that the node knows which
one it was if the host has to be killed. An async host runs all it is given at the same time.
"""

import fcntl
import os
import signal
import sys
from contextlib import suppress

from evenbeat.work.async_host import AsyncHost
from evenbeat.work.functions import add_function_folder, capture_output
from evenbeat.work.host_environment import RefusingHost, enter_host_environment
from evenbeat.work.node_socket import NodeConnection
from evenbeat.work.sync_host import SyncHost


def _die_with_the_node(lifeline: int) -> None:
    # The node holds the other end of this pipe. When it closes, the kernel kills our whole group: that works even
    # while a function keeps the interpreter busy, and for whatever it has started.
    os.set_inheritable(lifeline, False)  # noqa: FBT003
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        if not os.read(lifeline, 1):
            os._exit(0)  # it was closed before we asked to be told


def main(descriptor: int, lifeline: int, kind: str) -> None:
    """Serve until the node is gone."""
    folder = os.getcwd()
    place, refusal = enter_host_environment()  # first of all, as the kernel remembers who asked for what follows
    _die_with_the_node(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["EVENBEAT_HOST"] = "1"
    add_function_folder(folder, place.user or "")
    link = NodeConnection(descriptor)
    if refusal:
        RefusingHost(link, refusal).serve()
        os._exit(0)
    capture_output()
    (AsyncHost if kind == "async" else SyncHost)(link).serve()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
