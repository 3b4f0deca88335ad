"""Sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.size_text import format_size, parse_size
from evenbeat.load.task_tables import task_from_table, task_to_table
from evenbeat.model import MAX_OUTPUT_KEEP, MIN_OUTPUT_KEEP, Invalid


@pytest.mark.parametrize(
    ("text", "size"),
    [("1KB", 1_024), ("64 KiB", 65_536), ("1MB", 1 << 20), ("16m", 16 << 20), ("5000", 5_000), (4_096, 4_096)],
)
def test_a_size_is_a_number_with_a_unit(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "1GB", "17MB", "0", "1000", "1.5MB", "-1MB", True, None, 99_999_999_999])
def test_what_is_no_size_is_refused_with_what_is_accepted(text: object) -> None:
    with pytest.raises(Invalid, match='accepted: "1KB" to "16MB"'):
        parse_size(text)


@given(st.integers(MIN_OUTPUT_KEEP, MAX_OUTPUT_KEEP))
def test_what_is_written_is_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_a_task_says_how_much_of_its_output_is_kept() -> None:
    table = {"every": "1h", "command": ["backup"], "output_keep": "2MB"}
    task = task_from_table("backup", table, check=False)
    assert task.job.output_keep == 2 << 20
    assert task_to_table(task)["output_keep"] == "2MB"
    with pytest.raises(Invalid, match=r"output_keep.*'1GB' is not a size"):
        task_from_table("backup", {**table, "output_keep": "1GB"}, check=False)
    with pytest.raises(Invalid, match="`output_keep` has no effect here: a passive check"):
        task_from_table("x", {"every": "1h", "passive": True, "output_keep": "1MB"}, check=True)
