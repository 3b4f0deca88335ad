"""What people do with problems: acknowledge them, take that back, comment. Each is in the audit of its task."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.task_names import require_tasks
from evenbeat.load.safe_text import lines_error
from evenbeat.model import Acknowledgement, Instant, Invalid
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import Change, Conflict, Filter, ProblemFilter
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.instant import LATEST, format_instant
from evenbeat.when.zone import zone
from evenbeat.wire.replies import NotFound, ProblemsChanged, Reply
from evenbeat.wire.requests import COMMENT_LIMIT, AcknowledgeProblems, CommentOnProblems, ProblemRequest

ACKNOWLEDGED: Final = "acknowledged"
UNACKNOWLEDGED: Final = "unacknowledged"
COMMENTED: Final = "commented"
"""Actions in the audit."""
_DETAIL_LENGTH: Final = 200
"""Characters of a comment that the audit keeps; the problem keeps all of it."""
_LINES_AT_ONCE: Final = 1_000
"""Lines of the audit that are written in one transaction: what a node records meanwhile waits for it."""


def perform_problem_request(admin: TaskAdmin, request: ProblemRequest) -> Reply:
    """Do it, or raise why not: NotFound, Conflict if there is nothing to do it with, Invalid."""
    if isinstance(request, AcknowledgeProblems):
        return Reply(problems=acknowledge_problems(admin, request))
    return Reply(problems=comment_on_problems(admin, request))


def action_of(request: ProblemRequest) -> str:
    """The word for it in the audit and in events."""
    if isinstance(request, CommentOnProblems):
        return COMMENTED
    return UNACKNOWLEDGED if request.is_withdrawn else ACKNOWLEDGED


def acknowledge_problems(admin: TaskAdmin, request: AcknowledgeProblems) -> ProblemsChanged:
    """Acknowledge open problems, or take their acknowledgements back."""
    now = admin.now()
    _check_text(request.comment, "comment")
    if request.until is not None and not now < request.until < LATEST:
        raise Invalid("accepted: a time in the future, before the year 2200", place="until")
    if request.is_withdrawn and (request.comment or request.sticky or request.until is not None):
        raise Invalid("takes acknowledgements back; only without comment, until and sticky", place="withdraw")
    found = [problem for problem in _selected(admin, request.only, request.ids) if problem.closed is None]
    if not found:
        raise Conflict(_nothing_open(request.only, request.ids))
    ack = None
    if not request.is_withdrawn:
        ack = Acknowledgement(now, request.who, request.comment, request.until, request.sticky)
    changed = set(admin.store.acknowledge([problem.id for problem in found], ack, now, request.who))
    if not changed:
        raise Conflict(_words_for(request.only, request.ids, "is not acknowledged", "are not acknowledged"))
    until = "" if request.until is None else f", until {format_instant(request.until, zone('UTC'))}"
    more = f"{until}{', sticky' if request.sticky else ''}"
    done = [problem for problem in found if problem.id in changed]
    return _noted(admin, done, action_of(request), request.who, now, more, request.comment)


def comment_on_problems(admin: TaskAdmin, request: CommentOnProblems) -> ProblemsChanged:
    """Add a comment to the open problems of tasks, or to problems by id, closed ones too."""
    now = admin.now()
    if not request.text.strip():
        raise Invalid(f"an empty comment, accepted: 1 to {COMMENT_LIMIT} characters", place="text")
    _check_text(request.text, "text")
    found = _selected(admin, request.only, request.ids)
    if not found:
        raise Conflict(_nothing_open(request.only, request.ids))
    changed = set(admin.store.comment([problem.id for problem in found], request.text, now, request.who))
    done = [problem for problem in found if problem.id in changed]
    return _noted(admin, done, COMMENTED, request.who, now, "", request.text)


def _check_text(text: str, place: str) -> None:
    if len(text) > COMMENT_LIMIT:
        raise Invalid(f"{len(text):,} characters, accepted: at most {COMMENT_LIMIT:,}", place=place)
    if problem := lines_error(text):
        raise Invalid(problem, place=place)


def _selected(admin: TaskAdmin, only: Filter, ids: Sequence[int]) -> list[ProblemRecord]:
    """The open problems of these tasks; or those with these ids, open or closed, all of which must exist."""
    require_tasks(admin.store, only)
    wanted = ProblemFilter(replace(only, state=None), is_open=None if ids else True, ids=tuple(ids))
    found = admin.store.problems(wanted)
    if missing := set(ids).difference(problem.id for problem in found):
        raise NotFound(f"there is no problem {min(missing)}")
    if only.state is not None:
        tasks = {entry.number for entry in ConditionReader(admin.store, admin.now()).entries(only)}
        found = [problem for problem in found if problem.number in tasks]
    return found


def _nothing_open(only: Filter, ids: Sequence[int]) -> str:
    if ids:
        return _words_for(only, ids, "is closed", "are closed")
    return _words_for(only, ids, "has no open problem", "have no open problems")


def _words_for(only: Filter, ids: Sequence[int], one: str, many: str) -> str:
    """What is said of the problems or tasks that were asked for."""
    if ids:
        return f"problem {ids[0]} {one}" if len(ids) == 1 else f"all of these {len(ids):,} problems {many}"
    return f"{only.names[0]!r} {one}" if len(only.names) == 1 and only.names[0] else f"the selected tasks {many}"


def _noted(
    admin: TaskAdmin, done: Iterable[ProblemRecord], action: str, who: str, now: Instant, more: str, text: str
) -> ProblemsChanged:
    """Write one line for each task to the audit."""
    by_task: dict[str, list[int]] = {}
    for problem in done:
        by_task.setdefault(problem.task, []).append(problem.id)
    words = " ".join(text.split())[:_DETAIL_LENGTH]
    said = f": {words}" if words else ""
    lines = [
        Change(now, who, action, task, f"problem {', '.join(map(str, sorted(ids)))}{more}{said}")
        for task, ids in by_task.items()
    ]
    for at in range(0, len(lines), _LINES_AT_ONCE):
        admin.store.note(lines[at : at + _LINES_AT_ONCE])
    return ProblemsChanged([id_ for ids in by_task.values() for id_ in ids], list(by_task))
