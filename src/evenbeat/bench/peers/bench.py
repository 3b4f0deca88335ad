"""`evenbeat bench peers`: evenbeat beside what people use today, the same work in turn on the same machine.

Each round measures every contender once, and each round begins with another one: what else the machine does meets all
of them. A figure is the median of the rounds, with the lowest and the highest.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from evenbeat.bench.peers.check_measures import CheckMeasure, check_measures
from evenbeat.bench.peers.contract import Scheduler
from evenbeat.bench.peers.function_callers import FunctionCaller, function_callers
from evenbeat.bench.peers.function_measures import (
    measure_function_offered,
    measure_function_overload,
    offered_title,
    overload_title,
)
from evenbeat.bench.peers.running import ContenderFailed
from evenbeat.bench.peers.sizes import NORMAL, Sizes
from evenbeat.model import Invalid


class Contender(NamedTuple):
    """One contender of one measure."""

    name: str
    version: Callable[[], str]
    missing: Callable[[], str | None]
    measure: Callable[[Sizes], dict[str, float]]


class Measure(NamedTuple):
    """The same work for all of its contenders."""

    name: str
    title: str
    missing: Callable[[], str | None]
    """What this machine lacks for it, whoever does the work."""
    contenders: tuple[Contender, ...]


class Measured(NamedTuple):
    """The figures of a measure: by contender and figure, one value per round."""

    name: str
    title: str
    figures: dict[str, dict[str, list[float]]]
    missing: list[str]
    """What was left out, and how to install it; and contenders that failed."""


def measures(sizes: Sizes, peers_python: str | None) -> list[Measure]:
    """All measures, in the order in which they are taken."""
    callers = function_callers(peers_python)
    checks = [_of_checks(measure, sizes) for measure in check_measures()]
    functions = [
        Measure(name, title(sizes), lambda: None, tuple(_of_caller(caller, measure) for caller in callers))
        for name, title, measure in (
            ("functions", overload_title, measure_function_overload),
            ("functions_offered", offered_title, measure_function_offered),
        )
    ]
    return [*checks[:2], *functions, *checks[2:]]


def selected(found: list[Measure], only: str | None) -> list[Measure]:
    """The measures, and the contenders, that `--only` names: of each kind all if it names none."""
    if only is None:
        return found
    words = {word.strip() for word in only.split(",")}
    names = {measure.name for measure in found}
    contenders = {contender.name for measure in found for contender in measure.contenders}
    if unknown := sorted(words - names - contenders):
        accepted = f"measures: {', '.join(sorted(names))}; contenders: {', '.join(sorted(contenders))}"
        raise Invalid(f"{unknown[0]!r} is unknown. {accepted}", place="--only")
    some = [measure for measure in found if measure.name in words or not words & names]
    if words & contenders:
        some = [m._replace(contenders=tuple(c for c in m.contenders if c.name in words)) for m in some]
    return [measure for measure in some if measure.contenders]


def sizes_of(seconds: int | None) -> Sizes:
    """The normal sizes, with this many seconds for each measurement at a rate."""
    if seconds is None:
        return NORMAL
    if not 2 <= seconds <= 60:
        raise Invalid(f"{seconds} is out of range, accepted: 2 to 60", place="--seconds")
    return NORMAL._replace(seconds=seconds)


def run_measures(found: list[Measure], sizes: Sizes, rounds: int) -> Iterator[Measured]:
    """Take every measure; contenders are stopped however this ends, on SIGTERM too."""
    with _terminated_as_interrupted():
        for measure in found:
            yield _run_measure(measure, sizes, rounds)


def versions(found: list[Measure]) -> dict[str, str]:
    """Names and versions of the contenders that are here."""
    all_of_them = {contender.name: contender for measure in found for contender in measure.contenders}
    return {name: contender.version() for name, contender in all_of_them.items() if contender.missing() is None}


def _run_measure(measure: Measure, sizes: Sizes, rounds: int) -> Measured:
    lacking = measure.missing()
    if lacking is not None:
        return Measured(measure.name, measure.title, {}, [lacking])
    missing = {contender.name: contender.missing() for contender in measure.contenders}
    there = [contender for contender in measure.contenders if missing[contender.name] is None]
    problems = [text for text in missing.values() if text is not None]
    figures: dict[str, dict[str, list[float]]] = {contender.name: {} for contender in there}
    for i in range(rounds if there else 0):
        first = i % len(there)
        for contender in there[first:] + there[:first]:
            try:
                found = contender.measure(sizes)
            except ContenderFailed as e:
                problems.append(f"{contender.name} failed in round {i + 1}: {e}")
                continue
            for key, value in found.items():
                figures[contender.name].setdefault(key, []).append(value)
    return Measured(measure.name, measure.title, {name: some for name, some in figures.items() if some}, problems)


def _of_checks(measure: CheckMeasure, sizes: Sizes) -> Measure:
    def of(scheduler: Scheduler) -> Contender:
        return Contender(
            scheduler.name, scheduler.version, scheduler.missing, lambda some: measure.measure(scheduler, some)
        )

    return Measure(measure.name, measure.title(sizes), measure.missing, tuple(map(of, measure.contenders)))


def _of_caller(caller: FunctionCaller, measure: Callable[[FunctionCaller, Sizes], dict[str, float]]) -> Contender:
    return Contender(caller.name, caller.version, caller.missing, lambda some: measure(caller, some))


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    before: Any = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
