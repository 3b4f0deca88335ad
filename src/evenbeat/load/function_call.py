"""The command `py module:function("arg", 3, key=True)`: a function with literal arguments, read, never evaluated."""

import ast
import re
import warnings
from typing import Final

from evenbeat.model import ArgumentItem, ArgumentValue, Invalid, Job

_CALL: Final = re.compile(r"py\s+(?P<function>[^\s(]+)\s*(?:\((?P<arguments>.*)\))?\s*")
_ACCEPTED: Final = 'accepted: py module:function("text", 3, key=True)'
_LITERALS: Final = "accepted: texts, numbers, True, False and None"
_MAX_DEPTH: Final = 64
"""Brackets, signs and words inside each other. The limits of Python's own parser differ from version to version."""
_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?P<word>[\w.]+)|(?P<sign>\S)""", re.DOTALL
)


def is_call(command: str) -> bool:
    """Is it a function call rather than a command for a shell?"""
    return re.match(r"py\s+\S", command) is not None


def parse_call(command: str) -> Job:
    """The function and its arguments; raise Invalid with the column."""
    found = _CALL.fullmatch(command)
    if found is None:
        raise Invalid(f"{command[:64]!r} is not understood, {_ACCEPTED}", column=1)
    function = found["function"]
    if not all(function.rpartition(":")[::2]):
        raise Invalid(f"{function[:64]!r} is not a function, {_ACCEPTED}", column=found.start("function") + 1)
    args: list[ArgumentItem] = []
    kwargs: dict[str, ArgumentItem] = {}
    if found["arguments"]:
        start = found.start("arguments")
        call = _parse_arguments(found["arguments"], start)
        args = [_literal(node, start) for node in call.args]
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in kwargs:
                raise Invalid(f"only key=value, each key once, {_ACCEPTED}", column=start + keyword.col_offset - 1)
            kwargs[keyword.arg] = _literal(keyword.value, start)
    return Job(function=function, args=tuple(args), kwargs=kwargs)


def _parse_arguments(arguments: str, start: int) -> ast.Call:
    if "\0" in arguments:
        raise Invalid(f"a NUL, {_ACCEPTED}", column=start + arguments.index("\0") + 1)
    _refuse_deep_nesting(arguments, start)
    try:
        with warnings.catch_warnings(action="ignore"):  # Python would print a warning about "\d"
            # Offsets count bytes; of ASCII they are columns.
            tree = ast.parse(f"f({arguments})", mode="eval").body
    except SyntaxError as e:
        raise Invalid(f"{e.msg}, {_ACCEPTED}", column=start + max((e.offset or 3) - 2, 1)) from None
    except (ValueError, MemoryError, RecursionError):
        raise Invalid(f"arguments nested too deep, {_ACCEPTED}", column=start + 1) from None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise Invalid(f"{arguments[:64]!r} is more than arguments, {_ACCEPTED}", column=start + 1)
    return tree


def _refuse_deep_nesting(arguments: str, start: int) -> None:
    """Refuse before Python parses it: with this many operators and brackets it cannot be a list of literals."""
    in_a_row = [0]
    """For each open bracket: the words and signs since its last comma."""
    for token in _TOKEN.finditer(arguments):
        sign = token["sign"]
        if sign == ",":
            in_a_row[-1] = 0
        elif sign is not None and sign in "([{":
            in_a_row.append(0)
        elif token["text"] is None:
            if sign is not None and sign in ")]}" and len(in_a_row) > 1:
                in_a_row.pop()
            in_a_row[-1] += 1
        if len(in_a_row) + sum(in_a_row) > _MAX_DEPTH:
            raise Invalid(f"arguments nested too deep, {_ACCEPTED}", column=start + token.start() + 1)


def _literal(node: ast.expr, start: int) -> ArgumentValue:
    column = start + node.col_offset - 1
    try:
        value = ast.literal_eval(node)
    except (ValueError, MemoryError, RecursionError, TypeError):
        raise Invalid(f"not a literal, {_LITERALS}", column=column) from None
    if isinstance(value, str | float | None) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    found = "so large a number" if isinstance(value, int) else f"a {type(value).__name__}"
    raise Invalid(f"{found} cannot be an argument, {_LITERALS}", column=column)
