"""Part of the store contract: retention, backup, and what a store still has after it was closed and opened again."""

from pathlib import Path

import pytest

from evenbeat.model import DAY, Acknowledgement, Instant, Period
from evenbeat.store.alert_records import AlertBatch, MessageAttempt, MessageEnd
from evenbeat.store.chain_records import ChainEnd, ChainUse
from evenbeat.store.contract import (
    AUDIT_MIN_AGE,
    AUDIT_MIN_ROWS,
    AuditFilter,
    Batch,
    Change,
    ProblemFilter,
    Store,
    StoreError,
    WholeOutput,
)
from evenbeat.testing.samples import (
    T0,
    a_claim,
    a_decision,
    a_finish,
    a_hold,
    a_message,
    a_problem_change,
    a_refusal,
    a_skip,
    a_task,
    an_alert,
)
from evenbeat.testing.store_history import minutes_later, record_run
from evenbeat.testing.store_runs import number_of, progress_of

KEEP = 30 * DAY


def prune_until_done(store: Store, now: int) -> int:
    """Prune until nothing is left to delete."""
    total = 0
    while gone := store.prune(Instant(now), KEEP):
        total += gone
    return total


def all_of_store(store: Store) -> tuple[object, ...]:
    """Everything that can be read from a store."""
    numbers = [entry.number for entry in store.entries()]
    return (
        list(store.conditions()),
        list(store.progress()),
        store.runs(),
        store.runs(notable=True),
        [store.runs(n) for n in numbers],
        [store.whole_output(run.number, run.claimed) for run in store.runs()],
        store.skips(),
        store.changes(),
        store.periods(),
        store.settings(""),
        store.cursors(numbers),
        store.chain_parents([entry.task.name for entry in store.entries() if "\0" not in entry.task.name]),
        store.chain_uses(numbers),
        found := store.problems(ProblemFilter(is_open=None)),
        [store.problem_notes(problem.id) for problem in found],
        list(store.open_problems()),
        list(store.open_alert_problems()),
        store.alert_problems([problem.id for problem in found]),
        store.alert_decisions(),
        sent := store.messages(),
        [store.message_document(message.id) for message in sent],
    )


def fill_store(store: Store) -> None:
    """Put something of each kind into a store."""
    a, b, c = (entry.number for entry in store.create([a_task(n, check=True) for n in "abc"], "me", T0, "ann"))
    record_run(store, a, minutes_later(0), "fine")
    record_run(store, a, minutes_later(1), "bad", outcome="failed", state=2)
    store.record(
        Batch(skips=[a_skip(b, minutes_later(0), 5)], refusals=[a_refusal(b, minutes_later(6))], claims=[a_claim(c)])
    ).result()
    whole = WholeOutput(c, a_claim(c).at, b"\x00all of it\xff")
    ended = Batch(finishes=[a_finish(c, cursor=b"here")], claims=[a_claim(b, minutes_later(7))], outputs=[whole])
    store.record(ended).result()
    store.record(Batch(problems=[a_problem_change(n) for n in (a, b, c)])).result()
    store.record(Batch(problems=[a_problem_change(b, at=minutes_later(7), is_open=False)])).result()
    open_problems = [problem.id for problem in store.problems()]
    store.acknowledge(open_problems, Acknowledgement(T0, "ann", "on it"), minutes_later(7), "ann")
    store.comment(open_problems, "soon", minutes_later(7), "ann")
    store.record(Batch(holds=[a_hold(a)])).result()
    ends = [ChainEnd(a, succeeded, minutes_later(0), 0, minutes_later(1)) for succeeded in (True, False)]
    store.record(Batch(chain_ends=ends, chain_uses=[ChainUse(b, b"\0\xff")])).result()
    fill_alerts(store, *open_problems)
    store.remove([c], minutes_later(8))
    store.set_periods({"work": Period()}, "me", T0)
    store.set_settings({"key": "value"})


def fill_alerts(store: Store, *problems: int) -> None:
    """Send problems to a channel: the first message is delivered, the second has just been started."""
    first, second = store.reserve_messages(2), store.reserve_messages(1)
    new = [a_message(first), a_message(second, "boss/email/1", document=b"\0\xff")]
    alerts = [an_alert(problem, sent=3, last_sent=T0, message=first) for problem in problems]
    alerts += [an_alert(problem, "boss/email/1", sent=2, held="downtime", message=second) for problem in problems]
    decisions = [a_decision(*alert.key, message=alert.message) for alert in alerts]
    store.record_alerts(AlertBatch(alerts, decisions, new)).result()
    ended = [alert._replace(version=1, message=0, is_over=True) for alert in alerts if alert.message == first]
    attempts = [MessageAttempt(second, 2, T0 + 9, T0 + 5, "no answer", "HTTP 500", possible_repetition=True)]
    store.record_alerts(
        AlertBatch(ended, attempts=attempts, message_ends=[MessageEnd(first, T0 + 8, "delivered", "", "HTTP 204")])
    ).result()


class MaintenanceContract:
    """A store does not grow without a limit, and keeps what it must."""

    def make_store(self, folder: Path) -> Store:
        raise NotImplementedError

    def make_bounded_store(self, folder: Path, plain_runs: int) -> Store | None:
        raise NotImplementedError

    def reopen(self, store: Store, folder: Path) -> Store | None:
        raise NotImplementedError

    # Retention

    def test_what_is_older_than_keep_is_forgotten(self, store: Store) -> None:
        a = number_of(store)
        for time, outcome in ((T0, "failed"), (T0 + 1, "succeeded"), (T0 + DAY, "failed"), (T0 + DAY + 1, "succeeded")):
            record_run(store, a, time, outcome=outcome)
            store.record(Batch(refusals=[a_refusal(a, time)])).result()
        assert prune_until_done(store, T0 + KEEP) == 0
        # Two runs and two refusals; the audit is kept longer.
        assert prune_until_done(store, T0 + KEEP + DAY // 2) == 4
        assert [run.nominal for run in store.runs(a)] == [T0 + DAY + 1, T0 + DAY]
        assert [run.nominal for run in store.runs()] == [T0 + DAY + 1, T0 + DAY]
        assert len(store.skips()) == 2
        assert len(store.changes()) == 1
        assert prune_until_done(store, T0 + KEEP + DAY // 2) == 0

    def test_where_a_task_stands_and_its_latest_result_are_never_forgotten(self, store: Store) -> None:
        a = number_of(store)
        record_run(store, a, T0, "the latest", outcome="failed", state=2)
        before = list(store.conditions()), progress_of(store, a)
        prune_until_done(store, T0 + 10 * KEEP)
        assert store.runs() == []
        assert (list(store.conditions()), progress_of(store, a)) == before

    def test_a_range_that_still_grows_is_kept_as_a_whole(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(skips=[a_skip(a, T0, 1)])).result()
        long = a_skip(a, minutes_later(1), 60 * 24 * 40)
        store.record(Batch(skips=[long])).result()
        prune_until_done(store, long.at)
        assert [(skip.first, skip.times) for skip in store.skips()] == [(T0, 60 * 24 * 40 + 1)]

    def test_runs_go_on_after_all_history_was_forgotten(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        for task, outcome in ((a, "succeeded"), (b, "failed"), (b, "succeeded"), (a, "failed")):
            record_run(store, task, T0, outcome=outcome)
        prune_until_done(store, T0 + 2 * KEEP)
        later = T0 + 2 * KEEP
        record_run(store, b, later)
        record_run(store, a, later, outcome="failed")
        record_run(store, b, later + 1)
        assert [(run.task, run.nominal) for run in store.runs(b)] == [("b", later + 1), ("b", later)]
        assert [(run.task, run.nominal) for run in store.runs(a)] == [("a", later)]

    def test_a_removed_task_is_forgotten_with_its_history(self, store: Store) -> None:
        a = number_of(store)
        record_run(store, a, T0, outcome="failed")
        store.record(Batch(skips=[a_skip(a)])).result()
        store.remove([a], minutes_later(1))
        prune_until_done(store, T0 + 2 * KEEP)
        assert (store.runs(), store.skips(), store.find_removed("a")) == ([], [], None)
        assert [change.action for change in store.changes("a")] == ["removed", "created"], "the audit outlives it"
        assert store.create([a_task("a")], "me", T0)[0].number > a

    def test_the_audit_is_kept_for_longer_and_bounded(self, store: Store) -> None:
        first = store.create([a_task("a")], "me", T0, "ann")[0]
        store.note([Change(Instant(T0 + DAY), "ann", "forced", "a")])
        prune_until_done(store, T0 + AUDIT_MIN_AGE)
        assert len(store.changes()) == 2
        prune_until_done(store, T0 + AUDIT_MIN_AGE + 1)
        assert [change.action for change in store.changes()] == ["forced"]
        assert store.audit(AuditFilter())[0].number > 1, "numbers are never given twice"
        store.note(Change(Instant(T0 + DAY), "bot", "forced", str(i)) for i in range(AUDIT_MIN_ROWS))
        prune_until_done(store, T0 + DAY + KEEP)
        assert len(store.changes(name="a")) == 1, "as long as `keep` says any number is kept"
        prune_until_done(store, T0 + DAY + KEEP + 1)
        assert store.changes(name="a") == []
        assert len(store.audit(AuditFilter(who="bot", most=2 * AUDIT_MIN_ROWS))) == AUDIT_MIN_ROWS
        assert store.find("a") == first

    def test_plain_successes_are_bounded_other_runs_are_not(self, tmp_path: Path) -> None:
        folder = tmp_path / "bounded"
        folder.mkdir()
        store = self.make_bounded_store(folder, plain_runs=10)
        if store is None:
            pytest.skip("the bound of this store cannot be chosen")
        a, b = number_of(store), number_of(store, "b")
        for i in range(30):
            record_run(store, (a, b)[i % 2], minutes_later(i))
            if i % 10 == 0:
                record_run(store, a, minutes_later(i) + 1, outcome="failed")
        prune_until_done(store, minutes_later(30))
        assert len(store.runs()) == 10 + 3
        assert len(store.runs(notable=True)) == 3
        assert [run.nominal for run in store.runs(b)] == [minutes_later(i) for i in (29, 27, 25, 23, 21)]
        assert [run.nominal for run in store.runs(a)] == [
            *[minutes_later(i) for i in (28, 26, 24, 22)],
            minutes_later(20) + 1,
            minutes_later(20),
            minutes_later(10) + 1,
            minutes_later(0) + 1,
        ]
        store.close()

    # Backup, and opening again

    def test_a_backup_holds_everything(self, store: Store, tmp_path: Path) -> None:
        fill_store(store)
        there = tmp_path / "there"
        there.mkdir()
        path = there / "copy"
        try:
            store.backup(path)
        except StoreError:
            assert list(there.iterdir()) == [], "a store that makes no backups leaves nothing behind"
            return
        assert list(there.iterdir()) == [path]
        made = self.open_backup(path)
        assert all_of_store(made) == all_of_store(store)
        made.close()

    def test_a_backup_overwrites_nothing(self, store: Store, tmp_path: Path) -> None:
        path = tmp_path / "there"
        path.write_text("precious")
        with pytest.raises(StoreError):
            store.backup(path)
        assert path.read_text() == "precious"

    def open_backup(self, path: Path) -> Store:
        """Open a backup; for stores that make backups."""
        raise NotImplementedError

    def test_everything_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        folder = tmp_path / "again"
        folder.mkdir()
        store = self.make_store(folder)
        fill_store(store)
        before = all_of_store(store)
        number = max(entry.number for entry in store.entries())
        again = self.reopen(store, folder)
        if again is None:
            pytest.skip("this store forgets")
        assert all_of_store(again) == before
        assert again.create([a_task("new")], "me", T0)[0].number > number
        again.close()

    def test_what_was_recorded_before_close_is_kept(self, tmp_path: Path) -> None:
        folder = tmp_path / "kept"
        folder.mkdir()
        store = self.make_store(folder)
        a = number_of(store)
        futures = []
        for i in range(100):
            futures.append(store.record(Batch(claims=[a_claim(a, minutes_later(i))])))
            futures.append(store.record(Batch(finishes=[a_finish(a, minutes_later(i))])))
        again = self.reopen(store, folder)
        if again is None:
            pytest.skip("this store forgets")
        assert all(future.done() for future in futures)
        assert len(again.runs(a, most=1_000)) == 100
        again.close()
