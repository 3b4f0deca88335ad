"""A database on this machine, for questions; what only its node knows is asked of it, if one lives there."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evenbeat.cli.output.common import now
from evenbeat.model import Entry, Instant
from evenbeat.report.history import HistoryRecord, RecordQuery, find_task_or_removed, history_records
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import AuditFilter, Change, Condition, Filter, RunRecord, SkipRecord, Store, StoreError
from evenbeat.store.opening import open_store

if TYPE_CHECKING:
    from evenbeat.report.cluster_document import ClusterDocument
    from evenbeat.report.task_status import ConditionReader
    from evenbeat.report.why import Answer
    from evenbeat.wire.status import Status

_MAX_NAMES_READ: Final = 100_000
"""For a name like the one that was typed."""


class DatabaseQueryClient:
    """Whoever makes it closes it."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._opened: Store | None = None

    @property
    def _store(self) -> Store:
        """Opened when it is needed: what only the node is asked works without it."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Store:
        try:
            return open_store(self._path, read_only=True)
        except StoreError as e:
            status = self.status() if isinstance(self._path, Path) else None
            if status is None or status.store == "ok":
                raise
            raise StoreError(f"the node does not run anything, as its store fails: {status.store}") from e

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def find(self, name_or_id: str) -> Entry | None:
        return self._store.find(name_or_id)

    def names(self) -> Iterator[str]:
        return (entry.task.name for entry in islice(self._store.entries(), _MAX_NAMES_READ))

    def conditions(self, only: Filter) -> Iterator[Condition]:
        return self._upcoming().conditions(only)

    def condition(self, entry: Entry) -> Condition:
        return self._upcoming().condition(entry)

    def _upcoming(self) -> "ConditionReader":
        from evenbeat.report.task_status import ConditionReader  # noqa: PLC0415 - heavy

        return ConditionReader(self._store, self._now())

    def _now(self) -> Instant:
        """In a cluster times are told by one clock, and it is not that of this machine."""
        return Instant(self._store.clock()) if isinstance(self._store, ClusterStore) else now()

    def latest_records(self, entry: Entry, most: int) -> tuple[list[RunRecord], list[SkipRecord]]:
        return self._store.runs(entry.number, most=most), self._store.skips(entry.number, most=most)

    def records(self, name_or_id: str | None, most: int, *, failed: bool, skips: bool) -> list[HistoryRecord]:
        number = None if name_or_id is None else find_task_or_removed(self._store, name_or_id).number
        return history_records(self._store, RecordQuery(number, most=most, failed=failed, skips=skips))

    def audit(self, only: AuditFilter) -> list[Change]:
        return [change for _, change in self._store.audit(only)]

    # Of these the imports are heavy.

    def why(self, entry: Entry, at: str | None) -> "Answer":
        from evenbeat.client.database import connect_to_live_node  # noqa: PLC0415
        from evenbeat.report.why import why  # noqa: PLC0415
        from evenbeat.report.why_facts import task_facts_of, typed_time_span  # noqa: PLC0415
        from evenbeat.report.why_past import why_then  # noqa: PLC0415
        from evenbeat.store.sqlite.ownership import is_node_running  # noqa: PLC0415
        from evenbeat.wire.requests import GetLiveTaskState  # noqa: PLC0415

        when = self._now()
        span = None if at is None else typed_time_span(at, entry)
        node, moment = connect_to_live_node(self._path), None
        if node is not None:
            try:
                moment = node.ask(GetLiveTaskState(entry.number)).moment
            finally:
                node.close()
        is_live = node is not None or is_node_running(self._path)
        facts = task_facts_of(self._store, entry, when, span, is_live=is_live, moment=moment)
        return why(facts) if span is None else why_then(facts, *span)

    def has_node(self) -> bool:
        from evenbeat.client.database import has_live_node  # noqa: PLC0415

        return has_live_node(self._path, self._opened)

    def status(self) -> "Status | None":
        from evenbeat.client.database import connect_to_live_node  # noqa: PLC0415
        from evenbeat.wire.requests import GetStatus  # noqa: PLC0415

        node = connect_to_live_node(self._path)
        if node is None:
            return None
        try:
            return node.ask(GetStatus()).status
        finally:
            node.close()

    def cluster(self) -> "ClusterDocument | None":
        from evenbeat.client.database import connect_to_live_node  # noqa: PLC0415
        from evenbeat.report.cluster_document import cluster_document  # noqa: PLC0415
        from evenbeat.wire.requests import GetCluster  # noqa: PLC0415

        node = connect_to_live_node(self._path) if isinstance(self._path, str) else None
        if node is None:
            return None
        try:
            view = node.ask(GetCluster()).cluster
        finally:
            node.close()
        return None if view is None else cluster_document(view)
