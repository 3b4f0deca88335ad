"""Stable numbers from a task's name: our own independent words, and Jenkins' for those who migrate."""

import hashlib
import struct
from functools import lru_cache
from typing import Final, Protocol

NUMBERS_PER_ROUND: Final = 8
"""A 64-byte digest is eight independent 64-bit words: five cron fields, the second, the phase, the delay of
retries."""
_EIGHT_WORDS: Final = struct.Struct(">8Q")
SECOND_NUMBER: Final = 5
PHASE_NUMBER: Final = 6
RETRY_NUMBER: Final = 7


class Chooser(Protocol):
    """Chooses a number below n, for the H of a field."""

    def below(self, n: int, field: int) -> int: ...


@lru_cache(maxsize=4096)
def _words(name: str, round_: int) -> tuple[int, ...]:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), salt=round_.to_bytes(8, "big")).digest()
    return _EIGHT_WORDS.unpack(digest)


def stable_number(name: str, index: int, round_: int = 0) -> int:
    """One of eight independent 64-bit numbers of a name; a further round gives eight more."""
    return _words(name, round_)[index]


class StableChooser:
    """An independent number per field, and per H within a field, so that every combination of slots is used."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._used = [0] * NUMBERS_PER_ROUND

    def below(self, n: int, field: int) -> int:
        round_ = self._used[field]
        self._used[field] += 1
        return stable_number(self._name, field, round_) % n


class JenkinsChooser:
    """Jenkins' numbers: java.util.Random, seeded with the folded MD5 of the job's full name, one draw per H."""

    def __init__(self, name: str) -> None:
        digest = hashlib.md5(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
        seed = int.from_bytes(digest[:8], "big") ^ int.from_bytes(digest[8:], "big")
        self._state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def below(self, n: int, field: int) -> int:  # noqa: ARG002 - one sequence serves all fields, in their order
        if n & (n - 1) == 0:
            return (n * self._next31()) >> 31
        while True:
            bits = self._next31()
            value = bits % n
            # Java's test for the last, incomplete stretch of the 31-bit range is an int overflow.
            if bits - value + (n - 1) < 1 << 31:
                return value

    def _next31(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self._state >> 17
