"""The client of a database on this machine: its live node performs changes if there is one, else this process does."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evenbeat.client.contract import Backend
from evenbeat.client.socket import SocketBackend
from evenbeat.client.store_based import LocalClient, wall_clock
from evenbeat.core.partition_ownership import is_over
from evenbeat.model import Instant, Invalid
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Store, StoreError
from evenbeat.store.opening import open_store
from evenbeat.store.sqlite.ownership import DatabaseInUse, DatabaseOwnership, is_node_running, socket_path
from evenbeat.wire.live_runs import LiveTaskState
from evenbeat.wire.replies import Reply
from evenbeat.wire.requests import (
    ApplyFiles,
    BackUpDatabase,
    GetLiveTaskState,
    NodeQuery,
    ProblemRequest,
    Request,
    ResultRequest,
    RunRequest,
    SetCursor,
    SignInRequest,
    SubscribeToEvents,
)

if TYPE_CHECKING:
    from evenbeat.client.cluster import ClusterBackend
    from evenbeat.report.why_facts import Answer

_CONNECT_TIMEOUT: Final = 10.0
"""Seconds within which a starting node listens, and another process that changes the database is done."""


class DatabaseClient(LocalClient):
    """Reads the database beside its node. Connects to the node, or becomes the owner, when a change needs it."""

    def __init__(self, database: Path | str, who: str) -> None:
        super().__init__(who)
        self._database = database
        self._read: Store | None = None
        self._connected: Backend | None = None

    @property
    def _store(self) -> Store:
        """Opened when it is needed: the live node answers its questions even if the file cannot be read."""
        if self._read is None:
            self._read = self._open()
        return self._read

    def _open(self) -> Store:
        try:
            return open_store(self._database, read_only=True)
        except StoreError as e:
            status = self.status() if isinstance(self._database, Path) else None
            if status is None or status.store == "ok":
                raise
            raise StoreError(f"the node does not run anything, as its store fails: {status.store}") from e

    @property
    def _backend(self) -> Backend:
        if self._connected is None:
            if self._read is not None:
                self._read.close()  # ownership is that of the whole process: nothing else may have the file open
                self._read = None
            self._connected = _connect(self._database)
        return self._connected

    def connect(self) -> Backend:
        """Connect for changes now, instead of when the first one is made."""
        return self._backend

    def now(self) -> Instant:
        # The clock of this machine: the database need not exist yet.
        return wall_clock() if isinstance(self._database, Path) else super().now()

    def _live_node(self) -> Backend | None:
        if self._connected is not None:
            return self._connected if self._connected.is_live else None
        return connect_to_live_node(self._database)

    def _release(self, node: Backend) -> None:
        if node is not self._connected:
            node.close()

    def why(self, name_or_id: str, at: str | None = None) -> "Answer":
        from evenbeat.report.why import explain  # noqa: PLC0415 - heavy

        return explain(self._store, name_or_id, at, self.now(), self._live_task_state)

    def _live_task_state(self, number: int) -> tuple[bool, LiveTaskState | None]:
        """Is a node running, and what does it say of the task?"""
        node = self._live_node()
        if node is None:
            return self.has_node(), None
        try:
            return True, node.ask(GetLiveTaskState(number)).moment
        finally:
            self._release(node)

    def has_node(self) -> bool:
        """Is a node running on the database, though it may not answer yet?"""
        if self._connected is not None:
            return self._connected.is_live
        if isinstance(self._database, Path):
            return is_node_running(self._database)
        if isinstance(self._read, ClusterStore):
            now = self._read.clock()
            return any(not is_over(lease.expires, now) for lease in self._read.view().leases)
        if (node := self._live_node()) is not None:
            node.close()
        return node is not None

    def close(self) -> None:
        if self._read is not None:
            self._read.close()
        if self._connected is not None:
            self._connected.close()


def open_client(database: Path | str, who: str) -> DatabaseClient:
    """A client that has connected already: a database without a node gets none until the client is closed."""
    client = DatabaseClient(database, who)
    client.connect()
    return client


def _connect(database: Path | str) -> Backend:
    """For changes: the live node of a database, or the database itself, which then gets no node until it is closed.

    A database of a cluster is changed directly; what only a node can do is passed on to the node that holds the task.
    """
    if isinstance(database, str):
        return _cluster(database)
    deadline = time.monotonic() + _CONNECT_TIMEOUT
    while True:
        if (node := connect_to_live_node(database)) is not None:
            return node
        try:
            return _StoreBackend(database)
        except DatabaseInUse:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"a node is running on {database}, but does not answer on {socket_path(database)}: "
                    "it is starting or stopping, so try again"
                ) from None


def connect_to_live_node(database: Path | str) -> "SocketBackend | ClusterBackend | None":
    """For questions: the node of a database; None if there is none or it is not ready to answer."""
    if isinstance(database, str):
        backend = _cluster(database)
        if backend.is_live:
            return backend
        backend.close()
        return None
    if not is_node_running(database):
        return None
    try:
        return SocketBackend(database)
    except StoreError:
        return None


def _cluster(database: str) -> "ClusterBackend":
    from evenbeat.client.cluster import ClusterBackend  # noqa: PLC0415 - a single database needs none of it

    return ClusterBackend(database)


class _StoreBackend:
    """A database without a node, changed by this process as its owner."""

    is_live = False

    def __init__(self, database: Path) -> None:
        from evenbeat.admin.task_admin import TaskAdmin  # noqa: PLC0415 - needs numpy, which no question waits for

        self._database = database
        self._owner = DatabaseOwnership(database)
        try:
            self._store = open_store(database)
        except StoreError:
            self._owner.close()
            raise
        self._admin = TaskAdmin(self._store, wall_clock)

    def ask(self, request: Request) -> Reply:
        from evenbeat.admin.perform import perform_change, reply_to_change  # noqa: PLC0415 - needs numpy
        from evenbeat.admin.problem_actions import perform_problem_request  # noqa: PLC0415
        from evenbeat.admin.task_cursors import set_stored_cursor  # noqa: PLC0415

        if isinstance(request, RunRequest | ResultRequest | SignInRequest | SubscribeToEvents | NodeQuery) or (
            isinstance(request, ApplyFiles) and not request.files
        ):
            page = " --listen 8629" if isinstance(request, SignInRequest) else ""
            command = f"evenbeat up --db {self._database}{page}"
            raise Invalid(f"no node is running on {self._database}; `{command}` starts one")
        if isinstance(request, BackUpDatabase):
            self._store.backup(Path(request.path))
            return Reply()
        if isinstance(request, SetCursor):
            return set_stored_cursor(self._admin, request)
        if isinstance(request, ProblemRequest):
            return perform_problem_request(self._admin, request)
        return reply_to_change(request, perform_change(self._admin, request))

    def close(self) -> None:
        self._store.close()
        self._owner.close()
