"""Converts the scheduled downtimes of Nagios, which stand in its status.dat and retention.dat, to downtimes.

A downtime of a host is one of all its checks, as Nagios tells nothing of services whose host is in downtime.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from evenbeat.load.importers.nagios_objects import NagiosObject
from evenbeat.load.importers.nagios_report import NagiosReport
from evenbeat.load.safe_text import lines_error
from evenbeat.model import SECOND, TEXT_LIMIT, Instant
from evenbeat.when.instant import LATEST, format_instant
from evenbeat.when.zone import zone

DOWNTIME_BLOCKS: Final = ("hostdowntime", "servicedowntime")
_FLEXIBLE: Final = "0"


def downtime_tables(
    blocks: Iterable[NagiosObject], checks: Collection[tuple[str, str]], report: NagiosReport
) -> Iterator[dict[str, Any]]:
    """The tables of `[[downtimes]]`; `checks` are the hosts and services that are imported, "" for that of a host."""
    hosts = {host for host, _ in checks}
    for one in blocks:
        host, service = one.get("host_name"), one.get("service_description")
        what = f"the downtime of {f'{service!r} on ' if service else ''}{host!r}"
        start, end = _time(one.get("start_time")), _time(one.get("end_time"))
        if (host, service) not in checks if one.kind == "servicedowntime" else host not in hosts:
            report.omit_of(one, what, "no such check is carried over")
        elif one.get("fixed") == _FLEXIBLE:
            report.omit_of(one, what, "it is flexible, so it would begin with a problem")
        elif start is None or end is None or end <= start:
            report.omit_of(one, what, "its times are not understood")
        else:
            labels = {"host": host} | ({"service": service} if service else {})
            table = {"labels": labels, "from": start, "until": end, "dependents": False}
            comment = ": ".join(filter(None, (one.get("author"), one.get("comment"))))[:TEXT_LIMIT]
            if lines_error(comment):
                report.omit_of(
                    one.values.get("comment", one),
                    f"the comment of {what}",
                    lines_error(comment),
                )
                comment = ""
            yield {**table, "comment": comment} if comment else table


def _time(text: str) -> str | None:
    """Seconds since 1970, as files have times."""
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(LATEST))):
        return None
    return format_instant(Instant(int(text) * SECOND), zone("UTC")) if int(text) * SECOND < LATEST else None
