"""The door to a database: through its live node if there is one, else straight to the store; both do the same."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from evenbeat.admin.sign_in_links import NewLink
from evenbeat.admin.task_admin import Changed, Desk
from evenbeat.admin.tokens import NewToken
from evenbeat.core.authority import is_over
from evenbeat.model import Instant, Invalid, Task
from evenbeat.node.cluster.node_info import cluster_of, read_about, together
from evenbeat.node.cluster.orders import PATIENCE
from evenbeat.node.loop.submissions import drop_beat, new_beat
from evenbeat.node.process.control_socket import Client
from evenbeat.node.scheduler import Node
from evenbeat.report.status import Status
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Filter, Store, StoreError
from evenbeat.store.opening import open_store, shown
from evenbeat.store.sqlite.ownership import Owned, Ownership, is_owned, socket_path
from evenbeat.wire.requests import (
    Add,
    Apply,
    Ask,
    AskCluster,
    AskMoment,
    AskNode,
    AskNumbers,
    AskRunning,
    AskStatus,
    Backup,
    Beat,
    Change,
    DropBeat,
    Ended,
    EndSession,
    Force,
    KeepSession,
    MakeLink,
    NewBeat,
    NoteSignIn,
    Pause,
    Remove,
    RemoveToken,
    Reply,
    Request,
    Set,
    SetLimit,
    SetSlots,
    SetToken,
    SignIn,
    Taken,
    Tell,
    Telling,
    UseLink,
    Watch,
    done,
    must_be_done,
    perform,
    signed_in,
    touched,
)

_PATIENCE: Final = 10.0
"""Seconds in which a node that starts begins to listen, and others who change something are done."""


class Side(Protocol):
    """What is behind a door."""

    @property
    def is_live(self) -> bool:
        """Does a node run there?"""

    def ask(self, request: Request) -> Reply:
        """Do it, or raise why not."""

    def close(self) -> None: ...


class Door:
    """Everything that can be changed, whatever is behind it; whoever opens it closes it."""

    def __init__(self, side: Side, who: str) -> None:
        self._side = side
        self._who = who

    @property
    def is_live(self) -> bool:
        """Does a node live behind it?"""
        return self._side.is_live

    def add(self, tasks: Sequence[Task], owner: str) -> Changed:
        """New tasks, all or none."""
        return self._change(Add(tuple(tasks), owner, self._who))

    def set(self, name: str, task: Task, version: int | None = None) -> Changed:
        """A new definition for a task."""
        return self._change(Set(name, task, self._who, version))

    def remove(self, only: Filter) -> Changed:
        """Delete tasks."""
        return self._change(Remove(only, self._who))

    def pause(self, only: Filter, *, paused: bool) -> Changed:
        """Disable tasks by hand, or enable them again."""
        return self._change(Pause(only, paused, self._who))

    def apply(self, files: Sequence[Path]) -> Changed:
        """Make the tasks that these files own be what the files say; none for those the node was started with."""
        return self._change(Apply(tuple(str(file.resolve()) for file in files), self._who))

    def set_slots(self, most: int | None) -> Changed:
        """So many runs at the same time; None for what the command line or files say."""
        return self._change(SetSlots(most, self._who))

    def set_limit(self, name: str, most: int | None) -> Changed:
        """The same for a limit."""
        return self._change(SetLimit(name, most, self._who))

    def add_token(self, new: NewToken) -> None:
        """Somebody more may use the API."""
        self._change(SetToken(new.id, new.token, self._who))

    def remove_token(self, name: str) -> None:
        """Whoever has this token may not any more."""
        self._change(RemoveToken(name, self._who))

    def make_link(self, digest: str, name: str | None) -> NewLink:
        """A link to sign in with, of whose code this is the digest; without a name for the token that the node made."""
        link = self._side.ask(MakeLink(digest, self._who, name)).link
        assert link is not None
        return link

    def force(self, names: Sequence[str], *, wait: bool) -> list[Ended]:
        """Run tasks now."""
        return self._side.ask(Force(tuple(names), self._who, wait)).ended or []

    def ask_to_run(self, names: Sequence[str]) -> dict[str, str]:
        """Run tasks now, without waiting for them; what those wait for that cannot start at once, by their names."""
        return self._side.ask(Force(tuple(names), self._who)).waiting or {}

    def tell(
        self, name: str, status: int, output: str = "", *, ttl: int | None = None, at: Instant | None = None
    ) -> Taken:
        """Tell the result of a check."""
        taken = self._side.ask(Tell(name, status, self._who, output, ttl=ttl, at=at)).taken
        assert taken is not None
        return taken

    def new_beat(self, name: str) -> str:
        """A token for the heartbeat of a passive check, in place of the one it had."""
        return self._side.ask(NewBeat(name, self._who)).token

    def drop_beat(self, name: str) -> None:
        """The token is nobody's any more."""
        self._side.ask(DropBeat(name, self._who))

    def status(self) -> Status | None:
        """How the live node is; None if there is none."""
        return self._side.ask(AskStatus()).status if self.is_live else None

    def backup(self, path: Path) -> None:
        """A consistent copy of the database."""
        self._side.ask(Backup(str(path.resolve())))

    def _change(self, change: Change) -> Changed:
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


def open_door(database: Path | str, who: str) -> Door:
    """To a database on this machine: its node is asked if it has one, else nobody may become it meanwhile.

    A database that several nodes share is changed as it is; what only a node can do is asked of the one that has it.
    """
    if isinstance(database, str):
        return Door(Shared(database), who)
    deadline = time.monotonic() + _PATIENCE
    while True:
        if (node := live_node(database)) is not None:
            return Door(node, who)
        try:
            return Door(_Alone(database), who)
        except Owned:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"a node lives on {database}, but does not answer on {socket_path(database)}: "
                    "it is starting or stopping, so try again"
                ) from None


def live_node(database: Path | str) -> "Client | Shared | None":
    """The node of a database, for questions only; None if none lives there or it is not ready to answer."""
    if isinstance(database, str):
        side = Shared(database)
        if side.is_live:
            return side
        side.close()
        return None
    if not is_owned(database):
        return None
    try:
        return Client(database)
    except StoreError:
        return None


def has_live_node(database: Path | str, store: Store | None = None) -> bool:
    """Is a node running on a database, though it may not answer yet? `store` is the same, if it is open already."""
    if not isinstance(database, str):
        return is_owned(database)
    if isinstance(store, ClusterStore):
        return any(not is_over(lease.expires, store.clock()) for lease in store.view().leases)
    node = live_node(database)
    if node is not None:
        node.close()
    return node is not None


def own_door(node: Node, who: str) -> Door:
    """For code that runs on the loop of the node itself."""
    return Door(_Within(node), who)


class _Alone:
    """A store without a node."""

    is_live = False

    def __init__(self, database: Path) -> None:
        self._database = database
        self._owner = Ownership(database)
        try:
            self._store = open_store(database)
        except StoreError:
            self._owner.close()
            raise

    def ask(self, request: Request) -> Reply:
        if isinstance(request, Force | Telling | SignIn | Watch | Ask) or (
            isinstance(request, Apply) and not request.files
        ):
            page = " --listen 8629" if isinstance(request, SignIn) else ""
            command = f"evenbeat up --db {self._database}{page}"
            raise Invalid(f"no node lives on {self._database}; `{command}` starts one")
        if isinstance(request, Backup):
            self._store.backup(Path(request.path))
            return Reply()
        return done(request, perform(Desk(self._store, _now), request))

    def close(self) -> None:
        self._store.close()
        self._owner.close()


class Shared:
    """A store of a cluster."""

    def __init__(self, database: str) -> None:
        store = open_store(database)
        assert isinstance(store, ClusterStore)
        self.store = store
        self._shown = shown(database)
        view = store.view()
        self.is_live = any(not is_over(lease.expires, view.now) for lease in view.leases)

    def ask(self, request: Request) -> Reply:
        desk = Desk(self.store, lambda: Instant(self.store.clock()))
        match request:
            case Backup():
                self.store.backup(Path(request.path))
                return Reply()
            case NewBeat(name, who):
                return Reply(token=new_beat(desk, name, who))
            case DropBeat(name, who):
                drop_beat(desk, name, who)
                return Reply()
            case AskStatus():
                leases = [le for le in self.store.view().leases if not is_over(le.expires, self.store.clock())]
                return Reply(status=together([read_about(lease).status for lease in leases]))
            case AskCluster():
                return Reply(cluster=cluster_of(self.store.view()))
            case Force():
                return self._force(desk, request)
            case Tell(name=name):
                return self._pass_on(desk.need(name).number, request)
            case AskMoment(number):
                return self._pass_on(number, request)
            case Beat() | Watch() | AskRunning() | AskNode() | AskNumbers():
                raise Invalid("this is asked of a node over HTTP: give --url")
            case Apply(files=()):
                raise Invalid("a cluster has no files of its own: `evenbeat apply FILE...` names them")
            case MakeLink():
                return signed_in(desk, request, self._page())
            case UseLink() | NoteSignIn() | KeepSession() | EndSession():
                return signed_in(desk, request, "")
        return done(request, perform(desk, request))

    def _page(self) -> str:
        """Of a node of the cluster, rather of one on this machine; empty if none has a page."""
        if not self.is_live:
            raise Invalid(f"no node lives on {self._shown}; `evenbeat scheduler --db ... --queue ...` starts one")
        leases = [lease for lease in self.store.view().leases if not is_over(lease.expires, self.store.clock())]
        served = [about for about in map(read_about, leases) if about.page]
        served.sort(key=lambda about: about.name != socket.gethostname())
        return served[0].page if served else ""

    def _force(self, desk: Desk, request: Force) -> Reply:
        entries = desk.forced(request.names, request.who, request.only)
        patience = None if request.wait else PATIENCE
        ids = [self._order(e.number, Force((e.id,), request.who, request.wait, is_passed_on=True)) for e in entries]
        replies = [self._reply(id_, patience) for id_ in ids]
        ended = [end for reply in replies for end in reply.ended or ()]
        waiting = {name: why for reply in replies for name, why in (reply.waiting or {}).items()}
        return Reply(ended=ended, waiting=waiting, touched=touched(entries, named=request.named))

    def _pass_on(self, number: int, request: Request) -> Reply:
        return self._reply(self._order(number, request), PATIENCE)

    def _order(self, number: int, request: Request) -> int:
        if not self.is_live:
            raise Invalid(f"no node lives on {self._shown}; `evenbeat scheduler --db ... --queue ...` starts one")
        return self.store.order(number, msgspec.json.encode(request))

    def _reply(self, id_: int, patience: float | None) -> Reply:
        deadline = None if patience is None else time.monotonic() + patience
        pause = 0.005
        while (found := self.store.reply(id_)) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise StoreError(f"no node has answered for {patience:.0f} s; `evenbeat status` tells who there is")
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        reply = msgspec.json.decode(found, type=Reply)
        must_be_done(reply)
        return reply

    def close(self) -> None:
        self.store.close()


class _Within:
    """The node of this very thread."""

    is_live = True

    def __init__(self, node: Node) -> None:
        self._node = node

    def ask(self, request: Request) -> Reply:
        node = self._node
        if isinstance(request, SignIn):
            return signed_in(node.desk, request, node.page)
        if isinstance(request, Backup | Telling | Watch | Ask) or (isinstance(request, Force) and request.wait):
            raise RuntimeError("this would wait for the loop it is called on; call it from another thread")
        if isinstance(request, Force):
            entries = node.desk.forced(request.names, request.who, request.only)
            waiting = node.force(entries, request.named)
            return Reply(ended=[], waiting=waiting, touched=touched(entries, named=request.named))
        try:
            return done(request, perform(node.desk, request, node.options.files))
        finally:
            node.take_over()

    def close(self) -> None:
        pass


def _now() -> Instant:
    return Instant(time.time_ns() // 1_000)
