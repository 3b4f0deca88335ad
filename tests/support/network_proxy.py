"""The network between the processes of a cluster, as far as tests can break it: each has its own ways to the servers.

A link is one such way, through this process. It can be cut so that everybody notices, or silently, so that connections
stay and nothing arrives: what was under way arrives when it heals, however late that is.
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

_CHUNK: Final = 1 << 16
_HERE: Final = "127.0.0.1"


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


class Link:
    """From one process to one service, which may have several servers; made by `Network.link`."""

    def __init__(self, network: "Network", name: str) -> None:
        self.name = name
        self.ports: list[int] = []
        """Where to connect to instead of to the servers, in their order."""
        self.delay = 0.0
        """Seconds that everything takes longer, each way; may be set at any time."""
        self._network = network
        self._servers: list[asyncio.Server] = []
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_severed = False
        self._talks: set[asyncio.Task[None]] = set()

    def cut(self, *, silently: bool = False) -> None:
        """Nothing passes from now on; unless it is done silently, connections break and new ones fail."""
        self._network.do(self._cut(silently=silently))

    def heal(self) -> None:
        """As if nothing had been; what was held back goes on its way."""
        self._network.do(self._heal())

    @property
    def connections(self) -> int:
        return len(self._talks)

    async def open(self, servers: Sequence[Address]) -> None:
        """Listen, once for each server; called by the network, on its thread."""
        for server in servers:
            self._servers.append(await asyncio.start_server(self._listener(server), _HERE, 0))
            self.ports.append(self._servers[-1].sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Called by the network, on its thread."""
        for server in self._servers:
            server.close()
        self._is_severed = True  # who was accepted just now and has not been heard yet is sent away
        await self._break()

    async def _cut(self, *, silently: bool) -> None:
        self._flows.clear()
        if not silently:
            self._is_severed = True
            await self._break()

    async def _heal(self) -> None:
        self._is_severed = False
        self._flows.set()

    async def _break(self) -> None:
        talks = list(self._talks)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    def _listener(self, server: Address) -> Any:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._talks.add(task)
            try:
                if not self._is_severed:
                    await self._talk(server, reader, writer)
            except (OSError, asyncio.CancelledError):
                pass
            finally:
                writer.transport.abort()
                self._talks.discard(task)

        return talk

    async def _talk(self, server: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        far_reader, far_writer = await asyncio.open_connection(*server)
        ways = [
            asyncio.create_task(self._carry(reader, far_writer)),
            asyncio.create_task(self._carry(far_reader, writer)),
        ]
        try:
            # Who hangs up hangs up for both, once all that was said has arrived.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            far_writer.transport.abort()  # before anything is waited for: we may be cancelled once more
            await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        await self._flows.wait()


class Network:
    """All links of a test, on a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self.links: dict[str, Link] = {}

    def do(self, what: Coroutine[Any, Any, None]) -> None:
        """On the network's thread, and wait for it."""
        asyncio.run_coroutine_threadsafe(what, self._loop).result(timeout=30)

    def link(self, name: str, servers: Sequence[Address]) -> Link:
        """A new way to these servers."""
        made = Link(self, name)
        self.do(made.open(servers))
        self.links[name] = made
        return made

    def heal(self) -> None:
        """All that was cut or slow."""
        for link in self.links.values():
            link.delay = 0.0
            link.heal()

    def close(self) -> None:
        for link in self.links.values():
            self.do(link.close())
        with suppress(TimeoutError):
            self.do(_settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


async def _settle() -> None:
    """Let transports that were aborted say goodbye, before their loop is gone."""
    for _ in range(10):
        await asyncio.sleep(0)
