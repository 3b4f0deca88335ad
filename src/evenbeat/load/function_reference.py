"""The reference of a Python function that is declared as a task: how the process that runs it finds it again.

A function runs in another process, which imports its module and looks it up by its name. So only a function that its
module has under that name can be a task; everything else is refused where it is declared.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from evenbeat.model import Invalid

_ACCEPTED: Final = "accepted: a function that is defined at the top of a module"


def reference_of(function: Callable[..., object]) -> str:
    """ "module:function", or "/path/program.py:function" for one of the program itself; raise Invalid if it cannot be
    a task.
    """
    _require_function(function)
    name: str = function.__qualname__
    if "<" in name or "." in name:
        raise Invalid(f"{name} cannot be found from outside, {_ACCEPTED}")
    module = function.__module__
    return f"{main_program() if module == '__main__' else module}:{name}"


def _require_function(function: object) -> None:
    if isinstance(function, functools.partial):
        inner = getattr(function.func, "__name__", "the function")
        raise Invalid(
            f"a functools.partial has no name by which it can be found; declare {inner} itself, with args=[...] and"
            " kwargs={...}"
        )
    if not inspect.isroutine(function):
        what = f"the class {function.__name__}" if inspect.isclass(function) else f"a {type(function).__name__}"
        raise Invalid(f"{what} is not a function, {_ACCEPTED}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Invalid(f"{function.__qualname__} is a generator: calling it runs nothing, so it cannot be a task")


def definition_place(function: Callable[..., object]) -> str:
    """Where a function is defined, for messages."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def can_be_imported(function: Callable[..., object]) -> bool:
    """Does its module still have the function under its name, itself or wrapped by another decorator?"""
    module = sys.modules.get(function.__module__)
    found = getattr(module, function.__qualname__, None)
    while found is not None and found is not function:
        found = getattr(found, "__wrapped__", None)
    return found is function


def main_program() -> str:
    """The file of the program that runs."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    return str(Path(path).resolve()) if path else "python"
