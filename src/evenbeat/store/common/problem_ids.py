"""Ids of problems that a caller gives: any integer, of which a database knows only some."""

from collections.abc import Iterable, Iterator
from typing import Final

from evenbeat.store.contract import FOREVER, ProblemFilter

_LARGEST: Final = (1 << 63) - 1
_AT_ONCE: Final = 1_000
"""Problems that people change in one transaction: what a node records meanwhile waits some tens of milliseconds."""


def possible_ids(ids: Iterable[int]) -> list[int]:
    """Those of the ids that a problem can have, each once."""
    return [number for number in dict.fromkeys(ids) if 0 < number <= _LARGEST]


def in_parts(ids: Iterable[int]) -> Iterator[list[int]]:
    """The ids that a problem can have, each once, in parts for a transaction each."""
    known = possible_ids(ids)
    return (known[i : i + _AT_ONCE] for i in range(0, len(known), _AT_ONCE))


def before_id(only: ProblemFilter) -> int:
    """The id that a filter asks to be smaller than, within what a database can compare."""
    return FOREVER if only.before is None else within_ids(only.before)


def within_ids(number: int) -> int:
    """The nearest number that a database can compare with ids."""
    return max(0, min(number, FOREVER))
