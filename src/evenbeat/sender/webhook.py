"""Deliver a message to a webhook: one signed POST of its JSON document. Any 2xx answer counts as delivered."""

import base64
import hashlib
import hmac
import http.client
import time
from contextlib import suppress
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from evenbeat.core.channels import is_reference
from evenbeat.sender.attempt import Attempt, NotDelivered, encode_document
from evenbeat.sender.tls import encrypt
from evenbeat.wire.sender_documents import Refusal

SIGNATURE_HEADER: Final = "Evenbeat-Signature"
_PORTS: Final = {"http": 80, "https": 443}
_KEPT_IN_URL: Final = "!#$%&'()*+,/:;=?@[]~"
"""Signs of a path that are not encoded: those that URLs may have, and % of what is encoded already."""
_ANSWER_LIMIT: Final = 4_096
"""Bytes of an answer that are read."""
_LOST_BY_GATEWAY: Final = frozenset({502, 504})
"""The gateway answers, and does not know whether the receiver behind it has the message."""
_REFUSALS: Final[dict[int, Refusal]] = {400: "for good", 413: "too large", 415: "for good", 422: "for good"}
"""Answers about the message itself. Any other, such as 401, 403 and 404, may be about a token or an address that is yet
to be corrected: the message is kept, and repeated.
"""


def signature(secret: bytes, timestamp: int, body: bytes) -> str:
    """The value of the header: the time, and HMAC-SHA256 of "TIME.BODY"."""
    digest = hmac.new(secret, b"%d.%b" % (timestamp, body), hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def deliver_by_webhook(attempt: Attempt) -> str:
    """Deliver it, and return what the receiver answered; raise NotDelivered."""
    order = attempt.order
    place = order.place
    parts = _split(attempt.resolve(place, "webhook"), place if is_reference(place) else "the URL of the webhook")
    shown = place if is_reference(place) else parts.netloc.rpartition("@")[2]
    body = encode_document(attempt.document())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "evenbeat",
        "Evenbeat-Message": str(order.message),
        "Connection": "close",
    }
    if order.secret is not None:
        secret = attempt.resolve(order.secret, "secret")
        headers[SIGNATURE_HEADER] = signature(secret.encode(), int(time.time()), body)
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return _post(attempt, parts, shown, headers, body)


def _split(url: str, what: str) -> SplitResult:
    problem = "accepted: http://HOST/PATH and https://HOST/PATH"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in _PORTS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or not url.isprintable():
        raise NotDelivered(f"{what} is none that can be used; {problem}")
    return parts


def _post(attempt: Attempt, parts: SplitResult, shown: str, headers: dict[str, str], body: bytes) -> str:
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    query = f"?{quote(parts.query, safe=_KEPT_IN_URL)}" if parts.query else ""
    path = quote(parts.path or "/", safe=_KEPT_IN_URL) + query
    with attempt.connect(host, port, shown) as plain:
        connection = http.client.HTTPConnection(host, port)
        connection.default_port = _PORTS[parts.scheme]  # for the header Host
        connection.sock = encrypt(attempt, plain, host, shown) if parts.scheme == "https" else plain
        try:
            attempt.waits_for = f"{shown} to take the message"
            connection.sock.settimeout(attempt.remaining())
            # The receiver may have answered before it had read everything.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", path, body, headers)
            attempt.has_left = True
            attempt.waits_for = f"the answer of {shown}"
            connection.sock.settimeout(attempt.remaining())
            with connection.getresponse() as answer:
                return _judge(attempt, answer)
        except (OSError, http.client.HTTPException, ValueError) as e:
            attempt.remaining()
            # The words of the library may have a part of the URL in them.
            problem = "the connection was closed without an answer"
            if isinstance(e, http.client.HTTPException) and not isinstance(e, http.client.RemoteDisconnected):
                problem = "what it answered is no HTTP"
            elif isinstance(e, TimeoutError):
                problem = "no answer in time"
            elif not attempt.has_left:
                problem = "the message could not be sent"
            raise NotDelivered(f"{shown}: {problem}", may_have_arrived=attempt.has_left) from None
        finally:
            connection.close()


def _judge(attempt: Attempt, answer: http.client.HTTPResponse) -> str:
    said = f"HTTP {answer.status} {attempt.quote(answer.reason)}".strip()
    if 200 <= answer.status < 300:
        return said
    text = ""
    with suppress(OSError, http.client.HTTPException, ValueError):  # the status says enough
        text = answer.read(_ANSWER_LIMIT).decode(errors="replace")
    problem = f"the receiver answered {said}"
    if 300 <= answer.status < 400:
        problem += ": redirects are not followed, so the webhook must be the address that it leads to"
    raise NotDelivered(
        problem,
        may_have_arrived=answer.status in _LOST_BY_GATEWAY,
        detail=attempt.quote(text),
        refusal=_REFUSALS.get(answer.status, ""),
    )
