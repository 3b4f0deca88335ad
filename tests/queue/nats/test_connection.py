"""The connection to NATS that a node or worker has, with a server that does not do what it should."""

import asyncio

from evenbeat.queue.nats.address import parse_queue_address
from evenbeat.queue.nats.connection import NatsConnection


def test_a_connection_that_is_stopped_before_it_is_made_leaves_no_socket_open() -> None:
    async def whole() -> None:
        accepted, closed = asyncio.Event(), asyncio.Event()

        async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set()
            await reader.read()
            closed.set()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
        async with asyncio.timeout(60), server:
            port = server.sockets[0].getsockname()[1]
            connection = NatsConnection(parse_queue_address(f"nats://127.0.0.1:{port}"), "hasty", lambda: None)
            starting = asyncio.create_task(connection.start())
            await accepted.wait()
            await connection.stop()
            await closed.wait()
            starting.cancel()

    asyncio.run(whole())
