"""Messages to contacts over HTTP: what was sent, what became of it; a limited token sees what is about its tasks."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from evenbeat.api.http.route import Call, Role, Route
from evenbeat.model import Name
from evenbeat.report.messages import read_messages
from evenbeat.store.alert_records import MessageFilter
from evenbeat.wire.documents import SentMessagePage


class MessageQuery(Struct):
    """Selects messages, and a page of them."""

    contact: Annotated[Name, Meta(description="To this contact.")] | None = None
    state: Literal["waiting", "delivered", "given up"] | None = None
    before: Annotated[int, Meta(ge=0, le=1 << 62, description="The `next` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Messages on a page.")] = 100


async def list_messages(call: Call) -> SentMessagePage:
    q: MessageQuery = call.query
    only = MessageFilter(contact=q.contact, state=q.state, before=q.before, most=q.limit)
    now = call.context.now()
    found = await call.context.read_store(lambda store: read_messages(store, only, now, call.scope))
    return SentMessagePage(found.messages, found.next)


ROUTES: Final = (
    Route(
        *("GET", "/v1/messages", Role.READ, list_messages, "Messages to contacts, newest first."),
        *(SentMessagePage, "Contacts"),
        query=MessageQuery,
    ),
)
