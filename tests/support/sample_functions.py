# ruff: noqa: T201 - they print on purpose
"""Functions for the function hosts to run: well-behaved and hostile ones."""

import asyncio
import itertools
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import Any

from evenbeat.work.context import Run

state = 0


def add(a: int, b: int, *, sep: str = " ") -> str:
    return f"sum{sep}{a + b}"


def append_line(file: str, line: str) -> None:
    with Path(file).open("a") as log:
        log.write(f"{line}\n")


def greet(run: Run, greeting: str) -> None:
    run.log(greeting, run.name, run.attempt)
    run.log(run.nominal.isoformat(), run.started >= run.nominal, 0 < run.remaining() <= 10, run.expired)


def talk() -> None:
    print("printed")
    print("complained", file=sys.stderr)
    sys.stdout.buffer.write(b"\xff\n")
    logging.getLogger("talk").debug("not said")
    logging.getLogger("talk").info("said")
    logging.getLogger("talk").warning("logged")


def log_as_configured() -> None:
    logger = logging.getLogger("configured")
    handler = logging.StreamHandler()  # as a module does when it is imported
    handler.setFormatter(logging.Formatter("mine %(message)s"))
    logger.addHandler(handler)
    logger.warning("logged")
    logger.removeHandler(handler)


def rows() -> dict[str, list[float | None]]:
    return {"rows": [1, 2.5, None]}


def nothing_much() -> None: ...


def too_much() -> list[str]:
    return ["x" * 65536]


def odd() -> object:
    return object()


def total(values: list[int], rates: dict[str, Any]) -> str:
    return f"{sum(values)} {rates}"


def grow(values: list[int]) -> str:
    values.append(0)
    return str(len(values))


def count(run: Run) -> str:
    run.cursor = int(run.cursor or 0) + 1
    return f"at {run.cursor}"


def too_much_cursor(run: Run) -> None:
    run.cursor = "x" * 5_000


def odd_cursor(run: Run) -> None:
    run.cursor = []  # type: ignore[assignment]


def fail() -> None:
    raise ValueError("no luck today")


def leave(code: Any) -> None:
    sys.exit(code)


def give(value: Any) -> Any:
    return value


def pair(state: int, text: str) -> tuple[int, str]:
    return state, text


def stop(run: Run) -> None:
    run.stop_node()


def who() -> str:
    return f"{os.getpid()} {os.environ['EVENBEAT_HOST']} {__name__}"


def nap(seconds: float) -> None:
    time.sleep(seconds)


def polite_nap(run: Run) -> None:
    try:
        time.sleep(30)
    finally:
        run.cursor = "saved"
        run.log("tidied up")


def stuck_in_c() -> None:
    """Never comes back to the interpreter, so no signal handler of Python's ever runs."""
    sum(itertools.repeat(1))


def deaf() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    time.sleep(30)


def swallow() -> None:
    while True:
        try:
            time.sleep(30)
        except BaseException:
            continue


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def start_something() -> str:
    return str(subprocess.Popen(["sleep", "300"]).pid)


def start_something_and_crash(file: str) -> None:
    Path(file).write_text(start_something())
    crash()


def flood() -> None:
    for _ in range(1_000):
        print("x" * 1_000)


async def anap(run: Run, seconds: float) -> str:
    print("one", run.name)
    await asyncio.sleep(seconds)
    print("two", run.name)
    return str(os.getpid())


async def acursor(run: Run) -> None:
    run.cursor = "here"
    await asyncio.sleep(30)


async def aswallow() -> None:
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            continue


async def ablock() -> None:
    time.sleep(60)


async def afail() -> None:
    raise ValueError("no luck today")


def wrapped(function: Any) -> Any:
    @wraps(function)
    def inner(*args: Any) -> Awaitable[Any]:
        result: Awaitable[Any] = function(*args)
        return result

    return inner


@wrapped
async def in_disguise(text: str) -> str:
    await asyncio.sleep(0)
    return text


not_a_function = 5


async def nothing() -> None:
    pass


def lazy() -> Iterator[int]:
    yield 1


async def lazy_async() -> AsyncIterator[int]:
    yield 1


class Lazy:
    def __call__(self) -> Iterator[int]:
        yield 1


lazy_object = Lazy()
lazy_partial = partial(lazy)


def lazy_inside() -> Iterator[int]:
    return lazy()


async def lazy_inside_async() -> Iterator[int]:
    return lazy()


three = partial(add, 1, 2)


async def acrash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
