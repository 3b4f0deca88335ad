"""A tour of what evenbeat can do today: `make run`."""

import shlex
import sys

from evenbeat.cli.main import main

STOPS = (
    (
        "A cron entry whose minute and hour the task's name chooses, for ever:",
        'next "H H(1-4) * * *" --name nightly-backup --zone Europe/Paris -n 3',
    ),
    ("The same in plain English, and what could be better about this one:", 'explain "*/15 9-17 13 * 5"'),
    (
        "A five-minute check that may only run in one minute a day still runs once each day:",
        'next --every 5m --phase 2m --period "monday-friday 09:00-09:01" -n 3',
    ),
    (
        "When are we open, public holidays left out?",
        'period "monday-friday 09:00-17:00" --exclude "holidays FR" --zone Europe/Paris',
    ),
    ("The load of examples/checks.toml over a day:", "spread examples/checks.toml"),
    (
        "Ten thousand checks, second by second, under each strategy:",
        "spread --tasks 10000 --every 10s,30s,1m,5m,15m,1h --strategy all",
    ),
)


def tour() -> int:
    """Show each stop; the first one that fails ends the tour."""
    for text, command in STOPS:
        sys.stdout.write(f"\n# {text}\n$ evenbeat {command}\n")
        sys.stdout.flush()
        if code := main(shlex.split(command)):
            return code
    sys.stdout.write("\nNow you: . .venv/bin/activate && evenbeat --help; then README.md and docs/tutorial.md\n")
    return 0


if __name__ == "__main__":
    sys.exit(tour())
