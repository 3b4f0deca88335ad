"""What runs gets neither a token nor the address of a database or queue, and commands get no more than they should."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_node import LiveNode
from waiting import eventually

from conftest import Evenbeat
from evenbeat.child_processes.process_table import all_processes, children_by_parent, descendants
from evenbeat.cli.output.common import warn_of_secret_argument
from evenbeat.store.contract import ENVIRONMENT_TOLD
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task

SECRET = "hunter2-is-secret"
SECRETS = {
    "EVENBEAT_TOKEN": f"evb_{SECRET}",
    "EVENBEAT_QUEUE": f"nats://me:{SECRET}@127.0.0.1:1",
    "EVENBEAT_DB": f"postgresql://me:{SECRET}@127.0.0.1:1/x",
    "PGPASSWORD": SECRET,
}
CONFIG = """
[node]
pass_env = ["SITE", "DB_*"]

[tasks.command]
every = "1d"
command = ["/usr/bin/env"]

[tasks.with-env]
every = "1d"
command = ["/usr/bin/env"]
env = { OWN = "mine", HOME = "/elsewhere" }

[checks.check]
every = "1d"
command = ["/usr/bin/env"]

[checks.german]
every = "1d"
command = ["/usr/bin/env"]
env = { LC_ALL = "de_DE" }

[tasks.function]
every = "1d"
function = "tell_environment.py:tell"

[tasks.function-with-env]
every = "1d"
function = "tell_environment.py:tell"
env = { OWN = "mine" }

[tasks.thief]
every = "1d"
command = ["/usr/bin/env"]
env = { STOLEN = "env:EVENBEAT_TOKEN" }

[tasks.function-thief]
every = "1d"
function = "tell_environment.py:tell"
env = { STOLEN = "env:EVENBEAT_QUEUE" }
"""
FUNCTION = "import json, os\ndef tell():\n    return json.dumps(dict(os.environ))\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    folder = tmp_path_factory.mktemp("node")
    (folder / "tell_environment.py").write_text(FUNCTION)
    (folder / "x.toml").write_text(CONFIG.replace("tell_environment.py", str(folder / "tell_environment.py")))
    others = {"SITE": "berlin", "DB_HOST": "db1", "API_KEY": "for functions", "LC_ALL": "C.UTF-8", "LC_TIME": "de_DE"}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**SECRETS, **others}.items():
            environment.setenv(name, value)
        with LiveNode(folder / "x.db", files=(folder / "x.toml",), grace=0.1) as node:
            yield node


def ran(node: LiveNode, name: str) -> tuple[str, str]:
    with node.client() as client:
        (end,) = client.run_now([name], wait=True)
    return end.outcome, end.output


def variables(node: LiveNode, name: str) -> dict[str, str]:
    outcome, output = ran(node, name)
    assert outcome == "succeeded", output
    assert SECRET not in output
    if output.startswith("{"):
        found: dict[str, str] = json.loads(output)
        return found
    return dict(line.split("=", 1) for line in output.splitlines())


def test_a_command_gets_a_short_list_and_what_is_named(node: LiveNode) -> None:
    found = variables(node, "command")
    assert not found.keys() & (SECRETS.keys() | {"API_KEY"})
    assert (found["SITE"], found["DB_HOST"], found["PATH"]) == ("berlin", "db1", os.environ["PATH"])
    usual = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SITE", "DB_HOST"}
    ours = {f"EVENBEAT_{word}" for word in ("NAME", "NOMINAL", "ATTEMPT", "KIND", "CURSOR", "CURSOR_FILE", "WORKER")}
    ours |= {"EVENBEAT_TIMEBOX", "EVENBEAT_TIMEBOX_ENDS"}
    assert {name for name in found if not name.startswith("LC_")} <= usual | ours
    with_env = variables(node, "with-env")
    assert with_env.keys() == found.keys() | {"OWN", "HOME"}
    assert (with_env["OWN"], with_env["HOME"]) == ("mine", "/elsewhere")


def test_a_check_writes_numbers_with_a_point_unless_its_task_says_otherwise(node: LiveNode) -> None:
    assert variables(node, "command")["LC_ALL"] == "C.UTF-8"
    found = variables(node, "check")
    assert ("LC_ALL" in found, found["LC_NUMERIC"], found["LC_TIME"]) == (False, "C", "de_DE")
    assert variables(node, "german")["LC_ALL"] == "de_DE"


@pytest.mark.parametrize("name", ["function", "function-with-env"])
def test_a_function_gets_all_but_our_secrets(node: LiveNode, name: str) -> None:
    found = variables(node, name)
    assert not found.keys() & SECRETS.keys()
    assert (found["API_KEY"], found["SITE"]) == ("for functions", "berlin")
    assert ("OWN" in found) == (name == "function-with-env")


@pytest.mark.parametrize("name", ["thief", "function-thief"])
def test_no_reference_leads_to_a_secret_of_ours(node: LiveNode, name: str) -> None:
    outcome, output = ran(node, name)
    assert (outcome, SECRET in output) == ("broken", False)
    assert "the worker has no variable EVENBEAT_" in output


def test_worker_processes_have_no_secret_in_their_environment_or_arguments(node: LiveNode) -> None:
    variables(node, "function")
    assert len(node.node.queue.workers) >= 2
    for pid, _ in node.node.queue.workers:
        for file in ("environ", "cmdline"):
            assert SECRET.encode() not in Path(f"/proc/{pid}/{file}").read_bytes()


def test_no_process_of_a_cluster_worker_shows_a_secret(tmp_path: Path) -> None:
    """To another user in the list of processes, nor to what it runs; what is passed on is named."""
    log = tmp_path / "log"
    environment = {**os.environ, **SECRETS, "API_KEY": "x", "XDG_RUNTIME_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "evenbeat", "worker", "--workers", "1", "--pass-env", "SITE", "--pass-env", "DB_*"]
    with log.open("wb") as file:
        worker = subprocess.Popen(command, env=environment, stderr=file, stdin=subprocess.DEVNULL)
    try:
        children = eventually(lambda: runners(worker.pid) or worker.poll() is not None)
        assert isinstance(children, list), log.read_text()
        family = descendants({worker.pid}, children_by_parent(all_processes().values()))
        for pid in family:
            assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        for pid in family - {worker.pid}:
            assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert Path(f"/proc/{children[0]}/cmdline").read_bytes().split(b"\0")[-2] == b"SITE,DB_*"
        eventually(lambda: "action=environment" in log.read_text())
    finally:
        worker.send_signal(signal.SIGINT)
        worker.send_signal(signal.SIGINT)
        worker.wait()
    assert "API_KEY" in log.read_text()
    assert SECRET not in log.read_text()


def runners(pid: int) -> list[int]:
    family = descendants({pid}, children_by_parent(all_processes().values())) - {pid}
    return [one for one in family if b"evenbeat.work.runner" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.mark.parametrize("name", ["EVENBEAT_TOKEN", "A B"])
def test_what_cannot_be_passed_on_is_refused(evenbeat: Evenbeat, tmp_path: Path, name: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(f'[node]\npass_env = ["SITE", "{name}"]\n')
    found = evenbeat("check-config", str(file))
    assert found.code != 0
    assert "x.toml:2:" in found.out + found.err
    found = evenbeat("worker", "--queue", "nats://127.0.0.1:1", "--pass-env", name)
    assert found.code == 2
    assert "--pass-env: " in found.err


def test_a_password_that_was_typed_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_secret_argument("nats://h", "--queue", "EVENBEAT_QUEUE", is_secret=False)
    warn_of_secret_argument(None, "--queue", "EVENBEAT_QUEUE", is_secret=True)
    assert capsys.readouterr().err == ""
    warn_of_secret_argument(f"nats://u:{SECRET}@h", "--queue", "EVENBEAT_QUEUE", is_secret=True)
    said = capsys.readouterr().err
    assert "--queue: every user of this machine can read its password" in said
    assert SECRET not in said


def test_the_first_start_after_an_upgrade_names_what_is_no_longer_passed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, evenbeat: Evenbeat
) -> None:
    monkeypatch.setenv("EVENBEAT_TOKEN", SECRET)
    monkeypatch.setenv("SITE_OF_MINE", "berlin")
    database = tmp_path / "old.db"
    store = SqliteStore(database)
    store.create([a_task("t")], "me", T0)
    store.set_settings({ENVIRONMENT_TOLD: None})  # a version before has created it
    store.close()

    def logged(path: Path) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.INFO), LiveNode(path, grace=0.1):
            pass
        return [record.getMessage() for record in caplog.records if getattr(record, "action", "") == "environment"]

    (message,) = logged(database)
    assert message.startswith("commands no longer get these variables of the node's environment: ")
    assert {"EVENBEAT_TOKEN", "SITE_OF_MINE"} <= set(message.replace(",", " ").split())
    assert "functions no longer get EVENBEAT_TOKEN" in message
    assert "PATH" not in message.split()
    assert SECRET not in message
    assert logged(database) == []
    assert logged(tmp_path / "new.db") == []

    fresh = tmp_path / "fresh.db"
    file = tmp_path / "fresh.toml"
    file.write_text('[tasks.t]\nevery = "1h"\ncommand = ["noop"]\n')
    assert evenbeat("apply", str(file), "--db", str(fresh)).code == 0
    assert evenbeat("add", "more", "--every", "1h", "--db", str(fresh), "--", "noop").code == 0
    assert logged(fresh) == []


def test_another_list_counts_from_the_next_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[node]\npass_env = ["SITE"]\n')
    with caplog.at_level(logging.WARNING), LiveNode(tmp_path / "x.db", files=(file,), grace=0.1) as node:
        file.write_text('[node]\npass_env = ["OTHER"]\n')
        with node.client() as client:
            client.apply([file])
        eventually(lambda: "`pass_env` of [node] takes effect at the next start" in caplog.text)
