"""The api process for real: a node that starts it, watches it and takes it along."""

import io
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_node import LiveNode
from rich.console import Console
from waiting import PATIENCE, eventually

from evenbeat.cli.output.node_screen import StatusScreen
from evenbeat.model import Invalid
from evenbeat.node.process.listen import ListenAddress, bind_socket, check_listen_safety, is_loopback, parse_listen
from evenbeat.store.sqlite.sqlite_store import SqliteStore

Start = Callable[..., "Process"]


class Process:
    """A process whose log is being read."""

    def __init__(self, argv: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=file)
        self.pid = self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def url(self) -> str:
        """Where it listens, as soon as it says so."""
        found = eventually(lambda: re.search(r"url=(\S+)", self.log) or self.process.poll() is not None)
        assert isinstance(found, re.Match), self.log
        return found[1]

    def ended(self) -> int:
        return self.process.wait(PATIENCE)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Processes of this program; none outlives the test."""
    started: list[Process] = []

    def run(*argv: str) -> Process:
        started.append(Process([sys.executable, "-m", *argv], tmp_path / f"{len(started)}.log"))
        return started[-1]

    yield run
    for process in started:
        process.process.kill()
        process.process.wait()


@pytest.fixture
def up(start: Start, tmp_path: Path) -> Start:
    def run(*argv: str) -> Process:
        return start("evenbeat", "up", "--workers", "1", "--json", "--db", str(tmp_path / "a.db"), *argv)

    return run


def api_process(node: int) -> int:
    """The child of a node that serves; 0 if there is none."""
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1]) if entry.name.isdigit() else 0
            if parent == node and b"evenbeat.api.server" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    return 0


def is_gone(process: int) -> bool:
    """Has it ended, whether or not somebody has reaped it?"""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_node_serves_its_page_and_api_and_replaces_the_process_that_does(up: Start, tmp_path: Path) -> None:
    node = up("--listen", "127.0.0.1:0")
    url = node.url()
    assert httpx.get(f"{url}readyz", timeout=PATIENCE).json() == {"ok": True, "problems": []}
    assert httpx.get(url, timeout=PATIENCE).headers["content-type"].startswith("text/html")
    headers = {"authorization": f"Bearer {(tmp_path / 'a.db.token').read_text().strip()}"}
    assert httpx.get(f"{url}v1/tasks", headers=headers, timeout=PATIENCE).json()["total"] == 0
    first = api_process(node.pid)
    assert os.getpriority(os.PRIO_PROCESS, first) > os.getpriority(os.PRIO_PROCESS, node.pid)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: api_process(node.pid) not in (0, first))
    assert httpx.get(f"{url}healthz", timeout=PATIENCE).status_code == 200  # at the same address
    assert "action=api_failed" in node.log
    second = api_process(node.pid)
    node.process.send_signal(signal.SIGTERM)
    assert node.ended() == 0
    assert is_gone(second)
    assert node.log.count("action=api_failed") == 1


def test_a_node_that_is_killed_takes_it_along(up: Start) -> None:
    node = up("--listen", "127.0.0.1:0")
    httpx.get(f"{node.url()}healthz", timeout=PATIENCE)
    serving = api_process(node.pid)
    node.process.kill()
    node.ended()
    eventually(lambda: is_gone(serving))


def test_what_cannot_be_served_is_told_before_anything_runs(
    evenbeat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "a.db"

    def refused(*argv: str) -> str:
        found = evenbeat("up", "--db", str(database), *argv)
        assert (found.code, found.out) == (2, "")
        assert not database.exists()
        return str(found.err)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"--listen: {where} is taken by another program" in refused("--listen", where)
        monkeypatch.setenv("EVENBEAT_LISTEN", where)
        assert f"--listen: {where} is taken by another program" in refused()
    monkeypatch.delenv("EVENBEAT_LISTEN")
    in_the_clear = refused("--listen", "0.0.0.0:0")
    assert "--tls-cert FILE" in in_the_clear
    assert "--no-tls" in in_the_clear
    command = f"evenbeat token add admin --role admin --db {database}"
    assert command in refused("--listen", "0.0.0.0:0", "--no-tls")
    assert "for a loopback address" in refused("--listen", "0.0.0.0:0", "--no-tls", "--open")
    assert "give --listen HOST:PORT too" in refused("--open")
    assert "give --listen HOST:PORT too" in refused("--no-tls")
    assert "'x' is no address" in refused("--listen", "x")
    assert "or --no-tls" in refused("--listen", "1", "--tls-cert", "a", "--tls-key", "b", "--no-tls")


def test_others_are_served_if_they_have_a_token(up: Start, evenbeat: Any, tmp_path: Path) -> None:
    token = evenbeat("token", "add", "ana", "--role", "read", "--db", str(tmp_path / "a.db")).out.strip()
    node = up("--listen", "0.0.0.0:0", "--no-tls")
    port = httpx.URL(node.url()).port
    url = f"http://127.0.0.1:{port}/v1/tasks"
    assert httpx.get(url, timeout=PATIENCE).status_code == 401
    answer = httpx.get(url, headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)
    assert answer.status_code == 200
    httpx.get(url, headers={"authorization": f"Bearer {token[:-4]}AAAA"}, timeout=PATIENCE)
    assert token[4:] not in node.log
    assert token[4:-4] not in node.log


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    try:
        subprocess.run([*command, *names, "-out", cert, "-keyout", key], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate, and is not installed")
    return cert, key


def test_tls_is_spoken(up: Start, pair: tuple[Path, Path]) -> None:
    cert, key = pair
    node = up("--listen", "localhost:0", "--tls-cert", str(cert), "--tls-key", str(key))
    url = node.url()
    assert url.startswith("https://localhost:")
    context = ssl.create_default_context(cafile=str(cert))
    assert httpx.get(f"{url}readyz", verify=context, timeout=PATIENCE).status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.get(url.replace("https", "http"), timeout=PATIENCE)


def test_it_also_runs_by_itself_and_says_that_no_node_is_there(start: Start, tmp_path: Path) -> None:
    SqliteStore(tmp_path / "b.db").close()
    alone = start("evenbeat.api.server", "--db", str(tmp_path / "b.db"), "--listen", "0")
    assert httpx.get(f"{alone.url()}readyz", timeout=PATIENCE).status_code == 503
    alone.process.send_signal(signal.SIGTERM)
    alone.ended()
    none = start("evenbeat.api.server", "--db", str(tmp_path / "none.db"), "--listen", "0")
    assert none.ended() == 2
    assert "there is no such file" in none.log


# Addresses


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("8629", ("127.0.0.1", 8629)),
        ("127.0.0.1:8629", ("127.0.0.1", 8629)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_addresses_are_understood(text: str, found: tuple[str, int]) -> None:
    assert parse_listen(text) == found


@pytest.mark.parametrize("text", ["", "x", ":8629", "localhost", "::1:80", "[::1]", "h:65536", "h:-1", "h:٣", "h:8 "])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--listen"):
        parse_listen(text)


def test_hosts_of_this_machine_alone_are_known() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "LocalHost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "example.org", "127.0.0.1.example.org", "10.0.0.1", ""]))


def test_addresses_that_cannot_be_had_are_explained(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    with pytest.raises(Invalid, match="is no address of this machine"):
        bind_socket(ListenAddress("192.0.2.1", 0))
    with pytest.raises(Invalid, match="there is no host"):
        bind_socket(ListenAddress("no.such.host.invalid", 0))
    cert, key = pair
    with pytest.raises(Invalid, match="belong together"):
        check_listen_safety(ListenAddress("127.0.0.1", 0, cert), tmp_path / "x.db")
    with pytest.raises(Invalid, match="no certificate with its key"):
        check_listen_safety(ListenAddress("127.0.0.1", 0, key, cert), tmp_path / "x.db")
    with pytest.raises(Invalid, match="cannot be read"):
        check_listen_safety(ListenAddress("127.0.0.1", 0, cert, tmp_path / "none"), tmp_path / "x.db")
    check_listen_safety(ListenAddress("127.0.0.1", 0, cert, key), tmp_path / "x.db")


def test_the_screen_says_where_the_page_is(tmp_path: Path) -> None:
    with LiveNode(tmp_path / "a.db", grace=0.1) as live:
        screen = StatusScreen(live.node, tmp_path / "a.db")
        assert "page http" not in shown(screen)
        live.node.page = "http://127.0.0.1:8629/"
        assert "page http://127.0.0.1:8629/\n" in shown(screen)


def shown(screen: StatusScreen) -> str:
    out = Console(file=io.StringIO(), width=200)
    out.print(screen._render())
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]
