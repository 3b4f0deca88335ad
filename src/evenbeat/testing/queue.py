"""The contract of a queue as tests: subclass `QueueContract` and say how to start one of yours.

    class TestMine(QueueContract):
        @asynccontextmanager
        async def running_queue(self, folder, on_results, on_started):
            queue = MyQueue(on_results, on_started)
            await queue.start()
            yield queue
            await queue.stop(0)

Every sentence of `evenbeat.queue.contract` is a test. The workers are real processes.
"""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

from evenbeat.clock.system_clock import boot_time
from evenbeat.core.output_excerpt import MARK_ROOM, size_of
from evenbeat.core.whole_output import decompress
from evenbeat.model import OUTPUT_LIMIT, SECOND, Job, Outcome
from evenbeat.queue.contract import Queue
from evenbeat.wire.plain_results import Results, full_results
from evenbeat.wire.worker_frames import RunResult, RunSpec

ResultsCallback = Callable[[Results], None]
StartedCallback = Callable[[list[tuple[int, int]]], None]

_TIMEOUT: Final = 60.0
"""Seconds for anything that must happen."""
_NEVER: Final = -(2**63)
"""As `last_start`: the task has not run before."""


class ObservedQueue:
    """A queue, and everything that it has reported."""

    def __init__(self) -> None:
        self.queue: Queue
        self.results: dict[int, RunResult] = {}
        self.started: dict[int, int] = {}
        self.violations: list[str] = []
        """What must never happen, and did."""
        self.is_stopped = False
        self._tokens = 0
        self._changed = asyncio.Event()

    def on_results(self, results: Results) -> None:
        """Give this to the queue."""
        for result in full_results(results):
            if result.token in self.results:
                self.violations.append(f"a second result of run {result.token}")
            self.results[result.token] = result
        self._reported("results")

    def on_started(self, starts: list[tuple[int, int]]) -> None:
        """Give this to the queue."""
        for token, at in starts:
            if token in self.started:
                self.violations.append(f"a second start of run {token}")
            if token in self.results:
                self.violations.append(f"run {token} was reported as started after its result")
            self.started[token] = at
        self._reported("starts")

    def _reported(self, what: str) -> None:
        if self.is_stopped:
            self.violations.append(f"{what} after stop")
        self._changed.set()

    def dispatch(self, *jobs: Job, timebox: float = 30, **fields: Any) -> list[int]:
        """Dispatch a run of each of these jobs, due now unless `fields` of the run say otherwise; their tokens."""
        now = _now()
        values = {
            "name": "a task",
            "nominal": now,
            "kind": 0,
            "timebox": int(timebox * SECOND),
            "latest_start": now + 60 * SECOND,
            "last_start": _NEVER,
            "interval": 60 * SECOND,
            "tolerance": 0,
            "attempt": 1,
            "cursor": None,
            **fields,
        }
        tokens = list(range(self._tokens + 1, self._tokens + 1 + len(jobs)))
        self._tokens += len(jobs)
        packed = [msgspec.Raw(msgspec.msgpack.encode(job)) for job in jobs]
        runs = [RunSpec(token=token, job=job, **values) for token, job in zip(tokens, packed, strict=True)]
        functions = [job.function for job in jobs] if any(job.function for job in jobs) else None
        self.queue.dispatch(runs, functions, tokens)
        return tokens

    def dispatch_shell(self, script: str, **fields: Any) -> int:
        """Dispatch a run of a shell script; its token."""
        (token,) = self.dispatch(Job(command=(script,), shell=True), **fields)  # noqa: S604 - not a call of a program
        return token

    async def results_of(self, tokens: list[int]) -> list[RunResult]:
        """Wait until these runs have ended; their results, confirmed as stored."""
        await self.until(lambda: all(token in self.results for token in tokens))
        self.queue.confirm_stored(tokens)
        return [self.results[token] for token in tokens]

    async def result_of(self, token: int) -> RunResult:
        """Wait until this run has ended."""
        return (await self.results_of([token]))[0]

    async def read(self, token: int, position: int) -> tuple[int, bytes]:
        """Wait until a run has written something after a position; where that begins, and what it is."""
        deadline = time.monotonic() + _TIMEOUT
        while True:
            frame = await self.queue.read_output(token, position)
            if frame is not None and frame.asked == position and frame.data:
                return frame.start, frame.data
            assert time.monotonic() < deadline, f"nothing is read; the queue says: {self.queue.problem!r}"
            await asyncio.sleep(0.02)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that a report may bring about."""
        deadline = time.monotonic() + _TIMEOUT
        while not is_so():
            assert time.monotonic() < deadline, f"it did not happen; the queue says: {self.queue.problem!r}"
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), 0.05)
            except TimeoutError:
                continue


class QueueContract:
    """What every queue does."""

    def running_queue(
        self, folder: Path, on_results: ResultsCallback, on_started: StartedCallback
    ) -> AbstractAsyncContextManager[Queue]:
        """A queue with its workers up, which stops both in the end; `folder` is empty and goes away after the test."""
        raise NotImplementedError

    def play(self, folder: Path, scene: Callable[[ObservedQueue], Coroutine[Any, Any, None]]) -> None:
        """Run a scene on a queue of its own."""

        async def whole() -> None:
            observed = ObservedQueue()
            async with self.running_queue(folder, observed.on_results, observed.on_started) as queue:
                observed.queue = queue
                await scene(observed)
            assert observed.violations == []

        asyncio.run(whole())

    def test_every_run_gets_exactly_one_result(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            tokens = [t for _ in range(4) for t in observed.dispatch(*[Job(command=("noop",))] * 250)]
            results = await observed.results_of(tokens)
            assert {result.outcome for result in results} == {Outcome.SUCCEEDED}
            assert all(result.started <= result.ended for result in results)

        self.play(tmp_path, scene)

    def test_a_command_reports_status_and_output(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            before = _now()
            tokens = [
                observed.dispatch_shell("echo out; echo err >&2"),
                observed.dispatch_shell("echo no; exit 3"),
                observed.dispatch_shell("kill -9 $$"),
                observed.dispatch_shell(f"head -c {OUTPUT_LIMIT + 1} /dev/zero"),
            ]
            good, bad, killed, long = await observed.results_of(tokens)
            assert (good.outcome, good.status, good.output) == (Outcome.SUCCEEDED, 0, b"out\nerr\n")
            assert (bad.outcome, bad.status, bad.output) == (Outcome.FAILED, 3, b"no\n")
            assert (killed.outcome, killed.status) == (Outcome.KILLED, -9)
            assert long.truncated
            assert OUTPUT_LIMIT // 2 < len(long.output) <= OUTPUT_LIMIT
            assert before - SECOND <= good.started <= good.ended <= _now() + SECOND

        self.play(tmp_path, scene)

    def test_of_too_much_output_the_beginning_and_the_end_are_kept(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            token = observed.dispatch_shell("echo first; seq 1 100000; echo last")
            lines = (await observed.result_of(token)).output.decode().splitlines()
            assert (lines[0], lines[-1]) == ("first", "last")
            assert sum("bytes left out" in line for line in lines) == 1

        self.play(tmp_path, scene)

    def test_the_output_of_a_run_under_way_is_read_from_any_position(self, tmp_path: Path) -> None:
        go_on = tmp_path / "go on"
        file = tmp_path / "functions.py"
        file.write_text(
            "import asyncio, os, time\n"
            "def plain(path):\n    print('early')\n    while not os.path.exists(path):\n        time.sleep(0.01)\n"
            "async def asynchronous(path):\n"
            "    print('early')\n    while not os.path.exists(path):\n        await asyncio.sleep(0.01)\n"
        )

        async def scene(observed: ObservedQueue) -> None:
            words = ("sh", "-c", 'echo early; until test -e "$0"; do sleep 0.01; done; echo late', str(go_on))
            functions = [Job(function=f"{file}:{name}", args=(str(go_on),)) for name in ("plain", "asynchronous")]
            for job, said in zip(
                (Job(command=words), *functions), (b"early\nlate\n", b"early\n", b"early\n"), strict=True
            ):
                (token,) = observed.dispatch(job)
                assert await observed.read(token, 0) == (0, b"early\n")
                assert await observed.read(token, 2) == (2, b"rly\n")
                nothing = await observed.queue.read_output(token, 6)
                assert nothing is None or nothing.data == b""
                go_on.touch()
                result = await observed.result_of(token)
                assert (result.outcome, result.output) == (Outcome.SUCCEEDED, said)
                gone = await observed.queue.read_output(token, 0)
                assert gone is None or gone.data == b""
                go_on.unlink()

        self.play(tmp_path, scene)

    def test_the_whole_output_comes_with_the_result_of_a_task_that_asks_for_it(self, tmp_path: Path) -> None:
        file = tmp_path / "functions.py"
        file.write_text(
            "def talks(seed):\n    import random\n    rows = random.Random(seed).randbytes\n"
            "    for _ in range(1500):\n        print(rows(500).hex())\n"
        )

        async def scene(observed: ObservedQueue) -> None:
            rows = random.Random(1).randbytes  # noqa: S311 - what cannot be compressed much takes several messages
            said = "".join(f"{rows(500).hex()}\n" for _ in range(1500)).encode()
            (tmp_path / "said").write_bytes(said)
            command = ("cat", str(tmp_path / "said"))
            large, bounded, plain, short = observed.dispatch(
                Job(command=command, output_keep=2 << 20),
                Job(command=command, output_keep=1 << 20),
                Job(command=command),
                Job(command=("echo", "hello"), output_keep=1 << 20),
            )
            (function,) = observed.dispatch(Job(function=f"{file}:talks", args=(1,), output_keep=2 << 20))
            results = await observed.results_of([large, function])
            assert [decompress(result.whole, 4 << 20) == said for result in results] == [True, True]
            cut = decompress((await observed.result_of(bounded)).whole, 4 << 20)
            assert (1 << 20) - (128 << 10) < len(cut) < (1 << 20) + MARK_ROOM
            assert (cut[:100_000], cut[-100_000:]) == (said[:100_000], said[-100_000:])
            assert size_of(cut) == len(said)
            assert [(await observed.result_of(token)).whole for token in (plain, short)] == [b"", b""]
            assert all(len(observed.results[token].output) <= OUTPUT_LIMIT for token in (large, bounded, plain))

        self.play(tmp_path, scene)

    def test_a_command_learns_of_its_run(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            token = observed.dispatch_shell('echo "$EVENBEAT_NAME,$EVENBEAT_ATTEMPT"', name="a disk", attempt=2)
            assert (await observed.result_of(token)).output == b"a disk,2\n"

        self.play(tmp_path, scene)

    def test_functions_of_both_kinds_are_called(self, tmp_path: Path) -> None:
        file = tmp_path / "functions.py"
        file.write_text(
            "import asyncio\n"
            "def plain(run, more):\n    run.cursor = run.cursor + more\n    return 'plain'\n"
            "async def asynchronous(more):\n    await asyncio.sleep(0)\n    return more\n"
            "def wrong():\n    raise ValueError('wrong')\n"
        )

        async def scene(observed: ObservedQueue) -> None:
            jobs = (
                Job(function=f"{file}:plain", args=(2,)),
                Job(function=f"{file}:asynchronous", args=("asynchronous",)),
                Job(function=f"{file}:wrong"),
                Job(command=("echo", "command")),
            )
            tokens = observed.dispatch(*jobs, cursor=msgspec.msgpack.encode(40))
            plain, asynchronous, wrong, command = await observed.results_of(tokens)
            assert (plain.outcome, plain.output) == (Outcome.SUCCEEDED, b"plain\n")
            assert msgspec.msgpack.decode(plain.cursor or b"") == 42
            assert (asynchronous.outcome, asynchronous.output) == (Outcome.SUCCEEDED, b"asynchronous\n")
            assert (wrong.outcome, wrong.output.endswith(b"ValueError: wrong\n")) == (Outcome.FAILED, True)
            assert command.output == b"command\n"

        self.play(tmp_path, scene)

    def test_the_start_of_a_run_that_lasts_is_reported_before_its_result(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            gate = tmp_path / "gate"
            token = observed.dispatch_shell(f"while ! test -e {gate}; do sleep 0.02; done")
            await observed.until(lambda: token in observed.started)
            assert observed.results == {}
            gate.touch()
            result = await observed.result_of(token)
            assert result.outcome == Outcome.SUCCEEDED
            # A worker may have set its clock in between, as it learns that of the node.
            assert abs(result.started - observed.started[token]) < SECOND

        self.play(tmp_path, scene)

    def test_a_run_ends_with_its_timebox(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            result = await observed.result_of(observed.dispatch_shell("sleep 60", timebox=0.3))
            assert result.outcome == Outcome.TIMEBOXED
            assert result.ended - result.started >= 0.3 * SECOND

        self.play(tmp_path, scene)

    def test_a_run_is_dropped_if_it_is_too_late_or_too_soon(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            now = _now()
            tokens = [
                observed.dispatch_shell("true", latest_start=now - 10 * SECOND),
                observed.dispatch_shell("true", last_start=now - SECOND),
            ]
            late, soon = await observed.results_of(tokens)
            assert (late.outcome, late.output[:8]) == (Outcome.DROPPED, b"too late")
            assert (soon.outcome, soon.output[:8]) == (Outcome.DROPPED, b"too soon")

        self.play(tmp_path, scene)

    def test_a_run_that_cannot_be_started_is_broken_and_says_why(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            jobs = Job(command=("no-such-program",)), Job(function="os:no_such_function")
            program, function = await observed.results_of(observed.dispatch(*jobs))
            assert (program.outcome, function.outcome) == (Outcome.BROKEN, Outcome.BROKEN)
            assert b"no-such-program" in program.output
            assert b"no_such_function" in function.output

        self.play(tmp_path, scene)

    def test_a_run_does_not_start_before_it_is_due(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            due = _now() + observed.queue.early_delivery
            result = await observed.result_of(observed.dispatch_shell("true", nominal=due))
            assert result.started >= due - 1_000  # the clock is read at two places

        self.play(tmp_path, scene)

    def test_named_runs_are_cancelled_and_others_go_on(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            gate = tmp_path / "gate"
            cancelled = observed.dispatch_shell("sleep 60")
            kept = observed.dispatch_shell(f"while ! test -e {gate}; do sleep 0.02; done")
            await observed.until(lambda: {cancelled, kept} <= set(observed.started))
            observed.queue.cancel([cancelled])
            assert (await observed.result_of(cancelled)).outcome == Outcome.CANCELLED
            gate.touch()
            assert (await observed.result_of(kept)).outcome == Outcome.SUCCEEDED
            observed.queue.cancel([cancelled, kept, 10**6])  # all ended, or never dispatched

        self.play(tmp_path, scene)

    def test_all_runs_are_cancelled_if_none_is_named(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            tokens = observed.dispatch(*[Job(command=("sleep", "60"))] * 5)
            await observed.until(lambda: set(tokens) <= set(observed.started))
            observed.queue.cancel()
            assert {result.outcome for result in await observed.results_of(tokens)} == {Outcome.CANCELLED}

        self.play(tmp_path, scene)

    def test_a_run_is_lost_with_its_worker_process_which_is_replaced(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            assert observed.queue.restarts == 0
            lost = await observed.result_of(observed.dispatch_shell("kill -9 $PPID"))
            assert lost.outcome == Outcome.LOST
            assert b"died" in lost.output
            assert (await observed.result_of(observed.dispatch_shell("true"))).outcome == Outcome.SUCCEEDED
            await observed.until(lambda: observed.queue.restarts == 1)

        self.play(tmp_path, scene)

    def test_a_queue_that_is_up_has_workers_and_no_problem(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            assert observed.queue.problem == ""
            assert observed.queue.workers
            assert all(pid > 0 and description for pid, description in observed.queue.workers)
            assert not observed.queue.is_busy
            assert observed.queue.early_delivery >= 0

        self.play(tmp_path, scene)

    def test_runs_go_on_when_the_clock_moves_a_little(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            offset = _now() - boot_time()
            token = observed.dispatch_shell("sleep 0.2")
            observed.queue.set_clock(offset + 200)
            assert (await observed.result_of(token)).outcome == Outcome.SUCCEEDED

        self.play(tmp_path, scene)

    def test_stop_waits_for_open_runs_and_reports_nothing_afterwards(self, tmp_path: Path) -> None:
        async def scene(observed: ObservedQueue) -> None:
            short = observed.dispatch_shell("sleep 0.3")
            long = observed.dispatch_shell("sleep 60")
            await observed.until(lambda: {short, long} <= set(observed.started))
            await observed.queue.stop(1)
            observed.is_stopped = True
            assert observed.results[short].outcome == Outcome.SUCCEEDED
            assert long not in observed.results or observed.results[long].outcome == Outcome.CANCELLED

        self.play(tmp_path, scene)


def _now() -> int:
    return time.time_ns() // 1_000
