"""Defining and removing contacts: what people ask for by command, page, API and program."""

from typing import TYPE_CHECKING, Final

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.contacts import check_may_define_contact, contacts_by_owner
from evenbeat.admin.stored_references import check_contact, check_unused, shared_names
from evenbeat.core.references import SharedNames
from evenbeat.load.contacts import contact_name_error
from evenbeat.model import Contact, Invalid
from evenbeat.store.contract import Store
from evenbeat.wire.replies import ChangeResult, NotFound
from evenbeat.wire.requests import RemoveContact, SetContact

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import TaskAdmin

MAX_CONTACTS: Final = 10_000
"""Contacts that people may define, those of files counted."""


def change_contacts(admin: "TaskAdmin", request: SetContact | RemoveContact) -> ChangeResult:
    """Define or remove a contact."""
    return _set(admin, request) if isinstance(request, SetContact) else _remove(admin, request)


def _set(admin: "TaskAdmin", request: SetContact) -> ChangeResult:
    """Create or redefine a contact. One that exists keeps its owner; where several files repeat it, all of them."""
    name, contact = request.name, request.contact
    with admin.locked():
        known = _definitions(admin.store, name)
        if not known:
            _check_new(admin.store, name)
        check_contact(contact, shared_names(admin.store))
        permission, owners = permission_of(admin.store), list(known) or [request.owner]
        for owner in owners:
            check_may_define_contact(permission, owner, name, known.get(owner), contact)
        if known and all(before == contact for before in known.values()):
            return ChangeResult()
        return admin.define_contact(owners, name, contact, request.who)


def _remove(admin: "TaskAdmin", request: RemoveContact) -> ChangeResult:
    """Delete a contact that nothing uses."""
    with admin.locked():
        known = _definitions(admin.store, request.name)
        if not known:
            raise NotFound(f"there is no contact {request.name!r}")
        check_unused(admin.store, SharedNames(contacts={request.name}), admin.now())
        return admin.define_contact(list(known), request.name, None, request.who)


def _definitions(store: Store, name: str) -> dict[str, Contact]:
    """The definitions of a contact by owner: files may repeat one."""
    return {owner: some[name] for owner, some in contacts_by_owner(store).items() if name in some}


def _check_new(store: Store, name: str) -> None:
    if problem := contact_name_error(name):
        raise Invalid(problem)
    if sum(map(len, contacts_by_owner(store).values())) >= MAX_CONTACTS:
        raise Invalid(f"there are {MAX_CONTACTS:,} contacts already, accepted: no more; remove one that is not used")
