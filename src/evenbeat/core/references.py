"""References of tasks to periods, limits and contacts: what is named must exist, and stays as long as it is named.

A contact and a downtime name a period, and the node's own settings name contacts, in the same way.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from evenbeat.did_you_mean import list_known, nearest_words
from evenbeat.model import Contact, Downtime, Entry, NotifyContact, Task

_MOST_COMPARED: Final = 100
"""Contacts among which a similar name is searched; every task of a file may name one that does not exist."""
ReferencePath = tuple[str | int, ...]
"""Where a document names something: keys, and positions in lists."""


class SharedNames(NamedTuple):
    """What can be named, whoever defines it."""

    periods: Collection[str] = ()
    limits: Collection[str] = ()
    contacts: Collection[str] = ()


class Reference(NamedTuple):
    """What is named."""

    key: str
    """`period`, `limit` or `contact`."""
    name: str


class BlockedRemoval(NamedTuple):
    """A period, limit or contact that cannot be removed, as something uses it."""

    section: str
    """Of documents: `periods`, `limits` or `contacts`."""
    name: str
    message: str


class OtherUser(NamedTuple):
    """What names periods or contacts besides tasks."""

    user: str
    """In words."""
    references: Sequence[Reference]


def references_of(task: Task) -> Iterator[Reference]:
    """Everything that a task refers to by name."""
    if task.period is not None:
        yield Reference("period", task.period)
    if task.limit is not None:
        yield Reference("limit", task.limit)
    for one in task.notify:
        yield Reference("contact", one.to)


def missing_references(task: Task, known: SharedNames) -> Iterator[tuple[ReferencePath, str]]:
    """What a task names and does not exist: where, and what to say of it."""
    if task.period is not None and task.period not in known.periods:
        yield ("period",), _missing("period", task.period, known.periods)
    if task.limit is not None and task.limit not in known.limits:
        yield ("limit",), _missing("limit", task.limit, known.limits)
    if task.notify:
        yield from missing_contacts(task.notify, known.contacts)


def missing_contacts(notify: Iterable[NotifyContact], known: Collection[str]) -> Iterator[tuple[ReferencePath, str]]:
    """The contacts in a `notify` that do not exist."""
    for i, one in enumerate(notify):
        if one.to not in known:
            yield ("notify", i), _missing("contact", one.to, known)


def missing_periods(user: Contact | Downtime, known: Collection[str]) -> Iterator[tuple[ReferencePath, str]]:
    """The period of a contact or a downtime, if it does not exist."""
    if user.period is not None and user.period not in known:
        yield ("period",), _missing("period", user.period, known)


def _missing(key: str, name: str, known: Collection[str]) -> str:
    near = nearest_words(name, known) if key == "contact" and len(known) <= _MOST_COMPARED else []
    hint = f"did you mean {near[0]!r}?" if near else f"known: {list_known(sorted(known), 'none is defined')}"
    return f"there is no {key} {name!r}, {hint}"


def other_users(
    contacts: Mapping[str, Contact], node_notify: Mapping[str, Iterable[NotifyContact]]
) -> Iterator[OtherUser]:
    """The references of contacts, and those of the node's settings by owner in words."""
    for name, contact in contacts.items():
        if contact.period is not None:
            yield OtherUser(f"the contact {name!r}", [Reference("period", contact.period)])
    for owner, notify in node_notify.items():
        yield OtherUser(f"[node] of {owner}", [Reference("contact", one.to) for one in notify])


def users_of_downtimes(downtimes: Iterable[Downtime]) -> Iterator[OtherUser]:
    """The references of downtimes."""
    for downtime in downtimes:
        if downtime.period is not None:
            words = f"the downtime {downtime.id} of {downtime.who}"
            yield OtherUser(words, [Reference("period", downtime.period)])


def blocked_removals(
    entries: Iterable[Entry], removed: SharedNames, others: Iterable[OtherUser] = ()
) -> Iterator[BlockedRemoval]:
    """Of what is about to be removed: what a task or something else uses, each once."""
    going = {
        Reference(key, name)
        for key, names in (("period", removed.periods), ("limit", removed.limits), ("contact", removed.contacts))
        for name in names
    }
    for entry in entries:
        for reference in references_of(entry.task):
            if reference in going:
                going.remove(reference)
                yield _blocked(reference, f"the task {entry.task.name!r} of {entry.owner}")
    for user, references in others:
        for reference in references:
            if reference in going:
                going.remove(reference)
                yield _blocked(reference, user)


def _blocked(reference: Reference, user: str) -> BlockedRemoval:
    key, name = reference
    return BlockedRemoval(f"{key}s", name, f"the {key} {name!r} cannot go: {user} uses it")
