"""`evenbeat add`: one new task, by the same rules and with the same messages as in a file."""

import argparse
from typing import Any

from evenbeat.cli.arguments import KEY_OPTIONS
from evenbeat.cli.output.common import now
from evenbeat.cli.task_commands import changing, pairs, tell, who
from evenbeat.cli.typed_values import value_of
from evenbeat.load.one_off import with_resolved_at
from evenbeat.load.task_keys import task_of
from evenbeat.model import Invalid

_TEXTS = ("function", "cwd", "user", "limit", "period", "zone", "cron", "calendar", "at", "start_at")
"""Keys whose values are texts, whatever they look like."""


def answer(args: argparse.Namespace) -> int:
    """Add it; exit 0."""
    task = task_of(args.name, with_resolved_at(_table(args), now()), check=args.check)
    with changing(args, new=True) as door:
        changed = door.add([task], args.owner or who())
    tell(args, changed)
    return 0


def _table(args: argparse.Namespace) -> dict[str, Any]:
    """What the options say, as a file would."""
    if args.work and args.function is not None:
        raise Invalid("a task has a command or a function, found both")
    table: dict[str, Any] = {}
    for key, _, _ in KEY_OPTIONS:
        text = getattr(args, key)
        if text is not None:
            table[key] = text if key in _TEXTS else value_of(text)
    if args.work:
        table["command"] = " ".join(args.work) if args.shell else args.work
    if args.passive:
        table["passive"] = True
    if args.shell:
        table["shell"] = True
    if args.arg:
        table["args"] = [value_of(text) for text in args.arg]
    if args.kwarg:
        table["kwargs"] = {key: value_of(text) for key, text in pairs(args.kwarg, "--kwarg").items()}
    if args.env:
        table["env"] = pairs(args.env, "--env")
    if args.label:
        table["labels"] = pairs(args.label, "--label")
    if args.disabled:
        table["enabled"] = False
    return table
