"""A value as somebody types it: TOML where it is TOML, else a plain word."""

import tomllib
from typing import Any


def parse_value(text: str) -> Any:
    """`true`, `5`, `["a", "b"]`, `{ team = "web" }` mean what they mean in a file; `5m` and `a b` are texts."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    # A text with line breaks could say more than one value.
    return document["value"] if len(document) == 1 else text
