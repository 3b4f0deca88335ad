"""Part of the store contract: history in layers, for stores that have them (`history_contract.LayeredHistory`)."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant
from evenbeat.store.contract import Batch, RunRecord, SnapshotReader, Store
from evenbeat.store.history_contract import (
    Layer,
    LayeredHistory,
    LayerSize,
    PackedRun,
    PartGone,
    PerfSummary,
    RunSummary,
    Spread,
)
from evenbeat.testing.samples import T0, a_claim, a_finish, a_load_line, a_submitted_result
from evenbeat.testing.store_history import minutes_later, record_run
from evenbeat.testing.store_outputs import record_output
from evenbeat.testing.store_runs import number_of

KEEP = 30 * DAY
ALL = 1_000_000


def pack_all(store: LayeredHistory, most: int = ALL) -> None:
    """Pack all runs that ended, this many at once, by the hour in which they ended."""
    while (unpacked := store.unpacked(most)).runs:
        hours: dict[int, list[PackedRun]] = {}
        for run in sorted(unpacked.runs, key=lambda run: run[:3]):
            hours.setdefault(run.ended // HOUR * HOUR, []).append(run)
        store.pack(unpacked, list(hours.items()))


def runs_of_layer(store: LayeredHistory, layer: Layer) -> list[PackedRun]:
    """All runs of a layer, part by part."""
    return [run for part in store.parts(layer) for some in store.part_runs(part.number) for run in some]


def merge_all(store: LayeredHistory) -> int:
    """Make one part of the layer RUNS of all recent ones; return its number."""
    old = [part.number for part in store.parts(Layer.RECENT)]
    runs = sorted(runs_of_layer(store, Layer.RECENT), key=lambda run: run[:3])
    part = store.begin_part(Layer.RUNS, T0)
    store.add_runs(part, runs)
    store.complete([part], old)
    return part


def history_of(store: Store, tasks: Iterable[int]) -> list[object]:
    """What a store answers about its runs."""
    numbers = list(tasks)
    until = Instant(T0 + KEEP)
    return [
        store.runs(most=ALL),
        store.runs(most=ALL, notable=True),
        *(store.runs(task, most=ALL) for task in numbers),
        *(store.runs(task, most=ALL, notable=True) for task in numbers),
        *(store.runs(task, minutes_later(7), most=3) for task in numbers),
        store.runs(before=minutes_later(7), most=4),
        store.runs(most=5),
        store.starts(Instant(T0 - DAY), until),
        store.starts(Instant(T0 + 1_001), Instant(T0 + 5 * MINUTE + 1_001)),
        [store.whole_output(run.number, run.claimed) for run in store.runs(most=ALL)],
        [store.task_snapshot(f"t{i}", 5) for i in range(3)] if isinstance(store, SnapshotReader) else [],
    ]


def fill_history(store: Store) -> list[int]:
    """Runs of three tasks within some minutes, of all kinds; one still runs."""
    tasks = [number_of(store, f"t{i}") for i in range(3)]
    for minute in range(10):
        for i, task in enumerate(tasks):
            failed = (minute + i) % 4 == 0
            at = minutes_later(minute) + i * SECOND
            outcome, state = ("failed", 2) if failed else ("succeeded", 0)
            record_run(store, task, at, a_load_line(minute / 7, i, 1.5), outcome=outcome, state=state)
    record_output(store, tasks[0], minutes_later(11), b"\0all of it")
    submitted = a_submitted_result(tasks[1], minutes_later(12), "\0é\n\1", made=None, notable=True)
    store.record(Batch(told=[submitted], claims=[a_claim(tasks[2], minutes_later(13))])).result()
    return tasks


def a_run(task: int, minute: int = 0, output: str = "") -> PackedRun:
    """A run that ended."""
    nominal = minutes_later(minute)
    row = (nominal, 0, 0, nominal + 2_000, "succeeded", 0, 0, True, 1, output, False, False)
    return PackedRun(task, nominal + 1_000, nominal + SECOND, *row)


def a_summary(task: int, hour: int = 0, runs: int = 60) -> RunSummary:
    """A summary of an hour."""
    series = (PerfSummary("load1", "", 60, 0.1, 1 / 3, 5.25), PerfSummary("x", "s", 1, -0.5, 0.0, 1e300))
    since = T0 + hour * HOUR
    return RunSummary(
        task, since, runs, {"succeeded": 59, "failed": 1}, {0: 60}, Spread(1, 2, 3), Spread(4, 5, 6), series
    )


class LayersContract:
    """Packing changes no answer, each step is made as a whole or not at all, and space is given back."""

    @pytest.fixture
    def layered(self, store: Store) -> LayeredHistory:
        """The store, if its history has layers."""
        if not isinstance(store, LayeredHistory):
            pytest.skip("the history of this store has no layers")
        return store

    def reopen(self, store: Store, folder: Path) -> Store | None:
        raise NotImplementedError

    # Packing

    @pytest.mark.parametrize("most", [1, 7, ALL])
    def test_packing_changes_no_answer(self, store: Store, layered: LayeredHistory, most: int) -> None:
        tasks = fill_history(store)
        before = history_of(store, tasks)
        layered.pack(unpacked := layered.unpacked(most), [(T0, unpacked.runs)])
        assert history_of(store, tasks) == before, "some of the runs are packed"
        pack_all(layered, most)
        assert layered.unpacked(ALL).runs == []
        assert history_of(store, tasks) == before
        merge_all(layered)
        assert history_of(store, tasks) == before

    def test_the_oldest_runs_are_packed_first(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        for minute in range(6):
            record_run(store, a, minutes_later(minute), outcome="failed" if minute % 2 else "succeeded")
        assert sorted(run.nominal for run in layered.unpacked(3).runs) == [minutes_later(i) for i in range(3)]
        assert len(layered.unpacked(ALL).runs) == 6

    def test_there_are_no_fewer_runs_to_pack_than_asked_for(self, store: Store, layered: LayeredHistory) -> None:
        tasks = [number_of(store, f"t{i}") for i in range(5)]
        for minute in range(4):
            at = minutes_later(minute)
            store.record(Batch(claims=[a_claim(task, at) for task in tasks])).result()
            store.record(Batch(finishes=[a_finish(task, at) for task in tasks])).result()
        before = history_of(store, tasks)
        unpacked = layered.unpacked(7)
        assert 7 <= len(unpacked.runs) <= 10
        layered.pack(unpacked, [(T0, unpacked.runs)])
        assert history_of(store, tasks) == before
        assert len(layered.unpacked(ALL).runs) == 20 - len(unpacked.runs)

    def test_a_packed_run_holds_all_that_is_known_of_it(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        claim = a_claim(a)._replace(generation=2, kind=1)
        store.record(Batch(claims=[claim])).result()
        finish = a_finish(a, T0, "BAD\0", outcome="failed", state=2, notable=True)._replace(attempt=3, status=-9)
        store.record(Batch(finishes=[finish])).result()
        expected = PackedRun(
            *(a, T0 + 1_000, T0 + 1_002_000, T0, 2, 1, T0 + 2_000, "failed", -9, 2, False, 3, "BAD\0", True, False)
        )
        assert list(layered.unpacked(1).runs) == [expected]
        pack_all(layered)
        (part,) = layered.parts(Layer.RECENT)
        assert (part.rows, part.since) == (1, expected.ended // HOUR * HOUR)
        assert (part.first_claimed, part.last_claimed, part.is_merged) == (expected.claimed, expected.claimed, False)
        assert part.size > 0
        assert [list(some) for some in layered.part_runs(part.number)] == [[expected]]

    def test_runs_of_several_hours_get_a_part_each(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        for minute in (0, 59, 60, 200):
            record_run(store, a, T0 // HOUR * HOUR + minute * MINUTE)
        pack_all(layered)
        assert [(part.since - T0 // HOUR * HOUR) // HOUR for part in layered.parts(Layer.RECENT)] == [0, 1, 3]
        assert [part.rows for part in layered.parts(Layer.RECENT)] == [2, 1, 1]

    def test_runs_are_packed_once(self, store: Store, layered: LayeredHistory) -> None:
        tasks = fill_history(store)
        before = history_of(store, tasks)
        first, second = layered.unpacked(10), layered.unpacked(20)
        layered.pack(first, [(T0, first.runs)])
        for late in (first, second):
            with pytest.raises(PartGone):
                layered.pack(late, [(T0, late.runs)])
        assert history_of(store, tasks) == before
        assert [part.rows for part in layered.parts(Layer.RECENT)] == [10]

    def test_runs_that_were_pruned_meanwhile_are_not_packed(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        record_run(store, a, T0)
        record_run(store, a, T0 + KEEP)
        unpacked = layered.unpacked(ALL)
        while store.prune(Instant(T0 + KEEP + DAY), KEEP):
            pass
        with pytest.raises(PartGone):
            layered.pack(unpacked, [(T0, unpacked.runs)])
        assert layered.parts(Layer.RECENT) == []
        assert [run.nominal for run in store.runs(a)] == [T0 + KEEP]

    def test_runs_go_on_after_packing(self, store: Store, layered: LayeredHistory) -> None:
        a, b = number_of(store), number_of(store, "b")
        for minute in range(4):
            record_run(store, (a, b)[minute % 2], minutes_later(minute))
            pack_all(layered)
        record_run(store, a, minutes_later(4), outcome="failed")
        assert [run.nominal for run in store.runs()] == [minutes_later(i) for i in (4, 3, 2, 1, 0)]
        assert [run.nominal for run in store.runs(a)] == [minutes_later(i) for i in (4, 2, 0)]
        assert [run.nominal for run in store.runs(b)] == [minutes_later(i) for i in (3, 1)]

    # Parts

    def test_a_part_is_not_read_before_it_is_complete(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        part = layered.begin_part(Layer.RUNS, T0)
        layered.add_runs(part, [a_run(a, minute) for minute in range(3)])
        layered.add_runs(part, [a_run(a, minute) for minute in range(3, 5)])
        assert (store.runs(), layered.parts(Layer.RUNS), store.starts(T0, minutes_later(9))) == ([], [], {})
        with pytest.raises(PartGone):
            list(layered.part_runs(part))
        layered.complete([part], [])
        assert [run.nominal for run in store.runs(a)] == [minutes_later(i) for i in (4, 3, 2, 1, 0)]
        assert runs_of_layer(layered, Layer.RUNS) == [a_run(a, minute) for minute in range(5)]
        assert len(store.starts(T0, minutes_later(9))) == 5

    def test_parts_replace_others_in_one_step(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        for minute in range(4):
            record_run(store, a, minutes_later(minute))
        pack_all(layered, 2)
        before = history_of(store, [a])
        old = [part.number for part in layered.parts(Layer.RECENT)]
        assert len(old) == 2
        new = merge_all(layered)
        assert (layered.parts(Layer.RECENT), [part.number for part in layered.parts(Layer.RUNS)]) == ([], [new])
        assert history_of(store, [a]) == before
        for part in old:
            with pytest.raises(PartGone):
                list(layered.part_runs(part))

    def test_a_step_that_was_made_already_changes_nothing(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        record_output(store, a, T0, b"whole")
        pack_all(layered)
        (old,) = [part.number for part in layered.parts(Layer.RECENT)]
        runs = runs_of_layer(layered, Layer.RECENT)
        new = merge_all(layered)
        again = layered.begin_part(Layer.RUNS, T0)
        layered.add_runs(again, runs)
        for parts, instead_of in (([again], [old]), ([again, new], []), ([12345], []), ([], [12345]), ([], [again])):
            with pytest.raises(PartGone):
                layered.complete(parts, instead_of, [(a, runs[0].claimed)])
        assert len(store.runs(a)) == 1
        assert store.whole_output(a, runs[0].claimed) == b"whole"
        layered.complete([again], [new])
        assert len(store.runs(a)) == 1

    def test_a_part_that_is_gone_takes_no_more(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        of_the_dead, complete = layered.begin_part(Layer.RUNS, T0), layered.begin_part(Layer.HOURS, T0)
        layered.add_runs(of_the_dead, [a_run(a)])
        layered.add_summaries(complete, [a_summary(a)])
        layered.complete([complete], [])
        layered.discard_unfinished()
        for part in (of_the_dead, complete, 12345):
            with pytest.raises(PartGone):
                layered.add_runs(part, [a_run(a)])
            with pytest.raises(PartGone):
                layered.add_summaries(part, [a_summary(a)])
        with pytest.raises(PartGone):
            layered.complete([of_the_dead], [])
        assert store.runs() == []
        assert layered.begin_part(Layer.RUNS, T0) > of_the_dead

    def test_an_empty_part_is_dropped(self, layered: LayeredHistory) -> None:
        empty = layered.begin_part(Layer.KEPT, T0)
        layered.add_runs(empty, [])
        layered.complete([empty], [])
        assert layered.parts(Layer.KEPT) == []
        with pytest.raises(PartGone):
            list(layered.part_runs(empty))

    def test_parts_of_a_layer_are_in_the_order_of_time(self, layered: LayeredHistory) -> None:
        for since, is_merged in ((T0 + 2 * HOUR, False), (T0, True), (T0 + HOUR, False), (T0, False)):
            part = layered.begin_part(Layer.KEPT, since, is_merged=is_merged)
            layered.add_runs(part, [a_run(1), a_run(2)])
            layered.complete([part], [])
        found = layered.parts(Layer.KEPT)
        assert [(part.since - T0, part.is_merged) for part in found] == [
            *((0, True), (0, False), (HOUR, False), (2 * HOUR, False))
        ]
        assert {(part.layer, part.rows, part.first_claimed) for part in found} == {(Layer.KEPT, 2, T0 + 1_000)}

    def test_many_runs_come_in_their_order(self, store: Store, layered: LayeredHistory) -> None:
        tasks = [number_of(store, f"t{i}") for i in range(50)]
        runs = [a_run(task, minute, f"{minute}%") for task in tasks for minute in range(100)]
        part = layered.begin_part(Layer.RUNS, T0)
        for begin in range(0, len(runs), 2_345):
            layered.add_runs(part, runs[begin : begin + 2_345])
        layered.complete([part], [])
        assert runs_of_layer(layered, Layer.RUNS) == runs
        for task in (tasks[0], tasks[22], tasks[-1]):
            assert _times(store.runs(task, most=ALL)) == [minutes_later(i) for i in range(99, -1, -1)]
            assert _times(store.runs(task, minutes_later(40), most=2)) == [minutes_later(39), minutes_later(38)]
        assert _times(store.runs(most=60)) == [minutes_later(99)] * 50 + [minutes_later(98)] * 10
        assert _times(store.runs(before=minutes_later(3), most=60)) == [minutes_later(2)] * 50 + [minutes_later(1)] * 10
        assert store.runs(most=60)[0].output == "99%"

    # What is not kept for ever

    def test_blocks_of_parts_that_were_dropped_are_deleted_later(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        begun, complete, other = (layered.begin_part(Layer.RUNS, T0) for _ in range(3))
        for part in (begun, complete, other):
            for minute in range(3):
                layered.add_runs(part, [a_run(a, minute)])
        layered.complete([complete, other], [])
        assert layered.sweep(ALL) == 0
        layered.discard_unfinished()
        layered.complete([], [complete])
        swept = []
        while some := layered.sweep(2):
            swept.append(some)
        assert sum(swept) in (0, 6), "a store in memory has nothing to delete"
        assert max(swept, default=0) <= 2
        assert len(store.runs(a)) == 3

    def test_whole_outputs_stay_until_their_run_is_in_no_layer(self, store: Store, layered: LayeredHistory) -> None:
        a = number_of(store)
        first, second = (record_output(store, a, minutes_later(i), b"%d" % i) for i in range(2))
        pack_all(layered)
        (part,) = [part.number for part in layered.parts(Layer.RECENT)]
        while store.prune(Instant(T0 + 2 * KEEP), KEEP):
            pass
        assert (store.whole_output(a, first), store.whole_output(a, second)) == (b"0", b"1")
        assert sorted(layered.whole_outputs_between(first, second)) == [(a, first), (a, second)]
        assert layered.whole_outputs_between(first + 1, second) == [(a, second)]
        kept = layered.begin_part(Layer.KEPT, T0)
        layered.add_runs(kept, runs_of_layer(layered, Layer.RECENT)[1:])
        layered.complete([kept], [part], [(a, first)])
        assert (store.whole_output(a, first), store.whole_output(a, second)) == (None, b"1")
        layered.complete([], [kept])
        while store.prune(Instant(T0 + 2 * KEEP), KEEP):
            pass
        assert store.whole_output(a, second) is None

    def test_packed_runs_of_a_forgotten_task_are_not_shown(self, store: Store, layered: LayeredHistory) -> None:
        a, b = number_of(store), number_of(store, "b")
        for minute in range(5):
            record_run(store, a, minutes_later(minute))
        record_run(store, b, minutes_later(6))
        claimed = record_output(store, b, minutes_later(7), b"whole")
        pack_all(layered)
        store.remove([b], minutes_later(8))
        assert len(store.runs(b)) == 2, "a removed task is named as long as it is not forgotten"
        while store.prune(Instant(T0 + 2 * KEEP), KEEP):
            pass
        assert store.runs(b) == []
        assert _times(store.runs(most=3)) == [minutes_later(i) for i in (4, 3, 2)]
        assert store.whole_output(b, claimed) is None

    def test_size_tells_what_each_layer_takes(self, store: Store, layered: LayeredHistory) -> None:
        tasks = fill_history(store)
        assert layered.size().unpacked == 32
        pack_all(layered)
        part = layered.begin_part(Layer.HOURS, T0)
        layered.add_summaries(part, [a_summary(task) for task in tasks])
        layered.complete([part], [])
        recent = layered.parts(Layer.RECENT)
        size = layered.size()
        assert size.layers[Layer.RECENT] == LayerSize(len(recent), 32, sum(part.size for part in recent))
        assert size.layers[Layer.HOURS][:2] == (1, 3)
        assert size.layers[Layer.DAYS] == LayerSize(0, 0, 0)
        assert (size.unpacked, set(size.layers)) == (0, set(Layer))
        assert size.size >= size.free >= 0
        assert layered.give_back(1 << 20) >= 0

    # Summaries

    def test_summaries_of_a_task(self, store: Store, layered: LayeredHistory) -> None:
        a, b, c = (number_of(store, name) for name in "abc")
        hours, day = layered.begin_part(Layer.HOURS, T0), layered.begin_part(Layer.DAYS, T0, is_merged=True)
        summaries = [a_summary(task, hour) for task in (a, b) for hour in range(5)]
        layered.add_summaries(hours, summaries[:7])
        layered.add_summaries(hours, summaries[7:])
        layered.add_summaries(day, [a_summary(a, 0, runs=1_440)])
        assert layered.summaries(a, Layer.HOURS, T0, Instant(T0 + DAY)) == []
        layered.complete([hours, day], [])
        asked = Instant(T0 + HOUR), Instant(T0 + 3 * HOUR)
        assert layered.summaries(b, Layer.HOURS, *asked) == [a_summary(b, 1), a_summary(b, 2)]
        assert layered.summaries(c, Layer.HOURS, *asked) == []
        assert layered.summaries(a, Layer.DAYS, T0, asked[1]) == [a_summary(a, 0, runs=1_440)]
        assert layered.summaries(a, Layer.DAYS, *asked) == []
        assert [summary for some in layered.part_summaries(hours) for summary in some] == summaries
        assert [part.rows for part in layered.parts(Layer.HOURS)] == [10]

    def test_a_clock_that_was_set_back_makes_two_summaries_of_an_hour(self, layered: LayeredHistory) -> None:
        for runs in (10, 20):
            part = layered.begin_part(Layer.HOURS, T0)
            layered.add_summaries(part, [a_summary(1, 0, runs)])
            layered.complete([part], [])
        found = layered.summaries(1, Layer.HOURS, T0, Instant(T0 + 1))
        assert sorted(summary.runs for summary in found) == [10, 20]

    # Opening again

    def test_layers_are_there_when_it_is_opened_again(
        self, store: Store, layered: LayeredHistory, tmp_path: Path
    ) -> None:
        tasks = fill_history(store)
        pack_all(layered)
        begun = layered.begin_part(Layer.RUNS, T0)
        layered.add_runs(begun, [a_run(tasks[0])])
        before = history_of(store, tasks), layered.parts(Layer.RECENT)
        again = self.reopen(store, tmp_path)
        if again is None:
            pytest.skip("this store forgets")
        assert isinstance(again, LayeredHistory)
        assert (history_of(again, tasks), again.parts(Layer.RECENT)) == before
        again.complete([begun], [])
        assert again.parts(Layer.RUNS)[0].rows == 1, "whoever opens it may complete what was begun"
        assert again.starts(T0, minutes_later(1))[T0 // SECOND] == 2
        again.close()


def _times(runs: Sequence[RunRecord]) -> list[int]:
    return [run.nominal for run in runs]
