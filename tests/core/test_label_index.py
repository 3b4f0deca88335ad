"""The index of labels says the same as the labels themselves, whatever rows got others before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core import label_index
from evenbeat.core.label_index import LabelIndex

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
EDITS = st.lists(st.dictionaries(st.integers(0, 12), LABELS, max_size=6), max_size=8)


@given(EDITS)
def test_rows_have_the_labels_that_they_were_given_last(edits: list[dict[int, dict[str, str]]]) -> None:
    index, truth = LabelIndex(), dict[int, dict[str, str]]()
    for edit in edits:
        index.put(np.array(list(edit), dtype=np.int64), list(edit.values()))
        truth |= edit
    rows = np.arange(15)
    for key in "abc":
        for value in "xyz":
            expected = [truth.get(row, {}).get(key) == value for row in rows.tolist()]
            assert index.have(rows, key, value).tolist() == expected
            assert index.have(rows[::-2], key, value).tolist() == expected[::-2]


def test_labels_that_are_gone_take_no_room() -> None:
    index, rows = LabelIndex(), np.arange(1_000)
    for i in range(50):
        index.put(rows, [{"key": f"{i}.{row % 7}", "other": "same"} for row in rows.tolist()])
    assert index.slots < 2 * len(rows) + 2 * label_index.WASTE_ALLOWED
    assert np.flatnonzero(index.have(rows, "key", "49.3")).tolist() == [r for r in range(1_000) if r % 7 == 3]
    assert not index.have(rows, "key", "48.3").any()
    assert index.have(rows, "other", "same").all()
