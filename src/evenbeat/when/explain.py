"""A cron entry in plain English: cronsim's sentence for the resolved entry, plus second, zone and the rule of days."""

import re
from typing import Final

from cronsim.explain import Expression

from evenbeat.model import Invalid
from evenbeat.when.cron import Cron
from evenbeat.when.cron_entry import DAY_FIELD, FIELDS, WEEKDAY_FIELD, CronField, CronTerm, parse_cron_entry

_FEW: Final = 3
"""Up to this many values, a list is clearer than a step."""
_OCCASION_TEXT: Final = {"@reboot": "At every start of the node", "@shutdown": "At every orderly stop of the node"}


def explain_cron(cron: Cron) -> str:
    """One sentence a colleague would say."""
    fields = parse_cron_entry(cron.resolved).fields
    texts = [_simplest(kind, field) for kind, field in enumerate(fields)]
    either_day = not cron.times.day_and
    if either_day and _is_every_day(fields[DAY_FIELD], fields[WEEKDAY_FIELD]):
        texts[DAY_FIELD] = texts[WEEKDAY_FIELD] = "*"
        either_day = False
    expression = Expression(texts)
    expression.day_and = not either_day
    text = re.sub(r"\b(\d+)th\b", lambda m: _ordinal(int(m[1])), expression.explain())
    if either_day:
        weekday = str(expression.dow)
        text = text.replace(f" and {weekday}", f" or {weekday} (whichever matches)")
    second = f", {cron.second} s past the minute" if cron.second else ""
    return f"{text}{second}, {cron.zone.name} time."


def _is_every_day(day: CronField, weekday: CronField) -> bool:
    # Either suffices, so a field written as all of its values (1-31) leaves nothing for the other to choose.
    return day.values >= set(range(1, 32)) or {v % 7 for v in weekday.values if isinstance(v, int)} == set(range(7))


def _simplest(kind: int, field: CronField) -> str:
    return ",".join(_simplest_term(len(FIELDS[kind].values), term) for term in field.terms)


def _simplest_term(size: int, term: CronTerm) -> str:
    # cronsim tells `*/90` as "every 90th minute" and `*/31` as "every 31st"; they are minute 0, and 0 and 31.
    head, _, step = term.text.partition("/")
    few = len(term.values) <= _FEW
    uneven = step and (head != "*" or size % int(step) or int(step) >= size)
    # Sunday is 0 and 7.
    values = dict.fromkeys(v % 7 if size == 8 and isinstance(v, int) else v for v in term.values)
    return ",".join(map(str, values)) if few and uneven else term.text


def explain_occasion(text: str) -> str:
    """What `@reboot` and `@shutdown` mean."""
    entry = parse_cron_entry(text)
    if entry.occasion is None:
        raise Invalid(f"{text!r} is not an event")
    return _OCCASION_TEXT[entry.occasion] + "."


def _ordinal(n: int) -> str:
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"
