"""The control socket: other processes of this machine ask and change the node. One JSON line in, one out."""

import asyncio
import logging
import os
import socket
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from evenbeat.admin.job_with_arguments import own_job
from evenbeat.admin.perform import affected_tasks, perform_change, perform_sign_in, reply_to_change
from evenbeat.admin.problem_actions import action_of, perform_problem_request
from evenbeat.admin.task_cursors import cursor_to_set, note_cursor
from evenbeat.admin.task_stops import check_stop_reason, note_stops, tasks_to_stop
from evenbeat.load.config import BadFileError
from evenbeat.model import Entry, Invalid
from evenbeat.node.answers.live_output import LiveOutput
from evenbeat.node.answers.metrics import node_metrics_of
from evenbeat.node.answers.runs_for_other_nodes import ask_for_fresh_runs
from evenbeat.node.answers.status import node_identity_of
from evenbeat.node.answers.task_state import live_task_state_of
from evenbeat.node.loop.run_stops import stop_words
from evenbeat.node.process.event_publisher import EventBroadcaster
from evenbeat.node.process.run_waiters import RunEnd, RunWaiters
from evenbeat.node.process.submissions import answer_result_request
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import Conflict, StoreError
from evenbeat.store.sqlite.ownership import socket_address
from evenbeat.wire.replies import EndedRun, Forbidden, HeldByOtherNode, NotFound, Reply, StopFound, StoppedRun
from evenbeat.wire.requests import (
    MAX_REQUEST_BYTES,
    ApplyFiles,
    AskForFreshRuns,
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
    ReadOutput,
    Request,
    ResultRequest,
    RunArguments,
    SetCursor,
    SignInRequest,
    StopRuns,
    SubscribeToEvents,
    TestContact,
)

_log: Final = logging.getLogger("evenbeat.control")

_request_decoder: Final = msgspec.json.Decoder(Request)


class ControlServer:
    """Answers requests: from the socket, and from other threads of this program."""

    def __init__(self, node: Scheduler, path: Path | None) -> None:
        """`path` is where it listens, see `socket_path`; None if only the program itself asks."""
        self.node = node
        self._path = path
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Start to listen; only the user of the node may connect."""
        self._outputs = LiveOutput(self.node)
        self._hub = EventBroadcaster(self.node, asyncio.get_running_loop())
        self._waiters = RunWaiters(self.node)
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
            case StopRuns():
                return await self._stop(request)
            case SetCursor():
                return await self._set_cursor(request)
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
            case ReadOutput(number):
                if node.others is not None and node.tasks.row(number) is None:
                    raise HeldByOtherNode(number)
                return Reply(output=await self._outputs.read(query))
            case GetNodeIdentity():
                return Reply(node=node_identity_of(node))
            case GetNodeMetrics():
                return Reply(numbers=node_metrics_of(node))
            case AskForFreshRuns(checks):
                return Reply(unable=await ask_for_fresh_runs(node, checks))
            case TestContact(name, who):
                return Reply(tested=await node.alerts.test(name, who))

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
        """The store alone keeps acknowledgements and comments: only notifications depend on them."""
        reply = await asyncio.to_thread(perform_problem_request, self.node.admin, request)
        assert reply.problems is not None
        self.node.alerts.engine.news.problems_changed(reply.problems.ids)
        self._hub.announce_tasks(reply.problems.tasks, action_of(request))
        return reply

    async def _force(self, request: ForceTasks) -> Reply:
        admin, node = self.node.admin, self.node
        noted = not request.is_passed_on
        entries = await asyncio.to_thread(
            partial(admin.select_forced, noted=noted, arguments=request.arguments),
            *(request.names, request.who, request.only),
        )
        node.apply_changes()  # one of them may have just been created
        if request.arguments is not None:
            await self._store_own_job(entries[0], request.arguments)
        here = [entry for entry in entries if node.tasks.row(entry.number) is not None]
        ends = [self._waiters.forced_run_of(entry.number) for entry in here if request.wait]
        waiting = node.live.force(here, request.named, is_own=request.arguments is not None)
        await node.outbox.wait_committed()
        away = [entry for entry in entries if entry not in here]
        elsewhere = [] if node.others is None else await node.others.requests.forward_force(away, request)
        run_ends = await asyncio.gather(*ends)
        return Reply(
            ended=[_ended_run(entry.task.name, end) for entry, end in zip(here, run_ends, strict=False)]
            + [end for reply in elsewhere for end in reply.ended or ()],
            waiting=waiting | {name: why for reply in elsewhere for name, why in (reply.waiting or {}).items()},
            touched=affected_tasks(entries, named=request.named),
        )

    async def _store_own_job(self, entry: Entry, arguments: RunArguments) -> None:
        """Store what a run with arguments of its own executes, before it is planned."""
        planned = self.node.live.own_runs.plan(entry, own_job(entry, arguments))
        if planned is None:
            return  # the node that holds the task does
        try:
            await asyncio.to_thread(self.node.store.set_settings, dict([planned]))
        except BaseException:
            self.node.turns.own_jobs.end(entry.number)
            raise

    async def _stop(self, request: StopRuns) -> Reply:
        admin, node = self.node.admin, self.node
        check_stop_reason(request.reason)
        entries = await asyncio.to_thread(tasks_to_stop, admin.store, request.only, admin.now())
        here = [entry for entry in entries if node.live.has(entry.number)]
        stopped = node.live.stop(here, request.who, request.reason)
        found = [stop for stop in stopped if stop.found is not StopFound.NOTHING]
        self._waiters.withdrawn([stop.number for stop in found], stop_words(request.who, request.reason))
        ends = {
            stop.number: self._waiters.run_under_way(stop.number, stop.token)
            for stop in found
            if request.wait and stop.token is not None
        }
        await asyncio.to_thread(note_stops, admin.store, [stop.name for stop in found], request, admin.now())
        await node.outbox.wait_committed()
        away = [entry for entry in entries if entry not in here]
        elsewhere = [] if node.others is None else await node.others.requests.forward_stop(away, request)
        await asyncio.gather(*ends.values())
        results = [
            StoppedRun(s.name, s.found, _ended_run(s.name, ends[s.number].result()) if s.number in ends else None)
            for s in stopped
        ]
        return Reply(stopped=results + [stop for reply in elsewhere for stop in reply.stopped or ()])

    async def _set_cursor(self, request: SetCursor) -> Reply:
        admin, node = self.node.admin, self.node
        entry, cursor = await asyncio.to_thread(cursor_to_set, admin, request)
        node.apply_changes()  # the task may have just been created
        try:
            before = node.live.set_cursor(entry, cursor)
        except HeldByOtherNode:
            if node.others is None:
                raise NotFound(f"there is no task {request.name!r}") from None
            raise
        changed = await asyncio.to_thread(note_cursor, admin, entry, request.who, before, cursor)
        await node.outbox.wait_committed()
        return Reply(cursor=changed)


def _ended_run(task: str, end: RunEnd) -> EndedRun:
    run, f = end
    return EndedRun(task, f.started, f.ended, f.outcome, f.status, f.output, run.number, run.claimed)
