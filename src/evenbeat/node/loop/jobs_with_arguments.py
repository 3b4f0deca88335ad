"""Jobs of forced runs with arguments of their own, from the request until the run, and its retries, have ended.

The store keeps each as a setting, written before the run is planned and deleted when it has ended. While there is one,
the task takes no further forced run: so a job belongs to exactly one run, also after a crash.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from evenbeat.model import Entry, Instant, Job, RunKind
from evenbeat.store.contract import Store, TaskProgress

_PREFIX: Final = "own job "
"""Of settings: the id of the task and the time of the request follow."""
_RUNS_SEARCHED: Final = 100
"""Latest runs of a task among which the forced one is looked for."""
_KINDS: Final = (RunKind.FORCED, RunKind.RETRY)


class StoredOwnJob(NamedTuple):
    """What a store says of such a job, and of the run that it is for."""

    key: str
    number: int
    """Of the task."""
    asked: Instant
    job: Job
    nominal: Instant | None
    """Of its run; None if none was claimed."""
    is_latest: bool
    """Is that, or a retry of it, the latest run of the task?"""


@dataclass(slots=True)
class OwnJob:
    """The job of one forced run."""

    key: str
    """Of its setting."""
    packed: bytes
    """A packed model.Job."""
    function: str | None
    nominal: int | None = None
    """Of the run, as soon as it is claimed: its retries carry it."""


class OwnJobs:
    """By the number of the task."""

    def __init__(self) -> None:
        self._jobs: dict[int, OwnJob] = {}
        self._ended: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def nominal(self, number: int) -> int | None:
        """Of the run of this task that has a job of its own; None before it is claimed."""
        found = self._jobs.get(number)
        return None if found is None else found.nominal

    def __contains__(self, number: int) -> bool:
        return number in self._jobs

    def get(self, number: int, kind: int, nominal: int) -> OwnJob | None:
        """The job of this run; None if it is the job of its task."""
        found = self._jobs.get(number)
        if found is None or kind not in _KINDS or (kind == RunKind.RETRY and nominal != found.nominal):
            return None
        return found

    def begin(self, number: int, kind: int, nominal: int) -> OwnJob | None:
        """As `get`, of a run that is claimed now."""
        found = self.get(number, kind, nominal)
        if found is not None:
            found.nominal = nominal
        return found

    def add(self, entry: Entry, job: Job, asked: Instant) -> tuple[str, str]:
        """Keep the job of a run that is about to be forced; returns the setting that stores it."""
        key = f"{_PREFIX}{entry.id} {asked}"
        self._jobs[entry.number] = _own_job(key, job)
        return key, msgspec.json.encode(job).decode()

    def end(self, number: int) -> None:
        """The run has ended, or will not be made."""
        if (found := self._jobs.pop(number, None)) is not None:
            self._ended.append(found.key)

    def leave(self, number: int) -> None:
        """Another node has the task and its run."""
        self._jobs.pop(number, None)

    def take_ended(self) -> list[str]:
        """The keys of settings to delete: their runs have ended."""
        ended, self._ended = self._ended, []
        return ended

    def move_back(self, by: int) -> None:
        """The clock was set back: what retries carry moves with it."""
        for own in self._jobs.values():
            own.nominal = None if own.nominal is None else own.nominal - by

    def restore(
        self,
        stored: Iterable[StoredOwnJob],
        claims: Iterable[TaskProgress],
        is_forced: Callable[[int], bool],
        retried: Callable[[int], int | None],
    ) -> None:
        """Bring in the jobs of forced runs that wait, of runs that were claimed, and of those whose retries wait.

        By the number of the task: `is_forced` says that a forced run waits, `retried` what a waiting retry carries. A
        run that was claimed before its job was asked for is another one.
        """
        claimed = {p.task: p.claimed for p in claims if p.claimed_kind in _KINDS}
        for found in stored:
            if is_forced(found.number):
                nominal: int | None = None
            elif found.nominal is not None and claimed.get(found.number) == found.nominal:
                nominal = found.nominal
            elif not found.is_latest or (nominal := retried(found.number)) is None:
                self._ended.append(found.key)
                continue
            self._jobs[found.number] = _own_job(found.key, found.job)
            self._jobs[found.number].nominal = nominal


def read_own_jobs(store: Store) -> Iterator[StoredOwnJob]:
    """All that a store has; those of tasks that do not exist any more are deleted."""
    for key, text in store.settings(_PREFIX).items():
        id_, _, time = key.removeprefix(_PREFIX).partition(" ")
        entry = store.find(id_)
        if entry is None:
            store.set_settings({key: None})
            continue
        asked = Instant(int(time))
        runs = store.runs(entry.number, most=_RUNS_SEARCHED)
        own = next((run for run in runs[::-1] if run.kind is RunKind.FORCED and run.claimed >= asked), None)
        nominal = None if own is None else own.nominal
        is_latest = own is not None and runs[0].kind in _KINDS and runs[0].nominal == nominal
        yield StoredOwnJob(key, entry.number, asked, msgspec.json.decode(text, type=Job), nominal, is_latest)


def stored_own_jobs(store: Store) -> Mapping[str, str]:
    """The settings of such jobs."""
    return store.settings(_PREFIX)


def _own_job(key: str, job: Job) -> OwnJob:
    return OwnJob(key, msgspec.msgpack.encode(job), job.function)
