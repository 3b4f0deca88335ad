"""Texts with holes for what differs from host to host, until it is known whether placeholders or values fill them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_OPEN, _CLOSE = "\ue000", "\ue001"
_HOLE: Final = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")


def hole(what: str) -> str:
    """A hole for "host", or for an attribute of it, "host.address"."""
    return f"{_OPEN}{what}{_CLOSE}"


HOST: Final = hole("host")


def holes_of(value: Any) -> set[str]:
    """All that a value has holes for."""
    return {found for text in _texts(value) for found in _HOLE.findall(text)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def replaced(value: Any, values: Mapping[str, str]) -> Any:
    """With the values of one host in the holes."""
    if isinstance(value, str):
        return _HOLE.sub(lambda m: values[m[1]], value)
    if isinstance(value, dict):
        return {k: replaced(v, values) for k, v in value.items()}
    return [replaced(v, values) for v in value] if isinstance(value, list) else value


def held(value: Any, key: str) -> Any:
    """With placeholders of `for` in the holes, and every other brace doubled."""
    if isinstance(value, str):
        doubled = value.replace("{", "{{").replace("}", "}}")
        return _HOLE.sub(lambda m: "{" + m[1].replace("host", key, 1).replace("._", ".") + "}", doubled)
    if isinstance(value, dict):
        return {k: held(v, key) for k, v in value.items()}
    return [held(v, key) for v in value] if isinstance(value, list) else value
