"""Make sure that no run outlives the node or worker that supervises it: worker processes are recorded in a file, and a
guardian process knows them.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from evenbeat.child_processes import guardian
from evenbeat.child_processes.descriptors import DescriptorReserve
from evenbeat.child_processes.process_table import SessionLeader
from evenbeat.child_processes.supervisor import ProcessSupervisor, SupervisedProcess
from evenbeat.child_processes.worker_records import WorkerRecordFile

_GUARDIAN_CODE: Final = b"from evenbeat.child_processes.guardian import main; main()"
_GUARDIAN_DESCRIPTION: Final = "ends what the workers of process {} leave behind"
_END_TIMEOUT: Final = 2.0
"""Seconds for a guardian to end the processes that are left."""
_RESTART_DELAY: Final = 1.0
"""Seconds until a guardian that has ended is replaced, at least."""


class OrphanGuard:
    """The workers of one supervisor, recorded for the case that it is killed. Without a file only the guardian knows
    them.
    """

    def __init__(self, records: Path | None = None) -> None:
        self._records = None if records is None else WorkerRecordFile(records)
        self.secret: Final = "" if self._records is None else self._records.secret
        """Workers pass it on to all processes that they start: see `processes_left_behind`. "" without a file."""
        self.guardian: Final = GuardianProcess()
        self.reserve: Final = DescriptorReserve()

    def start(self) -> None:
        """Call it on a running loop."""
        if self._records is not None:
            self._records.begin()
        with self.reserve:
            self.guardian.start()

    def add(self, worker: SessionLeader) -> None:
        """Call it before the worker is given anything to run."""
        if self._records is not None:
            self._records.add(worker)
        self.guardian.add(worker)

    def remove(self, worker: SessionLeader) -> None:
        """The worker has ended, and nothing that it started is left."""
        if self._records is not None:
            self._records.remove(worker)
        self.guardian.remove(worker)

    def stop(self) -> None:
        """All workers have ended, or the guardian ends what is left of them."""
        self.guardian.stop()
        if self._records is not None:
            self._records.end()
        self.reserve.close()


class GuardianProcess:
    """The guardian process as its supervisor sees it. Start it on a running loop; it is replaced when it ends."""

    def __init__(self) -> None:
        self._supervisor = ProcessSupervisor(self._new_process, self.start, least_pause=_RESTART_DELAY)
        self._workers: dict[int, SessionLeader] = {}
        self._deadline = 0
        self._unsent = bytearray()

    @property
    def pid(self) -> int:
        return next((process.pid for process in self._supervisor.processes), -1)

    def start(self) -> None:
        """Now, or in a while if the machine is too full."""
        if self._supervisor.processes or self._supervisor.start() is None:
            return
        self._unsent = bytearray(_GUARDIAN_CODE)
        self._unsent += b"".join(guardian.guardian_message(b"+", worker) for worker in self._workers.values())
        self._unsent += b"!%d\n" % self._deadline
        self._send()

    def _new_process(self) -> SupervisedProcess:
        # The guardian must not have the folder of our Python in its command line, so argv[0] is plain "python3", and
        # Python is told where its library is.
        program = [
            "python3",
            "-S",
            "-P",
            "-c",
            "import os, sys; exec(os.read(0, int(sys.argv[1])))",
            str(len(_GUARDIAN_CODE)),
        ]
        root = Path(__file__).parents[2]
        process = SupervisedProcess(
            [*program, _GUARDIAN_DESCRIPTION.format(os.getpid())],
            self._has_ended,
            executable=sys.executable,
            environment={"PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}", "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
        )
        os.set_blocking(process.stdin, False)
        return process

    def add(self, worker: SessionLeader) -> None:
        """Call it before the worker is given anything to run."""
        self._workers[worker.pid] = worker
        self._tell(guardian.guardian_message(b"+", worker))

    def remove(self, worker: SessionLeader) -> None:
        """The worker has ended, and nothing of it is left."""
        if self._workers.pop(worker.pid, None) is not None:
            self._tell(guardian.guardian_message(b"-", worker))

    def set_deadline(self, deadline: int) -> None:
        """At this boot-time instant the guardian ends all runs, unless it gets a later deadline; 0 for none."""
        if deadline != self._deadline:
            self._deadline = deadline
            self._tell(b"!%d\n" % deadline)

    def stop(self) -> None:
        """All workers have ended, or the guardian ends what is left of them."""
        self._supervisor.is_stopping = True
        for process in self._supervisor.processes:
            if not self._workers:
                process.signal(signal.SIGKILL)  # it may be stopped
            process.close_stdin_and_wait(_END_TIMEOUT)
        self._supervisor.processes.clear()

    def _has_ended(self, process: SupervisedProcess) -> None:
        process.reap()
        self._supervisor.ended(process)

    def _tell(self, line: bytes) -> None:
        if self._supervisor.processes:
            self._unsent += line
            self._send()

    def _send(self) -> None:
        """Write what the pipe takes. The rest goes out with the next message; a guardian that has ended is replaced."""
        (process,) = self._supervisor.processes
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                del self._unsent[: os.write(process.stdin, self._unsent)]
