"""huey calls a function at given times: `python huey_program.py TASKS SECONDS`; tasks in SQLite, threads.

Its own periodic tasks know whole minutes only. So each run is scheduled in advance, by the time when it is due.
"""

import os
import sys
import time
from datetime import UTC, datetime
from importlib import import_module

note = import_module("note").note  # of this folder, which is no package here

_MOST = 120_000
"""Runs that are scheduled in advance."""
_SECONDS = 120
_PER_SECOND = 4_000
"""As many can be scheduled, at least."""


def main(tasks: int, every: int) -> None:
    huey = import_module("huey").SqliteHuey("peers", filename="huey.db", results=False, utc=True)
    function = huey.task()(note)
    runs = min(_MOST, int(_SECONDS * tasks / every))
    began = time.time() + 1 + runs / _PER_SECOND
    for number in range(runs):
        due = began + every * number / tasks
        huey.add_schedule(function.s(due, eta=datetime.fromtimestamp(due, UTC).replace(tzinfo=None)))
    huey.create_consumer(workers=os.cpu_count() or 1, periodic=False, scheduler_interval=1).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
