"""References to secrets: "env:NAME" and "file:PATH" are read when a message is delivered, and never shown."""

import errno
import os
import stat
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from evenbeat.core.channels import is_reference, shown_url

_SIZE_LIMIT: Final = 10_000
"""Bytes of a file with a secret."""
_SHORTEST_SECRET: Final = 5
"""Characters: what is shorter is not looked for, as it would be found in harmless words."""
_MASK: Final = "***"


def read_reference(text: str, what: str) -> str:
    """The value that `text` refers to, or `text` itself.

    Raise ValueError, which names the reference, never the value.
    """
    if not is_reference(text):
        return text
    kind, _, place = text.partition(":")
    value = _variable(place, what) if kind == "env" else _file_content(place, what)
    if not value:
        raise ValueError(f"{what}: {text} is empty")
    if not value.isprintable():
        raise ValueError(f"{what}: {text} has control characters or more than one line")
    return value


def _variable(name: str, what: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(f"{what}: the node has no variable {name} in its environment, or keeps it for itself")
    return value.strip()


def _file_content(path: str, what: str) -> str:
    try:
        # A named pipe without a writer must not stop the sender.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            data = os.read(descriptor, _SIZE_LIMIT + 1)
        finally:
            os.close(descriptor)
    except OSError as e:
        raise ValueError(f"{what}: {path}: {(e.strerror or str(e)).lower()}") from None
    if len(data) > _SIZE_LIMIT:
        raise ValueError(f"{what}: {path}: longer than {_SIZE_LIMIT} bytes")
    try:
        return data.decode().strip()
    except UnicodeDecodeError:
        raise ValueError(f"{what}: {path}: not UTF-8") from None


class SecretScrubber:
    """Removes secrets from texts that are reported: answers of receivers and errors of libraries may repeat them."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def add(self, value: str, *, with_host: bool = False) -> None:
        """Of a URL all but its scheme and host is secret, or all; of any other value all of it."""
        self._add(value)
        try:
            parts = urlsplit(value)
        except ValueError:
            return
        if not parts.scheme:
            return
        for part in (parts.username, parts.password, parts.path, parts.query, parts.fragment):
            self._add(part or "")
        for part in (*parts.path.split("/"), *parts.query.split("&"), *parts.fragment.split("&")):
            self._add(part)
            self._add(part.partition("=")[2])
        # Many services have a token in the place of the host.
        if with_host or shown_url(value).endswith("..."):
            place = parts.netloc.rpartition("@")[2]
            self._add(place)
            for part in place.split(":"):
                self._add(part)
                self._add(part.lower())

    def scrub(self, text: str) -> str:
        """The text without the secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, _MASK)
        return text

    def _add(self, part: str) -> None:
        for form in (part, unquote(part), quote(part), quote(part, safe="")):
            if len(form) >= _SHORTEST_SECRET:
                self._secrets.add(form)
