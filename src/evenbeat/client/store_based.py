"""The client of a store that this machine reaches: questions read the store, changes are requests to a backend."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from evenbeat.client.contract import Backend
from evenbeat.model import ArgumentValue, Contact, Downtime, Entry, Instant, Period, Task
from evenbeat.report.history import HistoryRecord, RecordQuery, find_task_or_removed, history_records
from evenbeat.report.run_output import run_at, stored_part
from evenbeat.store.alert_records import AlertDecisionFilter, MessageFilter
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import (
    AuditFilter,
    Change,
    Condition,
    Filter,
    ProblemFilter,
    ReturnedValues,
    RunRecord,
    SkipRecord,
    Store,
)
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.wire.cursor_values import checked_cursor_value, unpacked_cursor
from evenbeat.wire.documents import Heartbeat, heartbeat_url
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.replies import (
    AcceptedResult,
    ChangedCursor,
    ChangeResult,
    ContactTestOutcome,
    EndedRun,
    NewSignInLink,
    ProblemsChanged,
    StoppedRun,
)
from evenbeat.wire.requests import (
    AcknowledgeProblems,
    AddDowntime,
    AddTasks,
    AddToken,
    ApplyFiles,
    BackUpDatabase,
    ChangeRequest,
    CommentOnProblems,
    CreateHeartbeatToken,
    CreateSignInLink,
    EndDowntime,
    ForceTasks,
    GetCluster,
    GetStatus,
    PauseTasks,
    ProblemRequest,
    ReadOutput,
    RemoveContact,
    RemoveHeartbeatToken,
    RemovePeriod,
    RemoveTasks,
    RemoveToken,
    RunArguments,
    SetContact,
    SetCursor,
    SetLimit,
    SetPeriods,
    SetSlots,
    SetTask,
    StopRuns,
    SubmitResult,
    TestContact,
)
from evenbeat.wire.status import Status
from evenbeat.wire.summaries import Summaries, SummaryLength

if TYPE_CHECKING:
    from evenbeat.admin.tokens import NewApiToken
    from evenbeat.report.cluster_document import ClusterDocument
    from evenbeat.report.contacts import ContactInfo
    from evenbeat.report.downtimes import KnownDowntime
    from evenbeat.report.task_status import ConditionReader
    from evenbeat.report.why_facts import Answer
    from evenbeat.wire.documents import NotificationDocument, SentMessage, TimelineEntry

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

        return ConditionReader(self._store, self.now())

    def now(self) -> Instant:
        """By the clock of the cluster, if the store has one; it may differ from that of this machine."""
        return Instant(self._store.clock()) if isinstance(self._store, ClusterStore) else wall_clock()

    def latest_records(self, entry: Entry, most: int) -> tuple[list[RunRecord], list[SkipRecord]]:
        return self._store.runs(entry.number, most=most), self._store.skips(entry.number, most=most)

    def records(
        self, name_or_id: str | None, most: int, *, failed: bool = False, skips: bool = False, runs: bool = False
    ) -> list[HistoryRecord]:
        number = None if name_or_id is None else find_task_or_removed(self._store, name_or_id).number
        return history_records(self._store, RecordQuery(number, most=most, failed=failed, skips=skips, runs=runs))

    def summaries(
        self, name_or_id: str, by: SummaryLength, since: Instant | None = None, until: Instant | None = None
    ) -> Summaries:
        from evenbeat.report.summaries import read_summaries  # noqa: PLC0415 - heavy

        entry = find_task_or_removed(self._store, name_or_id)
        return read_summaries(self._store, entry, by, since, until, self.now())

    def read_output(
        self,
        entry: Entry,
        *,
        run: Instant | None = None,
        since: Instant | None = None,
        forced: bool = False,
        position: int = 0,
        wait: float = 0.0,
    ) -> OutputPart:
        claimed = None if run is None else run_at(self._store, entry.number, run).claimed
        question = ReadOutput(entry.number, claimed, since, forced, position, wait)
        node = self._live_node()
        if node is None:
            return stored_part(self._store, question, self.now())
        try:
            part = node.ask(question).output
        finally:
            self._release(node)
        assert part is not None
        return part

    def returned(self, number: int, claimed: Instant) -> str | None:
        """What the run of this task returned that was claimed then, as JSON; None if nothing is kept."""
        store = self._store
        return store.returned(number, claimed) if isinstance(store, ReturnedValues) else None

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

    def problems(self, only: ProblemFilter) -> list[ProblemRecord]:
        from evenbeat.report.problems import read_problems  # noqa: PLC0415 - heavy

        return read_problems(self._store, only, self.now())

    def problem(self, number: int) -> tuple[ProblemRecord, list[ProblemNote]]:
        from evenbeat.report.problems import find_problem  # noqa: PLC0415 - heavy

        return find_problem(self._store, number, self.now())

    def problem_timeline(self, number: int) -> "list[TimelineEntry]":
        from evenbeat.report.problem_timeline import problem_timeline  # noqa: PLC0415 - heavy
        from evenbeat.report.problems import find_problem  # noqa: PLC0415 - heavy

        now = self.now()
        return problem_timeline(self._store, *find_problem(self._store, number, now), now)

    def messages(self, only: MessageFilter) -> "list[SentMessage]":
        from evenbeat.report.messages import read_messages  # noqa: PLC0415 - heavy

        return read_messages(self._store, only, self.now()).messages

    def notifications(self, only: AlertDecisionFilter) -> "list[NotificationDocument]":
        from evenbeat.report.notifications import read_notifications  # noqa: PLC0415 - heavy

        return read_notifications(self._store, only, self.now()).notifications

    def periods(self) -> dict[str, tuple[str, Period]]:
        return self._store.periods()

    def contacts(self) -> "list[ContactInfo]":
        from evenbeat.report.contacts import read_contacts  # noqa: PLC0415 - heavy

        return read_contacts(self._store, self.now())

    def downtimes(self, *, is_all: bool = False) -> "list[KnownDowntime]":
        from evenbeat.report.downtimes import read_downtimes  # noqa: PLC0415 - heavy

        return read_downtimes(self._store, self.now(), is_all=is_all)

    # Changes

    def add_downtime(
        self,
        names: Sequence[str] = (),
        *,
        owner: str | None = None,
        labels: Mapping[str, str] | None = None,
        start: Instant | None = None,
        end: Instant | None = None,
        period: str | None = None,
        dependents: bool = True,
        comment: str = "",
    ) -> Downtime:
        return self._change_downtimes(
            AddDowntime(self._who, tuple(names), owner, dict(labels or {}), start, end, period, dependents, comment)
        )

    def end_downtime(self, id_: str) -> Downtime:
        return self._change_downtimes(EndDowntime(id_, self._who))

    def _change_downtimes(self, request: AddDowntime | EndDowntime) -> Downtime:
        changed = self._change(request).downtime
        assert changed is not None
        return changed

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

    def pause(self, only: Filter, *, paused: bool, until: Instant | None = None, reason: str = "") -> ChangeResult:
        return self._change(PauseTasks(only, paused, self._who, until=until, reason=reason))

    def apply(self, files: Sequence[Path]) -> ChangeResult:
        return self._change(ApplyFiles(tuple(str(file.resolve()) for file in files), self._who))

    def set_slots(self, most: int | None) -> ChangeResult:
        return self._change(SetSlots(most, self._who))

    def set_limit(self, name: str, most: int | None) -> ChangeResult:
        return self._change(SetLimit(name, most, self._who))

    def set_period(self, name: str, period: Period) -> ChangeResult:
        return self._change(SetPeriods({name: period}, self._who, self._who))

    def remove_period(self, name: str) -> ChangeResult:
        return self._change(RemovePeriod(name, self._who))

    def set_contact(self, name: str, contact: Contact) -> ChangeResult:
        return self._change(SetContact(name, contact, self._who))

    def remove_contact(self, name: str) -> ChangeResult:
        return self._change(RemoveContact(name, self._who))

    def test_contact(self, name: str) -> list[ContactTestOutcome]:
        return self._backend.ask(TestContact(name, self._who)).tested or []

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

    def run_now(self, names: Sequence[str], *, wait: bool, arguments: RunArguments | None = None) -> list[EndedRun]:
        return self._backend.ask(ForceTasks(tuple(names), self._who, wait, arguments=arguments)).ended or []

    def request_run(self, names: Sequence[str], arguments: RunArguments | None = None) -> dict[str, str]:
        return self._backend.ask(ForceTasks(tuple(names), self._who, arguments=arguments)).waiting or {}

    def stop(self, only: Filter, *, reason: str = "", wait: bool = False) -> list[StoppedRun]:
        return self._backend.ask(StopRuns(only, self._who, reason, wait)).stopped or []

    def cursor(self, entry: Entry) -> ArgumentValue:
        return unpacked_cursor(self._store.cursors([entry.number]).get(entry.number))

    def set_cursor(self, name: str, cursor: ArgumentValue) -> ChangedCursor:
        changed = self._backend.ask(SetCursor(name, self._who, checked_cursor_value(cursor))).cursor
        assert changed is not None
        return changed

    def submit_result(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> AcceptedResult:
        accepted = self._backend.ask(SubmitResult(name, status, self._who, output, ttl=ttl, at=at)).taken
        assert accepted is not None
        return accepted

    def create_heartbeat(self, name: str) -> Heartbeat:
        reply = self._backend.ask(CreateHeartbeatToken(name, self._who))
        return Heartbeat(reply.token, heartbeat_url(reply.page, reply.token))

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
