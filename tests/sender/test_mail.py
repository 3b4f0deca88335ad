"""A mail is one message to all addresses of a contact, over plain SMTP, STARTTLS or SMTPS."""

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from message_receivers import SmtpReceiver
from sample_messages import LINK, document, item, order

from evenbeat.model import Contact
from evenbeat.sender import tls
from evenbeat.sender.attempt import Attempt
from evenbeat.sender.process import deliver
from evenbeat.testing.certificates import CertificateAuthority
from evenbeat.wire.sender_documents import DeliveryEnd, MessageDocument

PASSWORD = "pa:ss/w0rd"


@pytest.fixture
def receiver() -> Iterator[SmtpReceiver]:
    with SmtpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def context(authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """Of a server whose certificate is trusted."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("mail", "IP:127.0.0.1"))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    tls.tls_context.cache_clear()
    yield context
    tls.tls_context.cache_clear()


def contact(
    receiver: SmtpReceiver, *addresses: str, scheme: str = "smtp", login: str = "", sender: str | None = None
) -> Contact:
    url = f"{scheme}://{login and login + '@'}127.0.0.1:{receiver.port}"
    return Contact(email=addresses or ("anna@example.org",), smtp=url, sender=sender)


def send(whom: Contact, message: MessageDocument | None = None, *, seconds: float = 30) -> DeliveryEnd:
    return deliver(Attempt(order(whom, message, seconds=seconds)))


def test_a_mail_says_what_is_wrong(receiver: SmtpReceiver) -> None:
    message = document(item(told=["boss"], acknowledge="evenbeat ack web1/http"))
    end = send(contact(receiver, "anna@example.org", "bob@example.org", sender="evenbeat@example.org"), message)
    assert (end.is_delivered, end.error, end.detail) == (True, "", "250 2.0.0 queued as 4F2A")
    (mail,) = receiver.mails
    assert mail.sender == "evenbeat@example.org"
    assert mail.recipients == ["anna@example.org", "bob@example.org"]
    head = mail.message
    assert head["From"] == "evenbeat <evenbeat@example.org>"
    assert head["To"] == "anna@example.org, bob@example.org"
    assert head["Subject"] == "CRITICAL: web1/http - HTTP CRITICAL - connection refused"
    assert head["Auto-Submitted"] == "auto-generated"
    assert parsedate_to_datetime(head["Date"]).tzinfo is not None
    assert mail.text.splitlines() == [
        "web1/http has been CRITICAL since 2026-11-19 00:41 UTC (2 h 4 min).",
        "",
        "HTTP CRITICAL - connection refused",
        "",
        "Also told: boss",
        "To acknowledge: evenbeat ack web1/http",
        LINK,
    ]


def test_a_repetition_has_the_same_id_and_another_message_has_not(receiver: SmtpReceiver) -> None:
    whom = contact(receiver)
    for one in (document(), document(), document(message=13)):
        assert send(whom, one).is_delivered
    assert deliver(Attempt(order(whom, possible_repetition=True))).is_delivered
    first, again, other, marked = [mail.message["Message-ID"] for mail in receiver.mails]
    assert first == again == marked != other
    assert "before" in receiver.mails[3].text


def test_messages_of_two_databases_with_the_same_number_are_two_messages(receiver: SmtpReceiver) -> None:
    send(contact(receiver), document())
    send(contact(receiver), document(item("another")))
    send(contact(receiver, "carl@example.org"), document())
    assert len({mail.message["Message-ID"] for mail in receiver.mails}) == 3


def test_mails_about_one_problem_are_one_thread(receiver: SmtpReceiver) -> None:
    whom = contact(receiver)
    send(whom, document(item(problem=7), message=1))
    send(whom, document(item(problem=7, kind="recovery"), message=2))
    send(whom, document(item(problem=8), message=3))
    send(whom, document(item(problem=7), item(problem=8), message=4))
    first, second, third, digest = [mail.message["References"] for mail in receiver.mails]
    assert first == second != third
    assert digest is None


@pytest.mark.parametrize(
    "output", ["a\r\nBcc: evil@example.org\r\n\r\nhello", "\nSubject: mine", "x\x00y", "\u2028.\r\n.\r\n"]
)
def test_an_output_cannot_become_a_header_or_end_the_mail(receiver: SmtpReceiver, output: str) -> None:
    for one in (
        item(output=output),
        item(output, output=output),
        item(labels={"a": output}, cause="failed", output=output),
    ):
        assert send(contact(receiver), document(one)).is_delivered
    assert len(receiver.mails) == 3
    for mail in receiver.mails:
        assert set(mail.message.keys()) == {
            *("From", "To", "Subject", "Date", "Message-ID", "References", "Auto-Submitted", "X-Evenbeat-Message"),
            *("MIME-Version", "Content-Type", "Content-Transfer-Encoding"),
        }
        assert mail.message["Subject"].isprintable()
        assert mail.recipients == ["anna@example.org"]
        assert mail.text.endswith(f"{LINK}\n")


@pytest.mark.parametrize(
    "address",
    ["", "anna@example.org\r\nBcc: x@y", "a b@example.org", "@example.org", "anna@example.org, bob@x.org", "a\tb@c"],
)
def test_what_is_no_address_is_refused(receiver: SmtpReceiver, address: str) -> None:
    end = send(Contact(email=(address or " ",), smtp=f"smtp://127.0.0.1:{receiver.port}"))
    assert end.error.endswith("is no mail address")
    assert not receiver.mails


def test_other_alphabets_arrive(receiver: SmtpReceiver) -> None:
    send(contact(receiver), document(item("Größe/Διαθεσιμότητα", output="ещё раз")))
    (mail,) = receiver.mails
    assert mail.message["Subject"] == "CRITICAL: Größe/Διαθεσιμότητα - ещё раз"
    assert "ещё раз" in mail.text
    assert mail.data.isascii()


def test_a_server_that_asks_for_a_login(authority: CertificateAuthority, context: ssl.SSLContext) -> None:
    with SmtpReceiver(context, starttls=True, has_login=True) as receiver:
        whom = contact(receiver, scheme="smtp+starttls", login="bot:pa%3Ass%2Fw0rd")
        assert send(whom).is_delivered
        (mail,) = receiver.mails
        assert mail.is_encrypted
        assert base64.b64decode(mail.login.split()[1]) == f"\0bot\0{PASSWORD}".encode()
        assert receiver.commands.index("STARTTLS") < next(
            n for n, command in enumerate(receiver.commands) if command.startswith("AUTH")
        )


def test_smtps(context: ssl.SSLContext) -> None:
    with SmtpReceiver(context, has_login=True) as receiver:
        assert send(contact(receiver, scheme="smtps", login=f"bot:{PASSWORD.replace('/', '%2F')}")).is_delivered
        assert receiver.mails[0].is_encrypted


def test_starttls_that_is_not_offered_sends_nothing_in_the_open(receiver: SmtpReceiver) -> None:
    end = send(contact(receiver, scheme="smtp+starttls", login="bot:secret-pw"))
    assert "STARTTLS" in end.error
    assert not end.may_have_arrived
    assert not any("AUTH" in command or "MAIL" in command for command in receiver.commands)


def test_a_certificate_that_is_not_trusted(authority: CertificateAuthority) -> None:
    tls.tls_context.cache_clear()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("mail", "IP:127.0.0.1"))
    for starttls in (True, False):
        with SmtpReceiver(context, starttls=starttls) as receiver:
            end = send(contact(receiver, scheme="smtp+starttls" if starttls else "smtps"))
            assert "its certificate is not accepted" in end.error
            assert not receiver.mails


def test_a_login_that_is_refused(context: ssl.SSLContext) -> None:
    with SmtpReceiver(context, starttls=True, has_login=True, behaviour="refuse login") as receiver:
        end = send(contact(receiver, scheme="smtp+starttls", login="bot:secret-pw"))
        assert "refused the login: 535 5.7.8 wrong password" in end.error
        assert "secret-pw" not in repr(end)
        assert not end.may_have_arrived


def test_a_mail_that_is_refused_did_not_arrive() -> None:
    with SmtpReceiver(behaviour="refuse mail") as receiver:
        end = send(contact(receiver))
        assert (end.is_delivered, end.may_have_arrived) == (False, False)
        assert end.error == f"127.0.0.1:{receiver.port} refused the mail: 554 5.7.1 looks like spam"
        assert end.refusal == "", "a filter may think better of it"


def test_a_mail_that_is_too_large_is_refused_as_such() -> None:
    with SmtpReceiver(behaviour="refuse size") as receiver:
        end = send(contact(receiver))
        assert (end.refusal, end.may_have_arrived) == ("too large", False)
        assert "552 5.3.4 too large" in end.error


def test_an_address_that_is_refused_keeps_the_mail_from_no_other(receiver: SmtpReceiver) -> None:
    end = send(contact(receiver, "nobody@example.org", "anna@example.org"))
    assert end.is_delivered
    assert end.error == "refused nobody@example.org (550 5.1.1 no such user)"
    assert receiver.mails[0].recipients == ["anna@example.org"]
    end = send(contact(receiver, "nobody@example.org"))
    assert not end.is_delivered
    assert "refused nobody@example.org (550 5.1.1 no such user)" in end.error


def test_a_server_that_breaks_off_after_the_mail_may_have_it() -> None:
    with SmtpReceiver(behaviour="close") as receiver:
        end = send(contact(receiver))
        assert (end.is_delivered, end.may_have_arrived) == (False, True)
        assert len(receiver.mails) == 1


def test_a_server_that_does_not_say_good_bye_has_the_mail() -> None:
    with SmtpReceiver(behaviour="hang at quit") as receiver:
        assert send(contact(receiver)).is_delivered


@pytest.mark.parametrize("behaviour", ["hang", "trickle"])
def test_a_server_that_does_not_greet_is_left(behaviour: str) -> None:
    with SmtpReceiver(behaviour=behaviour) as receiver:
        attempt = Attempt(order(contact(receiver)))
        ends: list[DeliveryEnd] = []
        thread = threading.Thread(target=lambda: ends.append(deliver(attempt)))
        thread.start()
        while not receiver.connections:
            thread.join(0.01)
        attempt.interrupt()
        thread.join(60)
        assert [(end.is_delivered, end.may_have_arrived) for end in ends] == [(False, False)]


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_a_connection_is_closed_if_time_is_up_when_it_has_just_been_made(
    receiver: SmtpReceiver, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    attempt = Attempt(order(contact(receiver, scheme=scheme)))
    connect, made = attempt.connect, []

    def connect_too_late(host: str, port: int, shown: str) -> socket.socket:
        made.append(connect(host, port, shown))
        attempt.interrupt()
        return made[-1]

    monkeypatch.setattr(attempt, "connect", connect_too_late)
    assert not deliver(attempt).is_delivered
    assert [connection.fileno() for connection in made] == [-1]


@pytest.mark.parametrize("url", ["http://host", "smtp://", "smtp://host/path", "host", "smtp://host:99999"])
def test_what_is_no_url_of_a_mail_server_is_refused(url: str) -> None:
    end = send(Contact(email=("anna@example.org",), smtp=url))
    assert end.error.startswith("the URL of the mail server is none that can be used; accepted: smtp://HOST")


def test_the_url_may_be_a_reference(receiver: SmtpReceiver, tmp_path: Path) -> None:
    secret = tmp_path / "smtp"
    secret.write_text(f"smtp://127.0.0.1:{receiver.port}\n")
    assert send(Contact(email=("anna@example.org",), smtp=f"file:{secret}")).is_delivered
    secret.write_text("smtp://bot:secret-pw@no-such-host.invalid")
    end = send(Contact(email=("anna@example.org",), smtp=f"file:{secret}"))
    assert end.error.startswith(f"no address of file:{secret} was found")
    assert "secret-pw" not in repr(end)
    assert "no-such-host" not in repr(end)


def test_mailto_needs_no_apprise(receiver: SmtpReceiver) -> None:
    whom = Contact(send=("mailto:anna@example.org,bob%40example.org?to=carl@example.org",))
    assert deliver(Attempt(order(whom, smtp=f"smtp://127.0.0.1:{receiver.port}"))).is_delivered
    assert receiver.mails[0].recipients == ["anna@example.org", "bob@example.org", "carl@example.org"]
