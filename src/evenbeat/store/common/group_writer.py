"""The one thread that writes to a database: it takes changes from any thread and commits together what waits."""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, NamedTuple, TypeVar

from evenbeat.store.contract import StoreError

W = TypeVar("W")
R = TypeVar("R")

_MOST_TOGETHER: Final = 64
"""Changes in one commit: enough to share its cost, few enough that the first does not wait long for the last."""


class GroupRefused(Exception):
    """None of the changes of a group can be made, nor any of them alone; `reason` is the error of each."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Change(NamedTuple, Generic[W, R]):
    work: W
    future: Future[R]


def _same_group(_: object) -> None:
    return None


class GroupWriter(Generic[W, R]):
    """Commits changes in the order in which they came, many of them in one transaction."""

    def __init__(
        self,
        database: object,
        commit: Callable[[list[W]], Sequence[R]],
        *,
        after_commit: Callable[[], None] | None = None,
        group_key: Callable[[W], object] = _same_group,
    ) -> None:
        """`commit` makes changes in one transaction and returns the result of each; if it fails, nothing of them is
        kept. `after_commit` is called when the callers have their answers, also after a failure. Changes with
        different keys are never committed together.
        """
        self._database = database
        self._commit = commit
        self._after_commit = after_commit
        self._group_key = group_key
        self._waiting: queue.SimpleQueue[_Change[W, R] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._is_closed = False
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="evenbeat store", daemon=True)
        self._thread.start()

    def submit(self, work: W) -> Future[R]:
        """The future of a change: done when the change is durable. Raise StoreError after `close`."""
        future: Future[R] = Future()
        with self._closing:
            if self._is_closed:
                raise StoreError(f"{self._database}: the store is closed")
            self._waiting.put(_Change(work, future))
        return future

    def close(self) -> None:
        """Commit everything that was submitted, then stop."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            group: list[_Change[W, R]] = []
            change = self._waiting.get()
            while change is not None:
                if group and self._group_key(group[0].work) != self._group_key(change.work):
                    self._make(group)
                    group = []
                # From now on the change cannot be cancelled; one that was cancelled is not made.
                if change.future.set_running_or_notify_cancel():
                    group.append(change)
                if len(group) == _MOST_TOGETHER or self._waiting.empty():
                    break
                change = self._waiting.get()
            is_open = change is not None
            if group:
                self._make(group)
                # Drop the references: what was changed must not stay in memory while this thread waits.
                group, change = [], None
                if self._after_commit is not None:
                    self._after_commit()

    def _make(self, group: list[_Change[W, R]]) -> None:
        """Commit a group. If that fails, commit each change alone: one that cannot be made must not harm the others."""
        try:
            results = self._commit([change.work for change in group])
        except GroupRefused as e:
            for change in group:
                change.future.set_exception(e.reason)
        except Exception as e:
            if len(group) > 1:
                for change in group:
                    self._make([change])
            else:
                group[0].future.set_exception(e)
        else:
            self.commits += 1
            for change, result in zip(group, results, strict=True):
                change.future.set_result(result)
