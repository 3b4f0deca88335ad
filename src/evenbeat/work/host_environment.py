"""Give a function host its variables, folder and user, before it imports the user's modules.

If that fails, every run of this host is refused with the reason: no function runs as a wrong user.
"""

import os
import pwd
import select
import time
from contextlib import suppress
from typing import Final

import msgspec

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import HOME_FOLDER, Outcome
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
from evenbeat.work.node_socket import NodeConnection, NodeGone
from evenbeat.work.spawn import CannotStart, OutOfResources, resolve_variable, user_variables

_MAX_LIFE: Final = 10.0
"""Seconds after which a host that refuses everything ends: the next one may find what is missing now."""


def enter_host_environment() -> tuple[HostEnvironment, str]:
    """Apply the environment that this process was started for: which one, and why that is not possible, or ""."""
    text = os.environ.pop(HOST_ENVIRONMENT_VARIABLE, "")
    if not text:
        return NODE_ENVIRONMENT, ""
    environment = msgspec.json.decode(text, type=HostEnvironment)
    try:
        _apply(environment)
    except (CannotStart, OutOfResources) as e:
        return environment, str(e)
    except ValueError as e:
        return environment, f"env: {e}"
    return environment, ""


def _apply(environment: HostEnvironment) -> None:
    # As for commands: the node's user reads files with secrets and enters the folder.
    variables = {name: resolve_variable(name, value, environment.user) for name, value in environment.env}
    if environment.user is not None:
        os.environ.update({os.fsdecode(n): os.fsdecode(v) for n, v in user_variables(environment.user).items()})
    os.environ.update(variables)
    if environment.cwd is not None:
        try:
            os.chdir(environment.cwd if environment.cwd != HOME_FOLDER else os.path.expanduser(HOME_FOLDER))
        except OSError as e:
            raise CannotStart(f"the working directory {environment.cwd}: {(e.strerror or str(e)).lower()}") from None
    if environment.user is not None:
        _switch_user(environment.user)


def _switch_user(user: str) -> None:
    """Change all of our user and group ids, irrevocably."""
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

    def __init__(self, connection: NodeConnection, reason: str) -> None:
        self._connection = connection
        self._reason = reason.encode(errors="backslashreplace")

    def serve(self) -> None:
        """Serve until the node has ended, but not for long."""
        poll = select.poll()
        poll.register(self._connection.descriptor, select.POLLIN)
        until, offset = time.monotonic() + _MAX_LIFE, 0
        with suppress(NodeGone):
            self._connection.send(ReadyFrame(os.getpid()))
            while (left := until - time.monotonic()) > 0:
                poll.poll(left * 1_000)
                for message in self._connection.receive():
                    match message:
                        case ClockFrame(offset):
                            pass
                        case RunsFrame(runs):
                            self._connection.send_results([self._refused(run, offset) for run in runs])
                self._connection.finish()

    def _refused(self, run: RunSpec, offset: int) -> RunResult:
        now = boot_time() + offset
        return RunResult(run.token, Outcome.BROKEN, None, now, now, self._reason)
