"""What the commands that manage tasks share: the database, who types, which tasks are meant, and how long it takes."""

import argparse
import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from evenbeat.cli.common import print_json
from evenbeat.load.config import BadFileError
from evenbeat.model import Entry, Invalid
from evenbeat.store.contract import Filter, Store
from evenbeat.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from evenbeat.node.desk import Changed
    from evenbeat.node.door import Door

_DEFAULT: Final = "evenbeat.db"
_NAMES_LOOKED_AT: Final = 100_000
"""For a name like the one that was typed."""
_WILD: Final = ("*", "?")


def database(args: argparse.Namespace) -> Path:
    """`--db PATH`, or what the environment says."""
    return Path(args.db or os.environ.get("EVENBEAT_DB") or _DEFAULT)


def who() -> str:
    """The person at the keyboard, for the audit and as the owner of what they add."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # a container may run as somebody without a name


@contextmanager
def reading(args: argparse.Namespace) -> Iterator[Store]:
    """The store, for questions; a node may live on it meanwhile."""
    path = _existing(args)
    store = SqliteStore(path, read_only=True)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def changing(args: argparse.Namespace, *, new: bool = False) -> Iterator["Door"]:
    """The door to what is to be changed; `new` where the database need not exist yet."""
    from evenbeat.node.door import open_door  # noqa: PLC0415 - it needs numpy, which questions need not wait for

    path = database(args) if new else _existing(args)
    with _told_as_invalid(), open_door(path, who()) as door:
        yield door


@contextmanager
def _told_as_invalid() -> Iterator[None]:
    try:
        yield
    except BadFileError as e:
        raise Invalid(str(e)) from None


def _existing(args: argparse.Namespace) -> Path:
    path = database(args)
    if not path.exists():
        raise Invalid(f"there is no database {path}; `evenbeat up` and `evenbeat add` make one, --db names another")
    return path


def need(store: Store, name: str) -> Entry:
    """A task that must be there."""
    entry = store.find(name)
    if entry is None:
        raise Invalid(f"there is no task {name!r}{_hint(store, name)}")
    return entry


def _hint(store: Store, name: str) -> str:
    names = [entry.task.name for entry in islice(store.entries(), _NAMES_LOOKED_AT)]
    like = get_close_matches(name, names, n=1)
    return f"; did you mean {like[0]!r}?" if like else ""


def chosen(args: argparse.Namespace) -> Filter:
    """Which tasks are meant."""
    return Filter(names=tuple(args.names), owner=args.owner, labels=pairs(args.label, "--label"), state=args.state)


def chosen_on_purpose(args: argparse.Namespace) -> Filter:
    """The same for a change: nobody means everything by saying nothing, and every plain name must be there."""
    if not args.names and args.owner is None and not args.label and args.state is None:
        raise Invalid("which tasks? Give names or patterns, --owner, --label or --state; '*' means all")
    with reading(args) as store:
        for name in args.names:
            if not is_pattern(name):
                need(store, name)
    return chosen(args)


def is_pattern(name: str) -> bool:
    """Does it mean all names that look like it?"""
    return any(sign in name for sign in _WILD)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """K=V options."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Invalid(f"{text!r} is not K=V", place=option)
        found[key] = value
    return found


@contextmanager
def patience(doing: str) -> Iterator[None]:
    """Say what takes long, on a terminal, while it does."""
    err = Console(stderr=True)
    if not err.is_terminal:
        yield
        return
    with err.status(f"{doing} ..."):
        yield


def tell(args: argparse.Namespace, changed: "Changed") -> None:
    """What is different now."""
    if args.json:
        print_json(
            {
                "created": [entry.task.name for entry in changed.created],
                "changed": [entry.task.name for entry in changed.changed],
                "removed": [entry.task.name for entry in changed.removed],
                "unchanged": changed.unchanged,
            }
        )
        return
    kinds = (("created", changed.created), ("changed", changed.changed), ("removed", changed.removed))
    for word, entries in kinds:
        if len(entries) == 1:
            print(f"{word} {entries[0].task.name}")
    parts = [f"{len(entries):,} {word}" for word, entries in kinds if len(entries) > 1]
    if changed.unchanged:
        parts.append(f"{changed.unchanged:,} unchanged")
    if parts:
        print(", ".join(parts))
    elif not any(entries for _, entries in kinds):
        print("periods, limits or settings changed" if changed.settings else "nothing changed")
