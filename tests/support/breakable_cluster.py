"""A cluster on this machine that can be broken: real schedulers, workers and servers, and a network between them."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import cluster_oracle
import run_oracle
from cluster_process import ClusterProcess
from cluster_records import Watcher, connect, read, tasks_of
from network_proxy import Address, Link, Network
from packed_runs import packed_runs
from waiting import PATIENCE, eventually

from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.wire.replies import StopFound

_OFTEN: Final = 10 * run_oracle.SECOND
"""Tasks that are due more rarely are not waited for."""
_LOOK: Final = 0.1
"""Seconds between two looks at all that the store has, or ten times what a look took, ..."""
_LONGEST_PAUSE: Final = 0.5
"""... up to this."""


class Servers(NamedTuple):
    """Shared by the tests of one process: each has its own database and its own stream."""

    postgres: PostgresServer
    nats: NatsServer
    network: Network | None = None
    """Between the NATS servers, if it can be broken: `nats0-nats1` is the way from the first to the second."""


class BreakableCluster:
    """Some schedulers `s0`, `s1` ... and workers `w0`, `w1` ..., each with its own links to the servers."""

    def __init__(
        self,
        folder: Path,
        servers: Servers,
        tasks: str,
        *,
        schedulers: int = 2,
        workers: int = 2,
        planted: Mapping[str, dict[str, Any]] | None = None,
        pythons: Mapping[str, str] | None = None,
    ) -> None:
        """`planted` and `pythons` by the names of programs: see `ClusterProcess`.

        The Python of `apply` is for the command that makes the database and its tasks.
        """
        self.folder = folder
        self.servers = servers
        self.log = folder / "log"
        self.log.touch()
        self.dsn = servers.postgres.create_database()
        self.network = Network()
        self.programs: dict[str, ClusterProcess] = {}
        self._prefix = f"t{secrets.token_hex(4)}"
        self._file = folder / "tasks.toml"
        self._file.write_text(tasks)
        self._watcher: Watcher | None = None
        self.waiting_for: set[str] = set()
        """Tasks that have not run again yet."""
        planted, pythons = planted or {}, pythons or {}
        self._python_of_apply = pythons.get("apply", sys.executable)
        for name in [f"s{i}" for i in range(schedulers)]:
            words = ["scheduler", "--db", self._store(name), "--queue", self._queue(name), "--replicas", "3"]
            python = pythons.get(name, sys.executable)
            self.programs[name] = ClusterProcess(name, folder, words, planted.get(name), python)
        for name in [f"w{i}" for i in range(workers)]:
            words = ["worker", "--queue", self._queue(name), "--workers", "1", "--grace", "5s"]
            python = pythons.get(name, sys.executable)
            self.programs[name] = ClusterProcess(name, folder, words, planted.get(name), python)

    def _store(self, name: str) -> str:
        whole = urlsplit(self.dsn)
        link = self.network.link(f"{name}-store", [Address("127.0.0.1", whole.port or 5432)])
        return urlunsplit(whole._replace(netloc=f"{whole.username}@127.0.0.1:{link.ports[0]}"))

    def _queue(self, name: str) -> str:
        addresses = [Address("127.0.0.1", urlsplit(url).port or 4222) for url in self.servers.nats.urls]
        ports = self.network.link(f"{name}-queue", addresses).ports
        return f"nats://{','.join(f'127.0.0.1:{port}' for port in ports)}/{self._prefix}"

    @property
    def stream(self) -> str:
        return f"{self._prefix}-runs"

    def link(self, name: str) -> Link:
        return self.network.links[name]

    # Life

    def begin(self) -> None:
        """Until every task has run once."""
        self.evenbeat("apply", str(self._file), python=self._python_of_apply)
        self._watcher = Watcher(self.dsn)
        for program in self.programs.values():
            program.start()
        for program in self.programs.values():
            program.wait_until_ready()
        self.live_on()
        # From here on there is nothing that the accounts of a task do not tell.
        self.note("begun", str(time.time_ns() // 1_000))

    def evenbeat(self, *words: str, python: str = sys.executable) -> str:
        """A command of somebody who has the database at hand."""
        done = self._command(*words, python=python)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def _command(self, *words: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        command = [python, "-m", "evenbeat", *words, "--db", self.dsn]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def note(self, *words: str, at: int | None = None) -> None:
        """A line in the log that the runs write to, of now or of another time."""
        moment = time.time_ns() // 1_000 if at is None else at
        with self.log.open("a") as file:
            file.write(" ".join([*words, str(os.getpid()), str(moment)]) + "\n")

    def stop_run(self, name: str) -> None:
        """A person stops a run under way, the next one if this one is quicker; that a node ends it is written down."""
        while True:
            under_way = eventually(lambda: self.running(name), f"{name} runs")
            done = self._command("stop", name, "--json")
            assert done.returncode in (0, 1), f"stop {name}: {done.stdout}{done.stderr}"
            (answer,) = json.loads(done.stdout)["stopped"]
            if answer["found"] == StopFound.RUN:
                # The answer takes its time, and the next run may be under way by now.
                self.note("stopped", name, at=self._stopped_at(name))
                return
            goes_on = [line for line in under_way if line in self.running(name)]
            assert not goes_on, f"stop {name} finds {answer['found']}, and these runs go on: {goes_on}"

    def _stopped_at(self, name: str) -> int:
        """When a node noted that it has stopped the latest run of a task."""
        with connect(self.dsn) as connection:
            asked = "SELECT max(at) FROM changes WHERE action = 'stopped' AND name = %s"
            ((at,),) = connection.execute(asked, (name,)).fetchall()
        return int(at)

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Something is wrong within, and has healed at the end; then everything goes on."""
        self.note("fault", name)
        began = time.monotonic()
        yield
        self.note("healed", name)
        healed = time.monotonic()
        self.live_on()
        back = time.monotonic() - healed
        print(f"{name}: broken for {healed - began:.1f} s, every task ran again {back:.1f} s later")  # noqa: T201

    def live_on(self) -> None:
        """Until every task has begun and ended once more, and nothing that was due before this is open to account."""
        since = time.time_ns() // 1_000
        tasks = self.records().evidence.tasks
        wanted = {task.name for task in tasks if task.definition["schedule"].get("every", 0) <= _OFTEN}

        def is_well() -> bool:
            for program in self.programs.values():
                assert program.is_alive, f"{program.name} is gone:\n{program.output}"
            self.waiting_for = wanted - self._done(since)
            return not self.waiting_for and self._is_up_to_date(since)

        self._until(is_well, "every task runs")
        self.note("settled", str(since))

    def _done(self, since: int) -> set[str]:
        """Tasks that were claimed since then, and the run has ended by itself."""
        with connect(self.dsn) as connection:
            rows = connection.execute(
                "SELECT task FROM (SELECT * FROM plain_runs UNION ALL SELECT * FROM notable_runs) runs "
                "WHERE claimed >= %s AND outcome IN ('succeeded', 'failed')",
                (since,),
            )
            done = {task for (task,) in rows}
            done |= {
                run.task
                for run in packed_runs(connection)
                if run.claimed >= since and run.outcome in ("succeeded", "failed")
            }
            names = connection.execute("SELECT number, name FROM tasks")
            return {name for number, name in names if number in done}

    def _is_up_to_date(self, since: int) -> bool:
        with connect(self.dsn) as connection:
            tasks = [task for task in tasks_of(connection) if task.removed is None and not task.is_chained]
        return all(task.accounted is not None and task.following > since for task in tasks)

    def _until(self, question: Any, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            began = time.monotonic()
            if question():
                return
            assert time.monotonic() < deadline, f"never: {what}; missing: {sorted(self.waiting_for)}\n{self.tails()}"
            time.sleep(min(max(_LOOK, 10 * (time.monotonic() - began)), _LONGEST_PAUSE))

    def lines(self) -> list[run_oracle.Line]:
        return run_oracle.read_log(self.log)

    def running(self, *names: str) -> list[run_oracle.Line]:
        """Runs that began and have not ended, of some tasks."""
        ended = {(line.name, line.nominal) for line in self.lines() if line.word == "end"}
        begun = [line for line in self.lines() if line.word == "start" and (line.name, line.nominal) not in ended]
        return [line for line in begun if line.name in names and Path(f"/proc/{line.pid}").exists()]

    def wait_for_run(self, *names: str, fresh: float = 60.0) -> tuple[run_oracle.Line, ClusterProcess]:
        """Until one of these runs that began at most so many seconds ago; it, and the worker that has it."""
        found: list[run_oracle.Line] = []

        def is_there() -> bool:
            begun = time.time_ns() // 1_000 - round(fresh * run_oracle.SECOND)
            found[:] = [line for line in self.running(*names) if line.at >= begun]
            return bool(found)

        eventually(is_there, f"one of {names} runs")
        workers = {program.pid: program for program in self.programs.values()}
        process = found[-1].pid
        while process not in workers:
            process = parent_of(process)
        return found[-1], workers[process]

    def outcome(self, run: run_oracle.Line) -> str:
        """What the store knows of a run."""
        tasks = {task.name: task for task in self.records().evidence.tasks}
        return next((row.outcome for row in tasks[run.name].runs if row.nominal == run.nominal), "")

    # Who holds what

    def leases(self) -> dict[str, dict[str, Any]]:
        """What the nodes that nobody has buried tell of themselves, by their ids."""
        with connect(self.dsn) as connection:
            return {node: json.loads(about) for node, about in connection.execute("SELECT node, about FROM leases")}

    def nodes(self) -> dict[str, str]:
        """The ids of the live nodes, by the names of their programs."""
        pids = {program.pid: name for name, program in self.programs.items() if program.is_alive}
        return {pids[about["pid"]]: node for node, about in self.leases().items() if about["pid"] in pids}

    def tasks_of(self, node: str) -> set[int]:
        """The numbers of the tasks that a node decides about."""
        with connect(self.dsn) as connection:
            return {
                number
                for (number,) in connection.execute(
                    "SELECT number FROM tasks JOIN partitions ON partition = mod(number, 256) "
                    "WHERE holder = %s AND removed IS NULL",
                    (node,),
                )
            }

    def claimed(self, numbers: set[int], since: int) -> dict[int, list[int]]:
        """When these tasks were claimed since then."""
        found: dict[int, list[int]] = {number: [] for number in numbers}
        with connect(self.dsn) as connection:
            for number, at in connection.execute(
                "SELECT task, claimed FROM plain_runs WHERE claimed >= %(since)s "
                "UNION ALL SELECT task, claimed FROM notable_runs WHERE claimed >= %(since)s "
                "UNION ALL SELECT task, at FROM claims WHERE at >= %(since)s",
                {"since": since},
            ):
                if number in found:
                    found[number].append(at)
            for run in packed_runs(connection):
                if run.task in found and run.claimed >= since:
                    found[run.task].append(run.claimed)
        return {number: sorted(set(times)) for number, times in found.items()}

    # Judging

    def records(self) -> cluster_oracle.ClusterRecords:
        return read(self.dsn, self.log, [] if self._watcher is None else self._watcher.sightings())

    def findings(self, *, is_timed: bool = False) -> list[str]:
        return cluster_oracle.findings(self.records(), is_timed=is_timed)

    def lasting_findings(self, *, is_timed: bool = False) -> list[str]:
        """Those that stay: what was lost at last may not be made up for at once."""
        with suppress(AssertionError):
            eventually(lambda: not self.findings(is_timed=is_timed), "nothing is found")
        return self.findings(is_timed=is_timed)

    def outcomes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for task in self.records().evidence.tasks:
            for run in task.runs:
                found[run.outcome] = found.get(run.outcome, 0) + 1
        return found

    def tails(self, most: int = 12) -> str:
        """What the programs said last, for whoever reads of a failure."""
        return "\n".join(f"--- {p.name}\n" + "\n".join(p.output.splitlines()[-most:]) for p in self.programs.values())

    def close(self) -> None:
        """Whatever became of the test, nothing goes on."""
        if self._watcher is not None:
            self._watcher.close()
        for program in self.programs.values():
            program.close()
        self.network.close()


def children_of(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_called(process: int, name: bytes) -> bool:
    return name in Path(f"/proc/{process}/cmdline").read_bytes()


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
