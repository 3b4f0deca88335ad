"""The backend of a database that the nodes of a cluster share: changes are made in it, runs are asked of its nodes."""

import socket
import time
from pathlib import Path
from typing import Final

import msgspec

from evenbeat.admin.heartbeats import create_heartbeat_token, remove_heartbeat_token
from evenbeat.admin.perform import affected_tasks, perform_change, perform_sign_in, reply_to_change
from evenbeat.admin.problem_actions import perform_problem_request
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.task_stops import check_stop_reason, tasks_to_stop
from evenbeat.core.partition_ownership import is_over
from evenbeat.model import Instant, Invalid
from evenbeat.report.cluster_view import cluster_view_of, decode_node_info, merge_statuses
from evenbeat.store.addresses import without_password
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Filter, StoreError
from evenbeat.store.opening import open_store
from evenbeat.wire.replies import Reply, raise_if_refused
from evenbeat.wire.requests import (
    RELAY_TIMEOUT,
    AcknowledgeProblems,
    ApplyFiles,
    AskForFreshRuns,
    BackUpDatabase,
    CommentOnProblems,
    CreateHeartbeatToken,
    CreateSignInLink,
    EndPageSession,
    ForceTasks,
    GetCluster,
    GetLiveTaskState,
    GetNodeIdentity,
    GetNodeMetrics,
    GetRunningRuns,
    GetStatus,
    ReadOutput,
    RecordSignIn,
    RemoveHeartbeatToken,
    Request,
    SendHeartbeat,
    SetCursor,
    StartPageSession,
    StopRuns,
    SubmitResult,
    SubscribeToEvents,
    TestContact,
    UseSignInLink,
)

_TEST_PATIENCE: Final = 60.0
"""Seconds within which a node replies what became of test messages: longer than one delivery may take."""


class ClusterBackend:
    """Changes the database itself; passes on to a node what only the node that holds a task can do."""

    def __init__(self, database: str) -> None:
        store = open_store(database)
        assert isinstance(store, ClusterStore)
        self.store = store
        self._shown = without_password(database)
        view = store.view()
        self.is_live = any(not is_over(lease.expires, view.now) for lease in view.leases)

    def ask(self, request: Request) -> Reply:
        admin = TaskAdmin(self.store, lambda: Instant(self.store.clock()))
        match request:
            case BackUpDatabase():
                self.store.backup(Path(request.path))
                return Reply()
            case CreateHeartbeatToken(name, who):
                return Reply(token=create_heartbeat_token(admin, name, who), page=self._page() if self.is_live else "")
            case RemoveHeartbeatToken(name, who):
                remove_heartbeat_token(admin, name, who)
                return Reply()
            case GetStatus():
                leases = [le for le in self.store.view().leases if not is_over(le.expires, self.store.clock())]
                return Reply(status=merge_statuses([decode_node_info(lease).status for lease in leases]))
            case GetCluster():
                return Reply(cluster=cluster_view_of(self.store.view()))
            case ForceTasks():
                return self._force(admin, request)
            case StopRuns():
                return self._stop(admin, request)
            case AcknowledgeProblems() | CommentOnProblems():
                return perform_problem_request(admin, request)
            case SetCursor() | SubmitResult() | GetLiveTaskState() | ReadOutput() | TestContact():
                return self._pass_on(admin, request)
            case (
                SendHeartbeat()
                | SubscribeToEvents()
                | GetRunningRuns()
                | GetNodeIdentity()
                | GetNodeMetrics()
                | AskForFreshRuns()
            ):
                raise Invalid("only a node answers this: give --url")
            case ApplyFiles(files=()):
                raise Invalid("a cluster has no files of its own: `evenbeat apply FILE...` names them")
            case CreateSignInLink() | UseSignInLink() | RecordSignIn() | StartPageSession() | EndPageSession():
                return perform_sign_in(admin, request, self._page() if isinstance(request, CreateSignInLink) else "")
        return reply_to_change(request, perform_change(admin, request))

    def _page(self) -> str:
        """The page of a node, preferably of one on this machine; empty if no node serves a page."""
        if not self.is_live:
            raise Invalid(f"no node is running on {self._shown}; `evenbeat scheduler --db ... --queue ...` starts one")
        leases = [lease for lease in self.store.view().leases if not is_over(lease.expires, self.store.clock())]
        served = [info for info in map(decode_node_info, leases) if info.page]
        served.sort(key=lambda info: info.name != socket.gethostname())
        return served[0].page if served else ""

    def _force(self, admin: TaskAdmin, request: ForceTasks) -> Reply:
        entries = admin.select_forced(request.names, request.who, request.only, arguments=request.arguments)
        patience = None if request.wait else RELAY_TIMEOUT
        own = request.arguments
        ids = [
            self._forward(e.number, ForceTasks((e.id,), request.who, request.wait, is_passed_on=True, arguments=own))
            for e in entries
        ]
        replies = [self._reply(id_, patience) for id_ in ids]
        ended = [end for reply in replies for end in reply.ended or ()]
        waiting = {name: why for reply in replies for name, why in (reply.waiting or {}).items()}
        return Reply(ended=ended, waiting=waiting, touched=affected_tasks(entries, named=request.named))

    def _stop(self, admin: TaskAdmin, request: StopRuns) -> Reply:
        check_stop_reason(request.reason)
        entries = tasks_to_stop(self.store, request.only, admin.now())
        ids = [self._forward(e.number, msgspec.structs.replace(request, only=Filter(names=(e.id,)))) for e in entries]
        replies = [self._reply(id_, None if request.wait else RELAY_TIMEOUT) for id_ in ids]
        return Reply(stopped=[stop for reply in replies for stop in reply.stopped or ()])

    def _pass_on(
        self, admin: TaskAdmin, request: SetCursor | SubmitResult | GetLiveTaskState | ReadOutput | TestContact
    ) -> Reply:
        match request:
            case SetCursor(name=name) | SubmitResult(name=name):
                number = admin.find_or_raise(name).number
            case GetLiveTaskState(number=number) | ReadOutput(number=number):
                pass
            case TestContact():
                # Any node will do: each has a sender.
                return self._reply(self._forward(0, request), _TEST_PATIENCE)
        return self._reply(self._forward(number, request), RELAY_TIMEOUT)

    def _forward(self, number: int, request: Request) -> int:
        if not self.is_live:
            raise Invalid(f"no node is running on {self._shown}; `evenbeat scheduler --db ... --queue ...` starts one")
        return self.store.forward_request(number, msgspec.json.encode(request))

    def _reply(self, id_: int, patience: float | None) -> Reply:
        deadline = None if patience is None else time.monotonic() + patience
        pause = 0.005  # doubled up to 0.2 s
        while (found := self.store.reply(id_)) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise StoreError(f"no node has answered for {patience:.0f} s; `evenbeat status` tells who there is")
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        reply = msgspec.json.decode(found, type=Reply)
        raise_if_refused(reply)
        return reply

    def close(self) -> None:
        self.store.close()
