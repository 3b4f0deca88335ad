"""Each run of a function writes down when it was due and when it really started, whatever scheduler called it.

The programs of this folder run in the Python of the peers, where evenbeat is not installed.
"""

import os
import time
from typing import Any, Final

LOG: Final = "PEERS_LOG"
"""The variable with the path of the file to append to."""
_log: list[int] = []


def note(due: float) -> None:
    """Append one line."""
    if not _log:
        _log.append(os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND))
    os.write(_log[0], b"%.6f %.6f\n" % (due, time.time()))


def note_run(run: Any) -> None:
    """The function that evenbeat calls with its run."""
    note(run.nominal.timestamp())
