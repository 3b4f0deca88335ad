"""A process that packs and merges history is killed, or finds the disk full, at every commit: no run is lost, none is
there twice, and the next round goes on.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from compacting_process import CompactingProcesses, Ended, is_whole
from database_of_before import make_runs_rows

from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.store_history import minutes_later, record_run
from evenbeat.testing.store_layers import fill_history, history_of

TASKS = range(1, 4)
COMMITS = 24
"""More than a round has."""
KILLED = -9
FAILED = 3


@pytest.fixture(params=["log", "rows"])
def store_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Runs are in the log, or the database is one of an evenbeat of before."""
    path = tmp_path / "x.db"
    with closing(SqliteStore(path)) as store:
        fill_history(store)
    if request.param == "rows":
        make_runs_rows(path)
    return path


@pytest.fixture(scope="module")
def processes() -> Iterator[CompactingProcesses]:
    with CompactingProcesses() as processes:
        yield processes


def rounds(processes: CompactingProcesses, path: Path, fault: str) -> Iterator[Ended]:
    """Rounds of compaction that meet the fault at their first, second ... commit, until one has fewer commits."""
    with closing(SqliteStore(path)) as store:
        expected = history_of(store, TASKS)
    for commit in range(1, COMMITS):
        ended = processes.compact(path, commit, fault)
        with closing(SqliteStore(path)) as store:
            assert history_of(store, TASKS) == expected, f"{fault}, commit {commit}"
            yield ended
            if ended.status == 0:
                assert is_whole(store)
            if commit % 4 == 0:
                # The next round has something to pack, too.
                record_run(store, 1, minutes_later(20 + commit), outcome="failed" if commit % 8 else "succeeded")
                expected = history_of(store, TASKS)


@pytest.mark.parametrize("moment", ["before", "in", "after"])
def test_a_process_that_compacts_is_killed_at_every_commit(
    processes: CompactingProcesses, store_file: Path, moment: str
) -> None:
    ended = [some.status for some in rounds(processes, store_file, moment)]
    assert ended.count(KILLED) > 10
    assert set(ended) == {KILLED, 0}, "in the end there were fewer commits"


@pytest.mark.parametrize("fault", ["full", "write error"])
def test_the_disk_is_full_at_every_commit(processes: CompactingProcesses, store_file: Path, fault: str) -> None:
    ended = list(rounds(processes, store_file, fault))
    refused = [some.said for some in ended if some.status == FAILED]
    assert {some.status for some in ended} == {FAILED, 0}, "what needs no more room is done even so"
    assert all("the disk " in text for text in refused)
    assert len(refused) > 3
