"""What several files say together: do they agree, and what in them works but deserves a second look?"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from evenbeat.load.config import Problem, Source
from evenbeat.model import Days
from evenbeat.when.cron_entry import parse_entry
from evenbeat.when.lint import lint


def disagreements(sources: Sequence[Source]) -> list[Problem]:
    """Names given twice, limits that nobody declares, and settings that contradict each other."""
    return [*_names(sources), *_limits(sources), *_settings(sources)]


def _names(sources: Sequence[Source]) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for source in sources:
        for task in source.config.tasks:
            if owners.setdefault(task.name, source.file) != source.file:
                place = source.place_of(("tasks", task.name), None)
                yield Problem(source.file, place, f"{task.name!r} is in {owners[task.name]} already; names are unique")


def _limits(sources: Sequence[Source]) -> Iterator[Problem]:
    known = {name for source in sources for name in source.config.limits}
    for source in sources:
        told: set[Problem] = set()
        for task in source.config.tasks:
            if task.limit is not None and task.limit not in known:
                place = source.place_of(("tasks", task.name, "limit"), None)
                accepted = ", ".join(sorted(known)) or "none is declared"
                problem = Problem(
                    source.file, place, f"there is no limit {task.limit!r} in [limits], known: {accepted}"
                )
                if problem not in told:  # a template says it for all that use it
                    told.add(problem)
                    yield problem


def _settings(sources: Sequence[Source]) -> Iterator[Problem]:
    said: dict[tuple[str, str], tuple[str, object]] = {}
    for source in sources:
        config = source.config
        node = {} if config.node is None else {f: getattr(config.node, f) for f in config.node.__struct_fields__}
        sections: tuple[tuple[str, dict[str, object]], ...] = (
            ("periods", {**config.periods}),
            ("limits", {**config.limits}),
            ("node", {key: value for key, value in node.items() if value is not None}),
        )
        for section, values in sections:
            for name, value in values.items():
                file, other = said.setdefault((section, name), (source.file, value))
                if other != value:
                    place = source.place_of((section, name), None)
                    yield Problem(source.file, place, f"{section}.{name}: {file} says otherwise")


def warnings(source: Source) -> list[Problem]:
    """What works but piles up load or surprises its owner, each once."""
    found = dict.fromkeys(source.warnings)
    for task in source.config.tasks:
        if task.schedule.cron is not None:
            for warning in _lint(task.schedule.cron, task.schedule.days):
                place = source.place_of(("tasks", task.name, "cron"), 1)
                found[Problem(source.file, place, warning)] = None
    return list(found)


@lru_cache(maxsize=4096)
def _lint(text: str, days: Days) -> list[str]:
    return lint(parse_entry(text), days)
