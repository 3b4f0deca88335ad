"""The real server on a real port, in a thread of the test, with less patience than it has in life."""

import asyncio
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from api.home import WAIT, eventually
from evenbeat.api.auth.access import Access
from evenbeat.api.http.context import House
from evenbeat.api.http.protocol import PatientProtocol
from evenbeat.api.server import server_of, whole
from evenbeat.node.process.listen import Listen, bound
from evenbeat.store.sqlite.sqlite_store import SqliteStore


class Hasty(PatientProtocol):
    head_patience = 0.3
    body_patience = 0.3


class Serving:
    """`with Serving(folder) as serving: serving.say(b"GET / HTTP/1.1 ...")`."""

    def __init__(self, folder: Path, protocol: type[PatientProtocol] = Hasty) -> None:
        SqliteStore(folder / "serving.db").close()
        self.house = house = House(folder / "serving.db")
        listen = Listen("127.0.0.1", 0)
        self._socket = bound(listen)
        self.port: int = self._socket.getsockname()[1]
        access = Access(house, listen.host, is_open=True)
        self._server = server_of(house, whole(house, access, patience=protocol.body_patience), listen, protocol)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve([self._socket])), daemon=True)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT)
        connection.settimeout(WAIT)
        return connection

    def say(self, text: bytes) -> bytes:
        """All that is answered until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(text)
            return all_of(connection)

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self._server.started)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT)
        assert not self._thread.is_alive()


def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    data = b""
    while piece := connection.recv(65_536):
        data += piece
    return data
