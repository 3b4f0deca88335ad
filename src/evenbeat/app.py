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
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from evenbeat.client.in_process import InProcessBackend, InProcessClient, client_on_own_loop
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.client.store_based import LocalClient
from evenbeat.load.config import parse_node_duration
from evenbeat.load.function_reference import main_program
from evenbeat.load.safe_text import name_error
from evenbeat.model import Invalid
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.listen import ListenAddress, parse_listen
from evenbeat.node.process.run_end_log import RunEndLogger
from evenbeat.node.process.run_node import run_node, run_node_in_process
from evenbeat.node.scheduler import Scheduler
from evenbeat.program.awaitable import AwaitableMethods
from evenbeat.program.event_stream import NodeEvents, read_socket_events
from evenbeat.program.node_runner import NodeRunner
from evenbeat.program.problem_methods import ProblemMethods
from evenbeat.program.python_values import Length, microseconds_of
from evenbeat.program.task_methods import TaskMethods
from evenbeat.program.terminal_log import log_ready, log_to_terminal
from evenbeat.program.views import Event
from evenbeat.store.addresses import is_shared_database
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Store
from evenbeat.store.memory import MemoryStore
from evenbeat.store.opening import IN_MEMORY
from evenbeat.store.sqlite.ownership import DatabaseInUse

_DEFAULT_DATABASE: Final = "evenbeat.db"
_WHO: Final = "program"
"""Makes the changes, for the audit."""


class App(TaskMethods, ProblemMethods):
    """Tasks of a program, on a database. What may be asked of it may be asked from any thread."""

    def __init__(  # noqa: PLR0913 - keywords, each with a default
        self,
        database: str | Path | None = None,
        *,
        store: Store | None = None,
        files: Sequence[str | Path] = (),
        workers: int | None = None,
        max_concurrent: int | None = None,
        start_window: Length | None = None,
        start_rate: int | None = None,
        queue: str | None = None,
        listen: str | int | None = None,
        name: str | None = None,
    ) -> None:
        """On the file "evenbeat.db", unless `database` names another, or ":memory:", or `store` is your own.

        With a `database` of PostgreSQL and a `queue` of NATS the program is a node of a cluster, with a worker.
        `listen`, a port of this machine or HOST:PORT, serves the API and the page.

        What is declared belongs to `name`, by default to the file of the main program: give one if several programs,
        such as a web server and `manage.py`, run the app in turn.
        """
        if name is not None and (problem := "a name is empty, accepted: any other" if not name else name_error(name)):
            raise Invalid(problem, place="name")
        program = name or main_program()
        super().__init__(program)
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
        if listen is not None and self._inside is not None:
            raise Invalid(
                "the page has a process of its own, which can read SQLite and PostgreSQL only", place="listen"
            )
        window = None if start_window is None else f"{microseconds_of(start_window)}us"
        self._options = NodeOptions(
            files=tuple(Path(file) for file in files),
            workers=os.cpu_count() or 1 if workers is None else workers,
            max_concurrent=max_concurrent,
            start_window=None if window is None else parse_node_duration("start_window", window),
            start_rate=start_rate,
            listen=None if listen is None else ListenAddress(*parse_listen(str(listen))),
        )
        self._owner = f"app:{program}"
        """Owns the declared tasks: what is no longer declared is removed at the next start. Created tasks stay."""
        self._runner = NodeRunner(self._live)
        self._events = NodeEvents(self._hooks)
        self.aio = AwaitableMethods(self)
        """The methods as coroutines: `await app.aio.force("web", wait=True)`."""

    # Running

    def run(self) -> None:
        """Live until a signal or `stop` says otherwise; what is declared is applied first.

        In any thread: signals are heard in the main thread only. It can be run again after it has returned.
        How runs end is logged on stderr, unless the program has configured `logging` itself.
        """
        with log_to_terminal():
            self._runner.run()

    def start(self, *, if_free: bool = False) -> bool:
        """Run in a thread of its own; returns when everything is up, or raises why it cannot be.

        The node is stopped in order when the main thread of the program ends. With `if_free`, return False if another
        process runs a node on the database: of many web workers that start the same app, one runs it.
        """
        try:
            self._runner.start()
        except DatabaseInUse:
            if not if_free:
                raise
            return False
        return True

    def stop(self, *, wait: bool = False) -> None:
        """Stop the node of this program in order. With `wait`, return when a node that `start` started has ended."""
        self._runner.stop(wait=wait)

    @property
    def is_running(self) -> bool:
        """Is a node of this program up?"""
        return self._runner.node is not None

    async def __aenter__(self) -> Self:
        await self._runner.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.leave()

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens from now on, until the node stops: `async for event in app.events()` gets a RunInfo, a SkipInfo
        or a TaskChange. Of the node of this program, else of the node that runs on the database on this machine.
        """
        if self.is_running:
            source = self._events.read()
        elif self._inside is None and isinstance(self.database, Path):
            source = read_socket_events(self.database)
        else:
            raise Invalid("no node of this program runs; the events of others are served over HTTP: GET /v1/events")
        async with aclosing(source) as events:
            async for event in events:
                yield event

    async def _live(self, up: Callable[[Scheduler], None], *, signals: bool) -> Scheduler:
        calling = asyncio.create_task(self._hooks.call()) if self._hooks else None

        def is_up(node: Scheduler) -> None:
            self._events.attach(node)
            RunEndLogger(node, is_every_end=True).attach()
            log_ready(node, _WHO)
            up(node)

        try:
            return await self._live_on_store(is_up, signals=signals)
        finally:
            self._events.end()
            if calling is not None:
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)

    async def _live_on_store(self, up: Callable[[Scheduler], None], *, signals: bool) -> Scheduler:
        declared = self.declared()

        def declare(node: Scheduler) -> None:
            node.admin.apply_config(self._owner, declared, _WHO)

        if self._inside is not None:
            return await run_node_in_process(self._inside, self._options, up, before=declare, signals=signals)
        if isinstance(self.database, Path):
            return await run_node(self.database, self._options, up, before=declare, signals=signals)
        return await self._live_in_cluster(self.database, up, declare, signals=signals)

    async def _live_in_cluster(
        self, database: str, up: Callable[[Scheduler], None], declare: Callable[[Scheduler], None], *, signals: bool
    ) -> Scheduler:
        from evenbeat.node.process.run_cluster_node import run_cluster_node  # noqa: PLC0415 - who is alone needs none of it

        if self._queue is None:
            raise Invalid('a cluster needs a queue: App("postgresql://...", queue="nats://HOST:PORT")')
        return await run_cluster_node(
            database, self._queue, self._options, up, before=declare, signals=signals, worker=True
        )

    def _client(self) -> LocalClient:
        own = self._runner.node_of_this_thread()
        if own is not None:
            return client_on_own_loop(own, _WHO)
        if self._inside is not None:
            return InProcessClient(self._inside.store, self._inside, _WHO)
        return DatabaseClient(self.database, _WHO)
