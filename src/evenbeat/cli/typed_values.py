"""Parses values as people type them on the command line: TOML or plain text, times in the past."""

import tomllib
from typing import Any

from evenbeat.model import Instant, Invalid
from evenbeat.when.duration import parse_duration
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone


def parse_value(text: str) -> Any:
    """`true`, `5`, `["a", "b"]`, `{ team = "web" }` have the same meaning as in a file; `5m` and `a b` are texts."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    # A text with line breaks could say more than one value.
    return document["value"] if len(document) == 1 else text


def past_time(text: str, at: Instant) -> Instant:
    """`--since`: a time, or how long before `at`."""
    try:
        return Instant(at - parse_duration(text))
    except Invalid:
        pass
    try:
        return parse_instant(text, zone("UTC"))
    except Invalid:
        accepted = "accepted: how long ago, such as 1d, or a time, such as 2026-12-01T09:00"
        raise Invalid(f"{text[:64]!r} is neither a duration nor a time, {accepted}", place="--since") from None
