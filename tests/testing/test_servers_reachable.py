"""Root's PostgreSQL runs as another user, also from a clone and a virtual environment that only root may enter."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries
from evenbeat.testing.postgres_user import (
    _common_folder,
    _version_key,
    can_enter,
    copy_programs,
    postgres_programs_for,
    unprivileged_user,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the mode of root's home."""
    folder = tmp_path_factory.mktemp("home")
    folder.chmod(0o700)
    return folder


@pytest.fixture(scope="module")
def binaries(private: Path) -> Iterator[Path]:
    """The newest PostgreSQL, installed in there as a wheel installs it."""
    found = find_postgres_binaries()
    prefix = found[max(found)].parent
    package = private / "site" / prefix.parent.name
    copy_programs(prefix, package / prefix.name)
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if libraries.is_dir():
        copy_programs(libraries, package.with_name(libraries.name))
    yield package / prefix.name / "bin"
    # Only the copy of this test: its key is made of the path.
    key = _version_key(package / prefix.name)
    user = unprivileged_user()
    assert user is not None
    shutil.rmtree(_common_folder(user) / f"evenbeat-pg-programs-{key}", ignore_errors=True)


def test_a_server_starts_from_a_folder_that_only_root_may_enter(private: Path, binaries: Path) -> None:
    user = unprivileged_user()
    assert user is not None
    assert not can_enter(user, private)
    folder = private / "cluster"
    folder.mkdir()
    with closing(PostgresServer(binaries, folder, durable=False, password="secret")) as server:
        server.start()
        with psycopg.connect(server.dsn) as connection:
            connection.execute("CREATE TABLE kept (x integer)")
        assert private.stat().st_mode & 0o777 == 0o700
        server.stop()
    with closing(PostgresServer(binaries, folder, durable=False, password="secret")) as again:
        again.start()
        with psycopg.connect(again.dsn) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        data = (folder / "data").resolve()
    shutil.rmtree(data)


def test_the_programs_are_copied_once_and_only_root_may_change_the_copy(binaries: Path) -> None:
    user = unprivileged_user()
    first = postgres_programs_for(user, binaries)
    written = (first / "postgres").stat().st_mtime_ns
    assert postgres_programs_for(user, binaries) == first
    assert (first / "postgres").stat().st_mtime_ns == written
    for folder in (first, *first.parents):
        about = folder.stat()
        assert about.st_uid == 0
        assert not about.st_mode & 0o022 or about.st_mode & 0o1000


def test_what_another_user_has_put_in_the_place_of_the_copy_is_not_run(binaries: Path) -> None:
    user = unprivileged_user()
    assert user is not None
    copies = postgres_programs_for(user, binaries).parents[2]
    os.chown(copies, user.pw_uid, user.pw_gid)
    try:
        with pytest.raises(RuntimeError, match="belongs to another user"):
            postgres_programs_for(user, binaries)
    finally:
        os.chown(copies, 0, 0)


def test_programs_that_the_user_can_run_are_used_as_they_are(tmp_path: Path) -> None:
    assert postgres_programs_for(None, tmp_path) == tmp_path
