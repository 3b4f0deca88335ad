"""The receivers of the tests themselves: whenever one ends, it leaves no connection behind for the tests after it."""

import gc
import socket

import pytest
from message_receivers import HttpReceiver


@pytest.mark.parametrize("said", [b"", b"POST /hang HTTP/1.1\r\n\r\n", b"POST /huge HTTP/1.1\r\n\r\n"])
def test_a_receiver_that_ends_closes_connections_that_have_just_been_made(said: bytes) -> None:
    connections = []
    for _ in range(50):
        with HttpReceiver() as receiver:
            connections.append(socket.create_connection(("127.0.0.1", receiver.port)))
            connections[-1].sendall(said)
    gc.collect()  # a transport that was left open complains now, not in another test
    for connection in connections:
        connection.close()
