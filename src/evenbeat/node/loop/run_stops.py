"""Runs that people have asked to stop: who has, until the runs have ended, and how such runs are ended."""

from collections.abc import Iterable, Sequence

from evenbeat.core.stopped_runs import settled_outcome
from evenbeat.model import OUTPUT_LIMIT, Outcome
from evenbeat.store.contract import TaskProgress
from evenbeat.wire.worker_frames import RunResult


def stop_words(who: str, reason: str) -> str:
    """Who has stopped a run, and why, as its output says it: "stopped by ana: wrong database"."""
    return f"stopped by {who}{f': {reason}' if reason else ''}"


class RunStops:
    """The runs under way that people have asked to stop, by token, with who has and why."""

    def __init__(self) -> None:
        self._words: dict[int, str] = {}

    def ask(self, token: int, words: str) -> bool:
        """Somebody asks to stop a run; False if somebody has before. It counts from now on, however the run ends."""
        if token in self._words:
            return False
        self._words[token] = words
        return True

    def restore(self, runs: Iterable[TaskProgress]) -> list[int]:
        """Runs under way of another node come in; returns the tokens of those that are to be stopped."""
        found = {run.claimed_token: run.claimed_stop for run in runs if run.claimed_stop}
        self._words |= found
        return list(found)

    def words(self, token: int) -> str:
        """Who has asked to stop a run, and why; empty if nobody has."""
        return self._words.get(token, "")

    def forget(self, tokens: Iterable[int]) -> None:
        """Other nodes have these runs now, or they were withdrawn."""
        for token in tokens if self._words else ():
            self._words.pop(token, None)

    def __bool__(self) -> bool:
        """Is any run to be stopped?"""
        return bool(self._words)

    def settle(self, results: Sequence[RunResult]) -> None:
        """Say in results who has stopped the runs, and which runs were merely interrupted."""
        if not self._words and all(result.outcome != Outcome.CANCELLED for result in results):
            return
        for result in results:
            words = self._words.pop(result.token, "")
            before, result.outcome = result.outcome, settled_outcome(result.outcome, is_stopped=bool(words))
            if words and result.outcome == Outcome.CANCELLED:
                result.output = _explained(words, before, result.output)


def _explained(words: str, reported: str, output: bytes) -> bytes:
    """The output of a stopped run: who has stopped it, how it ended if it was not by that, and what it said."""
    first = words if reported == Outcome.CANCELLED else f"{words} ({reported})"
    return b"\n".join(filter(None, (first.encode(), output)))[:OUTPUT_LIMIT]
