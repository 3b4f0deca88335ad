"""A cron entry in plain English: cronsim's sentence for the resolved entry, plus second, zone and the rule of days."""

import re

from cronsim.explain import Expression

from evenbeat.model import Invalid
from evenbeat.when.cron import Cron
from evenbeat.when.cron_entry import Field, parse_entry

_OCCASION_TEXT = {"@reboot": "At every start of the node", "@shutdown": "At every orderly stop of the node"}


def explain_cron(cron: Cron) -> str:
    """One sentence a colleague would say."""
    expression = Expression([_simplest(field) for field in parse_entry(cron.resolved).fields])
    expression.day_and = cron.times.day_and
    text = re.sub(r"\b(\d+)th\b", lambda m: _ordinal(int(m[1])), expression.explain())
    if not cron.times.day_and:
        weekday = str(expression.dow)
        text = text.replace(f" and {weekday}", f" or {weekday}, whichever matches")
    second = f", {cron.second} s past the minute" if cron.second else ""
    return f"{text}{second}, {cron.zone.name} time."


def _simplest(field: Field) -> str:
    # cronsim would tell `*/90` as "every 90th minute"; it is minute 0.
    return ",".join(
        str(t.values[0]) if "/" in t.text and len(t.values) == 1 and isinstance(t.values[0], int) else t.text
        for t in field.terms
    )


def explain_occasion(text: str) -> str:
    """What `@reboot` and `@shutdown` mean."""
    entry = parse_entry(text)
    if entry.occasion is None:
        raise Invalid(f"{text!r} is not an event")
    return _OCCASION_TEXT[entry.occasion] + "."


def _ordinal(n: int) -> str:
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"
