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


def test_a_connection_that_a_server_drops_before_it_names_itself_is_closed() -> None:
    async def whole() -> None:
        attempts, closed, is_up_again = 0, asyncio.Event(), asyncio.Event()

        async def drops_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 2:
                writer.write_eof()
                await reader.read()
                closed.set()
            else:
                writer.write(b'INFO {"max_payload": 1048576, "headers": true}\r\n')
                while (line := await reader.readline()) and not (line == b"PING\r\n" and attempts == 1):
                    if line == b"PING\r\n":
                        writer.write(b"PONG\r\n")
                if line:
                    writer.write(b"PONG\r\n")
                    await writer.drain()
            writer.close()
            await writer.wait_closed()

        ups = 0

        def on_up() -> None:
            nonlocal ups
            ups += 1
            if ups == 2:
                is_up_again.set()

        server = await asyncio.start_server(drops_the_second, "127.0.0.1", 0)
        async with asyncio.timeout(60), server:
            port = server.sockets[0].getsockname()[1]
            connection = NatsConnection(parse_queue_address(f"nats://127.0.0.1:{port}"), "patient", on_up)
            await connection.start()
            await is_up_again.wait()
            await closed.wait()
            await connection.stop()

    asyncio.run(whole())
