from pathlib import Path

import pytest

from evenbeat.load.config import BadFileError, ParsedFile
from evenbeat.load.config_validation import ValidationFinding, config_errors_of, config_warnings
from evenbeat.load.files import is_toml, load_file, load_parsed_file, load_together


def files(folder: Path, **texts: str) -> list[Path]:
    found = []
    for name, text in texts.items():
        path = folder / name.replace("_", ".")
        path.write_text(text)
        found.append(path)
    return found


def problems_of(folder: Path, **texts: str) -> list[str]:
    with pytest.raises(BadFileError) as caught:
        load_together(files(folder, **texts))
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.errors]


@pytest.mark.parametrize(
    ("name", "text", "toml"),
    [
        ("a.toml", "", True),
        ("a.TOML", "@daily x", True),
        ("a.conf", '# hello\n\n  [tasks.a]\nevery = "1h"\n', True),
        ("crontab", "# [tasks.a]\n@daily x\n", False),
        ("crontab", "", False),
        ("crontab", "* * * * * [ -f x ]\n", False),
    ],
)
def test_a_file_is_toml_by_its_name_or_by_its_look(name: str, text: str, toml: bool) -> None:
    assert is_toml(Path(name), text) is toml


@pytest.mark.parametrize(("name", "count"), [("checks.toml", 7), ("many.toml", 502), ("crontab", 5)])
def test_the_examples_are_good(name: str, count: int) -> None:
    source = load_together([Path(__file__).parents[2] / "examples" / name])[0]
    assert len(source.config.tasks) == count


def test_both_kinds_are_read_by_the_same_function(tmp_path: Path) -> None:
    toml, crontab = files(tmp_path, a_toml='[checks.x]\nevery = "1m"\ncommand = ["x"]\n', crontab="@daily y\n")
    assert [task.name for task in load_file(toml).tasks] == ["x"]
    assert [task.name for task in load_file(crontab).tasks] == ["y"]


def test_files_that_agree_are_read_together(tmp_path: Path) -> None:
    period = '[periods.p]\nranges = ["monday"]\n'
    paths = files(
        tmp_path,
        a_toml=f'{period}[limits]\ndb = 3\n[checks.x]\nevery = "1m"\ncommand = ["x"]\n[node]\nkeep = "1d"\n',
        b_toml=period
        + '[limits]\ndb = 3\n[checks.y]\nevery = 60\ncommand = ["x"]\nlimit = "db"\n[node]\nkeep = 86400\n',
        crontab="@daily z\n",
    )
    sources = load_together([*paths, paths[0]])
    assert [task.name for source in sources for task in source.config.tasks] == ["x", "y", "z"]


def test_a_name_in_two_files_is_refused_in_the_second(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path, a_toml='[checks.backup]\nevery = 60\ncommand = ["x"]\n', crontab="\n  @daily backup.sh\n"
    )
    assert found == [
        f"crontab:2:3: the name 'backup' is taken by a task of {tmp_path}/a.toml; names are unique: "
        "a line `# name: ...` above this one gives it another"
    ]


def test_a_limit_must_be_declared_in_one_of_the_files(tmp_path: Path) -> None:
    task = '[tasks.a]\nevery = "1m"\nlimit = "bd"\ncommand = ["x"]\n'
    assert problems_of(tmp_path, a_toml=task, b_toml="[limits]\ndb = 4\n") == [
        "a.toml:3:10: there is no limit 'bd', known: db"
    ]
    assert problems_of(tmp_path, c_toml=task)[0].endswith("known: none is defined")
    assert load_file(tmp_path / "a.toml").tasks[0].limit == "bd"


def test_a_limit_of_a_template_is_told_once(tmp_path: Path) -> None:
    text = '[templates.t]\nevery = 60\nlimit = "x"\ncommand = ["x"]\n[tasks."{i}"]\nuse = "t"\nfor.i = "[1-9]"\n'
    assert problems_of(tmp_path, a_toml=text) == ["a.toml:3:10: there is no limit 'x', known: none is defined"]


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("[limits]\ndb = 3\n", "[limits]\ndb = 4\n", "b.toml:2:6: limits.db: "),
        ("[periods.p]\nranges = ['monday']\n", "[periods.p]\nranges = ['friday']\n", "b.toml:1:2: periods.p: "),
        ("[node]\nkeep = '1d'\n", "[node]\nkeep = '2d'\n", "b.toml:2:9: node.keep: "),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, one: str, other: str, message: str) -> None:
    found = problems_of(tmp_path, a_toml=one, b_toml=other)
    assert len(found) == 1
    assert found[0].startswith(message)
    assert "a.toml" in found[0].removeprefix(message)


def test_the_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    found = problems_of(tmp_path, a_toml="[checks.x]\nevery = '5x'\n", b_toml="oops", crontab="@dayly x\n")
    assert [problem.split(":")[0] for problem in found] == ["a.toml", "b.toml", "crontab"]


def test_warnings_name_their_place(tmp_path: Path) -> None:
    text = '[tasks.a]\ncron = "H 3 * * *"\n[tasks.b]\n  cron = "0 */4 * * *" # why\n[checks.c]\nevery = 60\n'
    source = load_together(files(tmp_path, a_toml=text), must_run=False)[0]
    found = [str(warning).removeprefix(f"{tmp_path}/") for warning in config_warnings(source)]
    assert len(found) == 1
    assert found[0].startswith("a.toml:4:11: '0' pins the minute")


def test_a_warning_knows_the_days_rule_of_its_task(tmp_path: Path) -> None:
    text = '[tasks.a]\ncron = "H 3 1 * 5"\n[tasks.b]\ncron = "H 3 1 * 5"\ndays = "and"\n'
    source = load_together(files(tmp_path, a_toml=text), must_run=False)[0]
    assert [warning.place for warning in config_warnings(source)] == [(2, 9)]


def test_a_file_is_read_once_for_all_that_is_wrong_with_it(tmp_path: Path) -> None:
    (path,) = files(tmp_path, a_toml="".join(f'[tasks.t{i}]\nevery = "1h"\ncommand = ["x"]\n' for i in range(20)))
    asked: list[str] = []

    def source_of(owner: str) -> ParsedFile:
        asked.append(owner)
        return load_parsed_file(path)

    found = [ValidationFinding(owner, ("tasks", f"t{i}"), "taken") for i in range(20) for owner in ("a", "b")]
    assert len(config_errors_of(found, source_of)[0]) == 20  # both owners have the same file here
    assert asked == ["a", "b"]
