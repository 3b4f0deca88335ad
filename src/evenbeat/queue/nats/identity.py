"""How a connection authenticates itself and the server: passwords, credentials files, nkeys, TLS."""

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
"""Two bytes for the kind, 32 of the seed, two of a checksum."""


class UnreadableCredential(OSError):
    """A file that is needed to connect cannot be used; it is tried again, as it may just be being replaced."""


def check_credentials(address: QueueAddress) -> None:
    """Raise Invalid if one of the files cannot be used."""
    try:
        connect_options(address)
        if address.credentials or address.nkey:
            _sign(_seed_of(address), "try")
    except (OSError, ssl.SSLError) as e:
        raise Invalid(str(e), place="queue") from None


def connect_options(address: QueueAddress) -> dict[str, Any]:
    """The options of the NATS client for this address."""
    options: dict[str, Any] = {
        "user": address.user or None,
        "password": address.password or None,
        "token": address.token or None,
        "tls": tls_context(address) if address.scheme == "tls" else None,
        "inbox_prefix": address.inbox,
    }
    if address.credentials or address.nkey:
        # By itself the client signs with the package nkeys, which we do not need otherwise; with a user it calls us.
        options |= {"user": "nkey", "signature_cb": _signing(address)}
    if address.credentials:
        options["user_jwt_cb"] = lambda: _found(_JWT, address.credentials).encode()
    return options


def set_client_identity(client: Client, address: QueueAddress) -> None:
    """Call it before the client connects: with a bare nkey the server identifies us by the public key."""
    if address.nkey:
        client._public_nkey = public_nkey(_seed_of(address))


def tls_context(address: QueueAddress) -> ssl.SSLContext:
    """The server must have a certificate for its name, signed by an authority of this machine or the given one."""
    try:
        context = ssl.create_default_context(cafile=address.authority or None)
    except OSError as e:
        raise UnreadableCredential(f"ca={address.authority}: {e.strerror or e}") from None
    if address.certificate:
        try:
            context.load_cert_chain(address.certificate, address.key or None)
        except OSError as e:
            raise UnreadableCredential(f"cert={address.certificate}: {e.strerror or e}") from None
    return context


def _signing(address: QueueAddress) -> Callable[[str], bytes]:
    # Read at every connection: credentials may have been renewed.
    return lambda nonce: _sign(_seed_of(address), nonce)


def _sign(seed: str, nonce: str) -> bytes:
    with Ed25519PrivateKey(_raw(seed)) as key:
        return base64.b64encode(key.sign(nonce.encode()))


def _seed_of(address: QueueAddress) -> str:
    return _found(_SEED, address.credentials) if address.credentials else _text(address.nkey).strip()


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
    """The raw key in the seed of a user, which begins with SU."""
    try:
        whole = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except binascii.Error:
        whole = b""
    if len(whole) != _SEED_BYTES or not seed.startswith("SU") or _checksum(whole[:-2]) != whole[-2:]:
        raise UnreadableCredential("the nkey is not the seed of a user: accepted is a line that begins with SU")
    return whole[2:-2]


def public_nkey(seed: str) -> str:
    """The public key by which a server knows a user, from the seed."""
    with Ed25519PrivateKey(_raw(seed)) as key:
        whole = bytes([_USER]) + key.public()
    return base64.b32encode(whole + _checksum(whole)).decode().rstrip("=")


def new_nkey(random: bytes) -> str:
    """The seed of a new user, made of 32 random bytes."""
    kind = (18 << 3) | (_USER >> 5), (_USER & 31) << 3
    whole = bytes(kind) + random
    return base64.b32encode(whole + _checksum(whole)).decode().rstrip("=")


def _checksum(data: bytes) -> bytes:
    """CRC-16 (XMODEM), the low byte first."""
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")
