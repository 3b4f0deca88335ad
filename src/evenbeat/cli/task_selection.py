"""Which tasks a command is about, and what it says of those that it has changed."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from rich.text import Text

from evenbeat.cli.output.common import SafeConsole, print_json
from evenbeat.client.contract import Client
from evenbeat.model import Entry, Invalid
from evenbeat.name_patterns import is_pattern
from evenbeat.store.contract import Filter

if TYPE_CHECKING:
    from evenbeat.wire.replies import ChangeResult, Names

MAX_PROBLEM_ID: Final = 10**18


def require_task(client: Client, name: str) -> Entry:
    """A task by name; raise Invalid, with a similar name, if it does not exist."""
    entry = client.find(name)
    if entry is None:
        raise Invalid(f"there is no task {name!r}{_similar_name(client, name)}")
    return entry


def _similar_name(client: Client, name: str) -> str:
    like = get_close_matches(name, client.names(), n=1)
    return f"; did you mean {like[0]!r}?" if like else ""


def nothing_matches(client: Client, names: Sequence[str]) -> str:
    """That no task matches, with a name or a pattern that resembles the first and matches some."""
    wanted, beginning = names[0], names[0].rstrip("*")
    is_prefix = wanted != beginning and not any(sign in beginning for sign in "*?")
    if is_prefix:
        lengths = range(max(len(beginning) - 1, 1), len(beginning) + 2)
        known = {name[:length] for name in client.names() for length in lengths}
    else:
        known = set(client.names())
    like = get_close_matches(beginning if is_prefix else wanted, known, n=1)
    found = f"; did you mean {like[0] + '*' * is_prefix!r}?" if like else ""
    return f"no task matches {', '.join(map(repr, names[:5]))}{found}"


def say_if_nothing_matches(args: argparse.Namespace, client: Client) -> None:
    """Of a command that found nothing to do: on stderr, that no task has such a name."""
    if args.names and next(client.conditions(Filter(names=tuple(args.names))), None) is None:
        print(f"evenbeat {args.command}: {nothing_matches(client, args.names)}", file=sys.stderr)


def task_filter(args: argparse.Namespace) -> Filter:
    """The tasks that the options select."""
    return Filter(
        names=tuple(args.names), owner=args.owner, labels=key_value_options(args.label, "--label"), state=args.state
    )


def required_task_filter(args: argparse.Namespace, client: Client) -> Filter:
    """The tasks that a change is about: it takes an option or a name to mean any, and every plain name must exist."""
    for name in args.names:
        if not is_pattern(name):
            require_task(client, name)
    return task_filter(args)


def require_selection(args: argparse.Namespace) -> None:
    """Refuse a change that names no tasks, before anything is asked."""
    if not args.names and args.owner is None and not args.label and args.state is None:
        raise Invalid("which tasks? Give names or patterns, --owner, --label or --state; '*' means all")


def key_value_options(texts: Sequence[str], option: str) -> dict[str, str]:
    """K=V options."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Invalid(f"{text!r} is not K=V", place=option)
        found[key] = value
    return found


@contextmanager
def show_progress(doing: str) -> Iterator[None]:
    """On a terminal: show what is being done while it takes long."""
    err = SafeConsole(stderr=True)
    if not err.is_terminal:
        yield
        return
    with err.status(Text(f"{doing} ...")):
        yield


def print_changes(args: argparse.Namespace, changed: "ChangeResult | Names") -> None:
    """Print what was created, changed and removed."""
    for notice in changed.notices:
        print(f"evenbeat {args.command}: {notice}", file=sys.stderr)
    kinds = {
        "created": _task_names(changed.created),
        "changed": _task_names(changed.changed),
        "removed": _task_names(changed.removed),
    }
    if args.json:
        print_json({**kinds, "unchanged": changed.unchanged})
        return
    for word, names in kinds.items():
        if len(names) == 1:
            print(f"{word} {names[0]}")
    parts = [f"{len(names):,} {word}" for word, names in kinds.items() if len(names) > 1]
    if changed.unchanged:
        parts.append(f"{changed.unchanged:,} unchanged")
    if parts:
        print(", ".join(parts))
    elif not any(kinds.values()):
        print("contacts, periods, limits or settings changed" if changed.settings else "nothing changed")


def _task_names(things: Sequence[Entry | str]) -> list[str]:
    return [thing if isinstance(thing, str) else thing.task.name for thing in things]
