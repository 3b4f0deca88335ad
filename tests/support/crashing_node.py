"""A database with many kinds of tasks, and the nodes that live and die on it, each a process of its own."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import run_oracle
from budget import IS_FULL
from waiting import PATIENCE, eventually

from evenbeat.client.node_or_database import connect_to_live_node
from evenbeat.client.socket import SocketBackend
from evenbeat.model import Invalid
from evenbeat.store.contract import Filter, StoreError
from evenbeat.wire.replies import StopFound
from evenbeat.wire.requests import ForceTasks, RemoveTasks, StopRuns

_HERE: Final = Path(__file__).parent
_SLOTS: Final = 10
_PLAIN: Final = 6 if IS_FULL else 2
"""Tasks without anything special, which are most of the load."""
_REREAD: Final = 1.0
"""Seconds until the whole database is read again while the log, which is short, says that runs are missing."""
_OUTSIDE: Final = ("rare", "never")
"""Tasks that may not run within a test."""


class CrashingNode:
    """One folder: tasks, database, log, locks."""

    def __init__(self, folder: Path, durability: str = "normal", load: int = 0) -> None:
        """`load`: so many tasks more, which do nothing, once a second each: they only make the store work."""
        self.folder = folder
        self._load = load
        self._durability = durability
        self.database = folder / "evenbeat.db"
        self.log = folder / "log"
        self.log.touch()
        self._file = folder / "evenbeat.toml"
        self._file.write_text(self._tasks())
        self.node: subprocess.Popen[bytes] | None = None
        self.crashes = 0

    def _tasks(self) -> str:
        settings = f'[node]\nmax_concurrent = {_SLOTS}\ndurability = "{self._durability}"\n'
        parts = [f"{settings}[limits]\ntwo = 2\n[periods.blinks]\nranges = {_blinks()}\n"]

        def add(name: str, every: str, lasts: float, *more: str, status: int | str = 0, section: str = "tasks") -> None:
            watch = [word for word in more if "=" not in word]
            limits = ["two=2"] if 'limit = "two"' in more else []
            words = [
                sys.executable,
                "-I",
                "-S",
                str(_HERE / "recording_command.py"),
                str(self.folder),
                str(lasts),
                str(status),
            ]
            command = json.dumps([*words, *watch, *limits, f"slot={_SLOTS}"])
            when = f'every = "{every}"' if every else ""
            lines = [when, 'timebox = "30s"', f"command = {command}", *(m for m in more if "=" in m)]
            parts.append("\n".join([f"[{section}.{name}]", *lines, ""]))

        for i in range(_PLAIN):
            add(f"plain{i}", "1s", 0.02)
        add("steady", "2s", 0.3)
        add("slow", "1s", 1.1)
        add("forks", "2s", 1.5, "fork")
        add("each0", "1s", 0.3, 'backlog = "each"')
        add("each1", "1s", 1.2, 'backlog = "each"', 'tolerance = "900ms"')
        add("skips", "1s", 0.1, 'missed = "skip"')
        add("all0", "1s", 0.02, 'missed = "all"')
        add("all1", "2s", 0.5, 'missed = "all"', 'backlog = "each"')
        add("blinks", "1s", 0.1, 'period = "blinks"')
        for i in range(3):
            add(f"limited{i}", "2s", 0.7, 'limit = "two"')
        add("fails", "2s", 0.02, 'retry = "1s"', status=2, section="checks")
        add("checks", "2s", 0.1, section="checks")
        add("sick", "4s", 0.02, 'retry = "1s"', status="sick", section="checks")
        add("rare", "1w", 0.1)
        add("leaving", "1s", 1.2)
        add("tries", "3s", 0.02, "retries = 2", 'backoff = "500ms"', status="tries")
        add("gives-up", "3s", 0.02, "retries = 1", 'backoff = "500ms"', status=1)
        add("stopped", "2s", 1.2, "retries = 1", 'backoff = "200ms"')
        add("follows", "", 0.1, 'after = ["tries"]')
        add("both", "", 0.02, 'after = ["steady", "tries"]')
        add("mourns", "", 0.1, 'after_failure = ["gives-up"]')
        add("never", "", 0.02, 'after_failure = ["stopped"]')
        parts += [f'[tasks.load{i}]\nevery = "1s"\ncommand = ["noop"]\n' for i in range(self._load)]
        return "\n".join(parts)

    # Nodes

    def start(
        self,
        crash: tuple[str, int] | None = None,
        store: tuple[str, int, float] | None = None,
        checkpoints: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """A node, with a fault planted; when it returns it is up, or has crashed already."""
        planted = {"crash": crash, "store": store, "checkpoints": checkpoints}
        self.start_with({name: value for name, value in planted.items() if value}, environment)

    def start_with(self, fault: Mapping[str, object], environment: Mapping[str, str] | None = None) -> None:
        """The same for any faults that the launcher knows."""
        command = [
            sys.executable,
            str(_HERE / "crashing_node_launcher.py"),
            self.database,
            self._file,
            self.log,
            json.dumps(fault),
        ]
        with (self.folder / "node.log").open("ab") as output:
            whole = {**os.environ, **(environment or {})}
            self.node = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output, env=whole)
        eventually(lambda: self._is_over() or self.wrote("up"), "a node is up")

    def wait_for_crash(self) -> None:
        """Its own, as planted."""
        node = self._process()
        assert node.wait(PATIENCE) == -signal.SIGKILL, (self.folder / "node.log").read_text()
        self.crashes += 1

    def kill(self) -> None:
        self._process().kill()
        self.wait_for_crash()

    def stop(self) -> None:
        """In order."""
        node = self._process()
        node.terminate()
        assert node.wait(PATIENCE) == 0, (self.folder / "node.log").read_text()

    def close(self) -> None:
        """Whatever became of the test, nothing goes on."""
        if self.node is not None and self.node.poll() is None:
            self.node.kill()
            self.node.wait()

    def _process(self) -> "subprocess.Popen[bytes]":
        assert self.node is not None
        return self.node

    def _is_over(self) -> bool:
        return self._process().poll() is not None

    def wrote(self, word: str) -> bool:
        """Has this node said so in the log?"""
        return any(line.word == word and line.pid == self._process().pid for line in run_oracle.read_log(self.log))

    def workers(self) -> list[int]:
        """The processes of this node that run commands."""
        parent = f"/proc/{self._process().pid}/task/{self._process().pid}/children"
        found = [int(pid) for pid in Path(parent).read_text().split()]
        return [pid for pid in found if b"evenbeat.work.runner" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def running(self, *names: str) -> list[run_oracle.Line]:
        """Runs that began and did not end yet, of some tasks or of all."""
        begun = {line.pid: line for line in run_oracle.read_log(self.log) if line.word in ("start", "end")}
        live_node = [line for line in begun.values() if line.word == "start" and self._is_ours(line.pid)]
        return [line for line in live_node if not names or line.name in names]

    def _is_ours(self, pid: int) -> bool:
        """Numbers of processes are used again, and tests must kill nobody else's."""
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return str(self.folder).encode() in words and str(_HERE / "recording_command.py").encode() in words
        return False

    def kill_runs(self, *names: str) -> None:
        """The processes of these tasks, or of all."""
        for line in self.running(*names):
            _kill(line.pid)

    def kill_workers(self) -> None:
        for worker in self.workers():
            _kill(worker)

    def kill_all_but_runs(self, workers: signal.Signals, *, guardian: bool) -> None:
        """The node and all that it has started, its workers stopped or killed too: nobody sees another end."""
        node = self._process()
        helpers = [int(pid) for pid in Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()]
        others = set(helpers) - set(self.workers())
        assert others, "there is a guardian"
        node.send_signal(signal.SIGSTOP)
        for pid in [*self.workers(), *(others if guardian else ())]:
            os.kill(pid, signal.SIGSTOP)
        for pid in [*(others if guardian else ()), *(self.workers() if workers == signal.SIGKILL else ())]:
            os.kill(pid, signal.SIGKILL)
        self.kill()

    # What people ask of it

    def force(self, *names: str) -> None:
        """What the node promises is written down; one that dies first promises nothing."""
        for name in names:
            self._ask(ForceTasks((name,), "test"), "forced", name)

    def stop_runs(self, *names: str) -> None:
        """What is asked is written down, and that the node ends a run. A forced one that waits is withdrawn."""
        for name in names:
            self._write("stops", name)
            self._ask(StopRuns(Filter(names=(name,)), "test"), "stopped", name)

    def remove(self, name: str) -> None:
        """From the file first, which the next node applies; then from the one that lives."""
        tables = self._file.read_text().split("\n[")
        self._file.write_text("\n[".join(table for table in tables if not table.startswith(f"tasks.{name}]")))
        self._ask(RemoveTasks(Filter(names=(name,)), "test"), "removed", name)

    def _ask(self, request: ForceTasks | RemoveTasks | StopRuns, word: str, name: str) -> None:
        with suppress(StoreError, Invalid, OSError):
            node = connect_to_live_node(self.database)
            if node is not None:
                # One whose store fails answers when it has healed, which may be after the end of this test.
                assert isinstance(node, SocketBackend)
                node._socket.settimeout(1.0)
                with suppress(StoreError, OSError):
                    reply = node.ask(request)
                    # Nothing is promised of a task that the file's change has removed already, at a start.
                    is_removed = reply.changed is not None and bool(reply.changed.removed)
                    is_stopped = any(one.found is StopFound.RUN for one in reply.stopped or ())
                    if isinstance(request, ForceTasks) or is_removed or is_stopped:
                        self._write(word, name)
                node.close()

    def _write(self, *words: str) -> None:
        with self.log.open("a") as file:
            file.write(" ".join([*words, str(os.getpid()), str(time.time_ns() // 1_000)]) + "\n")

    # Until

    def live_on(self, runs: int = 1) -> None:
        """Until every task has ended so many runs more, and who makes up for all it missed is up to date."""
        already = len(run_oracle.read_log(self.log))
        known: set[str] = set()
        known_at = 0.0

        def is_well() -> bool:
            nonlocal known, known_at
            assert not self._is_over(), (self.folder / "node.log").read_text()
            ended = [line.name for line in run_oracle.read_log(self.log)[already:] if line.word == "end"]
            if not known.issubset(ended) and time.monotonic() < known_at + _REREAD:
                return False
            tasks = [task for task in run_oracle.read(self.database, self.log).tasks if task.removed is None]
            known = {task.name for task in tasks if task.name not in _OUTSIDE and not task.is_silent}
            known_at = time.monotonic()
            return all(ended.count(name) >= runs for name in known) and self._is_up_to_date(tasks)

        eventually(is_well, f"every task ends {runs} runs")

    def _is_up_to_date(self, tasks: list[run_oracle.Task]) -> bool:
        since = max(int(line.name) for line in run_oracle.read_log(self.log) if line.word == "taken-up")
        return all(task.accounted is not None and task.following > since for task in tasks if not task.is_chained)

    def findings(self) -> list[str]:
        """What is not right, now that the last node was stopped."""
        return run_oracle.findings(run_oracle.read(self.database, self.log)) + self._left_behind()

    def _left_behind(self) -> list[str]:
        """Processes that outlived everything hold their locks."""
        found = []
        for path in self.folder.glob("lock *"):
            with path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append(f"{path.name}: process {path.read_text().strip()} outlived its node")
        return found


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _blinks() -> str:
    """Two seconds open, two seconds closed, for some minutes."""
    now = datetime.now(UTC)
    begins = [now + timedelta(seconds=4 * i) for i in range(100)]
    return json.dumps([f"{t:%H:%M:%S}-{t + timedelta(seconds=2):%H:%M:%S}" for t in begins])
