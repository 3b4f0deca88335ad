from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import CURSOR_LIMIT, OUTPUT_LIMIT, SECOND, ArgumentValue
from evenbeat.wire import worker_frames
from evenbeat.work.context import Run


def run(cursor: bytes | None = None, timebox: int = 60 * SECOND, started: int | None = None) -> Run:
    frame = worker_frames.RunSpec(
        7, msgspec.Raw(b"\x80"), "report", 1_700_000_000 * SECOND, 0, timebox, 0, 0, 0, 0, 3, cursor
    )
    return Run(frame, boot_time() if started is None else started, 0)


def test_a_run_knows_who_it_is_and_when() -> None:
    found = run(started=5 * SECOND)
    assert (found.name, found.attempt) == ("report", 3)
    assert found.nominal == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert found.started == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_a_run_knows_what_is_left_of_its_timebox() -> None:
    assert 59 < run().remaining() <= 60
    assert not run().expired
    over = run(started=boot_time() - 61 * SECOND)
    assert (over.remaining(), over.expired) == (0, True)


@given(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=99))
def test_any_small_value_makes_the_round_from_one_run_to_the_next(value: ArgumentValue) -> None:
    first = run()
    first.cursor = value
    assert first.cursor == value
    assert run(first._result("succeeded", 0, 0).cursor).cursor == value


def test_a_cursor_that_is_too_large_or_no_literal_is_refused_and_the_old_one_stays() -> None:
    found = run(msgspec.msgpack.encode("before"))
    with pytest.raises(ValueError, match="accepted: at most 4096"):
        found.cursor = "x" * CURSOR_LIMIT
    with pytest.raises(TypeError, match="found dict"):
        found.cursor = {}  # type: ignore[assignment]
    assert found.cursor == "before"
    assert found._result("failed", 1, 0).cursor is None, "nothing to save"


def test_the_log_is_cut_at_the_limit() -> None:
    found = run()
    found.log("x" * OUTPUT_LIMIT)
    result = found._result("succeeded", 0, 0)
    assert (len(result.output) <= OUTPUT_LIMIT, result.truncated) == (True, True)
