"""A connection to the HTTP API of a node: one request and its response, limited in size and time; a refusal is raised.

The token is sent to the given address only: no redirect is followed, and no proxy is used.
"""

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec
from msgspec import Struct

from evenbeat.model import Invalid
from evenbeat.store.contract import Conflict, StoreError
from evenbeat.wire.replies import NotFound

RESPONSE_TIMEOUT: Final = 30.0
"""Seconds within which some part of a response arrives."""
LONG_RESPONSE_TIMEOUT: Final = 600.0
"""The same, for requests that may change thousands of tasks."""
MAX_RESPONSE_BYTES: Final = 64 << 20
_JSON_MEDIA_TYPE: Final = "application/json"
_PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,512}")
_MAX_TEXT: Final = 4_096
QueryParameters = Sequence[tuple[str, str]]


class _ReceivedFieldError(Struct):
    detail: str = ""
    pointer: str = ""


class _ReceivedProblemDocument(Struct):
    """An error, in the form of RFC 9457."""

    detail: str = ""
    errors: list[_ReceivedFieldError] = []


class ApiConnection:
    """A connection to the API below a URL; its creator closes it."""

    def __init__(self, url: str, token: str = "", ca_file: str | None = None) -> None:
        self.errors: list[tuple[str, str]] = []
        """Of the latest refusal: JSON pointers, and what is wrong at each."""
        parts = _split_url(url)
        self.url: Final = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": _JSON_MEDIA_TYPE, "User-Agent": "evenbeat", **_authorization(token)}
        self._connection = _connection(parts, ca_file)
        self._is_used = False

    def request(
        self,
        method: str,
        path: str,
        query: QueryParameters = (),
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        patience: float | None = RESPONSE_TIMEOUT,
    ) -> bytes:
        """The JSON of a successful response; Invalid, NotFound or Conflict if it is refused, else StoreError."""
        target = self._path + path + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else msgspec.json.encode(body)
        sent = {**self._headers, **(headers or {}), **({} if data is None else {"Content-Type": _JSON_MEDIA_TYPE})}
        try:
            response = self._exchange(method, target, data, sent, patience)
            content = self._content(response)
        except TimeoutError:
            raise StoreError(f"{self.url} does not answer: nothing has come for {patience:g} s") from None
        except ssl.SSLCertVerificationError as e:
            how = "--ca-file or EVENBEAT_CA names the file of an authority of your own"
            raise StoreError(f"the certificate of {self.url} is not to be trusted: {e.verify_message}; {how}") from None
        except ConnectionError as e:
            raise StoreError(f"{self.url} does not answer: {e.strerror or 'it has hung up'}") from None
        except HTTPException:
            raise StoreError(self._no_node("what answers does not speak HTTP as it should")) from None
        except (OSError, UnicodeError) as e:
            raise StoreError(f"{self.url} does not answer: {getattr(e, 'strerror', None) or e}") from None
        return self._checked_content(response, content)

    def close(self) -> None:
        self._connection.close()

    def unexpected_response(self) -> StoreError:
        """The error for a response that no evenbeat node gives."""
        return StoreError(self._no_node("its answer is none that we know"))

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], patience: float | None
    ) -> HTTPResponse:
        if method != "GET":
            self._connection.close()  # a change is sent once: not on a connection that the server may have closed
            self._is_used = False
        while True:
            was_used, self._is_used = self._is_used, True
            try:
                self._connect(patience)
                self._connection.request(method, target, data, dict(headers))
                return self._connection.getresponse()
            except (ConnectionError, HTTPException) as e:
                self._connection.close()
                if not was_used or not isinstance(e, ConnectionError):
                    raise
                self._is_used = False

    def _connect(self, patience: float | None) -> None:
        if self._connection.sock is None:
            self._connection.timeout = RESPONSE_TIMEOUT
            self._connection.connect()
        # Waiting for the end of a run may take any time, but a server that is gone must be noticed.
        self._connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._connection.sock.settimeout(patience)

    def _content(self, response: HTTPResponse) -> bytes:
        too_large = StoreError(
            f"{self.url} answers with more than {MAX_RESPONSE_BYTES >> 20} MiB, accepted: up to that"
        )
        if (response.length or 0) > MAX_RESPONSE_BYTES:
            self.close()
            raise too_large
        content = response.read(MAX_RESPONSE_BYTES + 1)
        if len(content) > MAX_RESPONSE_BYTES:
            self.close()
            raise too_large
        return content

    def _checked_content(self, response: HTTPResponse, content: bytes) -> bytes:
        status, media = response.status, response.headers.get_content_type()
        if 300 <= status < 400:
            where = _safe_text(response.headers.get("location", "somewhere else"))
            raise StoreError(f"{self.url} sends us to {where}, where we do not follow: is that the --url you mean?")
        if status >= 400 and media == _PROBLEM_MEDIA_TYPE:
            raise self._refusal(status, content)
        if not 200 <= status < 300 or (media != _JSON_MEDIA_TYPE and status != 204):
            raise StoreError(self._no_node(f"it answers with {status} and {_safe_text(media)}"))
        return content

    def _refusal(self, status: int, content: bytes) -> Exception:
        try:
            problem = msgspec.json.decode(content, type=_ReceivedProblemDocument)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self.unexpected_response()
        text = _safe_text("\n".join(_error_text(error) for error in problem.errors) or problem.detail)
        self.errors = [(error.pointer, _safe_text(error.detail)) for error in problem.errors]
        match status:
            case 401:
                return Invalid(f"{self.url}: {text}; EVENBEAT_TOKEN is where it is looked for")
            case 404:
                return NotFound(text)
            case 409 | 412:
                return Conflict(text)
            case _ if status == 429 or status >= 500:
                return StoreError(f"{self.url}: {text}")
        return Invalid(text)

    def _no_node(self, why: str) -> str:
        return f"there is no evenbeat node at {self.url}: {why}"


def _split_url(url: str) -> SplitResult:
    accepted = "accepted: http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        is_good = False
    if not is_good or len(url) > 2_000 or not (url.isascii() and url.isprintable() and " " not in url):
        raise Invalid(f"this is not the URL of a node, {accepted}", place="--url")
    if "@" in parts.netloc:
        raise Invalid("a URL with a user or a password in it; the token belongs into EVENBEAT_TOKEN", place="--url")
    if parts.query or parts.fragment:
        raise Invalid(f"a URL with ? or # in it, {accepted}", place="--url")
    return parts


def _authorization(token: str) -> dict[str, str]:
    token = token.strip()
    if not token:
        return {}
    if not _TOKEN.fullmatch(token):
        raise Invalid("there are signs in it that no token has; accepted: evb_...", place="EVENBEAT_TOKEN")
    return {"Authorization": f"Bearer {token}"}


def _connection(parts: SplitResult, ca_file: str | None) -> HTTPConnection:
    assert parts.hostname is not None
    if parts.scheme == "http":
        return HTTPConnection(parts.hostname, parts.port)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise Invalid(f"{ca_file} has no certificates in it, accepted: PEM", place="--ca-file") from None
    except OSError as e:
        raise Invalid(f"{ca_file} cannot be read: {e.strerror}", place="--ca-file") from None
    return HTTPSConnection(parts.hostname, parts.port, context=context)


def _error_text(error: _ReceivedFieldError) -> str:
    where = error.pointer.removeprefix("/").replace("/", ".").replace("~1", "/").replace("~0", "~")
    return f"{where}: {error.detail}" if where else error.detail


def _safe_text(text: str) -> str:
    """Text from a server, without characters that would control a terminal."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text[:_MAX_TEXT])
