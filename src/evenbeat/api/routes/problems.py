"""Problems of tasks over HTTP: list them, read one with its notes, acknowledge them, comment on them."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from evenbeat.api.auth.scopes import narrow_filter
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.actions import FilterBody
from evenbeat.api.routes.task_answers import parse_key_values, parse_request_time
from evenbeat.model import Name, State
from evenbeat.report.problem_timeline import problem_timeline
from evenbeat.report.problems import count_problems, find_problem, note_document, problem_document, read_problems
from evenbeat.store.contract import Filter, ProblemFilter, Store
from evenbeat.wire.documents import CauseWord, ChangedProblems, ProblemPage, ProblemWithNotes, TimeText
from evenbeat.wire.replies import NotFound
from evenbeat.wire.requests import COMMENT_LIMIT, AcknowledgeProblems, CommentOnProblems, ProblemRequest

_TAG: Final = "Problems"
_IS_OPEN: Final = {"open": True, "closed": False, "all": None}
_MAX_DIGITS: Final = 18
"""Of an id."""
_Label = Annotated[str, Meta(pattern="^.{1,256}=", max_length=520)]
_ProblemId = Annotated[int, Meta(ge=1, le=1 << 62)]


class ProblemQuery(Struct):
    """Selects problems, and a page of them."""

    name: Annotated[
        tuple[Name, ...], Meta(max_length=100, description="Names or ids of tasks, or patterns with * and ?.")
    ] = ()
    contains: Annotated[str, Meta(max_length=256, description="A part of the name, in whatever case.")] = ""
    owner: Annotated[str, Meta(max_length=4_096, description="The owner of the tasks.")] | None = None
    label: Annotated[tuple[_Label, ...], Meta(max_length=100, description="key=value; all must fit.")] = ()
    cause: CauseWord | None = None
    state: Literal["warning", "critical", "unknown"] | None = None
    acknowledged: Annotated[bool, Meta(description="Only acknowledged ones, or only others.")] | None = None
    which: Literal["open", "closed", "all"] = "open"
    before: Annotated[int, Meta(ge=0, le=1 << 62, description="The `next` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Problems on a page.")] = 100


class SelectedProblems(Struct, forbid_unknown_fields=True, kw_only=True):
    """The open problems of tasks, or problems by id."""

    ids: Annotated[tuple[_ProblemId, ...], Meta(max_length=10_000)] = ()
    """Only these problems, of the tasks that the filter selects."""
    filter: FilterBody = FilterBody()
    all: bool = False
    """Without ids, an empty filter selects every task."""


class AcknowledgeBody(SelectedProblems):
    """The problems to acknowledge, and how."""

    comment: Annotated[str, Meta(max_length=COMMENT_LIMIT)] = ""
    until: TimeText | None = None
    """The acknowledgement ends then; without it, when the problem closes or becomes worse."""
    sticky: bool = False
    """It also holds when the problem becomes worse."""
    withdraw: bool = False
    """Take acknowledgements back."""


class CommentBody(SelectedProblems):
    """The problems to comment on, closed ones too if their ids are given, and the comment."""

    text: Annotated[str, Meta(min_length=1, max_length=COMMENT_LIMIT)]


async def list_problems(call: Call) -> dict[str, Any]:
    q: ProblemQuery = call.query
    asked = Filter(q.name, q.owner, parse_key_values(q.label, "/query/label"), contains=q.contains or None)
    only = ProblemFilter(
        narrow_filter(asked, call.scope),
        q.cause,
        None if q.state is None else State[q.state.upper()],
        _IS_OPEN[q.which],
        before=q.before,
        most=q.limit + 1,
        acknowledged=q.acknowledged,
    )

    def read(store: Store) -> dict[str, Any]:
        now = call.context.now()
        found = read_problems(store, only, now)
        page = found[: q.limit]
        return {
            "problems": [problem_document(problem, now) for problem in page],
            "next": page[-1].id if len(found) > len(page) else None,
            "total": count_problems(store, only, now),
        }

    return await call.context.read_store(read)


async def read_problem(call: Call) -> dict[str, Any]:
    text = call.path_variables["id"]
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise HttpError(404, f"there is no problem {text[:64]!r}")

    def read(store: Store) -> dict[str, Any]:
        problem, notes = find_problem(store, int(text), call.context.now())
        if call.scope is not None and not call.scope.contains(problem.owner, problem.labels):
            raise NotFound(f"there is no problem {problem.id}")  # as if there were none
        now = call.context.now()
        timeline = problem_timeline(store, problem, notes, now, is_limited=call.scope is not None)
        return {
            **problem_document(problem, now),
            "notes": [note_document(note) for note in notes],
            "timeline": msgspec.to_builtins(timeline),
        }

    return await call.context.read_store(read)


async def acknowledge(call: Call) -> dict[str, Any]:
    body: AcknowledgeBody = call.body
    until = parse_request_time(body.until, "/until")
    only = _selected(call, body)
    return await _act(
        call, AcknowledgeProblems(only, call.who, body.ids, body.comment, until, body.sticky, body.withdraw)
    )


async def comment(call: Call) -> dict[str, Any]:
    body: CommentBody = call.body
    return await _act(call, CommentOnProblems(_selected(call, body), call.who, body.text, body.ids))


def _selected(call: Call, body: SelectedProblems) -> Filter:
    """The tasks, of those that the caller may see."""
    given = body.filter
    if given == FilterBody() and not body.all and not body.ids:
        raise invalid_request(
            FieldError("/filter", 'an empty filter means the problems of every task; if that is meant, say "all": true')
        )
    asked = Filter(given.names, given.owner, given.labels, given.state, contains=given.contains or None)
    return narrow_filter(asked, call.scope)


async def _act(call: Call, request: ProblemRequest) -> dict[str, Any]:
    changed = (await call.context.node.ask(request)).problems
    assert changed is not None
    return msgspec.structs.asdict(changed)


ROUTES: Final = (
    Route(
        *("GET", "/v1/problems", Role.READ, list_problems, "Problems of tasks, newest first.", ProblemPage, _TAG),
        query=ProblemQuery,
    ),
    Route(
        *(
            "GET",
            "/v1/problems/{id}",
            Role.READ,
            read_problem,
            "A problem, its notes and its timeline.",
            ProblemWithNotes,
            _TAG,
        ),
    ),
    Route(
        *("POST", "/v1/problems/acknowledge", Role.OPERATE, acknowledge),
        *("Acknowledge open problems, or take that back.", ChangedProblems, _TAG),
        body=AcknowledgeBody,
        error_statuses=(404, 409),
    ),
    Route(
        *("POST", "/v1/problems/comment", Role.OPERATE, comment, "Comment on problems.", ChangedProblems, _TAG),
        body=CommentBody,
        error_statuses=(404, 409),
    ),
)
