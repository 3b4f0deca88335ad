"""The control socket: other processes of this machine ask and change the node. One JSON line in, one out."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from evenbeat.admin.perform import affected_tasks, perform_change, perform_sign_in, reply_to_change
from evenbeat.admin.problem_actions import action_of, perform_problem_request
from evenbeat.admin.task_admin import LiveChange
from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid, RunKind
from evenbeat.node.answers.metrics import node_metrics_of
from evenbeat.node.answers.status import node_identity_of
from evenbeat.node.answers.task_state import live_task_state_of
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.node.process.event_publisher import EventBroadcaster
from evenbeat.node.process.submissions import answer_result_request
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import Batch, Conflict, Finish, StoreError
from evenbeat.store.sqlite.ownership import socket_address
from evenbeat.wire.replies import EndedRun, Forbidden, HeldByOtherNode, NotFound, Reply
from evenbeat.wire.requests import (
    MAX_REQUEST_BYTES,
    ApplyFiles,
    BackUpDatabase,
    ChangeRequest,
    ForceTasks,
    GetCluster,
    GetLiveTaskState,
    GetNodeIdentity,
    GetNodeMetrics,
    GetRunningRuns,
    GetStatus,
    NodeQuery,
    ProblemRequest,
    Request,
    ResultRequest,
    SignInRequest,
    SubscribeToEvents,
)

_log: Final = logging.getLogger("evenbeat.control")

_request_decoder: Final = msgspec.json.Decoder(Request)


class _RunWaiter(NamedTuple):
    """A request that waits for the end of a forced run."""

    end: asyncio.Future[Finish]
    asked: int
    """The token of the last run claimed before the request: the run that is waited for has a later one."""

    def waits_for(self, run: PendingRun) -> bool:
        """Is this the run that was asked for? A run that was claimed before the request is not."""
        return run.kind == RunKind.FORCED and run.token > self.asked


class ControlServer:
    """Answers requests: from the socket, and from other threads of this program."""

    def __init__(self, node: Scheduler, path: Path | None) -> None:
        """`path` is where it listens, see `socket_path`; None if only the program itself asks."""
        self.node = node
        self._path = path
        self._waiting: dict[int, list[_RunWaiter]] = {}
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Start to listen; only the user of the node may connect."""
        self._hub = EventBroadcaster(self.node, asyncio.get_running_loop())
        self.node.turns.on_finished.append(self._finished)
        self.node.turns.on_tasks_left.append(self._has_left)
        self.node.turns.on_withdrawn.append(self._were_withdrawn)
        self.node.on_change.append(self._forget)
        if self._path is not None:
            await self._listen(self._path)

    async def _listen(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with socket_address(path) as address:
                # The umask is that of the whole process: no other file may be created before it is restored.
                before = os.umask(0o177)
                try:
                    listening.bind(address)
                finally:
                    os.umask(before)
                # Within the block: asyncio looks at the file by this address too.
                self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=MAX_REQUEST_BYTES)
        except BaseException:
            listening.close()
            raise
        self._socket = path.stat()

    async def look(self) -> None:
        """Listen again if the socket file was deleted; connections stay. Called about once a second."""
        if self._path is None:
            return
        try:
            if os.path.samestat(self._socket, self._path.stat()):
                return
        except FileNotFoundError:
            pass
        before = self._server
        await self._listen(self._path)
        if before is not None:
            before.close()
        _log.warning("%s was deleted, and was made anew", self._path, extra={"action": "socket_made_anew"})

    async def close(self) -> None:
        """Accept no more requests; callers that wait for a reply learn that there will be none."""
        if self._server is not None:
            self._server.close()
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        if self._server is not None and self._path is not None:
            self._path.unlink(missing_ok=True)

    async def reply_within(self, request: Request) -> Reply | None:
        """As `reply_to`, for another thread of this program; cancelled when the node stops."""
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        return await self.reply_to(request)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A line beyond the limit is a ValueError: none of our clients sends one.
        with suppress(ConnectionError, asyncio.CancelledError, ValueError), closing(writer):
            while line := await reader.readline():
                reply = await self._answer(line)
                if reply is None:
                    await self._hub.feed(reader, writer)
                    return
                writer.write(msgspec.json.encode(reply) + b"\n")
                await writer.drain()

    async def _answer(self, line: bytes) -> Reply | None:
        """The reply to one line; None for a subscription to events."""
        try:
            return await self.reply_to(_request_decoder.decode(line))
        except HeldByOtherNode as e:
            assert self.node.others is not None
            return await self.node.others.requests.forward(e.number, _request_decoder.decode(line))
        except (Invalid, msgspec.ValidationError, msgspec.DecodeError) as e:
            return Reply(problem=str(e), kind="invalid")
        except StoreError as e:
            return Reply(problem=str(e), kind="store")

    async def reply_to(self, request: Request) -> Reply | None:
        """Perform the request, or reply why not; HeldByOtherNode if another node of the cluster must be asked."""
        try:
            return await self._do(request)
        except HeldByOtherNode:
            raise
        except Conflict as e:
            return Reply(problem=str(e), kind="conflict")
        except NotFound as e:
            return Reply(problem=str(e), kind="missing")
        except Forbidden as e:
            return Reply(problem=str(e), kind="forbidden")
        except (Invalid, BadFileError, msgspec.ValidationError, msgspec.DecodeError) as e:
            return Reply(problem=str(e), kind="invalid")
        except StoreError as e:
            return Reply(problem=str(e), kind="store")
        except Exception as e:
            _log.exception("a request failed", extra={"action": "request_failed"})
            return Reply(problem=f"the node failed at this: {e!r}", kind="store")

    async def _do(self, request: Request) -> Reply | None:
        node = self.node
        if isinstance(request, ResultRequest):
            return await answer_result_request(node, request)
        if isinstance(request, SignInRequest):
            return await asyncio.to_thread(perform_sign_in, node.admin, request, node.page)
        if isinstance(request, ProblemRequest):
            return await self._act_on_problems(request)
        if isinstance(request, NodeQuery):
            return await self._answer_query(request)
        match request:
            case SubscribeToEvents():
                return None
            case ForceTasks():
                return await self._force(request)
            case BackUpDatabase(path):
                await asyncio.to_thread(node.store.backup, Path(path))
                return Reply()
        return await self._change(request)

    async def _answer_query(self, query: NodeQuery) -> Reply:
        node = self.node
        match query:
            case GetStatus():
                return Reply(status=node.status())
            case GetLiveTaskState(number):
                moment = live_task_state_of(node, number)
                if moment is None and node.others is not None:
                    raise HeldByOtherNode(number)
                return Reply(moment=moment)
            case GetCluster():
                return Reply(cluster=None if node.others is None else node.others.view())
            case GetRunningRuns(most):
                return Reply(running=await node.membership.running(most))
            case GetNodeIdentity():
                return Reply(node=node_identity_of(node))
            case GetNodeMetrics():
                return Reply(numbers=node_metrics_of(node))

    async def _change(self, request: ChangeRequest) -> Reply:
        node = self.node
        files = {file.resolve() for file in node.options.files}
        named = set(map(Path, request.files)) if isinstance(request, ApplyFiles) else None
        is_reload = named is not None and bool(files) and (not named or files <= named)
        try:
            changed = await asyncio.to_thread(perform_change, node.admin, request, node.options.files)
            if is_reload:
                node.files_error = ""
        except (BadFileError, Invalid) as e:
            if is_reload:
                node.files_error = str(e)
            raise
        finally:
            node.apply_changes()  # also the part that was made before a failure
        await node.outbox.wait_committed()  # the reply must stay true even if the node dies now
        return reply_to_change(request, changed)

    async def _act_on_problems(self, request: ProblemRequest) -> Reply:
        """The store alone keeps acknowledgements and comments: the node has nothing to take over."""
        reply = await asyncio.to_thread(perform_problem_request, self.node.admin, request)
        assert reply.problems is not None
        self._hub.announce_tasks(reply.problems.tasks, action_of(request))
        return reply

    async def _force(self, request: ForceTasks) -> Reply:
        admin, node = self.node.admin, self.node
        noted = not request.is_passed_on
        entries = await asyncio.to_thread(admin.select_forced, request.names, request.who, request.only, noted=noted)
        node.apply_changes()  # one of them may have just been created
        here = [entry for entry in entries if node.tasks.row(entry.number) is not None]
        ends: list[asyncio.Future[Finish]] = []
        for entry in here if request.wait else []:
            ends.append(asyncio.get_running_loop().create_future())
            self._waiting.setdefault(entry.number, []).append(_RunWaiter(ends[-1], node.turns.token))
        waiting = node.live.force(here, request.named)
        await node.outbox.wait_committed()
        away = [entry for entry in entries if entry not in here]
        elsewhere = [] if node.others is None else await node.others.requests.forward_force(away, request)
        finishes = await asyncio.gather(*ends)
        return Reply(
            ended=[
                EndedRun(entry.task.name, f.started, f.ended, f.outcome, f.status, f.output)
                for entry, f in zip(here, finishes, strict=False)
            ]
            + [end for reply in elsewhere for end in reply.ended or ()],
            waiting=waiting | {name: why for reply in elsewhere for name, why in (reply.waiting or {}).items()},
            touched=affected_tasks(entries, named=request.named),
        )

    def _finished(self, runs: Sequence[PendingRun], finishes: Sequence[Finish]) -> None:
        for run, finish in zip(runs, finishes, strict=True) if self._waiting else ():
            for waiter in self._waiting.get(run.number, ()):
                if waiter.waits_for(run) and not waiter.end.done():
                    waiter.end.set_result(finish)
        self._forget_answered()

    def _forget(self, taken_over: LiveChange) -> None:
        """Forced runs that had not begun when their tasks were removed will never end."""
        removed = {entry.number for entry in taken_over.changed.removed} & self._waiting.keys()
        if not removed:
            return
        running = [run for run in self.node.turns.pending_runs.values() if run.number in removed]
        never = [
            waiter
            for number in removed
            for waiter in self._waiting[number]
            if not any(run.number == number and waiter.waits_for(run) for run in running)
        ]
        # A run may have ended, with its end on the way into the store: then that end is the reply.
        self.node.outbox.put(Batch(), partial(self._refuse, never, Invalid("the task was removed before it ran")))

    def _were_withdrawn(self, numbers: list[int]) -> None:
        """These tasks were removed at the moment when their runs were claimed."""
        some = [waiter for number in numbers for waiter in self._waiting.get(number, ())]
        self._refuse(some, Invalid("the task was removed before it ran"))

    def _has_left(self, numbers: list[int]) -> None:
        """Another node of the cluster holds these tasks now and receives the results of their runs."""
        some = [waiter for number in numbers if self._waiting for waiter in self._waiting.get(number, ())]
        words = "the task has moved to another node while its run was waited for: `evenbeat history` tells how it ends"
        self._refuse(some, StoreError(words))

    def _refuse(self, waiters: Sequence["_RunWaiter"], why: Exception) -> None:
        for waiter in waiters:
            if not waiter.end.done():
                waiter.end.set_exception(why)
        self._forget_answered()

    def _forget_answered(self) -> None:
        if self._waiting:
            left = {number: [w for w in some if not w.end.done()] for number, some in self._waiting.items()}
            self._waiting = {number: some for number, some in left.items() if some}
