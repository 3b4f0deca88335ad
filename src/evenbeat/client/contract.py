"""What the task commands need of the other side, be it a database on this machine or a node elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evenbeat.model import Entry, Instant, Task
from evenbeat.report.history import HistoryRecord
from evenbeat.store.contract import AuditFilter, Change, Condition, Filter, RunRecord, SkipRecord

if TYPE_CHECKING:
    from evenbeat.report.cluster_document import ClusterDocument
    from evenbeat.report.why import Answer
    from evenbeat.wire.replies import AcceptedResult, ChangeResult, EndedRun, Names
    from evenbeat.wire.status import Status


class QueryClient(Protocol):
    """What can be asked."""

    def find(self, name_or_id: str) -> Entry | None: ...

    def names(self) -> Iterator[str]:
        """Enough of them to find one like that which was typed."""

    def conditions(self, only: Filter) -> Iterator[Condition]: ...

    def condition(self, entry: Entry) -> Condition: ...

    def latest_records(self, entry: Entry, most: int) -> tuple[list[RunRecord], list[SkipRecord]]:
        """So many of both."""

    def records(self, name_or_id: str | None, most: int, *, failed: bool, skips: bool) -> list[HistoryRecord]:
        """Of one task, also a removed one, or of all, newest first; raise Invalid if there was no such task."""

    def audit(self, only: AuditFilter) -> list[Change]:
        """Who changed what, newest first."""

    def why(self, entry: Entry, at: str | None) -> "Answer": ...

    def has_node(self) -> bool:
        """Is a node running? Else nothing runs, and next times are those at which tasks would."""

    def status(self) -> "Status | None":
        """None if no node lives on the database."""

    def cluster(self) -> "ClusterDocument | None":
        """None of a node that is alone."""


class ChangeClient(Protocol):
    """What can be changed, as through a `Door`."""

    def add(self, tasks: Sequence[Task], owner: str) -> "ChangeResult | Names": ...

    def set(self, name: str, task: Task, version: int | None = None) -> "ChangeResult | Names": ...

    def remove(self, only: Filter) -> "ChangeResult | Names": ...

    def pause(self, only: Filter, *, paused: bool) -> "ChangeResult | Names": ...

    def apply(self, files: Sequence[Path]) -> "ChangeResult | Names": ...

    def set_slots(self, most: int | None) -> "ChangeResult | Names": ...

    def set_limit(self, name: str, most: int | None) -> "ChangeResult | Names":
        """None for what the command line or files say."""

    def run_now(self, names: Sequence[str], *, wait: bool) -> "list[EndedRun]": ...

    def request_run(self, names: Sequence[str]) -> Mapping[str, str]:
        """Run tasks now, without waiting for them; what those wait for that cannot start at once, by their names."""

    def submit_result(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> "AcceptedResult": ...

    def create_heartbeat(self, name: str) -> str: ...

    def remove_heartbeat(self, name: str) -> None: ...
