"""Start function hosts with the variables, folder or user that their functions ask for.

Code of another user can take over the host that calls it. So such a host is started without the node's environment and
output, and the node trusts only what it reports about its own runs.
"""

import logging
import os
import pwd
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import msgspec

from evenbeat.child_processes.orphan_guard import OrphanGuard
from evenbeat.core.environment import without_secrets
from evenbeat.model import CURSOR_LIMIT, MAX_OUTPUT_KEEP, OUTPUT_LIMIT, ArgumentValue, Outcome
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import MessageToNode, PlainResults, full_results
from evenbeat.wire.worker_frames import (
    HOST_ENVIRONMENT_VARIABLE,
    NODE_ENVIRONMENT,
    HostEnvironment,
    ResultsFrame,
    RunResult,
    RunSpec,
    StartedFrame,
    output_keep_of,
)

_PASSED_VARIABLES: Final = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "VIRTUAL_ENV"}
)
"""Variables of the node that a host of another user gets, besides LC_*."""
_OUTCOMES: Final = frozenset(Outcome) - {Outcome.LOST}
_MAX_OTHER_MESSAGES: Final = 2_000
"""Messages per second, other than results, from all hosts of one environment: a host reports starts, wrong hosts and
that it is ready. Each run in a message that the host does not have counts like a message."""
_FRAME_LIMIT: Final = (2 << 20) + MAX_OUTPUT_KEEP
"""Bytes of one frame from a host of another user; our hosts send about 1 MiB and a result, see `work.node_socket`."""
_HIGHEST_STATUS: Final = (1 << 31) - 1
STOP_NODE_REFUSED: Final = b"run.stop_node() has no effect in a function that runs as another user than the node\n"
_log: Final = logging.getLogger("evenbeat.node")
_cursor: Final = msgspec.msgpack.Decoder(ArgumentValue)


class HostLauncher:
    """Starts hosts in one environment, and filters what they report."""

    def __init__(self, environment: HostEnvironment = NODE_ENVIRONMENT) -> None:
        self._environment = environment
        self._other_messages = (0, 0)
        """A second, and how many messages other than results came from hosts of another user in it."""

    def start(
        self,
        program: tuple[str, ...],
        on_frames: Callable[[WorkerHandle, list[MessageToNode]], None],
        on_gone: Callable[[WorkerHandle], None],
        orphan_guard: OrphanGuard,
    ) -> WorkerHandle:
        """A host process; raise OSError if the machine is too full for it."""
        if self._environment == NODE_ENVIRONMENT:
            return WorkerHandle(program, on_frames, on_gone, orphan_guard, lifeline=True)
        variables = without_secrets(os.environ) if self._environment.user is None else _environment_for_other_users()
        # We resolve references to our variables, as a host of another user does not have them.
        env = tuple((name, _resolved(value)) for name, value in self._environment.env)
        variables[HOST_ENVIRONMENT_VARIABLE] = msgspec.json.encode(
            msgspec.structs.replace(self._environment, env=env)
        ).decode()
        if self._environment.user is None:
            return WorkerHandle(program, on_frames, on_gone, orphan_guard, lifeline=True, environment=variables)
        return WorkerHandle(
            program,
            on_frames,
            on_gone,
            orphan_guard,
            lifeline=True,
            environment=variables,
            output=subprocess.DEVNULL,  # ours may be a terminal
            frame_limit=_FRAME_LIMIT,
        )

    def trusted_part(self, worker: WorkerHandle, messages: list[MessageToNode], now: int) -> list[MessageToNode]:
        """The messages of a host, without those that a host of another user has no right to send."""
        if self._environment.user is None:
            return messages
        trusted: list[MessageToNode] = []
        others = 0
        for received in messages:
            message = ResultsFrame(full_results(received)) if isinstance(received, PlainResults) else received
            match message:
                case ResultsFrame(results):
                    ours = {result.token: result for result in results if result.token in worker.outstanding}
                    others += not ours
                    others += len(results) - len(ours)
                    if ours:
                        trusted.append(
                            ResultsFrame(
                                [_sanitized_result(result, now, worker.outstanding) for result in ours.values()]
                            )
                        )
                case StartedFrame(starts):
                    begun = {token: min(at, now) for token, at in starts if token in worker.outstanding}
                    others += 1 + len(starts) - len(begun)
                    if begun:
                        trusted.append(StartedFrame(list(begun.items())))
                case _:
                    others += 1
                    trusted.append(message)
        if self._is_within_limit(worker, others):
            return trusted
        return [message for message in trusted if isinstance(message, ResultsFrame)]

    def _is_within_limit(self, worker: WorkerHandle, others: int) -> bool:
        """Kill a host that floods the node with messages other than results."""
        second = int(worker.last_heard)
        self._other_messages = (second, others + (self._other_messages[1] if self._other_messages[0] == second else 0))
        if self._other_messages[1] <= _MAX_OTHER_MESSAGES:
            return True
        extra = {"action": "host_ended", "worker": worker.pid}
        _log.warning("a function host of user %s is ended: it floods the node", self._environment.user, extra=extra)
        worker.distrust()
        return False


@cache
def own_user() -> str:
    """The name of our user; "" if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _sanitized_result(result: RunResult, now: int, runs: Mapping[int, RunSpec]) -> RunResult:
    """A result from a host of another user, limited to what one of our hosts could report."""
    ended = max(min(result.ended, now), 0)
    output = STOP_NODE_REFUSED + result.output if result.stop_node else result.output
    return RunResult(
        token=result.token,
        outcome=result.outcome if result.outcome in _OUTCOMES else Outcome.FAILED,
        status=None if result.status is None or abs(result.status) > _HIGHEST_STATUS else result.status,
        started=max(min(result.started, ended), 0),
        ended=ended,
        output=output[:OUTPUT_LIMIT],
        cursor=result.cursor if _is_cursor(result.cursor) else None,
        truncated=result.truncated or len(output) > OUTPUT_LIMIT,
        returned=result.returned,
        whole=result.whole if result.whole and len(result.whole) <= output_keep_of(runs[result.token]) else b"",
    )


def _is_cursor(packed: bytes | None) -> bool:
    if packed is None or len(packed) > CURSOR_LIMIT:
        return False
    try:
        _cursor.decode(packed)
    except msgspec.DecodeError:
        return False
    return True


def _environment_for_other_users() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _PASSED_VARIABLES or name.startswith("LC_")}


def _resolved(value: str) -> str:
    """The value that "env:NAME" refers to. A reference to a missing variable stays, and the host refuses its runs."""
    return without_secrets(os.environ).get(value[4:], value) if value.startswith("env:") else value
