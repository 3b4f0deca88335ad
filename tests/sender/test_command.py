"""A command gets the message as JSON on standard input and in the variables that Nagios sets, and no secret of ours."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sample_messages import LINK, document, item, order
from waiting import eventually

from evenbeat.child_processes.process_table import process_info
from evenbeat.model import Contact
from evenbeat.sender.attempt import Attempt
from evenbeat.sender.nagios_macros import host_and_service, message_variables
from evenbeat.sender.process import deliver
from evenbeat.wire.sender_documents import DeliveryEnd, MessageDocument


def script(folder: Path, text: str, name: str = "notify") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return str(path)


def run(*words: str, message: MessageDocument | None = None, pass_env: tuple[str, ...] = ()) -> DeliveryEnd:
    return deliver(Attempt(order(Contact(command=words), message)), pass_env)


def test_a_script_written_for_nagios_works(tmp_path: Path) -> None:
    """The notification command that comes with Nagios, with the variables in place of its macros."""
    text = """set -u
/usr/bin/printf "%b" "***** Nagios *****\\n
Notification Type: $NAGIOS_NOTIFICATIONTYPE\\n\\nService: $NAGIOS_SERVICEDESC
Host: $NAGIOS_HOSTALIAS\\nAddress: $NAGIOS_HOSTADDRESS\\nState: $NAGIOS_SERVICESTATE\\n
Additional Info:\\n\\n$NAGIOS_SERVICEOUTPUT\\n" > "$1"
exec >> "$1"
echo "** $NAGIOS_NOTIFICATIONTYPE Service Alert: $NAGIOS_HOSTALIAS/$NAGIOS_SERVICEDESC is $NAGIOS_SERVICESTATE **"
echo "$NAGIOS_LONGDATETIME $NAGIOS_CONTACTNAME $NAGIOS_CONTACTEMAIL"
"""
    written = tmp_path / "written"
    labels = {"host": "web1", "service": "HTTP", "address": "10.0.0.7", "alias": "The web server"}
    end = run(script(tmp_path, text), str(written), message=document(item("web1/HTTP", labels=labels)))
    assert (end.is_delivered, end.error) == (True, "")
    said = written.read_text()
    assert "Notification Type: PROBLEM\n" in said
    assert "Service: HTTP\nHost: The web server\nAddress: 10.0.0.7\nState: CRITICAL\n" in said
    assert "HTTP CRITICAL - connection refused\n" in said
    assert "** PROBLEM Service Alert: The web server/HTTP is CRITICAL **" in said
    assert said.splitlines()[-1].endswith(" 2026 ops ")


def test_a_service() -> None:
    found = message_variables(document(item("web1/http")))
    assert {
        name.removeprefix("NAGIOS_"): value for name, value in found.items() if name.startswith("NAGIOS_") and value
    } == {
        "NOTIFICATIONTYPE": "PROBLEM",
        "NOTIFICATIONRECIPIENTS": "ops",
        "CONTACTNAME": "ops",
        "CONTACTALIAS": "ops",
        "HOSTNAME": "web1",
        "HOSTALIAS": "web1",
        "HOSTDISPLAYNAME": "web1",
        "HOSTADDRESS": "web1",
        "SERVICEDESC": "http",
        "SERVICEDISPLAYNAME": "http",
        "SERVICESTATE": "CRITICAL",
        "SERVICESTATEID": "2",
        "SERVICESTATETYPE": "HARD",
        "SERVICEOUTPUT": "HTTP CRITICAL - connection refused",
        "LONGSERVICEOUTPUT": "second line",
        "SERVICEPERFDATA": "time=0.01s",
        "SERVICEPROBLEMID": "7",
        "LASTSERVICEPROBLEMID": "7",
        "SERVICENOTIFICATIONID": "12",
        "SERVICEINFOURL": LINK,
        "LASTSERVICESTATECHANGE": "1795048862",
        "SERVICEDURATIONSEC": "7497",
        "SERVICEDURATION": "0d 2h 4m 57s",
        **{name: found[f"NAGIOS_{name}"] for name in ("LONGDATETIME", "SHORTDATETIME", "DATE", "TIME", "TIMET")},
    }
    assert found["NAGIOS_TIMET"] == "1795056360"
    assert found["NAGIOS_HOSTSTATE"] == "", "of the host nothing is known"


def test_a_host() -> None:
    found = message_variables(document(item("web1", labels={"host": "web1"}, output="PING CRITICAL")))
    assert (found["NAGIOS_HOSTNAME"], found["NAGIOS_HOSTSTATE"], found["NAGIOS_HOSTSTATEID"]) == ("web1", "DOWN", "1")
    assert found["NAGIOS_HOSTOUTPUT"] == "PING CRITICAL"
    assert found["NAGIOS_SERVICEDESC"] == found["NAGIOS_SERVICESTATE"] == ""
    found = message_variables(document(item("web1", kind="recovery", labels={"host": "web1"}, output="PING OK")))
    assert (found["NAGIOS_NOTIFICATIONTYPE"], found["NAGIOS_HOSTSTATE"]) == ("RECOVERY", "UP")


def test_performance_data_follow_both_bars() -> None:
    output = "DISK OK | /=2MB;5\n/ 15 MB;\n/boot 68 MB; | /boot=68MB\n/home=9MB"
    found = message_variables(document(item(output=output)))
    assert found["NAGIOS_SERVICEOUTPUT"] == "DISK OK"
    assert found["NAGIOS_LONGSERVICEOUTPUT"] == "/ 15 MB;\\n/boot 68 MB; "
    assert found["NAGIOS_SERVICEPERFDATA"] == "/=2MB;5 /boot=68MB /home=9MB"
    found = message_variables(document(item(cause="failed", output="a | b\nc | d")))
    assert (found["NAGIOS_SERVICEOUTPUT"], found["NAGIOS_SERVICEPERFDATA"]) == ("c  d", "")


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("web1/http", {}, ("web1", "http")),
        ("web1/disk/home", {}, ("web1", "disk/home")),
        ("backup", {}, ("backup", "backup")),
        ("web1", {"host": "web1"}, ("web1", "")),
        ("http web1", {"host": "web1"}, ("web1", "http web1")),
        ("web1/http", {"host": "web1"}, ("web1", "http")),
        ("eu/web1", {"host": "web1", "service": "HTTP"}, ("web1", "HTTP")),
        ("x", {"service": "HTTP"}, ("x", "HTTP")),
    ],
)
def test_which_host_and_service_it_is(name: str, labels: dict[str, str], expected: tuple[str, str]) -> None:
    assert host_and_service(item(name, labels=labels)) == expected


def test_a_recovery_and_an_acknowledgement() -> None:
    found = message_variables(document(item(kind="recovery", output="HTTP OK", state="critical")))
    assert found["NAGIOS_NOTIFICATIONTYPE"] == "RECOVERY"
    assert (found["NAGIOS_SERVICESTATE"], found["NAGIOS_SERVICESTATEID"]) == ("OK", "0")
    assert (found["NAGIOS_LASTSERVICESTATE"], found["NAGIOS_SERVICEPROBLEMID"]) == ("CRITICAL", "0")
    found = message_variables(document(item(kind="acknowledged", who="anna", comment="on `it`")))
    assert found["NAGIOS_NOTIFICATIONTYPE"] == "ACKNOWLEDGEMENT"
    assert (found["NAGIOS_NOTIFICATIONAUTHOR"], found["NAGIOS_NOTIFICATIONCOMMENT"]) == ("anna", "on it")
    assert (found["NAGIOS_SERVICEACKAUTHOR"], found["NAGIOS_SERVICEACKCOMMENT"]) == ("anna", "on it")
    assert found["NAGIOS_SERVICESTATE"] == "CRITICAL"


def test_labels_are_custom_variables() -> None:
    found = message_variables(document(item(labels={"site": "berlin", "not a name": "x"})))
    assert found["NAGIOS__SERVICESITE"] == "berlin"
    assert not any("NOT A NAME" in name for name in found)


def test_an_output_has_no_signs_of_a_shell() -> None:
    """Many scripts put the output into a command line, as Nagios removes them."""
    nasty = "a`reboot`$(reboot);~&'\"<b>|perf=`x`"
    found = message_variables(document(item(output=f"{nasty}\n{nasty}")))
    for name in ("SERVICEOUTPUT", "LONGSERVICEOUTPUT", "SERVICEPERFDATA"):
        assert not set(found[f"NAGIOS_{name}"]) & set("`~$&|'\"<>"), name
    assert found["EVENBEAT_OUTPUT"] == f"{nasty}\n{nasty}"


def test_of_several_items_the_worst_is_described_and_the_others_counted() -> None:
    message = document(
        item("a/b", state="warning", output="slow"), item("c/d", output="down"), item("e/f", kind="recovery")
    )
    found = message_variables(message)
    assert (found["NAGIOS_HOSTNAME"], found["NAGIOS_SERVICEDESC"]) == ("c", "d")
    assert found["NAGIOS_SERVICEOUTPUT"] == "down (and 2 more)"
    assert "WARNING: a/b - slow\\n" in found["NAGIOS_LONGSERVICEOUTPUT"]
    assert found["EVENBEAT_ITEMS"] == "3"


def test_the_document_is_on_standard_input(tmp_path: Path) -> None:
    message = document(*(item(f"task {n}", output="x" * 200) for n in range(5_000)))
    end = deliver(
        Attempt(order(Contact(command=(script(tmp_path, f"cat > {tmp_path}/in"),)), message, possible_repetition=True))
    )
    assert end.is_delivered
    said = json.loads((tmp_path / "in").read_text())
    assert (len(said["items"]), said["possible_repetition"], said["contact"]) == (5_000, True, "ops")


def test_a_command_need_not_read_its_input(tmp_path: Path) -> None:
    message = document(*(item(f"task {n}", output="x" * 200) for n in range(5_000)))
    assert run("true", message=message).is_delivered
    assert run(script(tmp_path, "exec 0<&-; sleep 0.1"), message=message).is_delivered


def test_it_gets_no_secret_of_ours_and_what_pass_env_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENBEAT_TOKEN", "EVENBEAT_TOKEN_FILE", "EVENBEAT_QUEUE_PASSWORD", "SLACK_URL", "AWS_REGION"):
        monkeypatch.setenv(name, f"value of {name}")
    monkeypatch.setenv("EVENBEAT_DB", "postgresql://me:secret@host/db")
    assert run(script(tmp_path, f"env > {tmp_path}/env"), pass_env=("AWS_*", "EVENBEAT_TOKEN")).is_delivered
    found = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert found["AWS_REGION"] == "value of AWS_REGION"
    assert found["EVENBEAT_NAME"] == "web1/http"
    assert found["PATH"] == os.environ["PATH"]
    assert (
        not {"EVENBEAT_TOKEN", "EVENBEAT_TOKEN_FILE", "EVENBEAT_QUEUE_PASSWORD", "EVENBEAT_DB", "SLACK_URL"}
        & found.keys()
    )


def test_no_shell_reads_the_words(tmp_path: Path) -> None:
    words = ("$(reboot)", "a b", "*", "'", ";", "$NAGIOS_HOSTNAME")
    run(script(tmp_path, f'printf "%s\\n" "$@" > {tmp_path}/words'), *words)
    assert (tmp_path / "words").read_text().splitlines() == list(words)


def test_what_it_says_last_is_reported(tmp_path: Path) -> None:
    end = run(script(tmp_path, 'echo first; echo "sent as 17" >&2; echo'))
    assert (end.is_delivered, end.detail) == (True, "sent as 17")
    end = run(script(tmp_path, r'printf "no\033[31m route\n"; exit 7'))
    assert (end.is_delivered, end.may_have_arrived) == (False, False)
    assert end.error.endswith("notify ended with exit status 7")
    assert end.detail == "no\\x1b[31m route"


def test_much_output_is_not_kept(tmp_path: Path) -> None:
    end = run(script(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done"))
    assert (end.is_delivered, end.detail) == (True, "done")


def test_a_command_that_a_signal_ends_may_have_done_it(tmp_path: Path) -> None:
    end = run(script(tmp_path, "kill -9 $$"))
    assert (end.is_delivered, end.may_have_arrived) == (False, True)
    assert end.error.endswith("was killed by signal 9")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("/no/such/program",), "no such file or directory"),
        (("/etc/passwd",), "permission denied"),
        (("no-such-program-at-all",), "no such file or directory"),
        (("a\0b",), "a word of it has a nul character"),
    ],
)
def test_a_command_that_cannot_be_started(words: tuple[str, ...], problem: str) -> None:
    end = run(*words)
    assert (end.is_delivered, end.may_have_arrived) == (False, False)
    assert end.error.endswith(f"cannot be started: {problem}")


def test_what_it_leaves_behind_does_not_keep_it(tmp_path: Path) -> None:
    assert run(script(tmp_path, f"sleep 300 & echo $! > {tmp_path}/pid")).is_delivered
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_a_command_that_is_interrupted_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    attempt = Attempt(order(Contact(command=(script(tmp_path, f"sleep 300 & echo $! > {tmp_path}/pid\nsleep 301"),))))
    ends: list[DeliveryEnd] = []
    thread = threading.Thread(target=lambda: ends.append(deliver(attempt)))
    thread.start()
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    attempt.interrupt()
    thread.join(60)
    assert [(end.is_delivered, end.may_have_arrived) for end in ends] == [(False, True)]
    left = int((tmp_path / "pid").read_text())
    eventually(lambda: (found := process_info(left)) is None or not found.is_alive)


def test_the_variables_of_nagios_are_those_that_it_has() -> None:
    """From `common/macros.c` of Nagios Core 4.5.12."""
    known = Path(__file__).with_name("nagios_macros.txt").read_text().split()
    messages = [
        document(item()),
        document(item("w", labels={"host": "w"})),
        document(item(kind="acknowledged")),
        document(test=True),
    ]
    for message in messages:
        names = {name.removeprefix("NAGIOS_") for name in message_variables(message) if name.startswith("NAGIOS_")}
        assert names <= set(known)


def test_the_sender_imports_nothing_large() -> None:
    code = "import sys, evenbeat.sender.process; print({'numpy', 'asyncio', 'apprise'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
