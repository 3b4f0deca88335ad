"""Names for entries of a crontab that have none: from their commands, so that neither order nor time changes them.

Each entry has several possible names, from the shortest, which says what its command is about, to one with a hash that
no other entry has. It gets the first one that no other entry of its file has.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import dropwhile, takewhile
from pathlib import PurePath
from typing import Final, NamedTuple

from evenbeat.load.shell_words import ShellWord, simple_commands

_KEYWORDS: Final = {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}", "esac"}
"""Words of the shell before a command."""
_HEADS: Final = {"for", "case", "select", "function"}
"""Words of the shell that no command follows up to the next `;`."""
_PREPARATIONS: Final = {
    *("cd", "test", "[", "[[", ".", "source", "export", "set", "unset", "umask", "ulimit", "trap", "read", "shopt"),
    *("which", "type", "hash", "exit", "return", "break", "continue", "let", "local", "wait", ":"),
}
"""Commands that only prepare the actual command."""
_COMPANIONS: Final = {
    *("sleep", "echo", "printf", "true", "false", "date", "mkdir", "touch", "cat", "logger"),
    *("pgrep", "pidof", "mountpoint"),
}
"""Commands that give the name only where no other one is."""
_SAY_NOTHING: Final = {"sleep", "true", "false"}
_WRAPPERS: Final = {
    *("env", "nice", "ionice", "nohup", "exec", "sudo", "time", "timeout", "flock", "chronic", "command", "run-parts"),
    *("su", "runuser", "setsid", "stdbuf", "chrt", "taskset", "chpst", "cronic", "xvfb-run", "systemd-cat", "eval"),
    *("sh", "bash", "dash", "ash", "ksh", "zsh", "python", "perl", "ruby", "php", "node", "java", "py"),
    *("invoke-rc.d", "service", "systemd-run", "doas"),
}
"""Commands that run another command, whose name says more."""
_OPTIONS_WITH_VALUE: Final = {
    "sudo": ("-u", "-g", "-h", "-p", "-C", "--user", "--group"),
    "doas": ("-u",),
    "su": ("-s", "-g"),
    "runuser": ("-u", "-g", "-s"),
    "env": ("-u", "-C"),
    "nice": ("-n",),
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
_COMMAND_OPTION: Final = re.compile(r"-\w*c|--command")
_TAKE_COMMAND_LINE: Final = {"sh", "bash", "dash", "ash", "ksh", "zsh", "su", "runuser", "flock"}
"""Wrappers whose option `-c` has a line for a shell."""
_PROGRAM_OPTIONS: Final = {"python": "-c", "perl": "-e", "ruby": "-e", "php": "-r", "node": "-e"}
"""Options of interpreters that have a whole program as their value."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_USER_OF_URL: Final = re.compile(r"^(?:\w+://)?(?:.*@)?")
_NUMBER: Final = re.compile(r"[-+]?[\d.]+[smhd]?")
_EXTENSION: Final = re.compile(r"\.(?:sh|py|pl|rb|php|js|jar|bash)$")
_MAX_NAME: Final = 64
_MAX_FURTHER_WORDS: Final = 3
"""Words behind the stem that tell commands apart; beyond them a hash does."""
_QUESTIONS: Final = {("command", "-v"), ("command", "-V")}
"""Wrappers with an option that asks where a command is."""
_MAX_DEPTH: Final = 4
"""Command lines within command lines."""
_NAMELESS: Final = "task"


class _Stem(NamedTuple):
    name: str
    further: tuple[str, ...] = ()
    """The words behind it up to the first option, as parts of a name: beyond it values may be secret."""


class UnnamedEntry(NamedTuple):
    """What the names of an entry are made of."""

    schedule: str
    """Its times, and whatever else tells it apart."""
    command: str
    given: str | None = None
    """The name that a line above it gives."""


def command_stem(command: str) -> str:
    """The name people would use: `cd /srv && nice ./backup.sh --full` -> backup."""
    return _stem(command).name


def _stem(command: str, depth: int = 0) -> _Stem:
    """What the first command is about that is no wrapper, no preparation and no companion of another."""
    wrapper: _Stem | None = None
    companions: list[_Stem] = []
    for words in simple_commands(command):
        found, is_wrapper = _stem_of_command(words, depth)
        if found is None:
            continue
        if is_wrapper:
            wrapper = wrapper or found
        elif found.name in _COMPANIONS:
            companions.append(found)
        else:
            return found
    companions.sort(key=lambda one: one.name in _SAY_NOTHING)
    return wrapper or next(iter(companions), _Stem(_NAMELESS))


def _stem_of_command(words: Sequence[ShellWord], depth: int) -> tuple[_Stem | None, bool]:
    """What a simple command is about, and whether only a wrapper is known of it; None if it has no name."""
    words = [*dropwhile(lambda word: word.text in _KEYWORDS or _ASSIGNMENT.match(word.text), words)]
    if not words or words[0].text in _HEADS or words[0].text in _PREPARATIONS:
        return None, False
    fallback: _Stem | None = None
    wrapper, interpreter, values, has_own_word = "", "", 0, False
    for i, word in enumerate(words):
        name = _name_of_program(word.text)
        if values:
            values -= 1
        elif wrapper and word.text[:1] == "-":
            if (wrapper, word.text) in _QUESTIONS:
                return None, False
            if _PROGRAM_OPTIONS.get(wrapper) == word.text:
                return _Stem(interpreter), True
            if wrapper in _TAKE_COMMAND_LINE and _COMMAND_OPTION.fullmatch(word.text) and depth < _MAX_DEPTH:
                inner = _stem(words[i + 1].text if i + 1 < len(words) else "", depth + 1)
                return (fallback, True) if inner.name == _NAMELESS else (inner, False)
            values = int(word.text in _OPTIONS_WITH_VALUE.get(wrapper, ()))
        elif has_own_word or (wrapper and _ASSIGNMENT.match(word.text)):
            has_own_word = False
        elif found := _wrapper_called(name):
            wrapper, interpreter, has_own_word = found, name, found in _WRAPPERS_WITH_WORD
            fallback = fallback or _Stem(name, _further(words[i + 1 :]))
        elif name and word.text[0] != "-" and not _NUMBER.fullmatch(word.text):
            return _Stem(name, _further(words[i + 1 :])), False
        elif not name and not word.is_literal:
            wrapper = wrapper or "$"  # the shell knows what it is; the word behind it says more
    return fallback, True


def _name_of_program(path: str) -> str:
    return _part_of_name(_EXTENSION.sub("", path.rstrip("/").rpartition("/")[2]))


def _wrapper_called(name: str) -> str:
    """The wrapper that has this name, or this name without its version; empty if none has."""
    return next((one for one in (name, re.sub(r"[\d.]+$", "", name)) if one in _WRAPPERS), "")


def _further(words: Sequence[ShellWord]) -> tuple[str, ...]:
    plain = takewhile(lambda word: word.is_literal and word.text[:1] != "-" and "=" not in word.text, words)
    return tuple(filter(None, map(_part_of_name, (_USER_OF_URL.sub("", word.text) for word in plain))))


def _part_of_name(word: str) -> str:
    return re.sub(r"[^\w.:@+-]+", "-", word).strip("-.")[:_MAX_NAME]


def possible_names(entry: UnnamedEntry, file: str = "") -> tuple[str, ...]:
    """All names that an entry may have: first by its command and, in cron.d, its file; then with further words of the
    command; then with hashes: of the command, so that another time keeps the name, and of the whole entry.
    """
    stem = _stem(entry.command)
    base = _with_file(stem.name, file)
    words = range(1, min(len(stem.further), _MAX_FURTHER_WORDS) + 1)
    longer = ("-".join((base, *stem.further[:count])) for count in words)
    whole = _hash(f"{entry.schedule} {entry.command}")
    hashed = (f"{base}-{_hash(entry.command)[:6]}", f"{base}-{whole[:6]}", f"{base}-{whole[:12]}")
    return tuple(dict.fromkeys((base, *(name for name in longer if len(name) <= _MAX_NAME), *hashed)))


_HASHED_NAMES: Final = 3
"""Of the names of an entry, those at the end."""


def _with_file(stem: str, file: str) -> str:
    """A package names its file in cron.d after itself, which says more than `update` or `clean`: `awstats/update`."""
    path = PurePath(file)
    package = _part_of_name(path.name) if path.parent.name == "cron.d" else ""
    is_folder_of_scripts = stem.startswith("cron.")
    return stem if not package or is_folder_of_scripts or stem.startswith(package) else f"{package}/{stem}"[:_MAX_NAME]


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def unique_names(entries: Sequence[UnnamedEntry], file: str = "") -> list[str]:
    """A name for each entry. Entries with one name are told apart by further words of their commands:
    `manage-clearsessions`; by a hash where those are alike. The order of entries changes nothing.
    """
    names = [(one.given,) if one.given is not None else possible_names(one, file) for one in entries]
    at = [0] * len(entries)
    while conflicts := list(_conflicts(names, at)):
        moved = [i for group in conflicts for i in _which_change(group, entries, names, at)]
        if not moved:
            break  # the same line twice
        for i in moved:
            at[i] += 1
    return [of[which] for of, which in zip(names, at, strict=True)]


def _conflicts(names: Sequence[Sequence[str]], at: Sequence[int]) -> Iterator[list[int]]:
    """The entries that have one name."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for i, which in enumerate(at):
        groups[names[i][which]].append(i)
    return (group for group in groups.values() if len(group) > 1)


def _which_change(
    group: Sequence[int], entries: Sequence[UnnamedEntry], names: Sequence[Sequence[str]], at: Sequence[int]
) -> list[int]:
    """Of entries with one name those that take their next one. One that has no further words keeps it, if it is the
    only one and no given name is like that.
    """
    more = [i for i in group if at[i] + 1 < len(names[i])]
    with_words = [i for i in more if at[i] + 1 < len(names[i]) - _HASHED_NAMES]
    is_given = any(entries[i].given is not None for i in group)
    return with_words if len(with_words) == len(group) - 1 and not is_given else more
