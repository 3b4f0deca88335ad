"""Tell systemd how the node is: ready, alive, stopping. Without systemd nothing happens."""

import os
import socket


def notify_systemd(state: str) -> None:
    """Send one line to the service manager, if there is one: READY=1, WATCHDOG=1, STOPPING=1, STATUS=..."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.sendto(state.encode(), address)
    except OSError:
        return  # without a manager there is nothing to notify


def watchdog_interval() -> float | None:
    """Seconds within which the manager expects a sign of life; None if it expects none."""
    said = os.environ.get("WATCHDOG_USEC", "")
    meant = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(said) / 1e6 if said.isdecimal() and meant else None
