"""The methods of an App that create, read, change, delete, list and run tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from secrets import token_hex
from typing import Any, Final

from msgspec.json import decode

from evenbeat.client.store_based import LocalClient
from evenbeat.load.function_reference import reference_of
from evenbeat.load.one_off import resolve_relative_at
from evenbeat.load.task_tables import change_table, task_from_table, task_to_table
from evenbeat.model import ArgumentValue, Instant, Invalid, prefix_place
from evenbeat.program.declarations import Declarations
from evenbeat.program.python_values import Length, Time, end_of, file_keys, microseconds_of
from evenbeat.program.views import RunInfo, StopInfo, TaskDefinition, TaskInfo
from evenbeat.store.contract import Filter, RunRecord
from evenbeat.when.instant import EPOCH_UTC, format_instant
from evenbeat.when.zone import zone
from evenbeat.wire.replies import ChangeResult
from evenbeat.wire.requests import RunArguments
from evenbeat.wire.worker_frames import ReturnedValue

_SOON: Final = 200_000
"""Microseconds from now until a function runs that is to run at once: time for it to be stored before it is due."""


class ProgramMethods(Declarations, ABC):
    """What all methods of an App need: a client of its store and node."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._creator = f"program:{program}"
        """Owns the tasks that the program creates."""

    @abstractmethod
    def _client(self) -> LocalClient:
        """A client, to be closed by the caller."""

    def _do(self, change: Callable[[LocalClient], ChangeResult]) -> ChangeResult:
        with self._client() as client:
            return change(client)


class TaskMethods(ProgramMethods):
    """Tasks. All methods may be called from any thread, whether the app runs or not."""

    def create(
        self,
        name: str | Callable[..., object],
        function: Callable[..., object] | None = None,
        /,
        *,
        check: bool = False,
        owner: str | None = None,
        **keys: Any,
    ) -> TaskDefinition:
        """A new task: `create("web", every="5m", command=[...])`, `create(tidy, every="1h")` with the name of the
        function, or `create("tidy the shop", tidy, every="1h")`. It belongs to `owner`, by default to this program.
        """
        if callable(name):
            if function is not None:
                raise Invalid("two functions, accepted: create(function, ...) or create(name, function, ...)")
            function, name = name, name.__name__
        if function is not None:
            keys["function"] = reference_of(function)
        with self._client() as client:
            table = resolve_relative_at(file_keys(keys, self.name_of), client.now())
            task = task_from_table(name, table, check=check)
            return TaskDefinition.of(client.add([task], owner or self._creator).created[0])

    def later(
        self,
        function: Callable[..., object],
        /,
        args: Sequence[Any] = (),
        delay: Length | None = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        at: Time | None = None,
        name: str | None = None,
        owner: str | None = None,
        **keys: Any,
    ) -> TaskDefinition:
        """Run a function once, with these arguments: after `delay`, or `at` a time, or at once.

        It is a task of its own, stored before this returns; by default its name is the function's with a random end.
        When it has run it disappears after `keep`, like history. Keys beside `at` are those of the decorator.
        """
        if at is not None and delay is not None:
            raise Invalid("give either `delay` or `at`", place="delay")
        table = {**self.keys_on_request(function), **keys, "function": reference_of(function)}
        if args:
            table["args"] = list(args)
        if kwargs:
            table["kwargs"] = dict(kwargs)
        name = name or f"{function.__name__}-{token_hex(6)}"
        with self._client() as client:
            if at is None:
                with prefix_place("delay"):
                    length = 0 if delay is None else microseconds_of(delay)
                table["at"] = format_instant(Instant(client.now() + max(length, _SOON)), zone("UTC"))
            else:
                table["at"] = at
            task = task_from_table(name, file_keys(table, self.name_of), check=False)
            return TaskDefinition.of(client.add([task], owner or self._creator).created[0])

    def read(self, name: str) -> TaskInfo:
        """A task by name or id, and how it is."""
        with self._client() as client:
            entry = client.find(name)
            if entry is None:
                raise Invalid(f"there is no task {name!r}")
            return TaskInfo.of(client.condition(entry))

    def update(self, name: str, /, **keys: Any) -> TaskDefinition:
        """Change some keys of a task; None removes a key."""
        before = self.read(name).entry
        with self._client() as client:
            table = resolve_relative_at(file_keys(keys, self.name_of), client.now())
            changed = change_table(task_to_table(before.task), table)
            new = task_from_table(before.name, changed, check=before.task.check)
            done = client.set(before.name, new, before.version)
        return TaskDefinition.of(done.changed[0]) if done.changed else before

    def delete(self, *names: str, owner: str | None = None) -> None:
        """Remove tasks, by name, id or pattern, or all of an owner; a run in progress finishes."""
        self._do(lambda client: client.remove(filter_of(names, owner)))

    def pause(
        self,
        *names: str,
        owner: str | None = None,
        until: Time | None = None,
        length: Length | None = None,
        reason: str = "",
    ) -> None:
        """Pause tasks: until they are resumed, `until` a time, or for a `length`."""
        only = filter_of(names, owner)
        with self._client() as client:
            client.pause(only, paused=True, until=end_of(client.now(), until, length), reason=reason)

    def resume(self, *names: str, owner: str | None = None) -> None:
        """Resume paused tasks."""
        self._do(lambda client: client.pause(filter_of(names, owner), paused=False))

    def force(
        self,
        *names: str | Callable[..., object],
        wait: bool = False,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[RunInfo]:
        """Run tasks now, given by name or function; with `wait`, return how they ended.

        With `args`, `kwargs` or `env` it is one task, and this run has these arguments: see `core.run_arguments`.
        Conflict while another forced run of the task would have to wait with it.
        """
        wanted = [name if isinstance(name, str) else self.name_of(name) for name in names]
        own = RunArguments(tuple(args), dict(kwargs or {}), dict(env or {})) if args or kwargs or env else None
        with self._client() as client:
            return [RunInfo.of_end(ended) for ended in client.run_now(wanted, wait=wait, arguments=own)]

    def stop_run(
        self, *names: str | Callable[..., object], owner: str | None = None, reason: str = "", wait: bool = False
    ) -> list[StopInfo]:
        """End the runs under way of tasks, by name, id, pattern or function, or of all tasks of an owner. Forced runs
        that wait are withdrawn; schedules go on. With `wait`, return when the runs have ended.
        """
        wanted = tuple(name if isinstance(name, str) else self.name_of(name) for name in names)
        with self._client() as client:
            stopped = client.stop(filter_of(wanted, owner), reason=reason, wait=wait)
        return [StopInfo.of(run) for run in stopped]

    def cursor(self, name: str | Callable[..., object]) -> ArgumentValue:
        """Where the next run of a task goes on, as runs that have ended say; None if it has no cursor."""
        with self._client() as client:
            wanted = name if isinstance(name, str) else self.name_of(name)
            entry = client.find(wanted)
            if entry is None:
                raise Invalid(f"there is no task {wanted!r}")
            return client.cursor(entry)

    def set_cursor(self, name: str | Callable[..., object], cursor: ArgumentValue) -> None:
        """Set where the next run of a task goes on; None: it has no cursor. Conflict while a run is under way."""
        with self._client() as client:
            client.set_cursor(name if isinstance(name, str) else self.name_of(name), cursor)

    def history(self, name: str | None = None, most: int = 100) -> list[RunInfo]:
        """Runs, newest first; also of a task that was removed."""
        with self._client() as client:
            records = client.records(name, most, runs=True)
            return [RunInfo.of(run) for run in records if isinstance(run, RunRecord)]

    def result(self, run: RunInfo | TaskDefinition | str) -> Any:
        """What the function of a run returned, or of the latest run of a task that has ended; None if it returned None.

        As JSON has it: a tuple is a list. Raise Invalid if no run has ended, or if the value could not be kept.
        """
        if not isinstance(run, RunInfo):
            name = run if isinstance(run, str) else run.id
            found = next((past for past in self.history(name) if past.ended is not None), None)
            if found is None:
                raise Invalid(f"no run of {name!r} has ended")
            run = found
        if run.ended is None or run.claimed is None:
            raise Invalid(f"the run of {run.task!r} has not ended, or is known by an event of another program only")
        with self._client() as client:
            kept = client.returned(run.number, Instant((run.claimed - EPOCH_UTC) // timedelta(microseconds=1)))
        if kept is None:
            return None
        returned = decode(kept, type=ReturnedValue)
        if returned.refused:
            raise Invalid(f"what the run of {run.task!r} returned is not kept: {returned.refused}")
        return returned.value

    def set_slots(self, most: int | None) -> None:
        """The most runs at the same time, also after a restart; None restores what files say."""
        self._do(lambda client: client.set_slots(most))

    def set_limit(self, name: str, most: int | None) -> None:
        """The most runs of a limit at the same time; None restores what files say."""
        self._do(lambda client: client.set_limit(name, most))

    def list(self, /, **only: Any) -> list[TaskInfo]:
        """Tasks and how they are: by `owner`, `labels`, `state`, or `names` with * and ?."""
        with self._client() as client:
            return [TaskInfo.of(found) for found in client.conditions(Filter(**only))]


def filter_of(names: tuple[str, ...], owner: str | None) -> Filter:
    """Tasks by name or owner; raise Invalid if neither is given, which does not mean all of them."""
    if not names and owner is None:
        raise Invalid("no task is named; the pattern '*' means all of them")
    return Filter(names=names, owner=owner)
