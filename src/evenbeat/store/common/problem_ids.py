"""Ids of problems that a caller gives: any integer, of which a database knows only some."""

from collections.abc import Iterable
from typing import Final

from evenbeat.store.contract import FOREVER, ProblemFilter

_LARGEST: Final = (1 << 63) - 1


def possible_ids(ids: Iterable[int]) -> list[int]:
    """Those of the ids that a problem can have, each once."""
    return [number for number in dict.fromkeys(ids) if 0 < number <= _LARGEST]


def before_id(only: ProblemFilter) -> int:
    """The id that a filter asks to be smaller than, within what a database can compare."""
    return FOREVER if only.before is None else max(0, min(only.before, FOREVER))
