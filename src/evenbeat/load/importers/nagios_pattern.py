"""Regular expressions for names, where `use_regexp_matching` is set: of single characters, so none takes long.

Nagios takes a name as an expression if it has one of `*`, `?`, `+` and `\\.`, and finds it anywhere in a name.
"""

import re
from typing import Final, NamedTuple

_SIGNS: Final = re.compile(r"[*?+]|\\\.")
_ITEM: Final = re.compile(r"(?P<one>\[\^?\]?[^\]]*\]|\\.|[^\\\[\](){}|*+?])(?P<times>[*+?]?)")


class _Item(NamedTuple):
    """One character, and how often it may occur."""

    one: "re.Pattern[str]"
    may_lack: bool
    may_repeat: bool


class NamePattern:
    """A name that may be a regular expression."""

    def __init__(self, text: str) -> None:
        body = text.removeprefix("^")
        self._from_start = body != text
        self._to_end = body.endswith("$") and not body.endswith("\\$")
        self._items: list[_Item] = []
        self.is_one = _SIGNS.search(text) is not None and self._read(body.removesuffix("$") if self._to_end else body)
        """Is it an expression, of those that are read here?"""

    def _read(self, body: str) -> bool:
        at = 0
        while at < len(body):
            found = _ITEM.match(body, at)
            if found is None:
                return False
            try:
                one = re.compile(found["one"])
            except re.error:
                return False
            self._items.append(_Item(one, found["times"] in ("*", "?"), found["times"] in ("*", "+")))
            at = found.end()
        return True

    def matches(self, name: str) -> bool:
        """Is it in the name? The states are those items that may come next."""
        end = len(self._items)
        states = self._skipped({0})
        for sign in name:
            if end in states and not self._to_end:
                return True
            following = set()
            for state in states:
                if state < end and self._items[state].one.fullmatch(sign):
                    following.add(state + 1)
                    if self._items[state].may_repeat:
                        following.add(state)
            states = self._skipped(following if self._from_start else following | {0})
        return end in states

    def _skipped(self, states: set[int]) -> set[int]:
        found = set(states)
        ahead = list(states)
        while ahead:
            state = ahead.pop()
            if state < len(self._items) and self._items[state].may_lack and state + 1 not in found:
                found.add(state + 1)
                ahead.append(state + 1)
        return found
