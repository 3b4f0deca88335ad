"""`posix_spawn`, called directly: real children, and real refusals."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from evenbeat.work.libc import PosixSpawn, c_strings


@pytest.fixture
def ignoring() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGUSR1, before)


def said(posix_spawn: PosixSpawn, *words: str) -> str:
    """What a program has to say on both of its outputs, in an environment of one variable."""
    reader, writer = os.pipe()
    try:
        process = posix_spawn.start(words[0].encode(), c_strings(map(str.encode, words)), c_strings([b"A=1"]), writer)
    finally:
        os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    assert os.waitpid(process, 0) == (process, 0)
    return text


def test_a_child_has_its_words_its_environment_and_both_outputs() -> None:
    posix_spawn = PosixSpawn()
    for word in ("one", "two words"):
        assert said(posix_spawn, "/bin/sh", "-c", 'echo "$0 $A"; echo err >&2', word) == f"{word} 1\nerr\n"


@pytest.mark.usefixtures("ignoring")
def test_a_child_leads_its_group_and_ignores_no_signal_though_we_do() -> None:
    line = "read process _ _ _ group _ < /proc/$$/stat; echo $process $group; grep SigIgn /proc/$$/status"
    process, group, _, ignored = said(PosixSpawn(), "/bin/sh", "-c", line).split()
    assert process == group
    assert int(ignored, 16) & 1 << (signal.SIGUSR1 - 1) == 0


def test_an_error_is_told_as_python_tells_it() -> None:
    with pytest.raises(FileNotFoundError) as e:
        said(PosixSpawn(), "/not/there")
    assert e.value.errno == errno.ENOENT


_WITHOUT_MEMORY = """
import resource
from evenbeat.work.libc import PosixSpawn, c_strings

posix_spawn, words = PosixSpawn(), c_strings([b"/bin/true"])
resource.setrlimit(resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
try:
    posix_spawn.start(b"/bin/true", words, words, 1)
except OSError as e:
    print(e.errno)
"""


def test_a_machine_without_room_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_MEMORY], check=True, capture_output=True, text=True)
    assert done.stdout == f"{errno.ENOMEM}\n"


def test_what_c_would_cut_short_is_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        c_strings([b"whole", b"half\0of it"])
