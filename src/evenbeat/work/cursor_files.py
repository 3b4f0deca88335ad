"""Cursors of commands: a text in the environment of a run, and back a file that the command may write.

Only the name of the file is made: a run that writes none costs no file. The folder is private to this worker. A run of
another user gets an empty file of that user, as it cannot create one in there.
"""

import fcntl
import os
import stat
import time
from contextlib import suppress
from typing import Final

import msgspec

from evenbeat.model import CURSOR_LIMIT, Invalid
from evenbeat.wire.cursor_values import checked_cursor

_PREFIX: Final = "evenbeat-cursors-"
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A command may put anything there: a link is not followed, and a named pipe does not stop the worker."""
_NEW_SECONDS: Final = 60.0
"""A folder that is younger than this may not have its lock yet."""
_cursor: Final = msgspec.msgpack.Decoder(str | int | float | bool | None)


def cursor_text(packed: bytes | None) -> bytes:
    """A saved cursor as commands get it: empty if there is none."""
    value = None if packed is None else _cursor.decode(packed)
    if value is None:
        return b""
    return (value if isinstance(value, str) else str(value).lower()).encode(errors="surrogateescape")


class CursorFiles:
    """The files of the runs of one worker."""

    def __init__(self) -> None:
        self._folder: bytes | None = None
        """Made with the first run; empty if it cannot be made."""
        self._shared_folder = b""
        """For files of other users: they may open their own one, and see no other."""
        self._held: list[int] = []
        """Descriptors whose locks show that the folders are in use."""
        self._of_users: dict[int, bytes] = {}

    def path(self, token: int) -> bytes:
        """Where the command of a run may write its cursor; empty if there is no folder."""
        if self._folder is None:
            _remove_abandoned()
            self._folder = self._new_folder(0o700)
        return b"%b/%d" % (self._folder, token) if self._folder else b""

    def path_for(self, token: int, user: int, group: int) -> bytes:
        """The same for a run of another user: an empty file that belongs to that user."""
        if token in self._of_users:
            return self._of_users[token]
        if not self._shared_folder:
            _remove_abandoned()
            self._shared_folder = self._new_folder(0o711)
        path = b"%b/%d" % (self._shared_folder, token)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return b""
        os.fchown(file, user, group)
        os.close(file)
        self._of_users[token] = path
        return path

    def take(self, token: int) -> bytes | None:
        """What the command of a run that has ended wrote, packed; None if it wrote nothing. Raise Invalid if that
        cannot be a cursor. The file is gone then.
        """
        path = self._of_users.pop(token, None) if self._of_users else None
        if path is None:
            if not self._folder:
                return None
            path = b"%b/%d" % (self._folder, token)
        try:
            file = os.open(path, _FLAGS)
        except FileNotFoundError:
            return None  # as nearly always
        except OSError as e:
            _remove(path)
            raise Invalid(f"its cursor cannot be read: {(e.strerror or str(e)).lower()}") from None
        try:
            _remove(path)
            return _read(file)
        finally:
            os.close(file)

    def forget(self, token: int) -> None:
        """The run was not started."""
        if self._of_users and (path := self._of_users.pop(token, None)) is not None:
            _remove(path)

    def close(self) -> None:
        """Remove the folders, and what is left in them."""
        for folder in filter(None, (self._folder, self._shared_folder)):
            _remove_folder(folder)

    def _new_folder(self, mode: int) -> bytes:
        path = os.path.join(_parent(), _PREFIX + os.urandom(12).hex()).encode()
        try:
            os.mkdir(path, 0o700)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return b""
        os.fchmod(descriptor, mode)  # whatever the umask is
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._held.append(descriptor)
        return path


def _read(file: int) -> bytes | None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise Invalid("its cursor is no regular file")
    data = os.read(file, CURSOR_LIMIT + 1)
    if len(data) > CURSOR_LIMIT:
        raise Invalid(f"its cursor is longer than {CURSOR_LIMIT} bytes, accepted: at most that")
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Invalid("its cursor is no text in UTF-8") from None
    if "\0" in text:
        raise Invalid("its cursor has a null byte")
    return checked_cursor(msgspec.msgpack.encode(text)) if text else None


def _parent() -> str:
    return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the folder made there has a name that nobody can guess


def _remove(path: bytes) -> None:
    try:
        os.unlink(path)
    except OSError:
        with suppress(OSError):
            os.rmdir(path)


def _remove_folder(folder: bytes) -> None:
    with suppress(OSError):
        for name in os.listdir(folder):
            _remove(os.path.join(folder, name))
        os.rmdir(folder)


def _remove_abandoned() -> None:
    """Remove the folders of workers that were killed: nobody holds their locks."""
    with suppress(OSError):
        for name in os.listdir(_parent()):
            if name.startswith(_PREFIX):
                _remove_if_abandoned(os.path.join(_parent(), name).encode())


def _remove_if_abandoned(folder: bytes) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if found.st_uid == os.geteuid() and found.st_mtime < time.time() - _NEW_SECONDS:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_folder(folder)
        finally:
            os.close(descriptor)
