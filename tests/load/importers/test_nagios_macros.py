"""Macros, secrets, groups of services and other names of directives, each by itself."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.importers.report import ImportResult
from evenbeat.load.importers.secret_values import SecretFiles, sounds_secret
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document
from evenbeat.model import Task

HOSTS = "".join(
    f"define host {{\nhost_name {name}\naddress 192.0.2.{i}\nalias The {name}\n_RACK B{i}\n_API_TOKEN t0ken{i}\n}}\n"
    for i, name in enumerate(("a", "b"), start=1)
)


def imported(line: str, *more: str, settings: str = "", service: str = "") -> tuple[dict[str, Task], ImportResult]:
    """A service `s` on both hosts with this command line, and more objects."""
    command = f"define command {{\ncommand_name c\ncommand_line {line}\n}}\n"
    text = f"define service {{\nhost_name a,b\nservice_description s\ncheck_command c!one!two\n{service}\n}}\n"
    found = import_nagios([("".join((settings, HOSTS, command, text, *more)), "x.cfg")], "UTC", "/secrets")
    config = parse_toml(write_document(found.document), "x.toml")
    return {task.name: task for task in config.tasks}, found


def words_of(task: Task, found: ImportResult) -> list[str]:
    """What a shell, or the worker, makes of the command: its words."""
    if not task.job.shell:
        return [*task.job.command]
    env = {name: found.secrets[where.removeprefix("file:/secrets/")] for name, where in task.job.env.items()}
    script = f"set -- {task.job.command[0]}\nfor word; do printf '%s\\0' \"$word\"; done"
    done = subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x $HOSTNAME$ $HOSTADDRESS$ '$HOSTALIAS$'", ["x", "b", "192.0.2.2", "The b"]),
        ("x $ARG1$ $ARG2$ '$ARG3$'", ["x", "one", "two", ""]),
        ("x $SERVICEDESC$ $SERVICEDISPLAYNAME$", ["x", "s", "The", "service"]),
        ("x $_HOSTRACK$ $_SERVICESITE$", ["x", "B2", "Paris"]),
        ("x $HOSTADDRESS:a$ $HOSTALIAS:a$", ["x", "192.0.2.1", "The", "a"]),
        ("x $$5 end", ["x", "end"]),  # a $5 of the shell, which is empty
        ("x $USER2$/y $USER3$", ["x", "/opt/plugins/y", "-p", "p;w"]),
        ("x \"in $USER3$\" 'in $USER3$'", ["x", "in -p p;w", "in -p p;w"]),
        ('x --$USER4$ "in $USER4$"', ["x", "--a b", "in a b"]),
        ("x $_HOSTAPI_TOKEN$ $_SERVICEPASSWORD$", ["x", "t0ken2", "a;b$c"]),
    ],
)
def test_macros_have_the_values_that_they_had(line: str, words: list[str]) -> None:
    settings = "$USER2$=/opt/plugins\n$USER3$=-p p;w\n$USER4$='a b'\n"
    more = "display_name The service\n_SITE Paris\n_PASSWORD a\\;b$c"
    tasks, found = imported(line, settings=settings, service=more)
    assert words_of(tasks["b/s"], found) == words
    text = write_document(found.document, [*map(str, found.omissions)])
    assert not [secret for secret in ("p;w", "t0ken2", "a;b$c") if secret in text]


@pytest.mark.parametrize("line", ["x $HOSTADDRESS:none$", "x $SERVICESTATE$", "x $LASTHOSTCHECK$", "x $USER9$"])
def test_a_macro_without_a_value_disables_the_check(line: str) -> None:
    tasks, found = imported(line)
    assert not tasks["a/s"].enabled
    assert any(f"nothing is known of {line[2:]}" in str(one) for one in found.warnings)


@pytest.mark.parametrize(
    ("value", "line", "is_plain"),
    [
        ("/usr/lib/plugins", "$USER1$/x", True),
        ("/usr/lib/plugins", "sudo $USER1$/x --dir=$USER1$/y", True),
        ("/usr/lib/plugins", "$USER1$/x -p $USER1$", False),
        ("/s3cret/", "x $USER1$", False),
        ("/pass", "x http://me:$USER1$/", False),
        ("s3cret", "$USER1$/x", False),
    ],
)
def test_only_a_folder_of_programs_is_written_out(value: str, line: str, is_plain: bool) -> None:
    tasks, found = imported(line, settings=f"$USER1$={value}\n")
    assert (value in " ".join(tasks["a/s"].job.command)) is is_plain
    assert (value in found.secrets.values()) is not is_plain


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters=";\\"), min_size=1, max_size=12))
def test_a_secret_reaches_the_command_as_it_is(secret: str) -> None:
    secret = secret.strip() or "x"
    tasks, found = imported("x '$USER3$'", settings=f"$USER3$={secret}\n")
    try:
        parts = shlex.split(secret)
    except ValueError:
        parts = []
    assert words_of(tasks["a/s"], found) == ["x", parts[0] if len(parts) == 1 else secret]


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *(
            (name, True)
            for name in ("mysql_password", "SNMP_COMMUNITY", "api_token", "pwd", "ftp_pass", "client_secret")
        ),
        *((name, False) for name in ("compass", "passive_site", "tokyo", "rack", "private_key_file", "bypass_cache")),
    ],
)
def test_names_that_sound_secret(name: str, is_secret: bool) -> None:
    assert sounds_secret(name) is is_secret


def test_files_of_secrets_have_names_of_their_own() -> None:
    files = SecretFiles("/s")
    names = [
        files.add("a/b", "1"),
        files.add("a b", "2"),
        files.add("a/b", "1"),
        files.add("..", "3"),
        files.add("a-b-2", "4"),
    ]
    assert names == ["a-b", "a-b-2", "a-b", "secret", "a-b-2-2"]
    assert files.contents == {"a-b": "1", "a-b-2": "2", "secret": "3", "a-b-2-2": "4"}


def test_groups_of_services_depend_on_others_and_escalate() -> None:
    more = """
    define contact {
    contact_name ana
    email ana@example.org
    }
    define servicegroup {
    servicegroup_name inner
    members a,s
    }
    define servicegroup {
    servicegroup_name outer
    servicegroup_members inner
    }
    define service {
    host b
    description db
    check_command c
    service_groups masters
    parents a,s
    }
    define servicegroup {
    servicegroup_name masters
    }
    define serviceescalation {
    servicegroup_name outer
    first_notification 1
    contacts ana
    }
    define servicedependency {
    servicegroup_name inner
    dependent_host_name b
    dependent_service_description s
    execution_failure_criteria c
    }
    """
    tasks, _ = imported("x", more)
    assert tasks["b/s"].depends == ("a/s",)
    assert tasks["b/db"].depends == ("a/s",)
    assert [one.to for one in tasks["a/s"].notify] == ["ana"]
    assert "servicegroup:outer" in tasks["a/s"].labels
    assert tasks["b/db"].labels["servicegroup:masters"] == "yes"


@pytest.mark.parametrize(
    ("service", "named"),
    [
        ("check_freshness 1\nfreshness_threshold 60", ["check_freshness", "freshness_threshold"]),
        ("freshness_threshold 60", ["freshness_threshold"]),
        ("active_checks_enabled 0\nretry_interval 5", ["check_command", "retry_interval"]),
        (
            "active_checks_enabled 0\ncheck_freshness 1\nfreshness_threshold 60\ncheck_interval 5\nretry_interval 5",
            ["check_interval", "retry_interval"],
        ),
        ("active_checks_enabled 0\nfreshness_threshold 60", ["check_command", "freshness_threshold"]),
    ],
)
def test_what_has_no_effect_on_a_check_is_named(service: str, named: list[str]) -> None:
    _, found = imported("x", service=service)
    about = [one.what.split()[0] for one in found.omissions if "of service 's'" in one.what]
    assert sorted(about) == named


def test_many_templates_within_each_other_end() -> None:
    chain = "".join(
        f"define host {{\nname t{i}\nuse t{i + 1},t{i + 1}\nhostgroups +g{i}\nregister 0\n}}\n" for i in range(300)
    )
    with pytest.raises(ValueError, match="more than 100 templates, each of which uses the next"):
        import_nagios([(chain + "define host {\nhost_name h\nuse t0\n}\n", "x.cfg")])
