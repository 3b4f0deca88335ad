"""Shared by the commands that run a node: its options, a screen or a log while it runs, and how it has ended."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from evenbeat.child_processes.descriptors import raise_descriptor_limit
from evenbeat.cli.output.common import duration_option, log_to_stderr, number_option, print_json
from evenbeat.cli.output.node_screen import StatusScreen, log_stop_progress
from evenbeat.cli.output.terminal import has_terminal
from evenbeat.cli.task_selection import show_progress
from evenbeat.cli.which_database import user_name
from evenbeat.client.sign_in_text import sign_in_text
from evenbeat.model import MAX_EVERY, SECOND, Invalid
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.followed_files import file_states
from evenbeat.node.process.listen import ListenAddress, parse_listen
from evenbeat.node.process.run_end_log import RunEndLogger
from evenbeat.node.scheduler import Scheduler

_MOST_WORKERS: Final = 256
_MOST_SLOTS: Final = 1_000_000
_log: Final = logging.getLogger("evenbeat.node")


def node_options(args: argparse.Namespace) -> NodeOptions:
    """The options of the command line, validated."""
    workers = number_option(getattr(args, "workers", None), "--workers", _MOST_WORKERS, least=0)
    length = None if args.for_ is None else duration_option(args.for_, "--for")
    if length is not None and not 0 < length <= MAX_EVERY:
        raise Invalid(f"{args.for_} is out of range, accepted: more than 0, up to 3653d", place="--for")
    files = tuple(Path(file) for file in args.files)
    if args.follow and not files:
        raise Invalid("there is no file to follow, accepted: --follow FILE...", place="--follow")
    return NodeOptions(
        files=files,
        followed=file_states(files) if args.follow else None,
        is_strict=args.strict,
        workers=len(os.sched_getaffinity(0)) if workers is None else workers,
        max_concurrent=number_option(args.max_concurrent, "--max-concurrent", _MOST_SLOTS),
        length=None if length is None else length / SECOND,
        listen=_listen(args),
    )


def _listen(args: argparse.Namespace) -> ListenAddress | None:
    where = args.listen or os.environ.get("EVENBEAT_LISTEN")
    cert, key = (None if file is None else Path(file) for file in (args.tls_cert, args.tls_key))
    if not where:
        if cert or key or args.no_tls or args.open:
            raise Invalid("--open, --tls-cert, --tls-key and --no-tls say how to listen: give --listen HOST:PORT too")
        return None
    if (cert or key) and args.no_tls:
        raise Invalid("with a certificate or without TLS? Give --tls-cert and --tls-key, or --no-tls")
    host, port = parse_listen(where)
    return ListenAddress(host, port, cert, key, is_plain=args.no_tls, is_open=args.open)


@asynccontextmanager
async def node_display(
    args: argparse.Namespace, options: NodeOptions, path: Path | str
) -> AsyncIterator[Callable[[Scheduler], None]]:
    """While a node runs, show how it is doing: on a terminal a screen, otherwise log lines. Yields its `ready`."""
    raise_descriptor_limit()
    # Behind `&` a screen would be drawn over what is typed.
    is_shown = has_terminal(sys.stdout) and not args.json
    shows: list[asyncio.Task[None]] = []
    with ExitStack() as starting:
        if is_shown:
            starting.enter_context(show_progress(f"starting on {path}"))

        def ready(node: Scheduler) -> None:
            starting.close()
            RunEndLogger(node).attach()
            show = _show_node(node, path) if is_shown else log_stop_progress(node)
            shows.append(asyncio.get_running_loop().create_task(show))
            extra: dict[str, object] = {
                "action": "ready",
                "tasks": node.status().tasks,
                "workers": options.workers,
                "db": path,
            }
            if node.page:
                extra["page"] = node.page
            _log.info("ready; `evenbeat status --db %s` shows how it is doing", path, extra=extra)
            if node.token_file is not None:
                found: dict[str, object] = {"action": "token_file", "file": node.token_file}
                _log.info("the token to sign in with is in %s", node.token_file, extra=found)
            if options.listen is not None and options.listen.is_open:
                message = "--open: every user of this machine may do everything at %s as long as there are no tokens"
                _log.warning(message, node.page, extra={"action": "open"})

        if not is_shown:
            log_to_stderr()
        try:
            yield ready
        finally:
            for show in shows:
                show.cancel()
            await asyncio.gather(*shows, return_exceptions=True)


async def _show_node(node: Scheduler, path: Path | str) -> None:
    screen = StatusScreen(node, path)
    if node.page and (node.options.listen is None or not node.options.listen.is_open):
        screen.say(await asyncio.to_thread(sign_in_text, node, path, node.page, user_name()))
    await screen.show()


def report_end(args: argparse.Namespace, node: Scheduler) -> int:
    """Say how a node has ended; return the exit status."""
    _log.info("stopped: %s", node.reason, extra={"action": "stopped", "runs": node.turns.counts.runs})
    if args.json:
        print_json(_summary(node))
    return 1 if node.uncommitted_reason else 0


def _summary(node: Scheduler) -> dict[str, Any]:
    """What the node did, as JSON values."""
    status = node.status()
    return {
        "runs": status.runs,
        "outcomes": status.outcomes,
        "skipped": status.skipped,
        "lateness": msgspec.to_builtins(status.lateness),
        "reason": node.reason,
    }
