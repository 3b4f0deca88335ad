"""The audit over HTTP: who changed what, from what to what, newest first, a page at a time."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.task_answers import parse_request_time
from evenbeat.report.documents import change_document
from evenbeat.store.contract import AuditFilter
from evenbeat.wire.documents import AuditPage, TimeText


class AuditQuery(Struct):
    """Selects changes, and a page of them."""

    name: Annotated[
        str, Meta(max_length=300, description="A task, or `token ci`, `limit db`, `period p`, `contact ops`, `slots`.")
    ] = ""
    who: Annotated[str, Meta(max_length=300, description="Who made them.")] = ""
    since: Annotated[TimeText, Meta(description="Only what was at this time or later.")] | None = None
    before: Annotated[int, Meta(ge=0, le=1 << 62, description="The `next` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Changes on a page.")] = 100


async def read_audit(call: Call) -> dict[str, Any]:
    q: AuditQuery = call.query
    only = AuditFilter(
        q.name or None, q.who or None, parse_request_time(q.since, "/query/since"), q.before, q.limit + 1
    )

    def read() -> dict[str, Any]:
        found = call.context.store.audit(only)
        page = found[: q.limit]
        more = len(found) > len(page)
        return {"changes": [change_document(c) for _, c in page], "next": page[-1].number if more else None}

    return await call.context.run_in_thread(read)


ROUTES: Final = (
    Route(
        *(
            "GET",
            "/v1/audit",
            Role.READ,
            read_audit,
            "Who changed what, newest first; including removed tasks.",
            AuditPage,
        ),
        tag="History",
        query=AuditQuery,
    ),
)
