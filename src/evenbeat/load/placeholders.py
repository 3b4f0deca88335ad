"""Texts with gaps for what differs by host, until it is known whether placeholders or values fill them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKS: Final = re.compile("[\ue000-\ue00f]")
_VARIABLE: Final = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")


def without_gaps(text: str) -> str:
    """A text of others, which may have no gaps of ours, nor marks of importers."""
    return _MARKS.sub("\ufffd", text)


def host_variable(what: str) -> str:
    """A gap for "host", or for an attribute of it, "host.address"."""
    return f"{_OPEN}{what}{_CLOSE}"


HOST_NAME_VARIABLE: Final = host_variable("host")


def host_variables_in(value: Any) -> set[str]:
    """The names of all gaps in a value."""
    return {found for text in _texts(value) for found in _VARIABLE.findall(text)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def fill_host_variables(value: Any, values: Mapping[str, str]) -> Any:
    """Fill the gaps with the values of one host."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: values[m[1]], value)
    if isinstance(value, dict):
        return {k: fill_host_variables(v, values) for k, v in value.items()}
    return [fill_host_variables(v, values) for v in value] if isinstance(value, list) else value


def to_placeholders(value: Any, key: str) -> Any:
    """Fill the gaps with placeholders of `for`, and double every other brace."""
    if isinstance(value, str):
        doubled = value.replace("{", "{{").replace("}", "}}")
        return _VARIABLE.sub(lambda m: "{" + m[1].replace("host", key, 1).replace("._", ".") + "}", doubled)
    if isinstance(value, dict):
        return {k: to_placeholders(v, key) for k, v in value.items()}
    return [to_placeholders(v, key) for v in value] if isinstance(value, list) else value
