from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_accounting import copy_of_corpus, is_named, omitted_lines, silent_lines, tasks_of, texts_of

from evenbeat.load.config import BadFileError
from evenbeat.load.importers.report import ImportResult
from evenbeat.load.importers.systemd import import_systemd
from evenbeat.load.importers.systemd_command import service_commands, split_words, unit_specifiers
from evenbeat.load.importers.systemd_times import entry_with_delay, parse_span
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Invalid, Missed, Schedule, Task
from evenbeat.when.schedule import compile_schedule


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_of_corpus("systemd", tmp_path)


def imported(root: Path) -> ImportResult:
    folders = ("etc/systemd/system", "lib/systemd/system", "home/.config/systemd/user")
    return import_systemd([root / folder for folder in folders], "Europe/Berlin", f"{root}/secrets")


def units(folder: Path, timer: str, service: str, name: str = "x") -> ImportResult:
    (folder / f"{name}.timer").write_text(f"[Timer]\n{timer}\n")
    (folder / f"{name}.service").write_text(f"[Service]\n{service}\n")
    return import_systemd([folder / f"{name}.timer"], "UTC")


def task_of(folder: Path, timer: str = "OnCalendar=daily", service: str = "ExecStart=/bin/true") -> Task:
    return tasks_of(units(folder, timer, service))["x"]


# The corpus


def test_timers_become_tasks_by_their_names(root: Path) -> None:
    tasks = tasks_of(imported(root))
    assert {name: task.enabled for name, task in tasks.items()} == {
        "mirror@debian": True,
        r"mirror@srv-dist\x2dfiles": True,
        "notes": True,
        "notify@restic.service": True,
        "old": False,  # not enabled
        "orphan": False,  # without a service
        "poll": False,  # of a user that systemd makes
        "report": True,
        "report (2)": True,
        "report (3)": True,
        "restic": True,
        "tidy": True,
        "warm-up": True,
    }
    assert {task.schedule.zone for name, task in tasks.items() if name[:2] not in ("wa", "no")} == {"Europe/Berlin"}


def test_times_are_those_of_the_timer(root: Path) -> None:
    tasks = tasks_of(imported(root))
    zone = "Europe/Berlin"
    assert tasks["restic"].schedule == Schedule(cron="H(30-49) 02 * * *", zone=zone)
    assert tasks["report"].schedule == Schedule(calendar="Mon..Fri 08:00 Europe/Berlin", zone=zone)
    assert tasks["report (3)"].schedule == Schedule(calendar="*-*~01 18:00", zone=zone)
    assert tasks["poll"].schedule.every == 90 * SECOND
    assert tasks["warm-up"].schedule.cron == "@reboot"
    assert {tasks[name].missed for name in ("restic", "tidy")} == {Missed.ONCE}
    assert {tasks[name].missed for name in ("report", "mirror@debian")} == {Missed.SKIP}


def test_several_times_of_one_service_never_run_at_the_same_time(root: Path) -> None:
    result = imported(root)
    tasks = tasks_of(result)
    assert {tasks[name].limit for name in ("report", "report (2)", "report (3)")} == {"make-reports.service"}
    assert result.document["limits"] == {"make-reports.service": 1}


@pytest.mark.parametrize(
    ("service", "retries", "backoff"),
    [
        ("Restart=on-failure\nRestartSec=30", 100, 30 * SECOND),
        ("Restart=on-failure\n[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=3", 2, SECOND),
        ("Restart=no", None, None),
        ("Restart=on-abort", None, None),
    ],
)
def test_a_restart_after_a_failure_is_a_retry(
    tmp_path: Path, service: str, retries: int | None, backoff: int | None
) -> None:
    task = task_of(tmp_path, service=f"ExecStart=/bin/true\n{service}")
    assert (task.retries, task.backoff, task.backoff_max) == (retries, backoff, backoff)


def test_units_that_follow_an_end_become_chained_tasks(root: Path, tmp_path: Path) -> None:
    task = tasks_of(imported(root))["notify@restic.service"]
    assert task.schedule == Schedule(after_failure=("restic",))
    assert task.job.command[1:] == ("failed", "restic.service")
    for name in ("a", "b"):
        (tmp_path / f"{name}.timer").write_text("[Timer]\nOnCalendar=daily\n")
        ends = "OnFailure=alarm.service gone.service x.target\nOnSuccess=done.service"
        (tmp_path / f"{name}.service").write_text(f"[Unit]\n{ends}\n[Service]\nExecStart=/bin/true\n")
    for name in ("alarm", "done"):
        (tmp_path / f"{name}.service").write_text("[Service]\nExecStart=/bin/true\n")
    result = import_systemd([tmp_path], "UTC")
    found = {name: task.schedule for name, task in tasks_of(result).items() if task.schedule.parents}
    assert found == {
        "alarm": Schedule(after_failure=("a", "b")),
        "done": Schedule(after=("a",)),
        "done (2)": Schedule(after=("b",)),
    }
    assert {one.why for one in result.omissions} == {"there is no gone.service here", "only services become tasks"}


def test_only_limits_of_the_service_are_a_timebox(root: Path) -> None:
    tasks = tasks_of(imported(root))
    assert tasks["restic"].timebox == 4 * HOUR, "by its drop-in"
    assert tasks["report"].timebox == HOUR
    assert {tasks[name].timebox for name in ("tidy", "poll", "warm-up")} == {None}


def test_instances_of_templates_are_those_that_are_enabled(root: Path) -> None:
    task = tasks_of(imported(root))[r"mirror@srv-dist\x2dfiles"]
    assert task.job.command[1:] == ("mirror", r"srv-dist\x2dfiles", "srv/dist-files")
    assert task.labels == {"description": r"Mirror of srv-dist\x2dfiles"}


def test_a_unit_of_a_user_has_the_home_of_that_user(root: Path) -> None:
    job = tasks_of(imported(root))["notes"].job
    assert job.command == (f"{root}/home/bin/notes", f"--into={root}/home/notes")
    assert job.cwd == "~"


def test_what_sounds_secret_becomes_a_file(root: Path) -> None:
    result = imported(root)
    env = tasks_of(result)["restic"].job.env
    assert env["RESTIC_PASSWORD"] == f"file:{root}/secrets/restic-RESTIC_PASSWORD"
    assert env["KEEP"] == "7"
    assert result.secrets == {"restic-RESTIC_PASSWORD": "correct horse"}
    assert not any("correct horse" in text for text in texts_of(result))


@pytest.mark.parametrize(
    "line",
    [
        "SetCredential=key:hunter2",
        "Environment=DB_PASSWORD=hunter2 OTHER=%m",
        "Environment=TOKEN=hunter2\nEnvironment=",
        "Environment=DATABASE_URL=postgres://shop:hunter2@db/shop OTHER=%m",
    ],
)
def test_no_report_shows_a_secret(tmp_path: Path, line: str) -> None:
    result = units(tmp_path, "OnCalendar=daily", f"ExecStart=/bin/true\n{line}")
    shown = [*map(str, result.omissions), *map(str, result.warnings), *texts_of(result)]
    assert any("(not shown)" in text for text in shown)
    assert not any("hunter2" in text for text in shown)


def test_a_link_to_nothing_masks_a_unit(root: Path) -> None:
    masked = root / "etc/systemd/system/masked.timer"
    masked.unlink()
    masked.symlink_to("/dev/null")
    (why,) = [one.why for one in imported(root).omissions if one.what == "masked.timer"]
    assert "it is masked" in why


def test_what_is_not_carried_over_is_named_with_its_reason(root: Path) -> None:
    result = imported(root)
    found = {f"{Path(one.file).name}: {one.what}": one.why for one in result.omissions}
    assert "it is not asked before a run" in found["restic.service: ConditionACPower=|true"]
    assert "systemctl start --wait restic.service" in found["restic.service: PrivateTmp=yes"]
    assert "evenbeat limits no resources" in found["restic.service: CPUQuota=50%"]
    assert "10-time.conf:3 overrides it" in found["restic.service: TimeoutStartSec=2h 30min"]
    assert "20-pre.conf:2 overrides it" in found["restic.service: ExecStartPre=-" + f"{root}/bin/record unlock %p"]
    assert "systemd ignores it too" in found["restic.service: not a directive"]
    assert "does not wake the machine" in found["wake.conf: WakeSystem=true"]
    assert "etc/systemd/system/poll.timer overrides it" in found["poll.timer: poll.timer"]
    assert "it is masked" in found["masked.timer: masked.timer"]
    warnings = "\n".join(one.message for one in result.warnings)
    assert "old.timer is not enabled there" in warnings
    assert "there is no orphan.service here" in warnings
    assert "DynamicUser" in warnings
    assert "/etc/default/restic is read when a run starts" in warnings


CARRIED = {  # keys whose values are in the result in another form, or say only how it is there
    *("OnCalendar", "OnUnitActiveSec", "RandomizedDelaySec", "FixedRandomDelay", "Persistent", "Unit", "Type", "User"),
    *("Nice", "IOSchedulingClass", "IOSchedulingPriority", "UMask", "Environment", "EnvironmentFile", "WantedBy"),
    *("ExecStart", "ExecStartPre", "ExecStartPost", "ExecStopPost", "WorkingDirectory", "SuccessExitStatus"),
    *("TimeoutStartSec", "RuntimeMaxSec", "Description", "DynamicUser", "OnBootSec"),
    *("Restart", "RestartSec", "StartLimitBurst", "StartLimitIntervalSec", "OnFailure"),
}


def test_every_line_of_the_corpus_is_in_the_result_or_in_the_report(root: Path) -> None:
    result = imported(root)
    files = [file for file in root.rglob("*") if ".d" in file.parent.suffix or file.suffix in (".timer", ".service")]
    gone = {one.file for one in result.omissions if one.place is None}
    lost = [
        f"{file}:{number}: {line}"
        for file in files
        if str(file) not in gone and not file.parent.name.endswith(".wants")
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if line.strip() and line[0] not in "[# " and not line.endswith("\\")
        if line.partition("=")[0] not in CARRIED and not is_named(result, str(file), number, line.strip())
    ]
    assert lost == []


ANYWAY = {  # what is so without the line
    *("Type=oneshot", "Type=exec", "Restart=no", "FixedRandomDelay=true", "WorkingDirectory=%h"),
    "WantedBy=timers.target",  # a link in the folder timers.target.wants counts
}


def test_without_a_line_of_the_corpus_something_is_different_or_it_is_named(root: Path) -> None:
    files = [
        file for file in root.rglob("*") if file.suffix in (".timer", ".service", ".conf") and not file.is_symlink()
    ]
    gone = {one.file for one in imported(root).omissions if one.place is None}
    files = [file for file in files if str(file) not in gone]
    silent = silent_lines(files, lambda: imported(root), lambda line: "=" in line and line[0] not in "#;")
    assert {line.partition(": ")[2] for line in silent} == ANYWAY


KEYS = st.from_regex(r"[A-Z][A-Za-z]{1,15}", fullmatch=True).filter(lambda key: key not in CARRIED)
VALUES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=30).map(
    str.strip
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["Unit", "Timer", "Service", "Install", "X-Own"]), KEYS, VALUES), max_size=8))
def test_no_directive_is_dropped_in_silence(tmp_path: Path, extra: list[tuple[str, str, str]]) -> None:
    extra = [(s, k, v) for s, k, v in extra if v and not v.endswith("\\") and k not in ("RuntimeMaxSec", "Group")]
    lines = [f"[{section}]\n{key}={value}" for section, key, value in extra]
    for kind, begin in (("timer", "[Timer]\nOnCalendar=daily\n"), ("service", "[Service]\nExecStart=/bin/true\n")):
        (tmp_path / f"x.{kind}").write_text(begin + "\n".join(lines) + "\n")
    result = import_systemd([tmp_path], "UTC")
    texts = texts_of(result)
    for kind in ("timer", "service"):
        for i, (_, key, value) in enumerate(extra):
            number = 4 + 2 * i
            named = number in omitted_lines(result, f"{tmp_path}/x.{kind}")
            assert named or value in texts or key in ("Group",), (kind, key, value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["[Timer]", "OnCalendar=", "daily", "\n", "=", "\\", "[", "]", "%", '"', "$", "OnUnitActiveSec="]
        )
    ).map("".join),
    st.binary(max_size=100) | st.text().map(str.encode),
)
def test_whatever_stands_in_units_is_imported_or_refused_in_words(tmp_path: Path, timer: str, service: bytes) -> None:
    (tmp_path / "x.timer").write_bytes(
        timer.encode("utf-8", "surrogateescape") if timer.isascii() else timer.encode("utf-8", "replace")
    )
    (tmp_path / "x.service").write_bytes(b"[Service]\nExecStart=" + service + b"\n" + service)
    try:
        tasks_of(import_systemd([tmp_path], "UTC"))
    except BadFileError as e:
        assert e.errors


# Commands


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/bin/a b  c", ["/bin/a", "b", "c"]),
        ("a \"b c\" 'd \"e' f''g", ["a", "b c", 'd "e', "fg"]),
        (r'a "b\"c" \x41\101\u00e9\s\t \q', ["a", 'b"c', "AAé \t", r"\q"]),
        ("a '' \"\"", ["a", "", ""]),
        ("", []),
    ],
)
def test_words_are_split_as_systemd_does(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_quote_without_an_end_is_refused() -> None:
    with pytest.raises(Invalid, match="without an end"):
        split_words("a 'b")


@pytest.mark.parametrize(
    ("value", "words", "line"),
    [
        ("/bin/a %i %% $$5", (), "/bin/a home % '$'5"),
        ("/bin/a ${B}c $D", (), '/bin/a "${B}"c $D'),
        (":/bin/a ${B}", ("/bin/a", "${B}"), "/bin/a '${B}'"),
        ("/bin/a it's", None, None),
        ("-@/bin/a zero one", ("/bin/a", "one"), "/bin/a one"),
        ("/bin/a ; /bin/b", ("/bin/a",), "/bin/a"),
        (r"/bin/a \; b", ("/bin/a", ";", "b"), "/bin/a ';' b"),
        ("/bin/%q", None, None),
    ],
)
def test_a_command_is_words_or_a_line_for_a_shell(value: str, words: tuple[str, ...] | None, line: str | None) -> None:
    specifiers = unit_specifiers("x@home", "service", "/etc/x@.service", None)
    if words is None:
        with pytest.raises(Invalid):
            service_commands(value, specifiers)
    else:
        first = service_commands(value, specifiers)[0]
        assert (first.words, first.line) == (words, line)


@pytest.mark.parametrize(
    ("service", "doubt"),
    [
        ("Type=forking\nExecStart=/bin/true", "Type=forking"),
        ("User=man\nExecStart=+/bin/true", "all commands would run as man"),
        ("ExecStart=/bin/echo %H", "%H is not known here"),
        ("ExecStart=/bin/echo 'a", "without an end"),
        ("Type=oneshot", "it has no ExecStart="),
        ("Environment=A=%m\nExecStart=/bin/true", "%m is not known here"),
    ],
)
def test_a_service_that_would_do_something_else_here_is_written_disabled(
    tmp_path: Path, service: str, doubt: str
) -> None:
    result = units(tmp_path, "OnCalendar=daily", service)
    assert not tasks_of(result)["x"].enabled
    assert any(doubt in one.message for one in result.warnings)


# Times


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        *(("90", 90 * SECOND), ("1h 30min", 90 * MINUTE), ("2.5s", 2_500_000), ("1d2h", 26 * HOUR)),
        *(("100ms", 100_000), ("5 minutes", 5 * MINUTE), ("infinity", None), ("1w", 168 * HOUR)),
    ],
)
def test_time_spans(text: str, micros: int | None) -> None:
    assert parse_span(text) == micros


@pytest.mark.parametrize("text", ["", "x", "5 parsecs", "1h x", "-5", "٣", "1" * 400])
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a time span"):
        parse_span(text)


EXPRESSIONS = [
    *("daily", "weekly", "monthly", "hourly", "*-*-* 6,18:00", "Sun *-*-* 03:10:00", "Mon..Fri 09:30", "22:00"),
    *("*-*-01 02:00", "0/6:00", "Mon,Thu 4:30", "*-*-* 00:00:00"),
]


@given(st.sampled_from(EXPRESSIONS), st.integers(MINUTE, 26 * HOUR), st.text(max_size=8), st.integers(0, 2_000_000_000))
def test_a_random_delay_becomes_one_stable_time_within_it(text: str, delay: int, name: str, start: int) -> None:
    """Each of the times lies in the window behind one time of the timer, and each window has one."""
    entry = entry_with_delay(text, delay)
    assert entry is not None
    cron = compile_schedule(Schedule(cron=entry), name or "x")
    calendar = compile_schedule(Schedule(calendar=text), name or "x")
    at = Instant(start * SECOND)
    times = list(islice(_times(calendar, at), 12))
    for time, following in pairwise(times):
        found = [one for one in islice(_times(cron, Instant(time - 1)), 30) if one <= following + delay]
        assert any(time <= one < time + delay for one in found), datetime.fromtimestamp(time / SECOND, UTC)


def _times(schedule: Any, at: Instant) -> Iterator[Instant]:
    while (at := schedule.next_after(at)) is not None:
        yield at


@pytest.mark.parametrize("text", ["*:0/15", "*-*~01 04:00", "2027-01-01", "Mon *-*-13 05:00", "minutely"])
def test_a_delay_that_no_entry_expresses_is_named(tmp_path: Path, text: str) -> None:
    result = units(tmp_path, f"OnCalendar={text}\nRandomizedDelaySec=1h", "ExecStart=/bin/true")
    assert tasks_of(result)["x"].schedule.calendar == text
    assert any(one.what == "RandomizedDelaySec=1h" and "without a delay" in one.why for one in result.omissions)


@pytest.mark.parametrize(
    ("timer", "what"),
    [
        ("OnCalendar=Feb 30", "OnCalendar=Feb 30"),
        ("OnUnitActiveSec=100ms", "OnUnitActiveSec=100ms"),
        ("OnUnitActiveSec=infinity", "OnUnitActiveSec=infinity"),
        ("OnActiveSec=5", "OnActiveSec=5"),
        ("OnClockChange=yes", "OnClockChange=yes"),
    ],
)
def test_a_trigger_that_cannot_be_carried_over_is_named(tmp_path: Path, timer: str, what: str) -> None:
    result = units(tmp_path, timer, "ExecStart=/bin/true")
    assert tasks_of(result) == {}
    assert what in [one.what for one in result.omissions]
    assert any("has no trigger that can be carried over" in one.message for one in result.warnings)


def test_an_interval_goes_with_a_start_after_boot(tmp_path: Path) -> None:
    result = units(tmp_path, "OnBootSec=5min\nOnUnitInactiveSec=1h\nRandomizedDelaySec=5", "ExecStart=/bin/true")
    assert tasks_of(result)["x"].schedule.every == HOUR
    assert [one.what for one in result.omissions] == ["OnBootSec=5min", "RandomizedDelaySec=5"]
    assert any("not from the end of a run" in one.message for one in result.warnings)


# Files


def test_a_file_that_is_no_timer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.socket").write_text("[Socket]\n")
    with pytest.raises(BadFileError, match=r"accepted: \.timer files and folders of units"):
        import_systemd([tmp_path / "x.socket"], "UTC")
    with pytest.raises(BadFileError, match="No such file"):
        import_systemd([tmp_path / "none.timer"], "UTC")


def test_a_template_without_an_instance_is_named(tmp_path: Path) -> None:
    (tmp_path / "x@.timer").write_text("[Timer]\nOnCalendar=daily\n")
    result = import_systemd([tmp_path], "UTC")
    assert [one.what for one in result.omissions] == ["x@.timer"]


def test_a_unit_cannot_lead_out_of_its_folders(tmp_path: Path) -> None:
    result = units(tmp_path, "OnCalendar=daily\nUnit=../../etc/x.service", "ExecStart=/bin/true")
    assert not tasks_of(result)["x"].enabled
