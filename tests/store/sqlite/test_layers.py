"""History in layers in SQLite: pages are given back, blocks are found by an index, and a damaged one harms no other."""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from database_of_before import make_runs_rows

from evenbeat.model import HOUR, MINUTE, Instant
from evenbeat.store.history_contract import Layer, PartGone
from evenbeat.store.sqlite.connect import migrate
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.store.sqlite.statements import migrations, query
from evenbeat.testing.samples import T0
from evenbeat.testing.store_history import minutes_later, record_run
from evenbeat.testing.store_layers import (
    a_run,
    a_summary,
    fill_history,
    history_of,
    merge_all,
    pack_all,
    runs_of_layer,
)
from evenbeat.testing.store_runs import number_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as made:
        yield made


def change(path: Path, statement: str, *values: object) -> None:
    """Change the file as another program would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


def flip(path: Path, block: int, table: str = "blocks", at: int = 20) -> None:
    """Flip a bit of a block, or of a record of the log."""
    with closing(sqlite3.connect(path)) as connection, connection:
        ((body,),) = connection.execute(f"SELECT body FROM {table} WHERE id = ?", (block,)).fetchall()
        changed = bytearray(body)
        changed[at] ^= 4
        connection.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (bytes(changed), block))


class TestUpgrade:
    @pytest.mark.parametrize("most", [1, 7, 1_000])
    def test_rows_of_before_are_answered_and_packed_before_the_log(self, path: Path, most: int) -> None:
        with closing(SqliteStore(path)) as store:
            tasks = fill_history(store)
            before = history_of(store, tasks)
        make_runs_rows(path)
        with closing(SqliteStore(path)) as store:
            assert store.size().unpacked == 32
            assert history_of(store, tasks) == before
            record_run(store, tasks[0], minutes_later(20))
            record_run(store, tasks[1], minutes_later(21), outcome="failed")
            before = history_of(store, tasks)
            packed = []
            while (unpacked := store.unpacked(most)).runs:
                packed.append({run.claimed >= minutes_later(20) for run in unpacked.runs})
                store.pack(unpacked, [(T0, unpacked.runs)])
                assert history_of(store, tasks) == before
            assert all(len(some) == 1 for some in packed), "rows, or runs of the log"
            assert packed == sorted(packed, key=max), "rows come first"
            assert store.size().unpacked == 0

    def test_rows_of_before_are_pruned(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            tasks = fill_history(store)
        make_runs_rows(path)
        with closing(SqliteStore(path)) as store:
            record_run(store, tasks[0], minutes_later(60))
            while store.prune(minutes_later(120), 70 * MINUTE):
                pass
            assert [run.nominal for run in store.runs() if run.ended is not None] == [minutes_later(60)]


class TestSpace:
    def test_pages_of_dropped_parts_are_given_back(self, store: SqliteStore, path: Path) -> None:
        part = store.begin_part(Layer.RUNS, T0)
        runs = [
            a_run(task, minute, f"{task * 7919 * minute % 99991} ms") for task in range(1, 60) for minute in range(60)
        ]
        store.add_runs(part, runs)
        store.complete([part], [])
        before = store.size()
        store.complete([], [part])
        while store.sweep(1):
            pass
        after = store.size()
        assert (after.size, after.free > before.free) == (before.size, True)
        assert store.give_back(0) == store.give_back(100) == 0
        assert store.give_back(2_048) == 2_048
        given = 2_048
        while some := store.give_back(20_000):
            assert some <= 20_000
            given += some
        assert (store.size().size, store.size().free) == (before.size - given, 0)
        store.check()

    def test_a_database_of_before_keeps_its_pages_and_uses_them_again(self, path: Path) -> None:
        known = migrations()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA page_size = 1024")
            connection.execute(f"PRAGMA application_id = {0x65766274}")
            migrate(connection, path, known[:11])
        with closing(SqliteStore(path)) as store:
            tasks = fill_history(store)
            before = history_of(store, tasks)
            pack_all(store)
            merge_all(store)
            while store.sweep(100):
                pass
            assert history_of(store, tasks) == before
            assert store.size().free > 0
            assert store.give_back(1 << 20) == 0

    def test_rows_that_were_packed_are_deleted(self, store: SqliteStore, path: Path) -> None:
        fill_history(store)
        pack_all(store)
        with closing(sqlite3.connect(path)) as connection:
            for table in ("plain_runs", "notable_runs", "run_log"):
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]


class TestFinding:
    @pytest.mark.parametrize("name", ["blocks_of_task", "summary_blocks_of_task", "blocks_of_part", "sweep_blocks"])
    def test_blocks_are_found_by_their_index(self, store: SqliteStore, path: Path, name: str) -> None:
        assert store.parts(Layer.RUNS) == []
        asked = {"task": 1, "before": 9, "layer": "hours", "since": 0, "until": 9, "part": 1, "most": 9}
        with closing(sqlite3.connect(path)) as connection:
            steps = [words for *_, words in connection.execute(f"EXPLAIN QUERY PLAN {query(name)}", asked)]
        assert any("b USING" in step or "blocks USING" in step for step in steps), steps
        assert not [step for step in steps if step.startswith("SCAN")], steps

    def test_only_the_blocks_of_a_task_are_read(self, store: SqliteStore) -> None:
        tasks = [number_of(store, f"t{i}") for i in range(40)]
        part = store.begin_part(Layer.RUNS, T0)
        store.add_runs(part, [a_run(task, minute) for task in tasks for minute in range(200)])
        store.complete([part], [])
        with store._parts_now() as parts:
            found = [len(parts.blocks_of_task(task, T0, minutes_later(999))) for task in tasks]
            assert len(parts.blocks_of_part(part)) == 4
            assert parts.blocks_of_task(tasks[0], T0, T0) == []
        assert set(found) == {1}

    def test_a_task_with_many_runs_is_in_many_blocks(self, store: SqliteStore) -> None:
        a, b, c = (number_of(store, name) for name in "abc")
        part = store.begin_part(Layer.RUNS, T0)
        store.add_runs(part, [*(a_run(a, i) for i in range(100)), *(a_run(b, i) for i in range(9_000)), a_run(c)])
        store.complete([part], [])
        assert [run.nominal for run in store.runs(b, most=9_001)] == [minutes_later(i) for i in range(8_999, -1, -1)]
        assert [run.nominal for run in store.runs(b, minutes_later(4_000), most=1)] == [minutes_later(3_999)]
        assert (len(store.runs(a)), len(store.runs(c))) == (100, 1)


class TestDamage:
    def test_a_damaged_block_is_left_out_and_reported_once(
        self, store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        a = number_of(store)
        part, hours = store.begin_part(Layer.RUNS, T0), store.begin_part(Layer.HOURS, T0)
        for i in range(3):
            store.add_runs(part, [a_run(a, 10 * i + minute) for minute in range(10)])
            store.add_summaries(hours, [a_summary(a, i)])
        store.complete([part, hours], [])
        for block in (3, 4):  # the second of the runs, the second of the summaries
            flip(path, block)
        with caplog.at_level(logging.ERROR, "evenbeat.store"):
            for _ in range(2):
                expected = [minutes_later(i) for i in [*range(29, 19, -1), *range(9, -1, -1)]]
                assert [run.nominal for run in store.runs(a)] == [run.nominal for run in store.runs()] == expected
                found = store.summaries(a, Layer.HOURS, T0, Instant(T0 + 9 * HOUR))
                assert found == [a_summary(a, 0), a_summary(a, 2)]
                assert len(runs_of_layer(store, Layer.RUNS)) == 20
        assert [record.getMessage() for record in caplog.records] == [
            f"{path}: block {block} of part {part} is damaged (its checksum is wrong): the {rows} records in it are "
            "left out of all answers. The rest is not harmed. A backup of before still has them; check the disk"
            for block, part, rows in ((3, part, 10), (4, hours, 1))
        ]

    @pytest.mark.parametrize("body", [b"", b"\1", b"\2" * 99])
    def test_so_is_one_that_is_torn_or_of_a_later_version(self, store: SqliteStore, path: Path, body: bytes) -> None:
        a = number_of(store)
        part = store.begin_part(Layer.RUNS, T0)
        for minute in range(2):
            store.add_runs(part, [a_run(a, minute)])
        store.complete([part], [])
        change(path, "UPDATE blocks SET body = ? WHERE id = 1", body)
        assert [run.nominal for run in store.runs(a)] == [minutes_later(1)]
        assert len(store.starts(T0, minutes_later(9))) == 2, "these are not kept in the blocks"

    @pytest.mark.parametrize("body", [None, b"", b"\n", b"\13" * 99])
    def test_so_is_a_record_of_the_log(
        self, store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture, body: bytes | None
    ) -> None:
        a = number_of(store)
        for minute in range(4):
            record_run(store, a, minutes_later(minute))
        if body is None:
            flip(path, 2, "run_log")
        else:
            change(path, "UPDATE run_log SET body = ? WHERE id = 2", body)
        expected = [minutes_later(i) for i in (3, 2, 0)]
        with caplog.at_level(logging.ERROR, "evenbeat.store"):
            assert [run.nominal for run in store.runs(a)] == [run.nominal for run in store.runs()] == expected
            assert len(store.starts(T0, minutes_later(9))) == 3
            pack_all(store)
            pack_all(store)
            record_run(store, a, minutes_later(4))
            pack_all(store)
        assert [run.nominal for run in store.runs(a)] == [minutes_later(4), *expected]
        assert store.size().unpacked == 1, "it stays as it is, for whoever wants to look at it ..."
        assert "block 2 of the log of runs is damaged" in "".join(record.getMessage() for record in caplog.records)
        assert len(caplog.records) == 1
        store.prune(minutes_later(60), 2 * HOUR)
        assert store.size().unpacked == 1
        store.prune(minutes_later(60), HOUR // 2)
        assert store.size().unpacked == 0, "... until its runs are too old"

    def test_starts_are_counted_again_if_they_are_damaged(self, store: SqliteStore, path: Path) -> None:
        tasks = fill_history(store)
        pack_all(store)
        before = history_of(store, tasks)
        change(path, "UPDATE parts SET starts = x'01020304050607'")
        assert history_of(store, tasks) == before
        change(path, "UPDATE parts SET starts = NULL")
        assert history_of(store, tasks) == before

    def test_a_block_that_is_missing_means_that_the_part_is_gone(self, store: SqliteStore, path: Path) -> None:
        part = store.begin_part(Layer.RUNS, T0)
        for minute in range(3):
            store.add_runs(part, [a_run(1, minute)])
        store.complete([part], [])
        blocks = store.part_runs(part)
        next(blocks)
        change(path, "DELETE FROM blocks WHERE id = 3")
        with pytest.raises(PartGone):
            list(blocks)
        with pytest.raises(PartGone):
            store.part_runs(part)


def test_readers_see_each_run_once_while_runs_are_packed_and_merged(store: SqliteStore, path: Path) -> None:
    tasks = [number_of(store, name) for name in "abc"]
    for minute in range(40):
        for task in tasks:
            record_run(store, task, minutes_later(minute), outcome="failed" if minute % 3 else "succeeded")
    before = history_of(store, tasks)
    answers: list[list[object]] = []
    is_over = threading.Event()

    def read() -> None:
        with closing(SqliteStore(path, read_only=True)) as reader:
            while not is_over.is_set() or not answers:
                answers.append(history_of(reader, tasks))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for most in range(1, 15):
        unpacked = store.unpacked(most)
        store.pack(unpacked, [(T0, unpacked.runs)])
        merge_all(store)
        store.sweep(3)
    pack_all(store)
    is_over.set()
    for thread in threads:
        thread.join()
    assert all(answer == before for answer in answers)
