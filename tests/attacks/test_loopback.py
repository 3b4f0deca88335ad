"""Another user of the machine, and pages of other sites, at the loopback port of a node: they can do nothing."""

import http.client
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import pytest
from waiting import PATIENCE, eventually

from conftest import Evenbeat
from evenbeat.api.application import ROUTES
from evenbeat.api.http.route import Role

NOBODY = 65_534
is_root = os.geteuid() == 0
as_root = pytest.mark.skipif(not is_root, reason="only root can become another user of the machine")


class Target(NamedTuple):
    """A node of ours, beside files that everybody may list."""

    database: Path
    pid: int
    port: int
    log: Path

    @property
    def token(self) -> str:
        return self.database.with_name("a.db.token").read_text().strip()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str, dict[str, str]]:
        return asked(self.port, method, path, body, headers)

    def tasks(self) -> int:
        status, text, _ = self.ask("GET", "/v1/tasks", headers={"Authorization": f"Bearer {self.token}"})
        assert status == 200, text
        return int(json.loads(text)["total"])


def asked(
    port: int, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def port_in(text: str) -> int:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", text)
    return int(found[1]) if found else 0


@contextmanager
def folder_for_all() -> Iterator[Path]:
    """Not tmp_path, which only its owner may enter."""
    with TemporaryDirectory(prefix="evenbeat-attack-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with folder_for_all() as folder:
        log = folder / "log"
        argv = ["up", "--workers", "1", "--db", str(folder / "a.db"), "--listen", "127.0.0.1:0"]
        with log.open("wb") as file:
            node = subprocess.Popen([sys.executable, "-m", "evenbeat", *argv], stdout=file, stderr=file)
        try:
            eventually(lambda: "action=token_file" in log.read_text() or node.poll() is not None)
            yield Target(folder / "a.db", node.pid, port_in(log.read_text()), log)
        finally:
            node.terminate()
            node.wait(PATIENCE)


def stranger(code: str, *argv: str) -> Any:
    """What the code leaves in `found` as another user, who may not read this Python: so imports come first."""
    become = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})" if is_root else "pass"
    imports = "import encodings.idna, http.client, json, os, socket, sys"
    command = [sys.executable, "-c", f"{imports}\n{become}\n{code}\nprint(json.dumps(found))", *argv]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_a_token_no_route_does_anything(target: Target) -> None:
    requests = []
    for route in ROUTES:
        if route.role is not Role.ANYBODY:
            path = "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))
            requests.append([route.method, path])
    code = """
found = []
for method, path in json.loads(sys.argv[2]):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    connection.request(method, path, b"{}", {"Content-Type": "application/json", "X-Evenbeat": "1"})
    found.append(connection.getresponse().status)
    connection.close()
"""
    found = stranger(code, str(target.port), json.dumps(requests))
    assert len(requests) > 30
    assert set(found) == {401}, dict(zip(map(str, requests), found, strict=True))


TASK = json.dumps({"name": "mine", "every": "1s", "command": ["touch", "/tmp/owned"]}).encode()


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "text/plain", "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "application/json", "Host": "localhost"},
        {"Content-Type": "application/json", "Cookie": "evenbeat_session=guess; evenbeat_session_8629=guess"},
        {"Content-Type": "application/json", "Authorization": "Bearer evb_AAAAAAAABBBBBBBBCCCCCCCCDDDDDDDDEEEEEEEE"},
        {"Content-Type": "application/json", "Authorization": "Bearer "},
        {"Content-Type": "application/json", "X-Forwarded-For": "127.0.0.1"},
    ],
)
def test_a_post_that_somebody_makes_this_machine_send_defines_no_task(target: Target, headers: dict[str, str]) -> None:
    status, text, answer = target.ask("POST", "/v1/tasks", TASK, headers)
    assert status in (401, 403), text
    assert "set-cookie" not in answer
    assert target.tasks() == 0


@pytest.mark.parametrize(("path", "key"), [("/v1/session", "token"), ("/v1/session/link", "code")])
def test_no_session_begins_by_guessing_or_from_another_page(target: Target, path: str, key: str) -> None:
    json_type = {"Content-Type": "application/json"}
    foreign = {**json_type, "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    for headers, expected in ((json_type, 401), (foreign, 403), ({"Content-Type": "text/plain"}, 415)):
        status, text, answer = target.ask("POST", path, json.dumps({key: "A" * 43}).encode(), headers)
        assert status == expected, text
        assert "set-cookie" not in answer


@as_root
def test_another_user_reads_neither_the_token_nor_talks_to_the_control_socket(target: Target) -> None:
    code = """
found = []
for suffix in (".token", ".lock"):
    try:
        open(sys.argv[1] + suffix).close()
    except PermissionError:
        found.append(suffix)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1] + ".sock")
except PermissionError:
    found.append(".sock")
"""
    assert stranger(code, str(target.database)) == [".token", ".lock", ".sock"]


def test_without_a_terminal_the_log_says_where_the_token_is_and_nothing_more(target: Target) -> None:
    text = target.log.read_text()
    assert f"the token to sign in with is in {target.database.resolve()}.token" in text
    assert target.token[4:] not in text
    assert "sign-in/" not in text


class Seen(NamedTuple):
    link: str
    text: str
    pid: int
    database: Path


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    """A node on a terminal, and what is to be read there."""
    with folder_for_all() as folder:
        ours, theirs = pty.openpty()
        argv = ["up", "--workers", "1", "--db", str(folder / "a.db"), "--listen", "127.0.0.1:0"]
        node = subprocess.Popen([sys.executable, "-m", "evenbeat", *argv], stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = bytearray()

        def read() -> None:
            with suppress(OSError):  # the other side is gone
                while piece := os.read(ours, 65_536):
                    text.extend(piece)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            link = eventually(lambda: re.search(rb"Sign in: (\S+)\r\n", bytes(text)))
            assert link is not None
            eventually(lambda: b"page http" in text)
            yield Seen(link[1].decode(), bytes(text).decode(), node.pid, folder / "a.db")
        finally:
            node.terminate()
            node.wait(PATIENCE)
            reader.join(PATIENCE)
            os.close(ours)


def descendants(pid: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cmdline(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_nobody_can_read_the_link_from_arguments_or_from_the_database(seen: Seen) -> None:
    page, code = seen.link.split("#/sign-in/")
    token = seen.database.with_name("a.db.token").read_text().strip()
    found = descendants(seen.pid)
    assert len(found) > 2
    for pid in found:
        assert code.encode() not in cmdline(pid)
        assert token[4:].encode() not in cmdline(pid)
    for file in seen.database.parent.iterdir():
        if file.is_file() and file.suffix != ".token":
            assert code.encode() not in file.read_bytes()
            assert token[12:].encode() not in file.read_bytes()
    assert seen.text.count(code) == 1
    assert page.startswith("http://127.0.0.1:")


def test_the_link_of_a_terminal_signs_in_once_by_a_post_alone(seen: Seen, evenbeat: Evenbeat) -> None:
    page, code = seen.link.split("#/sign-in/")
    port = port_in(page)
    for path in ("/", f"/?{code}", f"/sign-in/{code}", "/v1/session/link", f"/v1/session/link?code={code}"):
        for method in ("GET", "HEAD"):  # a preview, a prefetch, whoever has misread it
            asked(port, method, path)
    body, headers = json.dumps({"code": code}).encode(), {"Content-Type": "application/json"}
    status, text, answer = asked(port, "POST", "/v1/session/link", body, headers)
    assert (status, json.loads(text)) == (200, {"role": "admin", "needs_token": False})
    said = answer["set-cookie"]
    assert said.startswith(f"evenbeat_session_{port}=")
    assert all(word in said for word in ("HttpOnly", "SameSite=strict"))
    cookie = {"Cookie": said.partition(";")[0]}
    assert asked(port, "GET", "/v1/tasks", headers=cookie)[0] == 200
    status, text, answer = asked(port, "POST", "/v1/session/link", body, headers)
    assert status == 401
    assert "`evenbeat token link` makes another" in json.loads(text)["detail"]
    assert "set-cookie" not in answer

    another = evenbeat("token", "link", "--db", str(seen.database))
    assert (another.code, another.out.count("\n")) == (0, 1)
    assert another.out.startswith(f"{page}#/sign-in/")
    assert "local-admin (admin); works once, for 10 min" in another.err
    shown = evenbeat("token", "link", "--json", "--db", str(seen.database)).json
    assert (shown["token"], shown["role"]) == ("local-admin", "admin")
    code = shown["link"].split("#/sign-in/")[1]
    body = json.dumps({"code": code}).encode()
    assert asked(port, "POST", "/v1/session/link", body, headers)[0] == 200


def test_a_link_that_was_tried_by_two_at_once_lets_one_in(seen: Seen, evenbeat: Evenbeat) -> None:
    shown = evenbeat("token", "link", "--json", "--db", str(seen.database)).json
    page, code = shown["link"].split("#/sign-in/")
    body, found = json.dumps({"code": code}).encode(), []

    def use() -> None:
        headers = {"Content-Type": "application/json"}
        found.append(asked(port_in(page), "POST", "/v1/session/link", body, headers)[0])

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == [200] + [401] * 7


def test_a_session_outlives_the_process_that_serves_the_page_and_ends_for_all_by_signing_out(
    seen: Seen, evenbeat: Evenbeat
) -> None:
    shown = evenbeat("token", "link", "--json", "--db", str(seen.database)).json
    page, code = shown["link"].split("#/sign-in/")
    port, body = port_in(page), json.dumps({"code": code}).encode()
    answer = asked(port, "POST", "/v1/session/link", body, {"Content-Type": "application/json"})[2]
    word = answer["set-cookie"].partition(";")[0].partition("=")[2]
    cookie = {"Cookie": f"evenbeat_session_{port}={word}"}
    assert asked(port, "GET", "/v1/tasks", headers=cookie)[0] == 200
    serving = next(pid for pid in descendants(seen.pid) if b"evenbeat.api.server" in cmdline(pid))
    os.kill(serving, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{serving}").exists())
    assert asked(port, "GET", "/v1/tasks", headers=cookie)[0] == 200
    for file in seen.database.parent.iterdir():
        assert not file.is_file() or word.encode() not in file.read_bytes()
    assert asked(port, "DELETE", "/v1/session", headers=cookie)[0] == 204
    assert asked(port, "GET", "/v1/tasks", headers=cookie)[0] == 401
    serving = eventually(lambda: next((p for p in descendants(seen.pid) if b"evenbeat.api.server" in cmdline(p)), 0))
    os.kill(serving, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{serving}").exists())
    assert asked(port, "GET", "/v1/tasks", headers=cookie)[0] == 401


def test_removing_the_last_token_opens_no_door(seen: Seen, evenbeat: Evenbeat) -> None:
    port, token = port_in(seen.link), seen.database.with_name("a.db.token").read_text().strip()
    allowed = {"Authorization": f"Bearer {token}"}
    assert asked(port, "GET", "/v1/tasks", headers=allowed)[0] == 200
    removed = evenbeat("token", "rm", "local-admin", "--db", str(seen.database))
    assert "`evenbeat token add NAME --role admin` makes another" in removed.err
    eventually(lambda: asked(port, "GET", "/v1/tasks", headers=allowed)[0] == 401)
    status, text, _ = asked(port, "GET", "/v1/tasks")
    assert status == 401
    assert "`evenbeat token add NAME" in text
    assert json.loads(asked(port, "GET", "/v1/session")[1]) == {"role": None, "needs_token": True}
    status, text, _ = asked(port, "POST", "/v1/tasks", TASK, {"Content-Type": "application/json"})
    assert status == 401
    link = evenbeat("token", "link", "--db", str(seen.database))
    assert link.code == 2
    assert "`evenbeat token add NAME --role admin` makes one" in link.err


@as_root
def test_open_is_refused_as_root(evenbeat: Evenbeat, tmp_path: Path) -> None:
    refused = evenbeat("up", "--open", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "a.db"))
    assert refused.code == 2
    assert "--open: as root it would let every user of this machine run commands as root" in refused.err
    assert "leave --open out" in refused.err
    assert not (tmp_path / "a.db").exists()


def somebody_else() -> list[str]:
    """A prefix for commands of a user that is not root; one that may read this Python, wherever it is."""
    if not is_root:
        return []
    caps = ("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override")
    prefix = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *caps]
    probe = [*prefix, sys.executable, "-c", "import os; assert os.geteuid() != 0; import evenbeat.model"]
    if shutil.which("setpriv") is None or subprocess.run(probe, check=False, capture_output=True).returncode != 0:
        pytest.skip("setpriv cannot make us another user who can start this Python")
    return prefix


def test_open_lets_in_who_is_on_this_machine_until_there_is_a_token(evenbeat: Evenbeat) -> None:
    prefix = somebody_else()
    with folder_for_all() as folder:
        database, log = folder / "b" / "a.db", folder / "log"
        database.parent.mkdir()
        if is_root:
            os.chown(database.parent, NOBODY, NOBODY)
        argv = ["up", "--open", "--workers", "1", "--db", str(database), "--listen", "127.0.0.1:0"]
        with log.open("wb") as file:
            command = [*prefix, sys.executable, "-m", "evenbeat", *argv]
            node = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            eventually(lambda: "action=open" in log.read_text() or node.poll() is not None)
            assert node.poll() is None, log.read_text()
            port = port_in(log.read_text())
            assert "every user of this machine may do everything" in log.read_text()
            assert not database.with_name("a.db.token").exists()
            assert asked(port, "GET", "/v1/tasks")[0] == 200
            assert asked(port, "GET", "/v1/tasks", headers={"Host": "evil.example"})[0] == 403
            foreign = {"Content-Type": "application/json", "Origin": "http://evil.example"}
            assert asked(port, "POST", "/v1/tasks", TASK, foreign)[0] == 403
            assert evenbeat("token", "add", "ana", "--role", "read", "--db", str(database)).code == 0
            eventually(lambda: asked(port, "GET", "/v1/tasks")[0] == 401)
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(PATIENCE)


class _Fake(BaseHTTPRequestHandler):
    """What another user has put where a node was: it writes down what it is sent."""

    heard: ClassVar[list[dict[str, str]]] = []

    def do_GET(self) -> None:
        self.heard.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(404)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


def test_the_command_line_sends_no_token_that_it_was_not_given_and_none_to_a_port_it_does_not_know(
    target: Target, evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENBEAT_TOKEN", raising=False)
    monkeypatch.delenv("EVENBEAT_DB", raising=False)
    monkeypatch.chdir(target.database.parent)  # the token file lies here
    heard = _Fake.heard
    heard.clear()
    with HTTPServer(("127.0.0.1", 0), _Fake) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            assert evenbeat("status", "--url", url).code != 0
            assert len(heard) >= 1
            assert not any({"authorization", "cookie"} & headers.keys() for headers in heard)
            # With a database it is the control socket that is asked, whatever the environment has.
            heard.clear()
            monkeypatch.setenv("EVENBEAT_TOKEN", target.token)
            monkeypatch.setenv("EVENBEAT_LISTEN", url.removeprefix("http://"))
            assert evenbeat("status", "--db", "a.db").code == 0
            assert evenbeat("ls", "--db", "a.db").code == 0
            monkeypatch.setenv("EVENBEAT_URL", url)
            assert evenbeat("status", "--db", "a.db").code == 0
            assert heard == []
        finally:
            server.shutdown()
            serving.join(PATIENCE)
