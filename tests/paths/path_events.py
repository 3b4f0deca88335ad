"""What can happen to a scheduler and its tasks, and the detours by which the same can be done."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from hypothesis import strategies as st
from path_world import LIMIT, PERIOD, T0, Behaviour, World

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.model import SECOND, Instant, Period
from evenbeat.store.contract import Filter
from evenbeat.when.instant import format_instant, parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.replies import ChangeResult

Keys = dict[str, Any]
SCHEDULE = ("every", "phase", "cron", "second", "zone", "calendar", "at")


# What happens


class Pass(NamedTuple):
    """Time passes."""

    seconds: int


class Edit(NamedTuple):
    """A task gets other keys; None takes one away. `start_at` and `at` are in seconds from now."""

    task: str
    keys: Keys


class Pause(NamedTuple):
    task: str
    paused: bool


class Hours(NamedTuple):
    """The period that tasks may have is another one from now on."""

    ranges: tuple[str, ...]


class Force(NamedTuple):
    task: str


class Behave(NamedTuple):
    """Runs of a task end so from now on; without a length they last until `End`."""

    task: str
    status: int | tuple[int, ...]
    """Several: in turn."""
    lasts: int | None


class End(NamedTuple):
    task: str


class StopRun(NamedTuple):
    """By a person."""

    task: str


class Stop(NamedTuple):
    """In order."""


class Kill(NamedTuple):
    """By force; perhaps in the middle of a turn."""

    in_turn: bool


class Start(NamedTuple):
    pass


class Remove(NamedTuple):
    """The task goes, by hand or with its file."""

    task: str
    in_file: bool


class Return(NamedTuple):
    """The task comes back in its file."""

    task: str


class Become(NamedTuple):
    """The task becomes a check, or is none any more."""

    task: str


Event = Pass | Edit | Pause | Hours | Force | Behave | End | StopRun | Stop | Kill | Start | Remove | Return | Become


# By which way


class Way(StrEnum):
    """How a change is made. All ways lead to the same timetable."""

    BY_HAND = "by hand"
    """By the live node, or on the database of one that is stopped."""
    FILE = "in a file"
    RESTART = "while stopped"
    """The node is stopped, the change is made on its database, and the node is started, all in the same instant. If it
    was stopped anyway: it is started for the change alone."""
    FILE_RESTART = "in a file, before a restart"
    ELSEWHERE = "through another node"
    KILLED = "killed before it knew"
    """The change is in the store, the live node is killed before it has heard of it."""


class Detour(StrEnum):
    """What may happen before an event without a difference to the timetable."""

    NONE = "-"
    RESTART = "restart"
    KILL = "kill and start"
    KILL_IN_TURN = "kill in a turn and start"
    HAND_OVER = "hand over to another node"
    MOVE = "move to the other file"
    APPLY = "apply the same files again"


class Step(NamedTuple):
    event: Event
    way: Way = Way.BY_HAND
    detour: Detour = Detour.NONE


def play(world: World, step: Step, *, straight: bool = False) -> None:
    """Do it; straight ahead, or by the way and the detour that the step says."""
    way, detour = (Way.BY_HAND, Detour.NONE) if straight else (step.way, step.detour)
    take(world, detour)
    match step.event:
        case Edit(name) | Pause(name) | Force(name) | Remove(name) | Become(name) if name in world.gone:
            pass
        case Edit() | Pause() | Hours() | Remove() | Return() | Become():
            change(world, step.event, way)
        case Pass(seconds):
            world.pass_time(seconds * SECOND)
        case Force(name):
            world.force(name)
        case Behave(name, status, lasts):
            world.behaviours[name] = Behaviour(status, None if lasts is None else lasts * SECOND)
        case End(name):
            world.end(name)
        case StopRun(name):
            world.stop_run(name)
        case Stop():
            world.stop()
        case Kill(in_turn):
            (world.kill_during_turn if in_turn else world.kill)()
        case Start():
            world.start()
    world.note()


def change(world: World, event: Event, way: Way) -> None:
    """Change something about tasks or their period."""
    match event:
        case Edit(name, keys):
            edit_keys(world, name, keys)
            make_change(world, way, lambda admin: admin.set(name, world.task(name), "ana"))
        case Pause(name, paused):
            (world.paused.add if paused else world.paused.discard)(name)
            way = {Way.FILE: Way.BY_HAND, Way.FILE_RESTART: Way.RESTART}.get(way, way)
            make_change(world, way, lambda admin: admin.pause(Filter(names=(name,)), "ana", paused=paused))
        case Hours(ranges):
            world.period = Period(ranges=ranges)
            make_change(world, way, lambda admin: admin.set_periods({PERIOD: world.period}, "file:one", "ana"))
        case Remove(name, in_file):
            world.gone.add(name)
            way = Way.FILE if in_file else way
            make_change(world, way, lambda admin: admin.remove(Filter(names=(name,)), "ana"))
        case Become(name):
            world.checks ^= {name}
            make_change(world, way, lambda admin: admin.set(name, world.task(name), "ana"))
        case Return(name):
            world.gone.discard(name)
            world.apply()


def edit_keys(world: World, name: str, keys: Keys) -> None:
    before = world.keys[name]
    if keys.keys() & {"every", "cron", "at"}:
        before = {key: value for key, value in before.items() if key not in SCHEDULE}
    for key in ("start_at", "at"):
        if keys.get(key) is not None:
            keys = keys | {key: format_instant(Instant(world.now + round(keys[key] * SECOND)), zone("UTC"))}
    after = {key: value for key, value in {**before, **keys}.items() if value is not None}
    if "at" in after:
        after.pop("backlog", None)  # it would have no effect, and is refused
    world.keys[name] = after


def make_change(world: World, way: Way, by_hand: Callable[[TaskAdmin], ChangeResult]) -> None:
    """By this way, if it is open."""
    is_up = world.is_up
    if way in (Way.RESTART, Way.FILE_RESTART, Way.KILLED) and not world.is_idle:
        way = Way.FILE if way is Way.FILE_RESTART else Way.BY_HAND
    if way is Way.ELSEWHERE and not is_up:
        way = Way.BY_HAND

    def do() -> None:
        if way in (Way.FILE, Way.FILE_RESTART):
            world.apply()
        else:
            by_hand(world.admin())
            world.learn()

    match way:
        case Way.BY_HAND | Way.FILE:
            do()
        case Way.RESTART | Way.FILE_RESTART if is_up:
            world.stop()
            do()
            world.start()
        case Way.RESTART | Way.FILE_RESTART:
            world.start(turn=False)
            world.no_turns = True
            do()
            world.no_turns = False
            world.stop()
        case Way.ELSEWHERE:
            world.elsewhere(by_hand)
        case Way.KILLED:
            by_hand(world.other_admin())
            if is_up:
                world.kill()
                world.start()


def take(world: World, detour: Detour) -> None:
    match detour:
        case Detour.RESTART if world.is_up and world.is_idle:
            world.stop()
            world.start()
        case Detour.KILL if world.is_up and world.is_idle:
            world.kill()
            world.start()
        case Detour.KILL_IN_TURN if world.is_up and world.is_idle:
            world.kill_during_turn()
            world.start()
        case Detour.HAND_OVER:
            world.hand_over()
        case Detour.MOVE:
            for name, file in world.file_of.items():
                world.file_of[name] = "file:two" if file == "file:one" else "file:one"
            world.apply()
        case Detour.APPLY:
            world.apply()


# Histories


def _seconds_before(text: str, length: int) -> int:
    """On a half second."""
    return parse_instant(text, zone("UTC")) - length * SECOND + SECOND // 2


TASKS = ("a", "b")
_EVERY = (3, 7, 10, 60, 300)
_PHASES = (0, 1, 2)
_CRON = ("* * * * *", "*/2 * * * *", "0,30 * * * *", "7 2 * * *", "31 5,8 * * *", "1,20 1,2 * * *")
_ZONES = ("UTC", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Jerusalem")
_BEGINS = (T0, T0, _seconds_before("2024-03-29T00:00:00+00:00", 60), _seconds_before("2024-10-26T23:00:00+00:00", 60))
"""Some histories begin a minute before the clocks of Jerusalem are set to summer time, or back."""
_HOURS: tuple[tuple[str, ...], ...] = (
    (),
    ("00:00-00:05", "02:00-23:00"),
    ("00:01-00:02", "00:04-00:10", "02:00-23:00"),
    ("00:00:20-00:00:40", "00:01:30-23:00"),
    ("00:10-24:00",),
)
"""Every cron entry has a time in each of them."""

intervals = st.builds(
    lambda e, p: {"every": f"{e}s", "phase": f"{p}s"}, st.sampled_from(_EVERY), st.sampled_from(_PHASES)
)
crons = st.builds(
    lambda c, s, z: {"cron": c, "second": s, "zone": z},
    st.sampled_from(_CRON),
    st.sampled_from((0, 5)),
    st.sampled_from(_ZONES),
)
once = st.sampled_from([{"at": seconds} for seconds in (4.5, 45.5, 400.5)])
schedules: st.SearchStrategy[Keys] = st.one_of(intervals, crons, intervals, crons, once)
others: st.SearchStrategy[Keys] = st.one_of(
    st.sampled_from([{"missed": how} for how in ("once", "skip", "all")]),
    st.sampled_from([{"period": PERIOD}, {"period": None}]),
    st.sampled_from([{"enabled": False}, {"enabled": None}]),
    st.sampled_from([{"backlog": "each"}, {"backlog": None}]),
    st.sampled_from([{"start_at": s} for s in (4.5, 30, 100.5)] + [{"start_at": None}]),
    st.sampled_from([{"limit": LIMIT}, {"limit": None}]),
    st.sampled_from([{"retry": "2s"}, {"retry": None}, {"attempts": 9}]),
)
names = st.sampled_from(TASKS)
edits = st.builds(Edit, names, schedules | others)
passes = st.builds(Pass, st.sampled_from((1, 2, 5, 13, 61, 200, 1_300)))
events: st.SearchStrategy[Event] = st.one_of(
    passes,
    edits,
    passes,
    edits,
    st.builds(Pause, names, st.booleans()),
    st.builds(Hours, st.sampled_from(_HOURS)),
    st.builds(Force, names),
    st.builds(Behave, names, st.sampled_from((0, 2)), st.sampled_from((0, 0, 4, None))),
    st.builds(End, names),
    st.just(Stop()),
    st.builds(Kill, st.booleans()),
    st.just(Start()),
)
steps = st.builds(Step, events, st.sampled_from(Way), st.sampled_from(Detour))
comings_and_goings = st.builds(
    Step,
    st.one_of(
        events,
        st.builds(Remove, names, st.booleans()),
        st.builds(Return, names),
        st.builds(Force, names),
        st.builds(Behave, names, st.just(0), st.just(None)),
    ),
    st.sampled_from(Way),
    st.sampled_from(Detour),
)
problem_steps = st.builds(
    Step,
    st.one_of(
        events,
        st.builds(Behave, names, st.sampled_from((0, 0, 1, 2, 3, (0, 2), (2, 0, 1))), st.just(0)),
        st.builds(Pass, st.sampled_from((5, 13, 61))),
        st.builds(Become, names),
        st.builds(Pass, st.sampled_from((5, 13, 61))),
        st.builds(Remove, names, st.booleans()),
        st.builds(Return, names),
    ),
    st.sampled_from(Way),
    st.sampled_from(Detour),
)
"""Runs fail more often than in other histories, and checks flap."""
first_keys = st.builds(lambda schedule, other: schedule | other, schedules, st.just({}) | others)


class Beginning(NamedTuple):
    """Tasks as they are at first, and which of them are checks."""

    keys: dict[str, Keys]
    checks: frozenset[str]
    hours: tuple[str, ...]
    at: int = T0


beginnings = st.builds(
    Beginning,
    st.fixed_dictionaries(dict.fromkeys(TASKS, first_keys)),
    st.frozensets(names),
    st.sampled_from(_HOURS),
    st.sampled_from(_BEGINS),
)


def begin(world: World, beginning: Beginning) -> None:
    """All tasks are in the first file; the node is up."""
    world.checks = set(beginning.checks)
    world.period = Period(ranges=beginning.hours)
    for name, keys in beginning.keys.items():
        world.keys[name] = {}
        world.file_of[name] = "file:one"
        edit_keys(world, name, keys)
    world.start()
    world.apply()
    world.note()
