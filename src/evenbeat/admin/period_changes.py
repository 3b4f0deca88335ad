"""Tasks whose nominal times a change of periods affects, with their definitions before the change."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from evenbeat.model import Entry, Instant, Period
from evenbeat.store.contract import PastDefinition


def definitions_before_change(
    entries: Iterable[Entry], before: Mapping[str, Period], names: Collection[str], now: Instant
) -> Iterator[PastDefinition]:
    """Tasks that use the named periods, directly or through others, with the periods before the change."""
    affected = periods_and_users(before, names)
    for entry in entries:
        if entry.task.period in affected:
            yield PastDefinition(entry.number, now, entry.task, periods_used_by(before, entry.task.period))


def periods_and_users(periods: Mapping[str, Period], names: Collection[str]) -> set[str]:
    """The given periods and all that include or exclude them, directly or not."""
    found = set(names)
    while more := {n for n, p in periods.items() if n not in found and found & {*p.include, *p.exclude}}:
        found |= more
    return found


def periods_used_by(periods: Mapping[str, Period], name: str | None) -> dict[str, Period]:
    """A period and all periods that it includes or excludes, directly or not."""
    found: dict[str, Period] = {}
    asked = [name]
    while asked:
        one = asked.pop()
        if one is not None and one in periods and one not in found:
            found[one] = periods[one]
            asked += [*periods[one].include, *periods[one].exclude]
    return found
