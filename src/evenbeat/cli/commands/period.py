"""`evenbeat period`: whether a period is open, when it next opens and closes, and its windows up to a time."""

import argparse

from evenbeat.cli.output.common import at_option, console, now, period_option, print_json
from evenbeat.model import WEEK, Instant, Invalid, Prefer, prefix_place
from evenbeat.when.duration import spoken_duration
from evenbeat.when.instant import format_instant, spoken_instant
from evenbeat.when.period import HORIZON
from evenbeat.when.windows import Window
from evenbeat.when.zone import Zone, zone

LONGEST = HORIZON
"""The longest span that is listed; anything beyond is probably a typing mistake."""


def run_command(args: argparse.Namespace) -> int:
    """Print the state and the windows; exit 0."""
    with prefix_place("zone"):
        zone(args.zone)
    period = period_option(
        args.lines, args.zone, include=args.include, exclude=args.exclude, prefer=Prefer(args.prefer)
    )
    where = zone(args.zone)
    start = at_option(args.from_, where, now(), "--from")
    end = at_option(args.to, where, Instant(start + WEEK), "--to")
    if not start < end <= start + LONGEST:
        found = format_instant(end, where)
        raise Invalid(f"{found}: accepted is a time after --from, by at most 50 years", place="--to")
    inside = period.contains(start)
    windows = period.windows(start, end)
    opens, closes = period.next_open(start), period.next_close(start)
    if args.json:
        print_json(
            {
                "inside": inside,
                "next_open": None if opens is None else format_instant(opens, where),
                "next_close": None if closes is None else format_instant(closes, where),
                "windows": [[format_instant(o, where), format_instant(c, where)] for o, c in windows],
            }
        )
    else:
        _show(inside, start, opens, closes, windows, where)
    return 0


def _show(
    inside: bool,  # noqa: FBT001
    start: Instant,
    opens: Instant | None,
    closes: Instant | None,
    windows: list[Window],
    where: Zone,
) -> None:
    out = console()
    state = "[bold green]open[/bold green]" if inside else "[bold red]closed[/bold red]"
    out.print(f"{state} at {spoken_instant(start, where)}, {where.name} time")
    for word, edge in sorted((("opens", opens), ("closes", closes)), key=lambda e: (e[1] is None, e[1])):
        when = "not within 50 years"
        if edge is not None:
            when = f"{spoken_instant(edge, where)}   [dim]in {spoken_duration(edge - start)}[/dim]"
        out.print(f"  next {word} {when}")
    out.print()
    for open_, close in windows:
        window = f"{spoken_instant(open_, where)}  -  {spoken_instant(close, where)}"
        out.print(f"  {window}   [dim]{spoken_duration(close - open_)}[/dim]")
