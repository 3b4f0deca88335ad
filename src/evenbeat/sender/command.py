"""Deliver a message by a command: no shell, Nagios' variables in its environment, the document on standard input."""

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Final

from evenbeat.child_processes.descriptors import restore_original_limit
from evenbeat.core.environment import for_commands
from evenbeat.sender.attempt import Attempt, NotDelivered, encode_document
from evenbeat.sender.nagios_macros import message_variables

_OUTPUT_LIMIT: Final = 4_096
"""Bytes of its output that are kept: the last ones."""
_READ_SIZE: Final = 65_536


def deliver_by_command(attempt: Attempt, pass_env: Sequence[str] = ()) -> str:
    """Run the command, and return its last line of output; raise NotDelivered unless it ends with exit status 0."""
    words = attempt.order.words
    document = attempt.document()
    environment = for_commands(os.environ, pass_env) | message_variables(document)
    attempt.waits_for = f"the command {words[0]}"
    attempt.remaining()
    try:
        process = subprocess.Popen(  # noqa: S603 - running what the contact says is the purpose
            words,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except (OSError, ValueError) as e:
        # Of ValueError: a NUL in a word.
        reason = (e.strerror or str(e)) if isinstance(e, OSError) else "a word of it has a NUL character"
        raise NotDelivered(f"the command {words[0]!a} cannot be started: {reason.lower()}") from None
    restore_original_limit(process.pid)
    run = _RunningCommand(process)
    attempt.interrupt_by(run.kill)
    try:
        output = run.feed_and_read(attempt, encode_document(document))
    finally:
        status = run.end()
    line = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    if status:
        how = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        raise NotDelivered(f"the command {words[0]} {how}", may_have_arrived=status < 0, detail=line)
    return line or "exit status 0"


class _RunningCommand:
    """The process of a command, and all that is in its group."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._lock = threading.Lock()
        """Its number is free, and may be that of another process, as soon as it is reaped."""
        self._is_reaped = False

    def kill(self) -> None:
        """Kill it with its whole group, unless it has ended. From any thread."""
        with self._lock:
            if not self._is_reaped:
                with suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def feed_and_read(self, attempt: Attempt, data: bytes) -> str:
        """Write to its standard input and read its output until it has ended. It need not read anything."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        attempt.has_left = True
        unwritten = memoryview(data)
        output = b""
        with ExitStack() as opened:
            selector = opened.enter_context(selectors.DefaultSelector())
            pidfd = os.pidfd_open(process.pid)
            opened.callback(os.close, pidfd)
            for file in (process.stdin, process.stdout):
                os.set_blocking(file.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(pidfd, selectors.EVENT_READ)
            has_ended = False
            while not has_ended:
                for key, _ in selector.select(attempt.remaining()):
                    if key.fileobj is process.stdin:
                        unwritten = unwritten[_write(process.stdin.fileno(), unwritten) :]
                        if not unwritten:
                            selector.unregister(process.stdin)
                            process.stdin.close()
                    elif key.fileobj is process.stdout:
                        part = _read(process.stdout.fileno())
                        if part == b"":
                            selector.unregister(process.stdout)
                        output = (output + (part or b""))[-_OUTPUT_LIMIT:]
                    else:
                        has_ended = True
            # What it has started may hold its output open: that is not waited for.
            while part := _read(process.stdout.fileno()):
                output = (output + part)[-_OUTPUT_LIMIT:]
        return output.decode(errors="replace")

    def end(self) -> int:
        """Its exit status, or minus the signal that ended it. It is killed if it has not ended."""
        process = self._process
        for file in (process.stdin, process.stdout):
            if file is not None:
                with suppress(OSError):
                    file.close()
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            self.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._is_reaped = True
            return process.wait()


def _write(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except OSError:
        return len(data)  # it does not want to read it


def _read(descriptor: int) -> bytes | None:
    """What is there; b"" at the end, None if there is nothing at the moment."""
    try:
        return os.read(descriptor, _READ_SIZE)
    except BlockingIOError:
        return None
