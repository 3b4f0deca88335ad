"""A whole Nagios installation: its files are found, each line is in the result or in the report, and it runs."""

import shutil
import stat
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from import_accounting import omitted_lines
from imported_node import ImportedNode

from conftest import Evenbeat
from evenbeat.load.config import BadFileError, Config
from evenbeat.load.config_validation import validate_configs
from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.importers.nagios_files import FILE_SETTINGS, find_nagios_files
from evenbeat.load.importers.nagios_pattern import NamePattern
from evenbeat.load.importers.report import ImportResult
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document

CORPUS = Path(__file__).parent / "corpus" / "nagios"
MAIN = CORPUS / "nagios.cfg"
SECRETS = ("Tr0ub4dor&3", "key with blanks", "berl1n-r0", "web-s3cret")
ANYWAY = {
    *("interval_length=60", "active_checks_enabled 1", "passive_checks_enabled 1", "check_freshness 0"),
    *("notifications_enabled 1", "notification_period 24x7", "service_notification_period 24x7"),
    *("host_notification_period 24x7", "escalation_period 24x7", "check_interval 5", "retry_interval 1"),
    *("service_notification_options w,u,c,r,f,s", "host_notification_options d,u,r,f,s", "use generic-contact"),
    *("notification_options d,u,r", "notification_options w,u,c,r", "use generic-host", "check_period 24x7"),
    "contactgroup_members admins",
}
"""What these files say and is so without: defaults of Nagios and of evenbeat, and what is said twice."""
TEXTS = [(text, file.removeprefix(f"{CORPUS}/")) for text, file in find_nagios_files([str(MAIN)]).texts]


def imported(texts: list[tuple[str, str]]) -> tuple[ImportResult, Config]:
    found = import_nagios(texts, "Europe/Berlin", "/secrets")
    return found, parse_toml(write_document(found.document), "imported.toml")


def what_of(found: ImportResult) -> Counter[str]:
    """The report, wherever in the files it is about."""
    return Counter([*(one.what for one in found.omissions), *(one.message for one in found.warnings)])


def reported(found: ImportResult) -> list[str]:
    return [*map(str, found.omissions), *map(str, found.warnings)]


class TestFiles:
    def test_the_main_file_names_files_folders_and_the_secrets(self) -> None:
        assert [file for _, file in TEXTS] == [
            "nagios.cfg",
            *(f"objects/{name}.cfg" for name in ("commands", "contacts", "timeperiods", "templates")),
            *(f"conf.d/{name}.cfg" for name in ("berlin/hosts", "berlin/services", "groups", "localhost", "windows")),
            "resource.cfg",
            "var/retention.dat",
        ]

    def test_a_folder_is_read_with_those_in_it_and_links_in_a_circle_end(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x.cfg").write_text("define host {\nhost_name x\n}\n")
        (tmp_path / "a" / "README").write_text("not read")
        (tmp_path / "a" / ".hidden.cfg").write_text("not read")
        (tmp_path / "a" / "again").symlink_to(tmp_path)
        assert [file for _, file in find_nagios_files([str(tmp_path)]).texts] == [str(tmp_path / "a" / "x.cfg")]

    def test_what_is_missing_is_refused_where_it_is_named(self, tmp_path: Path) -> None:
        main = tmp_path / "nagios.cfg"
        main.write_text("\ncfg_file=/nowhere.cfg\n  cfg_dir = gone\n")
        with pytest.raises(BadFileError) as caught:
            find_nagios_files([str(main)])
        assert str(caught.value).splitlines() == [
            f"{main}:2:10: cfg_file: /nowhere.cfg: No such file or directory",
            f"{main}:3:13: cfg_dir: {tmp_path}/gone: No such file or directory",
        ]

    def test_without_secrets_and_status_the_rest_is_imported(self, tmp_path: Path) -> None:
        main = tmp_path / "nagios.cfg"
        main.write_text("resource_file=secret.cfg\nstatus_file=gone\nstate_retention_file=gone\n")
        assert [str(one) for one in find_nagios_files([str(main)]).warnings] == [
            f"{main}:1:15: resource_file: {tmp_path}/secret.cfg: No such file or directory: "
            "so its macros $USERn$ are not known",
            f"{main}:2:13: the file is not here: downtimes are not carried over",
        ]

    def test_main_files_and_folders_within_each_other_end(self, tmp_path: Path) -> None:
        for i in range(50):
            (tmp_path / f"{i}.cfg").write_text(f"cfg_file={i + 1}.cfg\n")
        (tmp_path / "/".join(["d"] * 50)).mkdir(parents=True)
        for path in (tmp_path / "0.cfg", tmp_path / "d"):
            with pytest.raises(BadFileError, match="more than 40 folders and main files, each in the one before"):
                find_nagios_files([str(path)])

    def test_a_zone_that_there_is_not_is_named(self) -> None:
        period = "define timeperiod {\ntimeperiod_name p\nmonday 1:00-2:00\n}\n"
        found = import_nagios([(f"use_timezone=Mars/Base\n{period}", "x.cfg")], "Europe/Berlin")
        assert found.document["periods"]["p"]["zone"] == "Europe/Berlin"
        assert "x.cfg:1:1: use_timezone Mars/Base: " in str(found.omissions[0])

    def test_a_folder_without_files_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadFileError, match=r"no files named \*.cfg here"):
            find_nagios_files([str(tmp_path)])

    def test_other_encodings_and_line_ends_are_read(self) -> None:
        _, config = imported(TEXTS)
        task = next(task for task in config.tasks if task.name == "win1")
        assert task.labels["alias"] == "Bürorechner"


class TestEverythingIsAccountedFor:
    def test_the_installation_is_carried_over(self) -> None:
        _, config = imported(TEXTS)
        tasks = {task.name: task for task in config.tasks}
        assert len(tasks) == 21
        assert validate_configs({"x": config}) == []
        assert tasks["web1"].depends == ("gw-berlin",)
        assert tasks["web1"].labels["rack"] == "B 4"
        assert tasks["web1/HTTP"].labels["servicegroup:web"] == "yes"
        assert tasks["web1/HTTP"].depends == ("db1/Replication", "web1")
        assert [(one.to, one.after) for one in tasks["web1/HTTP"].notify][-1] == ("duty (critical)", 2 * 3600 * 10**6)
        assert tasks["localhost/Nightly Backup"].passive
        assert tasks["localhost/Nightly Backup"].job.command[-1] == "no result in time"
        assert {name for name, task in tasks.items() if not task.enabled} == {
            "standby",
            *(f"{host}/Agent" for host in ("gw-berlin", "web1", "web2", "db1", "localhost", "win1")),
        }
        assert [downtime.labels for downtime in config.downtimes] == [{"host": "web1"}]
        assert set(config.periods) >= {"24x7", "workhours", "longhours", "holidays"}

    def test_no_secret_is_in_the_result(self) -> None:
        found, _ = imported(TEXTS)
        text = write_document(found.document, reported(found))
        assert not [secret for secret in SECRETS if secret in text]
        assert found.secrets == {
            "USER3": "monitor",
            "USER4": "Tr0ub4dor&3",
            "gw-berlin-snmp_community": "berl1n-r0",
            "USER7": "key with blanks",  # as a shell would read its quotes
        }

    def test_each_directive_is_in_the_result_or_in_the_report(self) -> None:
        """Without it something would be different, or it is named, or it says what is so anyway."""
        found, _ = imported(TEXTS)
        before = (found.document, found.secrets, what_of(found))
        silent = []
        for which, (text, file) in enumerate(TEXTS):
            named = omitted_lines(found, file)
            lines, whole = text.splitlines(), False
            for number, line in enumerate(lines, start=1):
                words = " ".join(line.partition(";")[0].split())
                if "define" in line:
                    whole = number in named  # the object is not carried over
                if whole or number in named or not words or words[0] in "#}" or "{" in words or file.startswith("var/"):
                    continue
                changed = [*TEXTS]
                changed[which] = ("\n".join([*lines[: number - 1], *lines[number:]]), file)
                try:
                    other = import_nagios(changed, "Europe/Berlin", "/secrets")
                except BadFileError:
                    continue  # something needs it
                if (other.document, other.secrets, what_of(other)) == before:
                    silent.append(words)
        assert {words for words in silent if not words.startswith(FILE_SETTINGS)} <= ANYWAY

    def test_the_cache_of_resolved_objects_makes_the_same_checks(self) -> None:
        """Nagios has written it when it was started with these files."""
        cache = [str(CORPUS / name) for name in ("var/objects.cache", "resource.cfg", "var/retention.dat")]
        timeouts = ("service_check_timeout=45\nhost_check_timeout=30\n", "nagios.cfg")
        _, config = imported(TEXTS)
        _, other = imported([*find_nagios_files(cache).texts, timeouts])
        assert other.periods == config.periods
        assert other.contacts == config.contacts
        assert other.downtimes == config.downtimes

        others = {task.name: task for task in other.tasks}
        assert others.keys() == {task.name for task in config.tasks}
        for task in config.tasks:
            same = others[task.name]
            assert set(same.notify) == set(task.notify)
            assert msgspec.structs.replace(same, notify=task.notify) == task


EXTRA = st.from_regex(r"[a-z][a-z_]{2,12}_x", fullmatch=True)
"""Directives that nobody knows."""


@given(st.sampled_from(TEXTS[1:10]), st.data(), EXTRA)
@settings(max_examples=20)
def test_a_directive_that_nobody_knows_is_named_with_its_place(
    chosen: tuple[str, str], data: st.DataObject, directive: str
) -> None:
    text, file = chosen
    lines = text.splitlines()
    begins = [i for i, line in enumerate(lines) if line.startswith("define") and "extinfo" not in line]
    at = data.draw(st.sampled_from(begins)) + 1
    lines.insert(at, f"    {directive}  some value")
    changed = ["\n".join(lines) if other == file else text for text, other in TEXTS]
    found, _ = imported([(text, file) for text, (_, file) in zip(changed, TEXTS, strict=True)])
    places = [(one.file, one.place and one.place.line) for one in found.omissions if directive in one.what]
    assert places == [(file, at + 1)]


class TestPatterns:
    """Names that are expressions, where use_regexp_matching is set."""

    @pytest.mark.parametrize(
        ("pattern", "matching"),
        [
            ("web.*", ["web1", "web22", "oldweb"]),
            ("^web[0-9]+$", ["web1", "web22"]),
            ("b1?$", ["web1", "oldweb", "db1", "a.b", "aXb"]),
            (r"^a\.b$", ["a.b"]),
            ("^w[^e]*$", []),
        ],
    )
    def test_an_expression_is_found_in_names(self, pattern: str, matching: list[str]) -> None:
        names = ["web1", "web22", "oldweb", "db1", "a.b", "aXb"]
        assert [name for name in names if NamePattern(pattern).matches(name)] == matching

    @pytest.mark.parametrize("text", ["web1", "web", "(a+)+", "a|b*", "x{3}*", "[z-a]*"])
    def test_what_is_none_of_ours_is_a_name(self, text: str) -> None:
        assert not NamePattern(text).is_one

    def test_no_expression_takes_long(self) -> None:
        assert not NamePattern("^" + "a*" * 100 + "b$").matches("a" * 250)

    def test_services_find_their_hosts_by_expressions(self) -> None:
        text = "use_regexp_matching=1\ndefine command {\ncommand_name c\ncommand_line c\n}\n" + "".join(
            f"define host {{\nhost_name {name}\n}}\n" for name in ("web1", "web2", "db1")
        )
        service = "define service {\nhost_name ^web.*,!web2\nservice_description s\ncheck_command c\n}\n"
        _, config = imported([(text + service, "x.cfg")])
        assert [task.name for task in config.tasks] == ["web1/s"]


WORDS = st.text(st.sampled_from("ab1 ,!*$+{}[]()\\'\"#;%=/-_:\n\t\r\x00\x7f\u202eü"), max_size=20)
LINES = st.sampled_from(
    [line for text, _ in TEXTS[1:10] for line in text.splitlines() if line.strip()]
    + ["define host{", "define service{", "}", "\\", "hostdowntime {", "$USER1$=x", "interval_length=0"]
)


@given(st.lists(st.one_of(LINES, WORDS, st.builds("{} {}".format, LINES, WORDS)), max_size=30))
@settings(max_examples=examples(80))
def test_whatever_stands_in_files_is_imported_or_refused_with_its_place(lines: list[str]) -> None:
    try:
        found = import_nagios([("\n".join(lines), "x.cfg")])
    except BadFileError as e:
        assert all(error.file == "x.cfg" and error.place for error in e.errors)
        return
    config = parse_toml(write_document(found.document, reported(found)), "x.toml")
    assert validate_configs({"x": config}) == []


@given(st.sampled_from(TEXTS[1:10]), st.data())
@settings(max_examples=examples(50))
def test_a_damaged_installation_is_imported_or_refused_with_its_place(
    chosen: tuple[str, str], data: st.DataObject
) -> None:
    text, file = chosen
    begin = data.draw(st.integers(0, len(text)))
    damaged = text[:begin] + data.draw(WORDS) + text[begin + data.draw(st.integers(0, 30)) :]
    try:
        found = import_nagios([(damaged if other == file else text, other) for text, other in TEXTS])
    except BadFileError as e:
        assert all(error.place for error in e.errors)
        return
    config = parse_toml(write_document(found.document, reported(found)), "x.toml")
    assert validate_configs({"x": config}) == []


def test_an_installation_moves_in_without_an_edit(evenbeat: Evenbeat, tmp_path: Path) -> None:
    """Imported, checked, applied and run: the plugins are called as Nagios called them."""
    node = ImportedNode(evenbeat, tmp_path)
    node.make_plugins(
        *("check_ping", "check_disk", "check_http", "check_mysql", "check_snmp", "check_tcp", "check_dummy")
    )
    old = tmp_path / "nagios"
    shutil.copytree(CORPUS, old)
    resources = (old / "resource.cfg").read_text()
    (old / "resource.cfg").write_text(resources.replace("/usr/lib/nagios/plugins", str(node.plugins)))
    secrets = tmp_path / "secrets"
    node.import_and_apply("nagios", str(old / "nagios.cfg"), "--secrets", str(secrets), "--zone", "Europe/Berlin")
    assert not [secret for secret in SECRETS if secret in node.toml]
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets.iterdir()} == {0o600}
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    with node.running():
        ping = ["-w", "3000.0,80%", "-c", "5000.0,100%", "-p", "5"]
        assert node.run("web2") == ["check_ping", "-H", "192.0.2.12", *ping]
        assert node.run("web1/HTTP") == ["check_http", "-I", "192.0.2.11", "-u", "/shop?q=a b", "-s", "Cart"]
        login = ["-u", "monitor", "-p", "Tr0ub4dor&3"]
        assert node.run("db1/Replication") == ["check_mysql", "-H", "192.0.2.21", *login, "-S"]
        assert node.run("gw-berlin/SNMP")[1:5] == ["-H", "192.0.2.1", "-C", "berl1n-r0"]
        state = {task["name"]: task["state"] for task in node.ask("ls")["tasks"]}
    assert (state["web2"], state["web1/HTTP"]) == ("ok", "ok")


def test_secrets_are_not_written_over_others(evenbeat: Evenbeat, tmp_path: Path) -> None:
    (tmp_path / "USER4").write_text("mine")
    result = evenbeat("import", "nagios", str(MAIN), "--secrets", str(tmp_path))
    assert (result.code, result.out) == (2, "")
    assert f"--secrets: {tmp_path}/USER4 is there and holds something else" in result.err
    assert evenbeat("import", "nagios", str(MAIN), "--secrets", str(tmp_path / "new")).code == 0
    (tmp_path / "new" / "USER4").chmod(0o644)
    assert evenbeat("import", "nagios", str(MAIN), "--secrets", str(tmp_path / "new")).code == 0
    assert stat.S_IMODE((tmp_path / "new" / "USER4").stat().st_mode) == 0o600
