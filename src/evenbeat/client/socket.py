"""Asks a live node through its control socket: one JSON document out, one in, per line; or a stream of its events."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec

from evenbeat.model import Invalid
from evenbeat.store.contract import StoreError
from evenbeat.store.foreign_files import trusted_users, user_name
from evenbeat.store.sqlite.ownership import socket_address, socket_path
from evenbeat.wire.events import EventMessage
from evenbeat.wire.replies import Reply, raise_if_refused
from evenbeat.wire.requests import MAX_REQUEST_BYTES, Request, SubscribeToEvents

_READ_SIZE: Final = 1 << 20
_reply_decoder: Final = msgspec.json.Decoder(Reply)
_message_decoder: Final = msgspec.json.Decoder(EventMessage)


class SocketBackend:
    """A connection to the node of a database, for programs that wait for each reply."""

    is_live = True

    def __init__(self, database: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with socket_address(socket_path(database)) as address:
                self._socket.connect(address)
        except OSError as e:
            self._socket.close()
            raise StoreError(
                f"the node of {database} does not answer on {socket_path(database)}: {e.strerror}"
            ) from None
        _, user, _ = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user not in trusted_users(database):
            self._socket.close()
            words = (
                f"{socket_path(database)} is of {user_name(user)}, and no node of {database}: nothing was sent there"
            )
            raise StoreError(f"{words}; remove it, or use a folder that only you can write to")

    def ask(self, request: Request) -> Reply:
        """Ask the node; raise what it refuses."""
        line = msgspec.json.encode(request) + b"\n"
        if len(line) > MAX_REQUEST_BYTES:
            size, most = len(line) >> 20, MAX_REQUEST_BYTES >> 20
            raise Invalid(f"a request of {size} MiB, accepted: up to {most}; ask in parts")
        try:
            answer = self._exchange(line)
        except OSError as e:
            raise StoreError(f"the node stopped before it had answered: {e.strerror}") from None
        return _decode_reply(answer)

    def _exchange(self, line: bytes) -> bytes:
        self._socket.sendall(line)
        data = bytearray()
        while not data.endswith(b"\n"):
            piece = self._socket.recv(_READ_SIZE)
            if not piece:
                return b""
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


class NodeSocket:
    """The control socket of a node, for programs with an event loop: it blocks nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ask(self, request: Request) -> Reply:
        """Ask the node; raise what it refuses (Invalid, Conflict, NotFound), or StoreError if it does not answer."""
        reader, writer = await self._connect()
        try:
            writer.write(msgspec.json.encode(request) + b"\n")
            await writer.drain()
            line = await reader.readline()
        except (OSError, ValueError) as e:
            raise StoreError(f"the node stopped before it had answered: {e}") from None
        finally:
            writer.close()
        return _decode_reply(line)

    async def events(self) -> AsyncIterator[EventMessage]:
        """Everything that the node publishes, the first message at once.

        StoreError when the node stops or drops this subscriber.
        """
        reader, writer = await self._connect()
        try:
            writer.write(msgspec.json.encode(SubscribeToEvents()) + b"\n")
            while (line := await reader.readline()).endswith(b"\n"):
                yield _message_decoder.decode(line)
        except OSError:
            pass
        finally:
            writer.close()
        raise StoreError("the node has stopped, or we did not keep up with it")

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            with socket_address(self._path) as address:
                return await asyncio.open_unix_connection(address, limit=MAX_REQUEST_BYTES)
        except OSError as e:
            raise StoreError(f"the node does not answer: {os.strerror(e.errno or 0)}") from None


def _decode_reply(line: bytes) -> Reply:
    if not line:
        raise StoreError("the node stopped before it had answered")
    reply = _reply_decoder.decode(line)
    raise_if_refused(reply)
    return reply
