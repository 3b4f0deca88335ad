"""What systemd hears, on a real datagram socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenbeat.node.process.systemd import notify_systemd, watchdog_interval


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(10)
        yield listening


def test_the_manager_hears_that_the_node_is_ready(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.bind(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    notify_systemd("READY=1")
    assert manager.recv(100) == b"READY=1"


def test_an_address_with_an_at_sign_is_an_abstract_one(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.bind(f"\0evenbeat-{tmp_path.name}-{os.getpid()}")
    monkeypatch.setenv("NOTIFY_SOCKET", f"@evenbeat-{tmp_path.name}-{os.getpid()}")
    notify_systemd("STOPPING=1")
    assert manager.recv(100) == b"STOPPING=1"


def test_without_a_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_systemd("READY=1")


def test_a_manager_that_has_gone_away_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify_systemd("READY=1")


@pytest.mark.parametrize(
    ("said", "pid", "expected"),
    [
        ("30000000", None, 30.0),
        ("30000000", "own", 30.0),
        ("30000000", "1", None),
        ("", None, None),
        ("soon", None, None),
    ],
)
def test_the_watchdog_is_heeded_if_it_is_meant_for_this_process(
    said: str, pid: str | None, expected: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", said)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert watchdog_interval() == expected
