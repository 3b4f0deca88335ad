"""PostgreSQL over TLS: with sslmode=verify-full nobody else is taken for the server, and nothing is said in the clear.

The PostgreSQL of the wheel is built without OpenSSL, so that TLS is spoken by something in front of it, as a proxy does
in many places; where another PostgreSQL is installed that can, it is asked too.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from evenbeat.store.addresses import without_password
from evenbeat.store.contract import StoreError
from evenbeat.store.opening import open_store
from evenbeat.testing.certificates import CertificateAuthority
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries, supports_tls

TLS_PLEASE = bytes.fromhex("0000000804d2162f")


class TlsInFront:
    """Speaks TLS to clients that ask for it as PostgreSQL's do, and passes on what they say."""

    def __init__(self, port: int, certificate: Path, key: Path) -> None:
        self._server_port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if client.recv(8, socket.MSG_WAITALL) != TLS_PLEASE:
                return  # nothing in the clear
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as safe,
                socket.create_connection(("127.0.0.1", self._server_port)) as server,
            ):
                threading.Thread(target=_pass_on, args=(server, safe), daemon=True).start()
                _pass_on(safe, server)

    def close(self) -> None:
        self._listening.close()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while data := one.recv(65_536):
            other.sendall(data)
        other.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def plain() -> Iterator[PostgresServer]:
    """Without TLS."""
    server = PostgresServer(durable=False).start()
    yield server
    server.close()


@pytest.fixture(scope="module", params=["something in front", "PostgreSQL itself"])
def database(request: pytest.FixtureRequest, plain: PostgresServer, authority: CertificateAuthority) -> Iterator[str]:
    """An address that TLS can be spoken with."""
    certificate, key = authority.sign("database", "DNS:localhost")
    if request.param == "something in front":
        front = TlsInFront(plain.port, certificate, key)
        yield plain.create_database().replace(f"127.0.0.1:{plain.port}", f"localhost:{front.port}")
        front.close()
        return
    able = [folder for folder in find_postgres_binaries().values() if supports_tls(folder)]
    if not able:
        pytest.skip("no PostgreSQL here that was built with OpenSSL: that of the wheel was not")
    server = PostgresServer(able[0], durable=False, tls=(certificate, key)).start()
    yield server.create_database().replace("127.0.0.1", "localhost")
    server.close()


def test_the_server_with_the_right_certificate_is_taken(database: str, authority: CertificateAuthority) -> None:
    address = f"{database}?sslmode=verify-full&sslrootcert={authority.certificate}"
    store = open_store(address)
    try:
        store.set_settings({"said": "safely"})
        assert store.setting("said") == "safely"
    finally:
        store.close()
    assert "sslmode=verify-full" in without_password(address)


def test_a_server_of_another_authority_or_another_name_is_not(
    database: str, authority: CertificateAuthority, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other").certificate
    with pytest.raises(StoreError, match="certificate verify failed"):
        open_store(f"{database}?sslmode=verify-full&sslrootcert={other}")
    by_number = database.replace("localhost", "127.0.0.1")
    with pytest.raises(StoreError, match="does not match host"):
        open_store(f"{by_number}?sslmode=verify-full&sslrootcert={authority.certificate}")


def test_nobody_is_talked_into_doing_without(plain: PostgresServer, authority: CertificateAuthority) -> None:
    with pytest.raises(StoreError, match="does not support SSL"):
        open_store(f"{plain.dsn}?sslmode=verify-full&sslrootcert={authority.certificate}")
