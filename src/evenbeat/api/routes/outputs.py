"""What runs have written: read, downloaded and followed, also while they are under way."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.responses import Response

from evenbeat.api.auth.while_authorized import while_authorized
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.streams import CountedStream, refuse_too_many_streams
from evenbeat.api.routes.task_answers import parse_request_time, task_in_path_or_removed
from evenbeat.core.output_excerpt import left_out_mark
from evenbeat.model import Entry, Instant
from evenbeat.report.documents import iso_time
from evenbeat.report.run_output import run_at, stored_part
from evenbeat.store.contract import RunRecord, Store, StoreError
from evenbeat.wire.documents import OutputPartDocument, TimeText
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.requests import MAX_OUTPUT_WAIT, ReadOutput

_TAG: Final = "History"
_TEXT: Final = "text/plain"
RunTime = Annotated[
    TimeText,
    Meta(description="When it was claimed, started, due or under way; by default the one under way, else the latest."),
]


class OutputQuery(Struct):
    """Selects a run."""

    run: RunTime | None = None
    follow: Annotated[bool, Meta(description="Go on until the run has ended.")] = False


class OutputPartQuery(Struct):
    """Selects a run, and a part of its output."""

    run: RunTime | None = None
    since: Annotated[TimeText, Meta(description="Instead: the first run that is claimed from then on.")] | None = None
    forced: Annotated[bool, Meta(description="With `since`: the first forced run.")] = False
    position: Annotated[int, Meta(ge=0, le=1 << 62, description="Bytes of it that are known.")] = 0
    wait: Annotated[float, Meta(ge=0, le=MAX_OUTPUT_WAIT, description="Seconds to wait for something.")] = 0.0


async def read_output_part(call: Call) -> dict[str, Any]:
    q: OutputPartQuery = call.query
    entry = await task_in_path_or_removed(call)
    question = ReadOutput(
        entry.number,
        await _claimed(call, entry, q.run),
        parse_request_time(q.since, "/query/since"),
        q.forced,
        q.position,
        q.wait,
    )
    return _document(entry, await while_authorized(call, _ask(call, question)))


async def read_output(call: Call) -> Response:
    q: OutputQuery = call.query
    entry = await task_in_path_or_removed(call)
    claimed = await _claimed(call, entry, q.run)
    if q.follow:
        refuse_too_many_streams(call)
        return CountedStream(call.context.live_feed, _follow(call, entry, claimed), call.who, _TEXT)
    pieces = [piece async for piece in _pieces(call, ReadOutput(entry.number, claimed), is_followed=False)]
    return Response(b"".join(pieces), media_type=_TEXT, headers={"Cache-Control": "no-store"})


async def _follow(call: Call, entry: Entry, claimed: Instant | None) -> AsyncIterator[bytes]:
    async for piece in _pieces(call, ReadOutput(entry.number, claimed), is_followed=True):
        if not await call.is_still_authorized():
            return
        yield piece


async def _pieces(call: Call, question: ReadOutput, *, is_followed: bool) -> AsyncIterator[bytes]:
    """The output from its beginning on: what there is now, or until the run has ended; an empty piece if none comes."""
    wait = MAX_OUTPUT_WAIT if is_followed else 0.0
    run, position = question.run, 0
    while True:
        part = await _ask(call, ReadOutput(question.number, run, position=position, wait=wait))
        run = run or part.claimed
        text = part.text if not part.left_out else f"\n{left_out_mark(part.left_out)}{part.text}"
        yield text.encode()
        position = part.position
        if part.ended is not None or run is None or not (is_followed or part.text):
            return


async def _ask(call: Call, question: ReadOutput) -> OutputPart:
    """Ask the node; without one, the store."""
    try:
        part = (await call.context.node.ask(question)).output
        assert part is not None
    except StoreError:
        if await call.context.run_in_thread(call.context.has_node):
            raise
        now = call.context.now()
        part = await call.context.read_store(lambda store: stored_part(store, question, now))
    return part


async def _claimed(call: Call, entry: Entry, run: str | None) -> Instant | None:
    at = parse_request_time(run, "/query/run")
    if at is None:
        return None

    def find(store: Store) -> RunRecord:
        return run_at(store, entry.number, at)

    return (await call.context.read_store(find)).claimed


def _document(entry: Entry, part: OutputPart) -> dict[str, Any]:
    return {
        "task": entry.task.name,
        "now": iso_time(part.now),
        "run": iso_time(part.claimed),
        "nominal": iso_time(part.nominal),
        "kind": part.kind.word,
        "started": iso_time(part.started),
        "position": part.position,
        "left_out": part.left_out,
        "text": part.text,
        "ended": iso_time(part.ended),
        "outcome": part.outcome,
        "status": part.status,
        "waiting": part.waiting,
    }


_PATH: Final = "/v1/tasks/{name}/output"
ROUTES: Final = (
    Route(
        "GET",
        _PATH,
        Role.READ,
        read_output,
        "The output of a run as text, also of one that is under way.",
        str,
        _TAG,
        OutputQuery,
        media=_TEXT,
    ),
    Route(
        "GET",
        f"{_PATH}/live",
        Role.READ,
        read_output_part,
        "What a run has written from a position on, and whether it has ended.",
        OutputPartDocument,
        _TAG,
        OutputPartQuery,
    ),
)
