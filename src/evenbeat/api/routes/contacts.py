"""Contacts over HTTP: read, create, change, delete. Only the role admin reads what they are defined as."""

from typing import Any, Final

import msgspec
from starlette.responses import Response

from evenbeat.api.http.errors import MAX_ERRORS, FieldError, HttpError, invalid_request, json_pointer
from evenbeat.api.http.route import JSON, Call, Role, Route
from evenbeat.core.references import missing_periods
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.contacts import contact_name_error, contact_of_table
from evenbeat.model import NAME_LIMIT, Contact
from evenbeat.report.contacts import contact_document, read_contacts
from evenbeat.store.contract import Store
from evenbeat.wire.documents import ContactDocument, ContactKeys, Contacts, ContactTest, TestedPlace
from evenbeat.wire.requests import RemoveContact, SetContact, TestContact

_TAG: Final = "Contacts"


async def list_contacts(call: Call) -> dict[str, Any]:
    return {"contacts": await call.context.read_store(lambda store: _documents(call, store))}


async def read_contact(call: Call) -> dict[str, Any]:
    name = call.path_variables["name"]
    documents = await call.context.read_store(lambda store: _documents(call, store))
    found = next((document for document in documents if document["name"] == name), None)
    if found is None:
        raise HttpError(404, f"there is no contact {name[:NAME_LIMIT]!r}")
    return found


async def put_contact(call: Call) -> Response:
    name, contact = call.path_variables["name"], _contact_of(call)
    if problem := contact_name_error(name):
        raise invalid_request(FieldError("/name", problem))
    known = await call.context.read_store(lambda store: _check_period(call, store, contact))
    await call.context.node.ask(SetContact(name, contact, call.who))
    document = await read_contact(call)
    return Response(msgspec.json.encode(document), 200 if name in known else 201, media_type=JSON)


async def delete_contact(call: Call) -> None:
    await read_contact(call)
    await call.context.node.ask(RemoveContact(call.path_variables["name"], call.who))


async def test_contact(call: Call) -> ContactTest:
    found = (await call.context.node.ask(TestContact(call.path_variables["name"], call.who))).tested or []
    return ContactTest([TestedPlace(p.kind, p.shown, p.is_delivered, p.error, p.detail) for p in found])


def _documents(call: Call, store: Store) -> list[dict[str, Any]]:
    secrets = call.role >= Role.ADMIN
    found = read_contacts(store, call.context.now(), call.context.contact_uses.of(store))
    return [contact_document(info, secrets=secrets) for info in found]


def _contact_of(call: Call) -> Contact:
    """The contact of the request; raise 422 with all errors."""
    body: dict[str, Any] = call.body
    if empty := [key for key, value in body.items() if value is None]:
        raise invalid_request(
            *(FieldError(json_pointer((key,)), "null; leave the key out") for key in empty[:MAX_ERRORS])
        )
    errors = DocumentErrors()
    contact = contact_of_table(errors, (), body)
    if contact is None:
        found = [FieldError(json_pointer(path), error.problem, error.column) for path, error in errors.errors]
        raise invalid_request(*found, more=errors.errors_omitted)
    return contact


def _check_period(call: Call, store: Store, contact: Contact) -> set[str]:
    """Refuse, with pointers, what the node would refuse; the names of all contacts."""
    if found := [
        FieldError(json_pointer(path), message) for path, message in missing_periods(contact, store.periods().keys())
    ]:
        raise invalid_request(*found)
    return {document["name"] for document in _documents(call, store)}


ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/v1/contacts", Role.READ, list_contacts, "All contacts.", Contacts, _TAG),
    Route("GET", "/v1/contacts/{name}", Role.READ, read_contact, "A contact.", ContactDocument, _TAG),
    Route(
        "PUT",
        "/v1/contacts/{name}",
        Role.ADMIN,
        put_contact,
        "Create a contact (201) or replace it (200).",
        ContactDocument,
        _TAG,
        body=dict[str, Any],
        documented_body_type=ContactKeys,
        status=201,
        other_statuses=(200,),
        error_statuses=(409,),
    ),
    Route(
        "POST",
        "/v1/contacts/{name}/test",
        Role.OPERATE,
        test_contact,
        "Send a test message to each place of a contact; answer when it has arrived, or has not.",
        ContactTest,
        _TAG,
    ),
    Route(
        "DELETE",
        "/v1/contacts/{name}",
        Role.ADMIN,
        delete_contact,
        "Delete a contact that no task names, nor the node itself.",
        None,
        _TAG,
        status=204,
        error_statuses=(409,),
    ),
)
