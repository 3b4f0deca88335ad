"""Everything that can be asked of evenbeat, whoever answers: a live node, a database, a URL or this program."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evenbeat.model import Entry, Instant, Task
from evenbeat.report.history import HistoryRecord
from evenbeat.store.contract import AuditFilter, Change, Condition, Filter, ProblemFilter, RunRecord, SkipRecord

if TYPE_CHECKING:
    from evenbeat.admin.tokens import NewApiToken
    from evenbeat.report.cluster_document import ClusterDocument
    from evenbeat.report.why_facts import Answer
    from evenbeat.store.problem_records import ProblemNote, ProblemRecord
    from evenbeat.wire.replies import (
        AcceptedResult,
        ChangeResult,
        EndedRun,
        Names,
        NewSignInLink,
        ProblemsChanged,
        Reply,
    )
    from evenbeat.wire.requests import Request
    from evenbeat.wire.status import Status


class Client(Protocol):
    """Questions and changes. A refusal is an Invalid (NotFound, Conflict, Forbidden), a failure a StoreError."""

    # Questions

    def find(self, name_or_id: str) -> Entry | None: ...

    def names(self) -> Iterator[str]:
        """Task names, enough of them to suggest one that resembles a misspelled name."""

    def conditions(self, only: Filter) -> Iterator[Condition]: ...

    def condition(self, entry: Entry) -> Condition: ...

    def latest_records(self, entry: Entry, most: int) -> tuple[list[RunRecord], list[SkipRecord]]:
        """The latest runs and the latest skips of a task, up to `most` of each."""

    def records(
        self, name_or_id: str | None, most: int, *, failed: bool = False, skips: bool = False, runs: bool = False
    ) -> list[HistoryRecord]:
        """Runs and skips, newest first, of one task (also a removed one) or of all; NotFound if there was no such task.

        With one of the three flags, only failed runs, only skips, or only runs.
        """

    def audit(self, only: AuditFilter) -> list[Change]:
        """Who changed what, newest first."""

    def why(self, name_or_id: str, at: str | None = None) -> "Answer":
        """Why does a task run, or not, now or at a time as people write it? NotFound if there is no such task."""

    def has_node(self) -> bool:
        """Is a node running? Without one nothing runs, and next times are those at which tasks would run."""

    def status(self) -> "Status | None":
        """Counts and problems of the node, or of all nodes of a cluster; None without a node."""

    def cluster(self) -> "ClusterDocument | None":
        """Nodes, workers and partitions; None of a node that is no member of a cluster."""

    def problems(self, only: ProblemFilter, *, acknowledged: bool | None = None) -> "list[ProblemRecord]":
        """Problems of tasks, newest first; with `acknowledged`, only those that are, or are not.

        Over HTTP their outputs are the first lines only, and an acknowledgement that does not count is left out.
        """

    def problem(self, number: int) -> "tuple[ProblemRecord, list[ProblemNote]]":
        """A problem and what people wrote about it; NotFound if there is none with this id."""

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
    ) -> "ProblemsChanged":
        """Acknowledge the open problems of tasks, only those with `ids` if given; or take that back (`withdraw`)."""

    def comment(self, only: Filter, text: str, ids: Sequence[int] = ()) -> "ProblemsChanged":
        """Add a comment to the open problems of tasks, or to the problems with `ids`."""

    def add(self, tasks: Sequence[Task], owner: str) -> "ChangeResult | Names":
        """Create tasks, all or none."""

    def set(self, name: str, task: Task, version: int | None = None) -> "ChangeResult | Names":
        """Replace the definition of a task; with `version`, only if the task still has that version."""

    def remove(self, only: Filter) -> "ChangeResult | Names":
        """Delete tasks."""

    def pause(self, only: Filter, *, paused: bool) -> "ChangeResult | Names":
        """Pause or resume tasks."""

    def apply(self, files: Sequence[Path]) -> "ChangeResult | Names":
        """Make the tasks of these files be what the files say; without files, those of the live node."""

    def set_slots(self, most: int | None) -> "ChangeResult | Names":
        """The most runs at the same time; None restores what the command line or files say."""

    def set_limit(self, name: str, most: int | None) -> "ChangeResult | Names":
        """The most runs of a limit at the same time; None restores what files say."""

    def run_now(self, names: Sequence[str], *, wait: bool) -> "list[EndedRun]":
        """Run tasks now; with `wait`, return when the runs have ended."""

    def request_run(self, names: Sequence[str]) -> Mapping[str, str]:
        """Run tasks now without waiting for the end. Tasks that cannot start at once: what each waits for, by name."""

    def submit_result(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> "AcceptedResult":
        """Submit a result of a check."""

    def create_heartbeat(self, name: str) -> str:
        """A heartbeat token for a passive check; it replaces the previous one."""

    def remove_heartbeat(self, name: str) -> None:
        """Revoke the heartbeat token of a check."""

    def close(self) -> None: ...


class DatabaseAdministration(Protocol):
    """What is only asked on the machine of the database, never over HTTP."""

    def add_token(self, new: "NewApiToken") -> None:
        """A new token for the API."""

    def remove_token(self, name: str) -> None:
        """Revoke a token."""

    def create_sign_in_link(self, digest: str, name: str | None) -> "NewSignInLink":
        """A sign-in link whose code has this digest; without a name, for the token that the node made."""

    def backup(self, path: Path) -> None:
        """A consistent copy of the database."""


class Backend(Protocol):
    """Where the requests of a client go: to a node, or to a store without one."""

    @property
    def is_live(self) -> bool:
        """Does a node answer?"""

    def ask(self, request: "Request") -> "Reply":
        """Perform the request, or raise why not."""

    def close(self) -> None: ...
