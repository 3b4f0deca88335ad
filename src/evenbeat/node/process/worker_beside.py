"""A command of evenbeat that runs beside a node and ends with it; it is started again if it ends before."""

import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from evenbeat.child_processes.supervisor import ProcessSupervisor, RestartBackoff, SupervisedProcess
from evenbeat.core.environment import without_secrets

_STOP_TIMEOUT: Final = 40.0
"""Seconds that it has to end: a worker lets its runs end."""
_log: Final = logging.getLogger("evenbeat.node")


class CompanionProcess:
    """Start it on a running loop."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._supervisor = ProcessSupervisor(self._new_process, self.start, least_pause=RestartBackoff.FIRST_PAUSE)

    def start(self) -> None:
        """Start it now, or in a while if the machine is short of processes or memory."""
        if self._supervisor.start() is None:
            fields = {"action": "beside_failed"}
            message = "the %s beside this node cannot be started: %s"
            _log.error(message, self._command[1], self._supervisor.start_problem, extra=fields)

    async def stop(self) -> None:
        """Tell it to end, and wait."""
        await self._supervisor.stop(_STOP_TIMEOUT)

    def _new_process(self) -> SupervisedProcess:
        return SupervisedProcess(
            [sys.executable, "-P", "-m", *self._command],
            self._has_ended,
            environment={**without_secrets(os.environ, in_cluster=True), **self._environment},
            stdin=subprocess.PIPE,  # it ends when our end closes, however we end
        )

    def _has_ended(self, process: SupervisedProcess) -> None:
        status = process.reap()
        self._supervisor.ended(process)
        if not self._supervisor.is_stopping:
            fields = {"action": "beside_failed", "status": status}
            _log.error("the %s beside this node ended with status %d", self._command[1], status, extra=fields)
