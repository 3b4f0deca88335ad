"""The real server on a real port, in a thread of the test, with less patience than it has in life."""

import asyncio
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from waiting import PATIENCE, eventually

from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.protocol import TimeoutProtocol
from evenbeat.api.server import create_server, protected_application
from evenbeat.node.process.listen import ListenAddress, bind_socket
from evenbeat.store.sqlite.sqlite_store import SqliteStore


class ImpatientProtocol(TimeoutProtocol):
    headers_timeout = 0.3
    body_timeout = 0.3


class HttpServer:
    """`with HttpServer(folder) as serving: serving.say(b"GET / HTTP/1.1 ...")`."""

    def __init__(self, folder: Path, protocol: type[TimeoutProtocol] = ImpatientProtocol) -> None:
        if not (folder / "serving.db").exists():  # else a node may be running on it
            SqliteStore(folder / "serving.db").close()
        self.context = context = ApiContext(folder / "serving.db")
        listen = ListenAddress("127.0.0.1", 0)
        self._socket = bind_socket(listen)
        self.port: int = self._socket.getsockname()[1]
        access = TokenAuthenticator(context, listen.host, is_open=True)
        self.server = create_server(
            context, protected_application(context, access, patience=protocol.body_timeout), listen, protocol
        )
        self._thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([self._socket])), daemon=True)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.settimeout(PATIENCE)
        return connection

    def say(self, text: bytes) -> bytes:
        """All that is answered until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(text)
            return all_of(connection)

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self.server.started)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    data = b""
    while piece := connection.recv(65_536):
        data += piece
    return data
