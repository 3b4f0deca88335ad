"""Deliver a message as a mail: plain SMTP, STARTTLS or SMTPS, with a login if the URL of the server has one."""

import hashlib
import smtplib
import socket
import ssl
from contextlib import suppress
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import formatdate, getaddresses
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from evenbeat.core.channels import is_reference
from evenbeat.sender.attempt import Attempt, NotDelivered
from evenbeat.sender.text import subject_of, text_of
from evenbeat.sender.tls import encrypt, tls_context, tls_problem
from evenbeat.wire.sender_documents import Refusal

_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_REFUSALS: Final[dict[int, Refusal]] = {523: "too large", 552: "too large"}
"""Other refusals are by the policy of a server, which may be about any mail and change: the message is kept."""
_ACCEPTED: Final = "accepted: smtp://HOST, smtp+starttls://USER:PASSWORD@HOST, smtps://USER:PASSWORD@HOST:PORT"


class _Server(NamedTuple):
    """What the URL of a mail server says."""

    scheme: str
    host: str
    port: int
    user: str
    password: str
    shown: str
    """For people: its host, or the reference that led to it."""


def deliver_by_mail(attempt: Attempt) -> tuple[str, str]:
    """Deliver it to the addresses of the contact; raise NotDelivered.

    Return what the server answered, and which addresses it refused.
    """
    return _deliver(attempt, list(attempt.order.words))


def deliver_to_mailto(attempt: Attempt, url: str) -> tuple[str, str]:
    """Deliver it to the addresses of a URL such as mailto:anna@example.org, otherwise as `deliver_by_mail`."""
    parts = urlsplit(url)
    texts = [parts.path, *(also for also in parse_qs(parts.query).get("to", []))]
    return _deliver(attempt, [unquote(address) for text in texts for address in text.split(",") if address])


def compose_mail(attempt: Attempt, recipients: list[Address]) -> EmailMessage:
    """The mail. A repetition has the same Message-ID; mails about one problem are one thread."""
    order = attempt.order
    document = attempt.document()
    sender = _address(order.sender or f"evenbeat@{_own_name()}", "`sender`")
    # Of the node that sends it nothing is in the id: after a failover another one repeats the message.
    domain = sender.domain if order.sender and sender.domain.isascii() and sender.domain else "evenbeat"
    digest = _digest(order.channel.encode() + b"\n" + order.document)
    message = EmailMessage(policy=SMTP_POLICY)
    message["From"] = sender if sender.display_name else Address("evenbeat", addr_spec=sender.addr_spec)
    message["To"] = recipients
    message["Subject"] = subject_of(document)
    message["Date"] = formatdate(localtime=True)
    message["Message-ID"] = f"<message-{order.message}.{digest}@{domain}>"
    if len(document.items) == 1:
        item = document.items[0]
        thread = _digest(f"{order.contact}\n{item.task}\n{item.since}".encode())
        message["References"] = f"<problem-{item.problem}.{thread}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"  # so that no vacation notice answers it: RFC 3834
    message["X-Evenbeat-Message"] = str(order.message)
    message.set_content(text_of(document))
    return message


def _deliver(attempt: Attempt, addresses: list[str]) -> tuple[str, str]:
    server = _server(attempt)
    recipients = [_address(address, "an address of the contact") for address in addresses]
    if not recipients:
        raise NotDelivered("there is no address to send the mail to")
    message = compose_mail(attempt, recipients)
    connection = _Connection(attempt, server)
    try:
        return connection.deliver(message, recipients)
    except smtplib.SMTPRecipientsRefused as e:
        raise NotDelivered(f"{server.shown} refused {attempt.quote(_refused(e.recipients))}") from None
    except smtplib.SMTPAuthenticationError as e:
        answer = attempt.quote(_answer(e.smtp_code, e.smtp_error))
        raise NotDelivered(f"{server.shown} refused the login: {answer}") from None
    except smtplib.SMTPResponseException as e:
        answer = attempt.quote(_answer(e.smtp_code, e.smtp_error))
        refusal = _REFUSALS.get(e.smtp_code, "")
        raise NotDelivered(f"{server.shown} refused the mail: {answer}", refusal=refusal) from None
    except smtplib.SMTPNotSupportedError as e:
        raise NotDelivered(f"{server.shown}: {e}") from None
    except (smtplib.SMTPException, OSError, ValueError) as e:
        attempt.remaining()
        problem = tls_problem(e) if isinstance(e, ssl.SSLError) else "the connection was closed"
        raise NotDelivered(f"{server.shown}: {problem}", may_have_arrived=attempt.has_left) from None
    finally:
        connection.close()


class _Connection(smtplib.SMTP):
    """A connection to a mail server whose every step is bounded by the time that the attempt has left."""

    def __init__(self, attempt: Attempt, server: _Server) -> None:
        name = _own_name()
        super().__init__(local_hostname=name if name.isascii() else "localhost")
        self._attempt = attempt
        self._server = server
        self._host = server.host  # which the certificate after STARTTLS has to be for

    def deliver(self, message: EmailMessage, recipients: list[Address]) -> tuple[str, str]:
        """Send it to them."""
        server = self._server
        self.connect(server.host, server.port)
        self._begin(f"{server.shown} to be ready")
        if server.scheme == "smtp+starttls":
            self._begin(f"an encrypted connection to {server.shown}")
            self.starttls(context=tls_context())
            if self.sock is not None:
                self._attempt.watch_socket(self.sock)
        if server.user:
            self._begin(f"the login at {server.shown}")
            self.login(server.user, server.password)
        self._begin(f"{server.shown} to take the mail")
        sender = message["From"].addresses[0].addr_spec
        self._last_answer = (0, b"")
        refused = self.send_message(message, sender, [recipient.addr_spec for recipient in recipients])
        with suppress(OSError):
            self.putcmd("quit")  # whatever it answers: it has the mail
        return self._attempt.quote(
            _answer(*self._last_answer)
        ), f"refused {self._attempt.quote(_refused(refused))}" if refused else ""

    def data(self, msg: Any) -> tuple[int, bytes]:
        """From here on the server may have the mail. Our base class raises SMTPDataError if it refuses to get it."""
        self._begin(f"the answer of {self._server.shown}")
        self._attempt.has_left = True
        self._last_answer = super().data(msg)
        return self._last_answer

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:  # noqa: ARG002 - of the base class
        server = self._server
        connection = self._attempt.connect(host, port, server.shown)
        try:
            if server.scheme == "smtps":
                connection = encrypt(self._attempt, connection, host, server.shown)
            self._attempt.waits_for = f"{server.shown} to be ready"
            connection.settimeout(self._attempt.remaining())
        except BaseException:
            connection.close()  # our base class does not have it yet
            raise
        return connection

    def _begin(self, step: str) -> None:
        self._attempt.waits_for = step
        left = self._attempt.remaining()
        if self.sock is not None:
            self.sock.settimeout(left)


def _server(attempt: Attempt) -> _Server:
    order = attempt.order
    url = attempt.resolve(order.smtp, "smtp")
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0
    shown = order.smtp if is_reference(order.smtp) else "the mail server"
    if not (port and parts.hostname and url.isprintable()) or parts.path.strip("/") or parts.query:
        raise NotDelivered(f"the URL of {shown} is none that can be used; {_ACCEPTED}")
    if not is_reference(order.smtp):
        shown = parts.netloc.rpartition("@")[2]
    return _Server(
        parts.scheme, parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""), shown
    )


def _address(text: str, what: str) -> Address:
    """One address, with a name or without one. The library would take more than one line, and we do not."""
    found = getaddresses([text])
    name, address = found[0] if len(found) == 1 else ("", "")
    try:
        if not text.isprintable() or not address or any(sign.isspace() for sign in address):
            raise ValueError(text)
        if "@" not in address:
            return Address(name, username=address)
        return Address(name, addr_spec=address)
    except (ValueError, IndexError, MessageError):
        raise NotDelivered(f"{what}: {text[:100]!a} is no mail address") from None


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"{code} {words}"


def _refused(recipients: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{address} ({_answer(code, text)})" for address, (code, text) in recipients.items())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _own_name() -> str:
    """The name of this machine. Asking for its whole name might ask a name server."""
    return socket.gethostname() or "localhost"
