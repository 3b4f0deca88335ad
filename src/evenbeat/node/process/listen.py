"""Where a node's API and page are served: an address, taken before anything runs, and who may be served there."""

import errno
import os
import socket
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from msgspec import Struct

from evenbeat.admin.tokens import TOKEN_PREFIX
from evenbeat.core.access_rules import FirstToken, first_token, why_not_open
from evenbeat.model import Invalid
from evenbeat.store.addresses import is_shared_database, without_password
from evenbeat.store.opening import open_store
from evenbeat.store.user_store import is_custom_store

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 1_024
"""Connections that wait while the api process is busy or is being replaced."""
_LISTEN_OPTION: Final = "--listen"


class ListenAddress(Struct, frozen=True):
    """An address, and how it is protected."""

    host: str
    port: int
    """0 for any that is free."""
    cert: Path | None = None
    key: Path | None = None
    is_plain: bool = False
    """No TLS, as asked for, though other machines are served."""
    is_open: bool = False
    """Every user of this machine is let in without a token, as long as there are no tokens."""

    @property
    def scheme(self) -> str:
        return "http" if self.cert is None else "https"

    def url(self, port: int) -> str:
        """The address for a browser."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)  # noqa: S104
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def parse_listen(text: str) -> tuple[str, int]:
    """HOST:PORT, [ADDRESS]:PORT, or a PORT of this machine alone."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") and host.endswith("]") else host
    is_number = port.isdecimal() and port.isascii() and len(port) <= 5 and int(port) <= 65_535
    if not is_number or (colon and not host) or (":" in host and not text.startswith("[")):
        raise Invalid(f"{text!r} is no address, accepted: PORT, HOST:PORT or [IPV6]:PORT", place=_LISTEN_OPTION)
    return host or LOOPBACK, int(port)


def is_loopback(host: str) -> bool:
    """Can only this machine connect to this host name?"""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listen_safety(listen: ListenAddress, database: Path | str, *, is_ours: bool = False) -> None:
    """Refuse to serve without tokens where the node makes none, or in the clear unless that is meant; say what to do.

    The owner of the database may have to bring it up to date to read it: `is_ours`.
    """
    if (listen.cert is None) != (listen.key is None):
        raise Invalid("--tls-cert and --tls-key belong together: give both, or none")
    if listen.cert is not None and listen.key is not None:
        _check_certificate(listen.cert, listen.key)
    is_local = is_loopback(listen.host)
    if listen.is_open and (why := why_not_open(is_loopback=is_local, is_root=os.geteuid() == 0)):
        raise Invalid(why, place="--open")
    if not is_local and listen.cert is None and not listen.is_plain:
        raise Invalid(
            f"{listen.host} is not only for this machine: give --tls-cert FILE and --tls-key FILE, "
            "or say --no-tls if a proxy or the network itself encrypts",
            place=_LISTEN_OPTION,
        )
    if is_local and (listen.is_open or not is_shared_database(database)):
        return
    needed = first_token(
        has_tokens=_has_tokens(database, is_ours=is_ours),
        is_open=listen.is_open,
        is_loopback=is_local,
        is_cluster=is_shared_database(database),
    )
    if needed is FirstToken.ASK:
        raise Invalid(
            f"there is no token that could let anybody in: `{_token_command(database)}` makes one, and prints it once",
            place=_LISTEN_OPTION,
        )


def _token_command(database: Path | str) -> str:
    """The command that makes a token. A password is not shown: if it came from the environment, --db is left out."""
    command = "evenbeat token add admin --role admin"
    return command if os.environ.get("EVENBEAT_DB") == str(database) else f"{command} --db {without_password(database)}"


def _check_certificate(cert: Path, key: Path) -> None:
    for option, file in (("--tls-cert", cert), ("--tls-key", key)):
        try:
            file.open("rb").close()
        except OSError as e:
            raise Invalid(f"{file} cannot be read: {e.strerror}", place=option) from None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_refuse_password)
    except (ssl.SSLError, Invalid, ValueError) as e:
        reason = e.reason if isinstance(e, ssl.SSLError) and e.reason else str(e)
        raise Invalid(f"{cert} and {key} are no certificate with its key, in PEM: {reason}", place="--tls-cert") from e


def _refuse_password() -> str:
    raise Invalid("the key has a password, and nobody is there to type it")


def _has_tokens(database: Path | str, *, is_ours: bool) -> bool:
    if isinstance(database, Path) and not database.exists() and not is_custom_store(database):
        return False
    store = open_store(database, read_only=not is_ours)
    try:
        return bool(store.settings(TOKEN_PREFIX))
    finally:
        store.close()


def bind_socket(listen: ListenAddress) -> socket.socket:
    """A socket that listens there from now on; only processes that it is passed to inherit it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise Invalid(f"there is no host {listen.host!r}", place=_LISTEN_OPTION) from None
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as e:
        found.close()
        raise Invalid(_bind_error_text(e, listen), place=_LISTEN_OPTION) from None
    return found


def _bind_error_text(error: OSError, listen: ListenAddress) -> str:
    where = f"{listen.host}:{listen.port}"
    match error.errno:
        case errno.EADDRINUSE:
            return f"{where} is taken by another program; stop that, or choose another port"
        case errno.EACCES:
            return f"{where} is not for everybody; choose a port from 1024 on"
        case errno.EADDRNOTAVAIL:
            return f"{listen.host} is no address of this machine"
    return f"{where} cannot be listened on: {os.strerror(error.errno or 0)}"
