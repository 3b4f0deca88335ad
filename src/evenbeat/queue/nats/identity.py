"""How a connection proves who it is, and how it knows the server: passwords, credentials files, nkeys, TLS."""

import base64
import binascii
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client

from evenbeat.model import Invalid
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.ed25519 import Ed25519PrivateKey

_JWT: Final = re.compile(r"-----BEGIN NATS USER JWT-----\s+(\S+)\s+-+END NATS USER JWT-+")
_SEED: Final = re.compile(r"-----BEGIN USER NKEY SEED-----\s+(\S+)\s+-+END USER NKEY SEED-+")
_USER: Final = 20 << 3
"""The first byte of the public key of a user."""
_SEED_BYTES: Final = 36
"""Two bytes that say what it is, 32 of the seed, two of a checksum."""


class UnreadableCredential(OSError):
    """A file that is needed to connect cannot be used; tried again, as somebody may be just replacing it."""


def check_credentials(where: QueueAddress) -> None:
    """Raise Invalid if one of the files cannot be used, before anything is tried with them."""
    try:
        connect_options(where)
        if where.credentials or where.nkey:
            _sign(_seed_of(where), "try")
    except (OSError, ssl.SSLError) as e:
        raise Invalid(str(e), place="queue") from None


def connect_options(where: QueueAddress) -> dict[str, Any]:
    """What the client needs to know of it."""
    options: dict[str, Any] = {
        "user": where.user or None,
        "password": where.password or None,
        "token": where.token or None,
        "tls": tls_context(where) if where.scheme == "tls" else None,
        "inbox_prefix": where.inbox,
    }
    if where.credentials or where.nkey:
        # The client signs with the package nkeys, which nothing else of ours needs; a user makes it ask us instead.
        options |= {"user": "nkey", "signature_cb": _signing(where)}
    if where.credentials:
        options["user_jwt_cb"] = lambda: _found(_JWT, where.credentials).encode()
    return options


def set_client_identity(client: Client, where: QueueAddress) -> None:
    """Before it connects: a server knows who has only an nkey by its public half."""
    if where.nkey:
        client._public_nkey = public_nkey(_seed_of(where))


def tls_context(where: QueueAddress) -> ssl.SSLContext:
    """The server must have a certificate of its name, of an authority of this machine or of the one that is given."""
    try:
        context = ssl.create_default_context(cafile=where.authority or None)
    except OSError as e:
        raise UnreadableCredential(f"ca={where.authority}: {e.strerror or e}") from None
    if where.certificate:
        try:
            context.load_cert_chain(where.certificate, where.key or None)
        except OSError as e:
            raise UnreadableCredential(f"cert={where.certificate}: {e.strerror or e}") from None
    return context


def _signing(where: QueueAddress) -> Callable[[str], bytes]:
    # Read anew at every connection: credentials may have been renewed.
    return lambda nonce: _sign(_seed_of(where), nonce)


def _sign(seed: str, nonce: str) -> bytes:
    with Ed25519PrivateKey(_raw(seed)) as key:
        return base64.b64encode(key.sign(nonce.encode()))


def _seed_of(where: QueueAddress) -> str:
    return _found(_SEED, where.credentials) if where.credentials else _text(where.nkey).strip()


def _found(pattern: re.Pattern[str], file: str) -> str:
    found = pattern.search(_text(file))
    if found is None:
        raise UnreadableCredential(f"{file} is no credentials file: accepted is what `nsc generate creds` writes")
    return found[1]


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is no text"
        raise UnreadableCredential(f"{file}: {reason}") from None


def _raw(seed: str) -> bytes:
    """The key within the seed of a user, which begins with SU."""
    try:
        whole = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except binascii.Error:
        whole = b""
    if len(whole) != _SEED_BYTES or not seed.startswith("SU") or _checksum(whole[:-2]) != whole[-2:]:
        raise UnreadableCredential("the nkey is not the seed of a user: accepted is a line that begins with SU")
    return whole[2:-2]


def public_nkey(seed: str) -> str:
    """What a server knows a user by, from their seed."""
    with Ed25519PrivateKey(_raw(seed)) as key:
        whole = bytes([_USER]) + key.public()
    return base64.b32encode(whole + _checksum(whole)).decode().rstrip("=")


def new_nkey(random: bytes) -> str:
    """The seed of a new user, of 32 random bytes."""
    kind = (18 << 3) | (_USER >> 5), (_USER & 31) << 3
    whole = bytes(kind) + random
    return base64.b32encode(whole + _checksum(whole)).decode().rstrip("=")


def _checksum(data: bytes) -> bytes:
    """CRC-16 (XMODEM), the low byte first."""
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")
