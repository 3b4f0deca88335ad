"""The baseline of `evenbeat bench node`: claim rows in SQLite, frame, echo from another process, frame, finish rows."""

import os
import socket
import sqlite3
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

BATCH = 500


def no_op() -> None:
    """The function that returns at once."""


def _echo(fd: int) -> None:
    """The other process: acknowledges every request at once."""
    with socket.socket(fileno=fd) as link, link.makefile("rb") as frames:
        while head := frames.read(4):
            runs = msgspec.msgpack.decode(frames.read(int.from_bytes(head, "big")))
            now = time.time_ns() // 1_000
            data = msgspec.msgpack.encode([(run[0], "succeeded", 0, now, now, b"") for run in runs])
            link.sendall(len(data).to_bytes(4, "big") + data)


class BaselineNode:
    """One loop, one database, one echoing process."""

    def __init__(self, folder: Path, tasks: int) -> None:
        self._db = sqlite3.connect(folder / "bare.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -32000"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("CREATE TABLE claims (task INTEGER PRIMARY KEY, nominal INTEGER, at INTEGER)")
        self._db.execute("CREATE TABLE progress (task INTEGER PRIMARY KEY, next INTEGER, ended INTEGER, outcome TEXT)")
        self._db.execute(
            "CREATE TABLE runs (task INTEGER, nominal INTEGER, started INTEGER, ended INTEGER, outcome TEXT)"
        )
        self._db.executemany("INSERT INTO progress VALUES (?, 0, 0, '')", ((i,) for i in range(tasks)))
        self._link, other = socket.socketpair()
        command = [sys.executable, "-m", "evenbeat.bench.bare_node", str(other.fileno())]
        os.set_inheritable(other.fileno(), True)  # noqa: FBT003
        self._pid = os.posix_spawn(sys.executable, command, os.environ)
        other.close()
        self._frames = self._link.makefile("rb")

    def runs(self, tasks: list[int], nominal: list[int]) -> list[int]:
        """Make a batch; says when each started."""
        now = time.time_ns() // 1_000
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(
            "INSERT INTO claims VALUES (?, ?, ?)", ((t, n, now) for t, n in zip(tasks, nominal, strict=True))
        )
        self._db.execute("COMMIT")
        data = msgspec.msgpack.encode([(t, "quick", n, 0, 60, now) for t, n in zip(tasks, nominal, strict=True)])
        self._link.sendall(len(data).to_bytes(4, "big") + data)
        head = self._frames.read(4)
        results = msgspec.msgpack.decode(self._frames.read(int.from_bytes(head, "big")))
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT INTO runs VALUES (?, 0, ?, ?, ?)", ((r[0], r[3], r[4], r[1]) for r in results))
        self._db.executemany(
            "UPDATE progress SET next = ?, ended = ?, outcome = ? WHERE task = ?",
            ((r[4], r[4], r[1], r[0]) for r in results),
        )
        self._db.executemany("DELETE FROM claims WHERE task = ?", ((t,) for t in tasks))
        self._db.execute("COMMIT")
        return [r[3] for r in results]

    def close(self) -> None:
        self._frames.close()
        self._link.close()
        os.waitpid(self._pid, 0)
        self._db.close()

    @classmethod
    def throughput(cls, tasks: int) -> float:
        """Runs per second, as fast as it goes."""
        with TemporaryDirectory(prefix="evenbeat-bench-") as folder:
            node = cls(Path(folder), tasks)
            node.runs([0], [0])
            start = time.perf_counter()
            for first in range(0, tasks, BATCH):
                some = list(range(first, min(first + BATCH, tasks)))
                node.runs(some, some)
            seconds = time.perf_counter() - start
            node.close()
        return tasks / seconds

    @classmethod
    def lateness(cls, rate: float, seconds: int) -> float:
        """The 99th percentile of lateness, in seconds, if one run is due every 1 / rate seconds."""
        with TemporaryDirectory(prefix="evenbeat-bench-") as folder:
            node = cls(Path(folder), 100_000)
            node.runs([0], [0])
            begin, late, made = time.time_ns() // 1_000, [], 0
            while (now := time.time_ns() // 1_000) < begin + seconds * 1_000_000:
                due = int((now - begin) * rate / 1e6)
                if due == made:
                    time.sleep(1 / rate)
                    continue
                numbers = range(made, min(due, made + BATCH))
                nominal = [begin + int(i * 1e6 / rate) for i in numbers]
                started = node.runs([i % 100_000 for i in numbers], nominal)
                late += [(s - n) / 1e6 for s, n in zip(started, nominal, strict=True)]
                made += len(numbers)
            node.close()
        return float(np.percentile(late, 99))


if __name__ == "__main__":
    _echo(int(sys.argv[1]))
