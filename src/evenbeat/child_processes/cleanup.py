"""Sees to it that nothing a worker process runs outlives its supervisor: recorded in a file, and told to a guardian."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from evenbeat.child_processes import guardian
from evenbeat.child_processes.descriptors import DescriptorReserve
from evenbeat.child_processes.process_table import SessionLeader
from evenbeat.child_processes.worker_records import WorkerRecordFile

_GUARDIAN_CODE: Final = b"from evenbeat.child_processes.guardian import main; main()"
_GUARDIAN_DESCRIPTION: Final = "ends what the workers of process {} leave behind"
_END_TIMEOUT: Final = 2.0
"""Seconds for a guardian that has something left to end."""
_RESTART_DELAY: Final = 1.0
"""Seconds until a guardian that has ended is replaced."""


class OrphanGuard:
    """Of one supervisor. Without a file only the guardian knows of its workers."""

    def __init__(self, records: Path | None = None) -> None:
        self._records = None if records is None else WorkerRecordFile(records)
        self.secret: Final = "" if self._records is None else self._records.secret
        """What workers pass on to all that they start: see `leftovers`; "" if nobody would look for it."""
        self.guardian: Final = GuardianProcess()
        self.reserve: Final = DescriptorReserve()

    def start(self) -> None:
        """On a running loop."""
        if self._records is not None:
            self._records.begin()
        with self.reserve:
            self.guardian.start()

    def add(self, worker: SessionLeader) -> None:
        """Before it is given anything to run."""
        if self._records is not None:
            self._records.add(worker)
        self.guardian.add(worker)

    def remove(self, worker: SessionLeader) -> None:
        """It has ended, and nothing of it is left."""
        if self._records is not None:
            self._records.remove(worker)
        self.guardian.remove(worker)

    def stop(self) -> None:
        """All workers have ended, or the guardian sees to what is left of them."""
        self.guardian.stop()
        if self._records is not None:
            self._records.end()
        self.reserve.close()


class GuardianProcess:
    """The supervisor's end of it. Start it on a running loop; it is replaced when it ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._workers: dict[int, SessionLeader] = {}
        self._until = 0
        self._unsent = bytearray()
        self._again: asyncio.TimerHandle | None = None
        self._is_stopped = False

    @property
    def pid(self) -> int:
        return -1 if self._process is None else self._process.pid

    def start(self) -> None:
        """Now, or in a while if the machine is too full."""
        self._again = None
        if self._is_stopped or self._process is not None:
            return
        try:
            self._start()
        except OSError:
            self._again = asyncio.get_running_loop().call_later(_RESTART_DELAY, self.start)
            return
        self._unsent = bytearray(_GUARDIAN_CODE)
        self._unsent += b"".join(guardian.guardian_message(b"+", worker) for worker in self._workers.values())
        self._unsent += b"!%d\n" % self._until
        self._send()

    def _start(self) -> None:
        # Its first word would name the folder that Python is installed in, so where its library is must be said.
        program = [
            "python3",
            "-S",
            "-P",
            "-c",
            "import os, sys; exec(os.read(0, int(sys.argv[1])))",
            str(len(_GUARDIAN_CODE)),
        ]
        root = Path(__file__).parents[2]
        environment = {"PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}", "PYTHONPATH": str(root)}
        process = subprocess.Popen(  # noqa: S603
            [*program, _GUARDIAN_DESCRIPTION.format(os.getpid())],
            executable=sys.executable,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # what stops the supervisor from a terminal must not stop it
            bufsize=0,
        )
        assert process.stdin is not None
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:
            process.stdin.close()
            process.wait()
            raise
        os.set_blocking(process.stdin.fileno(), False)
        self._process = process
        asyncio.get_running_loop().add_reader(self._pidfd, self._ended)

    def add(self, worker: SessionLeader) -> None:
        """Before it is given anything to run."""
        self._workers[worker.pid] = worker
        self._say(guardian.guardian_message(b"+", worker))

    def remove(self, worker: SessionLeader) -> None:
        """It has ended, and nothing of it is left."""
        if self._workers.pop(worker.pid, None) is not None:
            self._say(guardian.guardian_message(b"-", worker))

    def set_deadline(self, until: int) -> None:
        """Nothing may run any more then, on the boot-time clock, unless it hears of us again; 0: nothing runs."""
        if until != self._until:
            self._until = until
            self._say(b"!%d\n" % until)

    def stop(self) -> None:
        """All workers have ended, or it sees to what is left of them."""
        self._is_stopped = True
        if self._again is not None:
            self._again.cancel()
        process = self._process
        if process is not None:
            self._forget()
            if not self._workers:
                process.kill()  # it may be stopped
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_TIMEOUT)

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(RuntimeError):  # the loop is closed
            asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.stdin.close()
        self._process = None

    def _ended(self) -> None:
        process = self._process
        assert process is not None
        self._forget()
        process.wait()
        self._again = asyncio.get_running_loop().call_later(_RESTART_DELAY, self.start)

    def _say(self, line: bytes) -> None:
        if self._process is not None:
            self._unsent += line
            self._send()

    def _send(self) -> None:
        """What a guardian that is stopped does not take is sent with the next word; one that has ended is replaced."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                del self._unsent[: os.write(self._process.stdin.fileno(), self._unsent)]
