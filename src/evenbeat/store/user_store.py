"""Opens a store that the user wrote: `python:MODULE:FUNCTION`, given on a command line in place of a database.

A configuration file cannot name one.
"""

import importlib
import sys
from pathlib import Path
from typing import Final

from evenbeat.model import Invalid
from evenbeat.store.contract import Store, StoreError

_PREFIX: Final = "python:"
_ACCEPTED: Final = "accepted: python:MODULE:FUNCTION, a function with the parameter `read_only` that returns a store"
_REQUIRED_METHODS: Final = ("create", "entries", "progress", "record", "close")
"""Some methods of a store: enough to notice that the function returned something else."""


def is_custom_store(database: str | Path) -> bool:
    """Whether a database is named by a function that opens a store."""
    return str(database).startswith(_PREFIX)


def open_custom_store(database: str | Path, *, read_only: bool) -> Store:
    """Call the function and return its store; the module is searched for in the working directory first."""
    module, _, name = str(database).removeprefix(_PREFIX).partition(":")
    if not module or not name:
        raise Invalid(f"{database} names no function, {_ACCEPTED}")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        opened = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as e:
        raise Invalid(f"{database}: {e}; {_ACCEPTED}") from e
    try:
        store: Store = opened(read_only=read_only)
    except OSError as e:
        raise StoreError(f"{database} cannot be opened: {e}") from e
    if not all(callable(getattr(store, method, None)) for method in _REQUIRED_METHODS):
        raise Invalid(f"{database} returned a {type(store).__name__}, which is no store; {_ACCEPTED}")
    return store
