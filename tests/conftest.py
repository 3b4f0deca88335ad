import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from evenbeat.cli.main import main

# Machines are shared and slow at times, so no example has a deadline. Examples are the same in every run, so that a
# change is judged by what it changes; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _no_loop_is_left() -> Iterator[None]:
    """Nodes that have come up look for garbage so seldom that loops would stay, each with three descriptors."""
    yield
    if hand_driven := sys.modules.get("hand_driven"):
        while hand_driven.VirtualLoop.made:
            hand_driven.VirtualLoop.made.pop().close()


@pytest.fixture(autouse=True)
def _no_log_goes_on() -> Iterator[None]:
    """Commands that log write to the stderr of their test, which is closed when it ends."""
    loggers = [logging.getLogger(name) for name in ("evenbeat", "asyncio", "uvicorn.error")]
    before = [logger.handlers[:] for logger in loggers]
    yield
    for logger, handlers in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers


@pytest.fixture(autouse=True)
def _no_file_is_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test opens in its folder is closed when it ends, on failing paths too. Newer Pythons warn of SQLite's."""
    yield
    if (folder := request.node.funcargs.get("tmp_path")) is not None:
        left = [path for path in open_files() if path.startswith(f"{folder}/")]
        assert not left, f"left open: {left}"


def open_files() -> list[str]:
    """Paths of all files this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            found.append(str(descriptor.readlink()))
    return found


Evenbeat = Callable[..., Result]


@pytest.fixture
def evenbeat(capsys: pytest.CaptureFixture[str]) -> Evenbeat:
    """Run a command in this process, as typed."""

    def run(*argv: str) -> Result:
        try:
            code = main(list(argv))
        except SystemExit as e:
            code = int(e.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
