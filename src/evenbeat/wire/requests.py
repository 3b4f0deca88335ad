"""Requests: everything that can be asked of a node or of a database without one, as documents.

The control socket, the API process, the relay between the nodes of a cluster and the Python API all use these.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from evenbeat.core.scope import Scope
from evenbeat.load.config import Config
from evenbeat.model import MAX_EVERY, NAME_LIMIT, OUTPUT_LIMIT, Instant, Name, Period, Task
from evenbeat.store.contract import Filter

MAX_REQUEST_BYTES: Final = 64 << 20
"""Of one request, or one reply, on the control socket."""
RELAY_TIMEOUT: Final = 30.0
"""Seconds within which a node of the cluster replies to a request that is passed on to it through the database."""
MAX_NAMES_IN_REPLY: Final = 100
"""Task names in a short reply, unless the request asks for more."""
THIS_MACHINE: Final = "this machine"
"""The source of a request that arrives by the control socket, in the audit."""

COMMENT_LIMIT: Final = 4_096
"""Characters of a comment on a problem."""

RoleName = Literal["read", "operate", "admin"]


class ApiToken(Struct, frozen=True, omit_defaults=True):
    """A token for the API, as the database keeps it: without its secret."""

    name: str
    role: RoleName
    hash: str
    """Of its secret, by scrypt, in hexadecimal digits."""
    salt: str
    created: Instant
    expires: Instant | None = None
    owner: str | None = None
    labels: dict[str, str] = {}
    """Only tasks of this owner, with these labels."""

    @property
    def scope(self) -> Scope | None:
        """The tasks to which the token is limited; None for all."""
        return Scope(self.owner, self.labels) if self.owner is not None or self.labels else None

    def is_over(self, now: Instant) -> bool:
        """Has the token expired?"""
        return self.expires is not None and now >= self.expires


class AddTasks(Struct, tag="add"):
    """Create tasks, all or none."""

    tasks: tuple[Task, ...]
    owner: str
    who: str
    scope: Scope | None = None
    """The tasks to which the caller is limited."""


class SetTask(Struct, tag="set"):
    """Replace the definition of a task."""

    name: str
    task: Task
    who: str
    version: int | None = None


class RemoveTasks(Struct, tag="remove"):
    """Delete tasks."""

    only: Filter
    who: str
    briefly: bool = False
    """Reply with `touched` instead of every task."""
    named: int = MAX_NAMES_IN_REPLY
    """The most task names in that reply."""


class PauseTasks(Struct, tag="pause"):
    """Pause or resume tasks."""

    only: Filter
    paused: bool
    who: str
    briefly: bool = False
    named: int = MAX_NAMES_IN_REPLY


class ForceTasks(Struct, tag="run"):
    """Run tasks now."""

    names: tuple[str, ...]
    who: str
    wait: bool = False
    """Reply when the runs have ended."""
    only: Filter | None = None
    """Force all tasks that match, too."""
    named: int = MAX_NAMES_IN_REPLY
    """The most task names in the reply."""
    is_passed_on: bool = False
    """Another node of the cluster passed it on, and has written it to the audit already."""


class AcknowledgeProblems(Struct, tag="acknowledge"):
    """Acknowledge the open problems of tasks, or take the acknowledgement back. `Reply.problems`."""

    only: Filter
    """Tasks."""
    who: str
    ids: tuple[int, ...] = ()
    """Only these problems, of the tasks that `only` selects; empty for all of them."""
    comment: str = ""
    """At most COMMENT_LIMIT characters: whoever performs it says so, in words for people."""
    until: Instant | None = None
    sticky: bool = False
    is_withdrawn: bool = False
    """Take the acknowledgement back."""


class CommentOnProblems(Struct, tag="comment"):
    """Add a comment to the open problems of tasks, or to problems by id, closed ones too. `Reply.problems`."""

    only: Filter
    who: str
    text: str
    """At most COMMENT_LIMIT characters, and not empty."""
    ids: tuple[int, ...] = ()


class SetPeriods(Struct, tag="set-periods"):
    """Create or redefine periods. An existing period keeps its owner."""

    periods: dict[Name, Period]
    who: str
    owner: str = "api"


class RemovePeriod(Struct, tag="remove-period"):
    """Delete a period; refused with Conflict while a task or another period uses it."""

    name: str
    who: str


class SetSlots(Struct, tag="set-slots"):
    """The most runs at the same time, in a cluster of all nodes; None restores what the command line or files say."""

    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    who: str


class SetLimit(Struct, tag="set-limit"):
    """The most runs of a limit at the same time; None restores what files say. Refused if no limit has this name."""

    name: str
    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    who: str


class AddToken(Struct, tag="set-token"):
    """A new token for the API; refused with Conflict if its name is taken."""

    id: Annotated[str, Meta(pattern=r"^[\w-]{8}\Z")]
    token: ApiToken
    who: str


class RemoveToken(Struct, tag="remove-token"):
    """Revoke a token."""

    name: str
    who: str


class CreateSignInLink(Struct, tag="make-link"):
    """Make a sign-in link. The caller draws its code and sends only the digest; `Reply.link` describes the link."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    who: str
    name: str | None = None
    """The name of its token; None for the token that the node made."""


class RecordSignIn(Struct, tag="note-sign-in"):
    """Write to the audit that a session was begun with a token."""

    name: str
    """Of the token."""
    who: str
    """The address of the browser."""


class UseSignInLink(Struct, tag="use-link"):
    """Sign in by link; `Reply.token` is the id of its token, or empty if the link is no longer good."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    who: str


class StartPageSession(Struct, tag="keep-session"):
    """Keep a session of the page for the token with this id: until the node stops (`life`), or for good."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    token: str
    life: str = ""


class EndPageSession(Struct, tag="end-session"):
    """Forget a session: its user has signed out."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class SubmitResult(Struct, tag="tell"):
    """A result of a check, passive or not. Refused with NotFound if there is no such task, with Conflict if the task is
    no check.
    """

    name: str
    """Or the id of the task."""
    status: Annotated[int, Meta(ge=0, le=3)]
    who: str
    output: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    perfdata: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    ttl: Annotated[int, Meta(ge=1, le=MAX_EVERY)] | None = None
    """Microseconds; without a newer result after that, the check becomes UNKNOWN."""
    at: Instant | None = None
    """When the result was observed; None for now."""
    source: Annotated[str, Meta(max_length=NAME_LIMIT)] = THIS_MACHINE
    """The address of the caller, for the audit."""


class HeartbeatSignal(StrEnum):
    """What a heartbeat reports."""

    START = "start"
    SUCCESS = "success"
    FAIL = "fail"


class SendHeartbeat(Struct, tag="beat"):
    """A heartbeat; refused with NotFound if there is no such token."""

    token: Annotated[str, Meta(max_length=NAME_LIMIT)]
    signal: HeartbeatSignal
    who: str
    output: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    source: Annotated[str, Meta(max_length=NAME_LIMIT)] = THIS_MACHINE


class CreateHeartbeatToken(Struct, tag="new-beat"):
    """Make a heartbeat token for a passive check; it replaces the previous one. `Reply.token` is its only display."""

    name: str
    who: str


class RemoveHeartbeatToken(Struct, tag="drop-beat"):
    """Revoke the heartbeat token of a check; refused with NotFound if it has none."""

    name: str
    who: str


class ApplyFiles(Struct, tag="apply"):
    """Make the tasks of these files be what the files say."""

    files: tuple[str, ...]
    """Empty for the files that the node was started with."""
    who: str
    anew: bool = True


class ApplyConfigs(Struct, tag="declare"):
    """Make the tasks of these owners be what the caller has read elsewhere, as `ApplyFiles` does for local files."""

    configs: dict[str, Config]
    who: str


class BackUpDatabase(Struct, tag="backup"):
    """Copy the database to a new file."""

    path: str


class GetStatus(Struct, tag="status"):
    """`Reply.status`: counts and problems of the node."""


class GetLiveTaskState(Struct, tag="moment"):
    """`Reply.moment`: what the node knows of one task at this moment."""

    number: int


class GetRunningRuns(Struct, tag="running"):
    """`Reply.running`: the runs that are claimed or running."""

    most: Annotated[int, Meta(ge=0, le=10_000)] = 100


class GetNodeIdentity(Struct, tag="node"):
    """`Reply.node`: id, process and version of the node."""


class GetNodeMetrics(Struct, tag="numbers"):
    """`Reply.numbers`: counters and histograms."""


class GetCluster(Struct, tag="cluster"):
    """`Reply.cluster`: all nodes and workers; None from a single node."""


class SubscribeToEvents(Struct, tag="watch"):
    """There is no Reply: the connection becomes a stream of `EventMessage` documents, one per line."""


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
ProblemRequest = AcknowledgeProblems | CommentOnProblems
"""What people do with problems: performed like changes, with a live node or without."""
NodeQuery = GetStatus | GetLiveTaskState | GetRunningRuns | GetNodeIdentity | GetNodeMetrics | GetCluster
"""Questions that only a live node can answer."""
ResultRequest = SubmitResult | SendHeartbeat | CreateHeartbeatToken | RemoveHeartbeatToken
"""Submitted results and heartbeats, which only a live node accepts."""
SignInRequest = CreateSignInLink | UseSignInLink | RecordSignIn | StartPageSession | EndPageSession
"""Signing in to the page, which only a live node serves."""
Request = (
    ChangeRequest
    | ProblemRequest
    | ForceTasks
    | ResultRequest
    | SignInRequest
    | BackUpDatabase
    | NodeQuery
    | SubscribeToEvents
)
