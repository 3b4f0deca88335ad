from evenbeat.api.live.task_counts import TaskCountCache
from evenbeat.model import SECOND, Instant, Job, Schedule, Task
from evenbeat.store.contract import Filter
from evenbeat.store.memory import MemoryStore

T0 = Instant(1_800_000_000_000_000)


def a_task(name: str) -> Task:
    return Task(name, Schedule(every=60 * SECOND), Job(command=("noop",)))


class CountingStore(MemoryStore):
    counts = 0

    def count(self, only: Filter = Filter()) -> int:  # noqa: B008 - frozen
        self.counts += 1
        return super().count(only)


def test_it_is_counted_once_until_a_task_changes() -> None:
    store, totals = CountingStore(), TaskCountCache()
    store.create([a_task("a"), a_task("b")], "me", T0)
    assert totals.of(store, Filter(contains="a"), T0) == 1
    assert totals.of(store, Filter(contains="a", after="a", most=10), T0) == 1
    assert store.counts == 1, "a later page counts nothing anew"
    assert totals.of(store, Filter(), T0) == 2
    store.create([a_task("aa")], "me", Instant(T0 + 1))
    assert totals.of(store, Filter(contains="a"), T0) == 2


def test_what_has_no_state_is_not_asked_for_again_and_again() -> None:
    store, totals = CountingStore(), TaskCountCache()
    store.create([a_task("a")], "me", T0)
    for i in range(1_000):
        totals.of(store, Filter(contains=str(i)), T0)
    assert len(totals._counted) == 256
