import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.config import BadFileError
from evenbeat.load.config_validation import config_warnings
from evenbeat.load.crontab import parse_crontab, parse_crontab_file
from evenbeat.load.crontab_dialect import CrontabDialect
from evenbeat.model import MINUTE, SECOND, Contact, Instant, Job, Schedule, Task
from evenbeat.when.schedule import compile_schedule

CRONTAB = r"""
# A comment, and an entry that is switched off:
#0 0 * * * never

SHELL = /bin/sh
PATH="/usr/local/bin:/usr/bin"
17 3 * * 1-5   backup.sh --full >/dev/null 2>&1
@daily rotate 50\%
@hourly	tick
CRON_TZ=Europe/Paris
HOME=/srv
# name: the report
30 6 * * MON  py reports:weekly("all", 3, dry=False)
@reboot start-me
@shutdown stop-me
@every 1m30s poll
H H(1-4) * * * hashed
"""


def tasks_of(text: str, manner: CrontabDialect | None = None) -> dict[str, Task]:
    return {task.name: task for task in parse_crontab(text, "x.crontab", manner).tasks}


def test_a_crontab_is_read_as_cron_reads_it() -> None:
    tasks = tasks_of(CRONTAB)
    path = {"PATH": "/usr/local/bin:/usr/bin", "SHELL": "/bin/sh"}
    assert list(tasks) == ["backup", "rotate", "tick", "the report", "start-me", "stop-me", "poll", "hashed"]
    assert tasks["backup"] == Task(
        "backup",
        Schedule(cron="17 3 * * 1-5", second=0),
        Job(command=("backup.sh --full >/dev/null 2>&1",), shell=True, env=path, cwd="~"),
    )
    assert tasks["rotate"].schedule == Schedule(cron="0 0 * * *", second=0)
    assert tasks["rotate"].job.command == ("rotate 50%",)
    assert tasks["tick"].schedule.cron == "0 * * * *"
    report = tasks["the report"]
    assert report.schedule == Schedule(cron="30 6 * * MON", zone="Europe/Paris", second=0)
    assert report.job == Job(
        function="reports:weekly",
        args=("all", 3),
        kwargs={"dry": False},
        env={**path, "HOME": "/srv"},
        cwd="/srv",
    )
    assert tasks["start-me"].schedule.cron == "@reboot"
    assert tasks["stop-me"].schedule.cron == "@shutdown"
    assert tasks["poll"].schedule.every == 90 * SECOND
    assert tasks["hashed"].schedule.cron == "H H(1-4) * * *"


def test_another_shell_is_the_one_that_runs() -> None:
    assert tasks_of("SHELL=/bin/bash\n* * * * * a <(b)\n")["a"].job == Job(
        command=("/bin/bash", "-c", "a <(b)"), env={"SHELL": "/bin/bash"}, cwd="~"
    )


def test_a_variable_counts_for_the_entries_below_it() -> None:
    tasks = tasks_of("A=1\n@daily one\nA='2'\nB = \"x y\" \n@daily two\n")
    assert tasks["one"].job.env == {"A": "1"}
    assert tasks["two"].job.env == {"A": "2", "B": "x y"}


@pytest.mark.parametrize("head", ["# evenbeat: spread\n", "#evenbeat:spread\n"])
def test_spreading_is_asked_for_in_the_first_lines(head: str) -> None:
    tasks = tasks_of(head + "@daily a\n0 3 * * * b\n")
    assert tasks["a"].schedule == Schedule(cron="@daily")
    assert tasks["b"].schedule == Schedule(cron="0 3 * * *")
    assert tasks == tasks_of("@daily a\n0 3 * * * b\n", CrontabDialect(spread=True))


@pytest.mark.parametrize(("head", "manner"), [("# evenbeat: system\n", None), ("", CrontabDialect(system=True))])
def test_a_system_crontab_has_a_user_before_the_command(head: str, manner: CrontabDialect | None) -> None:
    tasks = tasks_of(head + "@daily root\tupdatedb -v\n17 *  * * * www  touch x\n", manner)
    assert tasks["updatedb"].job.user == "root"
    assert tasks["updatedb"].job.command == ("updatedb -v",)
    assert tasks["touch"].job.user == "www"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("/etc/crontab", "0 5 * * * ana tidy\n"),
        ("etc/cron.d/shop", "0 5 * * * ana tidy\n"),
        ("x", "# m h dom mon dow user  command\n0 5 * * * ana tidy\n"),
        ("x", "# *  *  *  *  * user-name  command to be executed\n0 5 * * * ana tidy\n"),
        ("x", "0 5 * * * www-data tidy\n@daily root tidy all\n"),
    ],
)
def test_a_system_crontab_is_recognised_by_its_place_its_comment_or_its_users(file: str, text: str) -> None:
    tasks = parse_crontab(text, file).tasks
    assert {task.job.user for task in tasks} <= {"ana", "www-data", "root"}
    assert tasks[0].job.command == ("tidy",)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("etc/cron.d/shop", "# evenbeat: personal\n0 5 * * * ana tidy\n"),
        ("etc/cron.d/shop", "0 5 * * * /usr/bin/tidy it\n"),
        ("x", "# m h dom mon dow command\n0 5 * * * ana tidy\n"),
        ("x", "0 5 * * * root tidy\n0 6 * * * make all\n"),
        ("x", "0 5 * * * root\n"),
    ],
)
def test_a_crontab_of_one_person_has_no_users(file: str, text: str) -> None:
    assert {task.job.user for task in parse_crontab(text, file).tasks} == {None}


def test_crontabs_that_cron_keeps_are_those_of_the_users_after_whom_they_are_named() -> None:
    for folder in ("/var/spool/cron/crontabs", "/var/spool/cron", "copy/spool/cron/tabs"):
        (task,) = parse_crontab("0 5 * * * root tidy\n", f"{folder}/ana").tasks
        assert (task.job.user, task.job.command) == ("ana", ("root tidy",))


@pytest.mark.parametrize(
    ("fields", "entry"),
    [
        ("0~29 ~ * * *", "H(0-29) H * * *"),
        ("~/10 * * * *", "H/10 * * * *"),
        ("5~,30 3 1~ * 1~5", "H(5-59),30 3 H(1-28) * H(1-5)"),
    ],
)
def test_a_random_range_is_one_stable_value_of_it(fields: str, entry: str) -> None:
    assert tasks_of(f"{fields} x\n")["x"].schedule.cron == entry


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cat%one%two", "one\ntwo\n"),
        ("cat; cat%one", "one\n"),
        ("cat % two words ", " two words\n"),
        (r"cat%50\% of $HOME%END%`id`", "50% of $HOME\nEND\n`id`\n"),
        (r"printf '\%s\n' 100\%", "100%\n"),
        ("cat %", ""),
        ("false % x", "failed"),
    ],
)
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/env"])
def test_what_follows_a_bare_percent_is_the_input_of_the_command(line: str, said: str, shell: str) -> None:
    head = "" if shell == "/bin/sh" else f"SHELL={shell}\n"
    if shell == "/usr/bin/env":  # stands for a shell that does not read here-documents as sh does
        line = line.replace("cat; cat", "cat")
        head = f"SHELL={Path(__file__).parent / 'unusual_shell'}\n"
    (task,) = parse_crontab(f"{head}@daily {line}\n", "x").tasks
    words = ["/bin/sh", "-c", *task.job.command] if task.job.shell else [*task.job.command]
    result = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert (result.stdout or ("failed" if result.returncode else "")) == said


def test_input_is_no_part_of_a_name_and_tells_commands_apart_all_the_same() -> None:
    assert list(tasks_of("@daily ./backup.sh%hello\n")) == ["backup"]
    assert len(tasks_of("@daily ./backup.sh%hello\n@daily ./backup.sh%other\n")) == 2


def test_a_name_belongs_directly_above_its_entry() -> None:
    assert list(tasks_of("# name: b\n@daily a\n@daily c\n")) == ["b", "c"]
    assert list(tasks_of("# name: b\n# more about it\n@daily a\n")) == ["b"]
    source = parse_crontab_file("# name: b\n\n@daily a\n", "x")
    assert source.config.tasks[0].name == "a"
    assert [str(w) for w in source.warnings] == ["x:1:9: this names nothing: `# name:` belongs directly above an entry"]


def test_changing_the_order_changes_no_name() -> None:
    lines = ["0 1 * * * curl a", "0 2 * * * curl b", "0 3 * * * curl a", "@daily x.sh"]
    there = {(t.schedule.cron, t.job.command): n for n, t in tasks_of("\n".join(lines)).items()}
    back = {(t.schedule.cron, t.job.command): n for n, t in tasks_of("\n".join(lines[::-1])).items()}
    assert there == back
    assert len(there) == 4


BAD = [
    ("* 25 * * * x", "1:3", "field 2: 25 is out of range"),
    ("  0 0 30 2 *   x", "1:7", "field 3: no date ever has day of month 30"),
    ("5/15 * * * * x", "1:2", "has a step but no range, write 5-59/15"),
    ("0 1 * * * a\0b", "1:12", "a NUL, which no command can have"),
    ("@every 5x y", "1:9", "'x' is not a unit"),
    ("@every 100ms y", "1:8", "0.1 s is out of range"),
    ("@every", "1:7", "a command should follow '@every'"),
    ("@dayly foo", "1:1", "'@dayly' is not an alias"),
    ("@", "1:2", "a command should follow '@'"),
    ("* * * *", "1:1", "an entry is MINUTE HOUR DAY MONTH WEEKDAY COMMAND"),
    ("* * * * *", "1:10", "a command should follow '* * * * *'"),
    ("* * * * *   ", "1:10", "a command should follow"),
    ("0 1 * * * % only input", "1:11", "a command should stand before its input"),
    ("0 1 * * * py a:b(5%)", "1:19", "a function has no input: write \\% for a percent sign"),
    ("0 1 * * * py a:b(foo)", "1:18", "not a literal"),
    ("0 1 * * * py ab", "1:14", "'ab' is not a function"),
    ("\nCRON_TZ=Mars\n", "2:9", "'Mars' is not a time zone"),
    ("@daily a\n@daily a\n", "2:1", "is the name of line 1 already; a line `# name: ...` above it tells them apart"),
    ("# name: x\n@daily a\n# name: x\n@daily b\n", "4:1", "'x' is the name of line 2 already; names are unique"),
    ("# name:\n@daily a\n", "1:8", "a name of 0 characters"),
    (f"# name: {'n' * 257}\n", "1:9", "a name of 257 characters"),
    ("# evenbeat: spraed\n", "1:13", "'spraed' is not understood, accepted: spread, system, personal"),
    ("@daily a\n# evenbeat: spread\n", "2:13", "this belongs above the first entry"),
    ("# evenbeat: system personal\n", "1:13", "'system personal' is not understood"),
    ("# evenbeat: system\n@daily root\n", "2:12", "a command should follow '@daily'"),
    ("# evenbeat: system\n@daily\n", "2:7", "a user and a command should follow '@daily'"),
    (f"@daily {'x' * 100_000}", "1:1", "a line of 100007 characters"),
    (f"HOME={'x' * 2_000}\n@daily a\n", "2:1", "Expected `str` of length <= 1000 - at `$.job.cwd`"),
]


@pytest.mark.parametrize(("text", "place", "message"), BAD)
def test_a_problem_of_a_crontab_is_reported_where_it_stands(text: str, place: str, message: str) -> None:
    with pytest.raises(BadFileError) as caught:
        parse_crontab(text, "x.crontab")
    found = [str(problem) for problem in caught.value.errors]
    assert len(found) == 1, found
    assert found[0].startswith(f"x.crontab:{place}: ")
    assert message in found[0]


def test_all_problems_are_told_in_the_order_of_the_lines() -> None:
    with pytest.raises(BadFileError) as caught:
        parse_crontab("* 25 * * * x\nCRON_TZ=Mars\n0 1 * * * %a\n@dayly z\n", "x")
    assert [p.place.line for p in caught.value.errors if p.place] == [1, 2, 3, 4]


def test_of_very_many_the_first_are_listed() -> None:
    with pytest.raises(BadFileError, match=r"\.\.\. and 400 more"):
        parse_crontab("@dayly x\n" * 500, "x")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("MAILTO=me\n", "1:8", "a run that fails is mailed; the output of others is kept with the run and not mailed"),
        ("MAILTO=@x\n", "1:8", "MAILTO is not used: '@x' is not a mail address, accepted: NAME@HOST"),
        ("MAILFROM=a@b\n", "1:10", "MAILFROM is not used: `sender` of a contact says from whom mails come"),
        ("TZ=Asia/Tokyo\n", "1:4", "TZ is for commands, as in cron: times are those of UTC; CRON_TZ sets their zone"),
        (
            "H H * * * date +%d\n",
            "1:17",
            "the command ends at this % and its input begins: write \\% for a percent sign",
        ),
        ("-H H * * * x\n", "1:1", "the - before the minute is not used: every run is recorded with its task"),
        ("H H * * * -n -q x\n", "1:11", "-n -q is not used: a run that succeeds is never mailed"),
        ("H H * * * root x\n", "1:11", "read as a user before each command: all entries have root there"),
        ("RANDOM_DELAY=30\n", "1:14", "RANDOM_DELAY is not used"),
        ("TOKEN=file:/etc/x\n", "1:7", "the value will be read from the file that it names"),
        ("TOKEN=env:X\n", "1:7", "the value will be read from the variable that it names"),
        ("0 3 * * * x\n", "1:1", "'0' pins the minute"),
        ("  */7 * * * * x\n", "1:3", "7 does not divide 60"),
    ],
)
def test_what_works_but_surprises_is_a_warning(text: str, place: str, message: str) -> None:
    found = [str(warning) for warning in config_warnings(parse_crontab_file(text, "x"))]
    assert len(found) == 1
    assert found[0].startswith(f"x:{place}: ")
    assert message in found[0]


def test_mailto_is_a_contact_of_the_entries_below_it() -> None:
    text = '@daily a\nMAILTO=root\n@daily b\nMAILTO="ana@example.org, bo"\n@daily c\nMAILTO=\n@daily d\nMAILTO=me\n'
    config = parse_crontab(text, "x")
    assert [(task.name, [one.to for one in task.notify]) for task in config.tasks] == [
        ("a", []),
        ("b", ["root"]),
        ("c", ["ana@example.org, bo"]),
        ("d", []),
    ]
    assert config.contacts == {
        "root": Contact(email=("root@localhost",)),
        "ana@example.org, bo": Contact(email=("ana@example.org", "bo@localhost")),
    }


@pytest.mark.parametrize("count", [50, 51])
def test_a_mailto_has_as_many_addresses_as_a_contact(count: int) -> None:
    words = ",".join(f"user{i:02}@example.org" for i in range(count))
    config = parse_crontab(f"MAILTO={words}\n@daily a\n", "x")
    assert [len(contact.email) for contact in config.contacts.values()] == ([count] if count <= 50 else [])
    assert all(name.startswith("MAILTO ") for name in config.contacts), "such a list is too long for a name"


def test_an_empty_mailto_means_no_mail_and_needs_no_warning() -> None:
    source = parse_crontab_file('MAILTO=""\n', "x")
    assert source.warnings == ()


def test_lines_may_end_as_on_windows() -> None:
    assert tasks_of("A=1\r\n@daily x y\r\n")["x"].job == Job(command=("x y",), shell=True, env={"A": "1"}, cwd="~")


FIELD = st.sampled_from(["*", "0", "5", "*/2", "1-5", "1,3", "2-10/4"])


@given(st.lists(FIELD, min_size=5, max_size=5), st.integers(0, 2**31))
def test_times_are_the_ones_cron_keeps(fields: list[str], start: int) -> None:
    entry = " ".join([*fields[:3], fields[3].replace("0", "1"), *fields[4:]]).replace("2-10/4", "2-6/4")
    entry = entry if entry.split()[2] != "0" else entry.replace("0", "1")
    task = parse_crontab(f"{entry} x", "x").tasks[0]
    expected = next(CronSim(entry, datetime.fromtimestamp(start, UTC)))
    found = compile_schedule(task.schedule, task.name).next_after(Instant(start * SECOND))
    assert found == int(expected.timestamp()) * SECOND
    assert found is not None
    assert found % MINUTE == 0


@given(st.text())
def test_no_text_makes_it_fail_other_than_with_problems(text: str) -> None:
    try:
        parse_crontab(text, "x")
    except BadFileError as e:
        assert all(problem.place is not None for problem in e.errors)
