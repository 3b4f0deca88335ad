"""A standby of a PostgreSQL server that is promoted. An asynchronous one lacks the last commits."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
from waiting import eventually

from evenbeat.testing.postgres_server import PostgresServer


class PrimaryAndStandby:
    """A primary, and a standby that takes its place, on the same port."""

    def __init__(self) -> None:
        self.primary = PostgresServer(durable=False).start()
        self._folder = Path(tempfile.mkdtemp(prefix="evenbeat-standby-"))
        self._standby = PostgresServer(self.primary.binaries, self._folder, durable=False)

    def follow(self) -> None:
        """From now on the standby gets every commit, a moment later."""
        self._standby._give(self._folder)
        command = [str(self.primary.binaries / "pg_basebackup"), "-d", self.primary.dsn, "-D", f"{self._folder}/data"]
        command += ["-R", "-X", "stream", "-c", "fast", "--no-sync"]
        done = subprocess.run(  # type: ignore[call-overload]
            command, capture_output=True, text=True, cwd=self._folder, check=False, **self._standby._as()
        )
        assert done.returncode == 0, done.stderr
        self._standby.start()
        eventually(lambda: self._ask(self.primary, "SELECT count(*) FROM pg_stat_replication") == 1, "it follows")

    def be_synchronous(self) -> None:
        """From now on nothing is confirmed that the standby does not have."""
        with psycopg.connect(self.primary.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        assert self._ask(self.primary, "SHOW synchronous_commit") == "on"
        asked = "SELECT sync_state FROM pg_stat_replication"
        eventually(lambda: self._ask(self.primary, asked) == "sync", "it is synchronous")

    def fall_behind(self) -> None:
        """What the primary commits after this, the standby never learns."""
        with psycopg.connect(self._standby.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
        eventually(lambda: self._ask(self.primary, "SELECT count(*) FROM pg_stat_replication") == 0, "it is behind")

    def promote(self) -> None:
        """The primary is gone, the standby is in its place."""
        self.primary.stop("immediate")
        assert self._ask(self._standby, "SELECT pg_promote()")
        self._standby.stop("fast")
        self._standby.port = self.primary.port
        self._standby.start()

    @staticmethod
    def _ask(server: PostgresServer, question: str) -> object:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            return connection.execute(question).fetchall()[0][0]

    def close(self) -> None:
        self.primary.close()
        self._standby.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def promoted_with_a_loss(pair: PrimaryAndStandby, seconds: float) -> int:
    """Promote a standby that lacks the commits of the last seconds; since when they are missing."""
    since = time.time_ns() // 1_000  # before it: what is committed while it falls behind may be missing already
    pair.fall_behind()
    time.sleep(seconds)
    pair.promote()
    return since
