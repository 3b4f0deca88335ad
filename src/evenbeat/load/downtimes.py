"""Downtimes as files have them, one table each: to the noun, and back."""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from evenbeat.core.references import ReferencePath
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.safe_text import lines_error, name_error, text_error
from evenbeat.model import MAX_DOWNTIME_NAMES, TEXT_LIMIT, Downtime, Instant, Invalid, Name, ShortText, prefix_place
from evenbeat.name_patterns import is_pattern
from evenbeat.when.instant import format_instant, parse_instant
from evenbeat.when.zone import Zone, zone

IN_FILE: Final = "file"
"""The id of a downtime until it is known whose it is: see `admin.stored_downtimes`."""
MAX_DOWNTIMES_OF_OWNER: Final = 1_000
MAX_PATTERNS: Final = 100
"""Patterns in one downtime: each is compared with every name."""
MAX_PATTERNS_IN_ALL: Final = 1_000
"""Patterns in all downtimes of an owner, and in all that people have set and that are not over."""
_TIME_KEYS: Final = ("from", "until")


class DowntimeKeys(Struct, forbid_unknown_fields=True, rename={"start": "from"}):
    """The keys of a downtime, as in a file: which tasks, and `from`, `until` or `period`, or several of them."""

    names: Annotated[tuple[Name, ...], Meta(max_length=MAX_DOWNTIME_NAMES)] = ()
    """Names, or patterns with * and ?."""
    owner: Name | None = None
    labels: dict[Name, Name] = {}
    start: ShortText | None = None
    until: ShortText | None = None
    zone: Name = "UTC"
    """Of times without an offset."""
    period: Name | None = None
    dependents: bool = True
    """So are the tasks that depend on these."""
    comment: Annotated[str, Meta(max_length=TEXT_LIMIT)] = ""


DOWNTIME_KEYS: Final = DowntimeKeys.__struct_encode_fields__


def downtime_from_table(
    errors: DocumentErrors, path: tuple[str | int, ...], table: dict[str, Any], default_zone: str | None = None
) -> Downtime | None:
    """The downtime of a table; None if it has errors, which go to `errors`."""
    before = len(errors)
    known = errors.known_keys(path, table, DOWNTIME_KEYS)
    if default_zone is not None:
        known.setdefault("zone", default_zone)
    known |= {key: known[key].isoformat() for key in _TIME_KEYS if isinstance(known.get(key), date)}
    keys = errors.convert(path, known, DowntimeKeys)
    if keys is None or len(errors) > before:
        return None
    try:
        found = _downtime_of(keys)
    except Invalid as e:
        errors.refuse((*path, *filter(None, (e.place,))), Invalid(e.problem, column=e.column))
        return None
    for place, problem in downtime_errors(found):
        errors.refuse((*path, *place), problem)
    return found


def _downtime_of(keys: DowntimeKeys) -> Downtime:
    with prefix_place("zone"):
        where = zone(keys.zone)
    start, end = _instant("from", keys.start, where), _instant("until", keys.until, where)
    if keys.start is None and keys.until is None and keys.period is None:
        raise Invalid("a downtime without a time, accepted: one or more of from, until, period")
    return Downtime(
        *(IN_FILE, keys.names, keys.owner, keys.labels, start, end, keys.period, keys.dependents, keys.comment)
    )


def _instant(key: str, text: str | None, where: Zone) -> Instant | None:
    with prefix_place(key):
        return None if text is None else parse_instant(text, where)


def downtime_errors(downtime: Downtime) -> Iterator[tuple[ReferencePath, str]]:
    """Texts of a downtime that could not be shown or typed, or too many patterns: where, and what is wrong."""
    patterns = sum(map(is_pattern, downtime.names))
    if patterns > MAX_PATTERNS:
        yield ("names",), f"{patterns} patterns, accepted: up to {MAX_PATTERNS}, and {MAX_DOWNTIME_NAMES:,} names"
    for i, name in enumerate(downtime.names):
        if problem := name_error(name):
            yield ("names", i), problem
    if downtime.owner is not None and (problem := text_error(downtime.owner)):
        yield ("owner",), problem
    for key, value in downtime.labels.items():
        if problem := text_error(key) or text_error(value):
            yield ("labels", key), problem
    if problem := lines_error(downtime.comment):
        yield ("comment",), problem


def patterns_error(downtimes: Iterable[Downtime]) -> str:
    """What to say of so many patterns in these downtimes; empty if they are not too many."""
    patterns = sum(is_pattern(name) for downtime in downtimes for name in downtime.names)
    if patterns <= MAX_PATTERNS_IN_ALL:
        return ""
    return f"{patterns:,} patterns in all downtimes, accepted: up to {MAX_PATTERNS_IN_ALL:,}; labels need none"


def downtime_table(downtime: Downtime) -> dict[str, Any]:
    """The keys of a downtime, as a file would have them."""
    utc = zone("UTC")
    table: dict[str, Any] = {
        "names": list(downtime.names),
        "owner": downtime.owner,
        "labels": dict(downtime.labels),
        "from": None if downtime.start is None else format_instant(downtime.start, utc),
        "until": None if downtime.end is None else format_instant(downtime.end, utc),
        "period": downtime.period,
        "comment": downtime.comment,
    }
    kept = {key: value for key, value in table.items() if value not in (None, "", [], {})}
    return kept if downtime.dependents else {**kept, "dependents": False}
