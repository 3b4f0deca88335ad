"""Function hosts in a place of their own: with variables, a folder or a user that their functions ask for.

Code of another user can take over the host that calls it. So such a host is started without the node's environment and
output, and the node believes only what it says about runs that it was given.
"""

import logging
import os
import pwd
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from evenbeat.child_processes.cleanup import OrphanGuard
from evenbeat.core.environment import without_secrets
from evenbeat.model import CURSOR_LIMIT, OUTPUT_LIMIT, ArgumentValue, Outcome
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.worker_frames import (
    HOST_ENVIRONMENT_VARIABLE,
    NODE_ENVIRONMENT,
    FrameToNode,
    HostEnvironment,
    ResultsFrame,
    RunResult,
    StartedFrame,
)

_PASSED_ON: Final = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "VIRTUAL_ENV"}
)
"""Variables of the node that a host of another user gets, beside those for the locale; the rest is not for them."""
_OUTCOMES: Final = frozenset(Outcome) - {Outcome.LOST}
_IDLE_MESSAGES: Final = 2_000
"""Per second, of all hosts of a place. A host tells of a run that it has started or cannot make, and of its clock.
What a message says of runs that the host does not have counts like a message each."""
_FRAME_LIMIT: Final = 2 << 20
"""Bytes of what a host of another user says at once: ours send about 1 MiB, see `work.link`."""
_HIGHEST_STATUS: Final = (1 << 31) - 1
STOP_NODE_REFUSED: Final = b"run.stop_node() has no effect in a function that runs as another user than the node\n"
_log: Final = logging.getLogger("evenbeat.node")
_cursor: Final = msgspec.msgpack.Decoder(ArgumentValue)


class HostLauncher:
    """Starts hosts in one place, and says what of their words counts."""

    def __init__(self, place: HostEnvironment = NODE_ENVIRONMENT) -> None:
        self._place = place
        self._idle = (0, 0)
        """In which second hosts of another user sent how many messages that were no results."""

    def start(
        self,
        program: tuple[str, ...],
        heard: Callable[[WorkerHandle, list[FrameToNode]], None],
        died: Callable[[WorkerHandle], None],
        keeper: OrphanGuard,
    ) -> WorkerHandle:
        """A host process; raise OSError if the machine is too full for it."""
        if self._place == NODE_ENVIRONMENT:
            return WorkerHandle(program, heard, died, keeper, lifeline=True)
        environment = without_secrets(os.environ) if self._place.user is None else _python_for_other_users()
        # References to our variables are for us to follow, as a host of another user does not have them.
        env = tuple((name, _variable(value)) for name, value in self._place.env)
        environment[HOST_ENVIRONMENT_VARIABLE] = msgspec.json.encode(
            msgspec.structs.replace(self._place, env=env)
        ).decode()
        if self._place.user is None:
            return WorkerHandle(program, heard, died, keeper, lifeline=True, environment=environment)
        return WorkerHandle(
            program,
            heard,
            died,
            keeper,
            lifeline=True,
            environment=environment,
            output=subprocess.DEVNULL,  # ours may be a terminal
            frame_limit=_FRAME_LIMIT,
        )

    def trusted_part(self, worker: WorkerHandle, messages: list[FrameToNode], now: int) -> list[FrameToNode]:
        """What the host said, without what a host of another user has no right to say."""
        if self._place.user is None:
            return messages
        believed: list[FrameToNode] = []
        idle = 0
        for message in messages:
            match message:
                case ResultsFrame(results):
                    ours = {result.token: result for result in results if result.token in worker.outstanding}
                    idle += not ours
                    idle += len(results) - len(ours)
                    if ours:
                        believed.append(ResultsFrame([_sanitized_result(result, now) for result in ours.values()]))
                case StartedFrame(starts):
                    begun = {token: min(at, now) for token, at in starts if token in worker.outstanding}
                    idle += 1 + len(starts) - len(begun)
                    if begun:
                        believed.append(StartedFrame(list(begun.items())))
                case _:
                    idle += 1
                    believed.append(message)
        return believed if self._may_go_on(worker, idle) else []

    def _may_go_on(self, worker: WorkerHandle, idle: int) -> bool:
        """End a host that keeps the node busy with messages that are no results."""
        second = int(worker.last_heard)
        self._idle = (second, idle + (self._idle[1] if self._idle[0] == second else 0))
        if self._idle[1] <= _IDLE_MESSAGES:
            return True
        extra = {"action": "host_ended", "worker": worker.pid}
        _log.warning("a function host of user %s is ended: it floods the node", self._place.user, extra=extra)
        worker.signal(signal.SIGKILL)
        return False


@cache
def own_user() -> str:
    """The name of the user that we run as; "" if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _sanitized_result(result: RunResult, now: int) -> RunResult:
    """The result of another user's host as one of ours could be."""
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
    )


def _is_cursor(packed: bytes | None) -> bool:
    if packed is None or len(packed) > CURSOR_LIMIT:
        return False
    try:
        _cursor.decode(packed)
    except msgspec.DecodeError:
        return False
    return True


def _python_for_other_users() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}


def _variable(value: str) -> str:
    """What "env:NAME" refers to; a reference to a variable that we do not have stays, and the host refuses its runs."""
    return without_secrets(os.environ).get(value[4:], value) if value.startswith("env:") else value
