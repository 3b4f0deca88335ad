"""Contacts and `notify` in files: what is read, and what is refused with its place."""

from pathlib import Path
from typing import Any

import pytest

from evenbeat.load.config import BadFileError, Config, NodeSettings
from evenbeat.load.contacts import contact_from_table, contact_to_table, parse_notify
from evenbeat.load.files import load_together
from evenbeat.load.task_tables import change_table, task_from_table, task_to_table
from evenbeat.load.toml import parse_toml, parse_toml_file
from evenbeat.load.write_toml import write_config
from evenbeat.model import HOUR, MINUTE, SECOND, Contact, ContactState, Invalid, NotifyContact

OPS = '[contacts.ops]\nemail = "ops@example.org"\n'
CHECK = '[checks.web]\nevery = "1m"\ncommand = ["true"]\n'


def errors(text: str) -> list[str]:
    with pytest.raises(BadFileError) as caught:
        parse_toml_file(text, "f", must_run=True)
    return [str(error) for error in caught.value.errors]


def errors_of_files(folder: Path, **texts: str) -> list[str]:
    paths = []
    for name, text in texts.items():
        paths.append(folder / f"{name}.toml")
        paths[-1].write_text(text)
    with pytest.raises(BadFileError) as caught:
        load_together(paths)
    return [str(error).removeprefix(f"{folder}/") for error in caught.value.errors]


def test_a_contact_with_all_its_keys_is_read() -> None:
    text = """
[periods.office]
ranges = ["monday-friday 09:00-17:00"]
[contacts.ops]
send = ["mailto:ana@example.org", "slack://A/B/C", "env:CHAT"]
webhook = "https://hooks.example.org/x"
secret = "file:/etc/evenbeat/key"
command = ["/usr/bin/notify", "ops"]
email = ["ops@example.org", "root@localhost"]
smtp = "smtp+starttls://mx.example.org:587"
sender = "evenbeat@example.org"
period = "office"
states = ["unknown", "critical"]
per_hour = 10
[node]
notify = ["ops"]
page = "https://evenbeat.example.org/"
ping = "env:PING"
"""
    config = parse_toml(text, "f")
    assert config.contacts == {
        "ops": Contact(
            send=("mailto:ana@example.org", "slack://A/B/C", "env:CHAT"),
            webhook="https://hooks.example.org/x",
            secret="file:/etc/evenbeat/key",
            command=("/usr/bin/notify", "ops"),
            email=("ops@example.org", "root@localhost"),
            smtp="smtp+starttls://mx.example.org:587",
            sender="evenbeat@example.org",
            period="office",
            states=(ContactState.UNKNOWN, ContactState.CRITICAL),
            per_hour=10,
        )
    }
    assert config.node == NodeSettings(
        notify=(NotifyContact("ops"),), page="https://evenbeat.example.org/", ping="env:PING"
    )
    assert parse_toml(write_config(config), "f") == config


def test_one_text_is_a_list_of_one() -> None:
    config = parse_toml('[contacts.a]\nsend = "env:A"\nstates = "critical"\nemail = "a@b.example"\n', "f")
    assert config.contacts["a"] == Contact(send=("env:A",), states=(ContactState.CRITICAL,), email=("a@b.example",))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('email = "x y"', "2:9: contacts.a.email.0: 'x y' is not a mail address, accepted: NAME@HOST"),
        ('email = ["a@b", "a@b"]', "2:11: contacts.a.email.1: the same as one before it"),
        ('email = ["a@b"]\nperiod = 5', "3:10: contacts.a.period: Expected `str`, got `int`"),
        ('email = "a@b"\nstates = ["bad"]', "is not a state, accepted: warning, unknown, critical"),
        ('email = "a@b"\nper_hour = 0', "contacts.a.per_hour: Expected `int` >= 1"),
        ('email = "a@b"\nsmtp = "http://mx"', "contacts.a.smtp: not a URL of this kind, accepted: smtp://HOST:PORT"),
        ('email = "a@b"\nsmtp = "smtp://mx:port"', "contacts.a.smtp: not a URL of this kind"),
        ('email = "a@b"\nsmtp = "smtp://mx/path"', "contacts.a.smtp: not a URL of a mail server"),
        ('email = "a@b"\nsender = "Ana <a@b>"', "contacts.a.sender: 'Ana <a@b>' is not a mail address"),
        ('email = "a@b"\nsecret = "env:KEY"', "3:11: contacts.a.secret: `secret` signs what a webhook gets"),
        ('webhook = "https://a"\nsmtp = "smtp://mx"', "contacts.a.smtp: `smtp` is for mail"),
        ('webhook = "https://a"\nsender = "a@b"', "contacts.a.sender: `sender` is for mail"),
        ('webhook = "ftp://a/"', "contacts.a.webhook: not a URL of this kind, accepted: http://HOST/..."),
        ('webhook = "https:///x"', "contacts.a.webhook: not a URL of this kind"),
        ('webhook = "https://a/b c"', "contacts.a.webhook: a space or a control character in a URL"),
        ('webhook = "https://a/"\nsecret = "abc"', "a secret is not written here but referred to, accepted: env:NAME"),
        ('webhook = "env:A B"', "contacts.a.webhook: 'A B' is not the name of a variable, accepted: env:NAME"),
        ('webhook = "file:key"', "contacts.a.webhook: 'key' is not an absolute path, accepted: file:/PATH"),
        ('send = "slack"', "contacts.a.send.0: not a URL, accepted: mailto:NAME@HOST, SERVICE://..."),
        ('send = "slack:a/b"', "contacts.a.send.0: not a URL"),
        ('command = "notify ops"', "2:12: contacts.a.command: one text, accepted: a list of words"),
        ('command = [""]', "contacts.a.command: the first word is empty"),
        ('command = ["a", "b\\u0000"]', "contacts.a.command: a NUL"),
        ('email = "a@b"\nemial = "x"', "3:10: contacts.a.emial: 'emial' is not a key here"),
        ('period = "x"', "1:2: contacts.a: a contact without a place, accepted: one or more of send, webhook"),
    ],
)
def test_a_wrong_contact_is_refused_with_its_place(line: str, problem: str) -> None:
    (found,) = errors(f"[contacts.a]\n{line}\n[periods.x]\n")
    assert problem in found


def test_no_message_repeats_a_url_that_may_be_secret() -> None:
    text = '[contacts]\na = "slack://S3/S3"\n[contacts.b]\nwebhook = "htp://u:S3@x"\nsend = "S3"\nsecret = "S3"\n'
    assert not [error for error in errors(text) if "S3" in error]
    with pytest.raises(Invalid) as caught:
        contact_from_table("c", {"webhook": "http://S3 S3/", "secret": "S3"})
    assert "S3" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('notify = ["opps"]', "6:12: there is no contact 'opps', did you mean 'ops'?"),
        ('notify = ["x"]', "6:12: there is no contact 'x', known: ops"),
        ('notify = ["ops", { to = "ops", after = "1m" }]', "checks.web.notify.1: the contact 'ops' is named twice"),
        ("notify = 5", "6:10: checks.web.notify: '5' names no contacts, accepted: names of contacts"),
        ("notify = [5]", "checks.web.notify.0: '5' names no contact"),
        ('notify = [{ after = "1m" }]', "names no contact"),
        ('notify = [{ to = "ops", in = "1m" }]', "checks.web.notify.0: 'in' is not a key here, accepted: to, after"),
        ('notify = [{ to = "ops", after = "1y" }]', "checks.web.notify.0: after: 'y' is not a unit"),
        ('notify = [{ to = "ops", after = -1 }]', "after"),
        (f"notify = [{', '.join(repr(f'c{i}') for i in range(51))}]", "51 contacts, accepted: at most 50"),
        ('notify = "ops"\nrepeat = "59s"', "7:11: checks.web.repeat: '59s' is out of range, accepted: at least 1m"),
        ('notify = "ops"\ngather = "61m"', "7:11: checks.web.gather: '61m' is out of range, accepted: up to 1h"),
        ('repeat = "1h"', "`repeat` has no effect here: nobody is notified: there is no `notify`"),
        ('gather = "1m"', "`gather` has no effect here"),
        ('notify = []\ngather = "1m"', "`gather` has no effect here"),
    ],
)
def test_a_wrong_notify_is_refused_with_its_place(tmp_path: Path, line: str, problem: str) -> None:
    (found,) = errors_of_files(tmp_path, f=f"{OPS}{CHECK}{line}\n")
    assert problem in found


def test_tasks_templates_and_defaults_say_whom_to_notify() -> None:
    text = """
[contacts.ops]
email = "ops@example.org"
[contacts.boss]
email = "boss@example.org"
[defaults]
notify = "ops"
repeat = "4h"
[templates.night]
notify = ["{host}", { to = "boss", after = "30m" }]
gather = "1m"
[checks.day]
every = "1m"
command = ["true"]
[checks.quiet]
every = "1m"
command = ["true"]
notify = []
[checks."{host} at night"]
use = "night"
for.host = ["ops"]
every = "1m"
command = ["true"]
"""
    tasks = {task.name: task for task in parse_toml(text, "f").tasks}
    assert (tasks["day"].notify, tasks["day"].repeat, tasks["day"].gather) == ((NotifyContact("ops"),), 4 * HOUR, None)
    quiet = tasks["quiet"]
    assert (quiet.notify, quiet.repeat, quiet.gather) == ((), None, None), "a default without effect is not taken"
    night = tasks["ops at night"]
    assert night.notify == (NotifyContact("ops"), NotifyContact("boss", 30 * MINUTE))
    assert (night.repeat, night.gather) == (4 * HOUR, MINUTE)


def test_the_unknown_contact_of_a_template_is_reported_where_it_is_written_and_once(tmp_path: Path) -> None:
    text = f"{OPS}[templates.t]\nnotify = ['nobody']\n[checks.'{{h}}']\nuse = 't'\nfor.h = ['a', 'b']\n" + (
        'every = "1m"\ncommand = ["true"]\n'
    )
    (found,) = errors_of_files(tmp_path, f=text)
    assert found == "f.toml:4:12: there is no contact 'nobody', known: ops"


def test_contacts_are_shared_between_files_and_may_not_differ(tmp_path: Path) -> None:
    contacts, tasks = tmp_path / "contacts.toml", tmp_path / "tasks.toml"
    contacts.write_text(OPS)
    tasks.write_text(f'{CHECK}notify = ["ops"]\n')
    assert [len(source.config.tasks) for source in load_together([contacts, tasks])] == [0, 1]
    same = errors_of_files(tmp_path, a=f"{OPS}{CHECK}", b='[contacts.ops]\nemail = "S3@example.org"\n')
    assert same == [f"b.toml:1:2: contacts.ops: {tmp_path}/a.toml defines the contact 'ops' differently"]
    load_together([contacts, contacts])


def test_a_contact_waits_for_a_period_that_exists_in_any_file(tmp_path: Path) -> None:
    period = '[periods.nights]\nranges = ["22:00-06:00"]\n'
    (tmp_path / "p.toml").write_text(period)
    (tmp_path / "c.toml").write_text(f"{OPS}period = 'nights'\n")
    assert len(load_together([tmp_path / "p.toml", tmp_path / "c.toml"])) == 2
    (found,) = errors_of_files(tmp_path, alone=f"{OPS}period = 'nihgts'\n{period}")
    assert found == "alone.toml:3:11: contacts.ops.period: there is no period 'nihgts', known: nights"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('notify = ["boss"]', "there is no contact 'boss', known: ops"),
        ('page = "evenbeat.example.org"', "node.page: not a URL of this kind"),
        ('page = "https://ana:pass@x/"', "node.page: not the URL of a page"),
        ('page = "https://x/?a=b"', "node.page: not the URL of a page"),
        ('page = "env:PAGE"', "node.page: not a URL of this kind"),
        ('ping = "hc-ping.com/x"', "node.ping: not a URL of this kind"),
        ("notify = [{}]", "node.notify.0: '{}' names no contact"),
    ],
)
def test_a_wrong_key_of_the_node_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    (found,) = errors_of_files(tmp_path, f=f"{OPS}[node]\n{line}\n")
    assert problem in found


@pytest.mark.parametrize("name", ["", " a", "a\x07b", "..", "x" * 257])
def test_a_contact_has_a_name_that_can_be_typed(name: str) -> None:
    with pytest.raises(Invalid, match="the name"):
        contact_from_table(name, {"email": ["a@b.example"]})


def test_a_task_is_changed_key_by_key_and_what_loses_its_effect_goes() -> None:
    table: dict[str, Any] = {"every": "1m", "command": ["true"], "notify": ["ops"], "repeat": "1h", "gather": "10s"}
    task = task_from_table("a", table, check=False)
    assert task.gather == 10 * SECOND
    again = task_to_table(task)
    assert (again["notify"], again["repeat"], again["gather"]) == (["ops"], "1h", "10s")
    later = change_table(again, {"notify": [{"to": "boss", "after": "1h"}]})
    assert task_to_table(task_from_table("a", later, check=False))["notify"] == [{"to": "boss", "after": "1h"}]
    silent = task_from_table("a", change_table(later, {"notify": None}), check=False)
    assert (silent.notify, silent.repeat, silent.gather) == ((), None, None)


def test_what_is_notified_is_written_as_it_is_read() -> None:
    notify = parse_notify(["ops", {"to": "boss", "after": 90}])
    assert notify == (NotifyContact("ops"), NotifyContact("boss", 90 * SECOND))
    contact = Contact(webhook="https://a/", per_hour=3)
    assert contact_from_table("a", contact_to_table(contact)) == contact
    config = Config((), {}, {}, None, {"a b": contact})
    assert parse_toml(write_config(config), "f") == config
