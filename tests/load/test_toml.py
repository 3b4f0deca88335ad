import os
from pathlib import Path

import pytest

from evenbeat.load.config import BadFileError, Durability, NodeSettings
from evenbeat.load.files import load_file, load_parsed_file
from evenbeat.load.toml import parse_toml
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Backlog, Days, Hash, Job, Missed, Schedule, Spread, Task

GOOD = """
[defaults]
zone = "Europe/Paris"
spread = "hash"
days = "and"
period = "work"

[periods.work]
ranges = ["monday-friday 09:00-17:00"]
exclude = ["free"]
[periods.free]
holidays = "FR"
zone = "UTC"

[checks.disk]
every = "5m"
weight = 2.5
command = ["check_disk", "-w", "10%"]
[checks."web site"]
every = 10
phase = "3s"
spread = "even"

[tasks.report]
cron = "H H(6-7) * * 1-5"
hash = "jenkins"
second = 0
[tasks.mail]
cron = "H/15 * * * *"
second = "spread"
labels = { team = "post" }
[tasks.once]
at = "2026-12-01T09:00"
[tasks.monthly]
calendar = "*-*-01 07:30"
"""


def test_a_file_gives_checks_tasks_and_periods_with_the_defaults_that_suit_them() -> None:
    config = parse_toml(GOOD, "x.toml")
    tasks = {task.name: task for task in config.tasks}
    assert list(tasks) == ["disk", "web site", "report", "mail", "once", "monthly"]
    assert [task.check for task in config.tasks] == [True, True, False, False, False, False]
    assert all(task.period == "work" for task in config.tasks)
    assert all(task.schedule.zone == "Europe/Paris" for task in config.tasks)
    assert tasks["disk"].schedule.every == 5 * MINUTE
    assert tasks["disk"].schedule.spread is Spread.HASH
    assert tasks["disk"].weight == 2.5
    assert tasks["disk"].job.command == ("check_disk", "-w", "10%")
    assert tasks["web site"].schedule.phase == 3 * SECOND
    assert tasks["web site"].schedule.spread is Spread.EVEN
    assert tasks["report"].schedule.hash is Hash.JENKINS
    assert tasks["report"].schedule.second == 0
    assert tasks["report"].schedule.days is Days.AND
    assert tasks["mail"].schedule.second is None
    assert tasks["mail"].labels == {"team": "post"}
    assert config.periods["work"].zone == "Europe/Paris"
    assert config.periods["free"].zone == "UTC"


BAD = [
    ('[checks.a]\nevery = "5x"\n', "2:11", "checks.a.every: 'x' is not a unit"),
    ("[checks.a]\nevery = true\n", "2:9", "'True' is not a duration"),
    ('[checks.a]\nevery = "500ms"\n', "2:10", "0.5 s is out of range, accepted: 1s to 3653d"),
    ('[checks.a]\nevery = "5m"\nphase = "5m"\n', "3:10", "a phase belongs to `every`, from 0 to less than it"),
    ('[tasks.a]\ncron = "0 25 * * *"\n', "2:11", "tasks.a.cron, field 2: 25 is out of range"),
    ("[tasks.a]\n  cron   =   '0 0 30 2 *'\n", "2:19", "no date ever has day of month 30"),
    ('[tasks.a]\ncron = "* * * * *"\nsecond = 60\n', "3:10", "tasks.a.second: Expected `int` <= 59"),
    ('[tasks.a]\ncron = "* * * * *"\ndays = "xor"\n', "3:9", "'xor' is not a choice, accepted: or, and"),
    ('[tasks.a]\ncron = "* * * * *"\nspread = "even"\nphase = 3\n', "4:9", "a phase belongs to `every`"),
    ('[tasks.a]\nevery = "1h"\nhash = "jenkins"\n', "3:9", "`hash` belongs to cron entries"),
    (
        '[tasks.a]\nevery = "1h"\ncron = "@daily"\n',
        "1:2",
        "exactly one of every, cron, calendar, at, after, after_failure; found every and cron",
    ),
    ("[tasks.a]\n", "1:2", "found none of them"),
    ('[tasks.a]\nevery = "1h"\nfoo = 1\n', "3:7", "'foo' is not a key here, accepted: every, cron"),
    ('[tasks.a]\nevery = "1h"\ncomand = []\n', "3:10", "'comand' is not a key here, did you mean command?"),
    ('[tasks.a]\nevery = "1h"\nname = "b"\n', "3:9", "'name' is not a key here"),
    ('[periods."a.b"]\nranges = ["day 1", "x"]\n', "2:21", "periods.a.b.ranges.1: 'x' is not a day"),
    (
        '[tasks.a]\nevery = "1h"\ncommand = "ls -l"\n',
        "3:12",
        'accepted: a list of words: ["ls", "-l"]; or shell = true',
    ),
    ('[tasks.a]\nevery = "1h"\ncommand = ["ls", 1]\n', "3:11", "Expected `str`, got `int`"),
    ('[tasks.a]\nevery = "1h"\nweight = 0\n', "3:10", "Expected `float` > 0"),
    ('[tasks.a]\nevery = "1h"\nperiod = "wrk"\n[periods.work]\n', "3:11", "there is no period 'wrk', known: work"),
    ('[tasks.a]\nevery = "1h"\nzone = "Europe/Pari"\n', "3:9", "did you mean Europe/Paris"),
    ('[tasks.a]\nat = "soon"\n', "2:7", "'soon' is not a time, accepted"),
    ('[tasks.a]\ncalendar = "Mon 25:00"\n', "2:13", "is not an OnCalendar expression"),
    ('[defaults]\nzone = "Mars"\n[tasks.a]\nevery = "1h"\n', "2:9", "defaults.zone: 'Mars' is not a time zone"),
    ('[periods.p]\nranges = ["monday", "moonday"]\n', "2:22", "periods.p.ranges.1: 'moonday' is not a day"),
    ('[periods.p]\nranges = [\n  "monday",\n  "day 32",\n]\n', "4:8", "32 is not a day of the month"),
    ('[periods.p]\nexclude = ["q"]\n', "2:11", "there is no period 'q'"),
    ('[periods.a]\ninclude = ["b"]\n[periods.b]\ninclude = ["a"]\n', "", "in a circle: a -> b -> a"),
    ('[periods.p]\nholidays = "ZZ"\n', "2:13", "no holidays are known for 'ZZ'"),
    ('[periods.p]\nrange = ["monday"]\n', "2:9", "'range' is not a key here, accepted: ranges, holidays"),
    (
        "[task.a]\n",
        "1:2",
        "'task' is not a section, accepted: node, defaults, templates, periods, contacts, limits, downtimes, checks,",
    ),
    ("tasks = 3\n", "1:9", "'3' where a table [tasks] should be"),
    ("[tasks]\na = 3\n", "2:5", "'3' where a table [tasks.a] should be"),
    ('[checks.a]\nevery = "1h"\n[tasks.a]\nevery = "1h"\n', "3:2", "'a' is a check already; names are unique"),
    ('[[tasks]]\nevery = "1h"\n', "1:3", "where a table [tasks] should be"),
    ("[defaults]\nsped = 1\n", "2:8", "'sped' is not a key here"),
    ('[defaults]\nspread = "evn"\n[tasks.a]\nevery = "1h"\n', "2:11", "'evn' is not a choice, accepted: even, hash"),
    ('[defaults]\nevery = "1x"\n', "2:11", "'x' is not a unit"),
    ('[tasks.a]\nevery = "1h"\nlabels = { a = 1 }\n', "3:10", "tasks.a.labels: Expected `str`, got `int`"),
    ('[tasks.""]\nevery = "1h"\n', "1:2", "the name: Expected `str` of length >= 1"),
    ('[tasks.a]\nevery = "1h"\ntimebox = "5x"\n', "3:13", "tasks.a.timebox: 'x' is not a unit"),
    ('[tasks.a]\nevery = "1h"\ntimebox = 0\n', "3:11", "tasks.a.timebox: too short, accepted: a duration"),
    (
        '[tasks.a]\nevery = "1h"\ntimebox = "101%"\n',
        "3:12",
        "tasks.a.timebox: '101%' is not a timebox, accepted: a duration",
    ),
    ('[tasks.a]\nevery = "1h"\ntimebox = "0%"\n', "3:12", "tasks.a.timebox: '0%' is not a timebox"),
    (
        '[tasks.a]\nat = "2030-01-01"\ntimebox = "50%"\n',
        "3:12",
        "tasks.a.timebox: `timebox` has no effect here: the task",
    ),
    (
        '[tasks.a]\ncron = "@reboot"\ntimebox = "50%"\n',
        "3:12",
        "tasks.a.timebox: `timebox` has no effect here: the task",
    ),
    ('[checks.a]\nevery = "1h"\ntimebox = "none"\n', "3:12", "checks.a.timebox: `timebox` has no effect here: a check"),
    (
        '[checks.a]\nevery = "1h"\npassive = true\ntimebox = "9%"\n',
        "4:12",
        "checks.a.timebox: `timebox` has no effect here",
    ),
    ('[tasks.a]\nevery = "1h"\nretry = []\n', "3:9", "'[]' is not a duration"),
    ('[tasks.a]\nevery = "1h"\nretries = 101\n', "3:11", "Expected `int` <= 100"),
    ('[tasks.a]\nevery = "1h"\nretries = 1\nretry_on = [256]\n', "4:12", "Expected `int` <= 255"),
    ('[tasks.a]\nevery = "1h"\nretries = 1\nretry_on = [1, "7"]\n', "4:17", "'7' is neither an exit code nor the name"),
    (
        '[tasks.a]\nevery = "1h"\nretries = 1\nbackoff = "1h"\nbackoff_max = "1m"\n',
        "5:16",
        "1m is shorter than the first delay, `backoff`, which is 1h",
    ),
    ('[tasks.a]\nevery = "1h"\nmissed = "never"\n', "3:11", "'never' is not a choice, accepted: once, skip, all"),
    ('[tasks.a]\nevery = "1h"\nbacklog = "x"\n', "3:12", "accepted: merge, each"),
    ('[checks.a]\nevery = "1h"\nattempts = 256\n', "3:12", "Expected `int` <= 255"),
    ('[tasks.a]\nevery = "1h"\nstart_at = "soon"\n', "3:13", "tasks.a.start_at: 'soon' is not a time"),
    ('[tasks.a]\nevery = "1h"\npaused = true\n', "3:10", "'paused' is not a key here"),
    ('[tasks.a]\nevery = "1h"\nfunction = "reports"\n', "3:13", "'reports' is not a function, accepted: module:f"),
    ('[tasks.a]\nevery = "1h"\nfunction = "m:f"\ncommand = ["a"]\n', "3:13", "a command or a function, found both"),
    ('[tasks.a]\nevery = "1h"\nargs = [1]\n', "3:8", "arguments belong to a function"),
    ('[tasks.a]\nevery = "1h"\nfunction = "m:f"\nargs = [2020-01-01]\n', "4:8", "tasks.a.args.0: Expected"),
    ('[tasks.a]\nevery = "1h"\ncommand = ["a", "b"]\nshell = true\n', "3:11", "the command is one line, found 2"),
    ('[tasks.a]\nevery = "1h"\ncommand = "it\'s"\n', "3:12", "one text, accepted: a list of words; or shell"),
    ('[tasks.a]\nevery = "1h"\nenv = { "A=B" = "x" }\n', "3:18", "'A=B' cannot be the name of a variable"),
    ('[tasks.a]\nevery = "1h"\ncommand = ["a\\u0000b"]\n', "3:11", "a NUL, which no command can have"),
    ("[tasks.a]\nevery = 2026-12-01\n", "2:9", "'2026-12-01' is not a duration"),
    ("[tasks.a]\nat = 09:00:00\n", "2:6", "Expected `str`, got `time`"),
    ("[limits]\ndb = 0\n", "2:6", "limits.db: '0' is not a limit, accepted: a whole number from 1"),
    ("[limits]\ndb = true\n", "2:6", "'True' is not a limit"),
    ('[limits]\n"" = 3\n', "2:6", "the name: accepted: 1 to 256 characters"),
    ("limits = 4\n", "1:10", "'4' where a table [limits] should be"),
    ('[node]\nkeep = "30x"\n', "2:11", "node.keep: 'x' is not a unit"),
    ('[node]\nstop_grace = "2d"\n', "2:15", "node.stop_grace: '2d' is out of range, accepted: 0s to 1d"),
    ('[node]\nstart_window = "2d"\n', "2:17", "node.start_window: '2d' is out of range, accepted: 1s to 1d"),
    ("[node]\nstart_rate = 0\n", "2:14", "node.start_rate: Expected `int` >= 1"),
    ('[node]\ndurability = "ful"\n', "2:15", "'ful' is not a choice, accepted: normal, full"),
    ("[node]\nmax_concurrent = 0\n", "2:18", "node.max_concurrent: Expected `int` >= 1"),
    ("[node]\nslots = 3\n", "2:9", "'slots' is not a key here, accepted: max_concurrent, keep, durability"),
    ('[defaults]\ncommand = "ls -l"\n', "2:12", 'defaults.command: one text, accepted: a list of words: ["ls", "-l"]'),
    ("[defaults]\nargs = [2020-01-01]\n", "2:8", "defaults.args.0: Expected"),
    (
        '[tasks.a]\nevery = "1h"\nfunction = "m:f"\nargs = [[2020-01-01]]\n',
        "4:8",
        "tasks.a.args: a date cannot be an argument, accepted: texts, numbers, true, false, lists and tables",
    ),
    ('[tasks.a]\nevery = "1h"\nevery = "2h"\n', "3:1", "duplicate key"),
    ("[tasks.a]\n[tasks.a]\n", "2:8", "duplicate key"),
    ("[tasks.a\n", "1:9", "unclosed table, expected `]`"),
]


@pytest.mark.parametrize(("text", "place", "message"), BAD)
def test_a_problem_is_reported_where_it_stands(text: str, place: str, message: str) -> None:
    with pytest.raises(BadFileError) as caught:
        parse_toml(text, "x.toml")
    found = [str(problem) for problem in caught.value.errors]
    assert len(found) == 1, found
    assert found[0].startswith(f"x.toml:{place}" if place else "x.toml:")
    assert message in found[0]


def test_all_problems_of_a_file_are_reported_at_once() -> None:
    text = '[checks.a]\nevery = "5x"\n[tasks.b]\ncron = "* * * *"\n[periods.p]\nranges = ["x"]\n[other]\n'
    with pytest.raises(BadFileError) as caught:
        parse_toml(text, "x.toml")
    assert len(caught.value.errors) == 4


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="No such file"):
        load_file(tmp_path / "none.toml")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'[tasks."caf\xe9"]\n')
    with pytest.raises(BadFileError, match=r"not UTF-8 text .* at byte 11"):
        load_file(latin)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbeat.load.files.MAX_FILE_BYTES", 10)
    file = tmp_path / "large.toml"
    file.write_text('[tasks.a]\nevery = "1h"\n')
    with pytest.raises(BadFileError, match="larger than"):
        load_file(file)


def test_the_example_file_is_good() -> None:
    config = load_file(Path(__file__).parents[2] / "examples" / "checks.toml")
    assert {task.name for task in config.tasks} >= {"web", "report"}
    assert next(task for task in config.tasks if task.name == "backup").schedule.every == 6 * HOUR


def test_a_default_schedule_serves_the_tasks_that_have_none() -> None:
    text = '[defaults]\nevery = "5m"\n[checks.a]\n[tasks.b]\ncron = "@daily"\n'
    schedules = {task.name: task.schedule for task in parse_toml(text, "x.toml").tasks}
    assert schedules["a"].every == 5 * MINUTE
    assert schedules["b"].every is None


@pytest.mark.parametrize(
    "at", ["2026-12-01T09:00:00", "2026-12-01", "2026-12-01T09:00:00+01:00", "2026-12-01 09:00:00"]
)
def test_a_time_may_be_written_without_quotes(at: str) -> None:
    config = parse_toml(f"[tasks.a]\nat = {at}\n", "x.toml")
    assert config.tasks[0].schedule.at == at.replace(" ", "T")


ALL_KEYS = """
[node]
max_concurrent = 50
keep = "30d"
durability = "full"
[limits]
db = 4
[defaults]
labels = { team = "ops", site = "paris" }
env = { LANG = "C" }
[checks.sql]
every = "1m"
command = ["check_sql"]
enabled = false
start_at = 2026-12-01T09:00:00Z
timebox = 20
tolerance = "0s"
missed = "all"
catch_up = "2h"
backlog = "each"
limit = "db"
priority = 5
retry = "15s"
attempts = 5
grace = "1m30s"
labels = { team = "db" }
[tasks.line]
cron = "@daily"
command = "sort a | uniq >b"
shell = true
env = { TOKEN = "file:/run/token" }
cwd = "/srv"
user = "backup"
[tasks.call]
cron = "@daily"
function = "reports:daily"
args = ["x", 3, 1.5, true]
kwargs = { dry = false }
"""


def test_everything_that_can_be_said_of_a_task_is_read() -> None:
    config = parse_toml(ALL_KEYS, "x.toml")
    tasks = {task.name: task for task in config.tasks}
    assert config.node == NodeSettings(50, 30 * DAY, Durability.FULL)
    assert config.limits == {"db": 4}
    assert tasks["sql"] == Task(
        "sql",
        Schedule(every=MINUTE),
        Job(command=("check_sql",), env={"LANG": "C"}),
        check=True,
        enabled=False,
        start_at="2026-12-01T09:00:00+00:00",
        timebox=20 * SECOND,
        tolerance=0,
        missed=Missed.ALL,
        catch_up=2 * HOUR,
        backlog=Backlog.EACH,
        limit="db",
        priority=5,
        retry=15 * SECOND,
        attempts=5,
        grace=90 * SECOND,
        labels={"team": "db", "site": "paris"},
    )
    assert tasks["line"].job == Job(
        command=("sort a | uniq >b",),
        shell=True,
        env={"LANG": "C", "TOKEN": "file:/run/token"},
        cwd="/srv",
        user="backup",
    )
    assert tasks["call"].job == Job(
        function="reports:daily", args=("x", 3, 1.5, True), kwargs={"dry": False}, env={"LANG": "C"}
    )


def test_a_file_that_says_nothing_of_the_node_has_no_settings() -> None:
    config = parse_toml("", "x.toml")
    assert (config.tasks, config.periods, config.limits, config.node) == ((), {}, {}, None)


def test_a_default_command_is_not_for_tasks_with_a_function_nor_the_other_way_round() -> None:
    text = '[defaults]\nevery = 9\ncommand = "a b"\nshell = true\n[tasks.f]\nfunction = "m:f"\n[tasks.c]\n'
    jobs = {task.name: task.job for task in parse_toml(text, "x.toml").tasks}
    assert jobs["f"] == Job(function="m:f")
    assert jobs["c"] == Job(command=("a b",), shell=True)


def test_true_is_no_second_even_after_a_task_with_second_1() -> None:
    text = '[tasks.a]\ncron = "@daily"\nsecond = 1\n[tasks.b]\ncron = "@daily"\nsecond = true\n'
    with pytest.raises(BadFileError, match=r"x.toml:6:10: tasks.b.second: Expected `int`, got `bool`"):
        parse_toml(text, "x.toml")


def test_a_hashed_date_is_checked_for_every_name() -> None:
    names = [f"t{i}" for i in range(40)]
    text = "".join(f'[tasks.{name}]\ncron = "0 0 H(28-31) 2 *"\n' for name in names)
    with pytest.raises(BadFileError) as caught:
        parse_toml(text, "x.toml")
    assert 0 < len(caught.value.errors) < len(names)


def test_every_mistake_of_one_task_is_told() -> None:
    text = '[tasks.a]\ncron = "0 0 * * 9"\nzone = "Mars"\nweight = "x"\nfoo = 1\ncommand = 3\nsecond = 99\n'
    with pytest.raises(BadFileError) as caught:
        parse_toml(text, "x.toml")
    lines = sorted(problem.place.line for problem in caught.value.errors if problem.place)
    assert lines == [2, 3, 4, 5, 6, 7]


def test_of_very_many_problems_the_first_are_listed_and_the_others_counted() -> None:
    text = "".join(f'[tasks.t{i}]\nevery = "5x"\n' for i in range(2_500))
    with pytest.raises(BadFileError) as caught:
        parse_toml(text, "x.toml")
    assert len(caught.value.errors) == 100
    assert caught.value.errors[99].place == (200, 11)
    assert str(caught.value).endswith("... and 2,400 more")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a = " + "[" * 5_000, "nested too deep"), ("a = " + "9" * 5_000, "integer number overflowed")],
)
def test_what_python_cannot_read_is_a_problem_like_any_other(text: str, message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        parse_toml(text, "x.toml")


def test_a_mark_of_byte_order_is_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "bom.toml"
    file.write_bytes(b'\xef\xbb\xbf[tasks.a]\nevery = "1h"\n')
    assert len(load_parsed_file(file, must_run=False).config.tasks) == 1


def test_pipes_devices_and_folders_are_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(BadFileError, match="not a regular file"):
            load_file(path)
