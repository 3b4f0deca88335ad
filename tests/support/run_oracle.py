"""The oracle of the crash tests: reads what the runs wrote and what the store remembers, and says what is not right.

It shares no code with evenbeat: the file through plain SQL and a reader of its own for the log of runs, the grid and
the windows by its own arithmetic.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from packed_runs import packed_runs
from run_log_reader import show_logged_runs
from run_oracle_checks import COLUMNS, Result, miscounted, misjudged, result_of
from run_oracle_jobs import CHAIN, Span, parents_of, retries_of, wrongly_chained, wrongly_retried, wrongly_stopped

SECOND: Final = 1_000_000
_DAY: Final = 86_400
_LONGEST: Final = 3_600 * SECOND
_GRID, _FORCED = 0, 6
NOT_STARTED: Final = ("dropped", "broken")
RAN: Final = ("succeeded", "failed")
_NOT_MADE: Final = ("lost", "interrupted")
_PASSED_BY: Final = "missed while stopped"
_UNHEARD: Final = 20 * SECOND
"""In a cluster, so long after an end of a parent the node of its follower may be dead without a successor."""


class Line(NamedTuple):
    """Of a run: `start`, `end`, `overlap`, `crowded`. Of a node, or of whoever asked it for something: no nominal."""

    word: str
    name: str
    nominal: int
    pid: int
    at: int
    detail: str = ""


class Run(NamedTuple):
    """A row of the history."""

    nominal: int
    kind: int
    generation: int
    claimed: int
    outcome: str


class Skip(NamedTuple):
    """A row of skipped nominal times."""

    first: int
    last: int
    times: int
    reason: str


class Task(NamedTuple):
    """What the store knows of a task."""

    name: str
    created: int
    removed: int | None
    accounted: int | None
    """Every nominal time up to this instant should be accounted for."""
    definition: dict[str, Any]
    windows: list[tuple[int, int]] | None
    """Open from and to, in seconds of the day; None for always."""
    runs: list[Run]
    skips: list[Skip]
    results: Sequence[Result] = ()
    """The same runs, with what they made of a check."""
    open_problems: Sequence[str] | None = None
    """Their causes; None: not known."""
    flaps: bool = False
    chain_skips: Sequence[Span] = ()
    """What passed by of a task that runs after others."""

    @property
    def is_chained(self) -> bool:
        """Has it no grid of its own, but runs after others?"""
        return bool(parents_of(self.definition))

    @property
    def following(self) -> int:
        """The first nominal time that is yet to come."""
        assert self.accounted is not None
        to_come = self.nominals(self.accounted + 1, self.accounted + _LONGEST)
        return to_come[0] if to_come else self.accounted + _LONGEST

    @property
    def is_silent(self) -> bool:
        """Do its runs leave no trace in the log? Then only the store tells of them."""
        return self.name.startswith("load")

    @property
    def missed(self) -> str:
        return str(self.definition.get("missed", "once"))

    def is_nominal(self, t: int) -> bool:
        schedule = self.definition["schedule"]
        return (t - schedule["phase"]) % schedule["every"] == 0 and self.is_open(t)

    def is_open(self, t: int) -> bool:
        if self.windows is None:
            return True
        second = t % (_DAY * SECOND) / SECOND
        return any(a <= second < b if a < b else second >= a or second < b for a, b in self.windows)

    def nominals(self, first: int, end: int) -> list[int]:
        """All nominal times from `first`, before `end`; of an hour at most, which no test lasts."""
        every, phase = self.definition["schedule"]["every"], self.definition["schedule"]["phase"]
        begin = first + (phase - first) % every
        return [t for t in range(begin, min(end, first + _LONGEST), every) if self.is_open(t)]


class Evidence(NamedTuple):
    """Everything there is to judge by."""

    lines: list[Line]
    tasks: list[Task]
    limits: dict[str, int]
    open_claims: list[tuple[str, int]]


# Reading


def read(database: Path, log: Path) -> Evidence:
    """The log and the store."""
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return Evidence(read_log(log), *_read_store(connection))


def read_log(log: Path) -> list[Line]:
    """Lines in the order they were written."""
    lines = []
    # A line that is just being written may be seen in part, where it crosses a page.
    for text in log.read_text().rpartition("\n")[0].splitlines():
        word, *rest = text.split()
        if word in ("start", "end", "overlap", "crowded"):
            name, nominal, pid, at, *detail = rest
            instant = datetime.fromisoformat(nominal) - datetime.fromtimestamp(0, UTC)
            lines.append(Line(word, name, round(instant.total_seconds() * SECOND), int(pid), int(at), *detail))
        else:
            *detail, pid, at = rest
            lines.append(Line(word, detail[0] if detail else "", 0, int(pid), int(at)))
    return lines


def _read_store(connection: sqlite3.Connection) -> tuple[list[Task], dict[str, int], list[tuple[str, int]]]:
    periods = {
        name: [_window(part) for line in json.loads(text).get("ranges", ()) for part in line.split(",")]
        for name, text in connection.execute("SELECT name, definition FROM periods")
    }
    runs, skips, results = defaultdict(list), defaultdict(list), defaultdict(list)
    show_logged_runs(connection)
    for table in ("plain_runs", "notable_runs"):
        for task, *row in connection.execute(f"SELECT task, nominal, kind, generation, claimed, outcome FROM {table}"):
            runs[task].append(Run(*row))
        for task, *row in connection.execute(f"SELECT task, {COLUMNS} FROM {table}"):
            results[task].append(Result(*row))
    for run in packed_runs(connection):
        runs[run.task].append(Run(run.nominal, run.kind, run.generation, run.claimed, run.outcome))
        results[run.task].append(result_of(run))
    for task, *row in connection.execute("SELECT task, first, last, times, reason FROM skips WHERE kind = 0"):
        skips[task].append(Skip(*row))
    chain_skips = defaultdict(list)
    for task, *row in connection.execute("SELECT task, first, last, reason FROM skips WHERE kind = ?", (CHAIN,)):
        chain_skips[task].append(Span(*row))
    tasks, open_problems = [], defaultdict(list)
    for task, cause in connection.execute("SELECT task, cause FROM problems WHERE closed IS NULL"):
        open_problems[task].append(cause)
    for number, name, created, removed, text, accounted, flaps in connection.execute(
        "SELECT number, name, created, removed, definition, coalesce(c.accounted, p.accounted), p.flapping "
        "FROM tasks JOIN progress p ON p.task = number LEFT JOIN claims c ON c.task = number"
    ):
        definition = json.loads(text)
        windows = periods[definition["period"]] if "period" in definition else None
        history = sorted(runs[number], key=lambda run: run.claimed)
        known = accounted, definition, windows, history, skips[number], results[number]
        tasks.append(Task(name, created, removed, *known, open_problems[number], bool(flaps), chain_skips[number]))
    limits: dict[str, int] = {}
    for (text,) in connection.execute("SELECT value FROM settings WHERE key LIKE 'limits:%'"):
        limits |= json.loads(text)
    claims = connection.execute("SELECT name, nominal FROM claims JOIN tasks ON number = task").fetchall()
    return tasks, limits, claims


def _window(text: str) -> tuple[int, int]:
    begin, end = text.strip().split("-")
    return _second_of_day(begin), _second_of_day(end)


def _second_of_day(text: str) -> int:
    hour, minute, second = map(int, text.split(":"))
    return hour * 3_600 + minute * 60 + second


# Judging


def findings(evidence: Evidence) -> list[str]:
    """Everything that is not right, in words; for a store whose last node was stopped in order."""
    taken_up = [line for line in evidence.lines if line.word == "taken-up"]
    found = [f"{name}: the run of {nominal} is still open" for name, nominal in evidence.open_claims]
    for task in evidence.tasks:
        own = [line for line in evidence.lines if line.name == task.name]
        since = [int(line.name) for line in taken_up if int(line.name) > task.created]
        is_promised = any(line.word == "removed" for line in own)
        about = [] if task.is_chained else unaccounted(task, since, is_promised=is_promised)
        about += [*_unexplained(task, own), *not_made_up(task), *jobs(task, evidence, own)]
        about += [*overlaps(own), *_forgotten_wishes(task, own), *_of_results(task)]
        found += [f"{task.name}: {what}" for what in about]
    return [*found, *crowds(evidence)]


def jobs(
    task: Task, evidence: Evidence, lines: list[Line], until: int = 1 << 62, *, is_told_late: bool = False
) -> Iterator[str]:
    """What is wrong with retries, with runs after others up to that time, and with what followed stopped runs.

    `is_told_late`: a queue that fails may hold back the end of a run; what comes due meanwhile is coalesced.
    """
    results = {one.name: one.results for one in evidence.tasks}
    grid_skips = [Span(skip.first, skip.last, skip.reason) for skip in task.skips]
    promised = [line.at for line in lines if line.word == "stopped"]
    made = [(run.nominal, run.kind) for run in task.runs]
    merged = [skip for skip in grid_skips if is_told_late and skip.reason == "coalesced"]
    yield from wrongly_retried(task.definition, task.results, merged)
    # A task without a grid of its own has all its skips for ends of parents: those that waited, and those refused.
    unheard = _UNHEARD if is_told_late else 0
    yield from wrongly_chained(task.definition, made, [*task.chain_skips, *grid_skips], results, until, unheard)
    yield from wrongly_stopped(task.results, grid_skips, promised)


def _of_results(task: Task) -> list[str]:
    """What is wrong with what results made of a check, and of the problems of a task."""
    found = miscounted(task.definition, task.results) if task.definition.get("check") else []
    if task.open_problems is not None and task.removed is None and not task.is_silent:
        found += misjudged(task.definition, task.results, task.open_problems, flaps=task.flaps)
    return found


def unaccounted(task: Task, taken_up: list[int], *, is_promised: bool) -> list[str]:
    """Every nominal time exactly once: the nominal of a run, or within one range of skips that counts right."""
    found = []
    accounts: Counter[int] = Counter()
    for run in task.runs:
        if run.generation:
            found.append(f"the run of {run.nominal} has clock generation {run.generation}")
        if run.kind == _GRID and not task.is_nominal(run.nominal):
            found.append(f"a run of kind grid at {run.nominal}, which is no nominal time")
        # Who makes up for all that it missed has runs for nominal times of the past.
        if run.kind == _GRID or (task.missed == "all" and run.kind != _FORCED and task.is_nominal(run.nominal)):
            accounts[run.nominal] += 1
    for skip in task.skips:
        within = task.nominals(skip.first, skip.last + 1)
        accounts.update(within)
        if len(within) != skip.times or not within or (within[0], within[-1]) != (skip.first, skip.last):
            found.append(f"a skip of {skip.times} from {skip.first} to {skip.last}, where the grid has {len(within)}")
    found += [f"nominal {t} is accounted for {times} times" for t, times in sorted(accounts.items()) if times > 1]
    if task.accounted is None or not taken_up:
        return [*found, "no node has ever taken it up"]
    first = min([task.following, *accounts])
    # The accounts of a task that was removed are closed then, by the node that says so.
    end = task.following if task.removed is None else min(task.following, task.removed + 1)
    missing = [t for t in task.nominals(first, end) if not accounts[t]]
    found += [f"nominal {t} is not accounted for" for t in missing]
    found += [f"nominal {t} is accounted for, and yet to come" for t in accounts if t >= task.following]
    # Where the accounts begin, and how far they go: no further behind than a node that took it up would leave them.
    until = taken_up[-1] if task.removed is None else task.removed
    if task.nominals(taken_up[0], first):
        found.append(f"accounts begin at {first}, but a node has it since {taken_up[0]}")
    if (task.removed is None or is_promised) and task.nominals(task.following, until):
        found.append(f"accounts end at {task.following}, but they should go until {until}")
    return found


def _unexplained(task: Task, lines: list[Line]) -> list[str]:
    """Nothing begins without a record, nothing begins twice, and records tell what the runs tell."""
    found = []
    begun = Counter(line.nominal for line in lines if line.word == "start")
    ended = Counter(line.nominal for line in lines if line.word == "end")
    rows = Counter(run.nominal for run in task.runs)
    most = 1 + retries_of(task.definition)
    for nominal, times in begun.items():
        if times > 1 and times > min(rows[nominal], most):
            found.append(f"the run of {nominal} began {times} times")
        if not rows[nominal]:
            found.append(f"a run of {nominal} began that the store does not know")
    for nominal, times in rows.items():
        if times > most:
            found.append(f"{'two' if times == 2 else times} runs have the identity {nominal}")
    ran = Counter(run.nominal for run in task.runs if run.outcome in RAN)
    not_started = Counter(run.nominal for run in task.runs if run.outcome in NOT_STARTED)
    for run in task.runs:
        if run.outcome in NOT_STARTED and begun[run.nominal] > rows[run.nominal] - not_started[run.nominal]:
            found.append(f"the run of {run.nominal} is recorded {run.outcome}, but began")
        if run.outcome in RAN and ended[run.nominal] < ran[run.nominal] and not task.is_silent:
            found.append(f"the run of {run.nominal} is recorded {run.outcome}, but did not end")
    return found


def not_made_up(task: Task) -> list[str]:
    """With missed = "once" or "all", whatever was lost or passed by is followed by a run that was really made."""
    if task.missed == "skip" or task.removed is not None:
        return []
    gaps = [run.claimed for run in task.runs if run.outcome in _NOT_MADE]
    gaps += [skip.last for skip in task.skips if skip.reason == _PASSED_BY]
    newest = max([run.claimed for run in task.runs if run.outcome not in (*_NOT_MADE, *NOT_STARTED)], default=0)
    return [f"what was missed at {t} was never made up for" for t in gaps if t > newest]


def overlaps(lines: list[Line]) -> list[str]:
    """By the order of lines, for runs that ended; by the lock that a run met, also for those that were killed."""
    found = [f"the run of {line.nominal} met another that still lived" for line in lines if line.word == "overlap"]
    ends = {(line.nominal, line.pid) for line in lines if line.word == "end"}
    running: set[tuple[int, int]] = set()
    for line in lines:
        if line.word == "start" and (line.nominal, line.pid) in ends:
            found += [f"the run of {line.nominal} began before that of {other} had ended" for other, _ in running]
            running.add((line.nominal, line.pid))
        elif line.word == "end":
            running.discard((line.nominal, line.pid))
    return found


def _forgotten_wishes(task: Task, lines: list[Line]) -> list[str]:
    """A forced run that was promised is made, and a task that was removed does not run again."""
    found = []
    for line in lines:
        made = [run for run in task.runs if run.kind == _FORCED and run.claimed > line.at - SECOND]
        may_be_withdrawn = any(other.word == "stops" and other.at >= line.at for other in lines)
        if line.word == "forced" and not made and task.removed is None and not may_be_withdrawn:
            found.append(f"the run that was promised at {line.at} was not made")
        if line.word == "removed":
            found += [f"the run of {r.nominal} was claimed after the removal" for r in task.runs if r.claimed > line.at]
    return found


def crowds(evidence: Evidence) -> list[str]:
    """No more at the same time than the limit of their key allows."""
    lines = evidence.lines
    found = [
        f"{line.name}: no room under {line.detail!r} at {line.nominal}" for line in lines if line.word == "crowded"
    ]
    keys = {task.name: task.definition["limit"] for task in evidence.tasks if "limit" in task.definition}
    ends = {(line.name, line.nominal, line.pid) for line in lines if line.word == "end"}
    running: Counter[str] = Counter()
    for line in lines:
        if line.name in keys and (line.name, line.nominal, line.pid) in ends and line.word in ("start", "end"):
            key = keys[line.name]
            running[key] += 1 if line.word == "start" else -1
            if running[key] > evidence.limits[key]:
                found.append(f"{line.name}: run {running[key]} of at most {evidence.limits[key]} under {key!r}")
    return found
