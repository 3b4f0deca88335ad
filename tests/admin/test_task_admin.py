"""Every change passes over the desk: what it refuses changes nothing, and what it does it tells once, in order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from evenbeat.admin.file_owner import file_owner_of
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.placement import fill_wheel
from evenbeat.load.config import BadFileError, Config
from evenbeat.load.task_keys import task_from_table, task_to_table
from evenbeat.model import HOUR, MINUTE, SECOND, Entry, Instant, Invalid, Period, Task
from evenbeat.store.contract import Conflict, Filter, StoreError
from evenbeat.store.memory import MemoryStore
from evenbeat.wire.replies import ChangeResult

NOW = Instant(1_700_000_000 * SECOND)


def task(name: str, **keys: Any) -> Task:
    return task_from_table(name, {"every": "1m", "command": ["true"], **keys}, check=False)


class Office:
    """A desk, and somebody who listens to what it does."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.desk = TaskAdmin(self.store, lambda: NOW)
        self.told: list[ChangeResult] = []
        self.desk.on_changed = self.told.append
        self._folder = folder

    def file(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text)
        return path

    def apply(self, *files: Path, anew: bool = False) -> ChangeResult:
        return self.desk.apply(files, "ana", anew=anew)

    def names(self, **only: Any) -> list[str]:
        return [entry.task.name for entry in self.store.entries(Filter(**only))]

    def entry(self, name: str) -> Entry:
        return self.desk.find_or_raise(name)

    def everything(self) -> object:
        """All that could have changed."""
        kept = self.store.settings("limits:"), self.store.settings("node:")
        return list(self.store.entries()), self.store.periods(), *kept

    def must_have_a_right_wheel(self) -> None:
        before = self.desk._phases._wheel
        if before is not None:
            assert before.load.tolist() == fill_wheel(e.task for e in self.store.entries()).load.tolist()


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def tasks(*names: str, every: str = "1m", more: str = "") -> str:
    return more + "".join(f'[tasks.{name}]\nevery = "{every}"\ncommand = ["true"]\n' for name in names)


OFFICE = '[periods.office]\nranges = ["monday-friday 09:00-17:00"]\n'
LIMIT = "[limits]\ndb = 4\n"
USES = '[tasks.report]\nevery = "1h"\nperiod = "office"\nlimit = "db"\ncommand = ["true"]\n'


class TestSingleTasks:
    def test_a_new_task_gets_its_phase_and_its_owner(self, office: Office) -> None:
        (entry,) = office.desk.add([task("a")], "cli:ana", "ana").created
        assert entry.owner == "cli:ana"
        assert entry.task.schedule.phase is not None
        assert office.entry("a") == entry
        assert [(c.who, c.action, c.name) for c in office.store.changes()] == [("ana", "created", "a")]

    def test_a_name_that_is_taken_is_refused_and_weighs_nothing(self, office: Office) -> None:
        office.desk.add([task("a")], "cli", "ana")
        before = office.everything()
        with pytest.raises(Conflict, match="there is a task of this name already: a"):
            office.desk.add([task("b", weight=100), task("a")], "cli", "ana")
        assert office.everything() == before
        office.desk.add([task("c")], "cli", "ana")
        office.must_have_a_right_wheel()

    def test_a_store_that_fails_leaves_the_wheel_right(self, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
        office.desk.add([task("a")], "cli", "ana")

        def full(*_: object) -> list[Entry]:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch, pytest.raises(StoreError):
            patch.setattr(office.store, "create", full)
            office.desk.add([task("b", weight=100)], "cli", "ana")
        office.desk.add([task("c")], "cli", "ana")
        office.must_have_a_right_wheel()

    @pytest.mark.parametrize(
        ("keys", "words"),
        [
            ({"period": "office"}, "period: there is no period 'office', known: none is defined"),
            ({"limit": "db"}, "limit: there is no limit 'db', known: none is defined"),
        ],
    )
    def test_what_a_task_refers_to_must_be_there(self, office: Office, keys: dict[str, Any], words: str) -> None:
        with pytest.raises(Invalid) as refused:
            office.desk.add([task("a", **keys)], "cli", "ana")
        assert str(refused.value) == words
        assert office.names() == []

    def test_a_task_must_have_something_to_run(self, office: Office) -> None:
        from evenbeat.model import Schedule

        with pytest.raises(Invalid, match="there is nothing to run, say `command`, `function` or `passive = true`"):
            office.desk.add([Task("a", Schedule(every=MINUTE))], "cli", "ana")

    def test_an_edit_keeps_the_phase_and_the_pause(self, office: Office) -> None:
        office.desk.add([task("a")], "cli", "ana")
        office.desk.pause(Filter(names=("a",)), "ana", paused=True)
        before = office.entry("a").task
        (after,) = office.desk.set("a", task("a", priority=3), "bob").changed
        assert (after.task.schedule, after.task.paused, after.task.priority) == (before.schedule, True, 3)
        assert next((c.who, c.action) for c in office.store.changes()) == ("bob", "changed")

    def test_another_interval_gets_another_phase_and_the_wheel_is_right(self, office: Office) -> None:
        office.desk.add([task(f"t{i}") for i in range(10)], "cli", "ana")
        (after,) = office.desk.set("t3", task("t3", every="5m", weight=3), "ana").changed
        assert after.task.schedule.phase is not None
        office.must_have_a_right_wheel()
        office.desk.remove(Filter(names=("t1", "t3")), "ana")
        office.must_have_a_right_wheel()

    def test_an_edit_that_changes_nothing_is_none(self, office: Office) -> None:
        office.desk.add([task("a")], "cli", "ana")
        assert office.desk.set("a", task("a"), "ana") == ChangeResult(unchanged=1)
        assert office.entry("a").version == 1

    def test_an_edit_of_what_somebody_else_has_edited_is_refused_and_leaves_the_wheel_right(
        self, office: Office
    ) -> None:
        office.desk.add([task("a"), task("b")], "cli", "ana")
        office.desk.set("a", task("a", priority=1), "bob", 1)
        before = office.everything()
        with pytest.raises(Conflict):
            office.desk.set("a", task("a", every="5m"), "ana", 1)
        with pytest.raises(Conflict):
            office.desk.set("a", task("b", every="5m"), "ana")
        assert office.everything() == before
        office.desk.add([task("c")], "cli", "ana")
        office.must_have_a_right_wheel()

    def test_there_is_no_such_task(self, office: Office) -> None:
        with pytest.raises(Invalid, match="there is no task 'a'"):
            office.desk.set("a", task("a"), "ana")
        with pytest.raises(Invalid, match="there is no task 'a'"):
            office.desk.select_forced(["a"], "ana")

    def test_only_who_fits_is_removed_or_paused(self, office: Office) -> None:
        office.desk.add([task("a"), task("ab"), task("b")], "cli", "ana")
        changed = office.desk.pause(Filter(names=("a*",)), "ana", paused=True)
        assert [e.task.name for e in changed.changed] == ["a", "ab"]
        assert office.desk.pause(Filter(names=("a*",)), "ana", paused=True).unchanged == 2
        assert [e.task.name for e in office.desk.remove(Filter(names=("a*",)), "ana").removed] == ["a", "ab"]
        assert office.names() == ["b"]

    def test_a_forced_run_is_in_the_audit(self, office: Office) -> None:
        office.desk.add([task("a")], "cli", "ana")
        office.desk.select_forced(["a"], "bob")
        assert next((c.who, c.action, c.name) for c in office.store.changes()) == ("bob", "forced", "a")

    def test_each_change_is_told_once_in_the_order_in_which_it_was_done(self, office: Office) -> None:
        office.desk.add([task("a")], "cli", "ana")
        office.desk.set("a", task("a", priority=1), "ana")
        office.desk.pause(Filter(names=("a",)), "ana", paused=True)
        office.desk.remove(Filter(names=("a",)), "ana")
        assert [(len(t.created), len(t.changed), len(t.removed)) for t in office.told] == [
            (1, 0, 0),
            (0, 1, 0),
            (0, 1, 0),
            (0, 0, 1),
        ]


class TestPhases:
    def test_a_phase_given_by_hand_is_undone_without_it(self, office: Office) -> None:
        office.desk.add([task("a"), task("b", weight=30)], "cli", "ana")
        (given,) = office.desk.set("a", task("a", phase="7s"), "ana").changed
        assert (given.task.schedule.phase, given.task.schedule.pinned) == (7 * SECOND, True)
        (back,) = office.desk.set("a", task("a"), "ana").changed
        assert back.task.schedule.phase is not None
        assert (back.task.schedule.phase == 7 * SECOND, back.task.schedule.pinned) == (False, False)
        office.must_have_a_right_wheel()

    @pytest.mark.parametrize("keys", [{}, {"phase": "7s"}])
    def test_a_document_that_is_given_back_changes_nothing(self, office: Office, keys: dict[str, str]) -> None:
        office.desk.add([task("a", **keys)], "cli", "ana")
        before = office.entry("a")
        assert office.desk.set(
            "a", task_from_table("a", task_to_table(before.task), check=False), "ana"
        ) == ChangeResult(unchanged=1)
        assert office.entry("a") == before
        assert office.desk.set("a", task("a"), "ana").unchanged == (not keys)

    def test_a_file_that_no_longer_gives_a_phase_has_it_placed(self, office: Office) -> None:
        office.apply(office.file("a.toml", tasks("a", more="") + 'phase = "7s"\n'))
        assert office.entry("a").task.schedule.pinned
        office.apply(office.file("a.toml", tasks("a")))
        assert not office.entry("a").task.schedule.pinned
        office.must_have_a_right_wheel()


class TestTheFileWins:
    """Whatever was changed by hand, when the file is next applied it is as the file says, except for pauses."""

    TEXT = OFFICE + LIMIT + tasks("a", "b")

    @pytest.mark.parametrize(
        "edit",
        [
            lambda desk: desk.set("a", task("a", priority=3), "bob"),
            lambda desk: desk.set("a", task("a", phase="1s"), "bob"),
            lambda desk: desk.set("a", task("c"), "bob"),
            lambda desk: desk.remove(Filter(names=("b",)), "bob"),
            lambda desk: desk.set_periods({"office": Period(ranges=("sunday",))}, "api", "bob"),
            lambda desk: desk.remove_period("office", "bob"),
        ],
    )
    def test_an_unchanged_file_undoes_it(self, office: Office, edit: Callable[[TaskAdmin], object]) -> None:
        file = office.file("a.toml", self.TEXT)
        office.apply(file)
        before = [entry.task for entry in office.store.entries()], office.store.periods()
        edit(office.desk)
        assert ([entry.task for entry in office.store.entries()], office.store.periods()) != before
        office.apply(file)
        after = [entry.task for entry in office.store.entries()], office.store.periods()
        assert [_without_phase(t) for t in after[0]] == [_without_phase(t) for t in before[0]]
        assert after[1] == before[1]
        assert office.apply(file).unchanged == 2, "and nothing is left to do"

    def test_a_task_that_was_given_to_it_by_hand_goes(self, office: Office) -> None:
        file = office.file("a.toml", self.TEXT)
        office.apply(file)
        office.desk.add([task("x")], file_owner_of(file), "bob")
        assert [entry.task.name for entry in office.apply(file).removed] == ["x"]

    def test_a_pause_stays(self, office: Office) -> None:
        file = office.file("a.toml", self.TEXT)
        office.apply(file)
        office.desk.pause(Filter(names=("a",)), "bob", paused=True)
        office.apply(file)
        assert office.entry("a").task.paused

    def test_what_belongs_to_others_leaves_the_file_alone(
        self, office: Office, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = office.file("a.toml", self.TEXT)
        office.apply(file)
        office.desk.add([task("mine")], "cli:bob", "bob")
        office.desk.set("mine", task("mine", priority=1), "bob")
        monkeypatch.setattr(office.desk, "load", None)
        office.apply(file)


def _without_phase(said: Task) -> Task:
    return replace(said, schedule=replace(said.schedule, phase=None))


class TestFiles:
    def test_a_file_creates_changes_and_removes_its_own_tasks_only(self, office: Office) -> None:
        office.desk.add([task("cli")], "cli", "ana")
        other = office.file("other.toml", tasks("other"))
        file = office.file("a.toml", tasks("a", "b", "c"))
        assert len(office.apply(other, file).created) == 4
        office.file("a.toml", tasks("a") + tasks("b", every="5m") + tasks("d"))
        changed = office.apply(file)
        assert [e.task.name for e in changed.created] == ["d"]
        assert [e.task.name for e in changed.changed] == ["b"]
        assert [e.task.name for e in changed.removed] == ["c"]
        assert changed.unchanged == 1
        assert office.names() == ["a", "b", "cli", "d", "other"]
        assert office.names(owner=file_owner_of(file)) == ["a", "b", "d"]
        office.must_have_a_right_wheel()

    def test_a_file_that_is_as_it_was_is_not_read(self, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
        file = office.file("a.toml", tasks("a"))
        office.apply(file)
        with monkeypatch.context() as patch:
            patch.setattr(office.desk, "load", lambda _: pytest.fail("it was read"))
            assert office.apply(file) == ChangeResult(unchanged=1)
        office.desk.remove(Filter(names=("a",)), "ana")
        assert [e.task.name for e in office.apply(file, anew=True).created] == ["a"]

    def test_for_a_live_node_many_changes_come_in_parts_and_in_order(self, office: Office) -> None:
        office.desk.part_size = 2
        file = office.file("a.toml", tasks("a", "b", "c", "d", "e"))
        created = office.apply(file).created
        office.file("a.toml", tasks("a", "b", "c", "f", every="5m"))
        changed = office.apply(file)
        told = [
            [(kind, e.task.name) for kind in ("removed", "changed", "created") for e in getattr(part, kind)]
            for part in office.told
        ]
        assert told == [
            [("created", "a"), ("created", "b")],
            [("created", "c"), ("created", "d")],
            [("created", "e")],
            [("removed", "d"), ("removed", "e")],
            [("changed", "a"), ("changed", "b")],
            [("changed", "c")],
            [("created", "f")],
        ]
        assert [e.task.name for e in created] == ["a", "b", "c", "d", "e"]
        whole = [[e.task.name for e in some] for some in (changed.removed, changed.changed, changed.created)]
        assert whole == [["d", "e"], ["a", "b", "c"], ["f"]]
        office.must_have_a_right_wheel()

    def test_who_was_paused_by_hand_stays_so(self, office: Office) -> None:
        file = office.file("a.toml", tasks("a"))
        office.apply(file)
        office.desk.pause(Filter(names=("a",)), "ana", paused=True)
        office.file("a.toml", tasks("a", every="5m"))
        office.apply(file)
        assert office.entry("a").task.paused

    def test_a_file_that_is_read_again_moves_no_phase(self, office: Office) -> None:
        file = office.file("a.toml", tasks(*(f"t{i}" for i in range(50))))
        office.apply(file)
        before = list(office.store.entries())
        changed = office.apply(file, anew=True)
        assert (changed.unchanged, list(office.store.entries())) == (50, before)
        office.file("a.toml", tasks(*(f"t{i}" for i in range(0, 50, 2)), "new"))
        office.apply(file)
        phases = {e.task.name: e.task.schedule.phase for e in before}
        assert all(e.task.schedule.phase == phases[e.task.name] for e in office.store.entries() if e.task.name != "new")

    @pytest.mark.parametrize(
        "text",
        [
            tasks("b") + '[tasks.a]\nevery = "5 parsecs"\ncommand = ["true"]\n',
            tasks("b") + '[tasks.a]\nevery = "5m"\nperiod = "nobody"\ncommand = ["true"]\n',
            tasks("b") + '[tasks.a]\nevery = "5m"\nlimit = "nobody"\ncommand = ["true"]\n',
            "[tasks\n",
        ],
    )
    def test_a_bad_file_changes_nothing_not_even_with_a_good_one(self, office: Office, text: str) -> None:
        good, bad = office.file("good.toml", tasks("good")), office.file("bad.toml", tasks("a"))
        office.apply(good, bad)
        before = office.everything()
        office.file("good.toml", tasks("good", "better"))
        office.file("bad.toml", text)
        with pytest.raises((BadFileError, Invalid), match=r"bad\.toml"):
            office.apply(good, bad)
        assert office.everything() == before
        office.file("bad.toml", tasks("a"))
        assert [e.task.name for e in office.apply(good, bad).created] == ["better"]

    def test_a_file_that_is_not_there_is_named(self, office: Office, tmp_path: Path) -> None:
        with pytest.raises(BadFileError, match=r"gone\.toml"):
            office.apply(tmp_path / "gone.toml")

    @pytest.mark.parametrize("together", [True, False])
    def test_two_files_with_the_same_name_are_refused_before_anything_is_done(
        self, office: Office, together: bool
    ) -> None:
        a, b = office.file("a.toml", tasks("x", "y")), office.file("b.toml", tasks("z"))
        office.apply(a, b)
        office.file("b.toml", tasks("x"))
        if together:
            office.file("a.toml", tasks("x", more="# the same\n"))
        before = office.everything()
        with pytest.raises(Conflict, match=r"b\.toml:1:2: the name 'x' is taken by a task of /.*/a\.toml"):
            office.apply(a, b)
        assert office.everything() == before

    def test_a_name_that_somebody_has_typed_is_not_taken_from_them(self, office: Office) -> None:
        office.desk.add([task("x")], "cli:ana", "ana")
        with pytest.raises(Conflict, match="is taken by a task of cli:ana"):
            office.apply(office.file("a.toml", tasks("w", "x")))
        assert office.names() == ["x"]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_a_task_can_move_from_one_file_to_the_other(self, office: Office, order: tuple[int, int]) -> None:
        files = office.file("a.toml", tasks("x", "y")), office.file("b.toml", tasks("z"))
        office.apply(*files)
        office.desk.pause(Filter(names=("x",)), "ana", paused=True)
        before = office.entry("x")
        office.file("a.toml", tasks("y"))
        office.file("b.toml", tasks("x", "z"))
        changed = office.apply(*(files[i] for i in order))
        assert (changed.removed, changed.created, [e.task.name for e in changed.changed]) == ([], [], ["x"])
        after = office.entry("x")
        assert (after.owner, after.number, after.id) == (file_owner_of(files[1]), before.number, before.id)
        assert after.task == before.task, "at the same place, and still paused"
        office.must_have_a_right_wheel()

    def test_a_limit_of_one_file_serves_the_tasks_of_another(self, office: Office) -> None:
        defines, uses = office.file("a.toml", OFFICE + LIMIT), office.file("b.toml", OFFICE + USES)
        changed = office.apply(uses, defines)
        assert changed.settings
        assert office.told[0].settings, "what tasks refer to is there before them"
        assert office.desk.limits() == {"db": 4}
        assert office.names() == ["report"]

    @pytest.mark.parametrize(("text", "words"), [(OFFICE, "limit 'db'"), (LIMIT, "period 'office'")])
    def test_what_tasks_of_others_use_cannot_go(self, office: Office, text: str, words: str) -> None:
        defines = office.file("a.toml", OFFICE + LIMIT)
        office.apply(defines)
        uses = task("report", period="office", limit="db")
        office.desk.add([uses], "cli:ana", "ana")
        before = office.everything()
        office.file("a.toml", text)
        with pytest.raises(Conflict, match=f"the {words} cannot go: the task 'report' of cli:ana uses it"):
            office.apply(defines)
        assert office.everything() == before

    def test_what_nobody_uses_any_more_goes(self, office: Office) -> None:
        file = office.file("a.toml", OFFICE + LIMIT + USES)
        office.apply(file)
        office.file("a.toml", tasks("a"))
        assert office.apply(file).settings
        assert office.store.periods() == {}
        assert office.desk.limits() == {}
        assert [t.settings for t in office.told][-1], "after the tasks that used it"

    def test_a_file_cannot_use_a_limit_that_it_does_not_declare_any_more(self, office: Office) -> None:
        file = office.file("a.toml", OFFICE + LIMIT + USES)
        office.apply(file)
        before = office.everything()
        office.file("a.toml", OFFICE + USES)
        with pytest.raises((Invalid, BadFileError), match=r"a\.toml.*there is no limit 'db'"):
            office.apply(file)
        assert office.everything() == before

    def test_a_period_that_another_one_needs_cannot_go(self, office: Office) -> None:
        defines = office.file("a.toml", OFFICE)
        office.apply(defines)
        office.store.set_periods({"free": Period(exclude=("office",))}, "cli", NOW)
        before = office.everything()
        office.file("a.toml", tasks("a"))
        with pytest.raises(Invalid, match="office"):
            office.apply(defines)
        assert office.everything() == before

    def test_two_files_may_not_mean_different_things_by_one_name(self, office: Office) -> None:
        a = office.file("a.toml", OFFICE + LIMIT + "[node]\nmax_concurrent = 6\n")
        office.apply(a)
        for text, words in (
            (OFFICE.replace("09:00", "10:00"), r"1:2: periods.office: /.*/a\.toml defines the period 'office' diff"),
            (LIMIT.replace("4", "5"), r"2:6: limits.db: 5 here, 4 in /.*/a\.toml"),
            ("[node]\nmax_concurrent = 5\n", r"2:18: node.max_concurrent: 5 here, 6 in /.*/a\.toml"),
        ):
            with pytest.raises(Conflict, match=rf"b\.toml:{words}"):
                office.apply(office.file("b.toml", text))
        assert not office.apply(office.file("b.toml", OFFICE + LIMIT)).created

    def test_a_period_moves_from_one_file_to_the_other(self, office: Office) -> None:
        a, b = office.file("a.toml", OFFICE + LIMIT + USES), office.file("b.toml", tasks("b"))
        office.apply(a, b)
        office.file("a.toml", tasks("a"))
        office.file("b.toml", OFFICE + LIMIT + USES)
        office.apply(b, a)
        assert list(office.store.periods()) == ["office"]
        assert office.desk.limits() == {"db": 4}

    def test_an_edited_period_is_told(self, office: Office) -> None:
        file = office.file("a.toml", OFFICE)
        office.apply(file)
        office.file("a.toml", OFFICE.replace("09:00", "10:00"))
        changed = office.apply(file)
        assert changed.settings
        assert not office.apply(file, anew=True).settings

    def test_settings_of_the_node_come_from_files(self, office: Office) -> None:
        file = office.file("a.toml", '[node]\nmax_concurrent = 7\nkeep = "1h"\n')
        assert office.apply(file).settings
        assert (office.desk.settings().max_concurrent, office.desk.settings().keep) == (7, HOUR)
        office.file("a.toml", tasks("a"))
        assert office.apply(file).settings
        assert office.desk.settings().max_concurrent is None

    def test_a_step_that_was_done_before_the_store_failed_is_told(
        self, office: Office, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = office.file("a.toml", tasks("old"))
        office.apply(file)
        office.told.clear()
        office.file("a.toml", tasks("new"))

        def full(*_: object) -> list[Entry]:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch, pytest.raises(StoreError):
            patch.setattr(office.store, "create", full)
            office.apply(file)
        assert [e.task.name for t in office.told for e in t.removed] == ["old"]
        office.apply(file)
        assert office.names() == ["new"]
        office.must_have_a_right_wheel()

    def test_a_program_declares_as_a_file_does(self, office: Office) -> None:
        office.desk.apply_config("app:x", Config((task("a"), task("b")), {}, {}, None), "program")
        changed = office.desk.apply_config("app:x", Config((task("b"),), {}, {}, None), "program")
        assert [e.task.name for e in changed.removed] == ["a"]
        assert changed.unchanged == 1
        with pytest.raises(Conflict):
            office.desk.apply_config(
                "app:x", Config((task("c"), replace(task("c"), priority=1)), {}, {}, None), "program"
            )
        assert office.names() == ["b"]

    def test_a_file_that_was_declared_from_elsewhere_is_read_again(self, office: Office) -> None:
        file = office.file("a.toml", tasks("a"))
        office.apply(file)
        office.desk.apply_configs({file_owner_of(file): Config((task("b"),), {}, {}, None)}, "bo")
        assert office.names() == ["b"]
        office.apply(file)
        assert office.names() == ["a"]

    def test_the_audit_knows_who_applied_it(self, office: Office) -> None:
        office.apply(office.file("a.toml", OFFICE + tasks("a")))
        assert {(c.who, c.action, c.name) for c in office.store.changes()} >= {("ana", "created", "a")}
