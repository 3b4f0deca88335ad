"""Objects of Icinga 2, in each form in which it shows them: they are imported, or named in the report, and run.

Icinga 2.13 has written the files of the corpus, for the configuration beside them; the commands that are expected are
those that it ran.
"""

import copy
import json
import shlex
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from icinga_samples import (
    GATEWAY,
    MAIL,
    NIGHTS,
    api,
    command,
    dependency,
    host,
    notification,
    reported,
    service,
    tasks_of,
    user,
)
from imported_node import ImportedNode

from conftest import Evenbeat
from evenbeat.load.config import BadFileError, Config
from evenbeat.load.config_validation import validate_configs
from evenbeat.load.importers.icinga import import_icinga
from evenbeat.load.importers.icinga_files import find_icinga_files
from evenbeat.load.importers.icinga_objects import read_icinga
from evenbeat.load.importers.report import ImportResult
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document
from evenbeat.model import HOUR, MINUTE, SECOND

CORPUS = Path(__file__).parent / "corpus" / "icinga"
API = CORPUS / "api"
LIST = CORPUS / "object-list.txt"
DUMP = CORPUS / "icinga2.debug"
SECRETS = ("hunter2", "c0mmunity", "t0ken-of-chat")
PLUGINS = "/usr/lib/nagios/plugins"


def imported(*paths: Path) -> tuple[ImportResult, Config]:
    found = import_icinga(find_icinga_files([str(path) for path in paths]).texts, "Europe/Berlin", "/secrets")
    return found, parse_toml(write_document(found.document), "imported.toml")


class TestForms:
    def test_the_list_and_the_dump_say_the_same(self) -> None:
        (_, listed), (_, dumped) = imported(LIST), imported(DUMP)
        assert tasks_of(listed).keys() == tasks_of(dumped).keys()
        for name, task in tasks_of(listed).items():
            same = tasks_of(dumped)[name]
            assert set(task.notify) == set(same.notify)
            assert msgspec.structs.replace(task, notify=same.notify) == same
        assert (listed.contacts, listed.periods) == (dumped.contacts, dumped.periods)
        assert listed.downtimes == dumped.downtimes

    def test_the_api_also_knows_the_members_of_groups_and_downtimes(self) -> None:
        (found, asked), (_, dumped) = imported(API), imported(DUMP)
        assert tasks_of(asked).keys() == tasks_of(dumped).keys()
        more = set(tasks_of(asked)["web1/shop"].labels) - set(tasks_of(dumped)["web1/shop"].labels)
        assert more == {"hostgroup:linux-servers", "servicegroup:web"}
        assert [(downtime.names, downtime.comment) for downtime in asked.downtimes] == [
            (("db1/mysql",), "anna: new disks"),
            (("web1",), "ops: Patch day"),
        ]
        assert any("states, times and acknowledgements of a Host" in one for one in reported(found))

    def test_a_list_with_colours_and_windows_line_ends_is_the_same(self) -> None:
        text = LIST.read_text()
        coloured = text.replace(' = "', ' = "\x1b[32m').replace('"\n', '\x1b[0m"\n').replace("\n", "\r\n")
        plain, other = (import_icinga([(one, "x")], "UTC").document for one in (text, coloured))
        assert other == plain

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "x:1:1: no objects, accepted: the output of `icinga2 object list`"),
            ('object Host "a" { }\n', "x:1:1: 'object Host \"a\" { }' is no object, accepted: the output of"),
            ("Object 'a' of type 'Host':\n  * x\n      * y = 1\n", "x:3:1: an attribute that belongs to nothing"),
            ('{"results": [}', "x:1:14: not JSON: Expecting value"),
            ('{"error": 404}', "x:1:1: no `results`, accepted: the output of"),
            ('{"results": [{"name": "a"}]}', "x:1:1: a result without type, name and attrs"),
            ('3:{"a":1}', "x:1:3: an object without type, name and properties"),
            ('9:{"type":"Host","name":"a","properties":{}},x', "x:1:46: 'x' where LENGTH:{...} should be"),
            ('{"results": [NaN]}', "x:1:1: NaN is not a number"),
            ("[" * 100_000, "x:1:1: values that are nested too deeply"),
            (api(host(__name="a\nb")), "x:1:1: the name of a Host: 'a\\\\nb' has U+000A"),
        ],
    )
    def test_what_is_no_dump_is_refused_with_its_place(self, text: str, message: str) -> None:
        with pytest.raises(BadFileError) as caught:
            import_icinga([(text, "x")])
        assert message in str(caught.value)

    def test_a_text_of_several_lines_ends_where_something_new_begins(self) -> None:
        text = (
            "Object 'h' of type 'Host':\n  * address = \"192.0.2.1\"\n  * vars\n    * a = \"one\n"
            ' * not = new\n"two""\n      % = modified in \'x\', lines 1:1-1:2\n    * b = [ "x, y", "z" ]\n'
            "    * c = true\n"
        )
        found = import_icinga([(text, "x")])
        labels = found.document["checks"]["h"]["labels"]
        assert labels == {"host": "h", "address": "192.0.2.1", "b": "x, y, z", "c": "true"}
        assert any(str(one).startswith("x:1:1: a of a Host as a label: ") for one in found.omissions)


class TestChecks:
    def test_what_a_check_is(self) -> None:
        tasks = tasks_of(imported(API)[1])
        shop = tasks["web1/shop"]
        assert (shop.schedule.every, shop.retry, shop.attempts) == (MINUTE, 30 * SECOND, 5)
        assert shop.labels["alias"] == "Web server 1"
        assert shop.labels["http_vhost"] == "shop.example.org"
        assert (tasks["db1/mysql"].period, tasks["db1/mysql"].timebox) == ("working-hours", 30 * SECOND)
        assert (tasks["db1"].pool, tasks["web1/disk /"].pool, tasks["web1"].pool) == ("berlin", "agent.web1", None)
        assert (tasks["web1"].depends, tasks["web1"].when_unreachable.value) == (("gw1",), "skip")
        assert tasks["db1/old"].depends == ("db1/mysql", "db1")
        assert [(one.to, one.after) for one in tasks["db1/mysql"].notify] == [("boss", 30 * MINUTE), ("anna", 0)]
        assert {name for name, task in tasks.items() if not task.enabled} == {"db1/scripted", "gw1/self"}

    def test_a_dummy_waits_for_results_and_says_what_it_says_without_them(self) -> None:
        task = tasks_of(imported(API)[1])["web1/job"]
        assert (task.passive, task.schedule.every) == (True, 26 * HOUR)
        assert task.job.command[-2:] == ("no result of the nightly job", "2")

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("gw1", ["check_ping", "-H", "10.0.0.1", "-c", "5000,100%", "-w", "3000,80%"]),
            ("db1/ping4", ["check_ping", "-4", "-H", "10.0.0.21", "-c", "200,15%", "-w", "100,5%"]),
            ("web1/shop", ["check_http", "-H", "shop.example.org", "-I", "10.0.0.11", "-S", "-u", "/shop"]),
            ("web1/status", ["check_http", "-I", "10.0.0.11", "-u", "/status"]),
            ("gw1/swap", ["check_swap", "-c", "25%", "-w", "50%"]),
        ],
    )
    def test_commands_are_those_that_icinga_ran(self, name: str, words: list[str]) -> None:
        command = tasks_of(imported(DUMP)[1])[name].job.command
        assert [*command] == [f"{PLUGINS}/{words[0]}", *words[1:]]

    def test_secrets_are_read_from_files(self) -> None:
        found, config = imported(DUMP)
        job = tasks_of(config)["db1/mysql"].job
        assert job.env == {"MYSQL_PASSWORD": "file:/secrets/mysql_password"}
        words = shlex.split(job.command[0].replace("${MYSQL_PASSWORD}", "hunter2"))
        assert words == [
            *(f"{PLUGINS}/check_mysql", "-H", "10.0.0.21", "--label", "10.0.0.21:3306 on db1", "-p", "hunter2"),
            *("-u", "nagios", "-x", "shop", "-x", "crm", "--long"),
        ]
        assert sorted(found.secrets.values()) == sorted(SECRETS)
        text = write_document(found.document, reported(found))
        assert not [secret for secret in SECRETS if secret in text]

    def test_checks_of_many_hosts_that_are_alike_are_one_table(self) -> None:
        hosts = [host(__name=f"h{i}", address=f"192.0.2.{i}") for i in (1, 2)]
        services = [service(__name=f"h{i}!s", host_name=f"h{i}") for i in (1, 2)]
        known = command(command=["c", "-H", "$address$", "$host.name$"])
        document = import_icinga([(api(known, *hosts, *services), "x")]).document
        assert set(document["checks"]) == {"{host}", "{host}/s"}
        assert document["checks"]["{host}/s"]["command"] == ["c", "-H", "{host.address}", "{host}"]
        assert document["checks"]["{host}/s"]["depends"] == ["{host}"]


class TestArguments:
    @pytest.mark.parametrize(
        ("said", "words"),
        [
            ("$x$", ["-a", "1"]),
            ({"value": "$x$"}, ["-a", "1"]),
            ({"value": "$none$"}, []),
            ({"value": "$x$", "skip_key": True}, ["1"]),
            ({"value": "$list$"}, ["-a", "p", "-a", "q r"]),
            ({"value": "$list$", "repeat_key": False}, ["-a", "p", "q r"]),
            ({"value": "$list$", "separator": "="}, ["-a=p", "-a=q r"]),
            ({"value": "$x$", "key": "--long"}, ["--long", "1"]),
            ({"set_if": "$yes$"}, ["-a"]),
            ({"set_if": "$no$"}, []),
            ({"set_if": "$none$"}, []),
            ({"set_if": "$x$", "value": "v"}, ["-a", "v"]),
            ({"set_if": "$word$"}, []),
            ({"set_if": True}, ["-a"]),
            ("$y$ of $host.vars.rack$, $$5", ["-a", "1 of B, $5"]),
            ("$host.address$:$service.name$", ["-a", "192.0.2.1:s"]),
            ("$half$", ["-a", "0.5"]),
        ],
    )
    def test_an_argument_is_given_as_it_says(self, said: Any, words: list[str]) -> None:
        variables = {"x": 1, "y": "$x$", "list": ["p", "q r"], "yes": True, "no": False, "word": "maybe", "half": 0.5}
        known = command(arguments={"-a": said})
        text = api(known, host(vars={"rack": "B"}), service(vars=variables))
        task = tasks_of(parse_toml(write_document(import_icinga([(text, "x")]).document), "x"))["h/s"]
        assert [*task.job.command] == ["c", *words]

    def test_arguments_have_an_order(self) -> None:
        arguments = {"-z": {"value": "1", "order": -1}, "-b": "2", "-a": "3", "last": {"value": "4", "order": 9}}
        text = api(command(arguments=arguments), host())
        assert import_icinga([(text, "x")]).document["checks"]["h"]["command"] == [
            *("c", "-z", "1", "-a", "3", "-b", "2", "last", "4"),
        ]

    def test_a_line_for_a_shell_has_values_in_quotes_and_variables(self) -> None:
        known = command(
            command="c $x$ $api_token$ | tail", env={"PLACE": "$address$", "NONE": "$none$", "KEY": "$token$"}
        )
        variables = {"x": "a'b c", "api_token": "t0k", "token": "t0k2"}
        found = import_icinga([(api(known, host(vars=variables)), "x")], "UTC", "/s")
        table = found.document["checks"]["h"]
        assert (table["command"], table["shell"]) == ("c 'a'\"'\"'b c' \"${API_TOKEN}\" | tail", True)
        assert table["env"] == {"PLACE": "192.0.2.1", "KEY": "file:/s/token", "API_TOKEN": "file:/s/api_token"}

    def test_what_sounds_secret_is_nowhere_in_plain_text(self) -> None:
        known = command(
            command=["c", "$host.vars.pw$"],
            arguments={"--password": "s3cret1", "-a": "$deep$"},
            env={"PGPASSWORD": "s3cret2", "PLAIN": "x"},
            vars={"deep": "in $db_token$", "db_token": "s3cret3"},
        )
        chat = {
            "__name": "chat",
            "type": "NotificationCommand",
            "command": ["chat"],
            "arguments": {"--token": "s3cret4", "--to": "$user.name$"},
        }
        more = notification(command="chat", vars={"token": "s3cret5"}, api_key="s3cret6")
        found = import_icinga([(api(known, host(vars={"pw": "s3cret7"}), chat, user(), more), "x")], "UTC", "/s")
        text = write_document(found.document, reported(found))
        assert "s3cret" not in text
        assert {*"12347"} <= {one[-1] for one in found.secrets.values()}
        assert shlex.split(found.document["checks"]["h"]["command"]) == [
            *("c", "${PW}", "--password", "${PASSWORD}", "-a", "in ${DB_TOKEN}"),
        ]

    @pytest.mark.parametrize(
        ("known", "doubt"),
        [
            (command(arguments={"-a": {"value": "$none$", "required": True}}), "needs $none$ for its argument -a"),
            (command(arguments={"-a": {"type": "Function"}}), "needs a function, for its argument -a"),
            (command(command=["c", "$none$"]), "needs $none$, which nothing defines"),
            (command(command=["c", "$loop$"]), "stands for itself"),
            (command(command=["c", "$host.output$"]), "needs $host.output$, which is known when it runs"),
            (command(command=None), "has no command line"),
            (command(execute={"name": "Internal#ClusterCheck"}), "is a part of Icinga itself"),
            (command(__name="other"), "the command 'c' is not in these files"),
        ],
    )
    def test_a_check_that_would_not_do_what_it_did_is_written_disabled(self, known: Any, doubt: str) -> None:
        found = import_icinga([(api(known, host(vars={"loop": "$loop$"})), "x")])
        assert found.document["checks"]["h"]["enabled"] is False
        assert any("'h' is written disabled: " in one and doubt in one for one in reported(found)), reported(found)
        parse_toml(write_document(found.document), "x.toml")


OBJECTS = [one["attrs"] for file in sorted(API.iterdir()) for one in json.loads(file.read_text())["results"]]
UNUSED = {"dummy", "passive"}
"""Commands that no check uses."""
RUNNING_DOWNTIME = {
    *("authoritative_zone", "config_owner_hash", "entry_time", "legacy_id", "remove_time", "trigger_time"),
    *("triggered_by", "triggers", "was_cancelled", "parent"),
}
META = {"__name", "name", "type", "package", "templates", "source_location", "zone", "version", "ha_mode", "active"} | {
    *("paused", "original_attributes"),
}
"""What Icinga notes of each object."""
ANYWAY = {
    *("check_interval", "retry_interval", "max_check_attempts", "enable_active_checks", "enable_notifications"),
    *("enable_passive_checks", "enable_event_handler", "enable_perfdata", "flapping_threshold_high", "timeout"),
    *("flapping_threshold_low", "fixed", "prefer_includes", "disable_notifications", "ignore_soft_states", "interval"),
    *("log_duration", "port", "states", "types", "entry_time", "legacy_id", "global", "execute", "child_options"),
    *("user_groups", "users", "update", "duration", "flapping_threshold"),
    "env",  # its variable has no value, as for Icinga
}
"""Attributes of which one value is what is so without them: Icinga's defaults."""


def changes(found: ImportResult) -> tuple[Any, Any, Counter[str]]:
    what = Counter([*(one.what for one in found.omissions), *(one.message for one in found.warnings)])
    return found.document, found.secrets, what


def defining_attributes() -> dict[str, set[str]]:
    """By kind; the API knows more, of how objects are just now."""
    found: dict[str, set[str]] = {"Downtime": {key for one in OBJECTS if one["type"] == "Downtime" for key in one}}
    found["Downtime"] -= RUNNING_DOWNTIME
    for one in read_icinga(DUMP.read_text(), "x"):
        found.setdefault(one.kind, set()).update(one.attributes)
    return found


def test_each_attribute_is_in_the_result_or_in_the_report() -> None:
    """Without it something would be different, or it is named, or it is as Icinga has it by default."""
    found = import_icinga([(api(*OBJECTS), "x")])
    before, report = changes(found), " ".join(reported(found))
    defining = defining_attributes()
    effective: set[str] = set()
    silent = set()
    for i, one in enumerate(OBJECTS):
        if one["__name"] in UNUSED or one["type"] == "EventCommand":
            continue  # it is named as a whole
        for name, value in one.items():
            says_nothing = name in META or name in ANYWAY or value in (None, "", [], {}) or f"{name} = " in report
            key = f"{one['type']}.{name}"
            if says_nothing or name not in defining[one["type"]] or value == one["name"] or key in effective:
                continue
            less = [*OBJECTS]
            less[i] = {key: kept for key, kept in one.items() if key != name}
            if changes(import_icinga([(api(*less), "x")])) == before:
                silent.add(key)
            else:
                effective.add(key)
    assert silent - effective == set()


@given(
    st.integers(0, len(OBJECTS) - 1),
    st.from_regex(r"[a-z]{3,8}_x", fullmatch=True),
    st.sampled_from([1, True, "v", ["v"]]),
)
@settings(max_examples=15)
def test_an_attribute_that_nobody_knows_is_named(which: int, name: str, value: Any) -> None:
    changed = [*OBJECTS]
    changed[which] = {**OBJECTS[which], name: value}
    found = import_icinga([(api(*changed), "x")])
    named = [one for one in found.omissions if f"{name} = " in one.what]
    if OBJECTS[which]["type"] == "EventCommand" or OBJECTS[which]["__name"] in UNUSED:
        return  # the object as a whole is named
    assert [one.place and one.place.line for one in named] == [OBJECTS[which]["source_location"]["first_line"]]


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.sampled_from("ab1$ .,!*'\"\\{}[]\n\x00\x7f\u202e\ue000\ue001\ue002\ue003\ud800ü"), max_size=12),
        st.sampled_from(
            ["$address$", "$host.vars.x$", "$user.email$", "h", "h!s", "ana", "mail", "c", "nights", "$token$"]
        ),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abx$"), inner, max_size=3)),
    max_leaves=6,
)
SAMPLES = [
    *(command(arguments={"-a": {"value": "$x$", "set_if": True}}, env={"A": "b"}), host(groups=["g"]), service()),
    *(user(states=["Critical"]), notification(times={"begin": 5}), dependency(), MAIL, NIGHTS, GATEWAY),
    {"__name": "z", "type": "Zone", "endpoints": ["e"], "parent": "m"},
    {"__name": "d", "type": "Downtime", "host_name": "h", "start_time": 1, "end_time": 2, "fixed": True},
    {"__name": "p", "type": "ScheduledDowntime", "host_name": "h", "ranges": {"monday": "1:00-2:00"}},
]
ATTRIBUTES = sorted({key for one in SAMPLES for key in one if key != "type"} | {"redundancy_group", "zone", "vars"})


@given(
    st.lists(st.tuples(st.integers(0, len(SAMPLES) - 1), st.sampled_from(ATTRIBUTES), VALUES), max_size=8),
    st.sampled_from(ATTRIBUTES),
    VALUES,
)
@settings(max_examples=examples(120))
def test_whatever_objects_hold_is_imported_or_refused_with_its_place(
    edits: list[tuple[int, str, Any]], nested: str, inner: Any
) -> None:
    objects = copy.deepcopy(SAMPLES)
    for which, key, value in edits:
        held = objects[which].get(key)
        objects[which][key] = {**held, nested: inner} if isinstance(held, dict) and value is None else value
    results = [{"name": "n", "type": one["type"], "attrs": one} for one in objects]
    try:
        found = import_icinga([(json.dumps({"results": results}), "x")])
    except BadFileError as e:
        assert all(error.file == "x" and error.place for error in e.errors)
        return
    config = parse_toml(write_document(found.document, reported(found)), "x.toml")
    assert validate_configs({"x": config}) == []


@given(st.sampled_from([LIST, DUMP]), st.data())
@settings(max_examples=20)
def test_a_damaged_dump_is_imported_or_refused_with_its_place(file: Path, data: st.DataObject) -> None:
    text = file.read_text()
    begin = data.draw(st.integers(0, len(text)))
    noise = data.draw(st.text(st.sampled_from("\n *%\"'[]{}=,:1a"), max_size=8))
    damaged = text[:begin] + noise + text[begin + data.draw(st.integers(0, 200)) :]
    try:
        found = import_icinga([(damaged, "x")])
    except BadFileError as e:
        assert all(error.place for error in e.errors)
        return
    config = parse_toml(write_document(found.document, reported(found)), "x.toml")
    assert validate_configs({"x": config}) == []


def test_an_installation_moves_in_without_an_edit(evenbeat: Evenbeat, tmp_path: Path) -> None:
    """Imported, checked, applied and run: the plugins are called as Icinga called them."""
    node = ImportedNode(evenbeat, tmp_path)
    node.make_plugins("check_ping", "check_http", "check_mysql", "check_snmp", "check_swap", "check_disk")
    dump = tmp_path / "dump"
    dump.mkdir()
    for file in API.iterdir():
        (dump / file.name).write_text(file.read_text().replace(PLUGINS, str(node.plugins)))
    secrets = tmp_path / "secrets"
    node.import_and_apply("icinga", str(dump), "--secrets", str(secrets), "--zone", "Europe/Berlin")
    assert not [secret for secret in SECRETS if secret in node.toml]
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets.iterdir()} == {0o600}
    with node.running():
        assert node.run("web1") == ["check_ping", "-H", "10.0.0.11", "-c", "5000,100%", "-w", "3000,80%"]
        snmp = ["check_snmp", "-C", "c0mmunity", "-H", "10.0.0.11", "-o", ".1.3.6.1.4.1.2021.10.1.3.1", "-t", "10"]
        assert node.run("web1/load") == snmp
        http = ["check_http", "-H", "shop.example.org", "-I", "10.0.0.11", "-S", "-u", "/shop"]
        assert node.run("web1/shop") == http
        state = {task["name"]: task["state"] for task in node.ask("ls")["tasks"]}
    assert (state["web1"], state["web1/shop"]) == ("ok", "ok")


@pytest.mark.parametrize(
    ("argv", "message"),
    [(["icinga", "/nowhere"], "/nowhere: No such file"), (["icinga", "/var/empty-x"], "No such file")],
)
def test_bad_input_exits_2(evenbeat: Evenbeat, argv: list[str], message: str) -> None:
    result = evenbeat("import", *argv)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
