"""Parses a value on the command line: as TOML if it is TOML, otherwise as plain text."""

import tomllib
from typing import Any


def parse_value(text: str) -> Any:
    """`true`, `5`, `["a", "b"]`, `{ team = "web" }` have the same meaning as in a file; `5m` and `a b` are texts."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    # A text with line breaks could say more than one value.
    return document["value"] if len(document) == 1 else text
