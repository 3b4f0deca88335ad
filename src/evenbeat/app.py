"""The Python way: an App declares tasks with decorators, runs them; it creates, reads, updates, deletes and lists them.

    app = App("evenbeat.db")

    @app.task(every="5m", timebox="1m")
    def tidy() -> None: ...

    if __name__ == "__main__":
        app.run()

Keys are those of the files. Functions run in processes of their own, which import the module they are in.
`App(":memory:")` keeps everything in this program, `App(store=...)` in a store of yours; `start` runs it in a thread.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from evenbeat.client.database import DatabaseClient
from evenbeat.client.in_process import InProcessBackend, InProcessClient, client_on_own_loop
from evenbeat.client.store_based import LocalClient
from evenbeat.clock.node_clock import Clock
from evenbeat.load.config import Config, parse_node_duration
from evenbeat.load.function_reference import can_be_imported, definition_place, main_program, reference_of
from evenbeat.load.one_off import parse_one_off, resolve_relative_at
from evenbeat.load.task_keys import change_table, task_from_table, task_to_table
from evenbeat.model import Entry, Invalid, prefix_place
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node, run_node_in_process
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.addresses import is_shared_database
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Condition, Filter, ProblemFilter, RunRecord, Store
from evenbeat.store.memory import MemoryStore
from evenbeat.store.opening import IN_MEMORY
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.wire.replies import ChangeResult, EndedRun, ProblemsChanged

_F = TypeVar("_F", bound=Callable[..., object])
_DEFAULT_DATABASE: Final = "evenbeat.db"
_PROGRAM_CHECK_SECONDS: Final = 0.2
"""Seconds between two checks, by a node in a thread, that the main thread still runs."""
_HOST_VARIABLE: Final = "EVENBEAT_HOST"
"""Set where functions run: the module is imported there too, and must not start a node of its own."""


class App:
    """Tasks of a program, on a database. What may be asked of it may be asked from any thread."""

    def __init__(
        self,
        database: str | Path | None = None,
        *,
        store: Store | None = None,
        files: Sequence[str | Path] = (),
        workers: int | None = None,
        max_concurrent: int | None = None,
        start_window: str | float | None = None,
        start_rate: int | None = None,
        queue: str | None = None,
    ) -> None:
        """On the file "evenbeat.db", unless `database` names another, or ":memory:", or `store` is your own.

        With a `database` of PostgreSQL and a `queue` of NATS the program is a node of a cluster, with a worker.
        """
        if store is not None and database is not None:
            raise Invalid(f"a database {str(database)!r} and a store: give one of them")
        if isinstance(store, ClusterStore):
            raise Invalid('a store of a cluster is given by its address: App("postgresql://...", queue=...)')
        database = _DEFAULT_DATABASE if database is None else database
        is_text = isinstance(database, str) and (is_shared_database(database) or database == IN_MEMORY)
        self.database = database if is_text else Path(database)
        """Where everything is kept; without meaning if `store` is given."""
        self._inside: InProcessBackend | None = None
        if store is not None or database == IN_MEMORY:
            self._inside = InProcessBackend(MemoryStore() if store is None else store)
        self._queue = queue or os.environ.get("EVENBEAT_QUEUE")
        if queue is not None and (self._inside is not None or isinstance(self.database, Path)):
            raise Invalid("a queue is for a cluster, on postgresql://...")
        self._options = NodeOptions(
            files=tuple(Path(file) for file in files),
            workers=os.cpu_count() or 1 if workers is None else workers,
            max_concurrent=max_concurrent,
            start_window=None if start_window is None else parse_node_duration("start_window", start_window),
            start_rate=start_rate,
        )
        self._declared: dict[str, dict[str, dict[str, Any]]] = {"checks": {}, "tasks": {}}
        self._functions: dict[str, tuple[str, Callable[..., object]]] = {}
        """Declared functions by reference: the name of the task, and the function."""
        self._owner = f"app:{main_program()}"
        """Owns the declared tasks: what is no longer declared is removed at the next start. Created tasks stay."""
        self._creator = f"program:{main_program()}"
        self._node: Scheduler | None = None
        self._thread: int | None = None
        self._life: asyncio.Task[Scheduler] | None = None
        self._background: threading.Thread | None = None
        self._state_lock = threading.Lock()
        self._is_running = False
        self._is_to_stop = False
        """A stop was requested before the node was up."""

    # Declaring

    def task(self, *, name: str | None = None, **keys: Any) -> Callable[[_F], _F]:
        """Declare a function as a task; by default it is named like the function."""
        return lambda function: self._declare("tasks", function, name, keys)

    def check(self, name: str | None = None, **keys: Any) -> Callable[[_F], _F]:
        """Declare a check: `app.check("disk", every="5m", command=[...])`, or a decorator for a function that returns
        0 to 3, a text, or both.
        """
        if name is not None and not isinstance(name, str):
            raise Invalid("the name of a check is a text; a decorator has keys: @app.check(every=...)")
        if "command" in keys:
            if name is None:
                raise Invalid("a check that runs a command needs a name")
            self._take("checks", name, keys)
        return lambda function: self._declare("checks", function, name, keys)

    def command(self, name: str, command: Sequence[str], **keys: Any) -> None:
        """Declare a task that runs a command."""
        self._take("tasks", name, {**keys, "command": list(command)})

    def _declare(self, section: str, function: _F, name: str | None, keys: dict[str, Any]) -> _F:
        reference = reference_of(function)
        name = name or function.__name__
        before, known = self._functions.get(reference, (name, function))
        if known is not function:
            raise Invalid(
                f"{before!r} is {reference} at {definition_place(known)}, "
                f"{name!r} is {reference} at {definition_place(function)}:"
                " both tasks would run the second of them. Give the functions different names"
            )
        self._take(section, name, {**keys, "function": reference})
        self._functions[reference] = (before, function)
        return function

    def _take(self, section: str, name: str, keys: dict[str, Any]) -> None:
        if any(name in tables for tables in self._declared.values()):
            raise Invalid(f"the name {name!r} is taken; names are unique")
        task_from_table(name, keys, check=section == "checks")  # an error is raised where the task is declared
        self._declared[section][name] = keys

    # Running

    def run(self) -> None:
        """Live until a signal or `stop` says otherwise; what is declared is applied first.

        In any thread: signals are heard in the main thread only. It can be run again after it has returned.
        """
        _refuse_in_function_host()
        asyncio.run(self._live(signals=threading.current_thread() is threading.main_thread()))

    def start(self) -> None:
        """Run in a thread of its own; returns when everything is up, or raises why it cannot be.

        The node is stopped in order when the main thread of the program ends.
        """
        _refuse_in_function_host()
        if self._background is not None and self._is_to_stop:
            self._background.join()
        is_up, failed = threading.Event(), list[BaseException]()

        def background() -> None:
            try:
                asyncio.run(self._live_as_long_as_the_program(is_up.set))
            except BaseException as e:
                failed.append(e)
                if is_up.is_set():
                    raise  # no caller waits for it any more: Python prints it
            finally:
                is_up.set()

        thread = threading.Thread(target=background, name="evenbeat")
        thread.start()
        is_up.wait()
        if failed:
            thread.join()
            raise failed[0]
        self._background = thread

    def stop(self, *, wait: bool = False) -> None:
        """Stop the node of this program in order. With `wait`, return when a node that `start` started has ended."""
        with self._state_lock:
            self._is_to_stop = self._is_running
            node = self._node
        if node is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended
                node.loop.call_soon_threadsafe(node.stop, "the program asked for it")
        if wait and self._background is not None:
            self._background.join()

    @property
    def is_running(self) -> bool:
        """Is a node of this program up?"""
        return self._node is not None

    async def __aenter__(self) -> Self:
        _refuse_in_function_host()
        ready = asyncio.Event()
        self._life = asyncio.create_task(self._live(signals=False, ready=ready.set))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({self._life, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            waiting.cancel()
            await self._life  # it failed to start, and says why
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._life is not None
        if self._node is not None:
            self._node.stop("the program left it")
        await self._life

    async def _live_as_long_as_the_program(self, ready: Callable[[], None]) -> None:
        life = asyncio.create_task(self._live(signals=False, ready=ready))
        while not life.done() and threading.main_thread().is_alive():
            await asyncio.wait({life}, timeout=_PROGRAM_CHECK_SECONDS)
        if not life.done():  # else the app has ended, or was refused because it runs already: that one goes on
            self.stop()
        await life

    async def _live(self, *, signals: bool, ready: Callable[[], None] = lambda: None) -> Scheduler:
        self._must_find_its_functions()
        with self._state_lock:
            if self._is_running:
                raise RuntimeError("this app is running already; stop it before it is started again")
            self._is_running, self._is_to_stop = True, False

        def declare(node: Scheduler) -> None:
            tasks = [
                task_from_table(name, keys, check=section == "checks")
                for section, tables in self._declared.items()
                for name, keys in tables.items()
            ]
            node.admin.apply_config(self._owner, Config(tuple(tasks), {}, {}, None), "program")

        def up(node: Scheduler) -> None:
            with self._state_lock:
                self._node, self._thread = node, threading.get_ident()
                if self._is_to_stop:
                    node.stop("the program asked for it")
            ready()

        try:
            if self._inside is not None:
                return await run_node_in_process(self._inside, self._options, up, before=declare, signals=signals)
            if isinstance(self.database, Path):
                return await run_node(self.database, self._options, up, before=declare, signals=signals)
            return await self._live_in_cluster(self.database, up, declare, signals=signals)
        finally:
            with self._state_lock:
                self._node = self._thread = None
                self._is_running = False

    def _must_find_its_functions(self) -> None:
        for reference, (name, function) in self._functions.items():
            if not can_be_imported(function):
                raise Invalid(
                    f"{name!r} is declared with a function of {definition_place(function)}, but {reference} is"
                    " something else by now. Give it a name of its own"
                )

    async def _live_in_cluster(
        self, database: str, up: Callable[[Scheduler], None], declare: Callable[[Scheduler], None], *, signals: bool
    ) -> Scheduler:
        from evenbeat.node.process.run_cluster_node import run_cluster_node  # noqa: PLC0415 - who is alone needs none of it

        if self._queue is None:
            raise Invalid('a cluster needs a queue: App("postgresql://...", queue="nats://HOST:PORT")')
        return await run_cluster_node(
            database, self._queue, self._options, up, before=declare, signals=signals, worker=True
        )

    # Create, read, update, delete, list

    def create(self, name: str, *, check: bool = False, owner: str | None = None, **keys: Any) -> Entry:
        """A new task. It belongs to `owner`, by default to this program: see `list` and `delete`."""
        task = task_from_table(name, resolve_relative_at(keys, Clock().now()), check=check)
        return self._do(lambda client: client.add([task], owner or self._creator)).created[0]

    def read(self, name: str) -> Condition:
        """A task by name or id, and its condition."""
        with self._client() as client:
            entry = client.find(name)
            if entry is None:
                raise Invalid(f"there is no task {name!r}")
            return client.condition(entry)

    def update(self, name: str, **keys: Any) -> Entry:
        """Change some keys of a task; None removes a key."""
        before = self.read(name).entry
        keys = resolve_relative_at(keys, Clock().now())
        new = task_from_table(before.task.name, change_table(task_to_table(before.task), keys), check=before.task.check)
        done = self._do(lambda client: client.set(before.task.name, new, before.version))
        return done.changed[0] if done.changed else before

    def delete(self, *names: str, owner: str | None = None) -> None:
        """Remove tasks, by name, id or pattern, or all of an owner; a run in progress finishes."""
        self._do(lambda client: client.remove(_filter_of(names, owner)))

    def history(self, name: str | None = None, most: int = 100) -> list[RunRecord]:
        """Runs, newest first; also of a task that was removed."""
        with self._client() as client:
            return [run for run in client.records(name, most, runs=True) if isinstance(run, RunRecord)]

    def pause(self, *names: str, owner: str | None = None) -> None:
        """Pause tasks."""
        self._do(lambda client: client.pause(_filter_of(names, owner), paused=True))

    def resume(self, *names: str, owner: str | None = None) -> None:
        """Resume paused tasks."""
        self._do(lambda client: client.pause(_filter_of(names, owner), paused=False))

    def problems(
        self,
        *names: str,
        owner: str | None = None,
        is_open: bool | None = True,
        acknowledged: bool | None = None,
        most: int = 1_000,
    ) -> list[ProblemRecord]:
        """Problems of tasks, newest first: open ones, closed ones (`is_open=False`) or both (None)."""
        with self._client() as client:
            only = ProblemFilter(Filter(names=names, owner=owner), is_open=is_open, most=most)
            return client.problems(only, acknowledged=acknowledged)

    def acknowledge(
        self,
        *names: str,
        owner: str | None = None,
        comment: str = "",
        until: str | None = None,
        sticky: bool = False,
        withdraw: bool = False,
    ) -> ProblemsChanged:
        """Acknowledge the open problems of tasks, or take that back (`withdraw`); Conflict if there is none.

        The acknowledgement ends at `until`, a time as `at` has it: in UTC unless it has an offset.
        """
        with prefix_place("until"):
            end = None if until is None else parse_one_off(until)
        with self._client() as client:
            only = _filter_of(names, owner)
            return client.acknowledge(only, comment=comment, until=end, sticky=sticky, withdraw=withdraw)

    def comment(self, name: str, text: str) -> ProblemsChanged:
        """Comment on the open problem of a task; Conflict if there is none."""
        with self._client() as client:
            return client.comment(Filter(names=(name,)), text)

    def set_slots(self, most: int | None) -> None:
        """The most runs at the same time, also after a restart; None restores what files say."""
        self._do(lambda client: client.set_slots(most))

    def set_limit(self, name: str, most: int | None) -> None:
        """The most runs of a limit at the same time; None restores what files say."""
        self._do(lambda client: client.set_limit(name, most))

    def force(self, *names: str, wait: bool = False) -> list[EndedRun]:
        """Run tasks now."""
        with self._client() as client:
            return client.run_now(names, wait=wait)

    def _do(self, change: Callable[[LocalClient], ChangeResult]) -> ChangeResult:
        with self._client() as client:
            return change(client)

    def _client(self) -> LocalClient:
        # On the loop of our own node nothing may wait for that loop.
        if self._node is not None and self._thread == threading.get_ident():
            return client_on_own_loop(self._node, "program")
        if self._inside is not None:
            return InProcessClient(self._inside.store, self._inside, "program")
        return DatabaseClient(self.database, "program")

    def list(self, **only: Any) -> list[Condition]:
        """Tasks and their conditions: by `owner`, `labels`, `state`, or `names` with * and ?."""
        with self._client() as client:
            return [*client.conditions(Filter(**only))]


def _filter_of(names: tuple[str, ...], owner: str | None) -> Filter:
    if not names and owner is None:
        raise Invalid("no task is named; the pattern '*' means all of them")
    return Filter(names=names, owner=owner)


def _refuse_in_function_host() -> None:
    if os.environ.get(_HOST_VARIABLE):
        raise RuntimeError(
            'the app is to be run under `if __name__ == "__main__":`, this module is imported to run a task'
        )
