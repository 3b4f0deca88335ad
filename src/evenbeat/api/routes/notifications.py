"""Notifications over HTTP: every decision about a contact with its reason; a limited token sees those of its tasks."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.task_answers import errors_at, parse_request_time
from evenbeat.model import Name
from evenbeat.report.notifications import parse_position, read_notifications
from evenbeat.store.alert_records import AlertDecisionFilter
from evenbeat.wire.documents import NotificationPage, TimeText


class NotificationQuery(Struct):
    """Selects notifications, and a page of them."""

    name: Annotated[Name, Meta(description="About problems of this task, also a removed one.")] | None = None
    contact: Annotated[Name, Meta(description="To this contact.")] | None = None
    since: Annotated[TimeText, Meta(description="At this time or later.")] | None = None
    before: Annotated[str, Meta(max_length=64, description="The `next` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Notifications on a page.")] = 100


async def list_notifications(call: Call) -> NotificationPage:
    q: NotificationQuery = call.query
    with errors_at("/query/before"):
        before = None if q.before is None else parse_position(q.before)
    since = parse_request_time(q.since, "/query/since")
    only = AlertDecisionFilter(task=q.name, contact=q.contact, since=since, before=before, most=q.limit)
    now = call.context.now()
    found = await call.context.read_store(lambda store: read_notifications(store, only, now, call.scope))
    return NotificationPage(found.notifications, found.next)


ROUTES: Final = (
    Route(
        *("GET", "/v1/notifications", Role.READ, list_notifications),
        *("What was decided about contacts, with reasons, newest first.", NotificationPage, "Contacts"),
        query=NotificationQuery,
    ),
)
