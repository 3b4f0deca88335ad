"""The door to a database: through its live node if there is one, else straight to the store; both do the same."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from evenbeat.admin.heartbeats import create_heartbeat_token, remove_heartbeat_token
from evenbeat.admin.perform import affected_tasks, perform_change, perform_sign_in, reply_to_change
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tokens import NewApiToken
from evenbeat.core.authority import is_over
from evenbeat.model import Instant, Invalid, Task
from evenbeat.node.cluster.node_info import cluster_view_of, decode_node_info, merge_statuses
from evenbeat.node.cluster.orders import ANSWER_TIMEOUT
from evenbeat.node.process.control_socket import ControlClient
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.addresses import without_password
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Filter, Store, StoreError
from evenbeat.store.opening import open_store
from evenbeat.store.sqlite.ownership import DatabaseInUse, DatabaseOwnership, is_node_running, socket_path
from evenbeat.wire.replies import AcceptedResult, ChangeResult, EndedRun, NewSignInLink, Reply, raise_if_refused
from evenbeat.wire.requests import (
    AddTasks,
    AddToken,
    ApplyFiles,
    BackUpDatabase,
    ChangeRequest,
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
    NodeQuery,
    PauseTasks,
    RecordSignIn,
    RemoveHeartbeatToken,
    RemoveTasks,
    RemoveToken,
    Request,
    ResultRequest,
    SendHeartbeat,
    SetLimit,
    SetSlots,
    SetTask,
    SignInRequest,
    StartPageSession,
    SubmitResult,
    SubscribeToEvents,
    UseSignInLink,
)
from evenbeat.wire.status import Status

_CONNECT_TIMEOUT: Final = 10.0
"""Seconds in which a node that starts begins to listen, and others who change something are done."""


class ClientBackend(Protocol):
    """What is behind a door."""

    @property
    def is_live(self) -> bool:
        """Does a node run there?"""

    def ask(self, request: Request) -> Reply:
        """Do it, or raise why not."""

    def close(self) -> None: ...


class Client:
    """Everything that can be changed, whatever is behind it; whoever opens it closes it."""

    def __init__(self, side: ClientBackend, who: str) -> None:
        self._side = side
        self._who = who

    @property
    def is_live(self) -> bool:
        """Does a node live behind it?"""
        return self._side.is_live

    def add(self, tasks: Sequence[Task], owner: str) -> ChangeResult:
        """New tasks, all or none."""
        return self._change(AddTasks(tuple(tasks), owner, self._who))

    def set(self, name: str, task: Task, version: int | None = None) -> ChangeResult:
        """A new definition for a task."""
        return self._change(SetTask(name, task, self._who, version))

    def remove(self, only: Filter) -> ChangeResult:
        """Delete tasks."""
        return self._change(RemoveTasks(only, self._who))

    def pause(self, only: Filter, *, paused: bool) -> ChangeResult:
        """Disable tasks by hand, or enable them again."""
        return self._change(PauseTasks(only, paused, self._who))

    def apply(self, files: Sequence[Path]) -> ChangeResult:
        """Make the tasks that these files own be what the files say; none for those the node was started with."""
        return self._change(ApplyFiles(tuple(str(file.resolve()) for file in files), self._who))

    def set_slots(self, most: int | None) -> ChangeResult:
        """So many runs at the same time; None for what the command line or files say."""
        return self._change(SetSlots(most, self._who))

    def set_limit(self, name: str, most: int | None) -> ChangeResult:
        """The same for a limit."""
        return self._change(SetLimit(name, most, self._who))

    def add_token(self, new: NewApiToken) -> None:
        """Somebody more may use the API."""
        self._change(AddToken(new.id, new.token, self._who))

    def remove_token(self, name: str) -> None:
        """Whoever has this token may not any more."""
        self._change(RemoveToken(name, self._who))

    def make_link(self, digest: str, name: str | None) -> NewSignInLink:
        """A link to sign in with, of whose code this is the digest; without a name for the token that the node made."""
        link = self._side.ask(CreateSignInLink(digest, self._who, name)).link
        assert link is not None
        return link

    def run_now(self, names: Sequence[str], *, wait: bool) -> list[EndedRun]:
        """Run tasks now."""
        return self._side.ask(ForceTasks(tuple(names), self._who, wait)).ended or []

    def request_run(self, names: Sequence[str]) -> dict[str, str]:
        """Run tasks now, without waiting for them; what those wait for that cannot start at once, by their names."""
        return self._side.ask(ForceTasks(tuple(names), self._who)).waiting or {}

    def submit_result(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> AcceptedResult:
        """Tell the result of a check."""
        taken = self._side.ask(SubmitResult(name, status, self._who, output, ttl=ttl, at=at)).taken
        assert taken is not None
        return taken

    def create_heartbeat(self, name: str) -> str:
        """A token for the heartbeat of a passive check, in place of the one it had."""
        return self._side.ask(CreateHeartbeatToken(name, self._who)).token

    def remove_heartbeat(self, name: str) -> None:
        """The token is nobody's any more."""
        self._side.ask(RemoveHeartbeatToken(name, self._who))

    def status(self) -> Status | None:
        """How the live node is; None if there is none."""
        return self._side.ask(GetStatus()).status if self.is_live else None

    def backup(self, path: Path) -> None:
        """A consistent copy of the database."""
        self._side.ask(BackUpDatabase(str(path.resolve())))

    def _change(self, change: ChangeRequest) -> ChangeResult:
        changed = self._side.ask(change).changed
        assert changed is not None
        return changed

    def close(self) -> None:
        """Let go of everything."""
        self._side.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_client(database: Path | str, who: str) -> Client:
    """To a database on this machine: its node is asked if it has one, else nobody may become it meanwhile.

    A database that several nodes share is changed as it is; what only a node can do is asked of the one that has it.
    """
    if isinstance(database, str):
        return Client(ClusterBackend(database), who)
    deadline = time.monotonic() + _CONNECT_TIMEOUT
    while True:
        if (node := connect_to_live_node(database)) is not None:
            return Client(node, who)
        try:
            return Client(_StoreBackend(database), who)
        except DatabaseInUse:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"a node lives on {database}, but does not answer on {socket_path(database)}: "
                    "it is starting or stopping, so try again"
                ) from None


def connect_to_live_node(database: Path | str) -> "ControlClient | ClusterBackend | None":
    """The node of a database, for questions only; None if none lives there or it is not ready to answer."""
    if isinstance(database, str):
        side = ClusterBackend(database)
        if side.is_live:
            return side
        side.close()
        return None
    if not is_node_running(database):
        return None
    try:
        return ControlClient(database)
    except StoreError:
        return None


def has_live_node(database: Path | str, store: Store | None = None) -> bool:
    """Is a node running on a database, though it may not answer yet? `store` is the same, if it is open already."""
    if not isinstance(database, str):
        return is_node_running(database)
    if isinstance(store, ClusterStore):
        return any(not is_over(lease.expires, store.clock()) for lease in store.view().leases)
    node = connect_to_live_node(database)
    if node is not None:
        node.close()
    return node is not None


def in_process_client(node: Scheduler, who: str) -> Client:
    """For code that runs on the loop of the node itself."""
    return Client(_OwnLoopBackend(node), who)


class _StoreBackend:
    """A store without a node."""

    is_live = False

    def __init__(self, database: Path) -> None:
        self._database = database
        self._owner = DatabaseOwnership(database)
        try:
            self._store = open_store(database)
        except StoreError:
            self._owner.close()
            raise

    def ask(self, request: Request) -> Reply:
        if isinstance(request, ForceTasks | ResultRequest | SignInRequest | SubscribeToEvents | NodeQuery) or (
            isinstance(request, ApplyFiles) and not request.files
        ):
            page = " --listen 8629" if isinstance(request, SignInRequest) else ""
            command = f"evenbeat up --db {self._database}{page}"
            raise Invalid(f"no node lives on {self._database}; `{command}` starts one")
        if isinstance(request, BackUpDatabase):
            self._store.backup(Path(request.path))
            return Reply()
        return reply_to_change(request, perform_change(TaskAdmin(self._store, _wall_now), request))

    def close(self) -> None:
        self._store.close()
        self._owner.close()


class ClusterBackend:
    """A store of a cluster."""

    def __init__(self, database: str) -> None:
        store = open_store(database)
        assert isinstance(store, ClusterStore)
        self.store = store
        self._shown = without_password(database)
        view = store.view()
        self.is_live = any(not is_over(lease.expires, view.now) for lease in view.leases)

    def ask(self, request: Request) -> Reply:
        desk = TaskAdmin(self.store, lambda: Instant(self.store.clock()))
        match request:
            case BackUpDatabase():
                self.store.backup(Path(request.path))
                return Reply()
            case CreateHeartbeatToken(name, who):
                return Reply(token=create_heartbeat_token(desk, name, who))
            case RemoveHeartbeatToken(name, who):
                remove_heartbeat_token(desk, name, who)
                return Reply()
            case GetStatus():
                leases = [le for le in self.store.view().leases if not is_over(le.expires, self.store.clock())]
                return Reply(status=merge_statuses([decode_node_info(lease).status for lease in leases]))
            case GetCluster():
                return Reply(cluster=cluster_view_of(self.store.view()))
            case ForceTasks():
                return self._force(desk, request)
            case SubmitResult(name=name):
                return self._pass_on(desk.find_or_raise(name).number, request)
            case GetLiveTaskState(number):
                return self._pass_on(number, request)
            case SendHeartbeat() | SubscribeToEvents() | GetRunningRuns() | GetNodeIdentity() | GetNodeMetrics():
                raise Invalid("this is asked of a node over HTTP: give --url")
            case ApplyFiles(files=()):
                raise Invalid("a cluster has no files of its own: `evenbeat apply FILE...` names them")
            case CreateSignInLink():
                return perform_sign_in(desk, request, self._page())
            case UseSignInLink() | RecordSignIn() | StartPageSession() | EndPageSession():
                return perform_sign_in(desk, request, "")
        return reply_to_change(request, perform_change(desk, request))

    def _page(self) -> str:
        """Of a node of the cluster, rather of one on this machine; empty if none has a page."""
        if not self.is_live:
            raise Invalid(f"no node lives on {self._shown}; `evenbeat scheduler --db ... --queue ...` starts one")
        leases = [lease for lease in self.store.view().leases if not is_over(lease.expires, self.store.clock())]
        served = [about for about in map(decode_node_info, leases) if about.page]
        served.sort(key=lambda about: about.name != socket.gethostname())
        return served[0].page if served else ""

    def _force(self, desk: TaskAdmin, request: ForceTasks) -> Reply:
        entries = desk.select_forced(request.names, request.who, request.only)
        patience = None if request.wait else ANSWER_TIMEOUT
        ids = [
            self._order(e.number, ForceTasks((e.id,), request.who, request.wait, is_passed_on=True)) for e in entries
        ]
        replies = [self._reply(id_, patience) for id_ in ids]
        ended = [end for reply in replies for end in reply.ended or ()]
        waiting = {name: why for reply in replies for name, why in (reply.waiting or {}).items()}
        return Reply(ended=ended, waiting=waiting, touched=affected_tasks(entries, named=request.named))

    def _pass_on(self, number: int, request: Request) -> Reply:
        return self._reply(self._order(number, request), ANSWER_TIMEOUT)

    def _order(self, number: int, request: Request) -> int:
        if not self.is_live:
            raise Invalid(f"no node lives on {self._shown}; `evenbeat scheduler --db ... --queue ...` starts one")
        return self.store.forward_request(number, msgspec.json.encode(request))

    def _reply(self, id_: int, patience: float | None) -> Reply:
        deadline = None if patience is None else time.monotonic() + patience
        pause = 0.005
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


class _OwnLoopBackend:
    """The node of this very thread."""

    is_live = True

    def __init__(self, node: Scheduler) -> None:
        self._node = node

    def ask(self, request: Request) -> Reply:
        node = self._node
        if isinstance(request, SignInRequest):
            return perform_sign_in(node.admin, request, node.page)
        if isinstance(request, BackUpDatabase | ResultRequest | SubscribeToEvents | NodeQuery) or (
            isinstance(request, ForceTasks) and request.wait
        ):
            raise RuntimeError("this would wait for the loop it is called on; call it from another thread")
        if isinstance(request, ForceTasks):
            entries = node.admin.select_forced(request.names, request.who, request.only)
            waiting = node.force(entries, request.named)
            return Reply(ended=[], waiting=waiting, touched=affected_tasks(entries, named=request.named))
        try:
            return reply_to_change(request, perform_change(node.admin, request, node.options.files))
        finally:
            node.apply_changes()

    def close(self) -> None:
        pass


def _wall_now() -> Instant:
    return Instant(time.time_ns() // 1_000)
