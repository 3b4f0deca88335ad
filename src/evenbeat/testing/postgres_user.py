"""PostgreSQL refuses to run as root. Root's tests run it as another user, who may not enter root's folders.

A clone in root's home is the usual case in a container. That user gets a copy of the programs, and a folder for the
data, under a temporary folder that everybody may enter.
"""

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

_PREFIX: Final = "evenbeat-pg-"
_SHARED: Final = 0o755


def unprivileged_user() -> pwd.struct_passwd | None:
    """The user to run PostgreSQL as if we are root; None if we are not."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def can_enter(user: pwd.struct_passwd, folder: Path) -> bool:
    """May this user use files in this folder? Asked of the kernel, which knows of groups and access lists too."""
    return _can_run(user, ["/bin/sh", "-c", 'cd -- "$0"', str(folder)])


def _can_run(user: pwd.struct_passwd, command: list[str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603
            command, user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd="/", capture_output=True, check=False
        )
    except PermissionError:
        return False
    return done.returncode == 0


def new_folder_for(user: pwd.struct_passwd | None) -> Path:
    """A new folder that belongs to this user, or to us, and to nobody else."""
    if user is None:
        return Path(tempfile.mkdtemp(prefix=_PREFIX))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_common_folder(user)))
    os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


def postgres_programs_for(user: pwd.struct_passwd | None, binaries: Path) -> Path:
    """The folder with the programs of PostgreSQL that this user can run: this one, or a copy made once per version."""
    if user is None or _can_run(user, [str(binaries / "initdb"), "--version"]):
        return binaries
    prefix = binaries.resolve().parent
    package = prefix.parent
    copies = _common_folder(user) / f"{_PREFIX}programs-{_version_key(prefix)}"
    if not copies.exists():
        _copy_package(package, prefix, copies)
    _refuse_if_foreign(copies)
    return copies / package.name / prefix.name / binaries.name


def _common_folder(user: pwd.struct_passwd) -> Path:
    """A temporary folder that this user can enter, too."""
    found = next((f for f in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")) if can_enter(user, f)), None)  # noqa: S108
    if found is None:
        raise RuntimeError(f"PostgreSQL runs as {user.pw_name}, who cannot enter {tempfile.gettempdir()}: set TMPDIR")
    return found


def _version_key(prefix: Path) -> str:
    about = (prefix / "bin" / "postgres").stat()
    words = f"{prefix} {about.st_size} {about.st_mtime_ns} {about.st_ino}"
    return blake2b(words.encode(), digest_size=8).hexdigest()


def _copy_package(package: Path, prefix: Path, copies: Path) -> None:
    """The folder is complete from the moment it has its name. Of several that copy at once the first one counts."""
    part = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=copies.parent))
    try:
        copy_programs(prefix, part / package.name / prefix.name)
        # The programs of a wheel look for their libraries beside their package.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            copy_programs(libraries, part / libraries.name)
        for folder in (part, part / package.name):
            folder.chmod(_SHARED)
        with suppress(OSError):  # another process was faster
            part.rename(copies)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def copy_programs(source: Path, target: Path) -> None:
    """All files that are needed to run them; a link is enough where both are on one file system."""
    shutil.copytree(source, target, symlinks=True, copy_function=_link, ignore=shutil.ignore_patterns("include"))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _refuse_if_foreign(copies: Path) -> None:
    """Everybody may create files in a temporary folder: what another user has put there is not run."""
    about = copies.lstat()
    if about.st_uid != os.geteuid() or not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o022:
        raise RuntimeError(f"{copies} belongs to another user, or others may write to it: remove it")
