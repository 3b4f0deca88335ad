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

from evenbeat.api.auth.access import Access
from evenbeat.api.http.application import application
from evenbeat.api.http.connections import MOST, Connections, Listener
from evenbeat.api.http.context import House
from evenbeat.api.http.guard import Guard
from evenbeat.api.http.protocol import BODY_PATIENCE, PatientProtocol
from evenbeat.load.safe_text import visible
from evenbeat.model import Invalid
from evenbeat.node.process.listen import Listen, bound, must_be_safe, parse_listen
from evenbeat.node.process.log_format import Condensed, KeyValue
from evenbeat.store.contract import StoreError
from evenbeat.store.opening import is_cluster, shown

_BACKLOG: Final = 512
"""Connections that the kernel keeps for us, and that are accepted in one go."""
_LARGEST_HEAD: Final = 32 << 10
"""Bytes of a request's first line and headers."""
_IDLE: Final = 15
"""Seconds that a connection is kept without a request."""
_GRACE: Final = 1
"""Seconds that answers have to end when the process is told to."""
_NICER: Final = 10
"""The node goes first: whoever looks at it must not make it late."""
_log: Final = logging.getLogger("evenbeat.api")


def main(argv: list[str]) -> int:
    """Serve until told to stop; exit 2 for bad input."""
    args = _parser().parse_args(argv)
    if args.lifeline is not None:
        _die_with_the_node(args.lifeline)
        os.nice(_NICER)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # it does not interrupt others as it wakes up
    _log_lines(logging.INFO if args.lifeline is None else logging.WARNING)
    _have_room()
    try:
        args.db = args.db or os.environ.get("EVENBEAT_DB") or "evenbeat.db"
        house = House(args.db if is_cluster(args.db) else Path(args.db), args.control)
        listen, listening = _socket_of(args)
    except (Invalid, StoreError) as e:
        print(f"evenbeat.api.server: {visible(str(e))}", file=sys.stderr)  # noqa: T201
        return 2
    port = listening.getsockname()[1]
    is_secure = listen.cert is not None
    life = "" if is_secure else args.life or token_hex(8)
    access = Access(house, listen.host, port, life, is_secure=is_secure, is_open=listen.is_open)
    server = server_of(house, whole(house, access), listen)
    url = listen.url(port)
    _log.info("serving %s on %s", shown(args.db), url, extra={"action": "serving", "url": url})
    with suppress(KeyboardInterrupt):
        asyncio.run(server.serve(sockets=[listening]))
    return 0


def server_of(
    house: House, app: ASGIApp, listen: Listen, protocol: type[PatientProtocol] = PatientProtocol
) -> uvicorn.Server:
    """What serves an application, once it is given a socket."""
    connections = Connections(house.refusals)
    own: type[PatientProtocol] = type(protocol.__name__, (protocol,), {"connections_of_server": connections})
    return _Server(_configuration(app, listen, own), house, connections)


def whole(house: House, access: Access, patience: float = BODY_PATIENCE) -> Guard:
    """All that is served of a house: the API, the page, metrics and health, behind the guard."""

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        house.listening.start()
        yield
        await house.listening.stop()
        house.close()

    return Guard(application(house, access, lifespan=life), house.refusals, patience=patience)


class _Server(uvicorn.Server):
    """Has a list of its connections. Tells those who listen for events that it is over: they would be waited for."""

    def __init__(self, config: uvicorn.Config, house: House, connections: Connections) -> None:
        super().__init__(config)
        self._house = house
        self._connections = connections

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await super().serve([Listener.of(listening, self._connections) for listening in sockets or []])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._house.listening.hang_up()
        await super().shutdown(sockets)


def _configuration(app: ASGIApp, listen: Listen, protocol: type[PatientProtocol]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # paths have tokens of heartbeats in them
        proxy_headers=False,  # nobody tells us whom they are asking for
        server_header=False,
        limit_concurrency=None,  # it would count those who only wait, and shut out /healthz: see Connections and Guard
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        ssl_certfile=listen.cert,
        ssl_keyfile=listen.key,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evenbeat.api.server", description="Serve the API and the page of a database."
    )
    parser.add_argument("--db", metavar="PATH", help="the database (default: EVENBEAT_DB)")
    parser.add_argument("--control", type=Path, metavar="SOCKET", help="where its node listens, if not beside it")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--listen", metavar="HOST:PORT", help="the address")
    where.add_argument("--socket", type=int, metavar="FD", help="or a socket that listens already")
    parser.add_argument("--host", default="127.0.0.1", help="with --socket: the host that it listens on")
    parser.add_argument("--lifeline", type=int, metavar="FD", help="a pipe: when its other end closes, it is over")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE")
    parser.add_argument("--tls-key", type=Path, metavar="FILE")
    parser.add_argument("--no-tls", action="store_true")
    parser.add_argument("--life", help="without TLS: a word for this start of the node, whose sessions are good for it")
    parser.add_argument("--open", action="store_true", help="let every user of this machine in without a token")
    return parser


def _socket_of(args: argparse.Namespace) -> tuple[Listen, socket.socket]:
    if args.socket is not None:
        os.set_inheritable(args.socket, False)  # noqa: FBT003
        found = socket.socket(fileno=args.socket)
        return Listen(args.host, found.getsockname()[1], args.tls_cert, args.tls_key, is_open=args.open), found
    listen = Listen(*parse_listen(args.listen), args.tls_cert, args.tls_key, args.no_tls, args.open)
    must_be_safe(listen, args.db if is_cluster(args.db) else Path(args.db))
    return listen, bound(listen)


def _die_with_the_node(lifeline: int) -> None:
    # The node holds the other end of this pipe. When it closes, the kernel kills us, however busy we are.
    os.set_inheritable(lifeline, False)  # noqa: FBT003
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        if not os.read(lifeline, 1):
            os._exit(0)  # it was closed before we asked to be told


def _have_room() -> None:
    """For connections, and for those to the store and the node behind each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST
    if hard == resource.RLIM_INFINITY or hard > soft:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


def _log_lines(level: int) -> None:
    handler = Condensed()
    handler.setFormatter(KeyValue())
    for name, least in (("evenbeat", level), ("uvicorn.error", logging.ERROR), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
