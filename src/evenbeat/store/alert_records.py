"""The records of alerts: what each channel of a contact knows of a problem, what was decided, and the messages.

They belong to the contract of a store, see `evenbeat.store.contract`. A store decides nothing: alerts are decided by
`core.alerts`, and kept here before anything leaves.
"""

from typing import Final, NamedTuple

from msgspec import Struct

from evenbeat.model import Acknowledgement, Instant

DOCUMENT_KEPT: Final = 3_600_000_000
"""Microseconds for which the document of a message is kept after the message ended."""
WAITING: Final = "waiting"
"""The state of a message that has not ended, and is delivered again until it ends: `delivered` or `given up`."""

AlertKey = tuple[int, str]
"""The id of a problem, and the key of a channel."""


class ProblemKey(NamedTuple):
    """What identifies a problem to a node that has not read its id."""

    task: int
    cause: str
    opened: int


class AlertProblem(NamedTuple):
    """A problem with what its alerts depend on; without output and labels, as there may be 100,000 of them."""

    id: int
    number: int
    """Of the task."""
    task: str
    """The name of the task."""
    cause: str
    opened: int
    since: int
    """Since when it is in its present state."""
    state: int
    """The present one; of a closed problem, the most severe that it has had."""
    severity: int
    """Of that state: SEVERITY in `evenbeat.model`; while a check that flaps is OK, of the worst that it has had."""
    closed: int | None
    reason: str
    """Why it closed, if not by a result, as in `ProblemRecord`."""
    flapping: bool
    hold: str
    """Why it is not told now; empty if it may be, and of a closed problem."""
    held_since: int | None
    acknowledgement: Acknowledgement | None


class AlertRecord(NamedTuple):
    """What a channel knows of a problem: one row for each problem and channel. From `sent` on: see `core.alerts.Alert`.

    Times are 0 where there is none.
    """

    problem: int
    channel: str
    contact: str
    version: int
    """What the store returns is the version of the row; what is recorded must say the version that it replaces, 0 for a
    new row. The store adds 1.
    """
    sent: int = 0
    is_known: bool = False
    last_sent: int = 0
    waiting: str = ""
    is_reminder: bool = False
    leaves_at: int = 0
    counts_from: int = 0
    held: str = ""
    told_ack: int = 0
    message: int = 0
    """The message under way: it was started with this alert, and its end is not recorded. 0 for none."""
    is_over: bool = False

    @property
    def key(self) -> AlertKey:
        """What identifies the row."""
        return self.problem, self.channel


class AlertDecision(NamedTuple):
    """What was decided about a problem for a channel, and why: a row of the log, which is kept like history."""

    at: int
    problem: int
    channel: str
    contact: str
    decision: str
    """sent, suppressed, waiting ..."""
    reason: str = ""
    """Why, if not simply by the rules: downtime, acknowledged, gathered, contact removed ..."""
    message: int = 0
    """The message that it is about; 0 for none."""
    item: str = ""
    """What it is about: problem, reminder, recovery, acknowledged."""

    @property
    def key(self) -> AlertKey:
        """What identifies the alert that it is about."""
        return self.problem, self.channel


class NumberedDecision(NamedTuple):
    """A decision with its number in the log, and the task of its problem."""

    number: int
    task: str
    """The name of the task, or its last one."""
    decision: AlertDecision


class MessageRecord(Struct, frozen=True):
    """A message to a channel, from its start: everything that waited for the channel, in one document."""

    id: int
    """See `Store.reserve_messages`."""
    channel: str
    contact: str
    created: Instant
    items: int
    """How many problems, recoveries and acknowledgements it tells, as far as it is recorded."""
    document: bytes = b""
    """JSON, or its first part. A store returns it only by `Store.message_document`: it may be of megabytes."""
    state: str = WAITING
    """waiting, delivered, given up."""
    attempts: int = 0
    """How many deliveries were started."""
    next_attempt: Instant | None = None
    """When it is delivered again; None: as soon as its turn comes, or never as it has ended."""
    started_attempt: Instant | None = None
    """A delivery was started then, and how it ended is not recorded."""
    possible_repetition: bool = False
    """An earlier delivery may have arrived."""
    ended: Instant | None = None
    error: str = ""
    """Why the latest delivery failed, and what the message ended with."""
    detail: str = ""
    """What else is known of the latest delivery, such as the answer of the receiver."""
    is_complete: bool = True
    """False: further parts are to be recorded before it is delivered."""


class MessagePart(NamedTuple):
    """A further part of a message that is not complete: so a long message keeps no other batch waiting."""

    message: int
    items: int
    """How many more items it tells."""
    document: bytes
    """What follows the parts before it."""
    is_last: bool


class MessageAttempt(NamedTuple):
    """The delivery of a message has been started, or has failed and is tried again."""

    message: int
    attempts: int
    next_attempt: int | None
    started_attempt: int | None
    error: str = ""
    detail: str = ""
    possible_repetition: bool = False


class MessageEnd(NamedTuple):
    """A message has ended: nothing more is tried."""

    message: int
    at: int
    state: str
    """delivered, given up."""
    error: str = ""
    detail: str = ""


class AlertBatch(Struct):
    """What was decided about alerts in one step. Nobody may modify a batch after it was recorded.

    Each problem and channel occurs once in `alerts`. Values are plain ints, strs and bools.
    """

    alerts: list[AlertRecord] = []
    decisions: list[AlertDecision] = []
    messages: list[MessageRecord] = []
    """New ones. The alerts that a message tells are in the same batch and name it in `AlertRecord.message`."""
    attempts: list[MessageAttempt] = []
    """Of messages that have not ended; applied before `message_ends`."""
    message_ends: list[MessageEnd] = []
    """The alerts that have this message under way are in the same batch, or in later ones, and no longer name it."""
    parts: list[MessagePart] = []
    """Further parts of messages, each in one batch with the alerts that it tells. Applied after `messages`."""


class AlertRefusals(NamedTuple):
    """What of a batch was not kept, as the store knew otherwise: read these rows again, and decide again.

    Refused is an alert whose row has another version than was given, or whose problem does not exist any more; an
    attempt or an end of a message that does not exist or has ended; a part of a message that does not exist, has ended
    or is complete; and a new message whose id exists. A message, or a part of one, and its alerts are kept together: if
    one of the alerts that it tells is refused, so are it and all of them; if one of the alerts for which a message ends
    in the same batch is refused, so are the end and all of them, and the other way round. Decisions of refused alerts,
    and of problems that do not exist any more, are not kept. The rest is.
    """

    alerts: frozenset[AlertKey] = frozenset()
    messages: frozenset[int] = frozenset()


NONE_REFUSED: Final = AlertRefusals()


class AlertDecisionFilter(Struct, frozen=True):
    """Selects decisions: those that meet all the conditions given. Newest first, by time and number."""

    problem: int | None = None
    task: str | None = None
    """Of the problems of tasks with this name, removed ones too."""
    contact: str | None = None
    since: Instant | None = None
    """At this time or later ..."""
    until: Instant | None = None
    """... and before this one."""
    before: tuple[int, int] | None = None
    """Before the decision with this time and number, for the next page."""
    most: int = 100


ALL_DECISIONS: Final = AlertDecisionFilter()


class MessageFilter(Struct, frozen=True):
    """Selects messages: those that meet all the conditions given. Newest first, by id."""

    channel: str | None = None
    contact: str | None = None
    state: str | None = None
    """waiting, delivered, given up."""
    ids: tuple[int, ...] = ()
    """Only these; empty for all."""
    since: Instant | None = None
    """Created at this time or later."""
    before: int | None = None
    """Only smaller ids, for the next page."""
    most: int = 100


ALL_MESSAGES: Final = MessageFilter()
