"""Do tasks, periods, limits and contacts fit to what a store has? What is referred to must be there, and stay as long
as it is: also the checks that tasks depend on.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from evenbeat.admin.contacts import contacts_by_owner, contacts_with_owners
from evenbeat.admin.stored_downtimes import downtimes_in_force
from evenbeat.core.chain_rules import blocked_parents, chain_errors, lost_parents
from evenbeat.core.dependencies import blocked_losses, dependency_errors, lost_checks
from evenbeat.core.references import (
    OtherUser,
    SharedNames,
    blocked_removals,
    missing_periods,
    other_users,
    users_of_downtimes,
)
from evenbeat.core.scope import Scope
from evenbeat.core.task_graph import OtherTasks, beginning_of, names_near
from evenbeat.did_you_mean import MOST_COMPARED
from evenbeat.load.config import BadFileError, Config, NodeSettings, ParsedFile
from evenbeat.load.config_validation import (
    MAX_FINDINGS_SHOWN,
    ExistingDefinitions,
    FindingPath,
    ValidationFinding,
    config_errors_of,
    validate_configs,
    validate_task,
)
from evenbeat.load.contacts import contact_errors
from evenbeat.model import Contact, Entry, Instant, Invalid, Task
from evenbeat.store.common.filters import filters_for_names
from evenbeat.store.contract import Conflict, Filter, Store

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
    contacts = {name: of for name, of in contacts_with_owners(store).items() if of[0] not in configs}
    entries = store.entries() if new else ()
    taken = {entry.task.name: entry.owner for entry in entries if entry.owner not in configs and entry.task.name in new}
    unchanged = UnchangedTasks(store, without_owners=configs.keys())
    return ExistingDefinitions(periods, limits, node, contacts, taken, unchanged)


def shared_names(store: Store) -> SharedNames:
    """The names of all periods, limits and contacts of a store."""
    limits = {name for some in limits_by_owner(store).values() for name in some}
    return SharedNames(store.periods().keys(), limits, contacts_with_owners(store).keys())


class UnchangedTasks:
    """The tasks of a store that a change leaves as they are."""

    def __init__(
        self,
        store: Store,
        *,
        without_owners: Collection[str] = (),
        without_names: Collection[str] = (),
        scope: Scope | None = None,
    ) -> None:
        """All but those of these owners, and those with these names. To a caller with a `scope` only tasks within it
        are named.
        """
        self._store = store
        self._scope = scope
        self._without_owners = without_owners
        self._without_names = without_names

    def find(self, names: Collection[str]) -> Mapping[str, Task]:
        """The tasks with these names, of those that exist."""
        wanted = set(names).difference(self._without_names)
        found = (entry for only in filters_for_names(self._store, wanted) for entry in self._store.entries(only))
        return {
            entry.task.name: entry.task
            for entry in found
            if entry.task.name in wanted and entry.owner not in self._without_owners
        }

    def checks_near(self, name: str) -> Iterable[str]:
        """Names of checks that may have been meant."""
        return self._near(name, are_checks=True)

    def tasks_near(self, name: str) -> Iterable[str]:
        """Names of tasks that are no checks and may have been meant."""
        return self._near(name, are_checks=False)

    def _near(self, name: str, *, are_checks: bool) -> Iterable[str]:
        found = [
            entry.task.name
            for after in ("", beginning_of(name))
            for entry in self._store.entries(Filter(after=after, most=MOST_COMPARED // 2))
            if entry.task.check is are_checks and self._is_known(entry)
        ]
        return names_near(name, sorted(set(found)))

    def _is_known(self, entry: Entry) -> bool:
        is_left = entry.owner not in self._without_owners and entry.task.name not in self._without_names
        return is_left and (self._scope is None or self._scope.contains(entry.owner, entry.task.labels))

    def hidden(self, names: Collection[str]) -> set[str]:
        """Those of these names that a caller with this scope may not know."""
        if self._scope is None:
            return set()
        entries = [entry for name in names if (entry := self._store.find(name)) is not None]
        return {entry.task.name for entry in entries if not self._scope.contains(entry.owner, entry.task.labels)}


def task_errors(
    task: Task, before: Task | None, known: SharedNames, store: Store, scope: Scope | None = None
) -> list[tuple[FindingPath, str]]:
    """All that is wrong with a task, new or as it should be instead of `before`: the key, and what is wrong with it.

    A caller with a `scope` may let it depend on checks within that, and on those that it depends on already; and follow
    tasks in the same way.
    """
    others = UnchangedTasks(store, without_names=() if before is None else {before.name}, scope=scope)
    named = {*task.depends, *task.depends_any, *task.schedule.parents}
    if before is not None:
        named = named.difference(before.depends, before.depends_any, before.schedule.parents)
    hidden = others.hidden(named)
    found = list(validate_task(task, known))
    wrong = (*dependency_errors([task], others, hidden), *chain_errors([task], others, hidden))
    return found + [((error.key,), error.message) for error in wrong]


def check_references(tasks: Sequence[Task], known: SharedNames, others: OtherTasks) -> None:
    """Raise one Invalid for all that tasks name and does not exist, and for tasks with nothing to run. `others`: the
    tasks that stay as they are.
    """
    wrong = [(task.name, path, message) for task in tasks for path, message in validate_task(task, known)]
    errors = (*dependency_errors(tasks, others), *chain_errors(tasks, others))
    wrong += [(error.task, (error.key,), error.message) for error in errors]
    found = [(".".join(map(str, (name, *path) if len(tasks) > 1 else path)), message) for name, path, message in wrong]
    if len(found) == 1:
        raise Invalid(found[0][1], place=found[0][0])
    if found:
        raise Invalid("\n".join(f"{place}: {message}" if place else message for place, message in found))


def check_contact(contact: Contact, known: SharedNames) -> None:
    """Raise Invalid for impossible values of a contact, and for a period that does not exist."""
    for path, message in (*contact_errors(contact), *missing_periods(contact, known.periods)):
        raise Invalid(message, place=".".join(map(str, path)))


def check_configs(
    store: Store,
    configs: Mapping[str, Config],
    new: Collection[str],
    source_of: Callable[[str], ParsedFile | None],
    now: Instant,
    changed: Collection[Entry],
) -> None:
    """Raise all that is wrong with what these owners declare, with lines of files: also what must stay because others
    use it. `new`: names that these owners do not have yet; `source_of`: the file of an owner; `changed`: their tasks as
    they are, as far as they are declared differently or not any more.
    """
    known = known_of_other_owners(store, configs, new)
    found = validate_configs(configs, known)
    periods, limits, contacts = store.periods(), limits_by_owner(store), contacts_by_owner(store)
    declared = configs.values()
    gone = SharedNames(
        periods.keys() - known.periods.keys() - {name for config in declared for name in config.periods},
        _names(limits) - known.limits.keys() - {name for config in declared for name in config.limits},
        _names(contacts) - known.contacts.keys() - {name for config in declared for name in config.contacts},
    )
    if any(gone):
        entries = (entry for entry in store.entries() if entry.owner not in configs)
        settings = {name: contact for name, (_, contact) in known.contacts.items()}
        users: list[OtherUser] = []
        users += other_users(settings, {owner: node.notify or () for owner, node in known.node.items()})
        users += users_of_downtimes(downtimes_in_force(store, now, configs))
        for section, name, message in blocked_removals(entries, gone, users):
            by_owner = limits if section == "limits" else contacts
            owners = (owner for owner in configs if name in by_owner.get(owner, {}))
            owner = periods[name][0] if section == "periods" else next(owners)
            found.append(ValidationFinding(owner, (section, name), message, is_conflict=True))
    declared_tasks = [task for config in declared for task in config.tasks]
    for entry, message in _used_by_others(store, changed, declared_tasks, lambda user: user.owner not in configs):
        section = "checks" if entry.task.check else "tasks"
        found.append(ValidationFinding(entry.owner, (section, entry.task.name), message, is_conflict=True))
    if found:
        raise refusal_of_findings(found, source_of)


def _names(by_owner: Mapping[str, Collection[str]]) -> set[str]:
    return {name for names in by_owner.values() for name in names}


def check_not_depended_on(
    store: Store, before: Collection[Entry], after: Collection[Task] = (), scope: Scope | None = None
) -> None:
    """Raise Conflict if others depend on checks, or follow tasks, that are removed, renamed or of the other kind now.

    `before` are tasks that a change removes or redefines, `after` is what becomes of them. To a caller with a `scope`
    only tasks within it are named.
    """
    changed = {entry.number for entry in before}

    def is_shown(entry: Entry) -> bool:
        return scope is None or scope.contains(entry.owner, entry.task.labels)

    found = _used_by_others(store, before, after, lambda user: user.number not in changed, is_shown)
    if blocked := [message for _, message in found]:
        more = len(blocked) - MAX_FINDINGS_SHOWN
        raise Conflict("\n".join(blocked[:MAX_FINDINGS_SHOWN] + [f"... and {more:,} more"] * (more > 0)))


def _used_by_others(
    store: Store,
    before: Collection[Entry],
    after: Collection[Task],
    stays: Callable[[Entry], bool],
    is_shown: Callable[[Entry], bool] = lambda _: True,
) -> Iterator[tuple[Entry, str]]:
    """Of tasks that a change removes or redefines: those that tasks which stay as they are depend on or follow."""
    if not before:
        return
    checks, parents = lost_checks(before, after), lost_parents(before, after)
    if checks:
        for name, message in blocked_losses(checks, filter(stays, store.dependents(list(checks))), is_shown):
            yield checks[name], message
    if parents:
        for name, message in blocked_parents(parents, filter(stays, store.followers(list(parents))), is_shown):
            yield parents[name], message


def check_unused(store: Store, removed: SharedNames, now: Instant) -> None:
    """Raise Conflict if a task, a contact, a downtime or the settings of the node use what is being removed."""
    contacts = {name: contact for name, (_, contact) in contacts_with_owners(store).items()}
    notified = {owner: node.notify or () for owner, node in node_settings_by_owner(store).items()}
    users = [*other_users(contacts, notified), *users_of_downtimes(downtimes_in_force(store, now))]
    for blocked in blocked_removals(store.entries(), removed, users):
        raise Conflict(blocked.message)


def refusal_of_findings(found: Sequence[ValidationFinding], source_of: Callable[[str], ParsedFile | None]) -> Invalid:
    """One error for all findings: a Conflict if the documents are valid in themselves and only contradict the store."""
    try:
        text = str(BadFileError(*config_errors_of(found, source_of)))
    except (BadFileError, OSError):  # the file has become unreadable
        text = str(BadFileError(*config_errors_of(found, lambda _: None)))
    return Conflict(text) if all(finding.is_conflict for finding in found) else Invalid(text)
