"""Read a cron entry: five fields with H, aliases and TZ=, errors that point at the column, H resolved by name."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from cronsim import CronSim

from evenbeat.model import TEXT_LIMIT, Hash, Invalid
from evenbeat.when.hashing import SECOND_NUMBER, Chooser, JenkinsChooser, StableChooser, stable_number


class CronFieldKind(NamedTuple):
    """The range of one cron field; `hashed` is what a bare H draws from."""

    name: str
    values: range
    hashed: range
    names: tuple[str, ...] = ()
    first_name: int = 0


FIELDS: Final = (
    CronFieldKind("minute", range(60), range(60)),
    CronFieldKind("hour", range(24), range(24)),
    CronFieldKind("day of month", range(1, 32), range(1, 29)),  # every month has a 28th
    CronFieldKind(
        "month",
        range(1, 13),
        range(1, 13),
        ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
        1,
    ),
    CronFieldKind("day of week", range(8), range(7), ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)
MINUTE_FIELD, HOUR_FIELD, DAY_FIELD, MONTH_FIELD, WEEKDAY_FIELD = range(5)

ALIASES: Final = {
    "@yearly": "H H H H *",
    "@annually": "H H H H *",
    "@monthly": "H H H * *",
    "@weekly": "H H * * H",
    "@daily": "H H * * *",
    "@midnight": "H H(0-2) * * *",
    "@hourly": "H * * * *",
}
OCCASIONS: Final = ("@reboot", "@shutdown")
"""Not times but events of the node: at every start, at every orderly stop."""

CronValue = int | tuple[int, int]
"""What a field holds: a number, or cronsim's marks for L, LW, `MON#2` and `5L`."""

_ZONE: Final = re.compile(r"\s*(?:CRON_)?TZ=(\S*)\s*", re.IGNORECASE)
_LIST_UP_TO: Final = 6
"""Longest list of H values written out in the resolved entry; more become a range with a step."""

_TERM: Final = re.compile(
    r"""(?P<hash>H(?:\((?P<h_lo>[^-()/,]*)(?P<h_dash>-)?(?P<h_hi>[^()/,]*)\))?)(?:/(?P<h_step>[^/]*))?
      | (?P<star>\*)(?:/(?P<star_step>[^/]*))?
      | (?P<lo>[^-/#*()]+)(?:-(?P<hi>[^-/#*()]*))?(?:/(?P<step>[^/]*))?
      | (?P<nth_day>[^-/#*()]+)\#(?P<nth>.*)""",
    re.VERBOSE,
)


class CronTerm(NamedTuple):
    """One element of a field's list: plain values, or an H that still has to draw them."""

    text: str
    values: tuple[CronValue, ...]
    hashed: range | None = None
    step: int = 0


class CronField(NamedTuple):
    """One parsed field. Without an H the values are final."""

    text: str
    terms: tuple[CronTerm, ...]
    values: frozenset[CronValue]
    uses_hash: bool


_STARS: Final = tuple(
    CronField("*", (CronTerm("*", tuple(kind.values)),), frozenset(kind.values), uses_hash=False) for kind in FIELDS
)
"""The field that most fields are."""


class CronEntry(NamedTuple):
    """A parsed entry. The same for every task that uses the text; H is resolved per name."""

    text: str
    zone: str | None
    start: int
    """Where the fields begin, after a TZ= prefix."""
    fields: tuple[CronField, ...]
    occasion: str | None = None
    plain: "ResolvedCronEntry | None" = None
    """The resolved entry that all tasks share, if it has no H."""

    def column(self, field: int) -> int:
        """Where a field begins, counted from 1; for an alias, where the alias does."""
        columns = _columns(self.text, self.start)
        return columns[field if len(columns) == 5 else 0]


class ResolvedCronEntry(NamedTuple):
    """A plain cron entry after H, and the values of its fields."""

    text: str
    fields: tuple[frozenset[CronValue], ...]
    texts: tuple[str, ...]


@lru_cache(maxsize=16384)
def parse_cron_entry(text: str) -> CronEntry:
    """Parse a cron entry; raise Invalid that names field and column."""
    if len(text) > TEXT_LIMIT:
        raise Invalid(f"an entry of {len(text)} characters, accepted: at most {TEXT_LIMIT}")
    zone, start = None, 0
    if "=" in text and (prefix := _ZONE.match(text)):
        zone, start = prefix[1], prefix.end()
    words = text[start:].split()
    if words and words[0][0] == "@":
        return _parse_alias(text, zone, " ".join(words), _columns(text, start)[0])
    if len(words) != 5:
        raise _wrong_count(words, _columns(text, start))
    fields: list[CronField] = []
    try:
        for kind, word_ in enumerate(words):
            fields.append(_parse_field(kind, word_.upper()))
    except Invalid as e:
        at = len(fields)
        column = _columns(text, start)[at] + (e.column or 1) - 1
        raise Invalid(e.problem, column=column, place=f"field {at + 1}") from None
    plain = None
    if not any(field.uses_hash for field in fields):
        texts = tuple([field.text for field in fields])
        plain = ResolvedCronEntry(" ".join(texts), tuple([field.values for field in fields]), texts)
    return CronEntry(text, zone, start, tuple(fields), None, plain)


def _columns(text: str, start: int) -> list[int]:
    """Where each word begins, counted from 1."""
    return [start + m.start() + 1 for m in re.finditer(r"\S+", text[start:])]


def _parse_alias(text: str, zone: str | None, alias: str, column: int) -> CronEntry:
    lower = alias.lower()
    if lower in OCCASIONS:
        return CronEntry(text, zone, column - 1, (), lower)
    if lower not in ALIASES:
        known = " ".join((*ALIASES, *OCCASIONS))
        raise Invalid(f"{alias!r} is not an alias, accepted: {known}", column=column)
    return parse_cron_entry(ALIASES[lower])._replace(text=text, zone=zone, start=column - 1)


def _wrong_count(words: list[str], columns: list[int]) -> Invalid:
    if not words:
        return Invalid("an empty entry, accepted: minute hour day-of-month month day-of-week, or an alias like @daily")
    found = f"{len(words)} field{'s' if len(words) > 1 else ''}, a cron entry has five"
    if len(words) == 6:
        return Invalid(f"{found}; the second is not a field here, `second = 0` pins it", column=columns[5])
    if len(words) < 5:
        return Invalid(f"{found}: {FIELDS[len(words)].name} is missing", column=columns[-1] + len(words[-1]))
    return Invalid(f"{found}: {words[5]!r} is too much", column=columns[5])


@lru_cache(maxsize=4096)
def _parse_field(kind: int, text: str) -> CronField:
    if text == "*":
        return _STARS[kind]
    terms, position = [], 0
    for part in text.split(","):
        try:
            terms.append(_parse_term(kind, part))
        except Invalid as e:
            raise Invalid(e.problem, column=position + (e.column or 1)) from None
        position += len(part) + 1
    if len(terms) == 1:
        return CronField(text, (terms[0],), frozenset(terms[0].values), terms[0].hashed is not None)
    values = frozenset(v for term in terms for v in term.values)
    return CronField(text, tuple(terms), values, any(t.hashed is not None for t in terms))


def _parse_term(kind: int, text: str) -> CronTerm:
    if not text:
        raise Invalid(f"an empty element in the list of the {FIELDS[kind].name} field")
    if text == "*":
        return _STARS[kind].terms[0]
    if text.isdecimal() and text.isascii():
        return CronTerm(text, (_number(kind, text, 1),))
    if (marks := _marks(kind, text)) is not None:
        return CronTerm(text, marks)
    m = _TERM.fullmatch(text)
    if m is None:
        raise Invalid(f"{text!r} is not understood, {_accepted(kind)}")
    if m["hash"]:
        return _hash_term(kind, text, m)
    if m["star"]:
        step = _step(m["star_step"], m.start("star_step") + 1)
        return CronTerm(text, tuple(FIELDS[kind].values[::step]))
    if m["nth_day"] is not None:
        return CronTerm(text, (_nth_weekday(kind, m),))
    lo = _number(kind, m["lo"], m.start("lo") + 1)
    if m["hi"] is None:
        if m["step"] is not None:
            last = FIELDS[kind].values[-1]
            raise Invalid(
                f"{text!r} has a step but no range, write {m['lo']}-{last}/{m['step']}", column=m.end("lo") + 1
            )
        return CronTerm(text, (lo,))
    hi = _number(kind, m["hi"], m.start("hi") + 1)
    step = 1 if m["step"] is None else _step(m["step"], m.start("step") + 1)
    if hi < lo:
        raise Invalid(f"the range {m['lo']}-{m['hi']} runs backwards{_instead(kind, lo, hi)}")
    return CronTerm(text, tuple(range(lo, hi + 1, step)))


def _instead(kind: int, lo: int, hi: int) -> str:
    if kind == WEEKDAY_FIELD and hi == 0:
        return f", write {lo}-7 (7 is Sunday too)"
    values = FIELDS[kind].values
    return f", write {lo}-{values[-1]},{values[0]}-{hi}"


def _hash_term(kind: int, text: str, m: re.Match[str]) -> CronTerm:
    hashed = FIELDS[kind].hashed
    if m["h_lo"] is not None:
        if m["h_dash"] is None:
            raise Invalid(f"{m['hash']!r} needs a range, such as H(0-29)", column=m.start("h_lo") + 1)
        lo = _number(kind, m["h_lo"], m.start("h_lo") + 1)
        hi = _number(kind, m["h_hi"], m.start("h_hi") + 1)
        if hi < lo:
            raise Invalid(f"the range {lo}-{hi} of H runs backwards, write H({hi}-{lo})", column=m.start("h_lo") + 1)
        hashed = range(lo, hi + 1)
    if m["h_step"] is None:
        return CronTerm(text, (), hashed)
    column = m.start("h_step") + 1
    step = _step(m["h_step"], column)
    if step > len(hashed):
        raise Invalid(
            f"{step} is too large a step, the range {hashed[0]}-{hashed[-1]} has {len(hashed)} values", column=column
        )
    return CronTerm(text, (), hashed, step)


def _marks(kind: int, text: str) -> tuple[CronValue, ...] | None:
    if kind == DAY_FIELD and text == "L":
        return (CronSim.LAST,)
    if kind == DAY_FIELD and text == "LW":
        return (CronSim.LAST_WEEKDAY,)
    if kind == WEEKDAY_FIELD and len(text) > 1 and text[-1] == "L":
        return ((_number(kind, text[:-1], 1), CronSim.LAST),)
    return None


def _nth_weekday(kind: int, m: re.Match[str]) -> tuple[int, int]:
    if kind != WEEKDAY_FIELD:
        raise Invalid("'#' belongs to the day-of-week field (MON#2 is the second Monday)", column=m.end("nth_day") + 1)
    if m["nth"] not in tuple("12345"):
        raise Invalid(f"{m['nth']!r} is not a week of the month, accepted: 1 to 5", column=m.start("nth") + 1)
    return _number(kind, m["nth_day"], 1), int(m["nth"])


def _number(kind: int, text: str, column: int) -> int:
    field = FIELDS[kind]
    if text in field.names:
        return field.names.index(text) + field.first_name
    if not (text.isdecimal() and text.isascii()):
        raise Invalid(f"{text!r} is not a value, {_accepted(kind)}", column=column)
    if len(text) > 4 or int(text) not in field.values:
        raise Invalid(f"{text} is out of range, {_accepted(kind)}", column=column)
    return int(text)


def _step(text: str, column: int) -> int:
    if not (text.isdecimal() and text.isascii()) or len(text) > 4:
        raise Invalid(f"{text!r} is not a step, accepted: a whole number from 1", column=column)
    if int(text) == 0:
        raise Invalid("a step of 0 goes nowhere, accepted: a whole number from 1", column=column)
    return int(text)


def _accepted(kind: int) -> str:
    field = FIELDS[kind]
    names = f" or {field.names[0]}-{field.names[-1]}" if field.names else ""
    marks = {DAY_FIELD: ", L, LW", WEEKDAY_FIELD: ", MON#2, 5L"}.get(kind, "")
    return (
        f"accepted for {field.name}: {field.values[0]}-{field.values[-1]}{names}{marks}, *, H, ranges, steps and lists"
    )


def resolve_hashes(entry: CronEntry, name: str, hash_: Hash = Hash.STABLE) -> ResolvedCronEntry:
    """Replace every H by the values its task has, for ever, by its name."""
    if entry.plain is not None:
        return entry.plain
    chooser: Chooser = JenkinsChooser(name) if hash_ == Hash.JENKINS else StableChooser(name)
    texts, fields = [], []
    for kind, field in enumerate(entry.fields):
        if not field.uses_hash:
            texts.append(field.text)
            fields.append(field.values)
            continue
        values: set[CronValue] = set(field.values)
        parts = []
        for term in field.terms:
            if term.hashed is None:
                parts.append(term.text)
                continue
            drawn = _draw(term, kind, chooser, jenkins=hash_ == Hash.JENKINS)
            values.update(drawn)
            parts.append(_plain(drawn))
        texts.append(",".join(parts))
        fields.append(frozenset(values))
    return ResolvedCronEntry(" ".join(texts), tuple(fields), tuple(texts))


def _draw(term: CronTerm, kind: int, chooser: Chooser, *, jenkins: bool) -> range:
    assert term.hashed is not None
    # Jenkins keeps "no step" and "a step of 1" in one number, so its H/1 is a bare H.
    if term.step == 0 or (jenkins and term.step == 1):
        start = chooser.below(len(term.hashed), kind)
        return term.hashed[start : start + 1]
    return term.hashed[chooser.below(term.step, kind) :: term.step]


def _plain(values: range) -> str:
    if len(values) <= _LIST_UP_TO:
        return ",".join(map(str, values))
    return f"{values[0]}-{values[-1]}" + (f"/{values.step}" if values.step > 1 else "")


def spread_second(name: str) -> int:
    """The second within the minute of a cron task that pins none: stable by name, independent of its H fields."""
    return stable_number(name, SECOND_NUMBER) % 60


def clear_parsed() -> None:
    """Forget every entry parsed so far (to measure what it costs)."""
    parse_cron_entry.cache_clear()
    _parse_field.cache_clear()
