"""Write constraints-hashes.txt: what constraints.txt names, with the hashes of the files that pip chooses.

`make hashes` runs it, after every change of constraints.txt. It downloads each file, from wherever pip is configured
to, for the Python that runs it and for those it is told, and keeps nothing of where they came from.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.pinned import HASHES, canonical, pinned

_PLATFORMS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
_HEAD: Final = """\
# Written by `make hashes` from constraints.txt: the same names and versions, with the files that pip may take.
#   pip install --require-hashes -r constraints-hashes.txt && pip install --no-deps .
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Download, and write the file; exit 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", default=[], metavar="X.Y", help="also for this version")
    parser.add_argument("--machine", action="append", default=[], metavar="M", help="and this machine: x86_64, aarch64")
    args = parser.parse_args(argv)
    wanted = pinned()
    found: dict[str, set[str]] = defaultdict(set)
    with tempfile.TemporaryDirectory() as folder:
        _take(found, Path(folder) / "here", wanted, [])
        # What comes as source is the same everywhere.
        sources = {canonical(file.name.rsplit("-", 1)[0]) for file in (Path(folder) / "here").glob("*.tar.gz")}
        rest = {name: version for name, version in wanted.items() if canonical(name) not in sources}
        for version in args.python:
            for machine in args.machine or ["x86_64"]:
                where = [f"--platform={platform}_{machine}" for platform in _PLATFORMS]
                options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}", *where]
                _take(found, Path(folder) / f"{version}-{machine}", rest, options)
    missing = [name for name in wanted if not found[canonical(name)]]
    if missing:
        sys.exit(f"pip has found no file of {', '.join(missing)}")
    lines = [_HEAD]
    for name, version in wanted.items():
        some = sorted(found[canonical(name)])
        lines.append(" \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in some)]) + "\n")
    HASHES.write_text("".join(lines))
    print(f"{HASHES.name}: {len(wanted)} names, {sum(map(len, found.values()))} files")  # noqa: T201
    return 0


def _take(found: dict[str, set[str]], folder: Path, wanted: dict[str, str], options: list[str]) -> None:
    folder.mkdir()
    names = [f"{name}=={version}" for name, version in wanted.items()]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), *options, *names]
    subprocess.run(command, check=True)  # noqa: S603
    for file in folder.iterdir():
        # PACKAGE-VERSION-....whl, or PACKAGE-VERSION.tar.gz; versions begin with a digit.
        name = re.split(r"-(?=\d)", file.name, maxsplit=1)[0]
        found[canonical(name)].add(hashlib.sha256(file.read_bytes()).hexdigest())


if __name__ == "__main__":
    sys.exit(main())
