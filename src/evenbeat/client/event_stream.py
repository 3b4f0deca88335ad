"""Watch a live node from another process: its feed, as it comes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec

from evenbeat.node.process.control_socket import socket_address
from evenbeat.store.contract import StoreError
from evenbeat.store.sqlite.ownership import socket_path
from evenbeat.wire.events import EventMessage
from evenbeat.wire.requests import MAX_REQUEST_BYTES, SubscribeToEvents

_message_decoder: Final = msgspec.json.Decoder(EventMessage)


async def subscribe_to_events(database: Path | str, control: Path | None = None) -> AsyncIterator[EventMessage]:
    """All that the node of this database tells, the first at once; StoreError when it stops, or lets us go.

    `control` is where it listens, if the database does not say that.
    """
    try:
        with socket_address(control or socket_path(Path(database))) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=MAX_REQUEST_BYTES)
    except OSError as e:
        raise StoreError(f"the node of {database} does not answer: {e.strerror}") from None
    try:
        writer.write(msgspec.json.encode(SubscribeToEvents()) + b"\n")
        while (line := await reader.readline()).endswith(b"\n"):
            yield _message_decoder.decode(line)
    except OSError:
        pass
    finally:
        writer.close()
    raise StoreError(f"the node of {database} has stopped, or we did not keep up with it")
