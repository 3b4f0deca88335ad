"""The api process: `python -m evenbeat.api.server --db PATH --listen HOST:PORT`. A node starts its own, beside it."""

import argparse
import asyncio
import fcntl
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from evenbeat.api.application import create_application
from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.connections import MAX_CONNECTIONS, ConnectionTable, ListeningSocket
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.protocol import BODY_TIMEOUT, TimeoutProtocol
from evenbeat.api.http.request_limits import SecurityMiddleware
from evenbeat.load.safe_text import escaped_text
from evenbeat.model import Invalid
from evenbeat.node.process.listen import ListenAddress, bind_socket, check_listen_safety, parse_listen
from evenbeat.node.process.log_format import CondensingHandler, KeyValueFormatter
from evenbeat.store.addresses import is_shared_database, without_password
from evenbeat.store.contract import StoreError

_BACKLOG: Final = 512
"""Connections that the kernel queues, and that are accepted in one go."""
_MAX_HEADER_BYTES: Final = 32 << 10
"""Bytes of a request's first line and headers."""
_KEEP_ALIVE_SECONDS: Final = 15
"""Seconds that an idle connection is kept open."""
_SHUTDOWN_SECONDS: Final = 1
"""Seconds that answers under way have when the process is told to stop."""
_NICENESS: Final = 10
"""The node goes first: requests must not make it late."""
_log: Final = logging.getLogger("evenbeat.api")


def main(argv: list[str]) -> int:
    """Serve until told to stop; exit 2 for bad input."""
    args = _parser().parse_args(argv)
    if args.lifeline is not None:
        _exit_with_node(args.lifeline)
        os.nice(_NICENESS)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # waking up does not preempt the scheduler
    _configure_logging(logging.INFO if args.lifeline is None else logging.WARNING)
    _raise_file_limit()
    try:
        args.db = args.db or os.environ.get("EVENBEAT_DB") or "evenbeat.db"
        context = ApiContext(args.db if is_shared_database(args.db) else Path(args.db), args.control)
        listen, listening = _listening_socket(args)
    except (Invalid, StoreError) as e:
        print(f"evenbeat.api.server: {escaped_text(str(e))}", file=sys.stderr)  # noqa: T201
        return 2
    port = listening.getsockname()[1]
    is_secure = listen.cert is not None
    node_start_id = "" if is_secure else args.life or token_hex(8)
    access = TokenAuthenticator(context, listen.host, port, node_start_id, is_secure=is_secure, is_open=listen.is_open)
    server = create_server(context, protected_application(context, access), listen)
    url = listen.url(port)
    _log.info("serving %s on %s", without_password(args.db), url, extra={"action": "serving", "url": url})
    with suppress(KeyboardInterrupt):
        asyncio.run(server.serve(sockets=[listening]))
    return 0


def create_server(
    context: ApiContext, app: ASGIApp, listen: ListenAddress, protocol: type[TimeoutProtocol] = TimeoutProtocol
) -> uvicorn.Server:
    """A server for an application; `serve` gives it its sockets."""
    connections = ConnectionTable(context.refusals)
    own: type[TimeoutProtocol] = type(protocol.__name__, (protocol,), {"connections_of_server": connections})
    return _ApiServer(_uvicorn_config(app, listen, own), context, connections)


def protected_application(
    context: ApiContext, access: TokenAuthenticator, patience: float = BODY_TIMEOUT
) -> SecurityMiddleware:
    """Everything that is served: the API, the page, metrics and health, behind the security middleware."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        context.live_feed.start()
        yield
        await context.live_feed.stop()
        context.close()

    app = create_application(context, access, lifespan=lifespan)
    return SecurityMiddleware(app, context.refusals, patience=patience)


class _ApiServer(uvicorn.Server):
    """Tracks its connections, and ends event streams on shutdown, which would otherwise wait for them."""

    def __init__(self, config: uvicorn.Config, context: ApiContext, connections: ConnectionTable) -> None:
        super().__init__(config)
        self._context = context
        self.connections = connections

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await super().serve([ListeningSocket.of(listening, self.connections) for listening in sockets or []])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.live_feed.end_streams()
        await super().shutdown(sockets)


def _uvicorn_config(app: ASGIApp, listen: ListenAddress, protocol: type[TimeoutProtocol]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # paths have tokens of heartbeats in them
        proxy_headers=False,  # a client could claim any address
        server_header=False,
        limit_concurrency=None,  # it would count idle connections and block /healthz: ConnectionTable is our limit
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        ssl_certfile=listen.cert,
        ssl_keyfile=listen.key,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evenbeat.api.server", description="Serve the API and the page of a database."
    )
    parser.add_argument("--db", metavar="PATH", help="the database (default: EVENBEAT_DB)")
    parser.add_argument(
        "--control", type=Path, metavar="SOCKET", help="the node's control socket, if not beside the database"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--listen", metavar="HOST:PORT", help="the address")
    where.add_argument("--socket", type=int, metavar="FD", help="or an inherited socket that listens already")
    parser.add_argument("--host", default="127.0.0.1", help="with --socket: the host it listens on")
    parser.add_argument("--lifeline", type=int, metavar="FD", help="a pipe: exit when its other end closes")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE")
    parser.add_argument("--tls-key", type=Path, metavar="FILE")
    parser.add_argument("--no-tls", action="store_true")
    parser.add_argument("--life", help="without TLS: an id of this start of the node; sessions end with it")
    parser.add_argument("--open", action="store_true", help="admit every user of this machine without a token")
    return parser


def _listening_socket(args: argparse.Namespace) -> tuple[ListenAddress, socket.socket]:
    if args.socket is not None:
        os.set_inheritable(args.socket, False)  # noqa: FBT003
        found = socket.socket(fileno=args.socket)
        return ListenAddress(args.host, found.getsockname()[1], args.tls_cert, args.tls_key, is_open=args.open), found
    listen = ListenAddress(*parse_listen(args.listen), args.tls_cert, args.tls_key, args.no_tls, args.open)
    check_listen_safety(listen, args.db if is_shared_database(args.db) else Path(args.db))
    return listen, bind_socket(listen)


def _exit_with_node(lifeline: int) -> None:
    # The node holds the other end of this pipe. When it closes, the kernel kills us, however busy we are.
    os.set_inheritable(lifeline, False)  # noqa: FBT003
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        if not os.read(lifeline, 1):
            os._exit(0)  # the pipe was closed before the signal was set up


def _raise_file_limit() -> None:
    """Allow enough descriptors: each connection may need one more, to the store or the node."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS
    if hard == resource.RLIM_INFINITY or hard > soft:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


def _configure_logging(level: int) -> None:
    handler = CondensingHandler()
    handler.setFormatter(KeyValueFormatter())
    for name, least in (("evenbeat", level), ("uvicorn.error", logging.ERROR), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
