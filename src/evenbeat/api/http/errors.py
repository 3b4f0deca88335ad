"""Errors as RFC 9457 problem documents: a status and JSON pointers for programs, sentences for people."""

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from starlette.responses import Response

from evenbeat.api.http.refusals import REASON_BY_STATUS
from evenbeat.load.locate import KeyPath
from evenbeat.model import Invalid
from evenbeat.store.contract import Conflict, StoreError
from evenbeat.wire.replies import Forbidden, NotFound

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
MAX_ERRORS: Final = 100
"""Errors listed in one answer; the others are counted."""
_MAX_TEXT: Final = 1_000
"""Characters of one text in an answer: a long text from the request is not sent back whole."""
_log: Final = logging.getLogger("evenbeat.api")


class _ProblemType(NamedTuple):
    word: str
    title: str
    meaning: str
    """What to do about it, for the reference."""


PROBLEM_TYPES: Final = {
    400: _ProblemType("malformed", "Not understood", "The body is not JSON, or is nested too deeply."),
    401: _ProblemType("unauthenticated", "Who are you?", "Send a token: Authorization: Bearer evb_..., or sign in."),
    403: _ProblemType("forbidden", "Not allowed", "The role does not suffice, or the request comes from another site."),
    404: _ProblemType(
        "not-found", "Not found", "There is nothing with this name. A name is one percent-encoded segment."
    ),
    405: _ProblemType("method", "Not a method of this path", "The header Allow says which are."),
    408: _ProblemType("slow", "Too slow", "The body did not arrive in time; send it again."),
    409: _ProblemType("conflict", "Does not fit what is there", "A name is taken, or it has changed: read it again."),
    412: _ProblemType(
        "version", "Another version", "If-Match names a version that is not the current one: read it again."
    ),
    413: _ProblemType("too-large", "Too large", "The body has more bytes than are accepted."),
    415: _ProblemType("media-type", "Not JSON", "Send Content-Type: application/json."),
    422: _ProblemType(
        "invalid", "Not valid", "Each entry of `errors` says what was found, where, and what is accepted."
    ),
    429: _ProblemType("too-many", "Too many requests", "The header Retry-After says when to try again."),
    500: _ProblemType("failure", "We failed", "A bug in evenbeat; look for the reference in the server's log."),
    503: _ProblemType("unavailable", "Not available now", "The node or its store does not answer; try again."),
}
"""By status."""


class FieldError(Struct, frozen=True, omit_defaults=True):
    """One error in a request."""

    pointer: str
    """A JSON pointer into the body; /query/x for the parameter x."""
    detail: str
    column: int | None = None
    """Counted from 1, in the text that the pointer shows."""


class ProblemDocument(Struct, frozen=True, omit_defaults=True):
    """What went wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()


class HttpError(Exception):
    """A refusal with its status code."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        more: int = 0,
        refusal: str | None = None,
        who: str = "",
    ) -> None:
        """`more`: errors not among these. `refusal`: the reason it is counted under; `who`: the refused caller."""
        super().__init__(detail)
        self.status: Final = status
        self.detail: Final = _shortened(detail)
        self.errors: Final = tuple(errors[:MAX_ERRORS])
        self.errors_omitted: Final = more + len(errors) - len(self.errors)
        self.headers: Final = dict(headers or {})
        self.refusal_reason: Final = refusal or REASON_BY_STATUS.get(status)
        self.who: Final = who

    def errors_shown(self) -> list[FieldError]:
        """The errors for an answer: the first ones, and a last entry that says how many more there are."""
        shown = [FieldError(_shortened(e.pointer), _shortened(e.detail), e.column) for e in self.errors]
        return [*shown, FieldError("", f"and {self.errors_omitted:,} more")] if self.errors_omitted else shown

    def document(self) -> ProblemDocument:
        """The problem document that is sent."""
        kind = PROBLEM_TYPES[self.status]
        return ProblemDocument(
            f"/docs#problem-{kind.word}", kind.title, self.status, self.detail, tuple(self.errors_shown())
        )

    def response(self) -> Response:
        """The complete response."""
        content = msgspec.json.encode(self.document())
        return Response(content, self.status, headers=self.headers, media_type=PROBLEM_MEDIA_TYPE)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def invalid_request(*errors: FieldError, more: int = 0) -> HttpError:
    """A 422 with all errors of a request; `more` is the number of those not listed here."""
    return HttpError(422, "; ".join(error.detail for error in errors[:3]), errors, more=more)


def http_error_of(error: Exception) -> HttpError:
    """The answer for an exception. An unforeseen one is logged, and the answer only refers to the log."""
    match error:
        case HttpError():
            return error
        case Conflict():
            return HttpError(409, str(error))
        case NotFound():
            return HttpError(404, str(error))
        case Forbidden():
            return HttpError(403, str(error))
        case Invalid():
            return invalid_request(FieldError("", str(error), error.column))
        case StoreError():
            return HttpError(503, str(error), headers={"Retry-After": "1"})
    reference = secrets.token_hex(6)
    _log.error("a request failed", exc_info=error, extra={"action": "request_failed", "reference": reference})
    return HttpError(500, f"a bug in evenbeat; the server's log has it as {reference}")


# Pointers


def json_pointer(path: KeyPath) -> str:
    """RFC 6901."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in path)


_PATH_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_FIELD_NAME: Final = re.compile(r"(?:unknown|missing required) field `(.*)`")


def field_error_of(error: msgspec.ValidationError, prefix: str = "") -> FieldError:
    """Convert a validation error of msgspec: what it refuses, and where."""
    cause = error.__cause__
    message, _, where = str(error).partition(" - at `$")
    keys: list[Any] = [key or index for key, index in _PATH_STEP.findall(where.rstrip("`")) if index != "..."]
    field = _FIELD_NAME.search(message)
    if field:
        keys.append(field[1])
    if isinstance(cause, Invalid):
        return FieldError(prefix + json_pointer((*keys, *filter(None, [cause.place]))), cause.problem, cause.column)
    return FieldError(prefix + json_pointer(tuple(keys)), message.replace(" | null", "")[:1_000])
