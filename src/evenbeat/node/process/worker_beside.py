"""A command of evenbeat's that runs beside a node and ends with it: replaced when it ends before it is told to."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from evenbeat.core.environment import without_secrets
from evenbeat.queue.local.command_workers import RestartBackoff

_STOP_TIMEOUT: Final = 40.0
"""Seconds that it has to end: a worker lets its runs end."""
_log: Final = logging.getLogger("evenbeat.node")


class _CompanionHandle:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.began = time.monotonic()
        # A session of its own: no Ctrl-C of our terminal reaches it, we tell it when it is time.
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", *command],
            env={**without_secrets(os.environ, in_cluster=True), **environment},
            stdin=subprocess.PIPE,  # when we end, however we end, it learns by this
            stdout=2,
            start_new_session=True,
        )
        try:
            self.pidfd = os.pidfd_open(self._process.pid)
        except OSError:
            self._process.kill()
            self._process.communicate()
            raise

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def bury(self) -> int:
        status = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self.pidfd)
        return status


class CompanionProcess:
    """Start it on a running loop."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._process: _CompanionHandle | None = None
        self._backoff = RestartBackoff()
        self._is_stopping = False
        self._ended = asyncio.Event()

    def start(self) -> None:
        if self._is_stopping:
            return
        try:
            self._process = _CompanionHandle(self._command, self._environment)
        except OSError as e:
            told = {"action": "beside_failed"}
            _log.error("the %s beside us cannot be started: %s", self._command[1], e.strerror, extra=told)
            asyncio.get_running_loop().call_later(RestartBackoff.FULL, self.start)
            return
        asyncio.get_running_loop().add_reader(self._process.pidfd, self._has_ended, self._process)

    async def stop(self) -> None:
        """Tell it to end, and wait."""
        self._is_stopping = True
        if self._process is None:
            return
        self._process.signal(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _STOP_TIMEOUT)
            return
        self._process.signal(signal.SIGKILL)
        await self._ended.wait()

    def _has_ended(self, process: _CompanionHandle) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(process.pidfd)
        status = process.bury()
        self._process = None
        if self._is_stopping:
            self._ended.set()
            return
        pause = max(self._backoff.after(process), RestartBackoff.FIRST)
        told = {"action": "beside_failed", "status": status}
        _log.error("the %s beside us ended with status %d", self._command[1], status, extra=told)
        loop.call_later(pause, self.start)
