"""Problems of the node itself: of each kind, when contacts are told of it, and when of its end.

They are told uncommitted, as the store may be what fails: a node that is started anew does not know what was told. So
each kind is told at most hourly, and only what lasts.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from evenbeat.model import HOUR, SECOND

LASTS_AFTER: Final = 15 * SECOND
"""What is over sooner is not told."""
TOLD_AGAIN_AFTER: Final = HOUR
TRIED_AGAIN_AFTER: Final = 60 * SECOND
"""If nobody could be told."""


class OwnProblem(NamedTuple):
    """What is wrong with the node."""

    kind: str
    """store, workers, cluster, late, disk ..."""
    words: str
    since: int


class OwnWishes(NamedTuple):
    """How the contact wants to be told."""

    after: int = 0
    """Only of what lasts that long."""
    is_wanted: bool = True
    """Whether it takes messages about problems in this state. The end of what it was told is told in any case."""
    may_be_told_at: int = 0
    """When its period opens, and when its rate allows another message."""


ALWAYS: Final = OwnWishes()


class _Known:
    """What is known of a kind."""

    def __init__(self) -> None:
        self.open: OwnProblem | None = None
        self.told: OwnProblem | None = None
        """A contact was told, and not of the end yet."""
        self.told_until = 0
        """Until then nothing new of this kind is told."""
        self.retry_at = 0


class OwnProblems:
    """What one contact is told of them."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def look(
        self, found: Mapping[str, str], now: int, wishes: OwnWishes = ALWAYS
    ) -> tuple[list[OwnProblem], list[OwnProblem]]:
        """What is wrong now, by kind: the problems to tell, and those to tell the end of. What may not be told now is
        told as soon as it may, if it is still wrong; the end, be it long over.
        """
        for kind, words in found.items():
            known = self._known.setdefault(kind, _Known())
            since = now if known.open is None else min(known.open.since, now)
            known.open = OwnProblem(kind, words, since)
        for kind, known in self._known.items():
            if kind not in found:
                known.open = None
            # The clock may have been set back.
            known.told_until = min(known.told_until, now + TOLD_AGAIN_AFTER)
            known.retry_at = min(known.retry_at, now + TRIED_AGAIN_AFTER)
        if wishes.may_be_told_at > now:
            return [], []
        kinds = self._known.values()
        begun = (
            []
            if not wishes.is_wanted
            else [
                one.open
                for one in kinds
                if one.open is not None
                and one.told is None
                and now >= max(one.open.since + max(wishes.after, LASTS_AFTER), one.told_until, one.retry_at)
            ]
        )
        over = [one.told for one in kinds if one.open is None and one.told is not None and now >= one.retry_at]
        return begun, over

    def was_told(self, begun: Iterable[OwnProblem], over: Iterable[OwnProblem], now: int) -> None:
        """A message about these is on its way."""
        for problem in begun:
            known = self._known[problem.kind]
            known.told, known.told_until = problem, now + TOLD_AGAIN_AFTER
        for problem in over:
            self._known[problem.kind].told = None

    def was_not_told(self, begun: Iterable[OwnProblem], over: Iterable[OwnProblem], now: int) -> None:
        """The message could not be delivered: it is tried again."""
        for problem in begun:
            known = self._known[problem.kind]
            known.told, known.told_until, known.retry_at = None, 0, now + TRIED_AGAIN_AFTER
        for problem in over:
            known = self._known[problem.kind]
            known.told, known.retry_at = problem, now + TRIED_AGAIN_AFTER
