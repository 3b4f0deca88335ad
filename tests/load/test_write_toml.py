"""What is written as TOML is read back the same, whatever the nouns hold."""

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from evenbeat.load.config import Config, Durability, NodeSettings
from evenbeat.load.contacts import contact_name_error
from evenbeat.load.crontab import parse_crontab
from evenbeat.load.crontab_dialect import CrontabDialect
from evenbeat.load.importers.crontab import import_crontab
from evenbeat.load.ineffective_keys import CONDITIONAL_KEYS, why_without_effect
from evenbeat.load.task_tables import task_from_table, task_to_table
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_config, write_document
from evenbeat.model import (
    DAY,
    HOUR,
    MAX_EVERY,
    MAX_OUTPUT_KEEP,
    MIN_OUTPUT_KEEP,
    MINUTE,
    SCHEDULE_KINDS,
    SECOND,
    Backlog,
    Contact,
    ContactState,
    Days,
    Hash,
    Instant,
    Invalid,
    Job,
    Missed,
    NotifyContact,
    Period,
    Schedule,
    Spread,
    Task,
    WhenUnreachable,
)
from evenbeat.when.schedule import compile_schedule

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ZONE = st.sampled_from(["UTC", "Europe/Paris", "America/New_York"])
DURATION = st.integers(0, MAX_EVERY)
LITERAL = TEXT | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)
NOTIFY = st.lists(st.builds(NotifyContact, NAME, DURATION), max_size=3, unique_by=lambda one: one.to).map(tuple)
URL = st.sampled_from(['https://hooks.example.org/x?a="b"', "env:HOOK", "file:/etc/url"])
CONTACTS = st.builds(
    Contact,
    send=st.lists(URL, max_size=2, unique=True).map(tuple),
    webhook=URL,
    secret=st.none() | st.just("env:KEY"),
    command=st.lists(TEXT.filter(bool), max_size=3).map(tuple),
    email=st.just(("ops@example.org", "root@localhost")),
    smtp=st.sampled_from(["smtp://localhost:25", "smtps://mx.example.org", "env:SMTP"]),
    period=st.sampled_from([None, "work"]),
    states=st.lists(st.sampled_from(ContactState), unique=True).map(tuple),
    per_hour=st.integers(1, 3_600),
)
VARIABLES = st.dictionaries(TEXT.filter(lambda t: bool(t) and "=" not in t), TEXT, max_size=3)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    kind = draw(st.sampled_from(SCHEDULE_KINDS))
    zone = draw(ZONE)
    if kind.startswith("after"):
        parents = draw(st.lists(NAME, min_size=1, max_size=3, unique=True).map(tuple))
        return Schedule(after=parents, zone=zone) if kind == "after" else Schedule(after_failure=parents, zone=zone)
    if kind == "every":
        every = draw(st.integers(SECOND, MAX_EVERY))
        phase = draw(st.none() | st.integers(0, every - 1))
        return Schedule(every=every, zone=zone, spread=draw(st.sampled_from(Spread)), phase=phase)
    if kind == "cron":
        entry = draw(st.sampled_from(["H H * * *", "@daily", "@reboot", "*/5 3 1-7 * MON", "TZ=Asia/Tokyo 0 9 * * *"]))
        second = draw(st.none() | st.integers(0, 59))
        hash_, days = draw(st.sampled_from(Hash)), draw(st.sampled_from(Days))
        return Schedule(cron=entry, zone=zone, hash=hash_, days=days, second=second)
    if kind == "calendar":
        return Schedule(calendar="Mon..Fri 09:00", zone=zone)
    return Schedule(at="2026-12-01T09:00", zone=zone)


JOBS = st.one_of(
    st.builds(
        Job,
        command=st.lists(TEXT, max_size=4).map(tuple),
        env=VARIABLES,
        user=st.none() | NAME,
        output_keep=st.none() | st.integers(MIN_OUTPUT_KEEP, MAX_OUTPUT_KEEP),
    ),
    st.builds(Job, command=TEXT.map(lambda t: (t,)), shell=st.just(True), cwd=st.none() | NAME),
    st.builds(
        Job,
        function=st.just("reports:daily"),
        args=st.lists(LITERAL, max_size=3).map(tuple),
        kwargs=st.dictionaries(TEXT, LITERAL, max_size=3),
    ),
)


def tasks(*, check: bool) -> st.SearchStrategy[Task]:
    return st.builds(
        Task,
        NAME,
        schedules(),
        JOBS,
        period=st.sampled_from([None, "work"]),
        check=st.just(check),
        enabled=st.booleans(),
        start_at=st.sampled_from([None, "2027-01-01T00:00"]),
        weight=st.floats(0, 86_400, exclude_min=True),
        timebox=st.none() | st.integers(-100, MAX_EVERY),
        longer_than=st.none() | st.integers(1, MAX_EVERY),
        tolerance=st.none() | DURATION,
        missed=st.sampled_from(Missed),
        catch_up=DURATION,
        backlog=st.sampled_from(Backlog),
        limit=st.none() | NAME,
        priority=st.integers(-100, 100),
        retry=st.none() | DURATION,
        attempts=st.integers(1, 255),
        grace=DURATION,
        labels=st.dictionaries(NAME, NAME, max_size=3),
        pool=st.none() | NAME,
        depends=st.lists(NAME, max_size=3).map(tuple),
        depends_any=st.lists(NAME, max_size=3).map(tuple),
        when_unreachable=st.sampled_from(WhenUnreachable),
        notify=NOTIFY,
        repeat=st.none() | st.integers(MINUTE, MAX_EVERY),
        gather=st.none() | st.integers(0, HOUR),
        retries=st.none() | st.integers(0, 100),
        backoff=st.none() | st.integers(0, 10 * SECOND),
        backoff_max=st.none() | st.integers(10 * SECOND, MAX_EVERY),
        retry_on=st.lists(st.integers(1, 255), max_size=3).map(tuple),
    )


def _as_passive(task: Task) -> Task:
    """A check without anything to run; those of the node's own occasions have no times to expect something at."""
    if task.schedule.cron == "@reboot":
        return task
    return replace(task, passive=True, job=Job(), start_at=None)


def _effective(task: Task) -> Task:
    """The same without keys that have no effect on it, and with the phase as one that was given."""
    table = task_to_table(task)
    gone = [key for key in CONDITIONAL_KEYS & table.keys() if why_without_effect(key, table, check=task.check)]
    return task_from_table(task.name, {key: value for key, value in table.items() if key not in gone}, check=task.check)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    checks = tasks(check=True)
    both = [
        *draw(st.lists(checks | checks.map(_as_passive), max_size=4)),
        *draw(st.lists(tasks(check=False), max_size=4)),
    ]
    unique = {task.name: _effective(task) for task in both[::-1]}
    kept = sorted(unique.values(), key=lambda task: not task.check)
    periods = {"work": Period(ranges=("monday 09:00-17:00",), zone=draw(ZONE)), "free": Period(zone=draw(ZONE))}
    limits = draw(st.dictionaries(NAME, st.integers(1, 1_000_000), max_size=2))
    node = draw(
        st.none()
        | st.builds(
            NodeSettings,
            st.none() | st.integers(1, 1_000_000),
            st.none() | st.integers(1, MAX_EVERY),
            st.none() | st.sampled_from(Durability),
            start_window=st.none() | st.integers(SECOND, DAY),
            stop_grace=st.none() | st.integers(0, DAY),
            notify=st.none() | NOTIFY,
            page=st.none() | st.just("https://evenbeat.example.org/"),
            ping=st.none() | URL,
        )
    )
    contacts = draw(st.dictionaries(NAME.filter(lambda name: not contact_name_error(name)), CONTACTS, max_size=2))
    return Config(tuple(kept), periods, limits, node, contacts)


@settings(max_examples=examples(200), deadline=None)
@given(configs())
def test_a_config_is_read_back_as_it_was_written(config: Config) -> None:
    text = write_config(config, ["written by a test", "of two\nlines\x07"])
    assert parse_toml(text, "x.toml") == config


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["@daily", "@weekly", "*/5 * * * *", "30 2 * * 0", "H 3 * * *", "0 0 1 1 *", "@every 7m"]),
            st.text(st.characters(codec="ascii", exclude_characters="%\\", min_codepoint=33), min_size=1, max_size=20),
        ),
        max_size=5,
        unique=True,
    ),
    ZONE,
    st.booleans(),
    st.integers(0, 2**32 * SECOND),
)
def test_an_imported_crontab_keeps_its_times(
    entries: list[tuple[str, str]], zone: str, spread: bool, start: int
) -> None:
    text = "\n".join(f"{fields} run-{command}" for fields, command in entries)
    manner = CrontabDialect(spread=spread, zone=zone)
    live = parse_crontab(text, "x", manner)
    again = parse_toml(write_document(import_crontab([(text, "x")], manner).document), "x.toml")
    assert again == live._replace(names_from_commands={})
    for before, after in zip(live.tasks, again.tasks, strict=True):
        if before.schedule.cron is not None:
            there = compile_schedule(before.schedule, before.name).next_after(Instant(start))
            assert compile_schedule(after.schedule, after.name).next_after(Instant(start)) == there


def test_a_script_of_several_lines_stays_readable() -> None:
    script = 'cd /srv\nif [ -f x ]; then\n\techo "it\'s there"\nfi\n'
    config = Config((Task("a", Schedule(every=SECOND), Job(command=(script,), shell=True)),), {}, {}, None)
    text = write_config(config)
    assert '\n\techo "it\'s there"\nfi\n' in text
    assert parse_toml(text, "x") == config


def test_what_all_tasks_share_is_said_once() -> None:
    schedule = Schedule(cron="0 3 * * *", zone="Europe/Paris", second=0)
    tasks = (Task("a", schedule), Task("b", schedule), Task("c", Schedule(every=SECOND, zone="Europe/Paris")))
    text = write_config(Config(tasks, {}, {}, None))
    assert text.count("Europe/Paris") == 1
    assert text.count("second") == 1


def test_none_cannot_be_said_in_toml() -> None:
    task = Task("a", Schedule(every=SECOND), Job(function="m:f", args=(None,)))
    with pytest.raises(Invalid, match="None cannot be expressed in TOML"):
        write_config(Config((task,), {}, {}, None))


def test_a_call_with_none_is_left_out_and_said_so() -> None:
    imported = import_crontab([("@daily py m:f(None)\n@daily x\n", "c")], CrontabDialect())
    assert list(imported.document["tasks"]) == ["x"]
    assert [str(one) for one in imported.omissions] == ["c:1:1: @daily py m:f(None): TOML cannot express None"]


def test_every_key_of_a_task_is_written() -> None:
    """A key added to the nouns must be added here, to the strategies above."""
    known = set(Task.__struct_fields__) | set(Job.__struct_fields__) | set(Schedule.__struct_fields__)
    assert known == {
        *("name", "schedule", "job", "period", "check", "enabled", "paused", "start_at", "weight", "timebox"),
        *("tolerance", "missed", "catch_up", "backlog", "limit", "priority", "retry", "attempts", "grace", "labels"),
        *("depends", "depends_any", "when_unreachable"),
        *("notify", "repeat", "gather"),
        *("retries", "backoff", "backoff_max", "retry_on"),
        "pool",
        "longer_than",
        "passive",
        "when_missing",
        *("command", "shell", "function", "args", "kwargs", "env", "cwd", "user", "output_keep"),
        *("after", "after_failure"),
        *("every", "cron", "calendar", "at", "zone", "spread", "phase", "hash", "days", "second"),
        "pinned",
        "pause",
    }
