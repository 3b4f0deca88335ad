"""What can be asked of a desk, as documents: the same from a terminal, a program or another process."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from evenbeat.admin.command_permission import Forbidden, refuse_forged_owner
from evenbeat.admin.file_owner import owning_files
from evenbeat.admin.page_sessions import end_session, start_session
from evenbeat.admin.sign_in_links import NewSignInLink, create_sign_in_link, use_sign_in_link
from evenbeat.admin.task_admin import ChangeResult, TaskAdmin
from evenbeat.admin.tokens import ApiToken, add_token, remove_token
from evenbeat.core.scope import Scope
from evenbeat.load.config import Config
from evenbeat.model import MAX_EVERY, NAME_LIMIT, OUTPUT_LIMIT, Entry, Instant, Invalid, Name, Period, State, Task
from evenbeat.store.contract import Conflict, Filter, StoreError
from evenbeat.wire.cluster_view import ClusterView
from evenbeat.wire.live_runs import LiveTaskState, RunningRuns
from evenbeat.wire.metrics import NodeMetrics
from evenbeat.wire.status import NodeIdentity, Status

THIS_MACHINE: Final = "this machine"
"""Where something comes from that comes through the control socket."""
MAX_NAMES_IN_REPLY: Final = 100
"""Tasks whose names a short answer tells, unless more are asked for."""


class AddTasks(Struct, tag="add"):
    tasks: tuple[Task, ...]
    owner: str
    who: str
    scope: Scope | None = None
    """To what the one who asks is limited."""


class SetTask(Struct, tag="set"):
    name: str
    task: Task
    who: str
    version: int | None = None


class RemoveTasks(Struct, tag="remove"):
    only: Filter
    who: str
    briefly: bool = False
    """Answer with `touched`, not with every task ..."""
    named: int = MAX_NAMES_IN_REPLY
    """... and name so many at most."""


class PauseTasks(Struct, tag="pause"):
    only: Filter
    paused: bool
    who: str
    briefly: bool = False
    named: int = MAX_NAMES_IN_REPLY


class ForceTasks(Struct, tag="run"):
    names: tuple[str, ...]
    who: str
    wait: bool = False
    only: Filter | None = None
    """All that fit, beside those that are named."""
    named: int = MAX_NAMES_IN_REPLY
    """Of how many the answer tells the names."""
    is_passed_on: bool = False
    """By another node of the cluster: the audit knows of it already."""


class SetPeriods(Struct, tag="set-periods"):
    """New or other definitions; of those that are there, the owner stays."""

    periods: dict[Name, Period]
    who: str
    owner: str = "api"


class RemovePeriod(Struct, tag="remove-period"):
    """Refused with Conflict while a task or another period uses it."""

    name: str
    who: str


class SetSlots(Struct, tag="set-slots"):
    """So many runs at the same time, in a cluster of all nodes; None for what the command line or files say."""

    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    who: str


class SetLimit(Struct, tag="set-limit"):
    """The same for a limit; refused if none has this name."""

    name: str
    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    who: str


class AddToken(Struct, tag="set-token"):
    """A new token for the API; refused with Conflict if its name is taken."""

    id: Annotated[str, Meta(pattern=r"^[\w-]{8}\Z")]
    token: ApiToken
    who: str


class RemoveToken(Struct, tag="remove-token"):
    name: str
    who: str


class CreateSignInLink(Struct, tag="make-link"):
    """A link to sign in with; `Reply.link` says what it is good for. Whoever asks has drawn the code."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    who: str
    name: str | None = None
    """Of its token; None for the one that the node has made."""


class RecordSignIn(Struct, tag="note-sign-in"):
    """Somebody has begun a session with a token: for the audit."""

    name: str
    """Of the token."""
    who: str
    """From which address."""


class UseSignInLink(Struct, tag="use-link"):
    """Somebody signs in; `Reply.token` has the id of the token, or nothing if the link is not good any more."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    who: str


class StartPageSession(Struct, tag="keep-session"):
    """A session of the page has begun; it stands for the token with this id, in this life of a node or in all."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    token: str
    life: str = ""


class EndPageSession(Struct, tag="end-session"):
    """Somebody has signed out."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class SubmitResult(Struct, tag="tell"):
    """The result of a check, passive or not. Refused: with Missing if there is no such task, with Conflict if it is no
    check.
    """

    name: str
    """Or its id."""
    status: Annotated[int, Meta(ge=0, le=3)]
    who: str
    output: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    perfdata: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    ttl: Annotated[int, Meta(ge=1, le=MAX_EVERY)] | None = None
    """Microseconds for which it is good: after them, without a newer one, the check is UNKNOWN."""
    at: Instant | None = None
    """When it was so, if not just now."""
    source: Annotated[str, Meta(max_length=NAME_LIMIT)] = THIS_MACHINE
    """From which address, for the audit."""


class HeartbeatSignal(StrEnum):
    """What a heartbeat says."""

    START = "start"
    SUCCESS = "success"
    FAIL = "fail"


class SendHeartbeat(Struct, tag="beat"):
    """A heartbeat; refused with Missing if nobody has this token."""

    token: Annotated[str, Meta(max_length=NAME_LIMIT)]
    signal: HeartbeatSignal
    who: str
    output: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    source: Annotated[str, Meta(max_length=NAME_LIMIT)] = THIS_MACHINE


class CreateHeartbeatToken(Struct, tag="new-beat"):
    """A token for the heartbeat of a passive check, in place of the one it had; `Reply.token` has it, once."""

    name: str
    who: str


class RemoveHeartbeatToken(Struct, tag="drop-beat"):
    """Refused with Missing if there is none."""

    name: str
    who: str


class ApplyFiles(Struct, tag="apply"):
    files: tuple[str, ...]
    """None for those the node was started with."""
    who: str
    anew: bool = True


class ApplyConfigs(Struct, tag="declare"):
    """Make the tasks of these owners be what was read elsewhere, as `Apply` does for files of this machine."""

    configs: dict[str, Config]
    who: str


class BackUpDatabase(Struct, tag="backup"):
    path: str


class GetStatus(Struct, tag="status"):
    pass


class GetLiveTaskState(Struct, tag="moment"):
    number: int


class GetRunningRuns(Struct, tag="running"):
    most: Annotated[int, Meta(ge=0, le=10_000)] = 100


class GetNodeIdentity(Struct, tag="node"):
    pass


class GetNodeMetrics(Struct, tag="numbers"):
    pass


class GetCluster(Struct, tag="cluster"):
    """`Reply.cluster` has it; None from a node that is alone."""


class SubscribeToEvents(Struct, tag="watch"):
    """Not answered with a Reply: from now on the connection is a stream of `Feed` documents, one per line."""


class EndedRun(Struct):
    """A forced run that was waited for."""

    task: str
    started: int
    ended: int
    outcome: str
    status: int | None
    output: str


class AcceptedResult(Struct):
    """A result was told: how the check is now."""

    task: str
    state: State
    hard: bool
    attempt: int
    is_newest: bool
    """False if a newer one was known: then it has changed nothing."""


class NotFound(Invalid):
    """Something is not there: no such task, nobody's token."""


class HeldByOtherNode(Exception):
    """Another node of the cluster has this task, and is to be asked."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class AffectedTasks(Struct):
    """Which tasks an action by filter was about."""

    count: int
    """Of those that were changed, removed or forced ..."""
    names: list[str]
    """... and the names of the first of them."""
    unchanged: int = 0
    """Those that fit and were so already."""
    files: list[str] = []
    """That own some of them: each undoes the change when it is next applied."""


class Names(Struct):
    """What is different now, by name."""

    created: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    unchanged: int = 0
    settings: bool = False
    """Periods, limits or settings of the node."""
    files: list[str] = []
    """That own some of what was removed: each brings it back when it is next applied."""
    notices: list[str] = []
    """What people should know beside it."""


class Reply(Struct, omit_defaults=True):
    """One of these, or what went wrong."""

    changed: ChangeResult | None = None
    names: Names | None = None
    ended: list[EndedRun] | None = None
    waiting: dict[str, str] | None = None
    """Of the forced tasks that cannot start at once: what each waits for, by its name."""
    status: Status | None = None
    moment: LiveTaskState | None = None
    touched: AffectedTasks | None = None
    running: RunningRuns | None = None
    node: NodeIdentity | None = None
    numbers: NodeMetrics | None = None
    taken: AcceptedResult | None = None
    cluster: ClusterView | None = None
    link: NewSignInLink | None = None
    token: str = ""
    problem: str = ""
    kind: str = ""
    """invalid, conflict, missing, forbidden, store: whose fault the problem is."""


ChangeRequest = (
    AddTasks
    | SetTask
    | RemoveTasks
    | PauseTasks
    | SetPeriods
    | RemovePeriod
    | SetSlots
    | SetLimit
    | AddToken
    | RemoveToken
    | ApplyFiles
    | ApplyConfigs
)
NodeQuery = GetStatus | GetLiveTaskState | GetRunningRuns | GetNodeIdentity | GetNodeMetrics | GetCluster
"""What only a live node can tell."""
ResultRequest = SubmitResult | SendHeartbeat | CreateHeartbeatToken | RemoveHeartbeatToken
"""What others tell a live node of checks."""
SignInRequest = CreateSignInLink | UseSignInLink | RecordSignIn | StartPageSession | EndPageSession
"""What has to do with signing in to the page, which only a live node has."""
Request = ChangeRequest | ForceTasks | ResultRequest | SignInRequest | BackUpDatabase | NodeQuery | SubscribeToEvents


_ERROR_OF_KIND: Final[dict[str, type[Exception]]] = {
    "conflict": Conflict,
    "missing": NotFound,
    "store": StoreError,
    "forbidden": Forbidden,
}


def raise_if_refused(reply: Reply) -> None:
    """Raise what a node refused."""
    if reply.problem:
        raise _ERROR_OF_KIND.get(reply.kind, Invalid)(reply.problem)


def affected_tasks(entries: Sequence[Entry], unchanged: int = 0, named: int = MAX_NAMES_IN_REPLY) -> AffectedTasks:
    """These, in a few words."""
    return AffectedTasks(len(entries), names_of(entries[:named]), unchanged, owning_files(entries))


def perform_sign_in(desk: TaskAdmin, request: SignInRequest, page: str) -> Reply:
    """Make or use a link to sign in with; begin or end a session."""
    match request:
        case CreateSignInLink(digest, who, name):
            return Reply(link=create_sign_in_link(desk, digest, name, who, page))
        case UseSignInLink(digest, who):
            return Reply(token=use_sign_in_link(desk, digest, who))
        case RecordSignIn(name, who):
            desk.audit(f"token {name}", "signed in", who)
        case StartPageSession(digest, token, life):
            start_session(desk, digest, token, life)
        case EndPageSession(digest):
            end_session(desk, digest)
    return Reply()


def names_of(entries: Sequence[Entry]) -> list[str]:
    """What they are called."""
    return [entry.task.name for entry in entries]


def reply_to_change(change: ChangeRequest, changed: ChangeResult) -> Reply:
    """The answer to a change, as long as was asked for."""
    match change:
        case RemoveTasks(briefly=True, named=named) | PauseTasks(briefly=True, named=named):
            return Reply(touched=affected_tasks(changed.changed + changed.removed, changed.unchanged, named))
        case ApplyConfigs():
            new, other, gone = (names_of(some) for some in (changed.created, changed.changed, changed.removed))
            names = Names(new, other, gone, changed.unchanged, changed.settings, notices=changed.notices)
            return Reply(names=names)
    return Reply(changed=changed)


def _owners_in(change: ChangeRequest) -> Iterable[str]:
    """Whose tasks or periods it makes, as whoever asks says it."""
    match change:
        case AddTasks(owner=owner) | SetPeriods(owner=owner):
            return (owner,)
        case ApplyConfigs(configs):
            return configs
    return ()


def perform_change(desk: TaskAdmin, change: ChangeRequest, files: Sequence[Path] = ()) -> ChangeResult:
    """Do it at this desk; `files` are those of the node, for an `apply` that names none."""
    refuse_forged_owner(*_owners_in(change))
    match change:
        case AddTasks(tasks, owner, who, scope):
            return desk.add(tasks, owner, who, scope)
        case SetTask(name, task, who, version):
            return desk.set(name, task, who, version)
        case RemoveTasks(only, who):
            return desk.remove(only, who)
        case PauseTasks(only, paused, who):
            return desk.pause(only, who, paused=paused)
        case SetPeriods(periods, who, owner):
            return desk.set_periods(periods, owner, who)
        case RemovePeriod(name, who):
            return desk.remove_period(name, who)
        case SetSlots(most, who):
            return desk.set_slots(most, who)
        case SetLimit(name, most, who):
            return desk.set_limit(name, most, who)
        case AddToken(id_, token, who):
            add_token(desk, id_, token, who)
            return ChangeResult()
        case RemoveToken(name, who):
            remove_token(desk, name, who)
            return ChangeResult()
        case ApplyFiles(named, who, anew):
            return desk.apply([Path(file) for file in named] or files, who, anew=anew)
        case ApplyConfigs(configs, who):
            return desk.apply_configs(configs, who)
