"""`evenbeat periods`: named periods and whether they are open; define, change or remove one."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len
from rich.text import Text

from evenbeat.admin.tasks_of_files import OVERWRITTEN_NOTICE, file_of_owner
from evenbeat.cli.output.common import console, now, print_json
from evenbeat.cli.output.task_words import relative_time
from evenbeat.cli.typed_values import parse_value
from evenbeat.cli.which_database import database_option, open_client, url_option
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.safe_text import escaped_line, name_error
from evenbeat.load.write_toml import period_table
from evenbeat.model import NAME_LIMIT, WEEK, Instant, Invalid, Period
from evenbeat.when.instant import format_instant, spoken_instant
from evenbeat.when.period import CompiledPeriod, compile_periods

_ACTIONS: Final = ("ls", "show", "set", "rm")
_LIST_KEYS: Final = ("ranges", "include", "exclude")
_NO_PERIODS: Final = "no periods; [periods.NAME] in a file defines one, or `evenbeat periods set NAME LINE...`"
_HEADINGS: Final = ("name", "now", "next change", "times")

Periods = dict[str, tuple[str, Period]]


def run_command(args: argparse.Namespace) -> int:
    """List periods, or change one; exit 0."""
    if args.action not in _ACTIONS:
        if args.name is not None:
            raise Invalid(f"{args.action[:64]!r} is none of {', '.join(_ACTIONS)}; `evenbeat periods NAME` shows one")
        args.action, args.name = "show", args.action
    if args.action == "ls":
        if args.name:
            raise Invalid("`evenbeat periods` lists all periods, and takes no name")
        return _list(args)
    if not args.name:
        raise Invalid(f"which period? `evenbeat periods {args.action} NAME`")
    if args.action == "set":
        return _set(args)
    if args.changes:
        raise Invalid(f"`evenbeat periods {args.action}` takes one name")
    return _show(args) if args.action == "show" else _remove(args)


def _list(args: argparse.Namespace) -> int:
    with open_client(args) as client:
        found = client.periods()
    compiled, at = _compiled(found), now()
    if args.json:
        print_json({"periods": [_document(name, found[name], compiled[name], at) for name in sorted(found)]})
        return 0
    if not found:
        print(_NO_PERIODS)
        return 0
    rows = [_HEADINGS, *(_row(name, found[name][1], compiled[name], at) for name in sorted(found))]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(_HEADINGS) - 1)]
    out = console()
    for i, row in enumerate(rows):
        cells = (cell + " " * (width - cell_len(cell) + 3) for cell, width in zip(row, widths, strict=False))
        out.print(Text("".join((*cells, row[-1])), style="" if i else "dim"))
    return 0


def _row(name: str, period: Period, compiled: CompiledPeriod, at: Instant) -> tuple[str, ...]:
    is_open = compiled.contains(at)
    change = compiled.next_close(at) if is_open else compiled.next_open(at)
    state, word = ("open", "closes") if is_open else ("closed", "opens")
    when = "never" if change is None else f"{word} {relative_time(change, at)}"
    return escaped_line(name), state, when, escaped_line(_words(period))


def _words(period: Period) -> str:
    """ "monday-friday 09:00-17:00; without public holidays; Europe/Paris time"."""
    inside = [*period.ranges, *([] if period.holidays is None else [f"public holidays of {period.holidays}"])]
    parts = [", ".join(inside) or ("always" if not period.include else "")]
    parts += [f"with {', '.join(period.include)}"] if period.include else []
    parts += [f"without {', '.join(period.exclude)}"] if period.exclude else []
    return "; ".join([*filter(None, parts), f"{period.zone} time"])


def _show(args: argparse.Namespace) -> int:
    with open_client(args) as client:
        found = client.periods()
    if args.name not in found:
        raise Invalid(f"there is no period {args.name[:NAME_LIMIT]!r}")
    owner, period = found[args.name]
    compiled, at = _compiled(found)[args.name], now()
    if args.json:
        print_json(_document(args.name, found[args.name], compiled, at))
        return 0
    out = console()
    _, state, change, words = _row(args.name, period, compiled, at)
    out.print(Text.assemble((escaped_line(args.name), "bold"), f"  {state}, {change}"))
    out.print(Text(f"  {words}"))
    out.print(Text(escaped_line(f"  of {owner}"), "dim"))
    for opens, closes in compiled.windows(at, Instant(at + WEEK)):
        window = f"{spoken_instant(opens, compiled.zone)}  -  {spoken_instant(closes, compiled.zone)}"
        out.print(Text(f"  {window}"))
    return 0


def _document(name: str, found: tuple[str, Period], compiled: CompiledPeriod, at: Instant) -> dict[str, Any]:
    owner, period = found
    opens, closes = compiled.next_open(at), compiled.next_close(at)
    return {
        "name": name,
        "owner": owner,
        **{key: getattr(period, key) for key in Period.__struct_fields__},
        "inside": compiled.contains(at),
        "next_open": None if opens is None else format_instant(opens, compiled.zone),
        "next_close": None if closes is None else format_instant(closes, compiled.zone),
    }


def _compiled(found: Periods) -> dict[str, CompiledPeriod]:
    return compile_periods({name: period for name, (_, period) in found.items()})


def _set(args: argparse.Namespace) -> int:
    changes = _changes(args.changes)
    if not 1 <= len(args.name) <= NAME_LIMIT:
        raise Invalid(f"accepted: 1 to {NAME_LIMIT} characters", place="name")
    if problem := name_error(args.name):
        raise Invalid(problem, place="name")
    with open_client(args, new=True) as client:
        found = {} if _is_new_database(args) else client.periods()
        owner, before = found.get(args.name, ("", None))
        table = {} if before is None else period_table(before)
        period = _period({key: value for key, value in {**table, **changes}.items() if value is not None})
        # The same words, whoever would refuse it.
        compile_periods({name: other for name, (_, other) in found.items()} | {args.name: period})
        client.set_period(args.name, period)
    _report(args, "created" if before is None else "changed")
    if (file := file_of_owner(owner)) is not None:
        print(f"evenbeat periods: {args.name} comes from {file}: {OVERWRITTEN_NOTICE}", file=sys.stderr)
    return 0


def _changes(texts: list[str]) -> dict[str, Any]:
    """Lines become the ranges, KEY=VALUE a key; an empty value restores the default."""
    changes: dict[str, Any] = {}
    lines = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            lines.append(text)
            continue
        parsed = parse_value(value) if value else None
        changes[key] = [parsed] if key in _LIST_KEYS and isinstance(parsed, str) else parsed
    if lines and "ranges" in changes:
        raise Invalid("give lines or ranges=..., not both")
    if lines:
        changes["ranges"] = lines
    if not changes:
        raise Invalid('when is it open? Lines such as "monday-friday 09:00-17:00", or KEY=VALUE')
    return changes


def _period(table: dict[str, Any]) -> Period:
    errors = DocumentErrors()
    period = errors.convert((), errors.known_keys((), table, Period.__struct_fields__), Period)
    if errors.errors or period is None:
        raise Invalid("\n".join(str(error) for _, error in errors.errors))
    return period


def _is_new_database(args: argparse.Namespace) -> bool:
    if url_option(args) is not None:
        return False
    path = database_option(args)
    return isinstance(path, Path) and not path.exists()


def _remove(args: argparse.Namespace) -> int:
    with open_client(args) as client:
        owner, _ = client.periods().get(args.name, ("", None))
        client.remove_period(args.name)
    _report(args, "removed")
    if (file := file_of_owner(owner)) is not None:
        print(f"evenbeat periods: {file} creates it again the next time it is applied", file=sys.stderr)
    return 0


def _report(args: argparse.Namespace, done: str) -> None:
    if args.json:
        print_json({done: args.name})
    else:
        print(f"{done} {args.name}")
