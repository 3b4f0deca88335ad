"""`evenbeat set`: change keys of a task, by the same rules and with the same messages as in a file."""

import argparse
import sys
from typing import Any

from evenbeat.admin.file_owner import OVERWRITTEN, file_of
from evenbeat.cli.output.common import now
from evenbeat.cli.task_commands import asking, changing, need, tell
from evenbeat.cli.typed_values import value_of
from evenbeat.load.one_off import with_resolved_at
from evenbeat.load.task_keys import changed as changed_table
from evenbeat.load.task_keys import flat, task_of
from evenbeat.model import Invalid


def answer(args: argparse.Namespace) -> int:
    """Change it; exit 0."""
    changes = with_resolved_at(_changes(args.changes), now())
    with asking(args) as side:
        entry = need(side, args.name)
    before = entry.task
    task = task_of(before.name, changed_table(flat(before), changes), check=before.check)
    with changing(args) as door:
        changed = door.set(entry.id, task, entry.version)
    tell(args, changed)
    if (file := file_of(entry.owner)) is not None:
        print(f"evenbeat set: {before.name} comes from {file}: {OVERWRITTEN}", file=sys.stderr)
    return 0


def _changes(texts: list[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Invalid(f"{text!r} is not KEY=VALUE, such as every=10m; KEY= is back to the default")
        changes[key] = value_of(value) if value else None
    return changes
