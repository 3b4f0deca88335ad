"""Names of imported tasks: unique, by a number behind those that are taken."""

from collections.abc import Iterable

from evenbeat.model import NAME_LIMIT


class TaskNames:
    """The names that an import has given."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}
        """The last number behind a name, so that many of one name take no time."""

    def unique(self, name: str) -> str:
        """This name, or if it is taken, with a number behind it: `backup (2)`."""
        found, number = name, self._last.get(name, 1)
        while found in self._taken:
            number += 1
            found = f"{name[: NAME_LIMIT - 8]} ({number})"
        self._last[name] = number
        self._taken.add(found)
        return found
