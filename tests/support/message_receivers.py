"""Real receivers of messages, for HTTP and SMTP: they record what arrives, and can be slow, hang, lie and break off.

Each runs an event loop in a thread of its own, so that a test in another loop, or in none, may use it. Paths choose how
the HTTP receiver behaves: a request to /hang/anything is never answered.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from waiting import PATIENCE, eventually

_READ_LIMIT: Final = 64 << 20


class Receiver:
    """A server on a port of its own: `with HttpReceiver() as receiver: ...`. It ends with its connections."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._handlers: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0
        """How many were made."""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    @property
    def open_connections(self) -> int:
        """How many are open now."""
        return len(self._handlers)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._listening_tls(), limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        # What has just been accepted gets its handler first: a server that is closed leaves it open for ever.
        self._loop.remove_reader(server.sockets[0].fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        server.close()
        for handler in list(self._handlers):
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    def _listening_tls(self) -> ssl.SSLContext | None:
        return self._tls

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.get_running_loop().create_task(self._handle_to_its_end(reader, writer))
        self._handlers.add(handler)
        self.connections += 1

        def ended(_: asyncio.Task[None]) -> None:  # also if it was cancelled before it began
            self._handlers.discard(handler)
            must_end = self._stop.is_set() or writer.transport.is_closing()
            writer.transport.abort() if must_end else writer.close()

        handler.add_done_callback(ended)

    async def _handle_to_its_end(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            await self._handle(reader, writer)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


# HTTP


class ReceivedRequest(NamedTuple):
    """One request that arrived as a whole."""

    method: str
    path: str
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class HttpReceiver(Receiver):
    """The first part of the path says what it does with a request.

    ok and anything else: 200. 204, 500 ...: this status. redirect: 302 to /ok. hang: no answer. close: breaks off at
    once, before the request is read. take-and-close: takes the request and breaks off without an answer, so that the
    message comes again. slow: 200, a byte of the answer every 50 ms. trickle: an answer that never ends. huge: 200 with
    an endless body. garbage: no HTTP. early: 413 before the body is read. flaky: 503 to the first request, then 200.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.requests: list[ReceivedRequest] = []
        """Those that arrived as a whole, whatever was answered."""
        self.answer_body = b"thank you"

    def url(self, path: str = "ok", *, user: str = "", host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{user and user + '@'}{host}:{self.port}/{path}"

    def wait_for(self, count: int) -> list[ReceivedRequest]:
        """The first so many requests."""
        eventually(lambda: len(self.requests) >= count, f"{count} requests")
        return self.requests[:count]

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin = await reader.readexactly(1)
        if begin == b"\x16":
            return  # TLS, which it does not speak
        head = (begin + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.splitlines()
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        how = path.lstrip("/").partition("/")[0].partition("?")[0]
        if how == "close":
            writer.transport.abort()
            return
        if how == "early":
            await self._answer(writer, 413, b"too large")
            return
        size = min(int(headers.get("content-length", "0")), _READ_LIMIT)
        body = await reader.readexactly(size)
        known = how in [request.path.strip("/").partition("/")[0] for request in self.requests]
        self.requests.append(ReceivedRequest(method, path, headers, body))
        await self._behave(how, reader, writer, is_first=not known)

    async def _behave(
        self, how: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_first: bool
    ) -> None:
        match how:
            case "hang":
                await reader.read()  # until the other side closes
            case "take-and-close":
                writer.transport.abort()
            case "garbage":
                writer.write(b"\x1b[31mSSH-2.0-no\r\n\r\n")
                await writer.drain()
            case "slow":
                await _by_byte(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0.05)
            case "trickle":
                await _by_byte(writer, b"HTTP/1.1 200 OK\r\nX-More: " + b"and more " * 7_000, 0.02)
            case "huge":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    writer.write(b"x" * 65_536)
                    await writer.drain()
            case "redirect":
                await self._answer(writer, 302, b"", "Location: /ok\r\n")
            case "flaky":
                await self._answer(writer, 503 if is_first else 200, self.answer_body)
            case _:
                await self._answer(writer, int(how) if how.isdigit() else 200, self.answer_body)

    async def _answer(self, writer: asyncio.StreamWriter, status: int, body: bytes, headers: str = "") -> None:
        head = f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
        writer.write(head.encode() + (b"" if status == 204 else body))
        await writer.drain()


# SMTP


class ReceivedMail(NamedTuple):
    """One mail that was taken, whatever was answered."""

    sender: str
    recipients: list[str]
    data: bytes
    is_encrypted: bool
    login: str
    """What AUTH said, as "mechanism base64"; "" if nothing."""

    @property
    def message(self) -> EmailMessage:
        found = message_from_bytes(self.data, policy=default)
        assert isinstance(found, EmailMessage)
        return found

    @property
    def text(self) -> str:
        body = self.message.get_body(("plain",))
        assert body is not None
        return str(body.get_content()).replace("\r\n", "\n")


class SmtpReceiver(Receiver):
    """A mail server. `tls` with `starttls=True` is offered, else spoken from the beginning.

    `behaviour`: "ok"; "hang" does not even greet; "trickle" greets without an end; "close" breaks off after the mail
    was taken, without an answer; "refuse mail", "refuse size" and "refuse login" answer 5xx; "hang at quit"; addresses
    that begin with "nobody" are refused.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        *,
        starttls: bool = False,
        behaviour: str = "ok",
        has_login: bool = False,
    ) -> None:
        super().__init__(tls)
        self._starttls = starttls
        self._has_login = has_login
        self.behaviour = behaviour
        self.mails: list[ReceivedMail] = []
        self.commands: list[str] = []
        """All lines that came outside of mails."""

    def wait_for(self, count: int) -> list[ReceivedMail]:
        """The first so many mails."""
        eventually(lambda: len(self.mails) >= count, f"{count} mails")
        return self.mails[:count]

    def _listening_tls(self) -> ssl.SSLContext | None:
        return None if self._starttls else self._tls

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.behaviour == "hang":
            await reader.read()
            return
        if self.behaviour == "trickle":
            await _by_byte(writer, b"220-more\r\n" * 10_000, 0.02)
        await _SmtpSession(self, reader, writer, is_encrypted=self._listening_tls() is not None).run()

    @property
    def offers(self) -> list[str]:
        """What EHLO tells."""
        return (["STARTTLS"] if self._starttls else []) + (["AUTH PLAIN LOGIN"] if self._has_login else [])

    async def encrypt(self, writer: asyncio.StreamWriter) -> None:
        assert self._tls is not None
        await writer.start_tls(self._tls)


class _SmtpSession:
    def __init__(
        self, server: SmtpReceiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_encrypted: bool
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._is_encrypted = is_encrypted
        self._login = ""
        self._sender = ""
        self._recipients: list[str] = []

    async def run(self) -> None:
        await self._say("220 ready")
        while line := (await self._reader.readline()).decode("utf-8", "replace").rstrip("\r\n"):
            self._server.commands.append(line)
            word, _, rest = line.partition(" ")
            handle = self._handlers.get(word.upper())
            if handle is None:
                await self._say("502 no such command")
            elif not await handle(self, rest):
                return

    async def _say(self, *lines: str) -> bool:
        for line in lines[:-1]:
            self._writer.write(f"{line[:3]}-{line[4:]}\r\n".encode())
        self._writer.write(f"{lines[-1]}\r\n".encode())
        await self._writer.drain()
        return True

    async def _hello(self, rest: str) -> bool:
        return await self._say("250 here", *(f"250 {offer}" for offer in self._server.offers), "250 8BITMIME")

    async def _start_tls(self, rest: str) -> bool:
        await self._say("220 go ahead")
        await self._server.encrypt(self._writer)
        self._is_encrypted = True
        return True

    async def _log_in(self, rest: str) -> bool:
        self._login = rest
        if self._server.behaviour == "refuse login":
            return await self._say("535 5.7.8 wrong password")
        return await self._say("235 welcome")

    async def _mail(self, rest: str) -> bool:
        self._sender, self._recipients = _address(rest), []
        return await self._say("250 ok")

    async def _recipient(self, rest: str) -> bool:
        address = _address(rest)
        if address.startswith("nobody"):
            return await self._say("550 5.1.1 no such user")
        self._recipients.append(address)
        return await self._say("250 ok")

    async def _data(self, rest: str) -> bool:
        await self._say("354 go ahead")
        data = b""
        while (line := await self._reader.readline()) != b".\r\n":
            data += line.removeprefix(b".") if line.startswith(b"..") else line
        mail = ReceivedMail(self._sender, self._recipients, data, self._is_encrypted, self._login)
        self._server.mails.append(mail)
        if self._server.behaviour == "close":
            self._writer.transport.abort()
            return False
        if self._server.behaviour == "refuse mail":
            return await self._say("554 5.7.1 looks like spam")
        if self._server.behaviour == "refuse size":
            return await self._say("552 5.3.4 too large")
        return await self._say("250 2.0.0 queued as 4F2A")

    async def _reset(self, rest: str) -> bool:
        return await self._say("250 ok")

    async def _quit(self, rest: str) -> bool:
        if self._server.behaviour == "hang at quit":
            await self._reader.read()
        await self._say("221 bye")
        return False

    _handlers: Final[dict[str, Callable[[Any, str], Awaitable[bool]]]] = {
        "EHLO": _hello,
        "HELO": _hello,
        "STARTTLS": _start_tls,
        "AUTH": _log_in,
        "MAIL": _mail,
        "RCPT": _recipient,
        "DATA": _data,
        "RSET": _reset,
        "QUIT": _quit,
    }


def _address(rest: str) -> str:
    return rest.partition("<")[2].partition(">")[0]


async def _by_byte(writer: asyncio.StreamWriter, data: bytes, pause: float) -> None:
    for byte in data:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(pause)
