"""A pooler in front of PostgreSQL: accepted in session mode, refused with an explanation in transaction mode."""

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from evenbeat.model import SECOND
from evenbeat.store.contract import Batch, StoreError
from evenbeat.store.postgres.connect import PostgresAddress
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.reserved_ports import ReservedPort
from evenbeat.testing.samples import T0, a_progress_record, a_task

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
Pool = Callable[..., str]
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed here (Debian: pgbouncer)")


@pytest.fixture
def pool(dsn: str, tmp_path: Path) -> Iterator[Pool]:
    """Start PgBouncer in front of the database, in a mode; return the address through it."""
    started: list[subprocess.Popen[bytes]] = []
    reserved: list[ReservedPort] = []
    # It does not run as root; what it is to read, another user reads.
    user = pwd.getpwnam("nobody").pw_name if os.geteuid() == 0 else ""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)

    def start(mode: str, *more: str) -> str:
        assert PROGRAM is not None
        whole = urlsplit(dsn)
        reserved.append(ReservedPort())
        port = reserved[-1].number
        config = tmp_path / "pgbouncer.ini"
        lines = [
            "[databases]", f"* = host=127.0.0.1 port={whole.port} user={whole.username}", "[pgbouncer]",
            "listen_addr = 127.0.0.1", f"listen_port = {port}", "unix_socket_dir =", "auth_type = any",
            f"pool_mode = {mode}", *more,
        ]  # fmt: skip
        config.write_text("\n".join(lines) + "\n")
        command = [PROGRAM, "-q", *(["-u", user] if user else []), str(config)]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        through = f"postgresql://{whole.username}@127.0.0.1:{port}{whole.path}"
        deadline = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(through, connect_timeout=2).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "PgBouncer does not come up"
                time.sleep(0.05)
            else:
                return through

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_by_transaction_is_refused_for_what_it_is(pool: Pool, mode: str) -> None:
    with pytest.raises(StoreError, match=r"pooler in transaction or statement mode .* is not supported"):
        PostgresStore(pool(mode))


def test_a_pooler_by_transaction_is_refused_also_by_who_only_reads(pool: Pool, dsn: str) -> None:
    PostgresStore(dsn).close()
    with pytest.raises(StoreError, match="pooler in transaction or statement mode"):
        PostgresStore(pool("transaction"), read_only=True)


@pytest.mark.parametrize("more", [(), ("ignore_startup_parameters = options",)])
def test_by_session_everything_works_and_our_timeouts_are_there(pool: Pool, more: tuple[str, ...]) -> None:
    through = pool("session", *more)
    with PostgresAddress(through).connect() as connection:
        asked = "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"
        assert connection.execute(asked).fetchone() == ("10s", "3s")
        assert connection.execute("SELECT current_setting('search_path')").fetchone() == ("evenbeat",)
    store = PostgresStore(through)
    try:
        heard: list[str] = []
        stop = store.listen(heard.append)
        (entry,) = store.create([a_task("x")], "me", T0)
        store.join("a", 60 * SECOND, b"")
        store.record(Batch(standings=[a_progress_record(entry.number)])).result()
        deadline = time.monotonic() + 20
        while "tasks" not in heard:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        stop()
    finally:
        store.close()


def test_a_part_of_the_address_that_a_pooler_refuses_is_named(pool: Pool) -> None:
    with pytest.raises(StoreError, match="leave `options` out of it"):
        PostgresStore(f"{pool('session')}?options=-c%20work_mem%3D8MB")
