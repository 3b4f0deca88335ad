"""A task of a crontab keeps its name, and so its id, history and phase, whatever lines come, go or move.

Its name comes from its command, as far as no other line has that name. Which lines there are changes, so a task is
found again by what it does, and a name is made only for one that was not there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from evenbeat.load.config import Config, FilePosition, ParsedFile
from evenbeat.model import NAME_LIMIT, Entry, Task
from evenbeat.store.contract import Filter, Store

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def keep_names_of_tasks(
    store: Store, configs: Mapping[str, Config]
) -> tuple[dict[str, dict[str, str]], dict[str, Config]]:
    """The configs with the names that their tasks get, and for each owner these names by those that were there."""
    names = {
        owner: kept_names(config, store.entries(Filter(owner=owner)) if config.names_from_commands else ())
        for owner, config in configs.items()
    }
    return names, {owner: with_names(config, names[owner]) for owner, config in configs.items()}


def kept_names(config: Config, entries: Iterable[Entry]) -> dict[str, str]:
    """The name that each task gets whose name is to be another one than that in the config; `entries`: the tasks that
    its owner has.
    """
    made = config.names_from_commands
    if not made:
        return {}
    given = {task.name for task in config.tasks} - made.keys()
    oldest_first = sorted(entries, key=lambda entry: entry.number)
    left = {entry.task.name: entry.task for entry in oldest_first if entry.task.name not in given}
    new = {task.name: task for task in config.tasks if task.name in made}
    names: dict[str, str] = {}
    for alike in (_line, _work):
        _match(names, new, left, alike)
    for name in new:  # another command of the same name
        if name not in names and name in left:
            names[name] = name
            del left[name]
    for name in new:
        if name not in names and (found := next((one for one in made[name] if one in left), None)):
            names[name] = found
            del left[found]
    taken = {*given, *names.values()}
    for name in sorted(new.keys() - names.keys()):
        names[name] = _free_name(name, made[name], taken)
        taken.add(names[name])
    return {name: kept for name, kept in names.items() if kept != name}


def _match(
    names: dict[str, str], new: Mapping[str, Task], left: dict[str, Task], alike: Callable[[Task], bytes]
) -> None:
    """Find tasks again that are alike in this; of several first those with the same name, then the oldest."""
    by_likeness: dict[bytes, list[str]] = {}
    for name, task in left.items():
        by_likeness.setdefault(alike(task), []).append(name)
    unmatched = [(name, alike(task)) for name, task in new.items() if name not in names]
    for has_name in (True, False):
        for name, likeness in unmatched:
            candidates = by_likeness.get(likeness, [])
            if name in names or not candidates or (has_name and name not in candidates):
                continue
            found = name if has_name else candidates[0]
            candidates.remove(found)
            names[name] = found
            del left[found]


def _line(task: Task) -> bytes:
    """What the line of a task says: what runs, and when."""
    return _encode((_work(task), replace(task.schedule, phase=None, pinned=False)))


def _work(task: Task) -> bytes:
    """What runs: a variable above the line does not make it another task."""
    return _encode(replace(task.job, env={}, cwd=None))


def _free_name(name: str, possible: Iterable[str], taken: Collection[str]) -> str:
    """The name, or else the shortest that is possible and not taken."""
    found = next((one for one in (name, *possible) if one not in taken), None)
    number = 2
    while found is None:
        numbered = f"{name[: NAME_LIMIT - 8]} ({number})"
        found = numbered if numbered not in taken else None
        number += 1
    return found


def with_names(config: Config, names: Mapping[str, str]) -> Config:
    """The config with other names of some tasks."""
    if not names:
        return config
    tasks = (replace(task, name=names.get(task.name, task.name)) for task in config.tasks)
    made = {names.get(name, name): possible for name, possible in config.names_from_commands.items()}
    return config._replace(tasks=tuple(tasks), names_from_commands=made)


def file_with_names(file: ParsedFile, names: Mapping[str, str]) -> ParsedFile:
    """The file, where the values of tasks are found by the names that these have."""
    if not names:
        return file
    in_file = {kept: name for name, kept in names.items()}
    place_of = file.place_of

    def place_by_kept_name(path: tuple[str | int, ...], column: int | None) -> FilePosition | None:
        if len(path) > 1 and path[0] == "tasks":
            path = ("tasks", in_file.get(str(path[1]), path[1]), *path[2:])
        return place_of(path, column)

    return file._replace(config=with_names(file.config, names), place_of=place_by_kept_name)
