"""The status of a node, its identity and its worker processes, as documents."""

from msgspec import Struct

from evenbeat.model import Instant


class Lateness(Struct):
    """How late the latest runs started: seconds after they were due."""

    p50: float
    p99: float
    max: float


class WorkerProcess(Struct, frozen=True):
    """A worker process of a node."""

    pid: int
    kind: str
    """What it runs: commands, functions, async functions."""


class NodeIdentity(Struct, frozen=True):
    """Which node answers."""

    id: str
    """A random word of this start, as in its event stream."""
    pid: int
    started: Instant
    version: str
    workers: list[WorkerProcess]
    database: str


class LimitStatus(Struct):
    """A limit: the maximum of runs at the same time, the number of running ones, and where the maximum is set."""

    most: int
    running: int
    source: str


class LayerStatus(Struct, frozen=True):
    """A layer of the history."""

    rows: int
    bytes: int
    bytes_per_row: float


class HistoryStatus(Struct, frozen=True):
    """The size of the database, in bytes, and what becomes of it."""

    size: int
    """All of it, free pages included."""
    free: int
    """Free pages within it."""
    growth_per_day: int
    in_30_days: int
    """When this timetable has run for 30 days with this retention."""
    forecast: int
    """When every layer is as old as retention lets it become; the last are the summaries of days, after 400 days."""
    disk_free: int | None
    """Of the disk of the database; None if that is not of this machine."""
    keep_runs: float
    """Seconds for which every run is kept."""
    keep: float
    """Seconds for which failures, changes of state, forced runs and summaries of hours are kept."""
    layers: dict[str, LayerStatus]
    """recent and runs: every run; kept: of older ones, some; hours and days: summaries."""


class Status(Struct):
    """A node at a glance."""

    tasks: int
    idle: int
    pending: int
    slots: int
    waiting: int
    """Due, and held back by slots or limits."""
    late: int
    """Due for more than a second."""
    stale: int
    """Their result should have been there by now."""
    disabled: int
    states: dict[str, int]
    """Checks by state; those without any result yet are `unchecked`."""
    runs: int
    outcomes: dict[str, int]
    skipped: dict[str, int]
    runs_per_second: float
    lateness: Lateness
    uptime: float
    generation: int
    store: str
    """"ok", or why it cannot take anything."""
    late_by: dict[str, int] = {}
    """The late tasks, by how late they are."""
    first_runs_to_come: int = 0
    """New checks that wait for their first run, on the planned slope; late ones are not among them."""
    catch_ups_to_come: int = 0
    """Tasks that wait for a run that makes up for missed ones."""
    to_come_until: str | None = None
    """When the last first or catch-up run is planned; None without any."""
    problems: list[str] = []
    """What keeps the node from executing or recording anything: a failing store, an unreachable queue, no process."""
    executes: bool = True
    """False if it was started without workers: then it only schedules, takes results and shows."""
    slots_source: str = ""
    """Where the number of slots is set: default, command line, a file, or "set by" a person."""
    limits: dict[str, LimitStatus] = {}
    files: str = "ok"
    """"ok", or why the node's files could not be applied; then their last applied version is in force."""
    messages_waiting: int = 0
    """Messages to contacts that have left and not arrived."""
    messages_waiting_since: str | None = None
    """Since when the oldest of them has; None if there is none."""
    failing_contacts: list[str] = []
    """Contacts with a place whose latest delivery failed."""
    history: HistoryStatus | None = None
    """The size of the database; None until it is measured, and of a store that keeps no layers."""
