"""`evenbeat next`: the next nominal times of a schedule."""

import argparse
from itertools import islice

from rich.markup import escape

from evenbeat.cli.output.common import (
    at_option,
    console,
    duration_option,
    name_option,
    now,
    period_option,
    print_json,
    second_option,
)
from evenbeat.model import Days, Hash, Instant, Invalid, Schedule
from evenbeat.when.calendar import Calendar
from evenbeat.when.cron import Cron
from evenbeat.when.duration import format_duration, spoken_duration
from evenbeat.when.explain import explain_cron, explain_occasion
from evenbeat.when.instant import LATEST, format_instant, to_datetime
from evenbeat.when.interval import Interval
from evenbeat.when.lint import cron_warnings
from evenbeat.when.nominal_times import CompiledSchedule, ListedSchedule
from evenbeat.when.schedule import NodeEventSchedule, compile_schedule
from evenbeat.when.spread import hash_phase
from evenbeat.when.zone import Zone, zone

MOST_TIMES = 10_000


def run_command(args: argparse.Namespace) -> int:
    """Print the times; exit 0."""
    if not 1 <= args.n <= MOST_TIMES:
        raise Invalid(f"{args.n} is out of range, accepted: 1 to {MOST_TIMES}", place="-n")
    schedule, text = _schedule(args)
    times = compile_schedule(schedule, name_option(args.name))
    where = times.zone if isinstance(times, Cron | Calendar) else zone(schedule.zone)
    start = at_option(args.from_, where, now(), "--from")
    inside = _inside(times, args, where)
    found = list(islice(inside.between(Instant(start + 1), LATEST), args.n))
    warnings = cron_warnings(times.entry, schedule.days) if isinstance(times, Cron) else []
    if not found and not isinstance(times, NodeEventSchedule):
        warnings.append("no nominal time is left" if inside is times else "no nominal time inside within 50 years")
    if args.json:
        print_json(
            {
                "schedule": text,
                "resolved": times.resolved if isinstance(times, Cron) else None,
                "zone": where.name,
                "next": [format_instant(t, where) for t in found],
                "warnings": warnings,
            }
        )
    else:
        _show(text, times, found, start, where, warnings)
    return 0


def _schedule(args: argparse.Namespace) -> tuple[Schedule, str]:
    given = [k for k in ("cron", "every", "calendar", "at") if getattr(args, k) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise Invalid(f"give one of CRON, --every, --calendar, --at; found {found}")
    kind = given[0]
    _refuse_unrelated_options(args, kind)
    if kind == "cron":
        days, hash_ = Days(args.days), Hash(args.hash)
        second = second_option(args.second)
        return Schedule(cron=args.cron, zone=args.zone, days=days, hash=hash_, second=second), args.cron
    if kind == "every":
        every, phase = _interval_grid(args)
        return Schedule(every=every, phase=phase, zone=args.zone), f"every {format_duration(every)}"
    if kind == "calendar":
        return Schedule(calendar=args.calendar, zone=args.zone), f"calendar {args.calendar}"
    return Schedule(at=args.at, zone=args.zone), f"at {args.at}"


def _refuse_unrelated_options(args: argparse.Namespace, kind: str) -> None:
    for option, default in (("hash", Hash.STABLE), ("days", Days.OR), ("second", "spread")):
        if kind != "cron" and getattr(args, option) != default:
            raise Invalid(f"only for cron entries, not for --{kind}", place=f"--{option}")
    if kind != "every" and args.phase is not None:
        raise Invalid("only for --every", place="--phase")


def _interval_grid(args: argparse.Namespace) -> tuple[int, int]:
    every = duration_option(args.every, "--every")
    if args.phase is None:
        return every, hash_phase(args.name, every) if args.name else 0
    return every, duration_option(args.phase, "--phase")


def _inside(times: CompiledSchedule, args: argparse.Namespace, where: Zone) -> ListedSchedule:
    if not args.period and not args.exclude:
        return times
    # Periods need numpy, whose import would delay a plain `next`.
    from evenbeat.when.inside_period import within_period  # noqa: PLC0415

    return within_period(times, period_option(args.period, where.name, include=[], exclude=args.exclude))


def _show(
    text: str, times: CompiledSchedule, found: list[Instant], start: Instant, where: Zone, warnings: list[str]
) -> None:
    out = console()
    out.print(f"[bold]{escape(text)}[/bold]")
    if isinstance(times, Cron):
        out.print(f"  {escape(explain_cron(times))}")
        if times.resolved != times.entry.text:
            out.print(f"  resolved: [cyan]{escape(times.resolved)}[/cyan]")
    elif isinstance(times, Interval):
        out.print(f"  phase {format_duration(times.phase)}, on the grid of the Unix epoch, {where.name} time.")
    elif isinstance(times, NodeEventSchedule):
        out.print(f"  {explain_occasion(text)}")
    out.print()
    for t in found:
        local = to_datetime(t, where)
        shown = f"{local:%a} {local.isoformat(sep=' ', timespec='milliseconds' if t % 1_000_000 else 'seconds')}"
        out.print(f"  {shown}   [dim]in {spoken_duration(t - start)}[/dim]")
    for warning in warnings:
        out.print(f"  [yellow]![/yellow] {escape(warning)}")
