"""Contacts of an import: one for each person, and variants of it where less, or by another way, is sent to them."""

from collections.abc import Mapping
from typing import Any, Final

from evenbeat.model import NAME_LIMIT

STATES: Final = ("warning", "unknown", "critical")
ALL_STATES: Final = frozenset(STATES)


class ContactTables:
    """The tables of `[contacts]`."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}

    def variant(
        self,
        name: str,
        places: Mapping[str, Any],
        states: frozenset[str],
        period: str | None,
        *,
        is_plain: bool = False,
        way: str = "",
    ) -> str:
        """The name of the contact that has these places, and gets these states in this period; it is the name itself of
        one that is plain. `way` tells those apart that differ by their places.
        """
        key = repr((name, sorted(places.items()), sorted(states), period))
        if key not in self._names:
            self._names[key] = self._add(name, places, states, period, is_plain=is_plain, way=way)
        return self._names[key]

    def _add(
        self,
        name: str,
        places: Mapping[str, Any],
        states: frozenset[str],
        period: str | None,
        *,
        is_plain: bool,
        way: str,
    ) -> str:
        gets = ["all states"] if states == ALL_STATES else sorted(states)
        more = [] if is_plain else [*gets, *([period] if period else [])]
        final = self._named(name, more)
        if final in self.tables and way:
            final = self._named(name, [way, *more])
        while final in self.tables:
            final = f"{final[: NAME_LIMIT - 1]}'"
        limits = {} if states == ALL_STATES else {"states": [s for s in STATES if s in states]}
        self.tables[final] = {**places, **({"period": period} if period else {}), **limits}
        return final

    @staticmethod
    def _named(name: str, more: list[str]) -> str:
        words = f" ({', '.join(more)})" if more else ""
        return f"{name}{words}"[:NAME_LIMIT].strip()
