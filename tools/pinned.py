"""The pinned set: names and versions in constraints.txt, with the hashes of their files in constraints-hashes.txt."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PINS: Final = ROOT / "constraints.txt"
HASHES: Final = ROOT / "constraints-hashes.txt"
_PIN: Final = re.compile(r"^([\w.-]+)==([\w.+!-]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def canonical(name: str) -> str:
    """A name as indexes and files have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(file: Path = PINS) -> dict[str, str]:
    """Versions by name, as they are written there."""
    return dict(_PIN.findall(file.read_text()))


def hashes(file: Path = HASHES) -> dict[str, list[str]]:
    """SHA-256 of the files that are accepted, by canonical name."""
    blocks = re.split(r"\n(?=\S)", file.read_text())
    return {canonical(found[1]): _HASH.findall(block) for block in blocks if (found := _PIN.match(block))}
