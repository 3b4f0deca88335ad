import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from budget import IS_FULL, examples
from hypothesis import settings

from evenbeat.cli.main import main

pytest_plugins = ["api_fixtures", "newcomer", "server_fixtures"]

# Machines are shared and slow at times, so no example has a deadline. Examples are the same in every run, so that a
# change is judged by what it changes; HYPOTHESIS_PROFILE=explore looks for new ones. `make test` tries a quarter.
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=examples(100))
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

WAITING_SECONDS = {
    "tests/faults/test_cluster.py": 120,
    "tests/faults/test_crashes.py": 70,
    "tests/faults/test_cluster_standby.py": 65,
    "tests/web/test_browser.py": 50,
    "tests/node/cluster/test_cluster_membership.py": 45,
    "tests/faults/test_cluster_edits.py": 45,
    "tests/queue/nats/test_nats_faults.py": 40,
    "tests/test_notifications_how_to.py": 40,
    "tests/faults/test_powerloss.py": 25,
    "tests/api/routes/test_cluster_live.py": 20,
    "tests/paths/test_same_timetable.py": 20,
    "tests/test_cluster_make.py": 15,
    "tests/test_how_to_pages.py": 15,
    "tests/faults/test_no_majority.py": 15,
    "tests/queue/nats/test_nats_queue.py": 15,
    "tests/cli/commands/test_bench_command.py": 10,
    "tests/faults/test_descriptors.py": 10,
    "tests/queue/local/test_local_early.py": 10,
    "tests/test_first_minutes.py": 10,
}
"""Files whose tests mostly wait, for leases, elections, browsers and restarts, and about how long they take."""


def pytest_xdist_auto_num_workers() -> int | None:
    """Three test processes more than there are cores: many tests wait rather than compute.

    `make faults` measures how long a cluster takes to recover, so there every process has a core.
    """
    return None if IS_FULL else (os.cpu_count() or 1) + 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that wait longest, spread over half of the test processes: meanwhile the others compute.

    `--dist worksteal` cuts the list into as many equal parts as there are processes, then processes that have finished
    take tests from the ends of the others' parts. So a part begins with its share of the waiting files.
    """
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes == 1 or len(items) < 100 * processes:
        return
    waiting: dict[str, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        file = item.nodeid.partition("::")[0]
        if file in WAITING_SECONDS:
            waiting.setdefault(file, []).append(item)
        else:
            others.append(item)
    parts: list[list[pytest.Item]] = [[] for _ in range(processes)]
    seconds = [0] * ((processes + 1) // 2)
    for file in sorted(waiting, key=lambda file: -WAITING_SECONDS[file]):
        least = seconds.index(min(seconds))
        parts[least] += waiting[file]
        seconds[least] += WAITING_SECONDS[file]
    begin = 0
    for place, part in enumerate(parts):
        size = len(items) * (place + 1) // processes - len(items) * place // processes
        end = begin + max(0, size - len(part)) if place < processes - 1 else len(others)
        part.extend(others[begin:end])
        begin = end
    items[:] = [item for part in parts for item in part]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all their modules are never garbage, so no search for garbage need go through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


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
    if (imported := sys.modules.get("hand_driven_node")) is not None:
        while imported.VirtualLoop.made:
            imported.VirtualLoop.made.pop().close()


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
