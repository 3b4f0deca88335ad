"""`evenbeat result`: submit the result of a check, as its plugin would report it."""

import argparse
from typing import Final

from evenbeat.cli.output.common import at_option, now, print_json
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.which_database import open_client
from evenbeat.core.task_defaults import attempts_of
from evenbeat.model import OUTPUT_LIMIT, Invalid, State
from evenbeat.report.words import nominals_of, state_words, zone_of
from evenbeat.when.duration import parse_duration

_STATUS_WORDS: Final = {state.name.lower(): state for state in State} | {str(int(state)): state for state in State}


def run_command(args: argparse.Namespace) -> int:
    """Submit the result; exit 0."""
    state = _STATUS_WORDS.get(args.status.lower())
    if state is None:
        raise Invalid(f"{args.status!r} is not a status, accepted: ok, warning, critical, unknown, or 0 to 3")
    if len(args.output) > OUTPUT_LIMIT:
        raise Invalid(f"{len(args.output):,} characters of output, accepted: up to {OUTPUT_LIMIT:,}")
    ttl = None if args.ttl is None else _ttl(args.ttl)
    with open_client(args) as client:
        entry = require_task(client, args.name)
        task = entry.task
        at = None if args.at is None else at_option(args.at, zone_of(task, nominals_of(task)), now(), "--at")
        taken = client.submit_result(entry.id, state, args.output, ttl=ttl, at=at)
    if args.json:
        document = {"task": taken.task, "state": taken.state.name.lower(), "hard": taken.hard, "attempt": taken.attempt}
        print_json({**document, "newest": taken.is_newest})
        return 0
    words = state_words(taken.state, hard=taken.hard, attempt=taken.attempt, attempts=attempts_of(task))
    print(f"{taken.task} is {words}" if taken.is_newest else f"{taken.task} is still {words}: a newer result was known")
    return 0


def _ttl(text: str) -> int:
    try:
        ttl = parse_duration(text)
    except Invalid as e:
        raise Invalid(e.problem, column=e.column, place="--ttl") from None
    if ttl < 1:
        raise Invalid(f"{text!r} is out of range, accepted: more than 0, such as 10m", place="--ttl")
    return ttl
