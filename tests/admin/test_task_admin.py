"""Every change passes the task administration: a refused one changes nothing, others are announced once, in order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tasks_of_files import file_owner_of
from evenbeat.core.placement import fill_wheel
from evenbeat.load.config import BadFileError, Config
from evenbeat.load.task_tables import task_from_table, task_to_table
from evenbeat.model import HOUR, MINUTE, SECOND, Entry, Instant, Invalid, Period, Task
from evenbeat.store.contract import Conflict, Filter, StoreError
from evenbeat.store.memory import MemoryStore
from evenbeat.wire.replies import ChangeResult

NOW = Instant(1_700_000_000 * SECOND)


def task(name: str, **keys: Any) -> Task:
    return task_from_table(name, {"every": "1m", "command": ["true"], **keys}, check=False)


class AnnouncingAdmin:
    """A task administration, and the changes it has announced."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.admin = TaskAdmin(self.store, lambda: NOW)
        self.announced: list[ChangeResult] = []
        self.admin.on_changed = self.announced.append
        self._folder = folder

    def file(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text)
        return path

    def apply(self, *files: Path, anew: bool = False) -> ChangeResult:
        return self.admin.apply(files, "ana", anew=anew)

    def names(self, **only: Any) -> list[str]:
        return [entry.task.name for entry in self.store.entries(Filter(**only))]

    def entry(self, name: str) -> Entry:
        return self.admin.find_or_raise(name)

    def everything(self) -> object:
        """All that could have changed."""
        kept = self.store.settings("limits:"), self.store.settings("node:")
        return list(self.store.entries()), self.store.periods(), *kept

    def must_have_a_right_wheel(self) -> None:
        before = self.admin._phases._wheel
        if before is not None:
            assert before.load.tolist() == fill_wheel(e.task for e in self.store.entries()).load.tolist()


@pytest.fixture
def announcing(tmp_path: Path) -> AnnouncingAdmin:
    return AnnouncingAdmin(tmp_path)


def tasks(*names: str, every: str = "1m", more: str = "") -> str:
    return more + "".join(f'[tasks.{name}]\nevery = "{every}"\ncommand = ["true"]\n' for name in names)


OFFICE = '[periods.office]\nranges = ["monday-friday 09:00-17:00"]\n'
LIMIT = "[limits]\ndb = 4\n"
USES = '[tasks.report]\nevery = "1h"\nperiod = "office"\nlimit = "db"\ncommand = ["true"]\n'


class TestSingleTasks:
    def test_a_new_task_gets_its_phase_and_its_owner(self, announcing: AnnouncingAdmin) -> None:
        (entry,) = announcing.admin.add([task("a")], "cli:ana", "ana").created
        assert entry.owner == "cli:ana"
        assert entry.task.schedule.phase is not None
        assert announcing.entry("a") == entry
        assert [(c.who, c.action, c.name) for c in announcing.store.changes()] == [("ana", "created", "a")]

    def test_a_name_that_is_taken_is_refused_and_weighs_nothing(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("a")], "cli", "ana")
        before = announcing.everything()
        with pytest.raises(Conflict, match="there is a task of this name already: a"):
            announcing.admin.add([task("b", weight=100), task("a")], "cli", "ana")
        assert announcing.everything() == before
        announcing.admin.add([task("c")], "cli", "ana")
        announcing.must_have_a_right_wheel()

    def test_a_store_that_fails_leaves_the_wheel_right(
        self, announcing: AnnouncingAdmin, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announcing.admin.add([task("a")], "cli", "ana")

        def full(*_: object) -> list[Entry]:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch, pytest.raises(StoreError):
            patch.setattr(announcing.store, "create", full)
            announcing.admin.add([task("b", weight=100)], "cli", "ana")
        announcing.admin.add([task("c")], "cli", "ana")
        announcing.must_have_a_right_wheel()

    @pytest.mark.parametrize(
        ("keys", "words"),
        [
            ({"period": "office"}, "period: there is no period 'office', known: none is defined"),
            ({"limit": "db"}, "limit: there is no limit 'db', known: none is defined"),
        ],
    )
    def test_what_a_task_refers_to_must_be_there(
        self, announcing: AnnouncingAdmin, keys: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(Invalid) as refused:
            announcing.admin.add([task("a", **keys)], "cli", "ana")
        assert str(refused.value) == words
        assert announcing.names() == []

    def test_a_task_must_have_something_to_run(self, announcing: AnnouncingAdmin) -> None:
        from evenbeat.model import Schedule

        with pytest.raises(Invalid, match="there is nothing to run, say `command`, `function` or `passive = true`"):
            announcing.admin.add([Task("a", Schedule(every=MINUTE))], "cli", "ana")

    def test_an_edit_keeps_the_phase_and_the_pause(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("a")], "cli", "ana")
        announcing.admin.pause(Filter(names=("a",)), "ana", paused=True)
        before = announcing.entry("a").task
        (after,) = announcing.admin.set("a", task("a", priority=3), "bob").changed
        assert (after.task.schedule, after.task.paused, after.task.priority) == (before.schedule, True, 3)
        assert next((c.who, c.action) for c in announcing.store.changes()) == ("bob", "changed")

    def test_another_interval_gets_another_phase_and_the_wheel_is_right(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task(f"t{i}") for i in range(10)], "cli", "ana")
        (after,) = announcing.admin.set("t3", task("t3", every="5m", weight=3), "ana").changed
        assert after.task.schedule.phase is not None
        announcing.must_have_a_right_wheel()
        announcing.admin.remove(Filter(names=("t1", "t3")), "ana")
        announcing.must_have_a_right_wheel()

    def test_an_edit_that_changes_nothing_is_none(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("a")], "cli", "ana")
        assert announcing.admin.set("a", task("a"), "ana") == ChangeResult(unchanged=1)
        assert announcing.entry("a").version == 1

    def test_an_edit_of_what_somebody_else_has_edited_is_refused_and_leaves_the_wheel_right(
        self, announcing: AnnouncingAdmin
    ) -> None:
        announcing.admin.add([task("a"), task("b")], "cli", "ana")
        announcing.admin.set("a", task("a", priority=1), "bob", 1)
        before = announcing.everything()
        with pytest.raises(Conflict):
            announcing.admin.set("a", task("a", every="5m"), "ana", 1)
        with pytest.raises(Conflict):
            announcing.admin.set("a", task("b", every="5m"), "ana")
        assert announcing.everything() == before
        announcing.admin.add([task("c")], "cli", "ana")
        announcing.must_have_a_right_wheel()

    def test_there_is_no_such_task(self, announcing: AnnouncingAdmin) -> None:
        with pytest.raises(Invalid, match="there is no task 'a'"):
            announcing.admin.set("a", task("a"), "ana")
        with pytest.raises(Invalid, match="there is no task 'a'"):
            announcing.admin.select_forced(["a"], "ana")

    def test_only_who_fits_is_removed_or_paused(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("a"), task("ab"), task("b")], "cli", "ana")
        changed = announcing.admin.pause(Filter(names=("a*",)), "ana", paused=True)
        assert [e.task.name for e in changed.changed] == ["a", "ab"]
        assert announcing.admin.pause(Filter(names=("a*",)), "ana", paused=True).unchanged == 2
        assert [e.task.name for e in announcing.admin.remove(Filter(names=("a*",)), "ana").removed] == ["a", "ab"]
        assert announcing.names() == ["b"]

    def test_a_forced_run_is_in_the_audit(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("a")], "cli", "ana")
        announcing.admin.select_forced(["a"], "bob")
        assert next((c.who, c.action, c.name) for c in announcing.store.changes()) == ("bob", "forced", "a")

    def test_each_change_is_told_once_in_the_order_in_which_it_was_done(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("a")], "cli", "ana")
        announcing.admin.set("a", task("a", priority=1), "ana")
        announcing.admin.pause(Filter(names=("a",)), "ana", paused=True)
        announcing.admin.remove(Filter(names=("a",)), "ana")
        assert [(len(t.created), len(t.changed), len(t.removed)) for t in announcing.announced] == [
            (1, 0, 0),
            (0, 1, 0),
            (0, 1, 0),
            (0, 0, 1),
        ]


class TestPhases:
    def test_a_phase_given_by_hand_is_undone_without_it(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("a"), task("b", weight=30)], "cli", "ana")
        (given,) = announcing.admin.set("a", task("a", phase="7s"), "ana").changed
        assert (given.task.schedule.phase, given.task.schedule.pinned) == (7 * SECOND, True)
        (back,) = announcing.admin.set("a", task("a"), "ana").changed
        assert back.task.schedule.phase is not None
        assert (back.task.schedule.phase == 7 * SECOND, back.task.schedule.pinned) == (False, False)
        announcing.must_have_a_right_wheel()

    @pytest.mark.parametrize("keys", [{}, {"phase": "7s"}])
    def test_a_document_that_is_given_back_changes_nothing(
        self, announcing: AnnouncingAdmin, keys: dict[str, str]
    ) -> None:
        announcing.admin.add([task("a", **keys)], "cli", "ana")
        before = announcing.entry("a")
        assert announcing.admin.set(
            "a", task_from_table("a", task_to_table(before.task), check=False), "ana"
        ) == ChangeResult(unchanged=1)
        assert announcing.entry("a") == before
        assert announcing.admin.set("a", task("a"), "ana").unchanged == (not keys)

    def test_a_file_that_no_longer_gives_a_phase_has_it_placed(self, announcing: AnnouncingAdmin) -> None:
        announcing.apply(announcing.file("a.toml", tasks("a", more="") + 'phase = "7s"\n'))
        assert announcing.entry("a").task.schedule.pinned
        announcing.apply(announcing.file("a.toml", tasks("a")))
        assert not announcing.entry("a").task.schedule.pinned
        announcing.must_have_a_right_wheel()


class TestTheFileWins:
    """Whatever was changed by hand, when the file is next applied it is as the file says, except for pauses."""

    TEXT = OFFICE + LIMIT + tasks("a", "b")

    @pytest.mark.parametrize(
        "edit",
        [
            lambda admin: admin.set("a", task("a", priority=3), "bob"),
            lambda admin: admin.set("a", task("a", phase="1s"), "bob"),
            lambda admin: admin.set("a", task("c"), "bob"),
            lambda admin: admin.remove(Filter(names=("b",)), "bob"),
            lambda admin: admin.set_periods({"office": Period(ranges=("sunday",))}, "api", "bob"),
            lambda admin: admin.remove_period("office", "bob"),
        ],
    )
    def test_an_unchanged_file_undoes_it(
        self, announcing: AnnouncingAdmin, edit: Callable[[TaskAdmin], object]
    ) -> None:
        file = announcing.file("a.toml", self.TEXT)
        announcing.apply(file)
        before = [entry.task for entry in announcing.store.entries()], announcing.store.periods()
        edit(announcing.admin)
        assert ([entry.task for entry in announcing.store.entries()], announcing.store.periods()) != before
        announcing.apply(file)
        after = [entry.task for entry in announcing.store.entries()], announcing.store.periods()
        assert [_without_phase(t) for t in after[0]] == [_without_phase(t) for t in before[0]]
        assert after[1] == before[1]
        assert announcing.apply(file).unchanged == 2, "and nothing is left to do"

    def test_a_task_that_was_given_to_it_by_hand_goes(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", self.TEXT)
        announcing.apply(file)
        announcing.admin.add([task("x")], file_owner_of(file), "bob")
        assert [entry.task.name for entry in announcing.apply(file).removed] == ["x"]

    def test_a_pause_stays(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", self.TEXT)
        announcing.apply(file)
        announcing.admin.pause(Filter(names=("a",)), "bob", paused=True)
        announcing.apply(file)
        assert announcing.entry("a").task.paused

    def test_what_belongs_to_others_leaves_the_file_alone(
        self, announcing: AnnouncingAdmin, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = announcing.file("a.toml", self.TEXT)
        announcing.apply(file)
        announcing.admin.add([task("mine")], "cli:bob", "bob")
        announcing.admin.set("mine", task("mine", priority=1), "bob")
        monkeypatch.setattr(announcing.admin, "load", None)
        announcing.apply(file)


def _without_phase(said: Task) -> Task:
    return replace(said, schedule=replace(said.schedule, phase=None))


class TestFiles:
    def test_a_file_creates_changes_and_removes_its_own_tasks_only(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("cli")], "cli", "ana")
        other = announcing.file("other.toml", tasks("other"))
        file = announcing.file("a.toml", tasks("a", "b", "c"))
        assert len(announcing.apply(other, file).created) == 4
        announcing.file("a.toml", tasks("a") + tasks("b", every="5m") + tasks("d"))
        changed = announcing.apply(file)
        assert [e.task.name for e in changed.created] == ["d"]
        assert [e.task.name for e in changed.changed] == ["b"]
        assert [e.task.name for e in changed.removed] == ["c"]
        assert changed.unchanged == 1
        assert announcing.names() == ["a", "b", "cli", "d", "other"]
        assert announcing.names(owner=file_owner_of(file)) == ["a", "b", "d"]
        announcing.must_have_a_right_wheel()

    def test_a_file_that_is_as_it_was_is_not_read(
        self, announcing: AnnouncingAdmin, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = announcing.file("a.toml", tasks("a"))
        announcing.apply(file)
        with monkeypatch.context() as patch:
            patch.setattr(announcing.admin, "load", lambda _: pytest.fail("it was read"))
            assert announcing.apply(file) == ChangeResult(unchanged=1)
        announcing.admin.remove(Filter(names=("a",)), "ana")
        assert [e.task.name for e in announcing.apply(file, anew=True).created] == ["a"]

    def test_for_a_live_node_many_changes_come_in_parts_and_in_order(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.part_size = 2
        file = announcing.file("a.toml", tasks("a", "b", "c", "d", "e"))
        created = announcing.apply(file).created
        announcing.file("a.toml", tasks("a", "b", "c", "f", every="5m"))
        changed = announcing.apply(file)
        announced = [
            [(kind, e.task.name) for kind in ("removed", "changed", "created") for e in getattr(part, kind)]
            for part in announcing.announced
        ]
        assert announced == [
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
        announcing.must_have_a_right_wheel()

    def test_who_was_paused_by_hand_stays_so(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", tasks("a"))
        announcing.apply(file)
        announcing.admin.pause(Filter(names=("a",)), "ana", paused=True)
        announcing.file("a.toml", tasks("a", every="5m"))
        announcing.apply(file)
        assert announcing.entry("a").task.paused

    def test_a_file_that_is_read_again_moves_no_phase(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", tasks(*(f"t{i}" for i in range(50))))
        announcing.apply(file)
        before = list(announcing.store.entries())
        changed = announcing.apply(file, anew=True)
        assert (changed.unchanged, list(announcing.store.entries())) == (50, before)
        announcing.file("a.toml", tasks(*(f"t{i}" for i in range(0, 50, 2)), "new"))
        announcing.apply(file)
        phases = {e.task.name: e.task.schedule.phase for e in before}
        assert all(
            e.task.schedule.phase == phases[e.task.name] for e in announcing.store.entries() if e.task.name != "new"
        )

    @pytest.mark.parametrize(
        "text",
        [
            tasks("b") + '[tasks.a]\nevery = "5 parsecs"\ncommand = ["true"]\n',
            tasks("b") + '[tasks.a]\nevery = "5m"\nperiod = "nobody"\ncommand = ["true"]\n',
            tasks("b") + '[tasks.a]\nevery = "5m"\nlimit = "nobody"\ncommand = ["true"]\n',
            "[tasks\n",
        ],
    )
    def test_a_bad_file_changes_nothing_not_even_with_a_good_one(self, announcing: AnnouncingAdmin, text: str) -> None:
        good, bad = announcing.file("good.toml", tasks("good")), announcing.file("bad.toml", tasks("a"))
        announcing.apply(good, bad)
        before = announcing.everything()
        announcing.file("good.toml", tasks("good", "better"))
        announcing.file("bad.toml", text)
        with pytest.raises((BadFileError, Invalid), match=r"bad\.toml"):
            announcing.apply(good, bad)
        assert announcing.everything() == before
        announcing.file("bad.toml", tasks("a"))
        assert [e.task.name for e in announcing.apply(good, bad).created] == ["better"]

    def test_a_file_that_is_not_there_is_named(self, announcing: AnnouncingAdmin, tmp_path: Path) -> None:
        with pytest.raises(BadFileError, match=r"gone\.toml"):
            announcing.apply(tmp_path / "gone.toml")

    @pytest.mark.parametrize("together", [True, False])
    def test_two_files_with_the_same_name_are_refused_before_anything_is_done(
        self, announcing: AnnouncingAdmin, together: bool
    ) -> None:
        a, b = announcing.file("a.toml", tasks("x", "y")), announcing.file("b.toml", tasks("z"))
        announcing.apply(a, b)
        announcing.file("b.toml", tasks("x"))
        if together:
            announcing.file("a.toml", tasks("x", more="# the same\n"))
        before = announcing.everything()
        with pytest.raises(Conflict, match=r"b\.toml:1:2: the name 'x' is taken by a task of /.*/a\.toml"):
            announcing.apply(a, b)
        assert announcing.everything() == before

    def test_a_name_that_somebody_has_typed_is_not_taken_from_them(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.add([task("x")], "cli:ana", "ana")
        with pytest.raises(Conflict, match="is taken by a task of cli:ana"):
            announcing.apply(announcing.file("a.toml", tasks("w", "x")))
        assert announcing.names() == ["x"]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_a_task_can_move_from_one_file_to_the_other(
        self, announcing: AnnouncingAdmin, order: tuple[int, int]
    ) -> None:
        files = announcing.file("a.toml", tasks("x", "y")), announcing.file("b.toml", tasks("z"))
        announcing.apply(*files)
        announcing.admin.pause(Filter(names=("x",)), "ana", paused=True)
        before = announcing.entry("x")
        announcing.file("a.toml", tasks("y"))
        announcing.file("b.toml", tasks("x", "z"))
        changed = announcing.apply(*(files[i] for i in order))
        assert (changed.removed, changed.created, [e.task.name for e in changed.changed]) == ([], [], ["x"])
        after = announcing.entry("x")
        assert (after.owner, after.number, after.id) == (file_owner_of(files[1]), before.number, before.id)
        assert after.task == before.task, "at the same place, and still paused"
        announcing.must_have_a_right_wheel()

    def test_a_limit_of_one_file_serves_the_tasks_of_another(self, announcing: AnnouncingAdmin) -> None:
        defines, uses = announcing.file("a.toml", OFFICE + LIMIT), announcing.file("b.toml", OFFICE + USES)
        changed = announcing.apply(uses, defines)
        assert changed.settings
        assert announcing.announced[0].settings, "what tasks refer to is there before them"
        assert announcing.admin.limits() == {"db": 4}
        assert announcing.names() == ["report"]

    @pytest.mark.parametrize(("text", "words"), [(OFFICE, "limit 'db'"), (LIMIT, "period 'office'")])
    def test_what_tasks_of_others_use_cannot_go(self, announcing: AnnouncingAdmin, text: str, words: str) -> None:
        defines = announcing.file("a.toml", OFFICE + LIMIT)
        announcing.apply(defines)
        uses = task("report", period="office", limit="db")
        announcing.admin.add([uses], "cli:ana", "ana")
        before = announcing.everything()
        announcing.file("a.toml", text)
        with pytest.raises(Conflict, match=f"the {words} cannot go: the task 'report' of cli:ana uses it"):
            announcing.apply(defines)
        assert announcing.everything() == before

    def test_what_nobody_uses_any_more_goes(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", OFFICE + LIMIT + USES)
        announcing.apply(file)
        announcing.file("a.toml", tasks("a"))
        assert announcing.apply(file).settings
        assert announcing.store.periods() == {}
        assert announcing.admin.limits() == {}
        assert [t.settings for t in announcing.announced][-1], "after the tasks that used it"

    def test_a_file_cannot_use_a_limit_that_it_does_not_declare_any_more(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", OFFICE + LIMIT + USES)
        announcing.apply(file)
        before = announcing.everything()
        announcing.file("a.toml", OFFICE + USES)
        with pytest.raises((Invalid, BadFileError), match=r"a\.toml.*there is no limit 'db'"):
            announcing.apply(file)
        assert announcing.everything() == before

    def test_a_period_that_another_one_needs_cannot_go(self, announcing: AnnouncingAdmin) -> None:
        defines = announcing.file("a.toml", OFFICE)
        announcing.apply(defines)
        announcing.store.set_periods({"free": Period(exclude=("office",))}, "cli", NOW)
        before = announcing.everything()
        announcing.file("a.toml", tasks("a"))
        with pytest.raises(Invalid, match="office"):
            announcing.apply(defines)
        assert announcing.everything() == before

    def test_two_files_may_not_mean_different_things_by_one_name(self, announcing: AnnouncingAdmin) -> None:
        a = announcing.file("a.toml", OFFICE + LIMIT + "[node]\nmax_concurrent = 6\n")
        announcing.apply(a)
        for text, words in (
            (OFFICE.replace("09:00", "10:00"), r"1:2: periods.office: /.*/a\.toml defines the period 'office' diff"),
            (LIMIT.replace("4", "5"), r"2:6: limits.db: 5 here, 4 in /.*/a\.toml"),
            ("[node]\nmax_concurrent = 5\n", r"2:18: node.max_concurrent: 5 here, 6 in /.*/a\.toml"),
        ):
            with pytest.raises(Conflict, match=rf"b\.toml:{words}"):
                announcing.apply(announcing.file("b.toml", text))
        assert not announcing.apply(announcing.file("b.toml", OFFICE + LIMIT)).created

    def test_a_period_moves_from_one_file_to_the_other(self, announcing: AnnouncingAdmin) -> None:
        a, b = announcing.file("a.toml", OFFICE + LIMIT + USES), announcing.file("b.toml", tasks("b"))
        announcing.apply(a, b)
        announcing.file("a.toml", tasks("a"))
        announcing.file("b.toml", OFFICE + LIMIT + USES)
        announcing.apply(b, a)
        assert list(announcing.store.periods()) == ["office"]
        assert announcing.admin.limits() == {"db": 4}

    def test_an_edited_period_is_told(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", OFFICE)
        announcing.apply(file)
        announcing.file("a.toml", OFFICE.replace("09:00", "10:00"))
        changed = announcing.apply(file)
        assert changed.settings
        assert not announcing.apply(file, anew=True).settings

    def test_settings_of_the_node_come_from_files(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", '[node]\nmax_concurrent = 7\nkeep = "1h"\n')
        assert announcing.apply(file).settings
        assert (announcing.admin.settings().max_concurrent, announcing.admin.settings().keep) == (7, HOUR)
        announcing.file("a.toml", tasks("a"))
        assert announcing.apply(file).settings
        assert announcing.admin.settings().max_concurrent is None

    def test_a_step_that_was_done_before_the_store_failed_is_told(
        self, announcing: AnnouncingAdmin, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = announcing.file("a.toml", tasks("old"))
        announcing.apply(file)
        announcing.announced.clear()
        announcing.file("a.toml", tasks("new"))

        def full(*_: object) -> list[Entry]:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch, pytest.raises(StoreError):
            patch.setattr(announcing.store, "create", full)
            announcing.apply(file)
        assert [e.task.name for t in announcing.announced for e in t.removed] == ["old"]
        announcing.apply(file)
        assert announcing.names() == ["new"]
        announcing.must_have_a_right_wheel()

    def test_a_program_declares_as_a_file_does(self, announcing: AnnouncingAdmin) -> None:
        announcing.admin.apply_config("app:x", Config((task("a"), task("b")), {}, {}, None), "program")
        changed = announcing.admin.apply_config("app:x", Config((task("b"),), {}, {}, None), "program")
        assert [e.task.name for e in changed.removed] == ["a"]
        assert changed.unchanged == 1
        with pytest.raises(Conflict):
            announcing.admin.apply_config(
                "app:x", Config((task("c"), replace(task("c"), priority=1)), {}, {}, None), "program"
            )
        assert announcing.names() == ["b"]

    def test_a_file_that_was_declared_from_elsewhere_is_read_again(self, announcing: AnnouncingAdmin) -> None:
        file = announcing.file("a.toml", tasks("a"))
        announcing.apply(file)
        announcing.admin.apply_configs({file_owner_of(file): Config((task("b"),), {}, {}, None)}, "bo")
        assert announcing.names() == ["b"]
        announcing.apply(file)
        assert announcing.names() == ["a"]

    def test_the_audit_knows_who_applied_it(self, announcing: AnnouncingAdmin) -> None:
        announcing.apply(announcing.file("a.toml", OFFICE + tasks("a")))
        assert {(c.who, c.action, c.name) for c in announcing.store.changes()} >= {("ana", "created", "a")}
