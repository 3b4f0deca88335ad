"""Part of the store contract: tasks that follow others, and what is kept of their parents."""

from collections.abc import Sequence
from pathlib import Path

from evenbeat.model import DAY, MINUTE, Instant, Job, Schedule, Task
from evenbeat.store.chain_records import ChainEnd, ChainParent, ChainUse
from evenbeat.store.contract import Batch, Store
from evenbeat.testing.samples import T0, a_claim, a_finish, a_progress_record, a_task

_LATER = T0 + MINUTE


def a_follower(name: str, after: Sequence[str] = (), after_failure: Sequence[str] = ()) -> Task:
    """A task that runs after others."""
    schedule = Schedule(after=tuple(after), after_failure=tuple(after_failure))
    return Task(name=name, schedule=schedule, job=Job(command=("true",)))


def create(store: Store, *tasks: Task) -> list[int]:
    """The numbers of new tasks."""
    return [entry.number for entry in store.create(tasks, "me", T0)]


def success(task: int, nominal: int = T0, at: int = T0, generation: int = 0) -> ChainEnd:
    """A run of a parent that succeeded."""
    return ChainEnd(task, succeeded=True, nominal=nominal, generation=generation, at=at)


def failure(task: int, nominal: int = T0, at: int = T0) -> ChainEnd:
    """A run of a parent that failed for good."""
    return ChainEnd(task, succeeded=False, nominal=nominal, generation=0, at=at)


class ChainsContract:
    """Followers, the ends of their parents, and what they have used of these."""

    def test_followers_are_the_tasks_that_name_one_of_these_in_after_or_after_failure(self, store: Store) -> None:
        create(
            store,
            a_task("backup", check=False),
            a_task("dump", check=False),
            a_follower("upload", ["backup", "dump"]),
            a_follower("alarm", after_failure=["dump"]),
            a_follower("other", ["upload"]),
        )
        assert [entry.task.name for entry in store.followers(["dump"])] == ["alarm", "upload"]
        assert [entry.task.name for entry in store.followers(["backup", "nothing"])] == ["upload"]
        assert store.followers(["alarm"]) == []

    def test_a_task_that_names_it_elsewhere_or_was_removed_is_no_follower(self, store: Store) -> None:
        gw, _, gone = create(store, a_task("gw"), a_task("ping", depends="gw"), a_follower("after gw", ["gw"]))
        store.remove([gone], T0)
        assert store.followers(["gw"]) == []
        assert [parent.number for parent in store.chain_parents(["gw"])] == [gw]

    def test_parents_are_known_before_they_have_any_end(self, store: Store) -> None:
        (backup,) = create(store, a_task("backup", check=False))
        assert store.chain_parents(["backup", "nothing"]) == [ChainParent("backup", backup)]

    def test_the_latest_success_and_the_latest_failure_are_kept(self, store: Store) -> None:
        backup, dump, _ = create(
            store,
            a_task("backup", check=False),
            a_task("dump", check=False),
            a_follower("upload", ["backup", "dump"]),
        )
        store.record(Batch(chain_ends=[success(backup, T0), failure(dump)])).result()
        store.record(Batch(chain_ends=[success(backup, _LATER, _LATER, generation=2)])).result()
        store.record(Batch(chain_ends=[failure(backup, T0, T0 + 1)])).result()
        assert store.chain_parents(["dump", "backup"]) == [
            ChainParent("backup", backup, success(backup, _LATER, _LATER, 2), failure(backup, T0, T0 + 1)),
            ChainParent("dump", dump, None, failure(dump)),
        ]

    def test_of_several_ends_in_one_batch_the_last_is_kept(self, store: Store) -> None:
        backup, _ = create(store, a_task("backup", check=False), a_follower("upload", ["backup"]))
        store.record(Batch(chain_ends=[success(backup, T0), success(backup, _LATER, _LATER)])).result()
        assert store.chain_parents(["backup"])[0].success == success(backup, _LATER, _LATER)

    def test_an_end_is_kept_with_the_end_of_the_run_and_the_claim_that_follows_from_it(self, store: Store) -> None:
        backup, upload = create(store, a_task("backup", check=False), a_follower("upload", ["backup"]))
        store.record(Batch(standings=[a_progress_record(backup, T0), a_progress_record(upload, T0)])).result()
        store.record(Batch(claims=[a_claim(backup)])).result()
        ended = Batch(
            finishes=[a_finish(backup)],
            claims=[a_claim(upload)],
            chain_ends=[success(backup)],
            chain_uses=[ChainUse(upload, b"first")],
        )
        store.record(ended).result()
        assert store.chain_parents(["backup"])[0].success == success(backup)
        assert store.chain_uses([backup, upload]) == {upload: b"first"}

    def test_a_batch_that_is_refused_keeps_no_end(self, store: Store) -> None:
        backup, _ = create(store, a_task("backup", check=False), a_follower("upload", ["backup"]))
        refused = Batch(finishes=[a_finish(backup)], chain_ends=[success(backup)], chain_uses=[ChainUse(backup, b"x")])
        assert store.record(refused).exception() is not None
        assert store.chain_parents(["backup"]) == [ChainParent("backup", backup)]
        assert store.chain_uses([backup]) == {}

    def test_what_was_used_is_replaced_and_forgotten(self, store: Store) -> None:
        one, two = create(store, a_follower("one", ["x"]), a_follower("two", ["x"]))
        store.record(Batch(chain_uses=[ChainUse(one, b"1"), ChainUse(two, b"2")])).result()
        store.record(Batch(chain_uses=[ChainUse(one, b"\0\xff"), ChainUse(two, b"")])).result()
        assert store.chain_uses([one, two]) == {one: b"\0\xff"}

    def test_what_was_used_before_a_removal_does_not_count_after_a_return(self, store: Store) -> None:
        (task,) = create(store, a_follower("one", ["x"]))
        store.record(Batch(standings=[a_progress_record(task, T0)])).result()
        store.record(Batch(claims=[a_claim(task)], chain_uses=[ChainUse(task, b"1")])).result()
        store.remove([task], T0)
        assert create(store, a_follower("one", ["x"])) == [task]
        assert store.chain_uses([task]) == {}

    def test_ends_of_a_removed_parent_are_not_those_of_a_new_one(self, store: Store) -> None:
        old, _ = create(store, a_task("backup", check=False), a_follower("upload", ["backup"]))
        store.record(Batch(chain_ends=[success(old)])).result()
        store.remove([old], T0)
        (new,) = create(store, a_task("backup", check=False))
        assert store.chain_parents(["backup"]) == [ChainParent("backup", new)]

    def test_ends_and_uses_outlive_a_restart(self, store: Store, tmp_path: Path) -> None:
        backup, upload = create(store, a_task("backup", check=False), a_follower("upload", ["backup"]))
        store.record(Batch(chain_ends=[success(backup)], chain_uses=[ChainUse(upload, b"used")])).result()
        again = self.reopen(store, tmp_path)
        if again is None:
            return
        assert again.chain_parents(["backup"])[0].success == success(backup)
        assert again.chain_uses([upload]) == {upload: b"used"}
        again.close()

    def test_of_a_removed_task_nothing_is_kept_once_its_history_is_gone(self, store: Store) -> None:
        task, _ = create(store, a_task("backup", check=False), a_follower("upload", ["backup"]))
        store.record(Batch(chain_ends=[success(task)], chain_uses=[ChainUse(task, b"1")])).result()
        store.remove([task], T0)
        while store.prune(Instant(T0 + 40 * DAY), 30 * DAY):
            pass
        assert store.chain_uses([task]) == {}

    def reopen(self, store: Store, folder: Path) -> Store | None:
        """As in `StoreContract`."""
        raise NotImplementedError
