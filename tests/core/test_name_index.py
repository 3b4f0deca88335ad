"""The name index: every name leads to its row and back, through growth, renames, removals and equal hashes."""

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from evenbeat.core import name_index as module
from evenbeat.core.name_index import NameIndex
from evenbeat.model import NAME_LIMIT, Invalid
from evenbeat.name_patterns import matches_pattern

NAMES = ["a", "b", "ab", "ba", "abc", "ä", "\ud83d\ude00", "😀", "\ud83d", "\x00", "\x00\x00", "host 1/ping"]


def filled(n: int) -> NameIndex:
    index = NameIndex()
    index.add_many([f"host-{i}/ping" for i in range(n)], np.arange(n))
    return index


def collide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two different hashes for all names."""
    monkeypatch.setattr(module, "hash", lambda text: len(text) % 2 * (2**63 - 1), raising=False)


def sort_at_once(monkeypatch: pytest.MonkeyPatch, few: int = 0) -> None:
    monkeypatch.setattr(module, "_UNSORTED_LIMIT", few)


def test_a_name_leads_to_its_row_and_back() -> None:
    index = NameIndex()
    for row, name in enumerate(NAMES):
        index.add(name, row)
    assert [index.find(name) for name in NAMES] == list(range(len(NAMES)))
    assert [index.name(row) for row in range(len(NAMES))] == NAMES
    assert len(index) == len(NAMES)


def test_an_unknown_name_has_no_row() -> None:
    assert NameIndex().find("a") is None
    assert filled(10).find("host-10/ping") is None
    assert filled(10_000).find("host-10000/ping") is None
    assert filled(10).find("") is None


@pytest.mark.parametrize("row", [-1, 3, 5, 100_000])
def test_a_row_without_a_name_says_so(row: int) -> None:
    index = NameIndex()
    index.add("a", 4)
    for question in (index.name, index.remove, lambda row: index.rename(row, "b")):
        with pytest.raises(KeyError):
            question(row)
    assert (index.find("a"), index.find("b")) == (4, None)


@pytest.mark.parametrize("n", [10, 10_000])
def test_a_name_is_given_once(n: int) -> None:
    index = filled(n)
    with pytest.raises(Invalid, match="'host-3/ping' is taken"):
        index.add("host-3/ping", n)
    with pytest.raises(Invalid, match="'host-3/ping' is taken"):
        index.add_many(["new", "host-3/ping"], np.array([n, n + 1]))
    with pytest.raises(Invalid, match="'new' is taken"):
        index.add_many(["new", "newer", "new"], np.array([n, n + 1, n + 2]))
    with pytest.raises(Invalid, match="'host-3/ping' is taken"):
        index.rename(4, "host-3/ping")
    assert (len(index), index.find("new"), index.name(4)) == (n, None, "host-4/ping")


@pytest.mark.parametrize("name", ["", "x" * (NAME_LIMIT + 1)])
def test_a_name_that_is_empty_or_too_long_is_refused(name: str) -> None:
    index = filled(2)
    with pytest.raises(Invalid, match="accepted: 1 to 256"):
        index.add(name, 2)
    with pytest.raises(Invalid, match="accepted: 1 to 256"):
        index.add_many(["ok", name], np.array([2, 3]))
    with pytest.raises(Invalid, match="accepted: 1 to 256"):
        index.rename(0, name)
    assert len(index) == 2


def test_the_longest_name_in_the_widest_characters_fits() -> None:
    index = NameIndex()
    index.add("😀" * NAME_LIMIT, 0)
    assert index.name(0) == "😀" * NAME_LIMIT


def test_a_row_has_one_name() -> None:
    index = filled(5)
    with pytest.raises(ValueError, match="one name"):
        index.add("new", 3)
    with pytest.raises(ValueError, match="one name"):
        index.add_many(["new", "newer"], np.array([7, 3]))
    with pytest.raises(ValueError, match="as many different rows"):
        index.add_many(["new", "newer"], np.array([7, 7]))
    with pytest.raises(ValueError, match="as many different rows"):
        index.add_many(["new", "newer"], np.array([7]))
    for rows in ([-1], [-1, 8]):
        with pytest.raises(ValueError, match="one name"):
            index.add_many(["new", "newer"][: len(rows)], np.array(rows))
    with pytest.raises(ValueError, match="one name"):
        index.add("new", -1)
    assert (len(index), index.find("new")) == (5, None)


def test_adding_nothing_changes_nothing() -> None:
    index = NameIndex()
    index.add_many([], np.empty(0, dtype=np.int64))
    assert len(index) == 0


def test_a_removed_name_is_free_again_and_so_is_its_row() -> None:
    index = filled(10_000)
    index.remove(3)
    assert index.find("host-3/ping") is None
    index.add("host-3/ping", 10_000)
    index.add("other", 3)
    assert (index.find("host-3/ping"), index.find("other")) == (10_000, 3)


def test_a_rename_frees_the_old_name_and_may_keep_it() -> None:
    index = filled(10_000)
    index.rename(3, "other")
    assert (index.find("host-3/ping"), index.find("other"), index.name(3)) == (None, 3, "other")
    index.rename(3, "other")
    index.rename(3, "host-3/ping")
    assert (index.find("host-3/ping"), index.find("other"), len(index)) == (3, None, 10_000)


def test_names_with_equal_hashes_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    collide(monkeypatch)
    sort_at_once(monkeypatch)
    index = NameIndex()
    index.add_many(NAMES, np.arange(len(NAMES)))
    assert [index.find(name) for name in NAMES] == list(range(len(NAMES)))
    assert index.find("zz") is None
    index.remove(2)
    index.add_many(["zz", "yy"], np.array([2, 50]))
    assert [index.find(name) for name in ("ab", "zz", "yy", "ba")] == [None, 2, 50, 3]
    with pytest.raises(Invalid):
        index.add_many(["xx", "abc"], np.array([60, 61]))


def test_names_added_one_by_one_are_found_after_they_are_sorted_in(monkeypatch: pytest.MonkeyPatch) -> None:
    sort_at_once(monkeypatch, 50)
    index = NameIndex()
    for i in range(1_000):
        index.add(f"task-{i}", i)
        assert index.find(f"task-{i // 2}") == i // 2
    assert len(index._recent) <= 50


def test_outdated_entries_are_dropped_when_names_are_only_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    sort_at_once(monkeypatch, 50)
    index = filled(1_000)
    for row in range(900):
        index.remove(row)
    assert len(index._hashes) <= 150
    assert index.find("host-950/ping") == 950


def test_the_space_of_removed_names_is_reclaimed() -> None:
    index = filled(20_000)
    for row in range(0, 20_000, 2):
        index.rename(row, f"renamed-{row}")
    for row in range(1, 20_000, 2):
        index.remove(row)
    assert index.name_bytes == sum(len(f"renamed-{row}") for row in range(0, 20_000, 2))
    assert index._end <= 2 * index.name_bytes
    assert all(index.name(row) == f"renamed-{row}" for row in range(0, 20_000, 2))
    assert index.find("renamed-19998") == 19_998


def test_a_task_costs_at_most_forty_bytes_beside_its_name() -> None:
    index = filled(100_000)
    assert index.name_bytes == sum(len(f"host-{i}/ping") for i in range(100_000))
    assert index.nbytes - index.name_bytes <= 40 * len(index)


class IndexAgainstADict(RuleBasedStateMachine):
    """A dict from row to name behaves the same, whatever the hashes and however often names are sorted in."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, str] = {}
        self.patch = pytest.MonkeyPatch()

    @initialize(few=st.sampled_from([0, 3, 1_000]), same_hashes=st.booleans())
    def begin(self, few: int, same_hashes: bool) -> None:
        sort_at_once(self.patch, few)
        if same_hashes:
            collide(self.patch)
        self.index = NameIndex()

    def teardown(self) -> None:
        self.patch.undo()

    @rule(name=st.sampled_from(NAMES), row=st.integers(0, 20))
    def add(self, name: str, row: int) -> None:
        if name in self.model.values() or row in self.model:
            with pytest.raises(ValueError):
                self.index.add(name, row)
        else:
            self.index.add(name, row)
            self.model[row] = name

    @rule(new=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 20)), max_size=6))
    def add_many(self, new: list[tuple[str, int]]) -> None:
        names, rows = [name for name, _ in new], [row for _, row in new]
        taken = set(names) & set(self.model.values()) or set(rows) & set(self.model)
        if taken or len(set(names)) < len(names) or len(set(rows)) < len(rows):
            with pytest.raises(ValueError):
                self.index.add_many(names, np.array(rows, dtype=np.int64))
        else:
            self.index.add_many(names, np.array(rows, dtype=np.int64))
            self.model |= dict(zip(rows, names, strict=True))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(sorted(self.model)))
        self.index.remove(row)
        del self.model[row]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def rename(self, data: st.DataObject, name: str) -> None:
        row = data.draw(st.sampled_from(sorted(self.model)))
        if name in self.model.values() and self.model[row] != name:
            with pytest.raises(Invalid):
                self.index.rename(row, name)
        else:
            self.index.rename(row, name)
            self.model[row] = name

    @invariant()
    def same(self) -> None:
        rows = {name: row for row, name in self.model.items()}
        assert len(self.index) == len(rows)
        assert {name: self.index.find(name) for name in NAMES} == {name: rows.get(name) for name in NAMES}
        assert {row: self.index.name(row) for row in self.model} == self.model
        assert self.index.name_bytes == sum(len(name.encode("utf-8", "surrogatepass")) for name in rows)


TestIndexAgainstADict = IndexAgainstADict.TestCase
TestIndexAgainstADict.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


PARTS = st.text(alphabet="abé*?\n", min_size=1, max_size=6)


@given(PARTS, st.lists(st.text(alphabet="abé\n", min_size=1, max_size=6), unique=True, max_size=30))
def test_the_rows_that_match_a_pattern_are_those_whose_names_do(pattern: str, names: list[str]) -> None:
    index = NameIndex()
    rows = np.arange(0, 2 * len(names), 2)
    index.add_many(names, rows)
    expected = [2 * i for i, name in enumerate(names) if matches_pattern(pattern, name)]
    assert index.matching(pattern, rows).tolist() == expected
    assert index.matching(pattern, rows[1:]).tolist() == [row for row in expected if row > 0]
