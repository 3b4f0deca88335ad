"""What a program declares: tasks, checks, periods, limits and contacts, each refused where it is written if wrong."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

from msgspec import ValidationError, convert
from msgspec.structs import replace

from evenbeat.load.config import Config
from evenbeat.load.contacts import contact_from_table
from evenbeat.load.function_reference import can_be_imported, definition_place, reference_of
from evenbeat.load.safe_text import name_error
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import Contact, Invalid, Period, Task, prefix_place
from evenbeat.program.hooks import HookKind, Hooks
from evenbeat.program.python_values import file_keys
from evenbeat.when.period import compile_periods

F = TypeVar("F", bound=Callable[..., object])
H = TypeVar("H", bound=Callable[[Any], object])
_SCHEDULE_KEYS = ("every", "cron", "calendar", "at", "after", "after_failure")


class _DeclaredFunction(NamedTuple):
    """A function, and the name of the first task that it is declared as."""

    name: str
    function: Callable[..., object]


class Declarations:
    """Collects what is declared until the node starts."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._on_request: dict[str, Mapping[str, Any]] = {}
        """Keys of functions without a schedule, by reference: `later` uses them."""
        self._periods: dict[str, Period] = {}
        self._limits: dict[str, int] = {}
        self._contacts: dict[str, Contact] = {}
        self._functions: dict[str, _DeclaredFunction] = {}
        """By reference."""
        self._hooks = Hooks()

    @overload
    def task(self, function: F, /) -> F: ...
    @overload
    def task(self, /, *, name: str | None = None, **keys: Any) -> Callable[[F], F]: ...
    def task(self, function: Any = None, /, *, name: str | None = None, **keys: Any) -> Any:
        """Declare a function as a task, by default named like the function: `@app.task` or `@app.task(every=...)`.

        Keys are those of files. Without a schedule it runs when `later` asks for it, with the keys given here.
        """
        if function is not None:
            return self._declare(function, name, keys, is_check=False)
        return lambda function: self._declare(function, name, keys, is_check=False)

    def check(self, name: str | None = None, **keys: Any) -> Callable[[F], F]:
        """Declare a check: `app.check("disk", every="5m", command=[...])`, or a decorator for a function that returns
        0 to 3, a text, or both.
        """
        if name is not None and not isinstance(name, str):
            raise Invalid("the name of a check is a text; a decorator has keys: @app.check(every=...)")
        if "command" in keys:
            if name is None:
                raise Invalid("a check that runs a command needs a name")
            self._take(name, keys, is_check=True)
        return lambda function: self._declare(function, name, keys, is_check=True)

    def command(self, name: str, command: Sequence[str], **keys: Any) -> None:
        """Declare a task that runs a command."""
        self._take(name, {**keys, "command": list(command)}, is_check=False)

    def period(self, name: str, *ranges: str, **keys: Any) -> None:
        """Declare a period: `app.period("office", "monday-friday 09:00-17:00", zone=ZoneInfo("Europe/Paris"))`.

        Keys are those of files: exclude, include, prefer, holidays, zone.
        """
        self._refuse_second(name, self._periods, "period")
        table = file_keys(keys, self.name_of)
        if ranges:
            table["ranges"] = list(ranges)
        with prefix_place(f"period {name!r}"):
            if problem := name_error(name):
                raise Invalid(problem)
            try:
                period = convert(table, Period)
            except ValidationError as e:
                raise Invalid(str(e)) from None
            compile_periods({name: replace(period, include=(), exclude=())})
        self._periods[name] = period

    def limit(self, name: str, most: int) -> None:
        """Declare how many runs with `limit=name` there may be at the same time."""
        self._refuse_second(name, self._limits, "limit")
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 1_000_000:
            raise Invalid(f"the limit {name!r} is {most!r}, accepted: 1 to 1000000")
        self._limits[name] = most

    def contact(self, name: str, **keys: Any) -> None:
        """Declare where messages about problems go: `app.contact("ops", email=["ops@example.org"])`. Tasks name it:
        `@app.task(every="1h", notify=["ops"])`.
        """
        self._refuse_second(name, self._contacts, "contact")
        self._contacts[name] = contact_from_table(name, file_keys(keys, self.name_of))

    @overload
    def on_success(self, function: H, /) -> H: ...
    @overload
    def on_success(self, /, *names: str) -> Callable[[H], H]: ...
    def on_success(self, /, *names: Any) -> Any:
        """Call a function of the program with the RunInfo of each run that succeeded, once that is committed:
        `@app.on_success`, or `@app.on_success("backup*")` for tasks whose names match.
        """
        return self._hook("success", names)

    @overload
    def on_failure(self, function: H, /) -> H: ...
    @overload
    def on_failure(self, /, *names: str) -> Callable[[H], H]: ...
    def on_failure(self, /, *names: Any) -> Any:
        """As `on_success`, with each run that failed in any way, and each result of a check that is not OK."""
        return self._hook("failure", names)

    @overload
    def on_skip(self, function: H, /) -> H: ...
    @overload
    def on_skip(self, /, *names: str) -> Callable[[H], H]: ...
    def on_skip(self, /, *names: Any) -> Any:
        """As `on_success`, with the SkipInfo of nominal times that had no run."""
        return self._hook("skip", names)

    def _hook(self, kind: HookKind, given: tuple[Any, ...]) -> Any:
        if len(given) == 1 and not isinstance(given[0], str):
            self._hooks.add(kind, (), given[0])
            return given[0]

        def add(function: H) -> H:
            self._hooks.add(kind, given, function)
            return function

        return add

    def name_of(self, function: Callable[..., object]) -> str:
        """The name of the task that this function is declared as; raise Invalid if it is not declared."""
        reference = reference_of(function)
        if reference not in self._functions:
            raise Invalid(
                f"{reference} is not declared as a task, accepted: a declared function, or the name of a task"
            )
        return self._functions[reference].name

    def keys_on_request(self, function: Callable[..., object]) -> Mapping[str, Any]:
        """The keys with which this function is declared without a schedule; none if it is not."""
        return self._on_request.get(reference_of(function), {})

    def declared(self) -> Config:
        """All that is declared; raise Invalid if a function is not what its module has under its name by now."""
        for reference, (name, function) in self._functions.items():
            if not can_be_imported(function):
                raise Invalid(
                    f"{name!r} is declared with a function of {definition_place(function)}, but {reference} is"
                    " something else by now. Give it a name of its own"
                )
        return Config(tuple(self._tasks.values()), self._periods, self._limits, None, self._contacts)

    def function_of(self, reference: str) -> Callable[..., object] | None:
        """The declared function with this reference."""
        found = self._functions.get(reference)
        return None if found is None else found.function

    def _declare(self, function: F, name: str | None, keys: Mapping[str, Any], *, is_check: bool) -> F:
        reference = reference_of(function)
        name = name or function.__name__
        known = self._functions.get(reference)
        if known is not None and known.function is not function:
            raise Invalid(
                f"{known.name!r} is {reference} at {definition_place(known.function)}, "
                f"{name!r} is {reference} at {definition_place(function)}:"
                " both tasks would run the second of them. Give the functions different names"
            )
        if is_check or any(key in keys for key in _SCHEDULE_KEYS):
            self._take(name, {**keys, "function": reference}, is_check=is_check)
        else:
            self._take_without_schedule(name, reference, keys)
        if known is None:
            self._functions[reference] = _DeclaredFunction(name, function)
        return function

    def _take(self, name: str, keys: Mapping[str, Any], *, is_check: bool) -> None:
        self._refuse_taken(name)
        self._tasks[name] = task_from_table(name, file_keys(keys, self.name_of), check=is_check)

    def _take_without_schedule(self, name: str, reference: str, keys: Mapping[str, Any]) -> None:
        self._refuse_taken(name)
        if reference in self._on_request:
            raise Invalid(f"{reference} is declared twice without a schedule; declare it once")
        # An error is raised where the function is declared.
        task_from_table(name, {**file_keys(keys, self.name_of), "function": reference, "at": "2100-01-01"}, check=False)
        self._on_request[reference] = keys

    def _refuse_taken(self, name: str) -> None:
        if name in self._tasks or any(name == known.name for known in self._functions.values()):
            raise Invalid(f"the name {name!r} is taken; names are unique")

    def _refuse_second(self, name: str, known: Mapping[str, object], kind: str) -> None:
        if name in known:
            raise Invalid(f"the {kind} {name!r} is declared twice; names are unique")
