"""The client of a URL: asks a node on any machine over its HTTP API."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from evenbeat.admin.stored_references import refusal_of_findings
from evenbeat.admin.tasks_of_files import upload_owner_of
from evenbeat.client.http_connection import LONG_RESPONSE_TIMEOUT, RESPONSE_TIMEOUT, ApiConnection, QueryParameters
from evenbeat.client.http_documents import (
    ContactsAsSent,
    PeriodsAsSent,
    TaskAsSent,
    TaskPageAsSent,
    to_accepted_result,
    to_change,
    to_condition,
    to_contact_info,
    to_downtime,
    to_ended_run,
    to_instant,
    to_known_downtime,
    to_output_part,
    to_problem_note,
    to_problem_record,
    to_run_record,
    to_skip_record,
    to_stopped_run,
)
from evenbeat.load.config import NODE_DURATIONS, Config
from evenbeat.load.config_validation import ValidationFinding
from evenbeat.load.contacts import contact_to_table, notify_to_list
from evenbeat.load.downtimes import downtime_table
from evenbeat.load.files import load_file, load_parsed_file
from evenbeat.load.task_tables import task_to_table
from evenbeat.model import SECOND, ArgumentValue, Contact, Downtime, Entry, Instant, Invalid, Period, Task
from evenbeat.report.cluster_document import ClusterDocument
from evenbeat.report.contacts import ContactInfo
from evenbeat.report.documents import iso_time
from evenbeat.report.downtimes import KnownDowntime
from evenbeat.report.history import HistoryRecord, record_time
from evenbeat.report.why_facts import Answer
from evenbeat.store.alert_records import AlertDecisionFilter, MessageFilter
from evenbeat.store.contract import (
    AuditFilter,
    Change,
    Condition,
    Conflict,
    Filter,
    ProblemFilter,
    RunRecord,
    SkipRecord,
)
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.when.duration import format_duration
from evenbeat.wire.cursor_values import checked_cursor_value
from evenbeat.wire.documents import (
    AuditPage,
    ChangedCursorDocument,
    ChangedProblems,
    ContactTest,
    CursorDocument,
    Done,
    DowntimeDocument,
    DowntimePage,
    ForcedRuns,
    Heartbeat,
    History,
    NotificationDocument,
    NotificationPage,
    OutputPartDocument,
    ProblemPage,
    ProblemWithNotes,
    SentMessage,
    SentMessagePage,
    StoppedRuns,
    Taken,
    TimelineEntry,
)
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.replies import (
    AcceptedResult,
    ChangedCursor,
    ContactTestOutcome,
    EndedRun,
    Names,
    NotFound,
    ProblemsChanged,
    StoppedRun,
)
from evenbeat.wire.requests import RunArguments
from evenbeat.wire.status import Status
from evenbeat.wire.summaries import Summaries, SummaryLength

_PAGE_SIZE: Final = 500
"""Tasks, or records, that one request returns."""
_MAX_NAMES_READ: Final = 5_000
"""Names among which one is suggested for a misspelled name."""
_MAX_NAMES_RETURNED: Final = 1_000_000
D = TypeVar("D")
T = TypeVar("T")


class HttpClient:
    """Every question and every change as one or more HTTP requests."""

    def __init__(self, wire: ApiConnection) -> None:
        self._wire = wire

    def close(self) -> None:
        self._wire.close()

    # Questions

    def find(self, name_or_id: str) -> Entry | None:
        try:
            return self._convert(to_condition, self._get(_task_path(name_or_id), TaskAsSent)).entry
        except NotFound:
            return None

    def names(self) -> Iterator[str]:
        for condition in self.conditions(Filter(most=_MAX_NAMES_READ)):
            yield condition.entry.task.name

    def conditions(self, only: Filter) -> Iterator[Condition]:
        query = _task_query(only)
        query += [] if only.state is None else [("state", only.state)]
        left, after = only.most, only.after
        while left > 0:
            page = self._get(
                "/v1/tasks", TaskPageAsSent, [*query, ("after", after), ("limit", str(min(left, _PAGE_SIZE)))]
            )
            for document in page.tasks:
                yield self._convert(to_condition, document)
            if page.next is None or page.next <= after:
                return
            left, after = left - len(page.tasks), page.next

    def condition(self, entry: Entry) -> Condition:
        return self._convert(to_condition, self._get(_task_path(entry.id), TaskAsSent))

    def latest_records(self, entry: Entry, most: int) -> tuple[list[RunRecord], list[SkipRecord]]:
        path, limit = f"{_task_path(entry.id)}/history", ("limit", str(most))
        runs = self._get(path, History, [("runs", "true"), limit]).runs
        skips = self._get(path, History, [("skips", "true"), limit]).skips
        return [self._convert(to_run_record, run) for run in runs], [
            self._convert(to_skip_record, skip) for skip in skips
        ]

    def records(
        self, name_or_id: str | None, most: int, *, failed: bool = False, skips: bool = False, runs: bool = False
    ) -> list[HistoryRecord]:
        path = "/v1/history" if name_or_id is None else f"{_task_path(name_or_id)}/history"
        only = "failed" if failed else "skips" if skips else "runs" if runs else ""
        query = [(only, "true")] if only else []
        found: list[HistoryRecord] = []
        edge: Instant | None = None
        overlap = 1  # microsecond: records of one instant may be split between two pages
        while len(found) < most:
            before = [] if edge is None else [("before", iso_time(Instant(edge + overlap)) or "")]
            page = self._get(path, History, [*query, *before, ("limit", str(_PAGE_SIZE))])
            known = [record for record in found if record_time(record) == edge]
            new = [record for record in self._records(page) if record not in known]
            found += new
            if page.next is None or not (new or overlap):
                break
            edge, overlap = self._convert(to_instant, page.next), 1 if new else 0
        return found[:most]

    def summaries(
        self, name_or_id: str, by: SummaryLength, since: Instant | None = None, until: Instant | None = None
    ) -> Summaries:
        times = [(key, iso_time(t) or "") for key, t in (("since", since), ("until", until)) if t is not None]
        return self._get(f"{_task_path(name_or_id)}/summaries", Summaries, [("by", by), *times])

    def _records(self, page: History) -> list[HistoryRecord]:
        found: list[HistoryRecord] = [self._convert(to_run_record, run) for run in page.runs]
        found += [self._convert(to_skip_record, skip) for skip in page.skips]
        return sorted(found, key=record_time, reverse=True)

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
        query = [("position", str(position)), ("wait", f"{wait:g}")]
        query += [] if run is None else [("run", iso_time(run) or "")]
        query += [] if since is None else [("since", iso_time(since) or ""), ("forced", str(forced).lower())]
        sent = self._get(f"{_task_path(entry.id)}/output/live", OutputPartDocument, query)
        return self._convert(to_output_part, sent)

    def audit(self, only: AuditFilter) -> list[Change]:
        query = [("name", only.name or ""), ("who", only.who or "")]
        query += [] if only.since is None else [("since", iso_time(only.since) or "")]
        found: list[Change] = []
        before = only.before
        while len(found) < only.most:
            page_of = [] if before is None else [("before", str(before))]
            limit = ("limit", str(min(only.most - len(found), _PAGE_SIZE)))
            page = self._get("/v1/audit", AuditPage, [*query, *page_of, limit])
            found += (self._convert(to_change, change) for change in page.changes)
            if page.next is None:
                break
            before = page.next
        return found

    def why(self, name_or_id: str, at: str | None = None) -> Answer:
        return self._get(f"{_task_path(name_or_id)}/why", Answer, [] if at is None else [("at", at)])

    def has_node(self) -> bool:
        return self._get("/v1/tasks", TaskPageAsSent, [("limit", "1")]).live

    def status(self) -> Status:
        return self._get("/v1/status", Status)

    def cluster(self) -> ClusterDocument | None:
        try:
            found = self._get("/v1/cluster", ClusterDocument)
        except NotFound:  # a node of before there were clusters
            return None
        return None if found.is_single else found

    def problems(self, only: ProblemFilter) -> list[ProblemRecord]:
        query = _task_query(only.tasks)
        query.append(("which", {True: "open", False: "closed", None: "all"}[only.is_open]))
        query += [] if only.cause is None else [("cause", only.cause)]
        query += [] if only.state is None else [("state", only.state.name.lower())]
        query += [] if only.acknowledged is None else [("acknowledged", "true" if only.acknowledged else "false")]
        found: list[ProblemRecord] = []
        before = only.before
        while len(found) < only.most:
            page_of = [] if before is None else [("before", str(before))]
            limit = ("limit", str(min(only.most - len(found), _PAGE_SIZE)))
            page = self._get("/v1/problems", ProblemPage, [*query, *page_of, limit])
            found += (self._convert(to_problem_record, problem) for problem in page.problems)
            if page.next is None:
                break
            before = page.next
        return found

    def problem(self, number: int) -> tuple[ProblemRecord, list[ProblemNote]]:
        found = self._get(f"/v1/problems/{number}", ProblemWithNotes)
        notes = [self._convert(to_problem_note, note) for note in found.notes]
        return self._convert(to_problem_record, found), notes

    def problem_timeline(self, number: int) -> list[TimelineEntry]:
        return self._get(f"/v1/problems/{number}", ProblemWithNotes).timeline

    def messages(self, only: MessageFilter) -> list[SentMessage]:
        query = [] if only.contact is None else [("contact", only.contact)]
        query += [] if only.state is None else [("state", only.state)]
        found: list[SentMessage] = []
        before = only.before
        while len(found) < only.most:
            page_of = [] if before is None else [("before", str(before))]
            limit = ("limit", str(min(only.most - len(found), _PAGE_SIZE)))
            page = self._get("/v1/messages", SentMessagePage, [*query, *page_of, limit])
            found += page.messages
            if page.next is None:
                break
            before = page.next
        return found

    def notifications(self, only: AlertDecisionFilter) -> list[NotificationDocument]:
        query = [] if only.task is None else [("name", only.task)]
        query += [] if only.contact is None else [("contact", only.contact)]
        query += [] if only.since is None else [("since", iso_time(only.since) or "")]
        found: list[NotificationDocument] = []
        before = None if only.before is None else f"{only.before[0]}-{only.before[1]}"
        while len(found) < only.most:
            page_of = [] if before is None else [("before", before)]
            limit = ("limit", str(min(only.most - len(found), _PAGE_SIZE)))
            page = self._get("/v1/notifications", NotificationPage, [*query, *page_of, limit])
            found += page.notifications
            if page.next is None:
                break
            before = page.next
        return found

    def downtimes(self, *, is_all: bool = False) -> list[KnownDowntime]:
        query = [("all", "true")] if is_all else []
        found: list[KnownDowntime] = []
        after: str | None = ""
        while after is not None:
            page_of = [("after", after)] if after else []
            page = self._get("/v1/downtimes", DowntimePage, [*query, *page_of, ("limit", str(_PAGE_SIZE))])
            found += (self._convert(to_known_downtime, downtime) for downtime in page.downtimes)
            after = page.next if page.downtimes else None
        return found

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
        body: dict[str, Any] = {"names": list(names), "owner": owner, "labels": dict(labels or {}), "period": period}
        body |= {"from": iso_time(start), "until": iso_time(end), "dependents": dependents, "comment": comment}
        return self._convert(to_downtime, self._send("POST", "/v1/downtimes", DowntimeDocument, body))

    def end_downtime(self, id_: str) -> Downtime:
        path = f"/v1/downtimes/{quote(id_, safe='', errors='replace')}"
        return self._convert(to_downtime, self._send("DELETE", path, DowntimeDocument))

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
        how = {"comment": comment, "until": iso_time(until), "sticky": sticky, "withdraw": withdraw}
        return self._act_on_problems("acknowledge", only, ids, how)

    def comment(self, only: Filter, text: str, ids: Sequence[int] = ()) -> ProblemsChanged:
        return self._act_on_problems("comment", only, ids, {"text": text})

    def _act_on_problems(self, action: str, only: Filter, ids: Sequence[int], how: dict[str, Any]) -> ProblemsChanged:
        body = {"filter": _filter_body(only), "all": True, "ids": list(ids), **how}
        done = self._send("POST", f"/v1/problems/{action}", ChangedProblems, body, patience=LONG_RESPONSE_TIMEOUT)
        return ProblemsChanged(done.ids, done.tasks)

    def add(self, tasks: Sequence[Task], owner: str) -> Names:
        (task,) = tasks
        created = self._send("POST", "/v1/tasks", TaskAsSent, _task_body(task), query=[("owner", owner)])
        return Names(created=[created.name])

    def set(self, name: str, task: Task, version: int | None = None) -> Names:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        new = self._send("PUT", _task_path(name), TaskAsSent, _task_body(task), headers=headers)
        return Names(unchanged=1) if new.version == version else Names(changed=[new.name])

    def remove(self, only: Filter) -> Names:
        done = self._act("delete", only)
        return Names(removed=done.names, files=done.files)

    def pause(self, only: Filter, *, paused: bool, until: Instant | None = None, reason: str = "") -> Names:
        more = {key: value for key, value in (("until", iso_time(until)), ("reason", reason)) if value}
        done = self._act("pause" if paused else "resume", only, **more)
        return Names(changed=done.names, unchanged=done.unchanged)

    def apply(self, files: Sequence[Path]) -> Names:
        """The files are read on this machine; their paths here make their tasks' owners."""
        owners = {}
        for path in files:
            config = load_file(path)
            if config.node is not None and config.node.pass_env is not None:
                raise Invalid(
                    "`pass_env` of [node] is for the node's own machine: apply the file there", place=str(path)
                )
            owners[upload_owner_of(path)] = _config_body(config)
        try:
            return self._send("POST", "/v1/apply", Names, {"owners": owners}, patience=LONG_RESPONSE_TIMEOUT)
        except Invalid as e:
            paths = {upload_owner_of(path): path for path in files}
            found = [(pointer.split("/")[1:], detail) for pointer, detail in self._wire.errors]
            if not found or any(len(parts) < 4 for parts, _ in found):
                raise
            refused = [
                ValidationFinding(
                    _unescape_pointer(parts[1]),
                    tuple(map(_unescape_pointer, parts[2:])),
                    detail,
                    isinstance(e, Conflict),
                )
                for parts, detail in found
            ]
            raise refusal_of_findings(
                refused, lambda owner: load_parsed_file(paths[owner]) if owner in paths else None
            ) from None

    def set_slots(self, most: int | None) -> Names:
        return self._set_capacity("/v1/slots", most)

    def set_limit(self, name: str, most: int | None) -> Names:
        return self._set_capacity(f"/v1/limits/{quote(name, safe='', errors='replace')}", most)

    def _set_capacity(self, path: str, most: int | None) -> Names:
        if most is None:
            self._wire.request("DELETE", path)
        else:
            self._wire.request("PUT", path, (), {"most": most})
        return Names(settings=True)

    def contacts(self) -> list[ContactInfo]:
        return [
            self._convert(to_contact_info, document) for document in self._get("/v1/contacts", ContactsAsSent).contacts
        ]

    def periods(self) -> dict[str, tuple[str, Period]]:
        return {one.name: (one.owner, one.period()) for one in self._get("/v1/periods", PeriodsAsSent).periods}

    def set_period(self, name: str, period: Period) -> Names:
        self._wire.request("PUT", _period_path(name), (), msgspec.to_builtins(period))
        return Names(settings=True)

    def remove_period(self, name: str) -> Names:
        self._wire.request("DELETE", _period_path(name))
        return Names(settings=True)

    def set_contact(self, name: str, contact: Contact) -> Names:
        self._wire.request("PUT", _contact_path(name), (), contact_to_table(contact))
        return Names(settings=True)

    def remove_contact(self, name: str) -> Names:
        self._wire.request("DELETE", _contact_path(name))
        return Names(settings=True)

    def test_contact(self, name: str) -> list[ContactTestOutcome]:
        path = f"{_contact_path(name)}/test"
        found = self._send("POST", path, ContactTest, patience=LONG_RESPONSE_TIMEOUT).places
        return [ContactTestOutcome(p.kind, p.shown, p.delivered, p.error, p.detail) for p in found]

    def run_now(self, names: Sequence[str], *, wait: bool, arguments: RunArguments | None = None) -> list[EndedRun]:
        body = {"tasks": list(names), "wait": wait, **_argument_keys(arguments)}
        ended = self._send("POST", "/v1/runs", ForcedRuns, body, patience=None if wait else RESPONSE_TIMEOUT).runs
        return [self._convert(to_ended_run, run) for run in ended]

    def request_run(self, names: Sequence[str], arguments: RunArguments | None = None) -> dict[str, str]:
        body = {"tasks": list(names), "wait": False, **_argument_keys(arguments)}
        return self._send("POST", "/v1/runs", ForcedRuns, body).waiting

    def stop(self, only: Filter, *, reason: str = "", wait: bool = False) -> list[StoppedRun]:
        body = {"filter": _filter_body(only), "all": True, "reason": reason, "wait": wait}
        patience = None if wait else LONG_RESPONSE_TIMEOUT
        stopped = self._send("POST", "/v1/runs/stop", StoppedRuns, body, patience=patience).stopped
        return [self._convert(to_stopped_run, run) for run in stopped]

    def cursor(self, entry: Entry) -> ArgumentValue:
        return self._get(f"{_task_path(entry.id)}/cursor", CursorDocument).cursor

    def set_cursor(self, name: str, cursor: ArgumentValue) -> ChangedCursor:
        path = f"{_task_path(name)}/cursor"
        if checked_cursor_value(cursor) is None:
            changed = self._send("DELETE", path, ChangedCursorDocument)
        else:
            changed = self._send("PUT", path, ChangedCursorDocument, {"cursor": cursor})
        return ChangedCursor(changed.task, changed.before, changed.cursor)

    def submit_result(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> AcceptedResult:
        body: dict[str, Any] = {"status": int(status), "output": output, "at": iso_time(at)}
        body["ttl"] = None if ttl is None else ttl / SECOND
        taken = self._send("POST", f"{_task_path(name)}/result", Taken, body)
        return self._convert(to_accepted_result, taken)

    def create_heartbeat(self, name: str) -> Heartbeat:
        return self._send("POST", f"{_task_path(name)}/beat", Heartbeat)

    def remove_heartbeat(self, name: str) -> None:
        self._wire.request("DELETE", f"{_task_path(name)}/beat")

    def _act(self, action: str, only: Filter, **more: str) -> Done:
        body = {"action": action, "filter": _filter_body(only), "named": _MAX_NAMES_RETURNED, **more}
        return self._send("POST", "/v1/actions", Done, body, patience=LONG_RESPONSE_TIMEOUT)

    # Requests

    def _get(self, path: str, kind: type[T], query: QueryParameters = ()) -> T:
        return self._decoded(self._wire.request("GET", path, query), kind)

    def _send(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: Any = None,
        *,
        query: QueryParameters = (),
        headers: dict[str, str] | None = None,
        patience: float | None = RESPONSE_TIMEOUT,
    ) -> T:
        return self._decoded(self._wire.request(method, path, query, body, headers=headers, patience=patience), kind)

    def _decoded(self, content: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self._wire.unexpected_response() from None

    def _convert(self, make: Callable[[D], T], document: D) -> T:
        try:
            return make(document)
        except (Invalid, KeyError):
            raise self._wire.unexpected_response() from None


def _unescape_pointer(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _task_path(name_or_id: str) -> str:
    return f"/v1/tasks/{quote(name_or_id, safe='', errors='replace')}"


def _period_path(name: str) -> str:
    return f"/v1/periods/{quote(name, safe='', errors='replace')}"


def _contact_path(name: str) -> str:
    return f"/v1/contacts/{quote(name, safe='', errors='replace')}"


def _task_query(only: Filter) -> list[tuple[str, str]]:
    """Names, labels and owner of a filter, as query parameters."""
    query = [("name", name) for name in only.names]
    query += [("label", f"{key}={value}") for key, value in only.labels.items()]
    query += [] if only.owner is None else [("owner", only.owner)]
    return query


def _filter_body(only: Filter) -> dict[str, Any]:
    return {"names": only.names, "owner": only.owner, "labels": only.labels, "state": only.state}


def _task_body(task: Task) -> dict[str, Any]:
    return {**task_to_table(task), "name": task.name, "check": task.check}


def _config_body(config: Config) -> dict[str, Any]:
    """What a file says, in the form that the API accepts."""
    node: dict[str, Any] = {} if config.node is None else msgspec.to_builtins(config.node)
    for key in NODE_DURATIONS.keys() & node.keys():
        node[key] = format_duration(node[key])
    if config.node is not None and config.node.notify is not None:
        node["notify"] = notify_to_list(config.node.notify)
    contacts = {name: contact_to_table(contact) for name, contact in config.contacts.items()}
    return {
        "checks": {task.name: task_to_table(task) for task in config.tasks if task.check},
        "tasks": {task.name: task_to_table(task) for task in config.tasks if not task.check},
        "periods": config.periods,
        "limits": config.limits,
        "node": None if config.node is None else node,
        **({"names_from_commands": config.names_from_commands} if config.names_from_commands else {}),
        **({"downtimes": [downtime_table(one) for one in config.downtimes]} if config.downtimes else {}),
        **({"contacts": contacts} if contacts else {}),  # a node of before there were contacts knows no such key
    }


def _argument_keys(arguments: RunArguments | None) -> dict[str, Any]:
    return {} if arguments is None else msgspec.to_builtins(arguments)
