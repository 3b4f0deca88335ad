"""A webhook gets the document of a message once, signed; any 2xx answer is a delivery, and nothing else is."""

import hashlib
import hmac
import http.client
import json
import os
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from message_receivers import HttpReceiver
from sample_messages import document, item, order

from evenbeat.model import Contact
from evenbeat.sender import tls
from evenbeat.sender.attempt import Attempt
from evenbeat.sender.process import deliver
from evenbeat.testing.certificates import CertificateAuthority
from evenbeat.wire.sender_documents import DeliveryEnd

SECRET = "k3y-of-the-webhook"


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


def send(url: str, *, secret: str | None = None, seconds: float = 30) -> DeliveryEnd:
    return deliver(Attempt(order(Contact(webhook=url, secret=secret), seconds=seconds)))


def test_the_receiver_gets_the_document(receiver: HttpReceiver) -> None:
    message = document(item(labels={"host": "web1"}, told=["boss"]), item("db/ping", kind="recovery"), more=3)
    end = deliver(Attempt(order(Contact(webhook=receiver.url()), message)))
    assert (end.message, end.is_delivered, end.error, end.detail) == (12, True, "", "HTTP 200 Whatever")
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/ok")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["evenbeat-message"] == "12"
    assert "evenbeat-signature" not in request.headers
    said = request.document
    assert {name: said[name] for name in ("message", "contact", "possible_repetition", "more")} == {
        "message": 12,
        "contact": "ops",
        "possible_repetition": False,
        "more": 3,
    }
    assert [(one["task"], one["kind"], one["told"]) for one in said["items"]] == [
        ("web1/http", "problem", ["boss"]),
        ("db/ping", "recovery", []),
    ]
    assert set(said["items"][0]) >= {
        *("kind", "reminder", "task", "cause", "state", "flapping", "problem", "since", "output", "labels", "reason")
    }


def test_a_repetition_says_so(receiver: HttpReceiver) -> None:
    contact = Contact(webhook=receiver.url())
    deliver(Attempt(order(contact, possible_repetition=True)))
    assert receiver.requests[0].document["possible_repetition"] is True
    assert receiver.requests[0].document["message"] == 12


def test_the_signature_is_what_the_documentation_says(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEBHOOK_KEY", SECRET)
    before = int(time.time())
    assert send(receiver.url(), secret="env:WEBHOOK_KEY").is_delivered
    (request,) = receiver.requests
    signed = dict(part.split("=") for part in request.headers["evenbeat-signature"].split(","))
    assert before <= int(signed["t"]) <= time.time()
    # Computed by another program than ours.
    data = tmp_path / "data"
    data.write_bytes(signed["t"].encode() + b"." + request.body)
    command = ["openssl", "dgst", "-sha256", "-hmac", SECRET, str(data)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split()[-1] == signed["v1"]
    assert hmac.new(SECRET.encode(), request.body, hashlib.sha256).hexdigest() != signed["v1"], "the time is signed too"


def test_the_shell_commands_of_the_documentation_check_it(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "messages.md"
    found = re.search(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    monkeypatch.setenv("WEBHOOK_KEY", SECRET)
    assert send(receiver.url(), secret="env:WEBHOOK_KEY").is_delivered
    (request,) = receiver.requests
    (tmp_path / "body.json").write_bytes(request.body)

    def check(secret: str) -> str:
        given = {**os.environ, "header": request.headers["evenbeat-signature"], "secret": secret}
        command = ["sh", "-c", found[1]]
        return subprocess.run(command, cwd=tmp_path, env=given, check=False, capture_output=True, text=True).stdout

    assert check(SECRET) == "genuine\n"
    assert check("another") == ""
    (tmp_path / "body.json").write_bytes(request.body + b" ")
    assert check(SECRET) == ""


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_delivery(receiver: HttpReceiver, status: int) -> None:
    assert send(receiver.url(str(status))).is_delivered


@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 410, 429, 500, 503])
def test_any_other_answer_is_none(receiver: HttpReceiver, status: int) -> None:
    end = send(receiver.url(str(status)))
    assert not end.is_delivered
    assert f"HTTP {status} Whatever" in end.error
    assert not end.may_have_arrived


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (400, "for good"), (415, "for good"), (422, "for good"), (413, "too large"),
        *((status, "") for status in (301, 401, 403, 404, 408, 410, 425, 429, 500, 502, 503)),
    ],
)  # fmt: skip
def test_only_an_answer_about_the_message_itself_is_a_refusal_of_it(
    receiver: HttpReceiver, status: int, refusal: str
) -> None:
    assert send(receiver.url(str(status))).refusal == refusal


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_does_not_know_whether_the_message_arrived(receiver: HttpReceiver, status: int) -> None:
    end = send(receiver.url(str(status)))
    assert (end.is_delivered, end.may_have_arrived) == (False, True)


def test_redirects_are_not_followed(receiver: HttpReceiver) -> None:
    end = send(receiver.url("redirect"))
    assert not end.is_delivered
    assert "redirects are not followed" in end.error
    assert receiver.paths() == ["/redirect"]


@pytest.mark.parametrize("path", ["take-and-close", "garbage"])
def test_a_receiver_that_took_it_and_did_not_say_so_may_have_it(receiver: HttpReceiver, path: str) -> None:
    end = send(receiver.url(path))
    assert (end.is_delivered, end.may_have_arrived) == (False, True)
    assert len(receiver.requests) == 1


def test_an_answer_before_everything_was_read_counts(receiver: HttpReceiver) -> None:
    message = document(*(item(f"task {n}", output="x" * 250) for n in range(10_000)))
    end = deliver(Attempt(order(Contact(webhook=receiver.url("early")), message)))
    assert not end.is_delivered
    assert "413" in end.error or "closed" in end.error


def test_a_large_message_arrives(receiver: HttpReceiver) -> None:
    message = document(*(item(f"task {n}", output="ü" * 128) for n in range(10_000)))
    assert deliver(Attempt(order(Contact(webhook=receiver.url()), message))).is_delivered
    assert len(receiver.requests[0].document["items"]) == 10_000


def test_a_slow_answer_is_waited_for_and_an_endless_one_is_not_read(receiver: HttpReceiver) -> None:
    assert send(receiver.url("slow")).is_delivered
    assert send(receiver.url("huge")).is_delivered


def test_nobody_listens(receiver: HttpReceiver) -> None:
    port = receiver.port
    receiver.__exit__(None, None, None)
    end = send(f"http://127.0.0.1:{port}/services/T0KEN")
    assert (end.is_delivered, end.may_have_arrived) == (False, False)
    assert end.error == f"no connection to 127.0.0.1:{port}: connection refused"
    receiver.__init__()  # type: ignore[misc]  # for the fixture
    receiver.__enter__()


def test_a_host_that_does_not_exist() -> None:
    end = send("http://no-such-host.invalid/")
    assert not end.is_delivered
    assert end.error.startswith("no address of no-such-host.invalid was found: ")


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "http://", "http:///x", "https://[::1", "example.org", "http://h:99999/"]
)
def test_what_is_no_url_is_refused_without_being_shown(url: str) -> None:
    end = send(url)
    assert end.error == (
        "the URL of the webhook is none that can be used; accepted: http://HOST/PATH and https://HOST/PATH"
    )


def test_signs_that_a_path_may_not_have_are_encoded(receiver: HttpReceiver) -> None:
    assert send(receiver.url("ok/ä b/%41?x=1&y=a b")).is_delivered
    assert receiver.paths() == ["/ok/%C3%A4%20b/%41?x=1&y=a%20b"]


def test_a_url_cannot_smuggle_in_a_header(receiver: HttpReceiver) -> None:
    end = send(receiver.url("ok HTTP/1.1\r\nX-Evil: 1"))
    assert not end.is_delivered
    assert not receiver.requests


def test_a_login_in_the_url_is_sent_and_never_shown(receiver: HttpReceiver) -> None:
    assert send(receiver.url("ok", user="bot:pa%3Ass")).is_delivered
    assert receiver.requests[0].headers["authorization"] == "Basic Ym90OnBhOnNz"
    end = send(receiver.url("take-and-close", user="bot:passw0rd"))
    assert "passw0rd" not in repr(end)


# Encrypted


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


def serving(authority: CertificateAuthority, name: str, *addresses: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign(name, *addresses))
    return context


@pytest.fixture
def _trusted(authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    tls.tls_context.cache_clear()
    yield
    tls.tls_context.cache_clear()


@pytest.mark.usefixtures("_trusted")
def test_https_to_a_certificate_that_is_trusted(authority: CertificateAuthority) -> None:
    with HttpReceiver(serving(authority, "good", "IP:127.0.0.1")) as receiver:
        assert send(receiver.url()).is_delivered
        assert receiver.requests[0].headers["host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.usefixtures("_trusted")
def test_https_to_a_certificate_of_another_host(authority: CertificateAuthority) -> None:
    with HttpReceiver(serving(authority, "other", "DNS:example.org")) as receiver:
        end = send(receiver.url())
        assert "its certificate is not accepted: " in end.error
        assert not receiver.requests


def test_https_to_a_certificate_of_an_unknown_authority(authority: CertificateAuthority) -> None:
    tls.tls_context.cache_clear()
    with HttpReceiver(serving(authority, "good", "IP:127.0.0.1")) as receiver:
        end = send(receiver.url())
        assert (end.is_delivered, end.may_have_arrived) == (False, False)
        assert "its certificate is not accepted: " in end.error


def test_https_to_a_server_that_speaks_no_tls(receiver: HttpReceiver) -> None:
    end = send(receiver.url().replace("http:", "https:"))
    assert not end.is_delivered
    assert end.error.startswith("no encrypted connection to 127.0.0.1")


# Time


@pytest.mark.parametrize("path", ["hang", "trickle"])
def test_an_attempt_that_is_interrupted_ends_at_once(receiver: HttpReceiver, path: str) -> None:
    attempt = Attempt(order(Contact(webhook=receiver.url(path))))
    ends: list[DeliveryEnd] = []
    thread = threading.Thread(target=lambda: ends.append(deliver(attempt)))
    thread.start()
    receiver.wait_for(1)
    attempt.interrupt()
    thread.join(60)
    assert [(end.is_delivered, end.may_have_arrived) for end in ends] == [(False, True)]


def test_an_attempt_that_is_interrupted_before_it_begins_sends_nothing(receiver: HttpReceiver) -> None:
    attempt = Attempt(order(Contact(webhook=receiver.url())))
    attempt.interrupt()
    end = deliver(attempt)
    assert (end.is_delivered, end.may_have_arrived) == (False, False)
    assert not receiver.connections


def test_an_attempt_without_time_says_what_it_waited_for(receiver: HttpReceiver) -> None:
    end = send(receiver.url("hang"), seconds=2)
    assert end.error == f"gave up after 2 s while waiting for the answer of 127.0.0.1:{receiver.port}"
    assert end.may_have_arrived


def test_the_library_reads_no_more_of_an_answer_than_it_should() -> None:
    """What we rely on: heads of answers are bounded."""
    assert (http.client._MAXLINE, http.client._MAXHEADERS) == (65_536, 100)  # type: ignore[attr-defined]


def test_what_a_refusal_says_is_kept_short_and_without_secrets(receiver: HttpReceiver) -> None:
    receiver.answer_body = b"\x1b[31mno such hook: /500/T0KEN-in-path " + b"x" * 5_000
    end = send(receiver.url("500/T0KEN-in-path"))
    assert end.detail.startswith("\\x1b[31mno such hook: ***")
    assert len(end.detail) == 1_000
    assert "T0KEN" not in json.dumps(repr(end))
