"""Can the oracle of the crash tests fail? Books that are right, and every way to cook them."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import run_oracle

from evenbeat.node.history.part_streams import RUN_ORDER
from evenbeat.store.sqlite.sqlite_store import SqliteStore

SECOND = 1_000_000
BEGIN = 1_800_000_000 * SECOND
"""A multiple of an hour: 08:00:00 of some day."""


class StoreAndLog:
    """A store and a log of ten seconds: `a` ran, was lost and made up for; `b` blinks; `c` and `d` share a limit."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "books.db"
        self.log = folder / "log"
        SqliteStore(self.database).close()
        self._store = sqlite3.connect(self.database)
        self._lines = [f"taken-up {BEGIN - 1} 1 {BEGIN}", f"up 1 {BEGIN}"]
        self._pid = 100
        self._store.execute("INSERT INTO periods VALUES ('odd', 'test', ?)", (json.dumps({"ranges": _ODD}),))
        self._store.execute("INSERT INTO settings VALUES ('limits:test', '{\"one\": 1}')")
        for number, (name, more) in enumerate({"a": {}, "b": {"period": "odd"}, "c": _ONE, "d": _ONE}.items(), 1):
            self._task(number, name, more)
        for second in (0, 1, 4, 5, 8, 9):
            self.run(1, second)
        self.run(1, 2, "lost", ends=False)
        self.run(1, 2.5, kind=2)
        self.skip(1, 3, 3, 1, "coalesced")
        self.skip(1, 6, 7, 2, "missed while stopped")
        # Closed in seconds 2, 3, 6 and 7.
        self.run(2, 0)
        self.skip(2, 1, 5, 3, "missed while stopped")
        self.run(2, 8)
        self.run(2, 9)
        self.forced(2, 9.5)
        for second in range(10):
            self.run(3 + second % 2, second)
            self.skip(4 - second % 2, second, second, 1, "coalesced")

    @property
    def findings(self) -> list[str]:
        self._store.commit()
        self.log.write_text("".join(f"{line}\n" for line in self._lines))
        return run_oracle.findings(run_oracle.read(self.database, self.log))

    def close(self) -> None:
        self._store.close()

    def change(self, statement: str) -> None:
        """One row of the store becomes another."""
        assert self._store.execute(statement).rowcount == 1

    def pack(self) -> None:
        """What a node does with runs a minute later."""
        self._store.commit()
        store = SqliteStore(self.database)
        unpacked = store.unpacked(1_000)
        store.pack(unpacked, [(BEGIN, sorted(unpacked.runs, key=RUN_ORDER))])
        store.close()

    def cut(self, word: str, name: str, second: float) -> None:
        """A line less."""
        (line,) = self._found(word, name, second)
        self._lines.remove(line)

    def repeat(self, word: str, name: str, second: float) -> None:
        """A line once more."""
        self._lines += self._found(word, name, second)

    def move(self, word: str, name: str, second: float, behind: tuple[str, str, float]) -> None:
        """A line elsewhere."""
        (line,), (other,) = self._found(word, name, second), self._found(*behind)
        self._lines.remove(line)
        self._lines.insert(self._lines.index(other) + 1, line)

    def say(self, word: str, name: str, second: float, *detail: str) -> None:
        """A line more, of a run."""
        at = BEGIN + round(second * SECOND)
        self._lines.append(" ".join([word, name, _iso(second), "99", str(at), *detail]))

    def ask(self, word: str, name: str, second: float) -> None:
        """A line more, of somebody who wanted something."""
        self._lines.append(f"{word} {name} 7 {BEGIN + round(second * SECOND)}")

    def _found(self, word: str, name: str, second: float) -> list[str]:
        return [line for line in self._lines if line.startswith(f"{word} {name} {_iso(second)} ")]

    def _task(self, number: int, name: str, more: dict[str, str]) -> None:
        definition = {"name": name, "schedule": {"every": SECOND, "phase": 0}, **more}
        self._store.execute(
            "INSERT INTO tasks VALUES (?, ?, ?, 'test', 1, ?, ?, NULL, ?)",
            (number, name, name, BEGIN - 5, BEGIN - 5, json.dumps(definition)),
        )
        following = BEGIN + (10 if name != "b" else 12) * SECOND
        self._store.execute("INSERT INTO progress (task, accounted) VALUES (?, ?)", (number, following - 1))

    def run(self, task: int, second: float, outcome: str = "succeeded", *, kind: int = 0, ends: bool = True) -> None:
        nominal, name = BEGIN + round(second * SECOND), "abcd"[task - 1]
        self._store.execute(
            "INSERT INTO plain_runs (task, nominal, generation, kind, claimed, started, ended, outcome, hard, attempt,"
            " output) VALUES (?, ?, 0, ?, ?, ?, ?, ?, 1, 1, '')",
            (task, nominal, kind, nominal, nominal, nominal, outcome),
        )
        self.say("start", name, second)
        if ends:
            self.say("end", name, second)

    def forced(self, task: int, second: float) -> None:
        self.ask("forced", "abcd"[task - 1], second)
        self.run(task, second, kind=6)

    def skip(self, task: int, first: int, last: int, times: int, reason: str) -> None:
        values = (task, BEGIN + first * SECOND, BEGIN + last * SECOND, times, reason, BEGIN)
        self._store.execute(
            "INSERT INTO skips (task, first, last, times, reason, at) VALUES (?, ?, ?, ?, ?, ?)", values
        )


_ODD = ["08:00:00-08:00:02", "08:00:04-08:00:06, 08:00:08-08:00:10", "08:00:12-08:00:14"]
_ONE = {"limit": "one"}


def _iso(second: float) -> str:
    return f"2027-01-15T08:00:{second:09.6f}+00:00"


@pytest.fixture
def records(tmp_path: Path) -> Iterator[StoreAndLog]:
    made = StoreAndLog(tmp_path)
    assert made.findings == []
    yield made
    made.close()


def test_packed_runs_are_judged_too(records: StoreAndLog) -> None:
    records.pack()
    assert records.findings == []
    records.change("UPDATE parts SET state = 'dropped'")
    assert any("is not accounted for" in finding for finding in records.findings)


@pytest.mark.parametrize(
    ("cooked", "found"),
    [
        ("DELETE FROM plain_runs WHERE task = 1 AND kind = 0 AND nominal = {4}", "is not accounted for"),
        ("DELETE FROM plain_runs WHERE task = 1 AND kind = 0 AND nominal = {4}", "the store does not know"),
        ("DELETE FROM plain_runs WHERE task = 1 AND kind = 2", "the store does not know"),
        ("DELETE FROM skips WHERE task = 1 AND first = {6}", "is not accounted for"),
        ("UPDATE skips SET first = {7} WHERE task = 1 AND first = {6}", "a skip of 2"),
        ("UPDATE skips SET times = 1 WHERE task = 1 AND first = {6}", "where the grid has 2"),
        ("UPDATE skips SET last = {8}, times = 3 WHERE task = 1 AND first = {6}", "is accounted for 2 times"),
        ("UPDATE skips SET times = 5 WHERE task = 2", "where the grid has 3"),
        ("UPDATE plain_runs SET nominal = {4} WHERE task = 1 AND nominal = {5}", "is accounted for 2 times"),
        ("UPDATE plain_runs SET kind = 0 WHERE task = 1 AND kind = 2", "which is no nominal time"),
        ("UPDATE plain_runs SET generation = 1 WHERE task = 1 AND nominal = {5}", "has clock generation 1"),
        (
            "UPDATE plain_runs SET outcome = 'dropped' WHERE task = 1 AND nominal = {5}",
            "is recorded dropped, but began",
        ),
        ("UPDATE plain_runs SET outcome = 'succeeded' WHERE outcome = 'lost'", "but did not end"),
        ("UPDATE plain_runs SET outcome = 'lost' WHERE task = 1 AND nominal = {9}", "was never made up for"),
        ("UPDATE plain_runs SET kind = 2 WHERE kind = 6", "that was promised"),
        ("UPDATE progress SET accounted = {9} - 1 WHERE task = 1", "and yet to come"),
        ("UPDATE progress SET accounted = {11} - 1 WHERE task = 1", "is not accounted for"),
        ("INSERT INTO claims VALUES (1, {9}, 0, 0, {9}, {10}, 0, 0, NULL, '')", "is still open"),
        ("DELETE FROM plain_runs WHERE task = 1 AND nominal = {0}", "accounts begin at"),
        ("UPDATE tasks SET created = {3} WHERE number = 1", "no node has ever taken it up"),
    ],
)
def test_a_store_that_is_wrong_is_found(records: StoreAndLog, cooked: str, found: str) -> None:
    records.change(cooked.format(*[BEGIN + second * SECOND for second in range(12)]))
    assert any(found in finding for finding in records.findings)


def test_a_run_that_began_twice_is_found(records: StoreAndLog) -> None:
    records.repeat("start", "a", 4)
    assert any("began 2 times" in finding for finding in records.findings)


def test_a_run_that_nobody_claimed_is_found(records: StoreAndLog) -> None:
    records.say("start", "a", 4.7)
    assert any("the store does not know" in finding for finding in records.findings)


def test_a_run_that_is_said_to_have_ended_and_did_not_is_found(records: StoreAndLog) -> None:
    records.cut("end", "a", 4)
    assert any("did not end" in finding for finding in records.findings)


def test_an_overlap_is_found_by_the_order_of_lines(records: StoreAndLog) -> None:
    records.move("end", "a", 4, behind=("start", "a", 5))
    assert any("had ended" in finding for finding in records.findings)


def test_an_overlap_is_found_by_what_a_run_met(records: StoreAndLog) -> None:
    records.say("overlap", "a", 4)
    assert any("met another that still lived" in finding for finding in records.findings)


def test_a_crowd_is_found_by_the_order_of_lines(records: StoreAndLog) -> None:
    records.move("end", "c", 4, behind=("start", "d", 5))
    assert any("run 2 of at most 1" in finding for finding in records.findings)


def test_a_crowd_is_found_by_what_a_run_met(records: StoreAndLog) -> None:
    records.say("crowded", "c", 4, "one")
    assert any("no room under 'one'" in finding for finding in records.findings)


def test_accounts_that_end_before_the_last_node_are_found(records: StoreAndLog) -> None:
    records.ask("taken-up", str(BEGIN + 15 * SECOND), 15)
    assert any("accounts end at" in finding for finding in records.findings)


def test_a_run_after_the_removal_is_found(records: StoreAndLog) -> None:
    records.ask("removed", "a", 8.5)
    assert any("was claimed after the removal" in finding for finding in records.findings)
