"""Everything that can be asked of evenbeat, whoever answers: a live node, a database, a URL or this program."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evenbeat.model import ArgumentValue, Contact, Downtime, Entry, Instant, Period, Task
from evenbeat.report.history import HistoryRecord
from evenbeat.store.alert_records import AlertDecisionFilter, MessageFilter
from evenbeat.store.contract import AuditFilter, Change, Condition, Filter, ProblemFilter, RunRecord, SkipRecord

if TYPE_CHECKING:
    from evenbeat.admin.tokens import NewApiToken
    from evenbeat.report.cluster_document import ClusterDocument
    from evenbeat.report.contacts import ContactInfo
    from evenbeat.report.downtimes import KnownDowntime
    from evenbeat.report.why_facts import Answer
    from evenbeat.store.problem_records import ProblemNote, ProblemRecord
    from evenbeat.wire.documents import Heartbeat, NotificationDocument, SentMessage, TimelineEntry
    from evenbeat.wire.live_runs import OutputPart
    from evenbeat.wire.replies import (
        AcceptedResult,
        ChangedCursor,
        ChangeResult,
        ContactTestOutcome,
        EndedRun,
        Names,
        NewSignInLink,
        ProblemsChanged,
        Reply,
        StoppedRun,
    )
    from evenbeat.wire.requests import Request, RunArguments
    from evenbeat.wire.status import Status
    from evenbeat.wire.summaries import Summaries, SummaryLength


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

    def summaries(
        self, name_or_id: str, by: "SummaryLength", since: Instant | None = None, until: Instant | None = None
    ) -> "Summaries":
        """Of the runs of a task (also a removed one) by hour or day, oldest first; NotFound if there was none.

        Those that begin from `since` to before `until`, by default all that are kept.
        """

    def read_output(
        self,
        entry: Entry,
        *,
        run: Instant | None = None,
        since: Instant | None = None,
        forced: bool = False,
        position: int = 0,
        wait: float = 0.0,
    ) -> "OutputPart":
        """What a run has written from a position on, also while it is under way; by default the one under way, else
        the latest.

        `run` is when it was claimed, started, due or under way; NotFound if none was. With `since` it is the first run,
        or with `forced` the first forced one, that is claimed from then on: there may be none yet. With `wait`, it
        waits so many seconds, at most MAX_OUTPUT_WAIT, for something to be written.
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

    def problems(self, only: ProblemFilter) -> "list[ProblemRecord]":
        """Problems of tasks, newest first. `only.now` is the present, whatever it says.

        Over HTTP their outputs are the first lines only, and an acknowledgement that does not count is left out.
        """

    def problem(self, number: int) -> "tuple[ProblemRecord, list[ProblemNote]]":
        """A problem and what people wrote about it; NotFound if there is none with this id."""

    def problem_timeline(self, number: int) -> "list[TimelineEntry]":
        """What happened to a problem, notifications too, oldest first; NotFound if there is none with this id."""

    def messages(self, only: MessageFilter) -> "list[SentMessage]":
        """Messages to contacts, newest first."""

    def notifications(self, only: AlertDecisionFilter) -> "list[NotificationDocument]":
        """Every decision about contacts with its reason, newest first; `only.problem` and `only.until` do not count."""

    def contacts(self) -> "list[ContactInfo]":
        """All contacts, by name. Over HTTP, without the role admin, without their definitions."""

    def periods(self) -> dict[str, tuple[str, Period]]:
        """All periods by name, each with its owner."""

    def downtimes(self, *, is_all: bool = False) -> "list[KnownDowntime]":
        """Downtimes, the earliest first; with `is_all`, also those that are over, for 30 days."""

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
        """Set a downtime, from now on or later; NotFound if there is no task of a name."""

    def end_downtime(self, id_: str) -> Downtime:
        """End a downtime that a person has set; NotFound if there is none, Conflict if it is over or declared."""

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

    def pause(
        self, only: Filter, *, paused: bool, until: Instant | None = None, reason: str = ""
    ) -> "ChangeResult | Names":
        """Pause tasks, until a time or until they are resumed; or resume them."""

    def apply(self, files: Sequence[Path]) -> "ChangeResult | Names":
        """Make the tasks of these files be what the files say; without files, those of the live node."""

    def set_slots(self, most: int | None) -> "ChangeResult | Names":
        """The most runs at the same time; None restores what the command line or files say."""

    def set_limit(self, name: str, most: int | None) -> "ChangeResult | Names":
        """The most runs of a limit at the same time; None restores what files say."""

    def set_period(self, name: str, period: Period) -> "ChangeResult | Names":
        """Create a period, or replace its definition."""

    def remove_period(self, name: str) -> "ChangeResult | Names":
        """Delete a period; Conflict while a task or another period uses it."""

    def set_contact(self, name: str, contact: Contact) -> "ChangeResult | Names":
        """Create a contact, or replace its definition."""

    def remove_contact(self, name: str) -> "ChangeResult | Names":
        """Delete a contact; Conflict while something names it, NotFound if there is none."""

    def test_contact(self, name: str) -> "list[ContactTestOutcome]":
        """Send a test message to each place of a contact, until each has arrived, or has not. It takes a node."""

    def run_now(self, names: Sequence[str], *, wait: bool, arguments: "RunArguments | None" = None) -> "list[EndedRun]":
        """Run tasks now; with `wait`, return when the runs have ended. With `arguments`, one task."""

    def request_run(self, names: Sequence[str], arguments: "RunArguments | None" = None) -> Mapping[str, str]:
        """Run tasks now without waiting for the end. Tasks that cannot start at once: what each waits for, by name."""

    def stop(self, only: Filter, *, reason: str = "", wait: bool = False) -> "list[StoppedRun]":
        """End the runs under way of tasks, and withdraw forced runs that wait: what was found, of tasks named exactly
        and of all others of which something was. With `wait`, return when the runs have ended.
        """

    def cursor(self, entry: Entry) -> ArgumentValue:
        """Where the next run of a task goes on, as far as runs that have ended say; None if there is no cursor."""

    def set_cursor(self, name: str, cursor: ArgumentValue) -> "ChangedCursor":
        """Set where the next run of a task goes on; None: it has no cursor. Conflict while a run is under way."""

    def submit_result(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> "AcceptedResult":
        """Submit a result of a check."""

    def create_heartbeat(self, name: str) -> "Heartbeat":
        """A heartbeat token for a passive check, and its URL if a node serves the API; it replaces the previous one."""

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
