"""Celery beat and a worker call a function many times: `python celery_program.py TASKS INTERVAL`.

The broker is a Redis of its own where there is one, else the file system. As a module, this is the application.
"""

import os
import shutil
import subprocess
import sys
import time
from copy import copy
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

note = import_module("note").note  # of this folder, which is no package here

_TASKS, _EVERY, _BROKER = "PEERS_TASKS", "PEERS_EVERY", "PEERS_BROKER"


def make_app() -> Any:
    """The application, as beat and worker import it."""
    app = import_module("celery").Celery("peers", broker=os.environ[_BROKER])
    tasks, every = int(os.environ[_TASKS]), int(os.environ[_EVERY])
    app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)
    if os.environ[_BROKER].startswith("filesystem"):
        queue = Path("queue")
        queue.mkdir(exist_ok=True)
        app.conf.broker_transport_options = {"data_folder_in": str(queue), "data_folder_out": str(queue)}
    app.task(note, name="note")
    now = datetime.now(UTC)
    app.conf.beat_schedule = {
        f"task {i}": {
            "task": "note",
            "schedule": timedelta(seconds=every),
            "last_run_at": now + timedelta(seconds=every * i / tasks - every),  # spreads the first runs
        }
        for i in range(tasks)
    }
    return app


if __name__ != "__main__":
    app = make_app()

    class NotingBeat(import_module("celery.beat").Scheduler):  # type: ignore[misc]
        """Celery's scheduler in memory, which passes on when each run was due."""

        def setup_schedule(self) -> None:
            self.merge_inplace(self.app.conf.beat_schedule)

        def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> Any:
            # A copy: beat builds its whole heap anew when the arguments of an entry change.
            sent = copy(entry)
            sent.args = ((entry.last_run_at + entry.schedule.run_every).timestamp(),)
            return super().apply_async(sent, *args, **kwargs)


def main(tasks: str, every: str) -> None:
    redis = shutil.which("redis-server") if find_spec("redis") else None
    broker = "filesystem://"
    if redis is not None:
        socket = Path("redis.sock").absolute()
        broker = f"redis+socket://{socket}"
        command = [redis, "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
        subprocess.Popen(command)  # noqa: S603
        while not socket.exists():
            time.sleep(0.05)
    os.environ.update({_TASKS: tasks, _EVERY: every, _BROKER: broker})
    words = [sys.executable, "-m", "celery", "-A", "celery_program", "-q"]
    subprocess.Popen([*words, "worker", "--without-gossip", "--without-mingle", "--without-heartbeat"])  # noqa: S603
    subprocess.run([*words, "beat", "-S", "celery_program:NotingBeat"], check=True)  # noqa: S603


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
