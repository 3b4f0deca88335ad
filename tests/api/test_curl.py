"""The `curl` examples of the documentation, run as they stand against a node of their own."""

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from evenbeat.testing.reserved_ports import ReservedPort

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PAGES = [page for page in sorted(ROOT.glob("docs/**/*.md")) if "curl" in "".join(_BLOCK.findall(page.read_text()))]

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")


class Place(NamedTuple):
    """A node on the first example."""

    address: str
    """HOST:PORT."""
    folder: Path
    """Where the header with its token is, in the file `auth`."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    reserved = ReservedPort()
    place = f"127.0.0.1:{reserved.number}"
    database = tmp_path_factory.mktemp("curl") / "first.db"
    command = [sys.executable, "-m", "evenbeat", "up", str(ROOT / "examples/first.toml"), "--db", str(database)]
    with subprocess.Popen([*command, "--listen", place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as node:
        try:
            _wait_for(f"http://{place}/readyz")
            token = database.with_name("first.db.token").read_text()
            database.with_name("auth").write_text(f"Authorization: Bearer {token}")
            yield Place(place, database.parent)
        finally:
            node.send_signal(signal.SIGTERM)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urlopen(url, timeout=5).close()
        except (URLError, OSError):
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(0.1)
        else:
            return


def test_there_are_examples() -> None:
    assert [page.name for page in _PAGES]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_every_example_works(page: Path, place: Place) -> None:
    for block in _BLOCK.findall(page.read_text()):
        script = "set -euo pipefail\n" + block.replace("127.0.0.1:8629", place.address)
        command = ["bash", "-c", script]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, cwd=place.folder)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
