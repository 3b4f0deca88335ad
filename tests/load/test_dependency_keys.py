"""`depends`, `depends_any` and `when_unreachable` in files, templates and [defaults]."""

from pathlib import Path

import pytest

from evenbeat.load.config import BadFileError, Config
from evenbeat.load.files import load_together
from evenbeat.load.task_tables import change_table, task_from_table, task_to_table
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_config
from evenbeat.model import Invalid, Task, WhenUnreachable

CHECK = 'every = "1m"\ncommand = ["x"]\n'
HOSTS = f"""
[templates.service]
{CHECK}depends = ["{{host}}/ping"]
when_unreachable = "skip"

[checks."{{host}}/{{what}}"]
use = "service"
for.host = "web[1-2]"
for.what = ["ping", "http"]
"""


def tasks(text: str) -> dict[str, Task]:
    return {task.name: task for task in parse_toml(text, "a.toml").tasks}


def problems(folder: Path, text: str) -> list[str]:
    path = folder / "a.toml"
    path.write_text(text)
    with pytest.raises(BadFileError) as caught:
        load_together([path])
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.errors]


class TestKeys:
    def test_a_task_names_what_it_depends_on(self) -> None:
        text = f'[tasks.a]\n{CHECK}depends = ["gw/ping"]\ndepends_any = ["x", "y"]\nwhen_unreachable = "skip"\n'
        a = tasks(text)["a"]
        assert (a.depends, a.depends_any, a.when_unreachable) == (("gw/ping",), ("x", "y"), WhenUnreachable.SKIP)
        keys = {"depends": ("gw/ping",), "depends_any": ("x", "y"), "when_unreachable": "skip"}
        assert keys.items() <= task_to_table(a).items()

    def test_what_is_written_reads_back(self) -> None:
        config = parse_toml(HOSTS, "a.toml")
        assert parse_toml(write_config(config), "b.toml") == Config(config.tasks, {}, {}, None)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('depends = ["b", "b"]', "a.toml:4:11: 'b' is named twice"),
            ('depends_any = ["a"]', "a.toml:4:15: 'a' cannot depend on itself"),
            ('depends = ["bb"]', "a.toml:4:11: there is no check 'bb', did you mean 'b'?"),
            ('depends = ["t"]', "a.toml:4:11: 't' is no check: only the state of a check says whether it is fine"),
            ('depends = ["c"]', "a.toml:4:11: tasks depend on each other in a circle: a -> c -> a"),
            (
                'when_unreachable = "skip"',
                "a.toml:4:21: tasks.a.when_unreachable: `when_unreachable` has no effect here: "
                "the task depends on nothing",
            ),
            (
                'depends = ["b"]\nwhen_unreachable = "pause"',
                "a.toml:5:21: tasks.a.when_unreachable: 'pause' is not a choice, accepted: run, skip",
            ),
            ('depends = "b"', 'a.toml:4:12: tasks.a.depends: one text, accepted: a list of checks: ["b"]'),
            (
                f"depends = {[f'c{i}' for i in range(101)]}",
                "a.toml:4:11: tasks.a.depends: Expected `array` of length <= 100",
            ),
        ],
    )
    def test_what_is_wrong_has_its_place(self, tmp_path: Path, line: str, message: str) -> None:
        rest = f'[checks.b]\n{CHECK}[checks.c]\n{CHECK}depends = ["a"]\n[tasks.t]\n{CHECK}'
        found = problems(tmp_path, f"[checks.a]\n{CHECK}{line}\n{rest}")
        assert [problem.replace("checks.a", "tasks.a") for problem in found] == [message]

    def test_a_check_may_be_in_another_file(self, tmp_path: Path) -> None:
        one, other = tmp_path / "a.toml", tmp_path / "b.toml"
        one.write_text(f'[tasks.a]\n{CHECK}depends = ["gw"]\n')
        other.write_text(f"[checks.gw]\n{CHECK}")
        assert len(load_together([one, other])) == 2
        with pytest.raises(BadFileError, match=r"a\.toml:4:11: there is no check 'gw', accepted: names of checks"):
            load_together([one])


class TestTemplates:
    def test_what_a_template_makes_depend_on_itself_depends_on_nothing(self) -> None:
        found = tasks(HOSTS)
        assert {name: (task.depends, task.when_unreachable.value) for name, task in found.items()} == {
            "web1/ping": ((), "run"),
            "web1/http": (("web1/ping",), "skip"),
            "web2/ping": ((), "run"),
            "web2/http": (("web2/ping",), "skip"),
        }

    def test_a_table_with_for_is_a_template_of_its_own(self) -> None:
        text = f'[checks."{{h}}"]\n{CHECK}for.h = ["gw", "a"]\ndepends = ["gw"]\n'
        assert {name: task.depends for name, task in tasks(text).items()} == {"gw": (), "a": ("gw",)}

    def test_another_check_that_it_depends_on_stays(self) -> None:
        text = f'[templates.t]\n{CHECK}depends = ["gw", "b"]\nwhen_unreachable = "skip"\n[checks.gw]\nuse = "t"\n'
        assert (tasks(text)["gw"].depends, tasks(text)["gw"].when_unreachable.value) == (("b",), "skip")

    def test_an_explicit_reference_to_itself_is_refused(self, tmp_path: Path) -> None:
        text = f'[templates.t]\n{CHECK}[checks.gw]\nuse = "t"\ndepends = ["gw"]\n'
        assert problems(tmp_path, text) == ["a.toml:6:11: 'gw' cannot depend on itself"]

    def test_the_defaults_are_for_all_but_the_check_itself(self) -> None:
        text = f'[defaults]\ndepends = ["gw"]\nwhen_unreachable = "skip"\n[checks.gw]\n{CHECK}[tasks.a]\n{CHECK}'
        text += f"[tasks.alone]\n{CHECK}depends = []\n"
        assert {name: (task.depends, task.when_unreachable.value) for name, task in tasks(text).items()} == {
            "gw": ((), "run"),
            "a": (("gw",), "skip"),
            "alone": ((), "run"),
        }

    def test_a_mistake_in_a_template_is_shown_there(self, tmp_path: Path) -> None:
        text = HOSTS.replace('"{host}/ping"', '"gw"')
        assert problems(tmp_path, text) == ["a.toml:5:11: there is no check 'gw', accepted: names of checks"]


class TestChanges:
    def test_without_dependencies_what_follows_from_them_goes(self) -> None:
        table = {"every": "1m", "command": ["x"], "depends": ["a"], "when_unreachable": "skip"}
        assert change_table(table, {"depends": None}) == {"every": "1m", "command": ["x"]}
        with pytest.raises(Invalid, match="has no effect here: the task depends on nothing"):
            task_from_table("t", change_table(table, {"depends": [], "when_unreachable": "skip"}), check=False)

    def test_a_passive_check_skips_nothing(self) -> None:
        keys = {"every": "1m", "passive": True, "depends": ["a"], "when_unreachable": "skip"}
        with pytest.raises(Invalid, match="a passive check without a command or function runs nothing"):
            task_from_table("t", keys, check=True)
