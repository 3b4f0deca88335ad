"""Changes of tasks that depend on checks: all paths refuse the same, and a check that others depend on stays."""

from pathlib import Path
from typing import Any

import pytest

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.load.config import BadFileError
from evenbeat.load.files import load_together
from evenbeat.load.task_tables import task_from_table
from evenbeat.load.toml import parse_toml
from evenbeat.model import SECOND, Instant, Invalid, Task
from evenbeat.store.contract import Conflict, Filter
from evenbeat.store.memory import MemoryStore

NOW = Instant(1_700_000_000 * SECOND)
KEYS = 'every = "1m"\ncommand = ["true"]\n'
GATEWAY = f"[checks.gw]\n{KEYS}"
WEB = f'[checks.web]\n{KEYS}depends = ["gw"]\n'


def task(name: str, *, check: bool = False, **keys: Any) -> Task:
    return task_from_table(name, {"every": "1m", "command": ["true"], **keys}, check=check)


def check(name: str, **keys: Any) -> Task:
    return task(name, check=True, **keys)


@pytest.fixture
def admin() -> TaskAdmin:
    return TaskAdmin(MemoryStore(), lambda: NOW)


def names(admin: TaskAdmin) -> set[str]:
    return {entry.task.name for entry in admin.store.entries()}


def remove(admin: TaskAdmin, *named: str) -> None:
    admin.remove(Filter(names=named), "ana")


class TestParents:
    def test_parents_come_with_their_dependents_or_before_them(self, admin: TaskAdmin) -> None:
        with pytest.raises(Invalid, match=r"^depends: there is no check 'gw', accepted: names of checks$"):
            admin.add([check("web", depends=["gw"])], "ana", "ana")
        admin.add([check("web", depends=["gw"]), check("gw")], "ana", "ana")
        admin.add([task("backup", depends_any=["web", "gw"])], "bob", "bob")
        assert names(admin) == {"web", "gw", "backup"}

    def test_a_change_cannot_close_a_circle(self, admin: TaskAdmin) -> None:
        admin.add([check("a"), check("b", depends=["a"]), check("c", depends=["b"])], "ana", "ana")
        with pytest.raises(Invalid, match=r"^depends_any: tasks depend on each other in a circle: a -> c -> b -> a$"):
            admin.set("a", check("a", depends_any=["c"]), "ana")
        admin.set("c", check("c"), "ana")
        admin.set("a", check("a", depends_any=["c"]), "ana")

    def test_a_task_that_is_renamed_cannot_depend_on_what_it_was(self, admin: TaskAdmin) -> None:
        admin.add([check("a")], "ana", "ana")
        with pytest.raises(Invalid, match="there is no check 'a'"):
            admin.set("a", check("b", depends=["a"]), "ana")


class TestAllPathsRefuseTheSame:
    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ({"depends": ["gwx"]}, "there is no check 'gwx', did you mean 'gw'?"),
            ({"depends": ["job"]}, "'job' is no check: only the state of a check says whether it is fine"),
            ({"depends_any": ["a"]}, "'a' cannot depend on itself"),
            ({"depends": ["gw", "gw"]}, "'gw' is named twice"),
            ({"depends": ["b"]}, "tasks depend on each other in a circle: a -> b -> a"),
        ],
    )
    def test_files_and_single_tasks(self, admin: TaskAdmin, tmp_path: Path, keys: dict[str, Any], message: str) -> None:
        line = "".join(f"{key} = {value}\n" for key, value in keys.items())
        rest = f'{GATEWAY}[checks.b]\n{KEYS}depends = ["a"]\n[tasks.job]\n{KEYS}'
        good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
        good.write_text(f"[checks.a]\n{KEYS}{rest}")
        bad.write_text(f"[checks.a]\n{KEYS}{line}{rest}")
        with pytest.raises(BadFileError) as checked:
            load_together([bad])
        with pytest.raises(Invalid) as applied:
            admin.apply([bad], "ana")
        assert str(checked.value) == str(applied.value).replace("\n", "")
        assert message in str(checked.value)
        with pytest.raises(Invalid) as declared:
            admin.apply_config("app:x", parse_toml(bad.read_text(), "x"), "ana")
        assert f"a.{next(iter(keys))}: {message}" in str(declared.value)
        admin.apply([good], "ana")
        with pytest.raises(Invalid) as set_:
            admin.set("a", check("a", **keys), "ana")
        assert str(set_.value) == f"{next(iter(keys))}: {message}"


class TestChecksThatOthersDependOn:
    def test_such_a_check_is_not_removed_without_its_dependents(self, admin: TaskAdmin) -> None:
        admin.add([check("gw"), check("web", depends=["gw"]), task("job", depends_any=["gw"])], "ana", "ana")
        with pytest.raises(Conflict) as caught:
            remove(admin, "gw", "web")
        assert str(caught.value) == ("the check 'gw' must stay, under this name: tasks depend on it: 'job' of ana")
        assert names(admin) == {"gw", "web", "job"}
        remove(admin, "gw", "web", "job")
        assert names(admin) == set()

    def test_it_keeps_its_name_and_stays_a_check(self, admin: TaskAdmin) -> None:
        admin.add([check("gw"), check("web", depends=["gw"])], "ana", "ana")
        with pytest.raises(Conflict, match="under this name: tasks depend on it: 'web' of ana"):
            admin.set("gw", check("gateway"), "ana")
        with pytest.raises(Conflict, match="must stay"):
            admin.set("gw", task("gw"), "ana")
        admin.set("gw", check("gw", every="2m"), "ana")
        admin.set("web", check("web"), "ana")
        admin.set("gw", task("gateway"), "ana")

    def test_a_paused_one_may_be_paused(self, admin: TaskAdmin) -> None:
        admin.add([check("gw"), check("web", depends=["gw"])], "ana", "ana")
        admin.pause(Filter(names=("gw",)), "ana", paused=True)

    def test_a_file_may_drop_it_with_its_dependents_or_redirect_them(self, admin: TaskAdmin, tmp_path: Path) -> None:
        file = tmp_path / "a.toml"
        file.write_text(GATEWAY + WEB)
        admin.apply([file], "ana")
        file.write_text(WEB)
        with pytest.raises(Invalid, match=r"a\.toml:4:11: there is no check 'gw', accepted: names of checks"):
            admin.apply([file], "ana")
        file.write_text(GATEWAY.replace("gw", "router") + WEB.replace("gw", "router"))
        admin.apply([file], "ana")
        assert names(admin) == {"router", "web"}
        file.write_text("")
        admin.apply([file], "ana")
        assert names(admin) == set()

    def test_a_file_keeps_it_for_the_tasks_of_others(self, admin: TaskAdmin, tmp_path: Path) -> None:
        file, other = tmp_path / "a.toml", tmp_path / "b.toml"
        file.write_text(GATEWAY)
        other.write_text(WEB)
        admin.apply([file, other], "ana")
        for text in ("", GATEWAY.replace("checks", "tasks"), GATEWAY.replace("gw", "router")):
            file.write_text(text)
            with pytest.raises(Conflict) as caught:
                admin.apply([file], "ana")
            why = f"the check 'gw' must stay, under this name: tasks depend on it: 'web' of file:{other}"
            assert str(caught.value).startswith(f"{file}:")
            assert str(caught.value).endswith(f": {why}")
        file.write_text(GATEWAY.replace("gw", "router"))
        other.write_text(WEB.replace("gw", "router"))
        admin.apply([file, other], "ana")
        with pytest.raises(Conflict, match="tasks depend on it: 'web'"):
            admin.remove(Filter(owner=f"file:{file}"), "ana")

    def test_it_may_move_to_another_file(self, admin: TaskAdmin, tmp_path: Path) -> None:
        file, other = tmp_path / "a.toml", tmp_path / "b.toml"
        file.write_text(GATEWAY)
        other.write_text(WEB)
        admin.apply([file, other], "ana")
        file.write_text("")
        other.write_text(GATEWAY + WEB)
        admin.apply([file, other], "ana")
        assert names(admin) == {"gw", "web"}
