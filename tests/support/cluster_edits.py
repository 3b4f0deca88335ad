"""Tasks of a cluster are edited, moved, paused and run by hand while schedulers are killed; and what must be true then.

What was done is written down, with the time before and after it. Between two changes of a task its nominal times are
known by arithmetic, and each of them is accounted for exactly once: nodes, partitions and failovers do not matter.
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from breakable_cluster import BreakableCluster
from path_model import nominal_times
from run_oracle import SECOND, Task

from evenbeat.client.node_or_database import open_client
from evenbeat.load.task_tables import task_from_table
from evenbeat.store.contract import Filter

NAMES: Final = ("a", "b", "c", "d", "e", "f")
_HEARS: Final = 3 * SECOND
"""So long after a change, at most, the node that has the task may not have heard of it."""
_JUST_BEFORE: Final = SECOND // 4
"""What is due so shortly after its claim may be claimed already."""
_FAILOVER: Final = 30 * SECOND
"""So long after a kill tasks may have been nobody's."""
_WITNESS: Final = Path(__file__).parent / "recording_command.py"
_GRID, _CATCH_UP = 0, 2


class Since(NamedTuple):
    """A task was changed between these two times, and is so since then."""

    before: int
    after: int
    keys: dict[str, Any]
    is_paused: bool


class Editor:
    """Changes tasks, through the store and through files, and knows what it did."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.keys = {name: self._interval() for name in NAMES}
        self.files = dict.fromkeys(NAMES, "tasks")
        self.paused: set[str] = set()
        self.history: dict[str, list[Since]] = {name: [] for name in NAMES}
        self.outages: list[tuple[int, int]] = []
        """When tasks may have had no scheduler: from the moment at which one was asked to stop, or killed."""
        self._folder = folder

    def text(self) -> str:
        """The first file as it is at first."""
        return self._file("tasks")

    def begin(self, cluster: BreakableCluster) -> None:
        self.cluster = cluster
        self._door = open_client(cluster.dsn, "ana")
        (self._folder / "more.toml").touch()
        self._note(0)

    def close(self) -> None:
        self._door.close()

    # What it does

    def edit(self) -> None:
        """Another interval or a cron entry, by hand."""
        name = self.chance.choice(NAMES)
        self.keys[name] = self.chance.choice([self._interval, self._interval, self._cron])()
        self._change(lambda: self._door.set(name, self._task(name)))

    def edit_in_file(self) -> None:
        name = self.chance.choice(NAMES)
        self.keys[name] = self._interval()
        self._change(self._apply)

    def move(self) -> None:
        """From one file to the other: nothing else changes."""
        name = self.chance.choice(NAMES)
        self.files[name] = "more" if self.files[name] == "tasks" else "tasks"
        self._change(self._apply)

    def pause(self) -> None:
        name = self.chance.choice(NAMES)
        self.paused ^= {name}
        self._change(lambda: self._door.pause(Filter(names=(name,)), paused=name in self.paused))

    def force(self) -> None:
        self._door.request_run([self.chance.choice(NAMES)])

    def kill_scheduler(self) -> None:
        """It comes back in a moment, when others have its tasks or before that."""
        victim = self.cluster.programs[self.chance.choice(["s0", "s1"])]
        killed = _now()
        self.outages.append((killed - SECOND, killed + _FAILOVER))
        victim.kill()
        self.edit()
        time.sleep(self.chance.choice([0.1, 8.0]))
        victim.start()
        victim.wait_until_ready()

    def restart_scheduler(self) -> None:
        """In order: the other has its tasks meanwhile."""
        victim = self.cluster.programs[self.chance.choice(["s0", "s1"])]
        victim.terminate()
        victim.wait_until_stopped()
        self.edit()
        victim.start()
        victim.wait_until_ready()

    def restart_all(self) -> None:
        """For a while there is no scheduler; meanwhile a task that was due in half an hour is to run in a moment."""
        task = self.chance.choice(NAMES)
        later = (_now() // SECOND + 1_800) % 3_600
        self.keys[task] = {"every": "3600s", "phase": f"{later}s"}
        self._change(lambda: self._door.set(task, self._task(task)))
        time.sleep(_HEARS / SECOND)
        asked = _now()
        for name in ("s0", "s1"):
            self.cluster.programs[name].terminate()
        for name in ("s0", "s1"):
            self.cluster.programs[name].wait_until_stopped()
        self.keys[task] = self._interval()
        self._change(lambda: self._door.set(task, self._task(task)))
        for name in ("s0", "s1"):
            self.cluster.programs[name].start()
        for name in ("s0", "s1"):
            self.cluster.programs[name].wait_until_ready()
        self.outages.append((asked - SECOND, _now() + _FAILOVER))
        time.sleep(_HEARS / SECOND)

    def finish(self) -> int:
        """All tasks are on short intervals and live again; the time until which everything is accounted for."""
        for name in NAMES:
            self.keys[name] = self._interval()
        self._change(self._apply)
        for name in sorted(self.paused):
            self.paused.discard(name)
            self._change(lambda: self._door.pause(Filter(names=(name,)), paused=False))  # noqa: B023
        time.sleep(_HEARS / SECOND)
        until = _now()
        self.cluster.live_on()
        return until

    def _change(self, do: Callable[[], object]) -> None:
        before = _now()
        do()
        self._note(before)

    def _note(self, before: int) -> None:
        now = _now()
        for name in NAMES:
            known = self.history[name]
            if not known or (known[-1].keys, known[-1].is_paused) != (self.keys[name], name in self.paused):
                known.append(Since(before or now, now, self.keys[name], name in self.paused))

    def _apply(self) -> None:
        for file in ("tasks", "more"):
            (self._folder / f"{file}.toml").write_text(self._file(file))
        self.cluster.evenbeat("apply", *(str(self._folder / f"{file}.toml") for file in ("tasks", "more")))

    # What tasks are

    def _interval(self) -> dict[str, Any]:
        every = self.chance.choice([2, 3, 5])
        return {"every": f"{every}s", "phase": f"{self.chance.randrange(every)}s"}

    def _cron(self) -> dict[str, Any]:
        return {"cron": "* * * * *", "second": self.chance.randrange(60), "zone": "UTC"}

    def _command(self) -> list[str]:
        return [sys.executable, "-I", "-S", str(_WITNESS), str(self._folder), "0.3", "0"]

    def _task(self, name: str) -> Any:
        return task_from_table(name, {**self.keys[name], "command": self._command()}, check=False)

    def _file(self, file: str) -> str:
        parts = []
        for name in NAMES:
            if self.files[name] == file:
                keys = {**self.keys[name], "command": self._command()}
                parts.append("\n".join([f"[tasks.{name}]", *(f"{k} = {json.dumps(v)}" for k, v in keys.items()), ""]))
        return "\n".join(parts)

    # What must be true

    def findings(self, until: int) -> list[str]:
        """What is not right, in words."""
        tasks = {task.name: task for task in self.cluster.records().evidence.tasks if task.removed is None}
        found = [f"{name} is gone" for name in NAMES if name not in tasks]
        for name in NAMES:
            found += [f"{name}: {what}" for what in self._findings(tasks[name], self.history[name], until)]
        found += [f"{line.name}: overlap" for line in self.cluster.lines() if line.word == "overlap"]
        return found

    def _findings(self, task: Task, history: list[Since], until: int) -> list[str]:
        found = []
        ends = [*(since.before for since in history[1:]), until]
        for since, end in zip(history, ends, strict=True):
            first, last = since.after + _HEARS, end - _JUST_BEFORE
            expected = nominal_times(since.keys, None, first, last)
            accounts = Counter(
                r.nominal for r in task.runs if r.kind in (_GRID, _CATCH_UP) and first < r.nominal <= last
            )
            strange = [t for t in accounts if t not in expected and self._is_on_grid(task, t)]
            found += [f"a run at no nominal time, {t}" for t in strange]
            for skip in task.skips:
                within = [t for t in expected if skip.first <= t <= skip.last]
                accounts.update(within)
                if within and not self._is_true(skip.reason, since, within):
                    found.append(f"skipped, {skip.reason}, which is not true: {within}")
            found += [f"accounted for {accounts[t]} times: {t}, {since}" for t in expected if accounts[t] != 1]
        return found

    def _is_on_grid(self, task: Task, t: int) -> bool:
        return any(run.nominal == t and run.kind == _GRID for run in task.runs)

    def _is_true(self, reason: str, since: Since, times: list[int]) -> bool:
        if since.is_paused:
            return reason == "disabled" or reason.startswith("missed")
        if reason.startswith("missed"):
            return all(any(begin <= t <= end for begin, end in self.outages) for t in times)
        return reason != "disabled"


def _now() -> int:
    return time.time_ns() // 1_000
