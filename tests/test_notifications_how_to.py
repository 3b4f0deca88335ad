"""docs/how-to/notifications.md, typed as it stands: real commands, a real node, the mail catcher, a real receiver."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from message_receivers import HttpReceiver
from tools.docs import ROOT, commands, contains, lasting
from waiting import PATIENCE, eventually

from conftest import Evenbeat

PAGE: Final = (ROOT / "docs/how-to/notifications.md").read_text()
BLOCKS: Final = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES: Final = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


class Desk:
    """Three terminals and a receiver of webhooks. The ports of the page stand for those that happen to be free."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        programs = folder / "bin"
        programs.mkdir()
        command = programs / "evenbeat"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m evenbeat "$@"\n')
        command.chmod(0o755)
        self._folder = folder / "out"
        self._folder.mkdir()
        path = f"{programs}:{os.environ['PATH']}"
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("EVENBEAT_")} | {"PATH": path}
        self._processes = processes
        self._mails = folder / "mails"
        self._node = folder / "node"
        self.receiver = processes.enter_context(HttpReceiver())
        self._start(self._mails, "examples/mail_catcher.py", "0")
        database = str(self._folder / "evenbeat.db")
        up = ("-m", "evenbeat", "up", "examples/first.toml", "--db", database, "--listen", "127.0.0.1:0")
        self._start(self._node, *up)
        self._ports = {
            f"localhost:{self._found(self._mails, 'smtp://localhost:')}": "localhost:2525",
            f"127.0.0.1:{self._found(self._node, 'page=http://127.0.0.1:')}": "127.0.0.1:8629",
            f"localhost:{self.receiver.port}": "localhost:9000",
        }

    def _start(self, log: Path, *argv: str) -> None:
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, *argv], stdout=out, stderr=out, env=self._environment, cwd=ROOT)
        self._processes.callback(process.wait, PATIENCE)
        self._processes.callback(process.terminate)

    @staticmethod
    def _found(log: Path, before: str) -> str:
        found = eventually(lambda: re.search(re.escape(before) + r"(\d+)", log.read_text()), before)
        assert found is not None
        return found.group(1)

    def type(self, command: str, wanted: list[str]) -> None:
        """Type a command until it prints this: a question may be asked again, anything else only once."""
        for real, written in self._ports.items():
            command = command.replace(written, real)
        if re.match(r"evenbeat (why|problems)", command):
            eventually(lambda: contains(self._run(command), wanted), f"{wanted} by {command}")
        else:
            assert contains(out := self._run(command), wanted), (command, out, wanted)

    def _run(self, command: str) -> list[str]:
        done = subprocess.run(
            command, shell=True, env=self._environment, cwd=self._folder, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        return self._lines(done.stdout + (done.stderr if command.startswith("evenbeat") else ""))

    def _lines(self, text: str) -> list[str]:
        for real, written in self._ports.items():
            text = text.replace(real, written)
        return lasting(text)

    def catch(self, wanted: list[str]) -> None:
        """Wait until the second terminal shows these lines."""
        whole = ["...", *wanted, "..."]
        eventually(lambda: contains(self._lines(self._mails.read_text()), whole), f"mail {wanted}")

    def mails(self) -> list[str]:
        return re.findall(r"^Subject: (.*)$", self._mails.read_text(), re.MULTILINE)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ExitStack() as processes:
        yield Desk(tmp_path, processes)


def test_every_command_prints_what_the_page_says_and_every_mail_comes(desk: Desk) -> None:
    assert len(BLOCKS) >= 8
    for block in BLOCKS:
        if not block.startswith("$ "):
            desk.catch(lasting(block))
        for command, wanted in commands(block):
            desk.type(command, wanted)
            if command.startswith("evenbeat ack"):
                desk.catch(["Subject: Acknowledged by ana: door (CRITICAL): on my way"])
            if command == 'evenbeat result door ok "it is closed"':
                desk.catch(["Subject: OK: door (it was CRITICAL for 9 s)"])
    assert desk.mails()[0] == "Test message to me"
    assert [subject.split(" ")[0] for subject in desk.mails()[1:]] == ["CRITICAL:", "Acknowledged", "OK:"]
    (request,) = desk.receiver.requests
    assert request.document["contact"] == "hook"
    assert request.headers["evenbeat-signature"].startswith("t=")


@pytest.mark.parametrize("number", range(len(FILES)))
def test_every_file_is_accepted_without_a_warning(evenbeat: Evenbeat, tmp_path: Path, number: int) -> None:
    file = tmp_path / "tasks.toml"
    file.write_text(FILES[number])
    checked = evenbeat("check-config", str(file))
    assert (checked.code, checked.err) == (0, "")
    assert re.fullmatch(r"\d tasks?, no problem\n", checked.out)


def test_what_differs_from_the_page_is_found() -> None:
    assert contains(lasting("a\nb\nc"), ["a", "...", "c"])
    assert not contains(lasting("a\nb\nc"), ["a", "c"])
    assert not contains(["a"], [])
    assert lasting("told on Thu 2026-11-19 09:00:05+00:00\n") == lasting("told on Fri 2027-01-01 10:11:12+00:00")
