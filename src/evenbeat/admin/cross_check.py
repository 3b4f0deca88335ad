"""Do tasks, periods and limits fit to what a store has? What a task refers to must be there, and stay as long as one
does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from evenbeat.core.references import blocked_removals
from evenbeat.load.config import BadFileError, Config, NodeSettings, ParsedFile
from evenbeat.load.cross_check import ExistingDefinitions, ValidationFinding, config_errors_of, validate_task
from evenbeat.model import Entry, Invalid, Period, Task
from evenbeat.store.contract import Conflict, Store

LIMITS_PREFIX: Final = "limits:"
NODE_PREFIX: Final = "node:"
"""Settings of the store: before an owner, what it says of limits and of the node."""


def limits_by_owner(store: Store) -> dict[str, dict[str, int]]:
    """Limits by owner and name."""
    found = store.settings(LIMITS_PREFIX)
    return {
        key.removeprefix(LIMITS_PREFIX): msgspec.json.decode(found[key], type=dict[str, int]) for key in sorted(found)
    }


def node_settings_by_owner(store: Store) -> dict[str, NodeSettings]:
    """What owners say of the node."""
    found = store.settings(NODE_PREFIX)
    return {key.removeprefix(NODE_PREFIX): msgspec.json.decode(found[key], type=NodeSettings) for key in sorted(found)}


def known_of_other_owners(store: Store, configs: Mapping[str, Config], new: Collection[str]) -> ExistingDefinitions:
    """What a store has of all owners but these; `new` are the names that they do not have yet."""
    periods = {name: of for name, of in store.periods().items() if of[0] not in configs}
    others = {owner: limits for owner, limits in limits_by_owner(store).items() if owner not in configs}
    limits = {name: (owner, most) for owner, some in others.items() for name, most in some.items()}
    node = {owner: said for owner, said in node_settings_by_owner(store).items() if owner not in configs}
    entries = store.entries() if new else ()
    taken = {entry.task.name: entry.owner for entry in entries if entry.owner not in configs and entry.task.name in new}
    return ExistingDefinitions(periods, limits, node, taken)


def check_references(tasks: Sequence[Task], periods: Mapping[str, Period], limits: Mapping[str, int]) -> None:
    """Raise Invalid, naming all of it, for periods and limits that there are not, and for tasks with nothing to run."""
    found = [
        (".".join((task.name, *path) if len(tasks) > 1 else path), message)
        for task in tasks
        for path, message in validate_task(task, periods, limits)
    ]
    if len(found) == 1:
        raise Invalid(found[0][1], place=found[0][0])
    if found:
        raise Invalid("\n".join(f"{place}: {message}" if place else message for place, message in found))


def check_unused(entries: Iterable[Entry], periods: set[str], limits: set[str]) -> None:
    """Raise Conflict if one of these tasks uses a period or a limit that is about to go."""
    for blocked in blocked_removals(entries, periods, limits):
        raise Conflict(blocked.message)


def refusal_of_findings(found: Sequence[ValidationFinding], source_of: Callable[[str], ParsedFile | None]) -> Invalid:
    """All findings as one refusal: a Conflict if only what is there speaks against the documents."""
    try:
        text = str(BadFileError(*config_errors_of(found, source_of)))
    except (BadFileError, OSError):  # a file that can be read no longer
        text = str(BadFileError(*config_errors_of(found, lambda _: None)))
    return Conflict(text) if all(finding.is_conflict for finding in found) else Invalid(text)
