"""The face of a node: the process that serves its API and page. Started beside it, watched, ended with it."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

from evenbeat.node.process.listen import ListenAddress, bind_socket, check_listen_safety
from evenbeat.queue.local.command_workers import RestartBackoff

_API_MODULE: Final = "evenbeat.api.server"
_STOP_TIMEOUT: Final = 3.0
"""Seconds that it has to end its answers."""
_log: Final = logging.getLogger("evenbeat.node")


class _ServerProcess:
    """One process."""

    def __init__(self, command: list[str], environment: dict[str, str], descriptor: int) -> None:
        self.began = time.monotonic()
        theirs, self._lifeline = os.pipe()
        try:
            # A session of its own: no Ctrl-C of the node's terminal reaches it. What we hold of the pipe is its life.
            self._process = subprocess.Popen(  # noqa: S603
                [*command, "--socket", str(descriptor), "--lifeline", str(theirs)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=(descriptor, theirs),
                start_new_session=True,
            )
        except OSError:
            os.close(self._lifeline)
            raise
        finally:
            os.close(theirs)
        self.pid = self._process.pid
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._process.kill()
            self._process.wait()
            os.close(self._lifeline)
            raise

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def bury(self) -> int:
        """It has ended; how."""
        status = self._process.wait()
        os.close(self.pidfd)
        os.close(self._lifeline)
        return status


class ApiProcess:
    """Holds the address to the end: whoever connects while the process is being replaced only waits."""

    def __init__(self, database: Path | str, listen: ListenAddress | None, control: Path | None = None) -> None:
        """For the owner of the database. Raise Invalid if the address cannot be had or is not safe. None: no face.

        `control` is where the node listens, if the database does not say that.
        """
        self._listen = listen
        self._socket = None
        self.url = ""
        self._server: _ServerProcess | None = None
        self._backoff = RestartBackoff()
        self._later: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._ended = asyncio.Event()
        if listen is None:
            return
        check_listen_safety(listen, database, is_ours=True)
        self._socket = bind_socket(listen)
        self.url = listen.url(self._socket.getsockname()[1])
        # Not as an argument, which others can read: the address of a database may have a password in it.
        whole = database if isinstance(database, str) else str(database.resolve())
        self._environment = {**os.environ, "EVENBEAT_DB": whole}
        self._command = [sys.executable, "-P", "-m", _API_MODULE, "--host", listen.host]
        if listen.is_open:
            self._command.append("--open")
        if listen.cert is None:
            self._command += ["--life", token_hex(8)]
        if control is not None:
            self._command += ["--control", str(control)]
        if listen.cert is not None:
            self._command += ["--tls-cert", str(listen.cert.resolve()), "--tls-key", str(listen.key)]

    def start(self) -> None:
        """Serve from now on."""
        if self._socket is not None:
            _log.info("listening on %s", self.url, extra={"action": "listening", "url": self.url})
            self._start()

    async def stop(self) -> None:
        """Let answers end, for a moment."""
        self._is_stopping = True
        if self._later is not None:
            self._later.cancel()
        if self._server is None:
            return
        self._server.signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT):
                await self._ended.wait()
                return
        self._server.signal(signal.SIGKILL)
        await self._ended.wait()

    def _start(self) -> None:
        assert self._socket is not None
        try:
            self._server = _ServerProcess(self._command, self._environment, self._socket.fileno())
        except OSError as e:
            _log.error("the api process cannot be started: %s", e.strerror, extra={"action": "api_failed"})
            self._start_after(RestartBackoff.FULL)
            return
        asyncio.get_running_loop().add_reader(self._server.pidfd, self._has_ended, self._server)

    def _start_after(self, seconds: float) -> None:
        self._later = asyncio.get_running_loop().call_later(seconds, self._start)

    def _has_ended(self, server: _ServerProcess) -> None:
        asyncio.get_running_loop().remove_reader(server.pidfd)
        status = server.bury()
        self._server = None
        if self._is_stopping:
            self._ended.set()
            return
        pause = self._backoff.after(server)
        told = {"action": "api_failed", "status": status}
        _log.error("the api process ended with status %d; another starts in %.1f s", status, pause, extra=told)
        self._start_after(pause)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()
