"""The API process of a node, which serves its API and page: started beside the node and ended with it."""

import logging
import os
import sys
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

from evenbeat.child_processes.supervisor import ProcessSupervisor, SupervisedProcess
from evenbeat.node.process.listen import ListenAddress, bind_socket, check_listen_safety

_API_MODULE: Final = "evenbeat.api.server"
_STOP_TIMEOUT: Final = 3.0
"""Seconds that it has to end its answers."""
_log: Final = logging.getLogger("evenbeat.node")


class ApiProcess:
    """Keeps the address bound to the end: a client that connects while the process is being replaced only waits."""

    def __init__(self, database: Path | str, listen: ListenAddress | None, control: Path | None = None) -> None:
        """For the owner of the database. Raise Invalid if the address cannot be bound or is not safe. None: no API.

        `control` is where the node listens, if the database does not say that.
        """
        self._listen = listen
        self._socket = None
        self.url = ""
        self._supervisor = ProcessSupervisor(self._new_process, self._start)
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
        await self._supervisor.stop(_STOP_TIMEOUT)

    def _start(self) -> None:
        if self._supervisor.start() is None:
            problem = self._supervisor.start_problem
            _log.error("the api process cannot be started: %s", problem, extra={"action": "api_failed"})

    def _new_process(self) -> SupervisedProcess:
        assert self._socket is not None
        socket = self._socket.fileno()
        reader, lifeline = os.pipe()  # the process ends when our end closes, however we end
        try:
            return SupervisedProcess(
                [*self._command, "--socket", str(socket), "--lifeline", str(reader)],
                self._has_ended,
                environment=self._environment,
                pass_fds=(socket, reader),
                owned_descriptors=(lifeline,),
            )
        finally:
            os.close(reader)

    def _has_ended(self, process: SupervisedProcess) -> None:
        status = process.reap()
        pause = self._supervisor.ended(process)
        if not self._supervisor.is_stopping:
            fields = {"action": "api_failed", "status": status}
            _log.error("the api process ended with status %d; another starts in %.1f s", status, pause, extra=fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()
