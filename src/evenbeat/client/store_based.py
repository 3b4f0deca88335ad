"""The client of a store that this machine reaches: questions read the store, changes are requests to a backend."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from evenbeat.client.contract import Backend
from evenbeat.model import Entry, Instant, Task
from evenbeat.report.history import HistoryRecord, RecordQuery, find_task_or_removed, history_records
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import AuditFilter, Change, Condition, Filter, ProblemFilter, RunRecord, SkipRecord, Store
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.wire.replies import AcceptedResult, ChangeResult, EndedRun, NewSignInLink, ProblemsChanged
from evenbeat.wire.requests import (
    AcknowledgeProblems,
    AddTasks,
    AddToken,
    ApplyFiles,
    BackUpDatabase,
    ChangeRequest,
    CommentOnProblems,
    CreateHeartbeatToken,
    CreateSignInLink,
    ForceTasks,
    GetCluster,
    GetStatus,
    PauseTasks,
    ProblemRequest,
    RemoveHeartbeatToken,
    RemoveTasks,
    RemoveToken,
    SetLimit,
    SetSlots,
    SetTask,
    SubmitResult,
)
from evenbeat.wire.status import Status

if TYPE_CHECKING:
    from evenbeat.admin.tokens import NewApiToken
    from evenbeat.report.cluster_document import ClusterDocument
    from evenbeat.report.task_status import ConditionReader
    from evenbeat.report.why_facts import Answer

_MAX_NAMES_READ: Final = 100_000
"""Names among which one is suggested for a misspelled name."""


class LocalClient(ABC):
    """All questions and changes, in terms of a store to read and a backend to ask."""

    def __init__(self, who: str) -> None:
        """`who` makes the changes, for the audit."""
        self._who = who

    @property
    @abstractmethod
    def _store(self) -> Store:
        """For questions."""

    @property
    @abstractmethod
    def _backend(self) -> Backend:
        """For changes."""

    @abstractmethod
    def _live_node(self) -> Backend | None:
        """The node, to be asked and then let go by `_release`; None if there is none, or it does not answer yet."""

    @abstractmethod
    def _release(self, node: Backend) -> None:
        """End the use of what `_live_node` has returned."""

    @abstractmethod
    def has_node(self) -> bool: ...

    @abstractmethod
    def close(self) -> None: ...

    @property
    def is_live(self) -> bool:
        """Does a node answer the requests of this client?"""
        return self._backend.is_live

    # Questions

    def find(self, name_or_id: str) -> Entry | None:
        return self._store.find(name_or_id)

    def names(self) -> Iterator[str]:
        return (entry.task.name for entry in islice(self._store.entries(), _MAX_NAMES_READ))

    def conditions(self, only: Filter) -> Iterator[Condition]:
        return self._condition_reader().conditions(only)

    def condition(self, entry: Entry) -> Condition:
        return self._condition_reader().condition(entry)

    def _condition_reader(self) -> "ConditionReader":
        from evenbeat.report.task_status import ConditionReader  # noqa: PLC0415 - heavy

        return ConditionReader(self._store, self._now())

    def _now(self) -> Instant:
        """By the clock of the cluster, if the store has one; it may differ from that of this machine."""
        return Instant(self._store.clock()) if isinstance(self._store, ClusterStore) else wall_clock()

    def latest_records(self, entry: Entry, most: int) -> tuple[list[RunRecord], list[SkipRecord]]:
        return self._store.runs(entry.number, most=most), self._store.skips(entry.number, most=most)

    def records(
        self, name_or_id: str | None, most: int, *, failed: bool = False, skips: bool = False, runs: bool = False
    ) -> list[HistoryRecord]:
        number = None if name_or_id is None else find_task_or_removed(self._store, name_or_id).number
        return history_records(self._store, RecordQuery(number, most=most, failed=failed, skips=skips, runs=runs))

    def audit(self, only: AuditFilter) -> list[Change]:
        return [change for _, change in self._store.audit(only)]

    @abstractmethod
    def why(self, name_or_id: str, at: str | None = None) -> "Answer": ...

    def status(self) -> Status | None:
        node = self._live_node()
        if node is None:
            return None
        try:
            return node.ask(GetStatus()).status
        finally:
            self._release(node)

    def cluster(self) -> "ClusterDocument | None":
        from evenbeat.report.cluster_document import cluster_document  # noqa: PLC0415 - heavy

        node = self._live_node()
        if node is None:
            return None
        try:
            view = node.ask(GetCluster()).cluster
        finally:
            self._release(node)
        return None if view is None else cluster_document(view)

    def problems(self, only: ProblemFilter, *, acknowledged: bool | None = None) -> list[ProblemRecord]:
        from evenbeat.report.problems import read_problems  # noqa: PLC0415 - heavy

        return read_problems(self._store, only, self._now(), acknowledged=acknowledged)

    def problem(self, number: int) -> tuple[ProblemRecord, list[ProblemNote]]:
        from evenbeat.report.problems import find_problem  # noqa: PLC0415 - heavy

        return find_problem(self._store, number)

    # Changes

    def acknowledge(
        self,
        only: Filter,
        ids: Sequence[int] = (),
        *,
        comment: str = "",
        until: Instant | None = None,
        sticky: bool = False,
        withdraw: bool = False,
    ) -> ProblemsChanged:
        return self._act_on_problems(
            AcknowledgeProblems(only, self._who, tuple(ids), comment, until, sticky, is_withdrawn=withdraw)
        )

    def comment(self, only: Filter, text: str, ids: Sequence[int] = ()) -> ProblemsChanged:
        return self._act_on_problems(CommentOnProblems(only, self._who, text, tuple(ids)))

    def _act_on_problems(self, request: ProblemRequest) -> ProblemsChanged:
        changed = self._backend.ask(request).problems
        assert changed is not None
        return changed

    def add(self, tasks: Sequence[Task], owner: str) -> ChangeResult:
        return self._change(AddTasks(tuple(tasks), owner, self._who))

    def set(self, name: str, task: Task, version: int | None = None) -> ChangeResult:
        return self._change(SetTask(name, task, self._who, version))

    def remove(self, only: Filter) -> ChangeResult:
        return self._change(RemoveTasks(only, self._who))

    def pause(self, only: Filter, *, paused: bool) -> ChangeResult:
        return self._change(PauseTasks(only, paused, self._who))

    def apply(self, files: Sequence[Path]) -> ChangeResult:
        return self._change(ApplyFiles(tuple(str(file.resolve()) for file in files), self._who))

    def set_slots(self, most: int | None) -> ChangeResult:
        return self._change(SetSlots(most, self._who))

    def set_limit(self, name: str, most: int | None) -> ChangeResult:
        return self._change(SetLimit(name, most, self._who))

    def add_token(self, new: "NewApiToken") -> None:
        self._change(AddToken(new.id, new.token, self._who))

    def remove_token(self, name: str) -> None:
        self._change(RemoveToken(name, self._who))

    def _change(self, change: ChangeRequest) -> ChangeResult:
        changed = self._backend.ask(change).changed
        assert changed is not None
        return changed

    def create_sign_in_link(self, digest: str, name: str | None) -> NewSignInLink:
        link = self._backend.ask(CreateSignInLink(digest, self._who, name)).link
        assert link is not None
        return link

    def run_now(self, names: Sequence[str], *, wait: bool) -> list[EndedRun]:
        return self._backend.ask(ForceTasks(tuple(names), self._who, wait)).ended or []

    def request_run(self, names: Sequence[str]) -> dict[str, str]:
        return self._backend.ask(ForceTasks(tuple(names), self._who)).waiting or {}

    def submit_result(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> AcceptedResult:
        accepted = self._backend.ask(SubmitResult(name, status, self._who, output, ttl=ttl, at=at)).taken
        assert accepted is not None
        return accepted

    def create_heartbeat(self, name: str) -> str:
        return self._backend.ask(CreateHeartbeatToken(name, self._who)).token

    def remove_heartbeat(self, name: str) -> None:
        self._backend.ask(RemoveHeartbeatToken(name, self._who))

    def backup(self, path: Path) -> None:
        self._backend.ask(BackUpDatabase(str(path.resolve())))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def wall_clock() -> Instant:
    """The time by the clock of this machine."""
    return Instant(time.time_ns() // 1_000)
