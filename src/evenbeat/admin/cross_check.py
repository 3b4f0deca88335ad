"""Do tasks, periods and limits fit to what a store has? What a task refers to must be there, and stay as long as one
does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from evenbeat.core.references import blocked_removals
from evenbeat.load.config import BadFileError, Config, NodeSettings, ParsedFile
from evenbeat.load.cross_check import (
    ExistingDefinitions,
    ValidationFinding,
    config_errors_of,
    validate_configs,
    validate_task,
)
from evenbeat.model import Entry, Invalid, Period, Task
from evenbeat.store.contract import Conflict, Store

LIMITS_PREFIX: Final = "limits:"
NODE_PREFIX: Final = "node:"
"""Prefixes of settings of the store, before an owner: its limits, and its settings of the node."""


def limits_by_owner(store: Store) -> dict[str, dict[str, int]]:
    """Limits by owner and name."""
    found = store.settings(LIMITS_PREFIX)
    return {
        key.removeprefix(LIMITS_PREFIX): msgspec.json.decode(found[key], type=dict[str, int]) for key in sorted(found)
    }


def node_settings_by_owner(store: Store) -> dict[str, NodeSettings]:
    """Settings of the node by owner."""
    found = store.settings(NODE_PREFIX)
    return {key.removeprefix(NODE_PREFIX): msgspec.json.decode(found[key], type=NodeSettings) for key in sorted(found)}


def known_of_other_owners(store: Store, configs: Mapping[str, Config], new: Collection[str]) -> ExistingDefinitions:
    """What the store has of all other owners; `new` are names that the given owners do not have yet."""
    periods = {name: of for name, of in store.periods().items() if of[0] not in configs}
    others = {owner: limits for owner, limits in limits_by_owner(store).items() if owner not in configs}
    limits = {name: (owner, most) for owner, declared in others.items() for name, most in declared.items()}
    node = {owner: settings for owner, settings in node_settings_by_owner(store).items() if owner not in configs}
    entries = store.entries() if new else ()
    taken = {entry.task.name: entry.owner for entry in entries if entry.owner not in configs and entry.task.name in new}
    return ExistingDefinitions(periods, limits, node, taken)


def check_references(tasks: Sequence[Task], periods: Mapping[str, Period], limits: Mapping[str, int]) -> None:
    """Raise one Invalid for all missing periods and limits, and for tasks with nothing to run."""
    found = [
        (".".join((task.name, *path) if len(tasks) > 1 else path), message)
        for task in tasks
        for path, message in validate_task(task, periods, limits)
    ]
    if len(found) == 1:
        raise Invalid(found[0][1], place=found[0][0])
    if found:
        raise Invalid("\n".join(f"{place}: {message}" if place else message for place, message in found))


def check_configs(
    store: Store,
    configs: Mapping[str, Config],
    new: Collection[str],
    source_of: Callable[[str], ParsedFile | None],
) -> None:
    """Raise all that is wrong with what these owners declare, with lines of files: also what must stay because others
    use it. `new`: names that these owners do not have yet; `source_of`: the file of an owner.
    """
    known = known_of_other_owners(store, configs, new)
    found = validate_configs(configs, known)
    periods, limits = store.periods(), limits_by_owner(store)
    gone_periods = periods.keys() - known.periods.keys()
    gone_limits = {name for declared in limits.values() for name in declared} - known.limits.keys()
    for config in configs.values():
        gone_periods -= config.periods.keys()
        gone_limits -= config.limits.keys()
    if gone_periods or gone_limits:
        others = (entry for entry in store.entries() if entry.owner not in configs)
        for section, name, message in blocked_removals(others, gone_periods, gone_limits):
            by_limit = (owner for owner in configs if name in limits.get(owner, {}))
            owner = periods[name][0] if section == "periods" else next(by_limit)
            found.append(ValidationFinding(owner, (section, name), message, is_conflict=True))
    if found:
        raise refusal_of_findings(found, source_of)


def check_unused(entries: Iterable[Entry], periods: set[str], limits: set[str]) -> None:
    """Raise Conflict if one of these tasks uses a period or limit that is being removed."""
    for blocked in blocked_removals(entries, periods, limits):
        raise Conflict(blocked.message)


def refusal_of_findings(found: Sequence[ValidationFinding], source_of: Callable[[str], ParsedFile | None]) -> Invalid:
    """One error for all findings: a Conflict if the documents are valid in themselves and only contradict the store."""
    try:
        text = str(BadFileError(*config_errors_of(found, source_of)))
    except (BadFileError, OSError):  # the file has become unreadable
        text = str(BadFileError(*config_errors_of(found, lambda _: None)))
    return Conflict(text) if all(finding.is_conflict for finding in found) else Invalid(text)
