"""Definitions of plain tasks in columns: what a node needs of a million of them, without an object for each.

A plain task runs at an interval from its phase, and has nothing that few others have: see `_is_plain_kind`. Tasks of a
kind say the same, apart from name, job, labels and phase; a sample of each kind says it. Nothing here is derived, so
periods, limits and everything else count as they are when the tasks are brought in.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, compress, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.name_index import NameIndex
from evenbeat.core.task import Bools
from evenbeat.core.task_columns import TasksByKind, kind_of
from evenbeat.model import Entry, Missed, Task
from evenbeat.node.loop.packed_jobs import NodeColumns, PackedJobs

_TASKS_AT_ONCE: Final = 50_000
_PER_TASK: Final = 9
"""So many fields of PlainDefinitions are columns with one element for each task."""
Label = tuple[str, str]
Lengths = NDArray[np.int32]


class PlainDefinitions(NamedTuple):
    """Definitions of tasks, each in its place of every column; texts lie one after the other."""

    numbers: Ints
    versions: Ints
    changed: Ints
    """Number, version and time of the last change: they name the definition."""
    phases: Ints
    owners: Lengths
    """Places in `owner_names`."""
    kinds: Lengths
    """Places in `samples`."""
    name_lengths: Lengths
    job_lengths: Lengths
    label_counts: Lengths
    labels: Lengths
    """Places in `label_texts`, of all labels of all tasks."""
    names: bytes
    jobs: bytes
    """Packed as workers get them."""
    samples: Sequence[Task]
    owner_names: Sequence[str]
    label_texts: Sequence[Label]

    @property
    def is_consistent(self) -> bool:
        """Do columns and texts fit together?"""
        n = len(self.numbers)
        columns = (self.versions, self.changed, self.phases, self.owners, self.kinds, self.name_lengths)
        lengths = (
            (self.name_lengths, len(self.names)),
            (self.job_lengths, len(self.jobs)),
            (self.label_counts, len(self.labels)),
        )
        places = (
            (self.owners, self.owner_names),
            (self.kinds, self.samples),
            (self.labels, self.label_texts),
        )
        return (
            all(len(column) == n for column in (*columns, self.job_lengths, self.label_counts))
            and all((column >= 0).all() and column.sum(dtype=np.int64) == size for column, size in lengths)
            and all(column.min(initial=0) >= 0 and column.max(initial=-1) < len(of) for column, of in places)
        )

    def parts(self, which: Bools) -> Iterator["PlainDefinitions"]:
        """Those of these tasks, some at a time."""
        ends = [_ends(lengths) for lengths in (self.name_lengths, self.job_lengths, self.label_counts)]
        for at in range(0, len(self.numbers), _TASKS_AT_ONCE):
            some = slice(at, min(at + _TASKS_AT_ONCE, len(self.numbers)))
            names, jobs, labels = (slice(int(end[some.start]), int(end[some.stop])) for end in ends)
            part = self._replace(
                **{name: getattr(self, name)[some] for name in self._fields[:_PER_TASK]},
                labels=self.labels[labels],
                names=self.names[names],
                jobs=self.jobs[jobs],
            )
            yield part if which[some].all() else part.only(which[some])

    def only(self, which: Bools) -> "PlainDefinitions":
        """Some of them."""
        return self._replace(
            **{name: getattr(self, name)[which] for name in self._fields[:_PER_TASK]},
            labels=self.labels[np.repeat(which, self.label_counts)],
            names=b"".join(compress(pieces(self.names, self.name_lengths), which)),
            jobs=b"".join(compress(pieces(self.jobs, self.job_lengths), which)),
        )


def pieces(texts: bytes, lengths: Lengths) -> list[bytes]:
    """The texts that lie one after the other."""
    ends = _ends(lengths).tolist()
    return [texts[i:j] for i, j in pairwise(ends)]


def _ends(lengths: Lengths) -> Ints:
    """Where each text begins, and where the last one ends."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


class _Collected(NamedTuple):
    """Of some tasks: what columns of a node do not have."""

    rows: Ints
    versions: Ints
    changed: Ints
    kinds: Lengths
    label_counts: Lengths
    labels: Lengths


class DefinitionCollector:
    """Collects the definitions of plain tasks while they are brought in."""

    def __init__(self) -> None:
        self._parts: list[_Collected] = []
        self._kinds: dict[object, int] = {}
        self._samples: list[Task] = []
        self._labels: dict[Label, int] = {}
        self.others = 0
        """Tasks that are not plain."""

    def take(self, columns: NodeColumns, rows: Ints, entries: Sequence[Entry], alike: TasksByKind) -> None:
        """These tasks were brought in from their entries."""
        is_plain = (alike.value_per_task(_is_plain_kind) != 0) & (columns.calendar[rows] < 0)
        is_plain &= np.fromiter(map(_is_plain, entries), bool, len(entries))
        self.others += len(entries) - int(is_plain.sum())
        some = list(compress(entries, is_plain.tolist()))
        labels = [entry.task.labels for entry in some]
        known = self._labels
        self._parts.append(
            _Collected(
                rows[is_plain],
                np.array([entry.version for entry in some], np.int64),
                np.array([entry.changed for entry in some], np.int64),
                self._kind_numbers(alike.samples)[alike.kind_of_task[is_plain]],
                np.fromiter(map(len, labels), np.int32, len(labels)),
                np.array(
                    [known.setdefault(label, len(known)) for label in chain.from_iterable(map(dict.items, labels))],
                    np.int32,
                ),
            )
        )

    def take_again(self, rows: Ints, some: PlainDefinitions) -> None:
        """These tasks were brought in from their columns."""
        known = self._labels
        labels = np.array([known.setdefault(label, len(known)) for label in some.label_texts], np.int32)
        kinds = self._kind_numbers(some.samples)[some.kinds]
        self._parts.append(_Collected(rows, some.versions, some.changed, kinds, some.label_counts, labels[some.labels]))

    def collected(
        self, columns: NodeColumns, names: NameIndex, jobs: PackedJobs, owners: Sequence[str]
    ) -> PlainDefinitions | None:
        """All definitions that were collected; None if there are none."""
        if not self._parts:
            return None
        rows, versions, changed, kinds, label_counts, labels = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        name_texts, name_lengths = names.texts(rows)
        job_texts, job_lengths = jobs.packed(rows)
        return PlainDefinitions(
            numbers=columns.number[rows],
            versions=versions,
            changed=changed,
            phases=columns.phase[rows],
            owners=columns.owner[rows].astype(np.int32),
            kinds=kinds,
            name_lengths=name_lengths,
            job_lengths=job_lengths,
            label_counts=label_counts,
            labels=labels,
            names=name_texts,
            jobs=job_texts,
            samples=self._samples,
            owner_names=owners,
            label_texts=list(self._labels),
        )

    def _kind_numbers(self, samples: Sequence[Task]) -> Lengths:
        numbers = []
        for sample in samples:
            kind = kind_of(sample)
            if kind not in self._kinds:
                self._kinds[kind] = len(self._samples)
                self._samples.append(sample)
            numbers.append(self._kinds[kind])
        return np.array(numbers, dtype=np.int32)


def _is_plain(entry: Entry) -> bool:
    """Of what may differ within a kind: has the task a phase, no parents, and no end of a pause?"""
    task = entry.task
    return task.schedule.phase is not None and not task.depends and not task.depends_any and task.pause is None


def _is_plain_kind(task: Task) -> bool:
    """Is it known of all tasks of this kind that a node keeps nothing of them beside columns?"""
    return (
        task.schedule.every is not None
        and not task.passive
        and task.start_at is None
        and task.longer_than is None
        and task.missed is not Missed.ALL
    )
