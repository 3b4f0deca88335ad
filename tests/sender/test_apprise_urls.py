"""URLs of apprise are delivered by apprise, to a real receiver; without it the outcome says how to install it."""

import sys
import threading
from collections.abc import Iterator

import pytest
from message_receivers import HttpReceiver
from sample_messages import LINK, document, item, order

from evenbeat.model import Contact
from evenbeat.sender.attempt import Attempt
from evenbeat.sender.process import deliver
from evenbeat.wire.sender_documents import DeliveryEnd, MessageDocument

apprise = pytest.importorskip("apprise", reason="the extra `notify` is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what apprise imports
TOKEN = "T0K3N-of-the-service"


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


def send(url: str, message: MessageDocument | None = None) -> DeliveryEnd:
    return deliver(Attempt(order(Contact(send=(url,)), message)))


def test_a_service_gets_subject_and_text(receiver: HttpReceiver) -> None:
    end = send(f"json://127.0.0.1:{receiver.port}/ok/apprise/{TOKEN}")
    assert (end.is_delivered, end.error, end.detail) == (True, "", "apprise delivered it")
    (request,) = receiver.requests
    assert request.document["title"] == "CRITICAL: web1/http - HTTP CRITICAL - connection refused"
    assert request.document["message"].startswith("web1/http has been CRITICAL since 2026-11-19 00:41 UTC (2 h 4 min).")
    assert LINK in request.document["message"]
    assert request.document["type"] == "failure"


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (item(state="warning"), "warning"),
        (item(kind="recovery"), "success"),
        (item(kind="acknowledged", who="anna"), "info"),
    ],
)
def test_a_service_learns_how_bad_it_is(receiver: HttpReceiver, one: object, kind: str) -> None:
    assert isinstance(one, type(item()))
    assert send(f"json://127.0.0.1:{receiver.port}/", document(one)).is_delivered
    assert receiver.requests[0].document["type"] == kind


def test_texts_of_others_are_text_for_a_service(receiver: HttpReceiver) -> None:
    output = "<b>&amp;</b> *bold* {{x}} \\n :smile: \x1b[31m"
    assert send(f"json://127.0.0.1:{receiver.port}/", document(item(output=output))).is_delivered
    assert "<b>&amp;</b> *bold* {{x}} \\n :smile: \\x1b[31m" in receiver.requests[0].document["message"]


def test_a_service_that_refuses(receiver: HttpReceiver) -> None:
    end = send(f"json://bot:{TOKEN}@127.0.0.1:{receiver.port}/500/{TOKEN}")
    assert not end.is_delivered
    assert end.error == "json://127.0.0.1: apprise could not deliver it"
    assert "500" in end.detail
    assert TOKEN not in repr(end)


def test_what_each_thread_is_told_is_its_own(receiver: HttpReceiver) -> None:
    ends: dict[int, DeliveryEnd] = {}

    def one(status: int) -> None:
        ends[status] = send(f"json://127.0.0.1:{receiver.port}/{status}/x")

    threads = [threading.Thread(target=one, args=(status,)) for status in (500, 401, 404, 418, 503)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for status, end in ends.items():
        assert f"error={status}" in end.detail
        assert not any(f"error={other}" in end.detail for other in ends if other != status)


@pytest.mark.parametrize("url", ["nosuchservice://x/y", f"slack://{TOKEN}", "just text"])
def test_a_url_that_apprise_does_not_know(url: str) -> None:
    end = send(url)
    assert end.error.endswith("apprise does not know such a URL, or a part of it is missing")
    assert not end.may_have_arrived
    assert TOKEN not in repr(end)


def test_without_apprise_the_outcome_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    end = send(f"slack://{TOKEN}/x")
    assert end.error == (
        "slack://...: this needs apprise, which is not installed: pip install 'evenbeat[notify]', then restart the node"
    )
    assert not end.may_have_arrived
