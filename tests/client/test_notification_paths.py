"""What is said of notifications is the same by each way: beside a live node, by its URL, and after it has stopped."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from http_server import HttpServer
from live_node import LiveNode
from message_receivers import HttpReceiver
from waiting import eventually

from conftest import Evenbeat
from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.model import Instant
from evenbeat.report.contacts import contact_document
from evenbeat.store.alert_records import ALL_DECISIONS, ALL_MESSAGES, AlertDecisionFilter, MessageFilter
from evenbeat.store.contract import ProblemFilter


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


def everything(client: Client) -> dict[str, Any]:
    """All that is said, without how long it is until what is to come."""
    problems = client.problems(ProblemFilter(is_open=None))
    found = {
        "why": {name: client.why(name).notified for name in ("web", "lone")},
        "then": client.why("web", "2020-01-01").notified,
        "timeline": [client.problem_timeline(problem.id) for problem in problems],
        "messages": client.messages(ALL_MESSAGES),
        "newest": client.messages(MessageFilter(contact="ops", most=1)),
        "notifications": client.notifications(ALL_DECISIONS),
        "about web": client.notifications(AlertDecisionFilter(task="web", contact="ops", since=Instant(1), most=2)),
        "contacts": [contact_document(info, secrets=True) for info in client.contacts()],
    }
    text = re.sub(rb"(in|within) \d+ (min|s)( \d+ s)?", b"soon", msgspec.json.encode(found))
    settled: dict[str, Any] = _settled(msgspec.json.decode(text))
    return settled


def _settled(found: Any) -> Any:
    """Without what the next attempt to deliver a message changes, which happens while this is read."""
    if isinstance(found, list):
        return [_settled(one) for one in found]
    if not isinstance(found, dict):
        return found
    is_waiting = "waiting" in (found.get("state"), found.get("delivery"))
    changing = ("attempts", "next_attempt", "error", "detail", "text", "possible_repetition") if is_waiting else ()
    return {key: _settled(value) for key, value in found.items() if key not in changing}


FILE = """
[contacts.ops]
webhook = "{url}"
email = ["ops@localhost"]
smtp = "smtp://127.0.0.1:1"

[contacts.boss]
command = ["true"]

[checks.web]
every = "1s"
attempts = 1
command = ["sh", "-c", "echo no answer; exit 2"]
notify = ["ops", {{ to = "boss", after = "1d" }}]
gather = "0s"

[checks.lone]
every = "1h"
command = ["true"]
"""


def test_live_and_stopped_command_and_api_agree(tmp_path: Path, receiver: HttpReceiver, evenbeat: Evenbeat) -> None:
    file, database = tmp_path / "evenbeat.toml", tmp_path / "serving.db"
    file.write_text(FILE.format(url=receiver.url()))
    with ExitStack() as stack:
        stack.enter_context(LiveNode(database, files=(file,)))
        receiver.wait_for(1)
        far = stack.enter_context(
            closing(HttpClient(ApiConnection(f"http://127.0.0.1:{stack.enter_context(HttpServer(tmp_path)).port}")))
        )
        near = stack.enter_context(closing(DatabaseClient(database, "eva")))
        eventually(lambda: _ends(near) == {"webhook": "delivered", "email": "waiting"})
        found = everything(near)
        assert everything(far) == found
        status = far.status()
        assert (status.messages_waiting, status.failing_contacts) == (1, ["ops"])
    with closing(DatabaseClient(database, "eva")) as stopped:
        left = everything(stopped)
    assert left == found
    by_place = {line["place"]: line for line in found["why"]["web"]}
    assert by_place["webhook http://127.0.0.1"]["delivery"] == "delivered"
    assert by_place["email ops@localhost"]["delivery"] == "waiting"
    assert found["why"]["lone"][0]["text"] == "nobody is notified: it has no `notify`"
    said = evenbeat("why", "web", "--db", str(database))
    assert "notified\n  - ops was told on " in said.out
    assert evenbeat("why", "web", "--json", "--db", str(database)).json["notified"]
    shown = evenbeat("contacts", "ops", "--db", str(database))
    assert shown.code == 0
    assert "email ops@localhost (failing): " in shown.out
    document = evenbeat("contacts", "ops", "--json", "--db", str(database)).json
    assert [message["kind"] for message in document["messages"]].count("webhook") == 1
    assert [place["failing"] for place in document["places"]] == [False, True]


def _ends(client: Client) -> dict[str, str]:
    """The messages that were tried, by kind."""
    return {message.kind: message.state for message in client.messages(ALL_MESSAGES) if message.attempts}
