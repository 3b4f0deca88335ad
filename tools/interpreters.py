"""The oldest and the newest Python of this machine that evenbeat supports: `python3 tools/interpreters.py`.

It needs nothing but the standard library, as it runs before anything is installed.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

OLDEST: Final = (3, 11)
"""As `requires-python` in pyproject.toml says."""
_NAME: Final = re.compile(r"python3(\.\d+)?")
_ASK: Final = """
import sys
from importlib.util import find_spec
print(*sys.version_info[:2]) if find_spec("venv") and find_spec("ensurepip") else sys.exit(1)
"""
"""Debian's Python may come without the modules that make a virtual environment."""


def candidates() -> list[Path]:
    """Programs that are called python3 or python3.N, in PATH and among the versions that pyenv has installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders = [Path(folder) for folder in os.get_exec_path()] + sorted(pyenv.glob("versions/*/bin"))
    found = [
        path
        for folder in folders
        if folder.is_dir() and folder.name != "shims"  # pyenv's shims are there for versions that are not active, too
        for path in sorted(folder.glob("python3*"))
        if _NAME.fullmatch(path.name) and os.access(path, os.X_OK)
    ]
    return list({path.resolve(): path for path in reversed(found)}.values())[::-1]


def version_of(python: Path) -> tuple[int, int] | None:
    """Its version; None if it does not work or cannot make a virtual environment."""
    try:
        asked = subprocess.run([python, "-IS", "-c", _ASK], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = asked.stdout.split()
    return (int(words[0]), int(words[1])) if asked.returncode == 0 and len(words) == 2 else None


def oldest_and_newest(preferred: Sequence[Path] = ()) -> list[Path]:
    """One path if they are of the same minor version, two otherwise; raise SystemExit if there is none.

    Of each version the first counts: a preferred one, or one that PATH names.
    """
    found: dict[tuple[int, int], Path] = {}
    for python in (*preferred, *candidates()):
        version = version_of(python)
        if version is not None and version >= OLDEST:
            found.setdefault(version, python)
    if not found:
        raise SystemExit(f"no Python from {OLDEST[0]}.{OLDEST[1]} on was found that can make a virtual environment")
    return [found[version] for version in sorted({min(found), max(found)})]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{python}\n" for python in oldest_and_newest([Path(sys.executable)])))
