"""The pages of docs/how-to: each is typed in a real terminal, or the table of `how_to_pages` says how it is tried."""

import re
import shutil
from functools import reduce
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest
from how_to_pages import OTHERWISE, TYPED_ELSEWHERE, file_of_test, names, reason_not_to_type, shown, shown_in, to_type
from newcomer import block, do, is_up, page, plain
from terminal import Terminal
from tools.docs import ROOT, contains
from waiting import eventually

from evenbeat.testing.certificates import CertificateAuthority
from evenbeat.testing.postgres_server import PostgresServer

CORPUS: Final = ROOT / "tests/load/importers/corpus"

PASSIVE: Final = """
[checks."{name}"]
passive = true
every = "1d"
labels = {{ site = "berlin", team = "shop" }}
"""
"""A check whose results the test submits, in place of one whose plugin this machine may not have."""


def start(terminal: Terminal, folder: Path, tasks: str) -> None:
    (folder / "tasks.toml").write_text(tasks)
    do(terminal, "evenbeat up tasks.toml &")
    is_up(terminal)


def test_how_to_say_what_depends_on_what(terminal: Terminal, folder: Path) -> None:
    tasks = block("docs/how-to/dependencies.md", "toml").replace('every = "1m"', 'passive = true\nevery = "1d"')
    tasks = re.sub(r'command = \["check_.*\n', "", tasks)
    start(terminal, folder, tasks)
    do(terminal, "evenbeat result gw/ping critical 'no answer'")
    (why, wanted), (remove, refusal) = to_type("dependencies.md")
    do(terminal, why, [*wanted, "..."])
    code, lines = terminal.type(remove)
    assert (code, contains(plain(lines), plain(refusal))) == (2, True), lines


def test_how_to_set_downtimes_and_pause(terminal: Terminal, folder: Path) -> None:
    tasks = "".join(PASSIVE.format(name=name) for name in ("web1", "web2", "db"))
    start(terminal, folder, f'{tasks}\n[tasks.report]\nevery = "1h"\ncommand = ["true"]\n')
    written = re.findall(r"^set ([0-9a-f]{7}):", page("docs/how-to/downtime.md"), re.MULTILINE)
    ids: dict[str, str] = {}
    for typed_command, wanted in to_type("downtime.md"):
        command = reduce(lambda text, known: text.replace(*known), ids.items(), typed_command)
        if command.startswith("evenbeat downtime add"):
            code, lines = terminal.type(command)
            assert (code, plain(lines)) == (0, plain(wanted))
            ids[written[len(ids)]] = lines[0].split()[1].rstrip(":")
        elif command.startswith("evenbeat downtime list"):
            code, lines = terminal.type(command)
            assert (code, plain(lines)[0], len(lines)) == (0, plain(wanted)[0], len(wanted))
        else:
            do(terminal, command, [line.strip() if line.strip() == "..." else line for line in wanted])


def test_how_to_see_and_acknowledge_problems(terminal: Terminal, folder: Path) -> None:
    failing = "command = ['sh', '-c', 'echo cannot reach mail.example.org; exit 75']"
    report = re.sub(r"^command = .*", failing, block("docs/how-to/problems.md", "toml"), flags=re.MULTILINE)
    backup = '[tasks.backup]\nat = "2099-01-01"\ncommand = ["false"]\n'
    start(terminal, folder, PASSIVE.format(name="web") + backup + report)
    do(terminal, "evenbeat run backup")
    eventually(lambda: "failing" in "".join(terminal.type("evenbeat problems")[1]))
    do(terminal, "evenbeat result web critical 'no answer from 10.0.0.7'")
    for command, wanted in to_type("problems.md"):
        if command == "evenbeat problems":
            heading, *rows = [line.split() for line in plain(terminal.type(command)[1])]
            assert heading == wanted[0].split()
            assert [row[1:2] for row in rows] == [line.split()[1:2] for line in wanted[1:]]
        elif "--id 12" in command:
            shown = plain(terminal.type(command.replace("12", "2"))[1])
            told = [line for line in plain(wanted) if "ops was told" not in line]
            assert [line.split(" TIME")[0] for line in shown] == [line.split(" TIME")[0] for line in told]
        elif command == "evenbeat why report":
            do(terminal, "evenbeat run report --wait || true")
            do(terminal, command, [wanted[0], "...", *wanted[2:], "..."])
        elif command.startswith("evenbeat why"):
            do(terminal, command)  # who was told needs contacts: test_notifications_how_to.py has them
        else:
            do(terminal, command, wanted)


def test_how_to_run_a_job_after_others(terminal: Terminal, folder: Path) -> None:
    start(terminal, folder, block("docs/how-to/chains.md", "toml"))
    for command, wanted in to_type("chains.md"):
        do(terminal, command, wanted)
    do(terminal, "evenbeat why copy", ["copy waits for backup and dump.", "..."])


def test_how_to_take_results_from_outside(terminal: Terminal, folder: Path) -> None:
    (folder / "tasks.toml").write_text(block("docs/how-to/passive.md", "toml"))
    do(terminal, "evenbeat up tasks.toml --listen 127.0.0.1:0 &")
    is_up(terminal)
    for command, wanted in to_type("passive.md"):
        do(terminal, command, wanted)


def test_how_to_let_others_in(terminal: Terminal, folder: Path) -> None:
    (folder / "checks.toml").write_text(PASSIVE.format(name="web"))
    certificate, key = CertificateAuthority(folder / "authority").sign("beat", "IP:127.0.0.1")
    certificate.rename(folder / "cert.pem")
    key.rename(folder / "key.pem")
    for command, wanted in to_type("access.md"):
        if command.startswith("evenbeat up"):
            do(terminal, "kill $(jobs -p) 2>/dev/null; wait")
            address = "0.0.0.0:0" if "--tls-cert" in command else "127.0.0.1:0"
            do(terminal, re.sub(r"(0\.0\.0\.0:)?8629", address, command) + " &")
            is_up(terminal)
        else:
            if command.startswith("evenbeat token add"):
                terminal.type(f"evenbeat token rm {command.split()[3]}")  # the page shows other ways to make it
            do(terminal, command, wanted)


def test_how_to_use_working_hours(terminal: Terminal) -> None:
    do(terminal, "evenbeat add x --every 1d -- true")
    for command, wanted in to_type("working-hours.md"):
        do(terminal, command, wanted)


def test_how_to_run_a_service(terminal: Terminal, folder: Path) -> None:
    (folder / "checks.toml").write_text(PASSIVE.format(name="web"))
    ((command, wanted),) = to_type("service.md")
    # Root would get a unit of the system, for which the files of this test are in the wrong folder.
    code, lines = terminal.type(command.replace("/etc/evenbeat/checks.toml", "checks.toml") + " --user")
    assert (code, lines[0]) == (0, "[Unit]"), lines
    assert any("checks.toml" in line and line.startswith("ExecStart=") for line in lines)
    assert wanted == ["..."]
    assert not (folder / ".config").exists()


def test_how_to_write_a_store_of_ones_own(terminal: Terminal, folder: Path) -> None:
    own = page("docs/how-to/own-store.md")
    (opened,) = re.findall(r"^    def open_journal.*?$.*?^$", own, re.MULTILINE | re.DOTALL)
    (folder / "journal.py").write_text(f"{block('docs/how-to/own-store.md', 'python')}\n\n{dedent(opened)}")
    (folder / "tasks.toml").write_text('[tasks.hello]\nevery = "1h"\ncommand = ["noop"]\n')
    (up, _), (ls, _) = to_type("own-store.md")
    do(terminal, f"{up} &")
    is_up(terminal, "--db", "python:journal:open_journal")
    do(terminal, ls)
    assert "hello" in "".join(terminal.type(ls)[1])


def test_how_to_move_in(terminal: Terminal, folder: Path, path: Path) -> None:
    crontab = path / "crontab"
    crontab.write_text(f"#!/bin/sh\nexec cat {CORPUS}/crontab/spool/cron/crontabs/*\n")
    crontab.chmod(0o755)
    shutil.copytree(CORPUS / "icinga/api", folder / "dump")
    places = {
        "crontab /etc ": f"crontab {CORPUS}/crontab/etc ",
        "/var/lib/jenkins": f"{CORPUS}/jenkins",
        "/etc/systemd/system": f"{CORPUS}/systemd/etc/systemd/system",
        "/usr/lib/systemd/system": f"{CORPUS}/systemd/lib/systemd/system",
        "/etc/nagios4/nagios.cfg": f"{CORPUS}/nagios/nagios.cfg",
    }
    for command, _ in to_type("migrate.md"):
        if command.startswith("evenbeat up"):
            do(terminal, f"{command} &")
            is_up(terminal)
            do(terminal, "kill $(jobs -p); wait; rm evenbeat.db*")
            continue
        do(terminal, reduce(lambda text, place: text.replace(*place), places.items(), command))
        if written := re.search(r"> (\w+\.toml)$", command):
            assert "\n[" in (folder / written[1]).read_text()
            do(terminal, f"evenbeat check-config {written[1]}")


def test_how_to_run_a_cluster(terminal: Terminal, folder: Path, newest_postgres: PostgresServer, nats_url: str) -> None:
    """Also what the units start, with one server of each kind in place of those of the page."""
    certificate, key = CertificateAuthority(folder / "authority").sign("nats", "IP:127.0.0.1")
    named, other = newest_postgres.dsn.replace("/postgres", "/named_by_page"), newest_postgres.create_database()
    do(terminal, f"export PATH={newest_postgres.binaries}:$PATH PGHOST=127.0.0.1 PGPORT={newest_postgres.port}")
    do(terminal, f"export PGUSER=evenbeat EVENBEAT_QUEUE={nats_url}/page")
    (folder / "tasks.toml").write_text('[tasks.hello]\nevery = "1d"\ncommand = ["echo", "hello"]\n')
    do(terminal, "evenbeat apply tasks.toml --db old.db")
    places = {
        "template0 evenbeat": "template0 named_by_page",
        "/var/lib/evenbeat/evenbeat.db --db postgresql://evenbeat@db.example.org/evenbeat": f"old.db --db {other}",
        "postgresql://evenbeat@db.example.org/evenbeat": named,
        "/etc/nats/cert.pem": str(certificate),
        "/etc/nats/key.pem": str(key),
    }
    units = re.findall(r"^ExecStart=\S+/(evenbeat .*)$", page("docs/how-to/cluster.md"), re.MULTILINE)
    here = {"--replicas 3": "--replicas 1", ":8629": ":0", "%i": "default"}
    scheduler, worker = (reduce(lambda text, place: text.replace(*place), here.items(), unit) for unit in units)
    for command, _ in to_type("cluster.md"):
        if command.startswith("evenbeat token link"):
            do(terminal, f"{scheduler} &")
            do(terminal, f"{worker} &")
            is_up(terminal)
            do(terminal, "evenbeat apply tasks.toml")
            do(terminal, "evenbeat run hello --wait", ["...", "hello"])
        do(terminal, reduce(lambda text, place: text.replace(*place), places.items(), command))
        if command.startswith("evenbeat migrate --db"):
            do(terminal, f"export EVENBEAT_DB={named}")
    assert "berlin" in (folder / "users.conf").read_text()
    assert "hello" in "".join(terminal.type(f"evenbeat ls --db {other}")[1])


class TestEveryPage:
    @pytest.mark.parametrize("name", names())
    def test_has_a_test_that_types_it(self, name: str) -> None:
        test = file_of_test(name).read_text()
        if name in TYPED_ELSEWHERE:
            assert any(words in test for words in (name, '"docs/**/*.md"', "pages()"))
        else:
            assert f'to_type("{name}")' in test, f"no test types docs/how-to/{name}: write one in this file"

    def test_of_the_table_is_there_and_shows_what_it_excuses(self) -> None:
        assert {*OTHERWISE, *TYPED_ELSEWHERE} <= set(names())
        for name, excused in OTHERWISE.items():
            commands = [command for command, _ in shown(name)]
            stale = [begin for begin in excused if not any(command.startswith(begin) for command in commands)]
            assert not stale, f"docs/how-to/{name} does not show {stale}"

    def test_that_is_typed_shows_something(self) -> None:
        for name in set(names()) - set(TYPED_ELSEWHERE):
            assert to_type(name), f"nothing of docs/how-to/{name} is typed"

    def test_shows_commands_in_blocks_and_in_lines_of_their_own(self) -> None:
        line = "    evenbeat a \\\n        --b > c\n"
        text = f"Type\n\n{line}\n```text\n$ evenbeat d\nout\n$ evenbeat e\n```\n\n```sh\ncurl f\n```\n"
        expected = ["evenbeat a --b > c", "evenbeat d", "evenbeat e", "curl f\n"]
        assert [command for command, _ in shown_in(text)] == expected
        assert list(shown_in("```python\n    evenbeat = 3\n```\n\n```toml\n[node]\n```\n")) == []

    def test_excuses_only_what_its_table_names(self) -> None:
        assert reason_not_to_type("cluster.md", "systemctl enable x") is not None
        assert reason_not_to_type("cluster.md", "evenbeat migrate") is None
        assert reason_not_to_type("service.md", "systemctl enable x") is None
