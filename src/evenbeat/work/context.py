"""`Run`: what a function can know of its run; given to every function whose first parameter is `run`."""

from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final

import msgspec

from evenbeat.clock.system_clock import boot_time
from evenbeat.core.timebox import NO_TIMEBOX, Timebox
from evenbeat.model import RESULT_LIMIT, SECOND, TEXT_LIMIT, ArgumentValue, Instant
from evenbeat.wire import worker_frames
from evenbeat.wire.cursor_values import checked_cursor
from evenbeat.work.output_buffer import OutputBuffer

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_cursor = msgspec.msgpack.Decoder(ArgumentValue)


class Run:
    """One run of a function: its task, its time limit, its cursor and its output."""

    def __init__(self, frame: worker_frames.RunSpec, started: int, offset: int, output_keep: int | None = None) -> None:
        self.name = frame.name
        self.attempt = frame.attempt
        """Of a check in a problem state, and of a run that tries again: which attempt this is; else 1."""
        self._frame = frame
        self._started = started
        self._offset = offset
        self._cursor: bytes | None = None
        self._output_keep = output_keep
        self._output: OutputBuffer | None = None
        """None until the run writes something: most functions write nothing."""
        self._stop_node = False
        self._returned = b""
        self._raised: tuple[str, ...] = ()

    @property
    def nominal(self) -> datetime:
        """When the run was due by its schedule, in UTC."""
        return _EPOCH + timedelta(microseconds=self._frame.nominal)

    @property
    def started(self) -> datetime:
        """When it started, in UTC, by the node's clock."""
        return _EPOCH + timedelta(microseconds=self._started + self._offset)

    def remaining(self) -> float:
        """Seconds left in the timebox, never negative; infinity without a timebox."""
        if self._frame.timebox >= NO_TIMEBOX:
            return inf
        return self._box().remaining(Instant(boot_time())) / SECOND

    @property
    def expired(self) -> bool:
        """Has the timebox ended?"""
        return self._box().is_expired(Instant(boot_time()))

    def _box(self) -> Timebox:
        return Timebox(Instant(self._started), self._frame.timebox)

    @property
    def cursor(self) -> ArgumentValue:
        """A small value saved with the task: set it to say where the next run proceeds. None in the beginning."""
        packed = self._frame.cursor if self._cursor is None else self._cursor
        return None if packed is None else _cursor.decode(packed)

    @cursor.setter
    def cursor(self, value: ArgumentValue) -> None:
        if not isinstance(value, ArgumentValue):
            raise TypeError(f"a cursor is a text, a number, true, false or None, found {type(value).__name__}")
        self._cursor = checked_cursor(msgspec.msgpack.encode(value))

    def log(self, *values: object) -> None:
        """Add a line to the output of the run."""
        self._write(" ".join(map(str, values)).encode(errors="backslashreplace") + b"\n")

    def stop_node(self) -> None:
        """Ask for an orderly stop of the node when this run has ended."""
        self._stop_node = True

    def _keep_returned(self, value: object) -> None:
        """Keep what the function returned; what cannot be kept is named in the output."""
        try:
            packed = msgspec.json.encode(worker_frames.ReturnedValue(value))
            refused = "" if len(packed) <= RESULT_LIMIT else f"{len(packed)} bytes, accepted: at most {RESULT_LIMIT}"
        except (TypeError, ValueError, RecursionError) as e:
            refused = f"a {type(value).__name__} that is no JSON: {e}"
        if refused:
            packed = msgspec.json.encode(worker_frames.ReturnedValue(refused=refused[:TEXT_LIMIT]))
            if not isinstance(value, str):  # a text is in the output
                self.log(f"what it returned is not kept: {refused}")
        self._returned = packed

    def _write(self, data: bytes) -> None:
        if self._output is None:
            self._output = OutputBuffer(keep=self._output_keep)
        self._output.write(data)

    def _output_after(self, position: int) -> tuple[int, bytes]:
        """What it has written from a position on, and where that begins."""
        return (position, b"") if self._output is None else self._output.after(position)

    @property
    def _is_silent(self) -> bool:
        """Has it left nothing that its result would have to say?"""
        return self._output is None and self._cursor is None and not (self._returned or self._stop_node)

    def _result(self, outcome: str, status: int | None, now: int) -> worker_frames.RunResult:
        return worker_frames.RunResult(
            token=self._frame.token,
            outcome=outcome,
            status=status,
            started=self._started + self._offset,
            ended=now + self._offset,
            output=b"" if self._output is None else self._output.kept(),
            cursor=self._cursor,
            truncated=self._output is not None and self._output.is_truncated,
            whole=b"" if self._output is None else self._output.whole(),
            stop_node=self._stop_node,
            raised=self._raised,
            returned=self._returned,
        )


current: Final[ContextVar[Run | None]] = ContextVar("current", default=None)
"""The run whose function is being called; every asyncio task has its own."""
