"""Do documents fit together, and with what is there already? Also: what in them works but deserves a second look.

One validation for every path: `check-config`, `up`, `apply`, `reload`, the API and Python report the same findings.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from evenbeat.core.chain_rules import chain_definition_errors, chain_errors
from evenbeat.core.dependencies import definition_errors, dependency_errors
from evenbeat.core.references import ReferencePath, SharedNames, missing_contacts, missing_periods, missing_references
from evenbeat.core.task_graph import NoOtherTasks, OtherTasks
from evenbeat.load.config import (
    DEFAULT_KEEP,
    NODE_DURATIONS,
    NOTHING_TO_RUN,
    Config,
    ConfigError,
    FilePosition,
    NodeSettings,
    ParsedFile,
)
from evenbeat.load.contacts import contact_errors, node_url_errors
from evenbeat.load.downtimes import downtime_errors, patterns_error
from evenbeat.load.one_off import past_at_error
from evenbeat.load.safe_text import name_error, text_error
from evenbeat.model import HIDDEN_VALUE, Contact, Days, Instant, Invalid, Period, Task, WhenUnreachable
from evenbeat.when.cron_entry import parse_cron_entry
from evenbeat.when.duration import format_duration
from evenbeat.when.lint import cron_warnings
from evenbeat.when.period import compile_periods

MAX_FINDINGS_SHOWN: Final = 100
"""Findings beyond this number are counted, not listed: the first ones explain them."""
FindingPath = ReferencePath
_NAME: Final = ("name",)
_RUN: Final = WhenUnreachable.RUN
_HIDDEN_VALUE: Final = (
    f"{HIDDEN_VALUE} stands for a value that only the role admin reads: give the value itself, or say where it is "
    "(env:NAME, file:PATH)"
)


class ValidationFinding(NamedTuple):
    """A conflict between documents, or with the store."""

    owner: str
    """The document it is in: a file, or the owner of the tasks."""
    path: FindingPath
    """The path in the document, such as ("tasks", "report", "limit")."""
    message: str
    is_conflict: bool = False
    """The document is valid in itself, but contradicts another owner."""


class ExistingDefinitions(NamedTuple):
    """What the store has beside the documents in question."""

    periods: Mapping[str, tuple[str, Period]] = {}
    limits: Mapping[str, tuple[str, int]] = {}
    """Owner and definition by name."""
    node: Mapping[str, NodeSettings] = {}
    """Node settings of other owners."""
    contacts: Mapping[str, tuple[str, Contact]] = {}
    names: Mapping[str, str] = {}
    """Owners of tasks, by those of their names that the documents use too."""
    tasks: OtherTasks = NoOtherTasks()
    """Tasks that the documents do not define: some of theirs may depend on them, or follow them."""


NOTHING_EXISTS: Final = ExistingDefinitions()


def validate_configs(
    configs: Mapping[str, Config], known: ExistingDefinitions = NOTHING_EXISTS, *, must_run: bool = True
) -> list[ValidationFinding]:
    """All conflicts. Without `must_run` tasks need no command, for callers that only compute times."""
    periods = {name: period for name, (_, period) in known.periods.items()}
    limits = {name: most for name, (_, most) in known.limits.items()}
    contacts = set(known.contacts)
    for config in configs.values():
        periods |= config.periods
        limits |= config.limits
        contacts |= config.contacts.keys()
    names = SharedNames(periods, limits, contacts)
    found = [*_invalid_texts(configs), *_duplicate_names(configs, known.names), *_conflicting_settings(configs, known)]
    for owner, config in configs.items():
        found += (
            # The name of a task is not a key in a file, but the header above its keys.
            ValidationFinding(owner, (_section(task), task.name, *(path if path != _NAME else ())), message)
            for task in config.tasks
            if not _is_plain(task)
            for path, message in validate_task(task, names, must_run=must_run)
        )
        found += _invalid_contacts(owner, config, names)
        found += _invalid_downtimes(owner, config, names)
    found += _invalid_retention(configs, known)
    found += _wrong_dependencies(configs, known.tasks)
    return found or list(_invalid_periods(configs, periods))


def validate_task(task: Task, known: SharedNames, *, must_run: bool = True) -> Iterator[tuple[FindingPath, str]]:
    """Impossible values of a task and references to missing things: the key, and what is wrong with it."""
    yield from _invalid_task_texts(task)
    yield from missing_references(task, known)
    for key, message in (*definition_errors(task), *chain_definition_errors(task)):
        yield (key,), message
    if must_run and not task.job.command and task.job.function is None and not task.passive:
        yield (), NOTHING_TO_RUN


def _is_plain(task: Task) -> bool:
    """A quick test that nearly all of a million tasks pass: `validate_task` finds nothing."""
    name, labels = task.name, task.labels
    return (
        name.isprintable()
        and name[:1] not in (" ", ".")
        and name[-1:] != " "
        and task.period is None
        and task.limit is None
        and task.pool is None
        and not task.notify
        and not task.depends
        and not task.depends_any
        and task.when_unreachable is _RUN
        and not task.schedule.after
        and not task.schedule.after_failure
        and bool(task.job.command)
        and not task.job.env
        and (not labels or "".join((*labels, *labels.values())).isprintable())
    )


def _invalid_task_texts(task: Task) -> Iterator[tuple[FindingPath, str]]:
    """Names, labels and values that cannot be displayed or used in an address unambiguously."""
    if problem := name_error(task.name):
        yield _NAME, f"the name: {problem}"
    for key, value in task.labels.items():
        if problem := text_error(key) or text_error(value):
            yield ("labels", key), problem
    if task.pool is not None and (problem := text_error(task.pool)):
        yield ("pool",), problem
    for key, value in task.job.env.items():
        if problem := text_error(key):
            yield ("env", key), problem
        if value == HIDDEN_VALUE:
            yield ("env", key), _HIDDEN_VALUE


def _invalid_contacts(owner: str, config: Config, known: SharedNames) -> Iterator[ValidationFinding]:
    """Impossible values of contacts, and references of contacts and of [node] to missing things."""
    for name, contact in config.contacts.items():
        for path, message in (*contact_errors(contact), *missing_periods(contact, known.periods)):
            yield ValidationFinding(owner, ("contacts", name, *path), message)
    if config.node is not None:
        for path, message in missing_contacts(config.node.notify or (), known.contacts):
            yield ValidationFinding(owner, ("node", *path), message)
        for key, message in node_url_errors(config.node):
            yield ValidationFinding(owner, ("node", key), message)


def _invalid_retention(configs: Mapping[str, Config], known: ExistingDefinitions) -> Iterator[ValidationFinding]:
    """Every run is kept for longer than what is kept for longer: another owner may say one of the two."""
    declared = {owner: config.node for owner, config in configs.items() if config.node is not None}
    everything = [*known.node.values(), *declared.values()]
    keep = next((node.keep for node in everything if node.keep is not None), DEFAULT_KEEP)
    keep_runs = next((node.keep_runs for node in everything if node.keep_runs is not None), None)
    if keep_runs is None or keep_runs <= keep:
        return
    what = f"`keep_runs` ({format_duration(keep_runs)}) is longer than `keep` ({format_duration(keep)})"
    for owner, node in declared.items():
        key = "keep_runs" if node.keep_runs is not None else "keep"
        if node.keep_runs is not None or node.keep is not None:
            yield ValidationFinding(owner, ("node", key), f"{what}, accepted: at most as long; give `keep` more, too")
            return


def _invalid_downtimes(owner: str, config: Config, known: SharedNames) -> Iterator[ValidationFinding]:
    """Texts of downtimes that cannot be displayed, and references to missing periods."""
    if problem := patterns_error(config.downtimes):
        yield ValidationFinding(owner, ("downtimes",), problem)
    for i, downtime in enumerate(config.downtimes):
        for path, message in (*downtime_errors(downtime), *missing_periods(downtime, known.periods)):
            yield ValidationFinding(owner, ("downtimes", i, *path), message)


def _invalid_texts(configs: Mapping[str, Config]) -> Iterator[ValidationFinding]:
    """Names of owners, periods, limits and contacts."""
    for owner, config in configs.items():
        if not owner.startswith("file:") and (problem := text_error(owner)):
            yield ValidationFinding(owner, (), f"the owner: {problem}")
        sections: tuple[tuple[str, Iterable[str]], ...] = (
            ("periods", config.periods),
            ("limits", config.limits),
            ("contacts", config.contacts),
        )
        for section, names in sections:
            for name in names:
                if problem := name_error(name):
                    yield ValidationFinding(owner, (section, name), f"the name: {problem}")


def _wrong_dependencies(configs: Mapping[str, Config], others: OtherTasks) -> Iterator[ValidationFinding]:
    """Parents that do not exist or are of the wrong kind, and circles, across all documents."""
    tasks = [task for config in configs.values() for task in config.tasks]
    errors = [*dependency_errors(tasks, others), *chain_errors(tasks, others)]
    wrong = {error.task for error in errors}
    places = {
        task.name: (owner, _section(task))
        for owner, config in configs.items()
        for task in config.tasks
        if task.name in wrong
    }
    for error in errors:
        owner, section = places[error.task]
        yield ValidationFinding(owner, (section, error.task, error.key), error.message)


def _section(task: Task) -> str:
    return "checks" if task.check else "tasks"


def _duplicate_names(configs: Mapping[str, Config], taken: Mapping[str, str]) -> Iterator[ValidationFinding]:
    if not taken and len(configs) == 1:
        ((_, only),) = configs.items()
        if len({task.name for task in only.tasks}) == len(only.tasks):
            return
    owners = dict(taken)
    for owner, config in configs.items():
        for task in config.tasks:
            other = owners.get(task.name)
            if other is None:
                owners[task.name] = owner
            else:
                message = f"the name {task.name!r} is taken by a task of {_owner_text(other)}; names are unique"
                if task.name in config.names_from_commands:
                    message += ": a line `# name: ...` above this one gives it another"
                yield ValidationFinding(owner, (_section(task), task.name), message, is_conflict=True)


def _conflicting_settings(configs: Mapping[str, Config], known: ExistingDefinitions) -> Iterator[ValidationFinding]:
    """Periods, limits, contacts and node settings that two owners define differently."""
    defined: dict[FindingPath, tuple[str, object]] = {("periods", name): of for name, of in known.periods.items()}
    defined |= {("limits", name): of for name, of in known.limits.items()}
    defined |= {("contacts", name): of for name, of in known.contacts.items()}
    for owner, node in known.node.items():
        defined |= {("node", key): (owner, value) for key, value in _node_values(node)}
    for owner, config in configs.items():
        sections: tuple[tuple[str, Iterable[tuple[str, object]]], ...] = (
            ("periods", config.periods.items()),
            ("limits", config.limits.items()),
            ("contacts", config.contacts.items()),
            ("node", () if config.node is None else _node_values(config.node)),
        )
        for section, values in sections:
            for name, value in values:
                other, before = defined.setdefault((section, name), (owner, value))
                if before != value:
                    message = f"{_shown(name, value)} here, {_shown(name, before)} in {_owner_text(other)}"
                    if section in ("periods", "contacts"):  # of a contact, without its secrets
                        message = f"{_owner_text(other)} defines the {section[:-1]} {name!r} differently"
                    elif section == "node" and name in ("notify", "ping"):
                        message = f"{_owner_text(other)} has another `{name}`"
                    yield ValidationFinding(owner, (section, name), message, is_conflict=True)


def _node_values(node: NodeSettings) -> list[tuple[str, object]]:
    return [(key, value) for key, value in msgspec.structs.asdict(node).items() if value is not None]


def _shown(key: str, value: object) -> str:
    return format_duration(value) if key in NODE_DURATIONS and isinstance(value, int) else str(value)


def _owner_text(owner: str) -> str:
    return owner.removeprefix("file:")


def _invalid_periods(configs: Mapping[str, Config], periods: dict[str, Period]) -> Iterator[ValidationFinding]:
    """Check the periods that periods include and exclude, which may belong to other owners."""
    try:
        compile_periods(periods)
    except Invalid as e:
        place = e.place.removeprefix("periods.")
        mine = ((owner, name) for owner, config in configs.items() for name in config.periods)
        owner, name = next((of for of in mine if place == of[1] or place.startswith(f"{of[1]}.")), ("", place))
        yield ValidationFinding(owner or next(iter(configs)), ("periods", name), str(e))


# In words


def config_errors_of(
    found: Sequence[ValidationFinding], source_of: Callable[[str], ParsedFile | None]
) -> tuple[list[ConfigError], int]:
    """Findings with lines and columns of files where known, and the number of those not listed. `source_of` is asked
    once for each owner, as it may read a large file.
    """
    errors: dict[ConfigError, None] = {}
    sources: dict[str, ParsedFile | None] = {}
    for finding in found[:MAX_FINDINGS_SHOWN]:
        if finding.owner not in sources:
            sources[finding.owner] = source_of(finding.owner)
        source = sources[finding.owner]
        dotted = ".".join(map(str, finding.path))
        if source is None:
            errors[ConfigError(_owner_text(finding.owner), None, f"{dotted}: {finding.message}")] = None
            continue
        path = ("tasks", *finding.path[1:]) if finding.path[:1] == ("checks",) else finding.path
        place = source.place_of(path, None)
        # An error in a template is reported once, not for each task that uses it.
        is_of_task = place is not None and path[:1] == ("tasks",)
        errors[ConfigError(source.file, place, finding.message if is_of_task else f"{dotted}: {finding.message}")] = (
            None
        )
    in_order = sorted(errors, key=lambda error: (error.file, error.place or FilePosition(0, 0)))
    return in_order, max(len(found) - MAX_FINDINGS_SHOWN, 0)


def config_warnings(source: ParsedFile, now: Instant | None = None) -> list[ConfigError]:
    """Warnings about tasks that pile up load or may surprise their owner, each once; `now` decides what has passed."""
    found = dict.fromkeys(source.warnings)
    for task in source.config.tasks:
        if task.schedule.cron is not None:
            for warning in _lint(task.schedule.cron, task.schedule.days):
                place = source.place_of(("tasks", task.name, "cron"), 1)
                found[ConfigError(source.file, place, warning)] = None
        if now is not None and task.schedule.at is not None and (passed := past_at_error(task, now)):
            found[ConfigError(source.file, source.place_of(("tasks", task.name, "at"), None), passed)] = None
    return list(found)


@lru_cache(maxsize=4096)
def _lint(text: str, days: Days) -> list[str]:
    return cron_warnings(parse_cron_entry(text), days)
