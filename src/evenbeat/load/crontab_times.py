"""When an entry of a crontab is due: its fields or alias, random ranges and `@every` as schedules."""

import re
from typing import Final

from evenbeat.model import Invalid, Schedule
from evenbeat.when.duration import parse_duration

CLASSIC_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""When cron runs its aliases: all at once."""

_RANDOM: Final = re.compile(r"(?P<low>\d*)~(?P<high>\d*)(?P<step>/\d+)?")
"""A random value of a range: of cronie and OpenBSD."""
_LARGEST: Final = (59, 23, 28, 12, 6)
"""Of each field, where a random range names no end; a day of month that every month has."""
NEVER_DUE: Final = "no date ever"
"""How the refusal of an entry begins that is never due: `0 0 31 2 *`."""


def crontab_schedule(fields: str, zone: str, *, spread: bool) -> Schedule:
    """The schedule of these fields; raise Invalid with the column."""
    words = fields.split()
    if words[0].lower() == "@every":
        offset = fields.rindex(words[-1]) if len(words) > 1 else len(fields) + 1
        return _interval(words[1] if len(words) > 1 else "", zone, offset)
    text = fields.lower() if fields[0] == "@" else fields
    cron = text if spread else CLASSIC_ALIASES.get(text, text)
    return Schedule(cron=_with_hashes(cron) if "~" in cron else cron, zone=zone, second=None if spread else 0)


def _interval(text: str, zone: str, offset: int) -> Schedule:
    try:
        return Schedule(every=parse_duration(text), zone=zone)
    except Invalid as e:
        raise Invalid(e.problem, column=offset + (e.column or 1)) from None


def _with_hashes(fields: str) -> str:
    """Fields with H in place of random ranges: `0~29 ~ * * *` is `H(0-29) H * * *`."""

    def field_with_hashes(index: int, field: str) -> str:
        def hashed(found: "re.Match[str]") -> str:
            low, high, step = found["low"], found["high"], found["step"] or ""
            whole = not low and not high
            least = low or ("1" if index in (2, 3) else "0")
            return f"H{step}" if whole else f"H({least}-{high or _LARGEST[index]}){step}"

        return ",".join(_RANDOM.sub(hashed, term) if _RANDOM.fullmatch(term) else term for term in field.split(","))

    return " ".join(field_with_hashes(i, field) for i, field in enumerate(fields.split()))
