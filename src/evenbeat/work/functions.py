"""The user's functions: find one by its reference, call it, and turn what it returns or raises into a result."""

import importlib
import importlib.util
import inspect
import io
import logging
import os
import stat
import sys
import traceback
import zlib
from collections.abc import AsyncGenerator, Callable, Generator
from types import ModuleType
from typing import Final, NamedTuple, TextIO

from evenbeat.model import NAME_LIMIT, Job, Outcome, State
from evenbeat.work.context import Run, current

TRACEBACK_LIMIT: Final = 16 << 10
"""Bytes of a traceback that are kept: the last ones, which say most."""
_MOST_CLASSES: Final = 20
"""Of one exception: its class and base classes whose names are reported."""


class FunctionNotFound(Exception):
    """There is no such function; says why, for the person who must act."""


class UserFunction(NamedTuple):
    """One function, and how to call it."""

    call: Callable[..., object]
    wants_run: bool
    is_async: bool

    def invoke(self, run: Run, job: Job) -> object:
        """Call it; the result of an asynchronous function is to be awaited."""
        return self.call(run, *job.args, **job.kwargs) if self.wants_run else self.call(*job.args, **job.kwargs)


_known: Final[dict[str, UserFunction]] = {}
_folder = ""
"""The folder that files of functions are relative to, wherever the functions run; "" for the current one."""


_reader_notice = ""
"""Added to messages: which user must be able to read modules; "" if that is the node's user."""


def add_function_folder(folder: str, user: str = "") -> None:
    """Find modules and files of functions in the node's folder, also if they run elsewhere or as another user."""
    global _folder, _reader_notice  # noqa: PLW0603 - they are of the process, as sys.path is
    _folder = folder
    _reader_notice = f"; it runs as user {user}, who must be able to read it" if user else ""
    sys.path.insert(0, folder)


def is_imported(reference: str) -> bool:
    """Has this function been found before, so that its module is imported?"""
    return reference in _known


def find_function(reference: str) -> UserFunction:
    """The function of "module:function" or "file.py:function", imported when it is first asked for."""
    if reference not in _known:
        _known[reference] = _find(reference)
    return _known[reference]


def _find(reference: str) -> UserFunction:
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise FunctionNotFound(f"{reference!r} names no function, accepted: module:function or file.py:function")
    try:
        found: object = _file(place) if place.endswith(".py") else importlib.import_module(place)
    except FunctionNotFound:
        raise
    except ModuleNotFoundError as e:
        raise FunctionNotFound(f"{reference}: {e} (looked in {', '.join(sys.path)}{_reader_notice})") from None
    except BaseException as e:
        raise FunctionNotFound(f"{reference}: importing it failed\n{_traceback_text(e)}") from None
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as e:
            raise FunctionNotFound(f"{reference}: {e}") from None
    if not callable(found):
        raise FunctionNotFound(f"{reference}: {type(found).__name__} is not a function")
    if _is_generator(found):
        raise FunctionNotFound(f"{reference} is a generator: calling it runs nothing, so it cannot be a task")
    return user_function(found)


def user_function(function: Callable[..., object]) -> UserFunction:
    """A function, and how to call it."""
    return UserFunction(function, _first_parameter(function) == "run", _is_async(function))


def _file(path: str) -> ModuleType:
    full = os.path.abspath(os.path.join(_folder, path))
    # The same name in every host and after every restart, and never __main__: code that is meant for a program must
    # not run.
    name = f"__evenbeat_{zlib.crc32(os.fsencode(full)):08x}__"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    try:
        is_file = stat.S_ISREG(os.stat(full).st_mode) and os.access(full, os.R_OK)
    except PermissionError:
        raise FunctionNotFound(f"{full}: permission denied{_reader_notice}") from None
    except OSError:
        is_file = False
    if spec is None or spec.loader is None or not is_file:
        raise FunctionNotFound(f"no such file: {full}")
    folder = os.path.dirname(full)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _first_parameter(function: Callable[..., object]) -> str | None:
    try:
        return next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):
        return None


def _is_generator(function: Callable[..., object]) -> bool:
    ways = (function, type(function).__call__)
    return any(inspect.isgeneratorfunction(way) or inspect.isasyncgenfunction(way) for way in ways)


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class FunctionOutcome(NamedTuple):
    """Outcome and status of a run, by how its function ended."""

    outcome: Outcome
    status: int | None


SUCCEEDED: Final = FunctionOutcome(Outcome.SUCCEEDED, 0)


def outcome_of_return(run: Run, value: object, *, check: bool) -> FunctionOutcome:
    """A returned text is output. A check may return a state, alone or with a text; what others return is kept.

    A returned coroutine or generator has not run: that is a failure.
    """
    if value is None:
        return SUCCEEDED
    if inspect.isawaitable(value) or isinstance(value, Generator | AsyncGenerator):
        run.log(f"it returned a {type(value).__name__}, and nothing of that was run")
        return FunctionOutcome(Outcome.FAILED, State.UNKNOWN if check else 1)
    if isinstance(value, str):
        run.log(value)
    if not check:
        run._keep_returned(value)
    if not check or isinstance(value, str):
        return SUCCEEDED
    state, text = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    if not isinstance(state, int) or isinstance(state, bool) or state not in set(State):
        run.log(f"the check returned {value!r:.200}, accepted: 0 to 3, a text, or both as (state, text)")
        return FunctionOutcome(Outcome.FAILED, State.UNKNOWN)
    if text is not None:
        run.log(text)
    return FunctionOutcome(Outcome.FAILED if state else Outcome.SUCCEEDED, int(state))


def outcome_of_exception(run: Run, error: BaseException, *, check: bool) -> FunctionOutcome:
    """`sys.exit` is an exit status, as in a program; anything else is a failure with its traceback."""
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            run.log(error.code)
        status = error.code if isinstance(error.code, int) else 1 if error.code else 0
        return FunctionOutcome(Outcome.FAILED if status else Outcome.SUCCEEDED, status)
    run.log(_traceback_text(error))
    run._raised = exception_names(error)
    return FunctionOutcome(Outcome.FAILED, State.UNKNOWN if check else 1)


def exception_names(error: BaseException) -> tuple[str, ...]:
    """What `retry_on` may call an exception: the names of its class and its base classes, with and without module."""
    classes = [of for of in type(error).__mro__ if of is not object][:_MOST_CLASSES]
    names = (name for of in classes for name in (of.__qualname__, f"{of.__module__}.{of.__qualname__}"))
    return tuple(dict.fromkeys(name for name in names if len(name) <= NAME_LIMIT))


def _traceback_text(error: BaseException) -> str:
    frames = error.__traceback__
    # The first frames are ours, or those of the import system: they do not interest the user.
    while frames is not None and frames.tb_next is not None and _is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()[-TRACEBACK_LIMIT:]


def _is_ours(file: str) -> bool:
    return file.startswith((os.path.dirname(__file__), "<frozen importlib"))


class _Output(io.BufferedIOBase):
    """Where `print` goes: to the run that prints, or to the node's own output."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        run = current.get()
        if run is None:
            os.write(2, view)
        else:
            run._write(bytes(view))
        return len(view)


def capture_output() -> None:
    """From now on, what a function prints is output of its run."""
    sys.stdout = sys.stderr = io.TextIOWrapper(
        _Output(), encoding="utf-8", errors="backslashreplace", write_through=True
    )


class _LogHandler(logging.StreamHandler[TextIO]):
    """Writes log records to where `print` goes at that moment."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def capture_logging() -> None:
    """From now on, what a function logs, from INFO on, is output of its run. A module may configure logging itself."""
    logging.lastResort = _LogHandler()
    logging.getLogger().setLevel(logging.INFO)
