"""huey calls a function at given times: `python huey_program.py TASKS INTERVAL SECONDS`; tasks in SQLite, threads.

Its own periodic tasks know whole minutes only. So each run is scheduled in advance, by the time when it is due.
"""

import os
import sys
import time
from datetime import UTC, datetime
from importlib import import_module

note = import_module("note").note  # of this folder, which is no package here

_MOST = 80_000
"""Runs that are scheduled in advance."""
_SAMPLE = 500
"""Runs that are scheduled and dropped first, to learn how long that takes here."""


def main(tasks: int, every: int, seconds: int) -> None:
    huey = import_module("huey").SqliteHuey("peers", filename="huey.db", results=False, utc=True)
    function = huey.task()(note)
    runs = min(_MOST, seconds * tasks // every)

    def schedule(due: float) -> None:
        huey.add_schedule(function.s(due, eta=datetime.fromtimestamp(due, UTC).replace(tzinfo=None)))

    sampling = time.time()
    for _ in range(_SAMPLE):
        schedule(sampling)
    # The first run is due after the last one is scheduled: twice as long as expected, as other programs may interfere.
    began = time.time() + 1 + 2 * runs * (time.time() - sampling) / _SAMPLE
    huey.storage.flush_schedule()
    for number in range(runs):
        schedule(began + every * number / tasks)
    huey.create_consumer(workers=os.cpu_count() or 1, periodic=False, scheduler_interval=1).run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
