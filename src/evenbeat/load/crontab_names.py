"""Names for entries of a crontab that have none: from their commands, so that neither order nor time changes them."""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

_IGNORED_COMMANDS: Final = {"cd", "test", "[", "[[", ".", "source", "export", "set", "umask", "sleep", "if"}
"""Commands that only prepare the actual command."""
_WRAPPER_COMMANDS: Final = {
    *("env", "nice", "ionice", "nohup", "exec", "sudo", "time", "timeout", "flock", "chronic", "command"),
    *("sh", "bash", "dash", "zsh", "python", "python3", "perl", "ruby", "php", "node", "java", "py"),
}
"""Commands that run another command, whose name says more."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_NUMBER: Final = re.compile(r"[-+]?[\d.]+[smhd]?")
_EXTENSION: Final = re.compile(r"\.(?:sh|py|pl|rb|php|js|jar|bash)$")
_MAX_NAME: Final = 64


def command_stem(command: str) -> str:
    """The name people would use: `cd /srv && nice ./backup.sh --full` -> backup."""
    fallback = ""
    for part in re.split(r"&&|\|\||[;|&(){}]", command):
        words = [word.strip("\"'`") for word in part.split()]
        words = [word for word in words if word and not _ASSIGNMENT.match(word)]
        if not words or words[0] in _IGNORED_COMMANDS or words[0][0] in "<>":
            continue
        for word in words:
            name = _EXTENSION.sub("", word.rstrip("/").rpartition("/")[2])
            name = re.sub(r"[^\w.:@+-]+", "-", name).strip("-.")[:_MAX_NAME]
            starts = re.sub(r"[\d.]+$", "", name) in _WRAPPER_COMMANDS
            fallback = fallback or name
            if name and not starts and word[0] != "-" and not _NUMBER.fullmatch(word):
                return name
    return fallback or "task"


def unique_names(entries: Sequence[tuple[str | None, str, str]]) -> list[str]:
    """A name for each (given name, schedule, command); entries that share a stem are told apart by a hash.

    It is a hash of the command, so that another time keeps the name; where commands are alike, of the whole entry.
    """
    stems = Counter(given or command_stem(command) for given, _, command in entries)
    commands = Counter(command for given, _, command in entries if given is None)
    names = []
    for given, schedule, command in entries:
        if given is not None:
            names.append(given)
            continue
        name = command_stem(command)
        if stems[name] > 1:
            told_apart = command if commands[command] == 1 else f"{schedule} {command}"
            name = f"{name}-{sha256(told_apart.encode()).hexdigest()[:6]}"
        names.append(name)
    return names
