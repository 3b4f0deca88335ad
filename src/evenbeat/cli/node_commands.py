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

from evenbeat.admin.sign_in_links import link_code_digest, new_link_code, sign_in_url
from evenbeat.child_processes.descriptors import raise_descriptor_limit
from evenbeat.cli.output.common import duration_option, log_to_stderr, number_option, print_json
from evenbeat.cli.output.node_screen import StatusScreen, log_stop_progress
from evenbeat.cli.output.run_messages import RunEndLogger
from evenbeat.cli.task_commands import show_progress, user_name
from evenbeat.client.in_process import client_on_own_loop
from evenbeat.core.access_rules import SIGN_IN_LINK_LIFETIME
from evenbeat.model import MAX_EVERY, SECOND, Invalid
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.listen import ListenAddress, parse_listen
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import StoreError
from evenbeat.when.duration import spoken_duration

_MOST_WORKERS: Final = 256
_MOST_SLOTS: Final = 1_000_000
_log: Final = logging.getLogger("evenbeat.node")


def node_options(args: argparse.Namespace) -> NodeOptions:
    """The options of the command line, validated."""
    workers = number_option(getattr(args, "workers", None), "--workers", _MOST_WORKERS, least=0)
    length = None if args.for_ is None else duration_option(args.for_, "--for")
    if length is not None and not 0 < length <= MAX_EVERY:
        raise Invalid(f"{args.for_} is out of range, accepted: more than 0, up to 3653d", place="--for")
    return NodeOptions(
        files=tuple(Path(file) for file in args.files),
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
    is_shown = sys.stdout.isatty() and not args.json
    shows: list[asyncio.Task[None]] = []
    with ExitStack() as starting:
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
        screen.say(await asyncio.to_thread(_sign_in_text, node, path))
    await screen.show()


def _sign_in_text(node: Scheduler, path: Path | str) -> str:
    """A one-time sign-in link for the person at the terminal. It is never logged or passed as an argument."""
    code = new_link_code()
    try:
        made = client_on_own_loop(node, user_name()).create_sign_in_link(link_code_digest(code), None)
    except (Invalid, StoreError):
        return f"Sign in at {node.page} with a token; `evenbeat token link NAME --db {path}` makes a link."
    again = f"`evenbeat token link --db {path}` makes another"
    lifetime = spoken_duration(SIGN_IN_LINK_LIFETIME)
    return f"Sign in: {sign_in_url(made.page, code)}\nThis link works once, for {lifetime}; {again}."


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
