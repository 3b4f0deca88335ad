"""Encrypt a connection to a receiver, and say why that failed."""

import socket
import ssl
from functools import cache

from evenbeat.sender.attempt import Attempt, NotDelivered


@cache
def tls_context() -> ssl.SSLContext:
    """Checks certificates against those that the system trusts; with SSL_CERT_FILE, against those in that file."""
    return ssl.create_default_context()


def encrypt(attempt: Attempt, plain: socket.socket, host: str, shown: str) -> ssl.SSLSocket:
    """The encrypted connection over a plain one; raise NotDelivered."""
    attempt.waits_for = f"an encrypted connection to {shown}"
    plain.settimeout(attempt.remaining())
    try:
        connection = tls_context().wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
    except (OSError, ValueError) as e:
        plain.close()
        raise NotDelivered(f"no encrypted connection to {shown}: {tls_problem(e)}") from None
    attempt.watch_socket(connection)
    try:
        connection.do_handshake()
    except OSError as e:
        connection.close()
        attempt.remaining()
        raise NotDelivered(f"no encrypted connection to {shown}: {tls_problem(e)}") from None
    return connection


def tls_problem(error: Exception) -> str:
    """Why a connection could not be encrypted."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS failed").replace("_", " ").lower()
    return "the connection was closed"
