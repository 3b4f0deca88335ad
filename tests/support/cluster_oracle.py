"""The oracle of the cluster tests: what the runs wrote down, and what PostgreSQL remembers, beside each other.

It judges a cluster that lives: some runs are open. The grid, the overlaps and the limits it judges as `run_oracle` does
for one node. What is added is what only several nodes and workers can do wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from run_oracle import NOT_STARTED, RAN, SECOND, Evidence, Line, Task, crowds, jobs, not_made_up, overlaps, unaccounted
from run_oracle_checks import miscounted
from run_oracle_jobs import retries_of

OPEN: Final = "open"
"""The outcome of a run that was claimed and has not ended, as far as the store knows."""
RECOVERY: Final = 15 * SECOND
"""So long after everything has healed every task must have begun again; until then runs may be lost because of it."""
_LASTS: Final = 20 * SECOND
"""No run of ours lasts longer, so none was there any more so long after its claim."""
_ON_ITS_WAY: Final = 3 * SECOND
"""A result may be so long under way, and be a victim of what comes meanwhile."""
_UNSTORED: Final = 10 * SECOND
"""A result that is not stored by then, with nothing wrong, never will be."""
_EARLY: Final = SECOND
"""What a clock may differ by from that of the store."""
_TAKES: Final = 5 * SECOND
"""What is due so shortly before that moment may come after it."""
_STILL_STARTED: Final = 8 * SECOND
"""A claim may be so old when its run begins, while the server is gone."""
_NEVER: Final = 1 << 62
_LATE: Final = 60 * SECOND
"""Nothing waits so long between its claim and its start; only clocks differ by that."""


class Sighting(NamedTuple):
    """An open claim that somebody saw who looked on all the time."""

    name: str
    nominal: int
    kind: int
    at: int
    token: int


class ClusterRecords(NamedTuple):
    """Everything there is to judge a cluster by."""

    evidence: Evidence
    """Open claims are among the runs of the tasks."""
    known: int
    """So many lines had been written before the store was asked: it must know of them."""
    sightings: list[Sighting]
    at: int
    """When the store was asked."""


def findings(records: ClusterRecords, *, is_timed: bool = False) -> list[str]:
    """Everything that is not right, in words; with `is_timed`, also what came back, but too late."""
    lines = records.evidence.lines
    by_name: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_name[line.name].append(line)
    known: dict[str, set[int]] = defaultdict(set)
    for line in lines[: records.known]:
        if line.word == "start":
            known[line.name].add(line.nominal)
    seen: dict[str, list[Sighting]] = defaultdict(list)
    for sighting in records.sightings:
        seen[sighting.name].append(sighting)
    accounted = [int(line.name) for word in ("begun", "settled") for line in lines if line.word == word]
    faults = list(windows(lines))
    forgotten = [(int(line.name), line.at + _STILL_STARTED) for line in lines if line.word == "forgotten"]
    found = []
    for task in records.evidence.tasks:
        own = by_name[task.name]
        about = [] if task.is_chained else unaccounted(task, accounted, is_promised=True)
        about += [*not_made_up(task), *overlaps(own)]
        # What the server has forgotten may be made once more.
        about += [] if forgotten else jobs(task, records.evidence, own, records.at - _UNSTORED, is_told_late=True)
        remembered = [line for line in own if not any(a <= line.at <= b for a, b in forgotten)]
        about += _unexplained(task, own, {line.nominal for line in remembered} & known[task.name], remembered)
        about += [*_untimely(task, remembered), *_needless(task, own, faults)]
        about += [
            *_unstored(task, own, faults, records.at),
            *_disorder([s for s in records.sightings if s.name == task.name], forgotten),
        ]
        about += miscounted(task.definition, task.results) if task.definition.get("check") else []
        about += _not_back(task, own, faults, records.at) if is_timed and not task.is_chained else []
        found += [f"{task.name}: {what}" for what in about]
    return [*found, *crowds(records.evidence), *_shared_tokens(records.sightings)]


def windows(lines: list[Line]) -> Iterator[tuple[int, int]]:
    """From when until when something was wrong; of what never healed, until the end of time."""
    open_since: dict[str, int] = {}
    for line in lines:
        if line.word == "fault":
            open_since[line.name] = line.at
        elif line.word == "healed":
            yield open_since.pop(line.name), line.at
    for since in open_since.values():
        yield since, _NEVER


def _unexplained(task: Task, lines: list[Line], known: set[int], remembered: list[Line]) -> list[str]:
    """Nothing begins without a claim, nothing begins twice, no claim has two results, and records tell what runs tell.

    What makes up for a lost run has a nominal time of its own: the same one never begins again, unless the server had
    forgotten that it did.
    """
    begun = Counter(line.nominal for line in remembered if line.word == "start")
    ended = {line.nominal for line in lines if line.word == "end"}
    rows = Counter(run.nominal for run in task.runs)
    most = 1 + retries_of(task.definition)
    found = [f"the run of {nominal} began {times} times" for nominal, times in begun.items() if times > most]
    found += [f"a run of {nominal} began that the store does not know" for nominal in sorted(known - rows.keys())]
    found += [f"the run of {nominal} has {times} results" for nominal, times in rows.items() if times > most]
    for run in task.runs:
        if run.outcome in NOT_STARTED and rows[run.nominal] == 1 and begun[run.nominal]:
            found.append(f"the run of {run.nominal} is recorded {run.outcome}, but began")
        if run.outcome in RAN and run.nominal not in ended:
            found.append(f"the run of {run.nominal} is recorded {run.outcome}, but did not end")
    return found


def _untimely(task: Task, lines: list[Line]) -> list[str]:
    """All nodes and workers go by the clock of the store, whatever their own says."""
    claims: dict[int, list[int]] = defaultdict(list)
    for run in task.runs:
        claims[run.nominal].append(run.claimed)
    found = []
    for line in lines:
        if line.word == "start" and line.nominal in claims:
            # Of several attempts the last one that was claimed before: it may have waited for the queue for long.
            before = [at for at in claims[line.nominal] if at <= line.at + _EARLY]
            claimed = max(before, default=min(claims[line.nominal]))
            if line.at < line.nominal - _EARLY:
                found.append(f"the run of {line.nominal} began at {line.at}, before its time")
            if not -_EARLY <= line.at - claimed <= _LATE:
                found.append(f"the run of {line.nominal} began at {line.at}, and was claimed at {claimed}")
    return found


def _unstored(task: Task, lines: list[Line], faults: list[tuple[int, int]], now: int) -> list[str]:
    """A run that is still open does last, or its result is under way."""
    ended = {line.nominal: line.at for line in lines if line.word == "end"}
    healed = max((b for _, b in faults), default=0)
    return [
        f"the run of {run.nominal} has ended, and its result was never stored"
        for run in task.runs
        if run.outcome == OPEN and now - max(ended.get(run.nominal, now), healed) > _UNSTORED
    ]


def _needless(task: Task, lines: list[Line], faults: list[tuple[int, int]]) -> list[str]:
    """Runs are lost because of something, and not because nobody listened to how they ended."""
    ended = {line.nominal: line.at for line in lines if line.word == "end"}
    found = []
    for run in task.runs:
        latest = ended.get(run.nominal, run.claimed + _LASTS) + _ON_ITS_WAY
        if run.outcome == "lost" and not any(a <= latest and run.claimed <= b + RECOVERY for a, b in faults):
            found.append(f"the run of {run.nominal} is recorded lost, though nothing was wrong")
    return found


def _disorder(sightings: list[Sighting], forgotten: list[tuple[int, int]]) -> list[str]:
    """A run has one token, a later claim a higher one; a claim that the server has forgotten was another run."""
    found = []
    tokens: dict[tuple[int, int], int] = {}
    highest = 0
    for seen in sorted(sightings, key=lambda seen: seen.at):
        is_forgotten = any(a <= seen.at <= b for a, b in forgotten)
        token = seen.token if is_forgotten else tokens.setdefault((seen.nominal, seen.kind), seen.token)
        if token != seen.token:
            found.append(f"the run of {seen.nominal} was claimed with token {token} and with {seen.token}")
        elif seen.token <= highest:
            found.append(f"the run of {seen.nominal} has token {seen.token}, and an earlier one had {highest}")
        highest = max(highest, seen.token)
    return found


def _shared_tokens(sightings: list[Sighting]) -> list[str]:
    owners: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for seen in sightings:
        owners[seen.token].add((seen.name, seen.nominal))
    return [f"token {token} belongs to {sorted(names)}" for token, names in owners.items() if len(names) > 1]


def _not_back(task: Task, lines: list[Line], faults: list[tuple[int, int]], now: int) -> list[str]:
    """Within RECOVERY of the end of each fault, unless the next one came before, or nothing was due. What is due while
    a run goes on that nothing disturbs merges into it, so then none need begin.
    """
    found = []
    begun = [line.at for line in lines if line.word == "start"]
    ends = {(line.pid, line.nominal): line.at for line in lines if line.word == "end"}
    started = [line for line in lines if line.word == "start" and (line.pid, line.nominal) in ends]
    whole = [(line.at, ends[line.pid, line.nominal]) for line in started]
    for _, healed in faults:
        until = healed + RECOVERY
        is_disturbed = until > now or any(healed < begin < until for begin, _ in faults)
        due = task.nominals(healed, until - _TAKES)
        is_due = any(not any(begin <= nominal <= end + SECOND for begin, end in whole) for nominal in due)
        if is_due and not is_disturbed and not any(healed <= at <= until for at in begun):
            near = [f"{line.word} {line.at - healed:+,}" for line in lines if abs(line.at - healed) < 3 * RECOVERY]
            found.append(f"healed at {healed}, and no run began within {RECOVERY // SECOND} s ({', '.join(near)})")
    return found
