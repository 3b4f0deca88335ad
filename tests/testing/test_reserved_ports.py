"""Ports of test servers: free, outside of what the system gives away, and nobody else's until they are released."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evenbeat.testing import reserved_ports
from evenbeat.testing.reserved_ports import ReservedPort


def test_a_port_is_free_for_a_server_more_than_once() -> None:
    reserved = ReservedPort()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", reserved.number)):
            pass


@pytest.mark.skipif(not Path("/proc/sys/net/ipv4/ip_local_port_range").exists(), reason="Linux says its range here")
def test_the_system_gives_none_of_them_to_a_connection() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if lowest <= 32_767:
        pytest.skip(f"this machine takes ports from {lowest} on for connections")
    assert all(ReservedPort().number < lowest for _ in range(50))


def test_a_reserved_port_is_taken_by_no_other_reservation_until_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    reserved = ReservedPort()
    number = reserved.number
    monkeypatch.setattr(reserved_ports, "_LOWEST", number)
    monkeypatch.setattr(reserved_ports, "_HIGHEST", number)
    with pytest.raises(RuntimeError, match=f"no port from {number} to {number} is free"):
        ReservedPort()
    program = (
        "from evenbeat.testing import reserved_ports\n"
        f"reserved_ports._LOWEST = reserved_ports._HIGHEST = {number}\n"
        "reserved_ports.ReservedPort()\n"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"no port from {number} to {number} is free" in other.stderr
    del reserved
    assert ReservedPort().number == number


def test_a_port_that_a_server_listens_on_is_not_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setattr(reserved_ports, "_LOWEST", number)
        monkeypatch.setattr(reserved_ports, "_HIGHEST", number)
        with pytest.raises(RuntimeError, match="is free"):
            ReservedPort()
