"""`evenbeat worker`: execute runs for the schedulers of a cluster, until it is told to stop. It needs no database."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Final

from evenbeat.child_processes.descriptors import raise_descriptor_limit
from evenbeat.cli.output.common import (
    duration_option,
    log_to_stderr,
    number_option,
    print_json,
    warn_of_secret_argument,
)
from evenbeat.core.environment import not_passed, own_secrets
from evenbeat.core.timebox import kill_after
from evenbeat.load.pass_env import pass_env_errors
from evenbeat.load.safe_text import text_error
from evenbeat.model import MAX_EVERY, NAME_LIMIT, SECOND, Invalid
from evenbeat.queue.nats.address import QueueAddress, parse_queue_address
from evenbeat.store.sqlite.ownership import runtime_folder
from evenbeat.wire.cluster_messages import DEFAULT_POOL

_MOST_PROCESSES: Final = 256
_MOST_SLOTS: Final = 100_000
_MOST_POOLS: Final = 64
_GRACE: Final = "30s"
_GC_THRESHOLD: Final = (100_000, 10, 10)
"""As gc.set_threshold takes it."""
_log: Final = logging.getLogger("evenbeat.worker")


def run_command(args: argparse.Namespace) -> int:
    """Run the worker; exit 0 after an orderly stop."""
    try:
        from evenbeat.queue.nats.worker import ClusterWorker, WorkerOptions  # noqa: PLC0415 - an extra
    except ImportError:
        raise Invalid("a worker needs nats-py: `pip install 'evenbeat[cluster]'` brings it") from None
    where = _where(args)
    warn_of_secret_argument(args.queue, "--queue", "EVENBEAT_QUEUE", is_secret=bool(where.password or where.token))
    for secret in own_secrets(os.environ):
        del os.environ[secret]  # commands must not see our secrets
    pass_env = _pass_env(args.pass_env)
    grace = duration_option(args.grace or _GRACE, "--grace")
    if not 0 <= grace <= MAX_EVERY:
        raise Invalid(f"{args.grace} is out of range, accepted: 0s to 3653d", place="--grace")
    log_to_stderr()
    raise_descriptor_limit()
    options = WorkerOptions(
        kill_after,
        pools=_pools(args.pools),
        slots=number_option(args.slots, "--slots", _MOST_SLOTS) or 256,
        processes=number_option(args.workers, "--workers", _MOST_PROCESSES) or len(os.sched_getaffinity(0)),
        name=_check_name(args.name or socket.gethostname(), "--name"),
        grace=grace / SECOND,
        pass_env=pass_env,
        records=_records(),
    )

    async def live() -> ClusterWorker:
        worker = ClusterWorker(where, options)
        leaving = asyncio.Event()
        at_once = asyncio.Event()

        def on_signal() -> None:
            (at_once if leaving.is_set() else leaving).set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)

        def on_stdin_closed() -> None:
            loop.remove_reader(0)
            leaving.set()

        if args.beside:
            loop.add_reader(0, on_stdin_closed)
        pools = ",".join(options.pools)
        _log.info("up", extra={"action": "up", "worker": worker.id, "pools": pools, "queue": where})
        if names := not_passed(os.environ, pass_env):
            more = {"action": "environment", "not_passed": ",".join(names)}
            _log.info("commands get none of these variables; --pass-env passes them on", extra=more)
        starting = asyncio.create_task(worker.start())
        await _first_to_finish(starting, leaving)
        await leaving.wait()
        _log.info("leaving", extra={"action": "leaving", "running": worker.held, "grace": options.grace})
        starting.cancel()
        going = asyncio.create_task(worker.leave(options.grace))
        if await _first_to_finish(going, at_once) is not going:
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)
            await worker.stop()
        return worker

    # As in a scheduler: runs come and go by the thousand without a cycle among them.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLD)
    worker = asyncio.run(live())
    _log.info("stopped", extra={"action": "stopped", "runs": worker.runs})
    if args.json:
        print_json({"runs": worker.runs, "fenced": worker.fenced, "unconfirmed": worker.held})
    return 0


async def _first_to_finish(task: asyncio.Task[None], event: asyncio.Event) -> asyncio.Task[None] | None:
    """Wait for the end of the task, or for the event, whichever comes first; the task is returned."""
    waiting = asyncio.create_task(event.wait())
    done, _ = await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task in done:
        task.result()
        return task
    return None


def _records() -> Path | None:
    """Records of the worker's processes, or None on a machine without a folder for them."""
    try:
        return runtime_folder()
    except Invalid as e:
        _log.warning("what this worker leaves if it is killed may not be found: %s", e, extra={"action": "records"})
        return None


def _where(args: argparse.Namespace) -> QueueAddress:
    url = args.queue or os.environ.get("EVENBEAT_QUEUE")
    if not url:
        raise Invalid("a worker needs a queue: give --queue nats://HOST:PORT, or set EVENBEAT_QUEUE")
    return parse_queue_address(url)


def _pass_env(names: list[str]) -> tuple[str, ...]:
    for _, problem in pass_env_errors(names):
        raise Invalid(problem, place="--pass-env")
    return tuple(names)


def _pools(names: list[str]) -> tuple[str, ...]:
    pools = tuple(dict.fromkeys(names)) or (DEFAULT_POOL,)
    if len(pools) > _MOST_POOLS:
        raise Invalid(f"{len(pools)} pools, accepted: at most {_MOST_POOLS}", place="--pool")
    return tuple(_check_name(pool, "--pool") for pool in pools)


def _check_name(name: str, option: str) -> str:
    if not 1 <= len(name) <= NAME_LIMIT:
        raise Invalid(f"a name of {len(name)} characters, accepted: 1 to {NAME_LIMIT}", place=option)
    if problem := text_error(name):
        raise Invalid(problem, place=option)
    return name
