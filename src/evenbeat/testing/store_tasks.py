"""Part of the store contract: tasks, periods, settings and the audit."""

from typing import Any

import pytest
from msgspec.structs import replace

from evenbeat.model import (
    HIDDEN_VALUE,
    MINUTE,
    Cause,
    Entry,
    Instant,
    Invalid,
    Job,
    Period,
    Schedule,
    Task,
    WhenUnreachable,
)
from evenbeat.store.contract import AuditFilter, Batch, Change, Conflict, FieldChange, Filter, Store
from evenbeat.testing.samples import T0, a_claim, a_finish, a_problem_change, a_progress_record, a_task

LATER = Instant(T0 + 1)


def task_names(store: Store, only: Filter) -> list[str]:
    """The names of the tasks that a filter selects, in order; entries, conditions and count must agree."""
    found = [entry.task.name for entry in store.entries(only)]
    assert [condition.entry.task.name for condition in store.conditions(only)] == found
    assert store.count(only) >= len(found)
    return found


def create_tasks(store: Store, *tasks: str | Task, owner: str = "me") -> list[Entry]:
    """Create tasks, given by name or as they are."""
    return store.create([a_task(t) if isinstance(t, str) else t for t in tasks], owner, T0)


class TasksContract:
    """Creating, reading, updating, deleting and listing tasks."""

    # Create

    def test_a_new_task_has_a_number_an_id_and_version_1(self, store: Store) -> None:
        task = a_task("a", check=True, site="x")
        (entry,) = store.create([task], "me", T0)
        assert entry == Entry(entry.number, entry.id, 1, "me", T0, T0, task)
        assert store.find("a") == store.find(entry.id) == entry
        assert entry.number > 0

    def test_a_name_is_taken_once(self, store: Store) -> None:
        create_tasks(store, "a")
        with pytest.raises(Conflict, match=r"\ba\b"):
            create_tasks(store, "b", "a")
        assert task_names(store, Filter()) == ["a"], "all or none"

    def test_a_name_cannot_be_given_twice_at_once(self, store: Store) -> None:
        with pytest.raises(Conflict, match=r"\bb\b"):
            create_tasks(store, "a", "b", "b")
        assert store.count() == 0

    def test_the_name_of_a_removed_task_is_free_its_number_and_id_are_not(self, store: Store) -> None:
        (old,) = create_tasks(store, "a")
        store.remove([old.number], LATER)
        (new,) = create_tasks(store, "a")
        assert new.number > old.number
        assert new.id != old.id
        assert store.find(old.id) is None

    def test_a_task_removed_while_it_runs_comes_back_under_its_name(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b", owner="me")
        store.record(Batch(standings=[a_progress_record(a.number)], claims=[a_claim(a.number)])).result()
        store.record(Batch(finishes=[a_finish(a.number, state=2, notable=True, cursor=b"here")])).result()
        store.record(Batch(claims=[a_claim(a.number, T0 + MINUTE)])).result()
        before = next(store.progress())
        assert store.removed_running() == []
        store.remove([a.number, b.number], LATER)
        assert store.removed_running() == [a]
        task = a_task("a", check=True)
        new, back, again = store.create([a_task("0"), task, a_task("b")], "you", LATER, who="ann")
        assert back == Entry(a.number, a.id, 2, "you", T0, LATER, task)
        assert (new.version, new.owner, again.number > b.number, new.number > b.number) == (1, "you", True, True)
        assert store.find("a") == store.find(a.id) == back
        assert task_names(store, Filter(owner="you")) == ["0", "a", "b"]
        expected = before._replace(accounted=LATER)
        assert next(store.progress()) == expected, "its run goes on, and its schedule begins anew"
        assert store.cursors([a.number]) == {a.number: b"here"}
        assert len(store.runs(a.number)) == 2
        assert store.removed_running() == []
        assert sorted((c.action, c.name) for c in store.changes(most=3)) == [("created", n) for n in ("0", "a", "b")]

    def test_once_its_run_has_ended_the_name_is_that_of_a_new_task(self, store: Store) -> None:
        (a,) = create_tasks(store, "a")
        store.record(Batch(standings=[a_progress_record(a.number)], claims=[a_claim(a.number)])).result()
        store.remove([a.number], LATER)
        store.record(Batch(finishes=[a_finish(a.number)])).result()
        (new,) = create_tasks(store, "a")
        assert (new.number > a.number, new.version) == (True, 1)

    def test_creating_none_is_nothing(self, store: Store) -> None:
        assert store.create([], "me", T0) == []

    # Update

    def test_an_update_changes_the_definition_and_counts_the_version(self, store: Store) -> None:
        (old,) = create_tasks(store, "a")
        task = Task("a", Schedule(cron="0 3 * * *"), check=True)
        (new,) = store.update([(old.number, task)], LATER)
        assert new == Entry(old.number, old.id, 2, "me", T0, LATER, task)
        assert store.find("a") == new

    def test_an_update_can_rename(self, store: Store) -> None:
        (old,) = create_tasks(store, "a")
        store.update([(old.number, a_task("z"))], LATER)
        assert store.find("a") is None
        assert task_names(store, Filter()) == ["z"]

    def test_an_update_can_give_tasks_to_another_owner(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b", owner="me")
        (new,) = store.update([(a.number, a_task("a", site="x"))], LATER, who="ann", owner="you")
        assert new == Entry(a.number, a.id, 2, "you", T0, LATER, a_task("a", site="x"))
        assert store.find("a") == new
        assert task_names(store, Filter(owner="you")) == ["a"]
        assert task_names(store, Filter(owner="me")) == ["b"]
        assert store.changes(most=1)[0].detail == "labels, owner (was me)"
        store.update([(b.number, a_task("b", enabled=False))], LATER, owner="me")
        assert store.changes(most=1)[0].action == "disabled", "the owner was this one already"

    def test_names_can_be_exchanged(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b")
        store.update([(a.number, a_task("b")), (b.number, a_task("a"))], LATER)
        assert [entry.number for entry in store.entries()] == [b.number, a.number]

    def test_a_new_name_must_be_free(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b")
        with pytest.raises(Conflict, match=r"\bb\b"):
            store.update([(a.number, a_task("b"))], LATER)
        with pytest.raises(Conflict, match=r"\bc\b"):
            store.update([(a.number, a_task("c")), (b.number, a_task("c"))], LATER)
        assert [entry.version for entry in store.entries()] == [1, 1]

    def test_an_update_may_insist_on_a_version(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b")
        store.update([(b.number, b.task)], LATER, version=1)
        with pytest.raises(Conflict, match="version 2"):
            store.update([(a.number, a_task("a", check=True)), (b.number, b.task)], LATER, version=1)
        assert store.find("a") == a, "all or none"

    def test_what_is_gone_cannot_be_updated(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b")
        store.remove([a.number], LATER)
        with pytest.raises(Conflict):
            store.update([(b.number, a_task("b", check=True)), (a.number, a.task)], LATER)
        assert store.find("b") == b

    # Delete

    def test_a_removed_task_is_gone(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b")
        store.remove([a.number], LATER)
        assert store.find("a") is None
        assert list(store.entries()) == [b]
        assert store.count() == 1

    def test_removing_what_is_not_there_is_nothing(self, store: Store) -> None:
        (a,) = create_tasks(store, "a")
        store.remove([a.number, a.number, 4711], LATER)
        store.remove([a.number], LATER)
        assert [change.action for change in store.changes()] == ["removed", "created"]

    # Dependencies

    def test_the_tasks_that_depend_on_checks_are_found(self, store: Store) -> None:
        on_gateway = replace(a_task("w", check=True), depends=("gw/ping", 'odd "name"'))
        on_any = replace(a_task("b"), depends_any=("x", "gw/ping"), when_unreachable=WhenUnreachable.SKIP)
        create_tasks(store, a_task("gw/ping", check=True), a_task("depends", depends="gw/ping"), on_gateway, on_any)
        assert [entry.task for entry in store.dependents(["gw/ping"])] == [on_any, on_gateway]
        assert [entry.task for entry in store.dependents(["x", "y"])] == [on_any]
        assert [entry.task for entry in store.dependents(['odd "name"', "odd"])] == [on_gateway]
        assert store.dependents(["w", "gw", "gw/*"]) == []
        assert store.dependents([]) == []

    def test_dependents_are_as_the_tasks_are_defined_now(self, store: Store) -> None:
        a, b = create_tasks(store, replace(a_task("a"), depends=("p",)), a_task("b"))
        (b,) = store.update([(b.number, replace(a_task("c"), depends_any=("p", "q")))], LATER)
        assert store.dependents(["p"]) == [a, b]
        store.update([(a.number, a_task("a"))], LATER)
        assert store.dependents(["p"]) == [b]
        store.remove([b.number], LATER)
        assert store.dependents(["p", "q"]) == []

    def test_a_removed_task_is_found_for_the_sake_of_its_history(self, store: Store) -> None:
        a, b = create_tasks(store, "a", "b")
        assert store.find_removed("a") is None
        store.remove([a.number], LATER)
        assert store.find_removed("a") == store.find_removed(a.id) == a
        assert store.find_removed("b") is None
        assert store.find_removed(b.id) is None
        (other,) = create_tasks(store, "a")
        assert store.find_removed("a") == a
        store.remove([other.number], Instant(LATER + 1))
        assert store.find_removed("a") == other, "the last of this name"
        assert store.find_removed(a.id) == a

    # List

    def test_tasks_come_in_the_order_of_their_names(self, store: Store) -> None:
        create_tasks(store, "b", "é", "a", "B", "a/2")
        assert task_names(store, Filter()) == ["B", "a", "a/2", "b", "é"]

    def test_pages_follow_each_other(self, store: Store) -> None:
        create_tasks(store, "a", "b", "c", "d")
        assert task_names(store, Filter(most=2)) == ["a", "b"]
        assert task_names(store, Filter(most=2, after="b")) == ["c", "d"]
        assert store.count(Filter(most=2, after="b")) == 4

    def test_by_name_id_or_pattern(self, store: Store) -> None:
        a, *_ = create_tasks(store, "a", "ab", "abc", "x[b]", "xb")
        assert task_names(store, Filter(names=("ab",))) == ["ab"]
        assert task_names(store, Filter(names=(a.id, "xb", "nobody"))) == ["a", "xb"]
        assert task_names(store, Filter(names=("ab*",))) == ["ab", "abc"]
        assert task_names(store, Filter(names=("a?",))) == ["ab"]
        assert task_names(store, Filter(names=("x[b]*",))) == ["x[b]"], "a bracket is a bracket"
        assert task_names(store, Filter(names=("A*",))) == []

    def test_by_any_number_of_names_and_some_patterns(self, store: Store) -> None:
        a, _, c, *_ = create_tasks(store, "a", "b'\"", "c", "d\0d", "é")
        many = tuple(f"nobody{i}" for i in range(5_000))
        assert task_names(store, Filter(names=(*many, "b'\"", c.id, "d\0d", "é", "é", a.id, "a"))) == [
            "a",
            "b'\"",
            "c",
            "d\0d",
            "é",
        ]
        assert task_names(store, Filter(names=("c*", "b?*", *(f"x{i}*" for i in range(98))))) == ["b'\"", "c"]
        for ask in (store.entries, store.conditions, store.count):
            with pytest.raises(Invalid, match="101 patterns"):
                ask(Filter(names=tuple(f"x{i}*" for i in range(101))))

    def test_by_what_a_name_contains(self, store: Store) -> None:
        create_tasks(store, "Web/Ping", "web_50%", "web\\x", "web-50", "ÉTÉ", "a'b", "n\0x_y", owner="me")
        assert task_names(store, Filter(contains="WEB/p")) == ["Web/Ping"], "the case does not matter"
        assert task_names(store, Filter(contains="b_5")) == ["web_50%"], (
            "what means something to a database is plain text"
        )
        assert task_names(store, Filter(contains="0%")) == ["web_50%"]
        assert task_names(store, Filter(contains="\\")) == ["web\\x"]
        assert task_names(store, Filter(contains="'")) == ["a'b"]
        assert task_names(store, Filter(contains="X_Y")) == ["n\0x_y"]
        assert task_names(store, Filter(contains="t")) == ["ÉTÉ"]
        assert task_names(store, Filter(contains="é")) == [], "only of the letters a to z"
        assert task_names(store, Filter(contains="*")) == []
        assert len(task_names(store, Filter(contains=""))) == 7

    def test_what_names_contain_can_be_counted_and_paged(self, store: Store) -> None:
        create_tasks(store, *(f"{word}{i}" for word in ("Ping-", "disk-", "xping") for i in range(3)))
        found = Filter(contains="PING", most=4)
        assert store.count(found) == 6
        assert task_names(store, found) == ["Ping-0", "Ping-1", "Ping-2", "xping0"]
        assert task_names(store, replace(found, after="xping0")) == ["xping1", "xping2"]
        assert task_names(store, Filter(contains="ping", names=("*1",))) == ["Ping-1", "xping1"]

    def test_no_name_contains_more_than_a_name_has_room_for(self, store: Store) -> None:
        for ask in (store.entries, store.conditions, store.count):
            with pytest.raises(Invalid, match="256"):
                ask(Filter(contains="a" * 257))

    def test_by_owner(self, store: Store) -> None:
        create_tasks(store, "a", owner="me")
        create_tasks(store, "b", owner="you")
        assert task_names(store, Filter(owner="you")) == ["b"]

    def test_by_labels_all_of_them(self, store: Store) -> None:
        odd = {"a.b": '"', "1": "\\", "é": "[x]"}
        create_tasks(
            store, a_task("a", site="x", tier="web"), a_task("b", site="x"), replace(a_task("c"), labels=odd), "d"
        )
        assert task_names(store, Filter(labels={"site": "x"})) == ["a", "b"]
        assert task_names(store, Filter(labels={"site": "x", "tier": "web"})) == ["a"]
        assert task_names(store, Filter(labels={"site": "y"})) == []
        for key, value in odd.items():
            assert task_names(store, Filter(labels={key: value})) == ["c"]

    def test_by_state(self, store: Store) -> None:
        tasks = [a_task(n, check=n != "task", enabled=n != "off") for n in ("good", "bad", "new", "off", "task")]
        number = {entry.task.name: entry.number for entry in store.create(tasks, "me", T0)}
        ran = [number[name] for name in ("good", "bad", "task")]
        store.record(
            Batch(standings=[a_progress_record(n) for n in number.values()], claims=list(map(a_claim, ran)))
        ).result()
        failed = [a_finish(n, outcome="failed", state=2, notable=True) for n in ran[1:]]
        store.record(Batch(finishes=[a_finish(ran[0]), *failed], claims=[a_claim(number["new"])])).result()
        assert task_names(store, Filter(state="ok")) == ["good"]
        assert task_names(store, Filter(state="critical")) == ["bad"], "only checks have a state"
        assert task_names(store, Filter(state="warning")) == []
        assert task_names(store, Filter(state="unchecked")) == ["new", "off"]
        assert task_names(store, Filter(state="failed")) == ["bad", "task"]
        assert task_names(store, Filter(state="running")) == ["new"]
        assert task_names(store, Filter(state="disabled")) == ["off"]

    def test_a_problem_is_a_check_that_is_hard_and_not_ok_or_a_task_that_failed_for_good(self, store: Store) -> None:
        names = ("again", "done", "hard", "job", "ok", "soft", "unchecked")
        tasks = [a_task(n, check=n not in ("again", "job", "done")) for n in names]
        number = {entry.task.name: entry.number for entry in store.create(tasks, "me", T0)}
        ran = {name: n for name, n in number.items() if name != "unchecked"}
        claims = list(map(a_claim, ran.values()))
        store.record(Batch(standings=[a_progress_record(n) for n in number.values()], claims=claims)).result()
        how = {"hard": (2, True), "soft": (2, False), "job": (0, True), "again": (0, True)}
        finishes = [
            a_finish(n, outcome="failed", notable=True, state=how[name][0])._replace(hard=how[name][1])
            if name in how
            else a_finish(n)
            for name, n in ran.items()
        ]
        problems = [a_problem_change(ran["job"], cause=Cause.FAILED), a_problem_change(ran["hard"])]
        store.record(Batch(finishes=finishes, problems=problems)).result()
        assert task_names(store, Filter(state="failed")) == ["again", "hard", "job", "soft"]
        assert task_names(store, Filter(state="problem")) == ["hard", "job"], "the others try again"

    def test_paused_is_by_hand_and_disabled_is_both(self, store: Store) -> None:
        store.create([a_task("on"), a_task("off", enabled=False), replace(a_task("resting"), paused=True)], "me", T0)
        assert task_names(store, Filter(state="paused")) == ["resting"]
        assert task_names(store, Filter(state="disabled")) == ["off", "resting"]

    def test_a_state_that_does_not_exist_is_refused(self, store: Store) -> None:
        for ask in (store.entries, store.conditions, store.count):
            with pytest.raises(Invalid, match="running"):
                ask(Filter(state="sleepy"))

    def test_everything_that_is_said_must_fit(self, store: Store) -> None:
        create_tasks(store, a_task("a", site="x"), a_task("b", site="x"), owner="me")
        create_tasks(store, a_task("c", site="x"), owner="you")
        assert task_names(store, Filter(names=("a", "c"), owner="me", labels={"site": "x"})) == ["a"]

    # Periods and settings

    def test_periods_come_change_and_go(self, store: Store) -> None:
        work, night = Period(ranges=("monday-friday 09:00-17:00",)), Period(ranges=("22:00-06:00",))
        store.set_periods({"work": work, "night": night}, "me", T0)
        assert store.periods() == {"work": ("me", work), "night": ("me", night)}
        store.set_periods({"work": night, "night": None, "nobody": None}, "you", T0)
        assert store.periods() == {"work": ("you", night)}

    def test_settings_come_change_and_go(self, store: Store) -> None:
        given = store.settings("")  # a new store may have some of its own
        store.set_settings({"a": "1", "b/1": "2", "b/2": "", "B/3": "4"})
        assert store.setting("a") == "1"
        assert store.settings("b/") == {"b/1": "2", "b/2": ""}
        store.set_settings({"a": None, "b/1": "é", "nobody": None})
        assert store.setting("a") is None
        assert store.settings("") == given | {"B/3": "4", "b/1": "é", "b/2": ""}

    # Audit

    def test_the_audit_tells_who_changed_what_newest_first(self, store: Store) -> None:
        (a,) = store.create([a_task("a")], "me", T0, who="ann")
        store.update([(a.number, a_task("a", enabled=False))], LATER, who="bob")
        store.update([(a.number, a_task("b", enabled=False, site="x"))], LATER, who="bob")
        store.remove([a.number], LATER, who="cyd")
        told = [(change.at, change.who, change.action, change.name) for change in store.changes()]
        assert told == [
            (LATER, "cyd", "removed", "b"),
            (LATER, "bob", "changed", "b"),
            (LATER, "bob", "disabled", "a"),
            (T0, "ann", "created", "a"),
        ]
        assert "labels" in store.changes()[1].detail
        assert len(store.changes(name="a")) == 2
        assert [change.action for change in store.changes(most=1)] == ["removed"]

    def test_the_audit_says_from_what_to_what(self, store: Store) -> None:
        env = {"HOME": "/srv", "PASSWORD": "hunter2", "KEY": "file:/run/key"}
        task = replace(a_task("a", site="x"), job=Job(command=("noop", "-v"), env=env))
        (entry,) = store.create([task], "me", T0, "ann")
        job = Job(command=("true",), env={"PASSWORD": "hunter3", "KEY": "env:KEY", "NEW": "secret"})
        after = replace(task, schedule=Schedule(every=2 * MINUTE, phase=0), job=job, labels={"site": "y"}, weight=2.5)
        store.update([(entry.number, after)], LATER, "bob", owner="you")
        assert {field.key: field[1:] for field in store.changes(most=1)[0].fields} == {
            "every": (MINUTE, 2 * MINUTE),
            "command": (["noop", "-v"], ["true"]),
            "weight": (None, 2.5),
            "labels.site": ("x", "y"),
            "env.HOME": (HIDDEN_VALUE, None),
            "env.PASSWORD": (HIDDEN_VALUE, HIDDEN_VALUE),
            "env.KEY": ("file:/run/key", "env:KEY"),
            "env.NEW": (None, HIDDEN_VALUE),
            "owner": ("me", "you"),
        }
        store.remove([entry.number], LATER, "cyd")
        gone, _, new = store.changes()
        assert ("command", None, ["noop", "-v"]) in new.fields
        assert ("command", ["true"], None) in gone.fields
        assert not any(secret in repr(store.changes()) for secret in ("hunter", "secret", "/srv"))

    def test_the_audit_keeps_the_beginning_of_long_values_and_of_many(self, store: Store) -> None:
        labels = {f"k{i}": "v" for i in range(200)}
        task = replace(a_task("a"), labels=labels, job=Job(command=("x" * 50_000,)))
        store.create([task], "me", T0)
        (change,) = store.changes()
        assert len(change.fields) == 51
        assert change.fields[-1].new == "and 153 more keys"
        assert len(repr(change)) < 10_000

    def test_of_many_tasks_at_once_the_audit_has_the_names(self, store: Store) -> None:
        create_tasks(store, *map(str, range(1_001)))
        assert {change.fields for change in store.changes(most=2_000)} == {()}
        assert len(store.changes(most=2_000)) == 1_001

    def test_changes_of_periods_are_told_by_what_they_say(self, store: Store) -> None:
        for ranges in (("monday",), ("tuesday",)):
            store.set_periods({"work": Period(ranges=ranges)}, "me", T0, who="ann")
        assert store.changes(most=1)[0].fields == (FieldChange("ranges", ["monday"], ["tuesday"]),)

    def test_the_audit_is_read_by_name_person_and_time_a_page_at_a_time(self, store: Store) -> None:
        for i in range(10):
            who, name = ("ann", "bob")[i % 2], ("a", "b", "c")[i % 3]
            store.note([Change(Instant(T0 + i), who, "forced", name, str(i))])

        def found(**only: Any) -> list[str]:
            return [change.detail for _, change in store.audit(AuditFilter(**only))]

        assert found() == list("9876543210")
        assert found(name="a") == list("9630")
        assert found(who="bob") == list("97531")
        assert found(who="bob", name="a") == list("93")
        assert found(since=Instant(T0 + 7)) == list("987")
        assert found(who="nobody") == found(name="nothing") == []
        pages, before = [], None
        while page := store.audit(AuditFilter(who="ann", before=before, most=2)):
            pages.append([change.detail for _, change in page])
            before = page[-1].number
        assert pages == [["8", "6"], ["4", "2"], ["0"]]

    def test_the_audit_takes_notes(self, store: Store) -> None:
        forced = Change(T0, "ann", "forced", "a", "by hand", (FieldChange("slots", None, 4),))
        store.note([forced])
        assert store.changes() == [forced]

    def test_a_refused_change_is_not_in_the_audit(self, store: Store) -> None:
        with pytest.raises(Conflict):
            create_tasks(store, "a", "a")
        assert store.changes() == []

    def test_changes_of_periods_are_in_the_audit_if_there_are_any(self, store: Store) -> None:
        for period in (Period(), Period(), Period(zone="Europe/Berlin"), None):
            store.set_periods({"work": period}, "me", T0, who="ann")
        told = [(change.who, change.action, change.name) for change in store.changes()]
        assert told == [("ann", action, "period work") for action in ("removed", "changed", "created")]
