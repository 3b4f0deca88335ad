"""Names for entries of a crontab that have none: from their commands, so that neither order nor time changes them."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Final, NamedTuple

_IGNORED_COMMANDS: Final = {"cd", "test", "[", "[[", ".", "source", "export", "set", "umask", "sleep", "if", "then"}
"""Commands that only prepare the actual command."""
_WRAPPER_COMMANDS: Final = {
    *("env", "nice", "ionice", "nohup", "exec", "sudo", "time", "timeout", "flock", "chronic", "command", "run-parts"),
    *("su", "runuser", "setsid", "stdbuf", "chrt", "taskset", "chpst", "cronic", "xvfb-run", "systemd-cat", "else"),
    *("sh", "bash", "dash", "zsh", "python", "python3", "perl", "ruby", "php", "node", "java", "py"),
}
"""Commands that run another command, whose name says more."""
_OPTIONS_WITH_VALUE: Final = {
    "sudo": ("-u", "-g", "-h", "-p", "-C", "--user", "--group"),
    "su": ("-s", "-g"),
    "runuser": ("-u", "-g", "-s"),
    "env": ("-u", "-C"),
    "flock": ("-w", "-E", "--wait", "--timeout"),
    "timeout": ("-k", "-s", "--signal", "--kill-after"),
    "ionice": ("-c", "-n"),
    "systemd-cat": ("-t", "-p"),
    "php": ("-d", "-c"),
    "java": ("-cp", "-classpath"),
}
"""Options of such commands whose next word is their value."""
_WRAPPERS_WITH_WORD: Final = {"flock", "su", "chpst"}
"""Wrappers with a word of their own before the command: a lock, a user."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_REDIRECTION: Final = re.compile(r"\d*[<>]|&")
_USER_OF_URL: Final = re.compile(r"^(?:\w+://)?(?:.*@)?")
_NUMBER: Final = re.compile(r"[-+]?[\d.]+[smhd]?")
_EXTENSION: Final = re.compile(r"\.(?:sh|py|pl|rb|php|js|jar|bash)$")
_MAX_NAME: Final = 64
_MAX_FURTHER_WORDS: Final = 3
"""Words behind the stem that tell commands apart; beyond them a hash does."""


class _Stem(NamedTuple):
    name: str
    further: tuple[str, ...]
    """The words behind it up to the first option, as parts of a name: beyond it values may be secret."""


def command_stem(command: str) -> str:
    """The name people would use: `cd /srv && nice ./backup.sh --full` -> backup."""
    return _stem(command).name


def _stem(command: str) -> _Stem:
    fallback = _Stem("task", ())
    for part in re.split(r"&&|\|\||[;|&(){}]", command):
        words = [word.strip("\"'`") for word in part.split()]
        words = [word for word in words if word and not _ASSIGNMENT.match(word)]
        if not words or words[0] in _IGNORED_COMMANDS or words[0][0] in "<>":
            continue
        wrapper, skipped = "", 0
        for i, word in enumerate(words):
            if skipped:
                skipped -= 1
                continue
            name = _part_of_name(_EXTENSION.sub("", word.rstrip("/").rpartition("/")[2]))
            bare = re.sub(r"[\d.]+$", "", name)
            if wrapper and word[0] == "-":
                skipped = int(word in _OPTIONS_WITH_VALUE.get(wrapper, ()))
                continue
            if name and fallback.name == "task":
                fallback = _Stem(name, _further(words[i + 1 :]))
            if bare in _WRAPPER_COMMANDS:
                wrapper = bare
            elif wrapper in _WRAPPERS_WITH_WORD:
                wrapper = "sh"
            elif name and word[0] != "-" and not _NUMBER.fullmatch(word):
                return _Stem(name, _further(words[i + 1 :]))
    return fallback


def _further(words: Sequence[str]) -> tuple[str, ...]:
    plain = takewhile(lambda word: word[0] not in "-<>" and not _REDIRECTION.match(word) and "=" not in word, words)
    return tuple(filter(None, map(_part_of_name, (_USER_OF_URL.sub("", word) for word in plain))))


def _part_of_name(word: str) -> str:
    return re.sub(r"[^\w.:@+-]+", "-", word).strip("-.")[:_MAX_NAME]


def unique_names(entries: Sequence[tuple[str | None, str, str]]) -> list[str]:
    """A name for each (given name, schedule, command). Entries that share a stem are told apart by further words of
    their commands: `manage-clearsessions`; by a hash where those are too many or alike.

    It is a hash of the command, so that another time keeps the name; where commands are alike, of the whole entry.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for given, _, command in entries:
        groups[given or command_stem(command)].append(command)
    commands = Counter(command for given, _, command in entries if given is None)
    further = {stem: _names_of_group(stem, group) for stem, group in groups.items() if len(group) > 1}
    taken = Counter([*groups, *(name for names in further.values() for name in set(names.values()))])
    usable = {stem for stem, names in further.items() if all(taken[name] == 1 for name in names.values())}
    names = []
    for given, schedule, command in entries:
        if given is not None:
            names.append(given)
            continue
        name = command_stem(command)
        if name in further:
            longer = further[name].get(command, "")
            if longer and name in usable and commands[command] == 1:
                name = longer
            else:
                told_apart = command if commands[command] == 1 else f"{schedule} {command}"
                name = f"{name}-{sha256(told_apart.encode()).hexdigest()[:6]}"
        names.append(name)
    return names


def _names_of_group(stem: str, commands: Sequence[str]) -> dict[str, str]:
    """The shortest names with further words that tell all commands of a stem apart, by command; empty if none do."""
    words = {command: _stem(command).further for command in commands}
    for count in range(1, _MAX_FURTHER_WORDS + 1):
        found = {command: "-".join((stem, *further[:count])) for command, further in words.items()}
        if len(set(found.values())) == len(found) and all(
            stem != name and len(name) <= _MAX_NAME for name in found.values()
        ):
            return found
    return {}
