"""A node is killed while a retry waits: the next node makes it, once, as the attempt that it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_node import KilledNode
from waiting import eventually


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[KilledNode]:
    node = KilledNode(tmp_path)
    yield node
    node.kill()


def test_a_retry_that_waits_outlives_the_node(killed: KilledNode) -> None:
    line = f"echo $EVENBEAT_ATTEMPT >> {killed.log}; exit 1"
    killed.start()
    killed.ask("add", "job", "--at", "2099-01-01", "--retries", "1", "--backoff", "10s", "--shell", "--", line)
    killed.ask("run", "job")
    eventually(lambda: killed.ask("show", "job")["retry"], "the retry waits")
    nominal = killed.ask("history", "job")["runs"][0]["nominal"]
    killed.kill()
    assert killed.ask("show", "job")["retry"]["attempt"] == 2
    killed.start()
    eventually(lambda: killed.ask("problems")["problems"], "no attempt is left")
    assert killed.lines() == ["1", "2"]
    assert killed.runs() == [("forced", None, "failed"), ("retry", 2, "failed")]
    assert {run["nominal"] for run in killed.ask("history", "job")["runs"]} == {nominal}
