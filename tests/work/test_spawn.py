"""How children are started: real ones, and real refusals."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import worker_wire
from worker_wire import run_of

from evenbeat.model import Job
from evenbeat.work.spawn import CannotStart, Spawner


@pytest.fixture
def ignoring() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def spawner(monkeypatch: pytest.MonkeyPatch) -> Spawner:
    monkeypatch.setenv("A", "1")
    return Spawner(["A"])


def said(spawner: Spawner, *words: str, **env: str) -> str:
    """What a program has to say on both of its outputs."""
    process, output = spawner.spawn(spawner.prepare(run_of(Job(command=words, env=env), 1)), 0)
    with os.fdopen(output) as pipe:
        text = pipe.read()
    assert os.waitpid(process, 0) == (process, 0)
    return text


def test_a_child_has_its_words_its_environment_and_both_outputs(spawner: Spawner) -> None:
    for word in ("one", "two words", "ä"):
        assert said(spawner, "/bin/sh", "-c", 'echo "$0 $A"; echo err >&2', word) == f"{word} 1\nerr\n"
    assert said(spawner, "sh", "-c", 'echo "$A $B"', A="2", B="3") == "2 3\n"
    assert said(spawner, "sh", "-c", 'echo "$A $B"') == "1 \n", "the environment of one run is not that of the next"


@pytest.mark.usefixtures("ignoring")
def test_a_child_leads_its_group_and_ignores_no_signal_though_we_do(spawner: Spawner) -> None:
    line = "read process _ _ _ group _ < /proc/$$/stat; echo $process $group; grep SigIgn /proc/$$/status"
    process, group, _, ignored = said(spawner, "/bin/sh", "-c", line).split()
    assert process == group
    assert int(ignored, 16) & 1 << (signal.SIGUSR1 - 1) == 0


def test_a_program_that_is_not_there_is_named(spawner: Spawner) -> None:
    with pytest.raises(CannotStart, match="no such file: /not/there"):
        said(spawner, "/not/there")


_WITHOUT_MEMORY = """
import resource, sys
sys.path.append(sys.argv[1])
from evenbeat.model import Job
from evenbeat.work.spawn import OutOfResources, Spawner
from worker_wire import run_of

spawner = Spawner()
prepared = spawner.prepare(run_of(Job(command=("/bin/true",)), 1))
resource.setrlimit(resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
try:
    spawner.spawn(prepared, 0)
except OutOfResources as e:
    print(e)
"""


def test_a_machine_without_room_says_so() -> None:
    command = [sys.executable, "-c", _WITHOUT_MEMORY, str(Path(worker_wire.__file__).parent)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "cannot allocate memory\n"


@pytest.mark.parametrize("words", [("true", "half\0of it"), ("tr\0ue",)])
def test_what_c_would_cut_short_is_refused(spawner: Spawner, words: tuple[str, ...]) -> None:
    with pytest.raises(CannotStart):
        said(spawner, *words)


def test_values_that_c_would_cut_short_are_refused(spawner: Spawner) -> None:
    with pytest.raises(CannotStart, match="null"):
        said(spawner, "true", A="half\0of it")
