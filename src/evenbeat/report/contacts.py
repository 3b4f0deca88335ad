"""Contacts for people and programs: where each one's messages go, without secrets, and who uses it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.contacts import contacts_with_owners, task_counts
from evenbeat.core.channels import channels_of
from evenbeat.core.permission import may_execute
from evenbeat.load.contacts import contact_to_table
from evenbeat.model import Contact, ContactState, Instant
from evenbeat.report.messages import is_failing, latest_messages
from evenbeat.store.contract import Store
from evenbeat.wire.documents import SentMessage


class ContactPlace(NamedTuple):
    """One place of a contact."""

    kind: str
    """send, webhook, command or email."""
    shown: str
    """Without secrets."""
    blocked: bool = False
    """A command that is not executed: with commands = "files" it is not from such a file."""
    failing: bool = False
    """The latest delivery to it has failed."""
    latest: SentMessage | None = None
    """The latest message to it that is on record."""

    @property
    def words(self) -> str:
        """ "webhook https://..."; of the kind send the URL says what it is."""
        return self.shown if self.kind == "send" else f"{self.kind} {self.shown}"


class ContactInfo(NamedTuple):
    """A contact, and how many tasks name it."""

    name: str
    owner: str
    places: tuple[ContactPlace, ...]
    period: str | None
    states: tuple[ContactState, ...]
    per_hour: int
    tasks: int
    contact: Contact | None = None
    """The whole definition; None for callers who may not read secrets."""


def read_contacts(store: Store, now: Instant, counts: Mapping[str, int] | None = None) -> list[ContactInfo]:
    """All contacts, by name; `counts` says how many tasks name each, if that is known already."""
    found = contacts_with_owners(store)
    if not found:
        return []
    permission = permission_of(store)
    uses = task_counts(store.entries()) if counts is None else counts
    return [
        _info(
            (name, owner, contact),
            uses.get(name, 0),
            _latest_by_key(store, name, contact, now),
            is_trusted=may_execute(permission, owner),
        )
        for name, (owner, contact) in found.items()
    ]


def _latest_by_key(store: Store, name: str, contact: Contact, now: Instant) -> dict[str, SentMessage]:
    return latest_messages(store, channels_of(name, contact), now)


def _info(
    named: tuple[str, str, Contact], tasks: int, latest: Mapping[str, SentMessage], *, is_trusted: bool
) -> ContactInfo:
    name, owner, contact = named
    places = tuple(
        ContactPlace(
            channel.kind,
            channel.shown,
            channel.kind == "command" and not is_trusted,
            is_failing(latest.get(channel.key)),
            latest.get(channel.key),
        )
        for channel in channels_of(name, contact)
    )
    return ContactInfo(name, owner, places, contact.period, contact.states, contact.per_hour, tasks, contact)


def contact_document(info: ContactInfo, *, secrets: bool) -> dict[str, Any]:
    """A contact; with `secrets` its definition too, as a file has it."""
    return {
        "name": info.name,
        "owner": info.owner,
        "places": [_place_document(place) for place in info.places],
        "period": info.period,
        "states": [state.value for state in info.states],
        "per_hour": info.per_hour,
        "tasks": info.tasks,
        "definition": contact_to_table(info.contact) if secrets and info.contact is not None else None,
    }


def _place_document(place: ContactPlace) -> dict[str, Any]:
    latest = None if place.latest is None else msgspec.to_builtins(place.latest)
    return {**place._asdict(), "latest": latest}
