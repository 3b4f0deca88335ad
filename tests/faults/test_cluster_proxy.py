"""Does the network of the cluster tests break where it is cut, and nowhere else?"""

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from network_proxy import Address, Link, Network
from waiting import eventually


class Echo:
    """A server that says everything back, and keeps what it heard."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self.heard = b""
        self._talks: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                talk, _ = self._listener.accept()
                self._talks.append(talk)
                threading.Thread(target=self._echo, args=(talk,), daemon=True).start()

    def _echo(self, talk: socket.socket) -> None:
        with suppress(OSError):
            while data := talk.recv(1000):
                self.heard += data
                talk.sendall(data)

    def hang_up(self) -> None:
        for talk in self._talks:
            with suppress(OSError):
                talk.shutdown(socket.SHUT_RDWR)
            talk.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def caller(link: Link, which: int = 0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.ports[which]), timeout=10)


def is_broken(talk: socket.socket) -> bool:
    try:
        return talk.recv(1) == b""
    except ConnectionResetError:
        return True


def test_what_is_said_arrives_and_is_answered(network: Network, echo: Echo) -> None:
    with caller(network.link("a", [echo.address])) as talk:
        talk.sendall(b"hello")
        assert talk.recv(100) == b"hello"


def test_a_cut_breaks_connections_of_this_link_only_and_refuses_new_ones(network: Network, echo: Echo) -> None:
    cut, other = network.link("cut", [echo.address, echo.address]), network.link("other", [echo.address])
    with caller(cut) as first, caller(cut, 1) as second, caller(other) as third:
        for talk in (first, second, third):
            talk.sendall(b"x")
            assert talk.recv(1) == b"x"
        cut.cut()
        assert is_broken(first)
        assert is_broken(second)
        with caller(cut) as late:
            assert is_broken(late)
        third.sendall(b"y")
        assert third.recv(1) == b"y"
    cut.heal()
    with caller(cut) as again:
        again.sendall(b"z")
        assert again.recv(1) == b"z"


def test_a_silent_cut_holds_back_both_old_and_new_connections_until_it_heals(network: Network, echo: Echo) -> None:
    link = network.link("a", [echo.address])
    with caller(link) as old:
        old.sendall(b"1")
        assert old.recv(1) == b"1"
        link.cut(silently=True)
        old.sendall(b"2")
        with caller(link) as new:
            new.sendall(b"3")
            old.settimeout(0.2)
            with pytest.raises(TimeoutError):
                old.recv(1)
            assert echo.heard == b"1"
            link.heal()
            old.settimeout(10)
            assert old.recv(1) == b"2"
            assert new.recv(1) == b"3"


def test_who_hangs_up_hangs_up_for_both(network: Network, echo: Echo) -> None:
    link = network.link("a", [echo.address])
    with caller(link) as talk:
        talk.sendall(b"1")
        assert talk.recv(1) == b"1"
        echo.hang_up()
        assert is_broken(talk)
    eventually(lambda: link.connections == 0, "nobody is connected")


def test_a_server_that_is_not_there_is_not_there_through_a_link_either(network: Network, echo: Echo) -> None:
    link = network.link("a", [echo.address])
    echo.close()
    with caller(link) as talk:
        assert is_broken(talk)


def test_a_slow_link_delays(network: Network, echo: Echo) -> None:
    link = network.link("a", [echo.address])
    with caller(link) as talk:
        link.delay = 0.2
        talk.settimeout(0.1)
        talk.sendall(b"1")
        with pytest.raises(TimeoutError):
            talk.recv(1)
        talk.settimeout(10)
        assert talk.recv(1) == b"1"


def test_who_is_cut_off_while_hanging_up_leaves_nothing_open(network: Network, echo: Echo) -> None:
    link = network.link("a", [echo.address])

    async def twice() -> None:
        talks = list(link._talks)
        for talk in talks:
            talk.cancel()
        await asyncio.sleep(0)
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    with socket.create_connection(("127.0.0.1", link.ports[0])) as talk:
        talk.sendall(b"x")
        assert talk.recv(1) == b"x"
        network.do(twice())
    gc.collect()  # what was left open is told by now, and fails the test
