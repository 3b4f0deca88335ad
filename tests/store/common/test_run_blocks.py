"""Blocks of runs hold what was packed, whatever it was, and refuse to be read when a byte of them has changed."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import FOREVER, MINUTE, NEVER, Outcome
from evenbeat.store.common.int_columns import DamagedBlock, pack_changes, pack_differences, pack_values, unpack
from evenbeat.store.common.output_columns import OutputReader, pack_outputs
from evenbeat.store.common.run_blocks import RUNS, RunBlock, pack_runs
from evenbeat.store.history_contract import PackedRun
from evenbeat.testing.samples import T0, a_load_line

LEAST, MOST = -(1 << 63), (1 << 63) - 1
int64s = st.integers(LEAST, MOST)
times = st.sampled_from([NEVER, FOREVER, LEAST, MOST, T0]) | st.integers(T0 - MINUTE, T0 + MINUTE) | int64s
texts = st.text(st.characters(codec="utf-8"), max_size=20)
lines = st.lists(st.sampled_from(["0", "1", "42", "007", "123456789012345678901", " ", "%", "\0", "é", "٣", "=;"])).map(
    "".join
)
packed_runs = st.builds(
    PackedRun,
    st.integers(1, 5) | st.integers(0, MOST),
    *(times, times, times),
    st.integers(0, 2),
    st.integers(0, 9),
    times,
    st.sampled_from([outcome.value for outcome in Outcome]),
    st.none() | st.integers(-64, 255) | int64s,
    st.integers(-1, 3),
    st.booleans(),
    st.integers(0, 4) | int64s,
    texts | lines,
    st.booleans(),
    st.booleans(),
)


def in_order(runs: list[PackedRun]) -> list[PackedRun]:
    return sorted(runs, key=lambda run: run[:3])


def load_runs(tasks: int, runs: int) -> list[PackedRun]:
    """Checks of every minute, whose starts and durations vary by microseconds, and whose output by its numbers."""
    random_ = random.Random(7)
    made = []
    for task in range(1, tasks + 1):
        phase = random_.randrange(MINUTE)
        for minute in range(runs):
            nominal = T0 + minute * MINUTE + phase
            claimed = nominal + int(random_.expovariate(1 / 1500))
            started = claimed + int(random_.lognormvariate(6.2, 0.4))
            ended = started + int(random_.lognormvariate(7.6, 0.4))
            line = a_load_line(*(abs(random_.gauss(0.5, 0.2)) for _ in range(3)))
            row = (task, claimed, ended, nominal, 0, 0, started, "succeeded", 0, 0, True, 1, line, False)
            made.append(PackedRun(*row))
    return made


def unpacked(runs: list[PackedRun]) -> list[PackedRun]:
    return [run for block in pack_runs(runs) for run in RunBlock(block.body).runs()]


class TestColumns:
    @given(st.lists(int64s | st.integers(-300, 300)), st.data())
    def test_hold_what_was_packed(self, values: list[int], data: st.DataObject) -> None:
        others = data.draw(st.lists(int64s | st.integers(-3, 3), min_size=len(values), max_size=len(values)))
        assert unpack(pack_values(values), len(values)) == values
        assert unpack(pack_changes(values), len(values)) == values
        assert unpack(pack_differences(values, others), len(values), others) == values

    def test_that_never_change_take_no_data(self) -> None:
        assert pack_values([7] * 100).data == b""
        assert pack_changes(range(0, 6_000, 60)).data == b""

    def test_refuse_other_than_64_bits(self) -> None:
        with pytest.raises(OverflowError):
            pack_values([MOST + 1, LEAST])


class TestOutputs:
    @given(st.lists(texts | lines, min_size=1), st.data())
    def test_hold_what_was_packed(self, outputs: list[str], data: st.DataObject) -> None:
        packed = pack_outputs(outputs)
        assert (packed is None) == (not any(outputs))
        if packed is not None:
            some = data.draw(st.lists(st.integers(0, len(outputs) - 1)))
            assert OutputReader(packed, len(outputs)).texts(range(len(outputs))) == outputs
            assert OutputReader(packed, len(outputs)).texts(some) == [outputs[i] for i in some]

    @given(st.lists(st.tuples(*[st.integers(0, 2_000)] * 3), min_size=20, max_size=60), st.integers(1, 4))
    def test_of_one_plugin(self, numbers: list[tuple[int, int, int]], width: int) -> None:
        """More digits at some times than at others, as templates of both kinds must hold."""
        outputs = [f"{a}% of {b / 100:.2f} |x={b / 100:.3f};{c:0{width}d};{a}" for a, b, c in numbers]
        packed = pack_outputs(outputs)
        assert packed is not None
        assert OutputReader(packed, len(outputs)).texts(range(len(outputs))) == outputs

    @given(st.permutations(range(40)), st.integers(1, 40))
    def test_are_read_in_any_order(self, order: list[int], most: int) -> None:
        outputs = [f"{n % 25} of {n % 7}" for n in range(40)]
        packed = pack_outputs(outputs)
        assert packed is not None
        assert OutputReader(packed, 40).texts(order[:most]) == [outputs[i] for i in order[:most]]

    def test_equal_texts_are_kept_once(self) -> None:
        once, often = (pack_outputs(["a long text without any number in it"] * n) for n in (1, 1_000))
        assert once is not None
        assert often is not None
        assert often.head == once.head
        assert len(often.which.data) < 20


class TestRunBlocks:
    @given(st.lists(packed_runs, max_size=40).map(in_order))
    def test_hold_what_was_packed(self, runs: list[PackedRun]) -> None:
        assert unpacked(runs) == runs

    @given(st.lists(packed_runs, min_size=1, max_size=40).map(in_order), times, times, st.booleans())
    def test_one_task_or_a_time_is_read_from_them(
        self, runs: list[PackedRun], since: int, before: int, notable: bool
    ) -> None:
        (block,) = pack_runs(runs)
        task = runs[0].task
        wanted = [run for run in runs if run.notable or not notable]
        found = RunBlock(block.body)
        assert found.runs_of(task, before, notable=notable) == [
            run for run in wanted if run.task == task and run.claimed < before
        ]
        assert found.runs_between(since, before, notable=notable) == [
            run for run in wanted if since <= run.claimed < before
        ]
        assert (block.first_task, block.last_task, block.rows) == (task, runs[-1].task, len(runs))
        assert block.first_claimed == min(run.claimed for run in runs)
        assert block.last_claimed == max(run.claimed for run in runs)
        assert block.notable == sum(run.notable for run in runs)

    def test_many_runs_are_cut_into_blocks_of_equal_length(self) -> None:
        runs = [run._replace(output="") for run in load_runs(tasks=1, runs=2 * RUNS + 1)]
        assert [block.rows for block in pack_runs(runs)] == [1333, 1334, 1334]
        assert unpacked(runs) == runs

    def test_huge_outputs_get_blocks_of_their_own(self) -> None:
        runs = [run._replace(output="é" * (1 + 400_000 * (i % 2))) for i, run in enumerate(load_runs(1, 9))]
        assert unpacked(runs) == runs
        assert max(block.rows for block in pack_runs(runs)) <= 3

    def test_they_are_as_small_as_promised(self) -> None:
        """Bytes per run, a task running each minute: without output, and with a line whose numbers always change."""
        runs = load_runs(tasks=100, runs=60)
        for most, some in ((8, [run._replace(output="") for run in runs]), (15, runs)):
            assert sum(len(block.body) for block in pack_runs(some)) / len(runs) < most

    @given(st.data())
    def test_any_changed_byte_is_noticed(self, data: st.DataObject) -> None:
        (block,) = pack_runs(load_runs(2, 3))
        place = data.draw(st.integers(0, len(block.body) - 1))
        changed = bytearray(block.body)
        changed[place] ^= 1 << data.draw(st.integers(0, 7))
        with pytest.raises(DamagedBlock):
            RunBlock(bytes(changed)).runs()
        with pytest.raises(DamagedBlock):
            RunBlock(block.body[:place]).runs()
