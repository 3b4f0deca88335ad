"""APScheduler 3 calls a function many times: `python apscheduler_program.py TASKS INTERVAL`; jobs in memory."""

import sys
import time
from datetime import UTC, datetime
from importlib import import_module

note = import_module("note").note  # of this folder, which is no package here


def run_due(first: float, every: float) -> None:
    """APScheduler does not pass on when a run was due: it is the last time on the job's grid."""
    now = time.time()
    note(now - (now - first) % every)


def main(tasks: int, every: int) -> None:
    blocking, interval = (import_module(f"apscheduler.{name}") for name in ("schedulers.blocking", "triggers.interval"))
    scheduler = blocking.BlockingScheduler(timezone="UTC", job_defaults={"misfire_grace_time": None, "coalesce": True})
    began = time.time() + 2 + tasks / 20_000  # until all jobs are added
    for number in range(tasks):
        first = began + every * number / tasks
        trigger = interval.IntervalTrigger(seconds=every, start_date=datetime.fromtimestamp(first, UTC), timezone="UTC")
        scheduler.add_job(run_due, trigger, (first, every))
    scheduler.start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
