"""What becomes of a live node's database is seen everywhere: commands, /readyz, the log, the exit code."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import PATIENCE, eventually

from conftest import Evenbeat
from evenbeat.testing.reserved_ports import ReservedPort


def ready(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return 0, ""


@pytest.fixture
def node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evenbeat: Evenbeat
) -> Iterator[tuple["subprocess.Popen[str]", Path, int]]:
    reserved = ReservedPort()
    database, port = tmp_path / "live.db", reserved.number
    monkeypatch.setenv("EVENBEAT_DB", str(database))
    evenbeat("add", "often", "--every", "1s", "--", "noop")
    command = [sys.executable, "-m", "evenbeat", "up", "--workers", "1", "--listen", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: ready(port)[0] == 200)
    yield process, database, port
    process.kill()
    process.communicate()


def delete(database: Path) -> None:
    database.unlink()


def truncate(database: Path) -> None:
    os.truncate(database, 4096)


@pytest.mark.parametrize(("how", "words"), [(delete, "was deleted"), (truncate, "is damaged")])
def test_a_node_whose_database_is_gone_or_damaged_says_so_wherever_it_is_asked(
    node: tuple["subprocess.Popen[str]", Path, int], evenbeat: Evenbeat, how: Callable[[Path], None], words: str
) -> None:
    process, database, port = node
    how(database)
    eventually(lambda: ready(port)[0] == 503)
    assert "store" in ready(port)[1]
    added = evenbeat("add", "more", "--every", "1h", "--", "noop")
    assert added.code == 1
    assert words in added.err
    status = evenbeat("status", "--json")
    assert status.code == 1
    assert words in status.json["store"]
    asked = evenbeat("why", "often")
    assert asked.code == 1
    assert words in asked.err
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "action=store_failing" in err
    assert "not everything is committed" in err


def test_a_database_that_comes_back_is_used_again_and_the_log_says_so(
    node: tuple["subprocess.Popen[str]", Path, int], evenbeat: Evenbeat
) -> None:
    process, database, port = node
    database.rename(database.with_name("aside"))
    eventually(lambda: ready(port)[0] == 503)
    database.with_name("aside").rename(database)
    eventually(lambda: ready(port)[0] == 200)
    assert evenbeat("add", "more", "--every", "1h", "--", "noop").code == 0
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "the store works again" in err
    assert json.loads(evenbeat("ls", "--json").out)["tasks"]
