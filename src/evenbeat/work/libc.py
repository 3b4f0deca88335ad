"""`posix_spawn` of the C library, called directly: what all children have in common is prepared once.

Python's own call builds words, environment and attributes for each child. And unless it is told to reset all signals,
glibc inspects every one of them in the child. Together that is two percent of the cost of a short child.
"""

import os
from collections.abc import Iterable
from ctypes import CDLL, Array, byref, c_char_p, c_int, c_short, c_ulong, c_void_p, create_string_buffer
from typing import Final

CStrings = Array[c_char_p]

# Of glibc and musl.
_SETPGROUP: Final = 0x02
_SETSIGDEF: Final = 0x04
# Three times what their structures take.
_ROOM: Final = 1_024
_ROOM_FOR_ACTIONS: Final = 256

_libc: Final = CDLL(None)
_posix_spawn: Final = _libc.posix_spawn
_posix_spawn.argtypes = (c_void_p, c_char_p, c_void_p, c_void_p, c_void_p, c_void_p)
_posix_spawn.restype = c_int
_SET_CHILD_SUBREAPER: Final = 36
"""Of prctl(2), on Linux."""
_adddup2: Final = _libc.posix_spawn_file_actions_adddup2


def c_strings(entries: Iterable[bytes]) -> CStrings:
    """The words of a program or its environment as an array of C strings; raise ValueError for a null byte."""
    entries = list(entries)
    refuse_nul(b"".join(entries))
    return (c_char_p * (len(entries) + 1))(*entries)


def refuse_nul(text: bytes) -> None:
    """Raise ValueError if C would see only a part of it."""
    if b"\0" in text:
        raise ValueError("embedded null byte")


def adopt_orphans() -> None:
    """From now on, orphaned descendants become our children, not those of the first process of the machine."""
    _libc.prctl(_SET_CHILD_SUBREAPER, c_ulong(1), c_ulong(0), c_ulong(0), c_ulong(0))


class PosixSpawn:
    """Starts programs as leaders of their own groups, with all signals as they are by default."""

    def __init__(self) -> None:
        self._attributes = create_string_buffer(_ROOM)
        signals = create_string_buffer(_ROOM)
        _libc.sigfillset(signals)
        _done(_libc.posix_spawnattr_init(self._attributes))
        _done(_libc.posix_spawnattr_setsigdefault(self._attributes, signals))
        _done(_libc.posix_spawnattr_setpgroup(self._attributes, 0))
        _done(_libc.posix_spawnattr_setflags(self._attributes, c_short(_SETPGROUP | _SETSIGDEF)))
        self._outputs: dict[int, object] = {}
        """File actions for each descriptor that ever was an output: descriptor numbers are used again and again."""
        self._process = c_int()
        self._process_at = byref(self._process)

    def start(self, program: bytes, words: CStrings, environment: CStrings, output: int) -> int:
        """Start a process with `output` as its standard output and standard error; raise OSError."""
        actions = self._outputs.get(output) or self._to(output)
        _done(_posix_spawn(self._process_at, program, actions, self._attributes, words, environment))
        return self._process.value

    def _to(self, output: int) -> object:
        actions = create_string_buffer(_ROOM_FOR_ACTIONS)
        _done(_libc.posix_spawn_file_actions_init(actions))
        _done(_adddup2(actions, output, 1))
        _done(_adddup2(actions, output, 2))
        self._outputs[output] = actions
        return actions


def _done(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
