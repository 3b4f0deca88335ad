"""Do documents fit together, and with what is there already? Also: what in them works but deserves a second look.

One validation for every path: `check-config`, `up`, `apply`, `reload`, the API and Python report the same findings.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from evenbeat.load.config import NODE_DURATIONS, NOTHING_TO_RUN, Config, NodeSettings, Place, Problem, Source
from evenbeat.load.one_off import past_at
from evenbeat.load.safe_text import name_problem, text_problem
from evenbeat.model import HIDDEN, Days, Instant, Invalid, Period, Task
from evenbeat.when.cron_entry import parse_entry
from evenbeat.when.duration import format_duration
from evenbeat.when.lint import lint
from evenbeat.when.nearest import listed
from evenbeat.when.period import compile_periods

SHOWN: Final = 100
"""More findings than this are counted, not listed: the first ones explain them."""
Path = tuple[str, ...]
_NAME: Final = ("name",)
_IS_HIDDEN: Final = (
    f"{HIDDEN} stands for a value that only the role admin reads: give the value itself, or say where it is "
    "(env:NAME, file:PATH)"
)


class Finding(NamedTuple):
    """Something that does not fit."""

    owner: str
    """Whose document it is in: a file, or the owner of the tasks."""
    path: Path
    """Where in it, such as ("tasks", "report", "limit")."""
    message: str
    is_conflict: bool = False
    """It would be right by itself, but another owner says otherwise."""


class Known(NamedTuple):
    """What is there beside the documents in question."""

    periods: Mapping[str, tuple[str, Period]] = {}
    limits: Mapping[str, tuple[str, int]] = {}
    """Owner and definition by name."""
    node: Mapping[str, NodeSettings] = {}
    """What other owners say of the node."""
    names: Mapping[str, str] = {}
    """Owners of tasks, by those of their names that the documents use too."""


NOTHING: Final = Known()


def findings(configs: Mapping[str, Config], known: Known = NOTHING, *, must_run: bool = True) -> list[Finding]:
    """All that does not fit. Without `must_run` tasks need no command: for those who only want to see their times."""
    periods = {name: period for name, (_, period) in known.periods.items()}
    limits = {name: most for name, (_, most) in known.limits.items()}
    for config in configs.values():
        periods |= config.periods
        limits |= config.limits
    found = [*_texts(configs), *_names(configs, known.names), *_settings(configs, known)]
    for owner, config in configs.items():
        found += (
            # The name of a task is not a key in a file, but the header above its keys.
            Finding(owner, (_section(task), task.name, *(path if path != _NAME else ())), message)
            for task in config.tasks
            for path, message in misfits(task, periods, limits, must_run=must_run)
        )
    return found or list(_compiled(configs, periods))


def misfits(
    task: Task, periods: Mapping[str, Period], limits: Mapping[str, int], *, must_run: bool = True
) -> Iterator[tuple[Path, str]]:
    """What a task says that cannot be, or refers to and is not there: the key, and what is wrong with it."""
    yield from _unfit_texts(task)
    if task.period is not None and task.period not in periods:
        known = listed(sorted(periods), "none is defined")
        yield ("period",), f"there is no period {task.period!r}, known: {known}"
    if task.limit is not None and task.limit not in limits:
        known = listed(sorted(limits), "none is defined")
        yield ("limit",), f"there is no limit {task.limit!r}, known: {known}"
    if must_run and not task.job.command and task.job.function is None and not task.passive:
        yield (), NOTHING_TO_RUN


def _unfit_texts(task: Task) -> Iterator[tuple[Path, str]]:
    """Names, labels and values that cannot be shown or addressed as what they are."""
    if problem := name_problem(task.name):
        yield _NAME, f"the name: {problem}"
    for key, value in task.labels.items():
        if problem := text_problem(key) or text_problem(value):
            yield ("labels", key), problem
    if task.pool is not None and (problem := text_problem(task.pool)):
        yield ("pool",), problem
    for key, value in task.job.env.items():
        if problem := text_problem(key):
            yield ("env", key), problem
        if value == HIDDEN:
            yield ("env", key), _IS_HIDDEN


def _texts(configs: Mapping[str, Config]) -> Iterator[Finding]:
    """Names of owners, periods and limits."""
    for owner, config in configs.items():
        if not owner.startswith("file:") and (problem := text_problem(owner)):
            yield Finding(owner, (), f"the owner: {problem}")
        for section, names in (("periods", config.periods), ("limits", config.limits)):
            for name in names:
                if problem := name_problem(name):
                    yield Finding(owner, (section, name), f"the name: {problem}")


def _section(task: Task) -> str:
    return "checks" if task.check else "tasks"


def _names(configs: Mapping[str, Config], taken: Mapping[str, str]) -> Iterator[Finding]:
    owners = dict(taken)
    for owner, config in configs.items():
        for task in config.tasks:
            other = owners.get(task.name)
            if other is None:
                owners[task.name] = owner
            else:
                message = f"the name {task.name!r} is taken by a task of {_spoken(other)}; names are unique"
                yield Finding(owner, (_section(task), task.name), message, is_conflict=True)


def _settings(configs: Mapping[str, Config], known: Known) -> Iterator[Finding]:
    """Periods, limits and settings of the node of which two owners say different things."""
    said: dict[Path, tuple[str, object]] = {("periods", name): of for name, of in known.periods.items()}
    said |= {("limits", name): of for name, of in known.limits.items()}
    for owner, node in known.node.items():
        said |= {("node", key): (owner, value) for key, value in _said_of_node(node)}
    for owner, config in configs.items():
        sections: tuple[tuple[str, Iterable[tuple[str, object]]], ...] = (
            ("periods", config.periods.items()),
            ("limits", config.limits.items()),
            ("node", () if config.node is None else _said_of_node(config.node)),
        )
        for section, values in sections:
            for name, value in values:
                other, before = said.setdefault((section, name), (owner, value))
                if before != value:
                    message = f"{_shown(name, value)} here, {_shown(name, before)} in {_spoken(other)}"
                    if section == "periods":
                        message = f"{_spoken(other)} defines the period {name!r} differently"
                    yield Finding(owner, (section, name), message, is_conflict=True)


def _said_of_node(node: NodeSettings) -> list[tuple[str, object]]:
    return [(key, value) for key, value in msgspec.structs.asdict(node).items() if value is not None]


def _shown(key: str, value: object) -> str:
    return format_duration(value) if key in NODE_DURATIONS and isinstance(value, int) else str(value)


def _spoken(owner: str) -> str:
    return owner.removeprefix("file:")


def _compiled(configs: Mapping[str, Config], periods: dict[str, Period]) -> Iterator[Finding]:
    """Periods may include and exclude those of others."""
    try:
        compile_periods(periods)
    except Invalid as e:
        place = e.place.removeprefix("periods.")
        mine = ((owner, name) for owner, config in configs.items() for name in config.periods)
        owner, name = next((of for of in mine if place == of[1] or place.startswith(f"{of[1]}.")), ("", place))
        yield Finding(owner or next(iter(configs)), ("periods", name), str(e))


# In words


def problems_of(found: Sequence[Finding], source_of: Callable[[str], Source | None]) -> tuple[list[Problem], int]:
    """Findings with the lines and columns of files, as far as they can be told; and how many more there are."""
    problems: dict[Problem, None] = {}
    for finding in found[:SHOWN]:
        source = source_of(finding.owner)
        dotted = ".".join(finding.path)
        if source is None:
            problems[Problem(_spoken(finding.owner), None, f"{dotted}: {finding.message}")] = None
            continue
        path = ("tasks", *finding.path[1:]) if finding.path[:1] == ("checks",) else finding.path
        place = source.place_of(path, None)
        # A template says it for all that use it, at one place.
        is_of_task = place is not None and path[:1] == ("tasks",)
        problems[Problem(source.file, place, finding.message if is_of_task else f"{dotted}: {finding.message}")] = None
    in_order = sorted(problems, key=lambda problem: (problem.file, problem.place or Place(0, 0)))
    return in_order, max(len(found) - SHOWN, 0)


def warnings(source: Source, now: Instant | None = None) -> list[Problem]:
    """What works but piles up load or surprises its owner, each once; `now` tells which times have passed."""
    found = dict.fromkeys(source.warnings)
    for task in source.config.tasks:
        if task.schedule.cron is not None:
            for warning in _lint(task.schedule.cron, task.schedule.days):
                place = source.place_of(("tasks", task.name, "cron"), 1)
                found[Problem(source.file, place, warning)] = None
        if now is not None and task.schedule.at is not None and (passed := past_at(task, now)):
            found[Problem(source.file, source.place_of(("tasks", task.name, "at"), None), passed)] = None
    return list(found)


@lru_cache(maxsize=4096)
def _lint(text: str, days: Days) -> list[str]:
    return lint(parse_entry(text), days)
