"""What imported checks depend on: other imported checks, without circles, as files say it."""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any, NamedTuple

from evenbeat.load.placeholders import HOST_NAME_VARIABLE
from evenbeat.model import PARENT_LIMIT


class CheckDependencies(NamedTuple):
    """What a check depends on, by names of checks."""

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    skips: bool = False

    def keys_on(self, host: str, hosts: Container[str], table: Mapping[str, Any]) -> dict[str, Any]:
        """As the table of a check on this host has it: checks of its own host have a gap for the name of the host."""
        runs_nothing = "passive" in table and "command" not in table

        def with_gap(parent: str) -> str:
            is_own = parent == host or (parent.startswith(f"{host}/") and parent not in hosts)
            return HOST_NAME_VARIABLE + parent[len(host) :] if is_own else parent

        found: dict[str, Any] = {}
        if self.all_of:
            found["depends"] = [with_gap(name) for name in self.all_of]
        if self.any_of:
            found["depends_any"] = [with_gap(name) for name in self.any_of]
        return found | ({"when_unreachable": "skip"} if self.skips and found and not runs_nothing else {})


class DependencyCollector:
    """Dependencies of checks that are imported, without circles."""

    def __init__(self, checks: Collection[str]) -> None:
        self._checks = checks
        self.all_of: dict[str, list[str]] = {}
        self.any_of: dict[str, list[str]] = {}
        self.skipping: set[str] = set()

    def add(
        self, child: str, parents: Sequence[str], omit: Callable[[str, str], None], *, is_any: bool = False
    ) -> bool:
        """Let a check depend on others; `omit` hears what does not work, and why. Says whether something is left."""
        known = self.any_of if is_any else self.all_of
        found = known.get(child, [])
        for parent in parents:
            if parent == child or parent in found:
                continue
            if parent not in self._checks:
                why = "no such check is carried over"
            elif self._reaches(parent, child):
                why = "they depend on each other in a circle"
            elif len(found) >= PARENT_LIMIT:
                why = f"more than {PARENT_LIMIT} of them"
            else:
                found.append(parent)
                known[child] = found
                continue
            omit(f"{child!r} depends on {parent!r}", why)
        return bool(found)

    def found(self) -> dict[str, CheckDependencies]:
        """What each check depends on, by name."""
        return {
            name: CheckDependencies(
                tuple(self.all_of.get(name, ())), tuple(self.any_of.get(name, ())), name in self.skipping
            )
            for name in {*self.all_of, *self.any_of}
        }

    def _reaches(self, start: str, end: str) -> bool:
        seen, ahead = {start}, [start]
        while ahead:
            name = ahead.pop()
            if name == end:
                return True
            new = {*self.all_of.get(name, ()), *self.any_of.get(name, ())} - seen
            seen |= new
            ahead += new
        return False
