"""Secrets of an import: what other systems' files have in plain text becomes files that only the node's user may read.

The TOML has references to them: `env = { USER3 = "file:/etc/evenbeat/secrets/USER3" }`.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from evenbeat.model import ENV_REFERENCE_PREFIXES, Invalid

_SOUNDS_SECRET: Final = re.compile(
    r"passw|passphrase|(^|_)pass(_|$)|(^|_)pwd?(_|$)|secret|token|community|credential|private_?key(?!_?file)|api_?key|auth_?key",
    re.IGNORECASE,
)
_URL_WITH_PASSWORD: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
_OPEN, _CLOSE = "\ue002", "\ue003"
SECRET_GAP: Final = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
"""Where a secret belongs in a line of a command: the name of its file."""
_NOT_IN_FILE_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_LENGTH: Final = 100


def sounds_secret(name: str, value: str = "") -> bool:
    """Does a variable of this name hold a secret, or this value, as postgres://shop:password@db does?"""
    return _SOUNDS_SECRET.search(name) is not None or _URL_WITH_PASSWORD.search(value) is not None


def secret_gap(file: str) -> str:
    """The place of a secret in a line of a command."""
    return f"{_OPEN}{file}{_CLOSE}"


class SecretFiles:
    """The values that an import has found, by the names of their files in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.contents: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, content: str) -> str:
        """Keep a value in a file of this name; return the name, which is another if that one holds something else."""
        base = _NOT_IN_FILE_NAMES.sub("-", name).strip(".-")[:_NAME_LENGTH] or "secret"
        while (base, content) not in self._names:
            number = self._counts[base] = self._counts.get(base, 0) + 1
            found = base if number == 1 else f"{base}-{number}"
            if self.contents.setdefault(found, content) == content:
                self._names[base, content] = found
        return self._names[base, content]

    def path(self, name: str) -> str:
        """The path of a file."""
        return f"{self.folder}/{name}"

    def reference(self, name: str) -> str:
        """The value of a variable that is read from a file."""
        return f"file:{self.path(name)}"

    def hide(self, owner: str, env: Mapping[str, str]) -> dict[str, str]:
        """Variables with references in place of values that sound secret; references stay as they are."""
        return {
            name: self.reference(self.add(f"{owner}-{name}", value))
            if value and sounds_secret(name, value) and not value.startswith(ENV_REFERENCE_PREFIXES)
            else value
            for name, value in env.items()
        }


def write_secrets(folder: Path, contents: Mapping[str, str]) -> None:
    """Write a file for each secret, which only its owner may read. None that is there is overwritten; raise Invalid."""
    if not contents:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in contents.items():
            _write(folder / name, content.encode("utf-8", "surrogateescape"))
    except OSError as e:
        raise Invalid(f"{e.filename or folder}: {e.strerror or e}", place="--secrets") from None


def _write(path: Path, content: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if path.is_symlink() or not path.is_file() or path.read_bytes() != content:
            problem = f"{path} is there and holds something else; accepted: a folder in which it is not"
            raise Invalid(problem, place="--secrets") from None
        path.chmod(0o600)
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
