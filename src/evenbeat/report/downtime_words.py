"""Downtimes in words: which tasks, when, who set it and why."""

from typing import Final

from evenbeat.model import Downtime
from evenbeat.report.words import first_line
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import Zone, zone

_NAMES_SHOWN: Final = 3
_UTC: Final = zone("UTC")


def selection_words(downtime: Downtime) -> str:
    """ "web*, db and 4 more, owner ops, label site=a, without dependents"."""
    shown = ", ".join(downtime.names[:_NAMES_SHOWN])
    more = len(downtime.names) - _NAMES_SHOWN
    parts = [f"{shown} and {more:,} more" if more > 0 else shown] if downtime.names else []
    parts += [] if downtime.owner is None else [f"owner {downtime.owner}"]
    parts += [f"label {key}={value}" for key, value in downtime.labels.items()]
    parts += [] if downtime.dependents else ["without dependents"]
    return ", ".join(parts)


def time_words(downtime: Downtime, where: Zone = _UTC) -> str:
    """ "from Mon ... until Mon ..., only in period night"."""
    parts = [] if downtime.start is None else [f"from {spoken_instant(downtime.start, where)}"]
    parts += [] if downtime.end is None else [f"until {spoken_instant(downtime.end, where)}"]
    period = "" if downtime.period is None else f"{', ' if parts else ''}only in period {downtime.period}"
    return " ".join(parts) + period


def in_downtime_words(downtime: Downtime, where: Zone) -> str:
    """ "in downtime d3f9a1c until Mon ..., set by ana: new disks"."""
    until = "" if downtime.end is None else f" until {spoken_instant(downtime.end, where)}"
    period = "" if downtime.period is None else f", in period {downtime.period}"
    comment = first_line(downtime.comment)
    return f"in downtime {downtime.id}{until}{period}, set by {downtime.who}{f': {comment}' if comment else ''}"


def downtime_sentence(downtime: Downtime, where: Zone = _UTC) -> str:
    """ "web*: from ... until ...: new disks"."""
    comment = first_line(downtime.comment)
    return f"{selection_words(downtime)}: {time_words(downtime, where)}{f': {comment}' if comment else ''}"
