"""A check that writes down when it really started, whatever scheduler started it: a tiny program of our own."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import numpy as np

from evenbeat.bench.peers.contract import Floats

HOW_TO_INSTALL: Final = "this needs a C compiler: apt-get install gcc libc6-dev"

_SOURCE: Final = r"""
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    struct timespec now;
    char line[64];
    if (count != 3) return 3;
    clock_gettime(CLOCK_REALTIME, &now);
    int size = snprintf(line, sizeof line, "%s %lld.%06ld\n", words[2], (long long)now.tv_sec, now.tv_nsec / 1000);
    int log = open(words[1], O_WRONLY | O_APPEND);
    if (log < 0 || write(log, line, size) != size) return 3;
    puts("OK: fine");
    return 0;
}
"""


class LoggingCheck:
    """The compiled program, and the file it appends to."""

    def __init__(self, folder: Path) -> None:
        source, self._program, self.log = folder / "check.c", folder / "check", folder / "starts"
        source.write_text(_SOURCE)
        command = [shutil.which("cc") or "gcc", "-O2", "-o", str(self._program), str(source)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        folder.chmod(0o755)
        self.log.touch()
        self.log.chmod(0o666)  # contenders run as different users

    @staticmethod
    def missing() -> str | None:
        """How to install what the program is compiled with; None if it is there."""
        return None if shutil.which("cc") or shutil.which("gcc") else HOW_TO_INSTALL

    @property
    def command(self) -> tuple[str, ...]:
        """The command of a check; the number of the check follows."""
        return str(self._program), str(self.log)

    def starts(self) -> tuple[Floats, Floats]:
        """Numbers of checks, and when they started."""
        return read_pairs(self.log)


def read_pairs(path: Path) -> tuple[Floats, Floats]:
    """The two columns of a file with two numbers in each line; the last line counts only if it is complete."""
    lines = path.read_text().split("\n")[:-1]
    table = np.array([line.split() for line in lines], dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
