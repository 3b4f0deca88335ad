"""Contacts pass the task administration: from files and by hand, with their uses, permissions and audit lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.contacts import contacts_by_owner, contacts_with_owners, usable_contacts
from evenbeat.admin.perform import perform_change
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tasks_of_files import file_owner_of
from evenbeat.load.config import Config
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import SECOND, Contact, Instant, Invalid, NotifyContact, Task
from evenbeat.report.documents import change_document
from evenbeat.store.contract import Conflict, Filter
from evenbeat.store.memory import MemoryStore
from evenbeat.wire.replies import ChangeResult, Forbidden, NotFound
from evenbeat.wire.requests import ChangeRequest, RemoveContact, SetContact

NOW = Instant(1_700_000_000 * SECOND)
MAIL = Contact(email=("ops@example.org",))
HOOK = Contact(webhook="https://hooks.example.org/S3CRET", secret="env:KEY")
PROGRAM = Contact(command=("notify", "ops"))
OPS = '[contacts.ops]\nemail = "ops@example.org"\n'
CHECK = '[checks.web]\nevery = "1m"\ncommand = ["true"]\nnotify = ["ops"]\n'


def task(name: str, *contacts: str, **keys: Any) -> Task:
    return task_from_table(name, {"every": "1m", "command": ["true"], "notify": list(contacts), **keys}, check=False)


class Administered:
    """A task administration, and what it has announced."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.admin = TaskAdmin(self.store, lambda: NOW)
        self.announced: list[ChangeResult] = []
        self.admin.on_changed = self.announced.append
        self._folder = folder

    def file(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    def apply(self, *files: Path) -> ChangeResult:
        return self.admin.apply(files, "ana", anew=True)

    def ask(self, change: ChangeRequest) -> ChangeResult:
        return perform_change(self.admin, change)

    def contacts(self) -> dict[str, Contact]:
        return {name: contact for name, (_, contact) in contacts_with_owners(self.store).items()}

    def audit(self) -> Sequence[tuple[str, str, str, list[Any]]]:
        """Newest first."""
        return [
            (line["who"], line["action"], line["name"], [tuple(field.values()) for field in line["fields"]])
            for line in map(change_document, self.store.changes(most=100))
        ]


@pytest.fixture
def administered(tmp_path: Path) -> Administered:
    return Administered(tmp_path)


def test_a_contact_is_set_changed_and_removed_and_each_is_announced_once(administered: Administered) -> None:
    assert administered.ask(SetContact("ops", MAIL, "eva")).settings
    assert contacts_by_owner(administered.store) == {"api": {"ops": MAIL}}
    assert not administered.ask(SetContact("ops", MAIL, "eva")).settings, "nothing has changed"
    administered.ask(SetContact("ops", HOOK, "eva"))
    administered.ask(RemoveContact("ops", "eva"))
    assert administered.contacts() == {}
    assert [changed.settings for changed in administered.announced] == [True, True, True]
    with pytest.raises(NotFound, match="there is no contact 'ops'"):
        administered.ask(RemoveContact("ops", "eva"))


def test_the_audit_says_who_changed_what_without_secrets(administered: Administered) -> None:
    administered.ask(SetContact("ops", HOOK, "eva"))
    administered.ask(SetContact("ops", Contact(send=("slack://S3CRET/x",), per_hour=5), "bo"))
    administered.ask(RemoveContact("ops", "eva"))
    administered.apply(administered.file("a.toml", '[node]\nping = "https://hc-ping.example/S3CRET"\n'))
    assert "S3CRET" not in str(administered.audit())
    removed, changed, created = administered.audit()[2:]
    assert created == (
        "eva",
        "created",
        "contact ops",
        [("webhook", None, "https://hooks.example.org"), ("secret", None, "env:KEY")],
    )
    assert changed[:3] == ("bo", "changed", "contact ops")
    assert sorted(changed[3]) == [
        ("per_hour", None, 5),
        ("secret", "env:KEY", None),
        ("send", None, ["slack://..."]),
        ("webhook", "https://hooks.example.org", None),
    ]
    assert removed[:3] == ("eva", "removed", "contact ops")
    assert ("ping", None, "https://hc-ping.example") in administered.audit()[1][3]


@pytest.mark.parametrize(
    ("name", "contact", "problem"),
    [
        (" x", MAIL, "the name"),
        ("ops", Contact(webhook="nonsense"), "webhook: not a URL of this kind"),
        ("ops", Contact(email=("a@b",), period="nights"), "period: there is no period 'nights'"),
    ],
)
def test_a_contact_that_no_file_could_have_is_refused(
    administered: Administered, name: str, contact: Contact, problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        administered.ask(SetContact(name, contact, "eva"))
    assert (administered.contacts(), administered.announced) == ({}, [])


def test_a_task_names_contacts_that_are_there(administered: Administered) -> None:
    with pytest.raises(Invalid, match=r"notify\.1: there is no contact 'bos', did you mean 'boss'"):
        administered.ask(SetContact("boss", MAIL, "eva"))
        administered.ask(SetContact("ops", MAIL, "eva"))
        administered.admin.add([task("a", "ops", "bos")], "eva", "eva")
    administered.admin.add([task("a", "ops")], "eva", "eva")
    with pytest.raises(Invalid, match="there is no contact 'x'"):
        administered.admin.set("a", task("a", "x"), "eva")


def test_a_contact_stays_as_long_as_a_task_names_it(administered: Administered) -> None:
    administered.ask(SetContact("ops", MAIL, "eva"))
    administered.admin.add([task("a", "ops")], "eva", "eva")
    with pytest.raises(Conflict, match="the contact 'ops' cannot go: the task 'a' of eva uses it"):
        administered.ask(RemoveContact("ops", "eva"))
    administered.admin.set("a", task("a"), "eva")
    administered.ask(RemoveContact("ops", "eva"))


def test_a_contact_stays_as_long_as_the_node_names_it_and_a_period_as_long_as_a_contact_does(
    administered: Administered,
) -> None:
    periods = administered.file("p.toml", '[periods.nights]\nranges = ["22:00-06:00"]\n')
    node = administered.file("n.toml", f'{OPS}period = "nights"\n[node]\nnotify = ["ops"]\n')
    administered.apply(periods, node)
    with pytest.raises(Conflict, match=r"the contact 'ops' cannot go: \[node\] of file:.*n.toml uses it"):
        administered.ask(RemoveContact("ops", "eva"))
    with pytest.raises(Conflict, match="the period 'nights' cannot go: the contact 'ops' uses it"):
        administered.admin.remove_period("nights", "eva")
    periods.write_text("")
    with pytest.raises(Conflict, match=r"p.toml.*the period 'nights' cannot go: the contact 'ops' uses it"):
        administered.apply(periods)
    node.write_text(OPS)
    administered.apply(node)
    administered.apply(periods)
    administered.ask(RemoveContact("ops", "eva"))


def test_a_file_gives_contacts_to_tasks_of_others_and_takes_them_back_only_with_their_uses(
    administered: Administered,
) -> None:
    contacts, tasks = administered.file("c.toml", OPS), administered.file("t.toml", CHECK)
    with pytest.raises(Invalid, match=r"t.toml:4:12: there is no contact 'ops', known: none is defined"):
        administered.apply(tasks)
    administered.apply(contacts, tasks)
    assert administered.admin.find_or_raise("web").task.notify == (NotifyContact("ops"),)
    contacts.write_text("")
    with pytest.raises(Conflict, match=r"c.toml: contacts.ops: the contact 'ops' cannot go: the task 'web' of file:"):
        administered.apply(contacts)
    assert list(administered.contacts()) == ["ops"]
    tasks.write_text(CHECK.replace('notify = ["ops"]\n', ""))
    administered.apply(contacts, tasks)
    assert administered.contacts() == {}


def test_a_file_that_drops_a_contact_and_its_uses_may(administered: Administered) -> None:
    file = administered.file("a.toml", OPS + CHECK)
    administered.apply(file)
    file.write_text(CHECK.replace("ops", "boss") + OPS.replace("ops", "boss"))
    administered.apply(file)
    assert (list(administered.contacts()), administered.admin.find_or_raise("web").task.notify) == (
        ["boss"],
        (NotifyContact("boss"),),
    )


def test_a_contact_of_a_file_that_was_changed_by_hand_is_as_the_file_says_when_that_is_applied_again(
    administered: Administered,
) -> None:
    file = administered.file("a.toml", OPS)
    administered.admin.apply([file], "ana")
    administered.ask(SetContact("ops", HOOK, "eva"))
    assert contacts_by_owner(administered.store) == {file_owner_of(file): {"ops": HOOK}}, "it keeps its owner"
    administered.admin.apply([file], "ana")
    assert administered.contacts() == {"ops": MAIL}


def test_files_may_repeat_a_contact_but_not_contradict_it(administered: Administered) -> None:
    first, second = administered.file("a.toml", OPS), administered.file("b.toml", OPS)
    administered.apply(first)
    administered.apply(second)
    with pytest.raises(Conflict, match=r"b.toml defines the contact 'ops' differently"):
        administered.apply(administered.file("c.toml", OPS.replace("ops@", "bo@")))
    administered.ask(SetContact("ops", HOOK, "eva"))
    assert {owner: some["ops"] for owner, some in contacts_by_owner(administered.store).items()} == {
        file_owner_of(first): HOOK,
        file_owner_of(second): HOOK,
    }
    administered.ask(RemoveContact("ops", "eva"))
    assert administered.contacts() == {}


def test_an_owner_that_goes_leaves_the_contacts_that_others_name(administered: Administered) -> None:
    administered.apply(administered.file("a.toml", OPS + OPS.replace("ops", "boss") + CHECK))
    administered.admin.add([task("theirs", "boss")], "eva", "eva")
    owner = administered.admin.find_or_raise("web").owner
    administered.admin.remove(Filter(owner=owner), "eva")
    assert list(administered.contacts()) == ["boss"]


class TestOnlyFilesDefineCommands:
    @pytest.fixture
    def strict(self, administered: Administered) -> Administered:
        administered.ask(SetContact("old", Contact(command=("theirs",), email=("a@b",)), "eva"))
        text = '[node]\ncommands = "files"\n[contacts.mine]\ncommand = ["notify"]\n'
        administered.admin.apply([administered.file("a.toml", text)], "ana", at_up=True)
        return administered

    def test_a_command_of_another_owner_is_no_place_of_its_contact(self, strict: Administered) -> None:
        found = usable_contacts(strict.store, permission_of(strict.store))
        assert {name: [channel.kind for channel in usable.channels] for name, usable in found.items()} == {
            "mine": ["command"],
            "old": ["email"],
        }

    @pytest.mark.parametrize(
        ("name", "contact", "problem"),
        [
            ("new", PROGRAM, "the contact 'new' has a command, and only files named at `evenbeat up` may say that"),
            ("mine", PROGRAM, r"the command of the contact 'mine' is defined in .*a.toml; change it there"),
            ("mine", MAIL, r"the command of the contact 'mine' is defined in .*a.toml; change it there"),
        ],
    )
    def test_nobody_else_defines_one(self, strict: Administered, name: str, contact: Contact, problem: str) -> None:
        before = strict.contacts()
        with pytest.raises(Forbidden, match=problem):
            strict.ask(SetContact(name, contact, "eva"))
        config = Config((), {}, {}, None, {name: contact})
        with pytest.raises((Forbidden, Conflict)):
            strict.admin.apply_config("app:x", config, "eva")
        assert strict.contacts() == before

    def test_everything_else_of_a_contact_may_be_said_by_all(self, strict: Administered) -> None:
        strict.ask(SetContact("ops", MAIL, "eva"))
        strict.ask(SetContact("mine", Contact(command=("notify",), per_hour=5), "eva"))
        strict.ask(SetContact("old", Contact(email=("a@b",)), "eva"))
        assert list(strict.contacts()) == ["mine", "old", "ops"]
