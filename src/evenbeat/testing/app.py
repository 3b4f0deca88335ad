"""`TestApp`: an App on a virtual clock, for the tests of its program. An hour passes in no time.

    with TestApp(app) as shop:
        runs = shop.advance(timedelta(hours=1))
        assert [run.task for run in runs] == ["tidy", "tidy"]

Tasks are planned, claimed and recorded by the node itself, in a store in memory. Functions are called in this process.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from evenbeat.app import App
from evenbeat.model import Instant, Invalid
from evenbeat.program.event_stream import NodeEvents
from evenbeat.program.python_values import Length, Time, instant_of, microseconds_of
from evenbeat.program.views import Event, RunInfo, SkipInfo, time_of
from evenbeat.testing.called_functions import CalledFunctions, CommandResult, run_to_its_end
from evenbeat.testing.virtual_node import VirtualNode

_DEFAULT_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class TestApp:
    """An App whose time passes when the test says so. Its methods work on the virtual clock meanwhile."""

    __test__ = False
    """It is no test, whatever its name."""

    def __init__(
        self,
        app: App,
        *,
        start: Time = _DEFAULT_START,
        lasts: Mapping[str, Length] | None = None,
        commands: Mapping[str, CommandResult] | None = None,
    ) -> None:
        """`lasts`: how long runs of a task take on the virtual clock, by its name; else no time.

        Commands are not run. Those of `commands`, by the name of their task, end with that status and output, all
        others with 0.
        """
        self.app = app
        self.runs: list[RunInfo] = []
        """All that have ended, in that order."""
        self.skips: list[SkipInfo] = []
        begin = instant_of("start", start)
        assert begin is not None
        self._begin = begin
        lengths = {name: microseconds_of(length) for name, length in (lasts or {}).items()}
        self._functions = CalledFunctions(app.function_of, commands or {}, lengths)
        self._events: list[Event] = []
        self._node: VirtualNode | None = None

    def __enter__(self) -> Self:
        node = VirtualNode(self._functions, self._begin, self.app.declared())
        try:
            self.app._runner.adopt(node.scheduler)
        except RuntimeError:
            node.close()
            raise
        self._node = node
        NodeEvents(self).attach(node.scheduler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.app._runner.adopt(None)
        self._running.close()
        self._node = None

    @property
    def now(self) -> datetime:
        """The time on the virtual clock, in UTC."""
        return time_of(self._running.now)

    def advance(self, length: Length) -> list[RunInfo]:
        """So much time passes. Returns the runs that have ended in it; an error of a hook is raised."""
        return self._live_until(Instant(self._running.now + microseconds_of(length)))

    def advance_to(self, time: Time) -> list[RunInfo]:
        """Time passes up to `time`."""
        until = instant_of("time", time)
        assert until is not None
        if until < self._running.now:
            raise Invalid(f"{time} has passed: it is {self.now.isoformat()}")
        return self._live_until(until)

    def force(self, *tasks: str | Callable[..., object]) -> list[RunInfo]:
        """Run tasks now; returns how they ended, and whatever else ended in this moment."""
        self.app.force(*tasks)
        return self._live_until(self._running.now)

    def _live_until(self, until: Instant) -> list[RunInfo]:
        known = len(self.runs)
        for _ in self._running.live_until(until):
            events, self._events = self._events, []
            for event in events:
                self._hear(event)
        return self.runs[known:]

    def _hear(self, event: Event) -> None:
        if isinstance(event, RunInfo):
            self.runs.append(event)
        elif isinstance(event, SkipInfo):
            self.skips.append(event)
        for hook in self.app._hooks.functions_for(event):
            run_to_its_end(hook, event)

    @property
    def _running(self) -> VirtualNode:
        if self._node is None:
            raise RuntimeError("it is not running, accepted: with TestApp(app) as name:")
        return self._node

    # As the sink of events

    def __bool__(self) -> bool:
        return True

    def take(self, event: Any) -> None:
        """The node reports an event. Hooks are called when its turn is over: they may ask the node for something."""
        self._events.append(event)
