import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.load.config import BadFileError, Config
from evenbeat.load.config_validation import validate_configs
from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document
from evenbeat.model import MINUTE, SECOND, Job, Task
from evenbeat.when.instant import parse_instant
from evenbeat.when.period import compile_periods
from evenbeat.when.zone import zone

HOSTS = """
$USER1$=/usr/lib/nagios/plugins
define host {
    name               generic      ; a template
    check_command      alive
    check_interval     5
    retry_interval     1
    max_check_attempts 10
    register           0
}
define host {
    use        generic
    host_name  web1
    address    10.0.0.1
    hostgroups web
    _PORT      8080
}
define host {
    use        generic
    host_name  web2
    address    10.0.0.2
    hostgroups web
    _port      8081
}
define host{
    use            generic
    host_name      db
    alias          The database
    check_interval 1
}
define hostgroup {
    hostgroup_name    everything
    members           db
    hostgroup_members web
}
define command {
    command_name alive
    command_line $USER1$/check_ping -H $HOSTADDRESS$ -w 3000.0,80%
}
define command {
    command_name http
    command_line $USER1$/check_http -H '$HOSTADDRESS$' $ARG1$ $ARG2$
}
"""
UNUSED = "0.cfg:40:8: command 'http': nothing that is carried over runs it"
SERVICE = """
define service {
    service_description HTTP
    check_command       http!-p $_HOSTPORT$ -u "/a b"
    check_interval      2
    retry_interval      0.5
    max_check_attempts  4
    %s
}
"""


def imported(*texts: str, zone_name: str = "UTC") -> tuple[dict[str, Task], list[str], Config]:
    found = import_nagios([(text, f"{i}.cfg") for i, text in enumerate(texts)], zone_name)
    config = parse_toml(write_document(found.document), "x.toml")
    return {task.name: task for task in config.tasks}, [*map(str, found.omissions), *map(str, found.warnings)], config


def test_hosts_become_checks_with_what_they_inherit() -> None:
    tasks, warned, _ = imported(HOSTS)
    assert list(tasks) == ["web1", "web2", "db"]
    assert tasks["web2"].check
    assert tasks["web2"].schedule.every == 5 * MINUTE
    assert (tasks["web2"].retry, tasks["web2"].attempts) == (MINUTE, 10)
    assert tasks["web2"].job.command == ("/usr/lib/nagios/plugins/check_ping", "-H", "10.0.0.2", "-w", "3000.0,80%")
    groups = {"hostgroup:everything": "yes", "hostgroup:web": "yes"}
    assert tasks["web2"].labels == {"host": "web2", "address": "10.0.0.2", "port": "8081", **groups}
    assert tasks["db"].labels == {"host": "db", "alias": "The database", "hostgroup:everything": "yes"}
    assert tasks["db"].schedule.every == MINUTE
    assert tasks["db"].job.command[2] == "db"
    assert warned == [UNUSED]


def test_a_service_of_many_hosts_is_one_table() -> None:
    document = import_nagios([(HOSTS + SERVICE % "hostgroup_name web", "x.cfg")]).document
    assert document["checks"]["{host}/HTTP"]["for"] == {
        "host": {"web1": {"address": "10.0.0.1", "port": "8080"}, "web2": {"address": "10.0.0.2", "port": "8081"}}
    }
    tasks, _, _ = imported(HOSTS, SERVICE % "hostgroup_name web")
    assert tasks["web2/HTTP"].job.command == (
        *("/usr/lib/nagios/plugins/check_http", "-H", "10.0.0.2", "-p", "8081", "-u", "/a b"),
    )
    assert (tasks["web2/HTTP"].retry, tasks["web2/HTTP"].attempts) == (30 * SECOND, 4)


@pytest.mark.parametrize(
    ("who", "hosts"),
    [
        ("host_name db", ["db"]),
        ("host_name db, web1", ["db", "web1"]),
        ("host_name *", ["db", "web1", "web2"]),
        ("host_name *,!web1", ["db", "web2"]),
        ("hostgroup_name everything", ["db", "web1", "web2"]),
        ("hostgroup_name everything,!web", ["db"]),
        ("hostgroup_name web\n    host_name !web2", ["web1"]),
    ],
)
def test_the_hosts_of_a_service_are_chosen_as_nagios_does(who: str, hosts: list[str]) -> None:
    tasks, _, _ = imported(HOSTS, SERVICE % who)
    assert sorted(name.removesuffix("/HTTP") for name in tasks if "/" in name) == hosts


def test_one_name_on_different_hosts_makes_two_tables() -> None:
    other = SERVICE.replace("2", "7", 1) % "host_name web1,web2"
    tasks, _, _ = imported(HOSTS, SERVICE % "host_name db", other)
    assert {name: task.schedule.every for name, task in tasks.items() if "/" in name} == {
        "db/HTTP": 2 * MINUTE,
        "web1/HTTP": 7 * MINUTE,
        "web2/HTTP": 7 * MINUTE,
    }


def test_what_is_defined_twice_is_imported_once_and_told() -> None:
    tasks, warned, _ = imported(HOSTS, SERVICE % "hostgroup_name web", SERVICE.replace("2", "7", 1) % "host_name *")
    assert tasks["web1/HTTP"].schedule.every == 2 * MINUTE
    assert tasks["db/HTTP"].schedule.every == 7 * MINUTE
    assert "2.cfg:2:8: 'web1/HTTP': it is defined twice: the first one is carried over" in warned


def test_a_command_with_signs_for_the_shell_goes_to_the_shell() -> None:
    command = "define command {\ncommand_name http\ncommand_line a $HOSTALIAS$ $ARG1$ | grep -v {x} $$HOME\n}\n"
    tasks, _, _ = imported(HOSTS.replace("command_name http", "command_name old"), command, SERVICE % "host_name *")
    assert tasks["db/HTTP"].job == Job(command=('a The database -p  -u "/a b" | grep -v {x} $HOME',), shell=True)
    assert tasks["web1/HTTP"].job.command[0].startswith("a web1 -p 8080")


def test_the_unit_of_intervals_can_be_set() -> None:
    tasks, warned, _ = imported("interval_length=1\nenable_notifications=1\n", HOSTS)
    assert tasks["db"].schedule.every == SECOND
    assert warned[0] == "0.cfg:2:1: the setting enable_notifications: it is about the program Nagios itself"


def test_a_passive_service_is_expected_within_its_freshness() -> None:
    passive = "host_name db\nactive_checks_enabled 0\ncheck_freshness 1\nfreshness_threshold 600"
    tasks, _, _ = imported(HOSTS, SERVICE % passive)
    task = tasks["db/HTTP"]
    assert (task.passive, task.schedule.every) == (True, 10 * MINUTE)
    assert task.job.command[0] == "/usr/lib/nagios/plugins/check_http", "Nagios runs it when no result came"


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ("host_name nobody", "no host 'nobody' is defined"),
        ("hostgroup_name none", "no hostgroup 'none' is defined"),
    ],
)
def test_what_cannot_be_imported_is_told(who: str, message: str) -> None:
    tasks, warned, _ = imported(HOSTS, SERVICE % who)
    assert not any("/" in name for name in tasks)
    assert any(message in warning for warning in warned)


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ("check_command nope", "the command 'nope' is not defined in these files"),
        ("check_command http!$USER9$", "nothing is known of $USER9$"),
        ("check_period night", "there is no period 'night' here"),
        ("check_interval 0", "it has no check_interval above 0, so it is never due"),
        ("active_checks_enabled 0\npassive_checks_enabled 0", "neither active nor passive checks are enabled"),
    ],
)
def test_a_check_that_would_not_do_what_it_did_is_written_disabled(who: str, message: str) -> None:
    tasks, warned, _ = imported(HOSTS, SERVICE % f"host_name db\n{who}")
    assert not tasks["db/HTTP"].enabled
    assert any(message in warning and "written disabled" in warning for warning in warned)


def test_directives_and_objects_without_a_meaning_here_are_counted() -> None:
    again = (SERVICE % "host_name web1\nnotes y").replace("HTTP", "SQL")
    extra = "define hostextinfo {\n}\n"
    _, warned, _ = imported(HOSTS, SERVICE % "host_name db\nstalking_options o\nnotes x", extra, again)
    assert warned == [
        "1.cfg:9:1: stalking_options of a service: keep every result and its performance data: evenbeat always does",
        "1.cfg:10:1: notes of a service (2 times, here first): it is for the pages of Nagios only",
        "2.cfg:1:8: define hostextinfo: it is for the pages of Nagios only",
    ]


PLAIN = "define host {{\n use generic\n host_name {}\n {}\n}}\n"
SERVICES = (SERVICE % "host_name db, web1, web2") + (SERVICE % "host_name db").replace("HTTP", "SQL")


def depends(tasks: dict[str, Task]) -> dict[str, tuple[tuple[str, ...], tuple[str, ...], str]]:
    return {
        name: (task.depends, task.depends_any, task.when_unreachable.value)
        for name, task in tasks.items()
        if task.depends or task.depends_any
    }


class TestDependencies:
    def test_a_host_depends_on_its_parent_and_on_one_of_several(self) -> None:
        more = PLAIN.format("gw1", "") + PLAIN.format("gw2", "parents gw1") + PLAIN.format("far", "parents gw1,gw2")
        tasks, warned, _ = imported(HOSTS + more)
        assert depends(tasks) == {"gw2": (("gw1",), (), "run"), "far": ((), ("gw1", "gw2"), "run")}
        assert warned == [UNUSED]

    def test_services_depend_on_the_check_of_their_host(self) -> None:
        document = import_nagios([(HOSTS + SERVICE % "hostgroup_name web", "x.cfg")]).document
        assert document["checks"]["{host}/HTTP"]["depends"] == ["{host}"]
        tasks, _, _ = imported(HOSTS, SERVICES)
        assert depends(tasks)["web1/HTTP"] == (("web1",), (), "run")
        without = HOSTS.replace("check_command      alive", "")
        assert depends(imported(without, SERVICES)[0]) == {}

    def test_objects_say_what_else_depends_on_what(self) -> None:
        text = """
        define servicedependency {
            host_name                     db
            service_description           SQL
            dependent_host_name           web1,web2
            dependent_service_description HTTP
            execution_failure_criteria    u,c
        }
        define servicedependency {
            host_name                     db
            service_description           SQL
            dependent_service_description HTTP
            notification_failure_criteria c
        }
        define hostdependency {
            host_name                     db
            dependent_hostgroup_name      web
            notification_failure_criteria d,u
        }
        """
        tasks, warned, _ = imported(HOSTS, SERVICES, text)
        assert depends(tasks) == {
            "web1": (("db",), (), "run"),
            "web2": (("db",), (), "run"),
            "web1/HTTP": (("db/SQL", "web1"), (), "skip"),
            "web2/HTTP": (("db/SQL", "web2"), (), "skip"),
            "db/HTTP": (("db/SQL", "db"), (), "run"),
            "db/SQL": (("db",), (), "run"),
        }
        assert warned == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("host_name db\ndependent_host_name nobody\nexecution_failure_criteria d", "no host 'nobody' is defined"),
            (
                "host_name db\ndependent_host_name web1\nexecution_failure_criteria o",
                "failure criteria o of a hostdependency: what counts",
            ),
            (
                "host_name db\ndependent_host_name web1\nexecution_failure_criteria d\ndependency_period work",
                "dependency_period of a hostdependency: a dependency counts at any time",
            ),
            (
                "host_name web1\ndependent_host_name db\nexecution_failure_criteria d\n}\n"
                "define hostdependency {\nhost_name db\ndependent_host_name web1\nexecution_failure_criteria d",
                "'web1' depends on 'db': they depend on each other in a circle",
            ),
        ],
    )
    def test_what_does_not_map_is_told(self, text: str, message: str) -> None:
        _, warned, _ = imported(HOSTS, f"define hostdependency {{\n{text}\n}}\n")
        assert any(message in warning for warning in warned), warned

    def test_a_parent_without_a_check_is_told(self) -> None:
        lone = "define host {\n host_name gw\n}\n" + PLAIN.format("far", "parents gw")
        tasks, warned, _ = imported(HOSTS, lone)
        assert depends(tasks) == {}
        assert any("'far' depends on 'gw': no such check is carried over" in w for w in warned)


PERIOD = """
define timeperiod {
    timeperiod_name work
    alias           Working hours
    monday          09:00-12:00,13:00-17:00
    tuesday         09:00-17:00
    december 25     00:00-00:00
    2026-12-21      10:00-11:00
    exclude         closed
}
define timeperiod {
    timeperiod_name closed
    2026-12-22      00:00-24:00
}
define timeperiod {
    timeperiod_name never
}
"""


@pytest.mark.parametrize(
    ("time", "inside"),
    [
        ("2026-12-14T09:30", True),
        ("2026-12-14T12:30", False),
        ("2026-12-21T09:30", False),  # a Monday whose hours the date replaces
        ("2026-12-21T10:30", True),
        ("2026-12-22T10:30", False),  # excluded
        ("2023-12-25T10:00", False),  # a Monday, closed
    ],
)
def test_the_hours_of_a_date_replace_those_of_its_weekday(time: str, inside: bool) -> None:
    _, warned, config = imported(HOSTS, PERIOD, zone_name="Europe/Paris")
    periods = compile_periods(config.periods)
    assert periods["work"].contains(parse_instant(time, zone("Europe/Paris"))) is inside
    assert any("period 'never': it is never open" in warning for warning in warned)


def test_a_line_of_a_period_that_we_do_not_know_is_told() -> None:
    _, warned, config = imported(
        HOSTS, "define timeperiod {\ntimeperiod_name p\nmoonday 09:00-17:00\nmonday 1:00-2:00\n}\n"
    )
    assert any("period 'p': moonday 09:00-17:00: column 1: 'moonday'" in warning for warning in warned)
    assert config.periods["p"].ranges == ("monday 1:00-2:00",)


def test_lists_are_added_to_cancelled_and_inherited_from_the_first_that_has_them() -> None:
    text = """
    define host {
        name a
        hostgroups one
        check_interval 7
        register 0
    }
    define host {
        name b
        check_interval 9
        max_check_attempts 5
        register 0
    }
    define host {
        use a,b
        host_name h
        hostgroups +two
        check_command alive
        max_check_attempts null
    }
    """
    service = SERVICE % "hostgroup_name two" + (SERVICE % "hostgroup_name one").replace("HTTP", "other")
    tasks, _, _ = imported(HOSTS, text, service)
    assert tasks["h"].schedule.every == 7 * MINUTE
    assert tasks["h"].attempts is None
    assert {"h/HTTP", "h/other"} <= set(tasks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define host {\naddress x\n}\n", "x.cfg:1:8: this define host has no host_name"),
        ("define host {\nhost_name x\n", "x.cfg:1:8: this define host is never closed"),
        ("hello\n", "x.cfg:1:1: 'hello' is not understood, accepted: define KIND {, alone on its line"),
        ("define host { host_name x }\n", "x.cfg:1:1: 'define host { host_name x }' is not understood"),
        ("define host {\n use none\n host_name x\n}\n", "x.cfg:2:2: use none: there is no such template"),
        (
            "define host {\n name a\n use a\n register 0\n}\ndefine host {\n use a\n host_name x\n}\n",
            "use a: templates use each other in a circle",
        ),
    ],
)
def test_files_that_are_no_objects_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadFileError) as caught:
        import_nagios([(text, "x.cfg")])
    assert message in str(caught.value)


def test_long_lines_may_be_continued_and_comments_follow_a_semicolon() -> None:
    text = "define command {\n command_name c\n command_line a \\\n  b \\; c ; not this\n}\n"
    host = "define host {\n host_name h\n check_command c\n}\n"
    tasks, _, _ = imported(text, host)
    assert tasks["h"].job == Job(command=("a   b ; c",), shell=True)


DIRECTIVES = {
    "host": [
        *(
            "host_name a",
            "host_name b[1-3]",
            "address 10.0.0.1",
            "alias {x}",
            "check_command c!$ARG1$!{x}",
            "hostgroups g",
        ),
        *("check_interval 0", "check_interval x", "check_period p", "use t", "name t", "register 0", "_X y", "_X"),
        *("parents a", "parents a,b[1-3]", "parents nobody"),
    ],
    "hostdependency": [
        *("host_name a", "hostgroup_name g", "dependent_host_name b[1-3]", "execution_failure_criteria d,u", "use t"),
        *("notification_failure_criteria d,o", "name t"),
    ],
    "servicedependency": [
        *("host_name a", "service_description {s}", "dependent_host_name b[1-3]", "dependent_service_description {s}"),
        *("execution_failure_criteria c,p", "inherits_parent 0", "dependency_period p", "servicegroup_name s"),
    ],
    "service": [
        *("host_name a", "host_name *,!a", "hostgroup_name g", "service_description {s}", "check_command c", "use t"),
        *("check_interval 1", "check_interval 9999999", "max_check_attempts 999", "active_checks_enabled 0"),
        *("check_freshness 1", "freshness_threshold 5", "check_period p", "name t", "retry_interval 1"),
    ],
    "command": [
        "command_name c",
        "command_line $HOSTADDRESS$ $_HOSTX$ '$ARG1$ $ARG2$",
        "command_line x $_SERVICEX$ {a}",
    ],
    "timeperiod": [
        *("timeperiod_name p", "timeperiod_name q", "monday 1:00-2:00", "day 1 00:00-00:00", "exclude p", "exclude q"),
        *("use_timezone :Europe/Paris", "use_timezone :Mars", "2026-12-21 10:00-11:00"),
    ],
    "hostgroup": ["hostgroup_name g", "members a", "hostgroup_members g", "hostgroup_name h"],
}
BLOCKS = st.sampled_from(list(DIRECTIVES)).flatmap(
    lambda kind: st.lists(st.sampled_from(DIRECTIVES[kind]), max_size=8, unique=True).map(
        lambda lines: "\n".join([f"define {kind} {{", *lines, "}"])
    )
)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(BLOCKS, max_size=8))
def test_whatever_is_imported_can_be_read_again(blocks: list[str]) -> None:
    try:
        found = import_nagios([("\n".join(blocks), "x.cfg")])
    except BadFileError:
        return
    config = parse_toml(write_document(found.document, [str(w) for w in found.warnings]), "x.toml")
    assert validate_configs({"x": config}) == []
