"""Requests: everything that can be asked of a node or of a database without one, as documents.

The control socket, the API process, the relay between the nodes of a cluster and the Python API all use these.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from evenbeat.core.scope import Scope
from evenbeat.load.config import Config
from evenbeat.model import (
    MAX_EVERY,
    NAME_LIMIT,
    OUTPUT_LIMIT,
    TEXT_LIMIT,
    ArgumentItem,
    ArgumentValue,
    CommandWord,
    Contact,
    Instant,
    Name,
    Period,
    Task,
)
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
    until: Instant | None = None
    """The pause ends then; None: when somebody resumes the task."""
    reason: str = ""


class RunArguments(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of one run, beside those of its task: see `core.run_arguments`."""

    args: tuple[ArgumentItem, ...] = ()
    kwargs: dict[str, ArgumentItem] = {}
    env: dict[str, CommandWord] = {}

    def names(self) -> str:
        """What is given, without values, which may be secrets."""
        words = [f"{len(self.args)} positional"] if self.args else []
        return ", ".join([*words, *self.kwargs, *(f"env.{name}" for name in self.env)])


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
    arguments: RunArguments | None = None
    """Of the run of the one task that is named. None: it runs as it is defined."""


class StopRuns(Struct, tag="stop"):
    """End the runs under way of tasks, and withdraw forced runs that wait. `Reply.stopped`."""

    only: Filter
    who: str
    reason: str = ""
    """At most TEXT_LIMIT characters, in one line: whoever performs it says so, in words for people."""
    wait: bool = False
    """Reply when the runs have ended."""


class SetCursor(Struct, tag="set-cursor"):
    """Set where the next run of a task goes on. `Reply.cursor`.

    Refused with NotFound if there is no such task, with Conflict while a run of it is under way: the run may set it.
    """

    name: str
    """Or the id of the task."""
    who: str
    cursor: ArgumentValue = None
    """None: the next run has no cursor."""


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


class SetContact(Struct, tag="set-contact"):
    """Create or redefine a contact. An existing one keeps its owner."""

    name: Name
    contact: Contact
    who: str
    owner: str = "api"


class RemoveContact(Struct, tag="remove-contact"):
    """Delete a contact; refused with Conflict while a task or [node] names it, with NotFound if there is none."""

    name: str
    who: str


class AddDowntime(Struct, tag="add-downtime"):
    """Set a downtime. `ChangeResult.downtime`."""

    who: str
    names: tuple[Name, ...] = ()
    owner: Name | None = None
    labels: dict[Name, Name] = {}
    start: Instant | None = None
    """None for now."""
    end: Instant | None = None
    """Required: whoever performs it says so, in words for people."""
    period: Name | None = None
    dependents: bool = True
    comment: Annotated[str, Meta(max_length=TEXT_LIMIT)] = ""
    scope: Scope | None = None
    """The tasks to which the caller is limited: the downtime includes no others."""


class EndDowntime(Struct, tag="end-downtime"):
    """End a downtime that a person has set; refused with NotFound if there is none, with Conflict if it is over."""

    id: Name
    who: str
    scope: Scope | None = None


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
    LOG = "log"
    """Nothing but its output, for the history: it changes no state, and no result is expected any less."""


class SendHeartbeat(Struct, tag="beat"):
    """A heartbeat; refused with NotFound if there is no such token."""

    token: Annotated[str, Meta(max_length=NAME_LIMIT)]
    signal: HeartbeatSignal
    who: str
    output: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    source: Annotated[str, Meta(max_length=NAME_LIMIT)] = THIS_MACHINE
    status: Annotated[int, Meta(ge=0, le=255)] | None = None
    """The exit status of what has succeeded or failed, if it is known."""


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


MAX_OUTPUT_WAIT: Final = 5.0
"""Seconds that a node waits at most for something to be written."""


class ReadOutput(Struct, frozen=True, tag="output"):
    """What has a run written? The node answers when there is something, or after `wait`."""

    number: int
    """Of the task."""
    run: Instant | None = None
    """When the run was claimed, which identifies it; None for the one that is under way, else the latest."""
    since: Instant | None = None
    """Instead of `run`: the first run that is claimed from then on, as soon as there is one ..."""
    forced: bool = False
    """... and was forced."""
    position: int = 0
    """Bytes that the caller knows."""
    wait: float = 0.0
    """Seconds, at most MAX_OUTPUT_WAIT."""


class GetRunningRuns(Struct, tag="running"):
    """`Reply.running`: the runs that are claimed or running."""

    most: Annotated[int, Meta(ge=0, le=10_000)] = 100


class GetNodeIdentity(Struct, tag="node"):
    """`Reply.node`: id, process and version of the node."""


class GetNodeMetrics(Struct, tag="numbers"):
    """`Reply.numbers`: counters and histograms."""


class GetCluster(Struct, tag="cluster"):
    """`Reply.cluster`: all nodes and workers; None from a single node."""


class AskForFreshRuns(Struct, tag="fresh-runs"):
    """From another node of the cluster: problems of its tasks wait for runs of these checks: `Reply.unable`."""

    checks: dict[int, Instant]
    """By number: a run must begin after this time."""


class TestContact(Struct, tag="test-contact"):
    """Send a test message to each place of a contact, and reply what became of them: `Reply.tested`.

    Refused with NotFound if there is no such contact.
    """

    name: str
    who: str


class SubscribeToEvents(Struct, tag="watch"):
    """There is no Reply: the connection becomes a stream of `EventMessage` documents, one per line."""


ChangeRequest = (
    AddTasks
    | SetTask
    | RemoveTasks
    | PauseTasks
    | SetPeriods
    | RemovePeriod
    | SetContact
    | RemoveContact
    | AddDowntime
    | EndDowntime
    | SetSlots
    | SetLimit
    | AddToken
    | RemoveToken
    | ApplyFiles
    | ApplyConfigs
)
ProblemRequest = AcknowledgeProblems | CommentOnProblems
"""What people do with problems: performed like changes, with a live node or without."""
NodeQuery = (
    GetStatus
    | GetLiveTaskState
    | GetRunningRuns
    | GetNodeIdentity
    | GetNodeMetrics
    | GetCluster
    | TestContact
    | ReadOutput
    | AskForFreshRuns
)
"""What only a live node can answer, and what it does without a change to its tasks."""
RunRequest = ForceTasks | StopRuns
"""Runs that people begin and end, which only a live node can do."""
ResultRequest = SubmitResult | SendHeartbeat | CreateHeartbeatToken | RemoveHeartbeatToken
"""Submitted results and heartbeats, which only a live node accepts."""
SignInRequest = CreateSignInLink | UseSignInLink | RecordSignIn | StartPageSession | EndPageSession
"""Signing in to the page, which only a live node serves."""
Request = (
    ChangeRequest
    | ProblemRequest
    | RunRequest
    | SetCursor
    | ResultRequest
    | SignInRequest
    | BackUpDatabase
    | NodeQuery
    | SubscribeToEvents
)
