"""The place of a function host: its variables, its folder and its user, taken on before it imports the user's modules.

What cannot be taken on is the reason why every run of this host is refused: no function runs as anybody else.
"""

import os
import pwd
import select
import time
from contextlib import suppress
from typing import Final

import msgspec

from evenbeat.model import Outcome
from evenbeat.wire.worker_frames import (
    HOST_ENVIRONMENT_VARIABLE,
    NODE_ENVIRONMENT,
    ClockFrame,
    HostEnvironment,
    ReadyFrame,
    RunResult,
    RunsFrame,
    RunSpec,
)
from evenbeat.work.admission import boot_time
from evenbeat.work.node_socket import NodeConnection, NodeGone
from evenbeat.work.spawn import CannotStart, OutOfResources, resolve_variable, user_variables

_LIFE: Final = 10.0
"""Seconds after which a host that refuses everything ends: the next one may find what was missing."""


def enter_host_environment() -> tuple[HostEnvironment, str]:
    """Take on the place that this process was started for: which one, and why it cannot be taken on, or ""."""
    text = os.environ.pop(HOST_ENVIRONMENT_VARIABLE, "")
    if not text:
        return NODE_ENVIRONMENT, ""
    place = msgspec.json.decode(text, type=HostEnvironment)
    try:
        _take(place)
    except (CannotStart, OutOfResources) as e:
        return place, str(e)
    except ValueError as e:
        return place, f"env: {e}"
    return place, ""


def _take(place: HostEnvironment) -> None:
    # As for commands: files with secrets are read, and the folder is entered, by the user of the node.
    its = {name: resolve_variable(name, value, place.user) for name, value in place.env}
    if place.user is not None:
        os.environ.update({os.fsdecode(n): os.fsdecode(v) for n, v in user_variables(place.user).items()})
    os.environ.update(its)
    if place.cwd is not None:
        try:
            os.chdir(place.cwd)
        except OSError as e:
            raise CannotStart(f"the working directory {place.cwd}: {(e.strerror or str(e)).lower()}") from None
    if place.user is not None:
        _switch_user(place.user)


def _switch_user(user: str) -> None:
    """For good: none of our ids is left as it was."""
    entry = pwd.getpwnam(user)
    if os.geteuid() == entry.pw_uid != 0:
        return
    try:
        os.setgroups(os.getgrouplist(user, entry.pw_gid))
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    except OSError:
        raise CannotStart(
            f"the worker is not allowed to run it as user {user}: run the node as root, or omit `user`"
        ) from None


class RefusingHost:
    """Answers every run with the reason why this host cannot call functions."""

    def __init__(self, link: NodeConnection, reason: str) -> None:
        self._link = link
        self._reason = reason.encode(errors="backslashreplace")

    def serve(self) -> None:
        """Until the node is gone, or for a while."""
        poll = select.poll()
        poll.register(self._link.descriptor, select.POLLIN)
        until, offset = time.monotonic() + _LIFE, 0
        with suppress(NodeGone):
            self._link.send(ReadyFrame(os.getpid()))
            while (left := until - time.monotonic()) > 0:
                poll.poll(left * 1_000)
                for message in self._link.receive():
                    match message:
                        case ClockFrame(offset):
                            pass
                        case RunsFrame(runs):
                            self._link.send_results([self._refused(run, offset) for run in runs])
                self._link.finish()

    def _refused(self, run: RunSpec, offset: int) -> RunResult:
        now = boot_time() + offset
        return RunResult(run.token, Outcome.BROKEN, None, now, now, self._reason)
