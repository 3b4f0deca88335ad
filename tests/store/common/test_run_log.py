"""Records of the log: every run comes back as it was, few and many, whatever its output; damage is noticed."""

import random
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_log_reader import show_logged_runs

from evenbeat.store.common.int_columns import DamagedBlock
from evenbeat.store.common.run_log import RUNS, EndedRuns, LogBlock, log_records
from evenbeat.store.history_contract import PackedRun
from evenbeat.testing.samples import T0, a_load_line

ints = st.integers(-(1 << 62), 1 << 62)
outputs = st.sampled_from(["", "fine", "\0\x1e", "100% of 7", "٣ é 05"]) | st.text(max_size=30) | st.floats(0, 99).map(
    lambda load: a_load_line(load, 1.5, 2)
)  # fmt: skip
any_run = st.builds(
    PackedRun, st.integers(1, 1 << 40), ints, ints, ints, st.integers(0, 3), st.integers(0, 6), ints,
    st.sampled_from(["succeeded", "failed"]), st.none() | st.integers(-15, 255), st.integers(-1, 3), st.booleans(),
    st.integers(1, 9), outputs, st.booleans(), st.just(False),
)  # fmt: skip


def a_usual_run(task: int, chance: random.Random, output: str = "") -> PackedRun:
    nominal = T0 + chance.randrange(100_000)
    claimed = nominal + chance.randrange(3_000)
    started = claimed + chance.randrange(2_000)
    ended = started + chance.randrange(5_000)
    return PackedRun(task, claimed, ended, nominal, 0, 0, started, "succeeded", 0, 0, True, 1, output, False)


def usual_runs(count: int, *, with_output: bool) -> list[PackedRun]:
    chance = random.Random(count)
    lines = [a_load_line(*(abs(chance.gauss(0.5, 0.2)) for _ in range(3))) if with_output else "" for _ in range(count)]
    tasks = sorted(chance.sample(range(1, 100_000), count))
    return [a_usual_run(task, chance, line) for task, line in zip(tasks, lines, strict=True)]


def logged(runs: list[PackedRun]) -> list[bytes]:
    return [record.body for record in log_records(EndedRuns(*list(zip(*runs, strict=True))[:-1]))]


def read_by_oracle(bodies: list[bytes]) -> list[PackedRun]:
    """As tests of crashes read it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        columns = ", ".join(PackedRun._fields[:13])
        connection.executescript(f"""
            CREATE TABLE plain_runs ({columns}); CREATE TABLE notable_runs ({columns});
            CREATE TABLE run_log (id INTEGER PRIMARY KEY, body BLOB);
        """)
        connection.executemany("INSERT INTO run_log (body) VALUES (?)", [(body,) for body in bodies])
        show_logged_runs(connection)
        return [
            PackedRun._make((*row[:9], -1 if row[9] is None else row[9], bool(row[10]), *row[11:], is_notable, False))
            for table, is_notable in (("plain_runs", False), ("notable_runs", True))
            for row in connection.execute(f"SELECT * FROM {table}")
        ]


def read(bodies: list[bytes]) -> list[PackedRun]:
    return [run for body in bodies for run in LogBlock(body).runs()]


@given(st.lists(any_run, min_size=1, max_size=10) | st.lists(any_run, min_size=16, max_size=60))
def test_all_that_is_known_of_a_run_comes_back(runs: list[PackedRun]) -> None:
    assert read(logged(runs)) == runs
    assert read_by_oracle(logged(runs)) == sorted(runs, key=lambda run: run.notable)


@pytest.mark.parametrize("with_output", [False, True])
@pytest.mark.parametrize("count", [1, 7, 8, 15, 16, 200, RUNS, RUNS + 1, 3 * RUNS])
def test_few_and_many_runs_come_back(count: int, *, with_output: bool) -> None:
    runs = usual_runs(count, with_output=with_output)
    assert read(logged(runs)) == runs
    assert len(logged(runs)) == -(-count // RUNS)


@pytest.mark.parametrize("count", [5, 10, 50])
def test_a_record_says_what_a_store_must_know_to_find_it(count: int) -> None:
    runs = [run._replace(notable=i % 5 == 0) for i, run in enumerate(usual_runs(count, with_output=False))]
    (record,) = log_records(EndedRuns(*list(zip(*runs, strict=True))[:-1]))
    claimed = [run.claimed for run in runs]
    assert record[:-1] == (count, count // 5, min(claimed), max(claimed))


@pytest.mark.parametrize("count", [5, 10, 50])
def test_some_of_the_runs_are_found(count: int) -> None:
    runs = [run._replace(notable=i % 5 == 0) for i, run in enumerate(usual_runs(count, with_output=True))]
    (body,) = logged(runs)
    since, before = sorted(run.claimed for run in runs)[1 : count - 1 : count - 3]
    assert LogBlock(body).claimed() == [run.claimed for run in runs]
    for notable in (False, True):
        found = [run for run in runs if run.notable or not notable]
        assert LogBlock(body).runs_between(since, before, notable=notable) == [
            run for run in found if since <= run.claimed < before
        ]
        for task in (runs[0].task, runs[3].task, 7):
            assert LogBlock(body).runs_of(task, before, notable=notable) == [
                run for run in found if run.task == task and run.claimed < before
            ]


@pytest.mark.parametrize(("with_output", "most"), [(False, 10.5), (True, 17.5)])
def test_a_run_takes_few_bytes(most: float, *, with_output: bool) -> None:
    assert sum(map(len, logged(usual_runs(200, with_output=with_output)))) / 200 < most


@pytest.mark.parametrize("count", [3, 9, 100])
def test_damage_is_noticed(count: int) -> None:
    (body,) = logged(usual_runs(count, with_output=True))
    for at in range(len(body)):
        with pytest.raises(DamagedBlock):
            LogBlock(body[:at] + bytes((body[at] ^ 4,)) + body[at + 1 :])
        with pytest.raises(DamagedBlock):
            LogBlock(body[:at])
