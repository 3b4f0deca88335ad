"""Packed jobs by row: whatever comes, goes and grows, each row has the job it was given last."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.node.loop.packed_jobs import NodeColumns, PackedJobs

Step = tuple[str, int, bytes]

_steps = st.lists(
    st.tuples(st.sampled_from(["new", "put", "free"]), st.integers(0, 30), st.binary(max_size=40)), max_size=120
)


@given(_steps, st.sampled_from([1, 2_000, 10_000]))
def test_every_row_has_the_job_it_was_given_last(steps: list[Step], scale: int) -> None:
    columns = NodeColumns()
    arena = PackedJobs(columns)
    jobs: dict[int, bytes] = {}
    for what, which, word in steps:
        job = word * scale  # waste is looked at when there is a megabyte of it
        rows = sorted(jobs)
        if what == "new" or not rows:
            (row,) = columns.allocate(1).tolist()
            assert arena.get(row) == b"", "a row that was freed has nothing of its former task"
            arena.put(np.array([row]), [job])
            jobs[row] = job
        elif what == "put":
            some = rows[which % len(rows) :]
            arena.put(np.array(some), [job * i for i in range(1, len(some) + 1)])
            jobs |= {row: job * i for i, row in enumerate(some, start=1)}
        else:
            row = rows[which % len(rows)]
            columns.free(np.array([row]))
            del jobs[row]
        assert {row: arena.get(row) for row in jobs} == jobs


def test_what_is_replaced_again_and_again_does_not_pile_up() -> None:
    columns = NodeColumns()
    arena = PackedJobs(columns)
    columns.allocate(5)
    jobs = [b""] * 5
    for i in range(200):
        jobs[i % 5] = bytes([i]) * 100_000
        arena.put(np.array([i % 5]), [jobs[i % 5]])
        assert [arena.get(row) for row in range(5)] == jobs
    assert arena.nbytes < 10 * 500_000
