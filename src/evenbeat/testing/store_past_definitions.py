"""Part of the store contract: definitions of tasks before a change are kept until they are settled."""

from msgspec.structs import replace

from evenbeat.model import Instant, Period
from evenbeat.store.contract import Batch, PastDefinition, SettledDefinitions, Store
from evenbeat.testing.samples import T0, a_progress_record, a_task


def microseconds_later(n: int) -> Instant:
    """The instant this many microseconds after T0."""
    return Instant(T0 + n)


class PastDefinitionsContract:
    """A change takes effect at its own instant, whenever a node learns of it."""

    def test_the_definition_before_a_change_is_kept_until_it_is_settled(self, store: Store) -> None:
        a, b = store.create([a_task("a"), a_task("b")], "me", T0)
        assert list(store.past_definitions()) == []
        paused, renamed = replace(a.task, paused=True), replace(a.task, paused=True, name="c")
        store.update([(a.number, paused)], microseconds_later(1))
        store.update([(b.number, replace(b.task, priority=1))], microseconds_later(2))
        store.update([(a.number, renamed)], microseconds_later(3))
        assert list(store.past_definitions()) == [
            PastDefinition(a.number, microseconds_later(1), a.task, None),
            PastDefinition(a.number, microseconds_later(3), paused, None),
            PastDefinition(b.number, microseconds_later(2), b.task, None),
        ]
        store.record(
            Batch(
                settled=[
                    SettledDefinitions(a.number, microseconds_later(2)),
                    SettledDefinitions(b.number, microseconds_later(1)),
                    SettledDefinitions(999, microseconds_later(9)),
                ]
            )
        ).result()
        assert [past.until for past in store.past_definitions()] == [microseconds_later(3), microseconds_later(2)]
        store.record(
            Batch(
                settled=[
                    SettledDefinitions(a.number, microseconds_later(3)),
                    SettledDefinitions(b.number, microseconds_later(2)),
                ]
            )
        ).result()
        assert list(store.past_definitions()) == []

    def test_periods_are_kept_as_they_were(self, store: Store) -> None:
        (a,) = store.create([replace(a_task("a"), period="work")], "me", T0)
        before = {"work": Period(ranges=("09:00-17:00",)), "rest": Period(include=("work",))}
        past = PastDefinition(a.number, microseconds_later(1), a.task, before)
        store.set_periods({"work": Period()}, "me", microseconds_later(1), past=[past])
        assert list(store.past_definitions()) == [past]

    def test_of_two_changes_at_the_same_instant_the_definition_before_the_first_counts(self, store: Store) -> None:
        (a,) = store.create([a_task("a")], "me", T0)
        changed = replace(a.task, priority=1)
        store.update([(a.number, changed)], microseconds_later(1))
        store.update([(a.number, replace(a.task, priority=2))], microseconds_later(1))
        assert list(store.past_definitions()) == [PastDefinition(a.number, microseconds_later(1), a.task, None)]
        before = {"work": Period()}
        store.set_periods(
            {"work": None},
            "me",
            microseconds_later(1),
            past=[PastDefinition(a.number, microseconds_later(1), changed, before)],
        )
        assert list(store.past_definitions()) == [PastDefinition(a.number, microseconds_later(1), a.task, before)]

    def test_a_removed_task_has_no_past(self, store: Store) -> None:
        (a,) = store.create([a_task("a")], "me", T0)
        store.update([(a.number, replace(a.task, priority=1))], microseconds_later(1))
        store.remove([a.number], microseconds_later(2))
        assert list(store.past_definitions()) == []

    def test_a_changed_task_is_accounted_for_until_its_change(self, store: Store) -> None:
        (a,) = store.create([a_task("a")], "me", T0)
        store.update([(a.number, replace(a.task, priority=1))], microseconds_later(1))
        assert [condition.accounted for condition in store.conditions()] == [None], "no node has seen it yet"
        store.record(Batch(standings=[a_progress_record(a.number, microseconds_later(2))])).result()
        assert [condition.accounted for condition in store.conditions()] == [microseconds_later(2)]
        store.update([(a.number, replace(a.task, priority=2))], microseconds_later(5))
        assert [condition.accounted for condition in store.conditions()] == [microseconds_later(5)]
        (progress,) = store.progress()
        assert progress.accounted == microseconds_later(2), "what was due in between is still to be settled"
