"""A terminal as a person has it: bash on a pseudo-terminal, in which `evenbeat` is on the path."""

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from waiting import PATIENCE

_PROMPT: Final = re.compile(rb"<<(\d+)>> $")
_JOB: Final = re.compile(r"^(\[\d+\]|time=\d{4}-)")
"""What bash says of jobs, and what a node logs that runs behind `&` in the same terminal."""
_LONGEST_LINE: Final = 400


def programs(folder: Path) -> Path:
    """A folder for the path: `evenbeat` and `python` of this installation."""
    folder.mkdir()
    for name, argv in (("evenbeat", "-m evenbeat "), ("python", "")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {argv}"$@"\n')
        program.chmod(0o755)
    return folder


class Terminal:
    """`with Terminal(folder, path) as terminal: terminal.type("evenbeat ls")`."""

    def __init__(self, folder: Path, path: Path) -> None:
        keep = ("LANG", "LC_ALL", "TMPDIR", "COVERAGE_PROCESS_START", "PYTHONPATH")
        environment = {name: os.environ[name] for name in keep if name in os.environ}
        environment |= {
            "PATH": f"{path}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "dumb",
            "PS1": "<<$?>> ",
            "USER": "ana",
            "LOGNAME": "ana",
            "COLUMNS": str(_LONGEST_LINE),
        }
        self._screen, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, _LONGEST_LINE))
        settings = termios.tcgetattr(theirs)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(theirs), os.O_RDWR)),  # noqa: PLW1509 - it becomes the terminal
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        self._read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            os.write(self._screen, b"kill $(jobs -p) 2>/dev/null; wait; exit\n")
            self._shell.wait(PATIENCE)
        finally:
            self._shell.kill()
            self._shell.wait()
            os.close(self._screen)

    def type(self, line: str) -> tuple[int, list[str]]:
        """Type a line and Enter; the exit status, and the lines that the screen shows until the next prompt."""
        os.write(self._screen, line.encode() + b"\n")
        return self._read()

    def _read(self) -> tuple[int, list[str]]:
        shown, deadline = b"", time.monotonic() + PATIENCE
        while (prompt := _PROMPT.search(shown)) is None:
            assert time.monotonic() < deadline, shown.decode(errors="replace")
            if select.select([self._screen], [], [], 1.0)[0]:
                shown += os.read(self._screen, 65_536)
        text = shown[: prompt.start()].decode().replace("\r", "")
        return int(prompt[1]), [line for line in text.splitlines() if not _JOB.match(line)]
