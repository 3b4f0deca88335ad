"""Contacts as a store has them: declared by owners, like limits; and those that API and command line define."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from evenbeat.core.channels import Channel, channels_of
from evenbeat.core.permission import CommandPolicy, may_define, may_execute
from evenbeat.model import Contact, Entry, Job
from evenbeat.store.contract import Store
from evenbeat.wire.replies import Forbidden

CONTACTS_PREFIX: Final = "contacts:"
"""Prefix of settings of the store, before an owner: its contacts."""
_decoder: Final = msgspec.json.Decoder(dict[str, Contact])


def contacts_by_owner(store: Store) -> dict[str, dict[str, Contact]]:
    """Contacts by owner and name."""
    found = store.settings(CONTACTS_PREFIX)
    return {key.removeprefix(CONTACTS_PREFIX): _decoder.decode(found[key]) for key in sorted(found)}


def contacts_with_owners(store: Store) -> dict[str, tuple[str, Contact]]:
    """Owner and definition of each contact, by name, in the order of the names."""
    found = {
        name: (owner, contact) for owner, some in contacts_by_owner(store).items() for name, contact in some.items()
    }
    return dict(sorted(found.items()))


class UsableContact(NamedTuple):
    """A contact for whoever notifies, with the places that messages may go to."""

    contact: Contact
    channels: tuple[Channel, ...]


def usable_contacts(store: Store, permission: CommandPolicy) -> dict[str, UsableContact]:
    """All contacts by name. With commands = "files" commands of other owners are no places; their other places are."""
    return {
        name: UsableContact(contact, _usable_channels(name, contact, is_trusted=may_execute(permission, owner)))
        for name, (owner, contact) in contacts_with_owners(store).items()
    }


def _usable_channels(name: str, contact: Contact, *, is_trusted: bool) -> tuple[Channel, ...]:
    return tuple(channel for channel in channels_of(name, contact) if is_trusted or channel.kind != "command")


def task_counts(entries: Iterable[Entry]) -> dict[str, int]:
    """How many tasks name each contact."""
    counts: dict[str, int] = {}
    for entry in entries:
        for one in entry.task.notify:
            counts[one.to] = counts.get(one.to, 0) + 1
    return counts


def check_may_define_contact(
    permission: CommandPolicy, owner: str, name: str, before: Contact | None, after: Contact
) -> None:
    """With commands = "files": raise Forbidden if a change defines what a contact executes and is not from a file."""
    old = Job() if before is None else Job(command=before.command)
    if may_define(permission, owner, old, Job(command=after.command)):
        return
    if owner in permission.files:
        file = owner.removeprefix("file:")
        raise Forbidden(
            f'commands = "files": the command of the contact {name!r} is defined in {file}; change it there'
        )
    raise Forbidden(
        f'commands = "files": the contact {name!r} has a command, and only files named at `evenbeat up` may say that; '
        "write it into one of them, or leave out `command`"
    )
