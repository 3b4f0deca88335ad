"""Functions of tasks called in the process of a test, with the outcome that they would have in a function host."""

import asyncio
import contextlib
import inspect
import io
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import Instant, Job, Outcome
from evenbeat.wire.worker_frames import RunResult, RunSpec
from evenbeat.work.context import Run, current
from evenbeat.work.functions import (
    FunctionNotFound,
    FunctionOutcome,
    find_function,
    outcome_of_exception,
    outcome_of_return,
    user_function,
)

CommandResult = int | tuple[int, str]
"""The exit status of a command, and its output."""
_job: Final = msgspec.msgpack.Decoder(Job)


class CalledFunctions:
    """Makes runs: calls functions, and says how commands end."""

    def __init__(
        self,
        function_of: Callable[[str], Callable[..., object] | None],
        commands: Mapping[str, CommandResult],
        lengths: Mapping[str, int],
    ) -> None:
        """`function_of` finds declared functions by reference; others are imported. `lengths` are microseconds."""
        self._function_of = function_of
        self._commands = commands
        self._lengths = lengths

    def make(self, run: RunSpec, now: Instant) -> RunResult:
        """Make a run that starts now."""
        job = _job.decode(run.job)
        context = Run(run, boot_time(), now - boot_time())
        ending = self._command(run, context) if job.function is None else self._call(run, job, context)
        result = context._result(ending.outcome, ending.status, boot_time())
        result.started, result.ended = now, now + self._lengths.get(run.name, 0)
        return result

    def _command(self, run: RunSpec, context: Run) -> FunctionOutcome:
        ended = self._commands.get(run.name, 0)
        status, output = ended if isinstance(ended, tuple) else (ended, "")
        if output:
            context.log(output)
        return FunctionOutcome(Outcome.FAILED if status else Outcome.SUCCEEDED, status)

    def _call(self, run: RunSpec, job: Job, context: Run) -> FunctionOutcome:
        reference = job.function or ""
        try:
            declared = self._function_of(reference)
            function = find_function(reference) if declared is None else user_function(declared)
        except FunctionNotFound as e:
            context.log(e)
            return FunctionOutcome(Outcome.BROKEN, None)
        printed = io.StringIO()
        outside = current.set(context)
        try:
            with contextlib.redirect_stdout(printed):
                value = function.invoke(context, job)
                if inspect.iscoroutine(value):
                    value = _run_coroutine(value)
            context._write(printed.getvalue().encode())
            return outcome_of_return(context, value, check=run.check)
        except (Exception, SystemExit) as e:
            context._write(printed.getvalue().encode())
            return outcome_of_exception(context, e, check=run.check)
        finally:
            current.reset(outside)


def run_to_its_end(function: Callable[[Any], object], value: object) -> None:
    """Call a function of the program that may be asynchronous."""
    result = function(value)
    if inspect.iscoroutine(result):
        _run_coroutine(result)


def _run_coroutine(coroutine: Coroutine[Any, Any, object]) -> object:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:  # the test itself runs on a loop
        return thread.submit(asyncio.run, coroutine).result()
