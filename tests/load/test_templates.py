import pytest

from evenbeat.load.config import BadFileError
from evenbeat.load.config_validation import config_warnings
from evenbeat.load.toml import parse_toml, parse_toml_file
from evenbeat.model import HOUR, MINUTE, SECOND, Task

HTTP = """
[templates.often]
every = "1m"
retry = "10s"
labels = { team = "web", speed = "fast" }

[templates.http]
every = "5m"
command = ["check_http", "-H", "{host}", "-p", "{port}"]
labels = { kind = "http" }

[checks."http {host}:{port}"]
use = ["often", "http"]
for.host = ["web[08-11]", "shop"]
for.port = [80, 443]
labels = { host = "{host}", team = "{host} people" }
"""


def tasks_of(text: str) -> dict[str, Task]:
    return {task.name: task for task in parse_toml(text, "x.toml").tasks}


def problems_of(text: str) -> list[str]:
    with pytest.raises(BadFileError) as caught:
        parse_toml(text, "x.toml")
    return [str(problem) for problem in caught.value.errors]


def test_several_keys_of_for_make_the_product_and_every_text_is_filled() -> None:
    tasks = tasks_of(HTTP)
    hosts = ["web08", "web09", "web10", "web11", "shop"]
    assert list(tasks) == [f"http {host}:{port}" for host in hosts for port in (80, 443)]
    shop = tasks["http shop:443"]
    assert shop.check
    assert shop.job.command == ("check_http", "-H", "shop", "-p", "443")


def test_of_several_templates_the_later_wins_and_labels_add_up() -> None:
    shop = tasks_of(HTTP)["http shop:80"]
    assert shop.schedule.every == 5 * MINUTE
    assert shop.retry == 10 * SECOND
    assert shop.labels == {"team": "shop people", "speed": "fast", "kind": "http", "host": "shop"}


def test_a_task_has_its_own_kind_of_schedule_and_work_whatever_its_template_has() -> None:
    text = """
    [defaults]
    spread = "hash"
    timebox = 5
    [templates.t]
    every = "1m"
    phase = "2s"
    command = "ls"
    shell = true
    [tasks.a]
    use = "t"
    cron = "@daily"
    function = "m:f"
    [tasks.b]
    use = "t"
    """
    tasks = tasks_of(text)
    assert tasks["a"].schedule.cron == "@daily"
    assert tasks["a"].job.function == "m:f"
    assert tasks["b"].schedule.phase == 2 * SECOND
    assert tasks["b"].job.shell
    assert tasks["b"].timebox == 5 * SECOND


def test_five_hundred_checks_are_a_few_lines() -> None:
    text = '[checks."ping {host}"]\nevery = "1m"\nfor.host = "web[001-500]"\ncommand = ["check_ping", "{host}"]\n'
    tasks = tasks_of(text)
    assert len(tasks) == 500
    assert tasks["ping web007"].job.command == ("check_ping", "web007")


def test_values_may_have_attributes() -> None:
    text = """
    [checks."ping {host}"]
    every = "1m"
    command = ["check_ping", "-H", "{host.address}", "-w", "{host.limit}"]
    [checks."ping {host}".for.host]
    web1 = { address = "10.0.0.1", limit = 5 }
    "db[1-2]" = { address = "10.0.1.1", limit = 7 }
    """
    commands = {name: task.job.command[2:] for name, task in tasks_of(text).items()}
    assert commands == {
        "ping web1": ("10.0.0.1", "-w", "5"),
        "ping db1": ("10.0.1.1", "-w", "7"),
        "ping db2": ("10.0.1.1", "-w", "7"),
    }


def test_a_template_may_mention_the_name_of_the_task() -> None:
    users = '[checks.web1]\nuse = "ping"\n[checks.web2]\nuse = "ping"\n'
    text = '[templates.ping]\nevery = 60\ncommand = ["ping", "{name}"]\n' + users
    assert {name: task.job.command[1] for name, task in tasks_of(text).items()} == {"web1": "web1", "web2": "web2"}


def test_a_key_called_name_is_a_key_like_any_other() -> None:
    text = '[checks."ping {name}"]\nevery = 60\nfor.name = ["a", "b"]\ncommand = ["ping", "{name}"]\n'
    assert [task.job.command[1] for task in tasks_of(text).values()] == ["a", "b"]


def test_braces_are_plain_in_a_task_without_use_and_for_and_doubled_in_others() -> None:
    awk = "{print $1}"
    text = f'[tasks."a {{x}}"]\nevery = 60\nshell = true\ncommand = "awk \'{awk}\'"\n'
    assert tasks_of(text)["a {x}"].job.command == (f"awk '{awk}'",)
    text = '[tasks."a {x}"]\nfor.x = [1]\nevery = 60\nshell = true\ncommand = "awk \'{{print $1}}\' {x}"\n'
    assert tasks_of(text)["a 1"].job.command == (f"awk '{awk}' 1",)


def test_schedules_may_have_placeholders_too() -> None:
    regions = "{ eu = { hour = 3 }, us = { hour = 9 } }"
    text = f'[tasks."sync {{region}}"]\ncron = "0 {{region.hour}} * * *"\nfor.region = {regions}\n'
    assert [task.schedule.cron for task in tasks_of(text).values()] == ["0 3 * * *", "0 9 * * *"]


FOR = '[checks."p {host}"]\nevery = 60\nfor.host = ["a", "b"]\n'
BAD = [
    (FOR + 'command = ["x", "-H {hots}"]\n', "4:21", "{hots} is not a placeholder, did you mean {host}?"),
    (FOR + 'labels = { a = "b", c = "{zzz}" }\n', "4:26", "{zzz} is not a placeholder, known: {host}, {name}"),
    (FOR + 'command = ["a { b"]\n', "4:15", "'{' alone is no placeholder, write {{ for a brace"),
    (FOR + 'command = ["a } b"]\n', "4:15", "'}' alone is no placeholder, write }}"),
    (FOR + 'command = ["{host.address}"]\n', "4:13", "{host.address} is not a placeholder, known: {host}, {name}"),
    ('[checks."p {hst}"]\nevery = 60\nfor.host = ["a"]\n', "1:12", "{hst} is not a placeholder, did you mean {host}?"),
    ('[checks.p]\nevery = 60\nfor.host = ["a", "b"]\n', "1:2", "'p' is a check already; names are unique, so this one"),
    ('[checks."{a}"]\nevery = 60\nfor.a = ["x", "x"]\n', "1:2", "'x' is a check already"),
    ('[checks."{a}"]\nevery = 60\nfor.a = []\n', "3:9", "no values, accepted: a text such as"),
    ('[checks."{a}"]\nevery = 60\nfor.a = [""]\n', "3:11", "'' is not a value"),
    (
        '[checks."{a}"]\nevery = 60\nfor.a = [true]\n',
        "3:9",
        "'True' is not a value, accepted: a text or a whole number",
    ),
    ('[checks."{a}"]\nevery = 60\nfor.a = ["w[5-3]"]\n', "3:12", "the range [5-3] runs backwards"),
    ('[checks."{a}"]\nevery = 60\nfor.a = { x = 3 }\n', "3:9", "'3' is not a table of attributes"),
    ('[checks."{a}"]\nevery = 60\nfor.a = "[0-999999999]"\n', "3:10", "more than 1,000,000 tasks in all"),
    (
        '[checks."{a}{b}"]\nevery = 60\nfor.a = "[0-9999]"\nfor.b = "[0-9999]"\n',
        "3:9",
        "more than 1,000,000 tasks in all",
    ),
    ('[checks."{a}"]\nevery = 60\nfor = ["x"]\n', "3:7", "is not a table, accepted: for.KEY = [...]"),
    ('[checks."{a}"]\nevery = 60\nfor."a b" = ["x"]\n', "", "'a b' cannot be a placeholder"),
    (
        '[checks.a]\nuse = "htp"\nevery = 60\n[templates.http]\n',
        "2:8",
        "there is no template 'htp', did you mean 'http'?",
    ),
    ('[checks.a]\nuse = ["x"]\nevery = 60\n', "2:9", "there is no template 'x', known: none is defined"),
    ("[checks.a]\nuse = 3\nevery = 60\n", "2:7", "'3' is not the name of a template, or a list of them"),
    ("[templates.t]\nevry = 60\n", "2:8", "templates.t.evry: 'evry' is not a key here"),
    ('[templates.t]\nuse = "u"\n', "2:8", "'use' is not a key here"),
    ('[templates.t]\nevery = 60\nlabels = { a = "{b}" }\n[checks.a]\nuse = "t"\n', "3:17", "{b} is not a placeholder"),
    ('[checks."{a}"]\ncron = "0 {a} * * *"\nfor.a = [1, 25]\n', "2:11", "field 2: 25 is out of range"),
]


@pytest.mark.parametrize(("text", "place", "message"), BAD)
def test_a_problem_of_a_template_is_reported_where_it_stands(text: str, place: str, message: str) -> None:
    found = problems_of(text)
    assert any(message in problem and problem.startswith(f"x.toml:{place}") for problem in found), found


def test_what_a_file_may_make_is_bounded_over_all_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbeat.load.templates.MAX_TASKS", 10)
    one = '[checks."a{i}"]\nevery = 60\nfor.i = ["[1-3]", "[4-6]"]\n'
    assert len(tasks_of(one)) == 6
    assert "more than 10 tasks in all" in problems_of(one + one.replace("a{", "b{"))[0]
    assert "more than 10 tasks in all" in problems_of(one.replace("6", "60"))[0]


def test_a_mistake_in_a_template_is_told_once_and_there() -> None:
    users = "".join(f'[checks.c{i}]\nuse = "t"\n' for i in range(9))
    assert problems_of(f'[templates.t]\nevery = 60\nperiod = "wrk"\n{users}') == [
        "x.toml:3:11: templates.t.period: there is no period 'wrk', known: none is defined"
    ]


def test_a_mistake_of_one_instance_is_not_told_by_all_of_them() -> None:
    assert len(problems_of('[checks."{a}"]\nevery = "5x"\nfor.a = "[1-500]"\n')) == 1


def test_a_name_that_a_range_makes_twice_or_that_another_table_has_is_refused() -> None:
    text = '[checks.web1]\nevery = 60\n[tasks."{host}"]\nevery = 60\nfor.host = "web[0-2]"\n'
    assert "'web1' is a check already" in problems_of(text)[0]


def test_a_warning_about_a_template_is_given_once_where_it_stands() -> None:
    text = '[templates.t]\ncron = "0 3 * * *"\n[tasks."{a}"]\nuse = "t"\nfor.a = "[1-50]"\n'
    found = config_warnings(parse_toml_file(text, "x.toml"))
    assert len(found) == 1
    assert str(found[0]).startswith("x.toml:2:9: '0' pins the minute")


def test_numbers_of_a_range_keep_the_width_they_are_written_with() -> None:
    text = '[checks."{a}"]\nevery = "1h"\nfor.a = ["x[9-11]", "y[09-11]", "r[1-2]u[1-2]", "[::1]"]\n'
    assert list(tasks_of(text)) == [
        *("x9", "x10", "x11", "y09", "y10", "y11", "r1u1", "r1u2", "r2u1", "r2u2", "[::1]"),
    ]
    assert tasks_of(text)["x9"].schedule.every == HOUR
