"""kill -9 of a node around every commit of alerts and every order to its sender: a real receiver is told everything
once, or what comes again is marked.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from message_receivers import HttpReceiver
from waiting import PATIENCE, eventually

_LAUNCHER = Path(__file__).parent.parent / "support" / "notifying_node_launcher.py"


class NotifyingNode:
    """A folder with a check that fails while a file is there, and the nodes that live and die on it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.broken = folder / "broken"
        self.file = folder / "evenbeat.toml"
        self.file.write_text(
            f"""
[contacts.ops]
webhook = "{url}"

[checks.web]
every = "1s"
attempts = 1
command = ["sh", "-c", "test ! -e {self.broken} || {{ echo no answer; exit 2; }}"]
notify = ["ops"]
gather = "0s"
"""
        )
        self.node: subprocess.Popen[bytes] | None = None

    def start(self, point: str = "never", nth: int = 0) -> None:
        words = [sys.executable, _LAUNCHER, self.folder / "evenbeat.db", self.file, point, nth]
        with (self.folder / "log").open("ab") as log:
            self.node = subprocess.Popen(list(map(str, words)), stdout=log, stderr=log)

    def wait_for_crash(self) -> None:
        assert self.node is not None
        assert self.node.wait(PATIENCE) == -signal.SIGKILL, (self.folder / "log").read_text()

    def stop(self) -> None:
        assert self.node is not None
        up = self.folder / f"up-{self.node.pid}"
        eventually(up.exists, "a node is up")
        self.node.terminate()
        assert self.node.wait(PATIENCE) == 0, (self.folder / "log").read_text()

    def close(self) -> None:
        if self.node is not None and self.node.poll() is None:
            self.node.kill()
            self.node.wait()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


@pytest.fixture
def notifying(tmp_path: Path, receiver: HttpReceiver) -> Iterator[NotifyingNode]:
    made = NotifyingNode(tmp_path, receiver.url())
    yield made
    made.close()


def told(receiver: HttpReceiver) -> list[str]:
    """The kinds of all items, in the order of their messages; of several deliveries of one at most one is unmarked."""
    documents = [request.document for request in list(receiver.requests)]
    unmarked = [document["message"] for document in documents if not document["possible_repetition"]]
    assert len(unmarked) == len(set(unmarked))
    messages = {document["message"]: document for document in documents}
    return [item["kind"] for document in messages.values() for item in document["items"]]


CRASHES = [(point, nth) for point in ("before", "after") for nth in (1, 2, 3, 4)] + [("ordered", 1)]


@pytest.mark.parametrize(("point", "nth"), CRASHES)
def test_a_problem_and_its_recovery_arrive_whatever_dies_when(
    notifying: NotifyingNode, receiver: HttpReceiver, point: str, nth: int
) -> None:
    notifying.broken.touch()
    notifying.start(point, nth)
    notifying.wait_for_crash()
    notifying.start()
    eventually(lambda: told(receiver) == ["problem"], "the problem")
    notifying.stop()
    notifying.start(point, nth)
    notifying.broken.unlink()
    notifying.wait_for_crash()
    notifying.start()
    eventually(lambda: told(receiver) == ["problem", "recovery"], "the recovery")
    notifying.stop()
    assert told(receiver) == ["problem", "recovery"]
