"""Contacts are the same by whatever way they are defined: by hand or in a file, live or stopped, here or over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from budget import IS_FULL
from http_server import HttpServer
from hypothesis import given, settings
from hypothesis import strategies as st
from live_node import LiveNode

from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.in_process import InProcessBackend, InProcessClient
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.load.config import BadFileError, Config
from evenbeat.load.task_tables import task_from_table
from evenbeat.load.write_toml import write_config
from evenbeat.model import Contact, ContactState, Invalid, NotifyContact, Period, Task
from evenbeat.report.contacts import ContactInfo
from evenbeat.store.contract import Conflict, Filter
from evenbeat.store.memory import MemoryStore
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries
from evenbeat.wire.replies import NotFound

CONTACTS: Final = ("ops", "boss")
TASKS: Final = ("web", "db")
PERIOD: Final = "nights"
VARIANTS: Final = (
    Contact(email=("ops@example.org",)),
    Contact(email=("ops@example.org",), states=(ContactState.CRITICAL,), per_hour=5),
    Contact(webhook="https://hooks.example.org/S3CRET", secret="env:KEY", command=("notify", "ops")),
    Contact(send=("slack://S3CRET/x", "file:/etc/url"), period=PERIOD),
    Contact(email=("nonsense",)),
    Contact(email=("ops@example.org",), period="no such period"),
)
BAD: Final = VARIANTS[4:]
_examples: Final = count()


class Define(NamedTuple):
    contact: str
    variant: int


class Remove(NamedTuple):
    contact: str


class Name(NamedTuple):
    """A task, new or not, notifies these contacts."""

    task: str
    contacts: tuple[str, ...]


class Forget(NamedTuple):
    """A task goes."""

    task: str


Step = Define | Remove | Name | Forget
NAMED = st.sampled_from(CONTACTS)
STEPS = st.lists(
    st.one_of(
        st.builds(Define, NAMED, st.integers(0, len(VARIANTS) - 1)),
        st.builds(Remove, NAMED),
        st.builds(Name, st.sampled_from(TASKS), st.lists(NAMED, unique=True).map(tuple)),
        st.builds(Name, st.sampled_from(TASKS), st.lists(NAMED, unique=True).map(tuple)),
        st.builds(Forget, st.sampled_from(TASKS)),
    ),
    min_size=2,
    max_size=8,
)


class World:
    """What there should be, in words of dicts; names are those of one example."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.contacts: dict[str, Contact] = {}
        self.notify: dict[str, tuple[str, ...]] = {}

    def after(self, step: Step) -> "World | None":
        """What there should be after the step; None if it is to be refused."""
        new = World(self.prefix)
        new.contacts, new.notify = dict(self.contacts), dict(self.notify)
        match step:
            case Define(contact, variant):
                if VARIANTS[variant] in BAD:
                    return None
                new.contacts[contact] = VARIANTS[variant]
            case Remove(contact):
                if contact not in self.contacts or any(contact in named for named in self.notify.values()):
                    return None
                del new.contacts[contact]
            case Name(task, contacts):
                if not set(contacts) <= self.contacts.keys():
                    return None
                new.notify[task] = contacts
            case Forget(task):
                new.notify.pop(task, None)
        return new

    def task(self, name: str, contacts: tuple[str, ...]) -> Task:
        notify = [{"to": self.prefix + to, "after": f"{i}m"} for i, to in enumerate(contacts)]
        table = {"every": "1d", "phase": "5s", "enabled": False, "command": ["noop"], "notify": notify}
        return task_from_table(self.prefix + name, table, check=True)

    def config(self, step: Step) -> Config:
        """A file that says what there is, changed by the step, whether that is right or not."""
        contacts, notify = dict(self.contacts), dict(self.notify)
        match step:
            case Define(contact, variant):
                contacts[contact] = VARIANTS[variant]
            case Remove(contact):
                contacts.pop(contact, None)
            case Name(task, named):
                notify[task] = named
            case Forget(task):
                notify.pop(task, None)
        tasks = tuple(self.task(name, named) for name, named in notify.items())
        return Config(tasks, {}, {}, None, {self.prefix + name: contact for name, contact in contacts.items()})


class Way(NamedTuple):
    """How to ask, and whether a file is written and applied or each change is made by hand."""

    client: Callable[[], Client]
    file: Path | None = None

    def take(self, world: World, step: Step) -> str:
        """Make the step; how it is refused, or nothing."""
        try:
            with closing(self.client()) as client:
                if self.file is None:
                    _by_hand(client, world, step)
                else:
                    self.file.write_text(write_config(world.config(step)))
                    client.apply([self.file])
        except (NotFound, Conflict) as e:
            return type(e).__name__
        except (Invalid, BadFileError):
            return "Invalid"
        return ""

    def found(self, world: World) -> "Seen":
        """All that is there of this example."""
        with closing(self.client()) as client:
            infos = [_words(info) for info in client.contacts() if info.name.startswith(world.prefix)]
            tasks = {name: client.find(world.prefix + name) for name in TASKS}
        return Seen(infos, {name: entry.task.notify for name, entry in tasks.items() if entry is not None})


def _by_hand(client: Client, world: World, step: Step) -> None:
    match step:
        case Define(contact, variant):
            client.set_contact(world.prefix + contact, VARIANTS[variant])
        case Remove(contact):
            client.remove_contact(world.prefix + contact)
        case Name(task, contacts):
            new = world.task(task, contacts)
            if client.find(new.name) is None:
                client.add([new], "eva")
            else:
                client.set(new.name, new)
        case Forget(task):
            client.remove(Filter(names=(world.prefix + task,)))


class Seen(NamedTuple):
    """Contacts, without their owners, which differ with the way; and whom tasks notify."""

    contacts: list[tuple[str, list[str], Contact | None, int]]
    notify: dict[str, tuple[NotifyContact, ...]]


def _words(info: ContactInfo) -> tuple[str, list[str], Contact | None, int]:
    return info.name, [place.shown for place in info.places], info.contact, info.tasks


def expected(world: World) -> Seen:
    """What each way should find."""
    shown = {0: ["ops@example.org"], 1: ["ops@example.org"], 2: ["https://hooks.example.org", "notify"]}
    infos: list[tuple[str, list[str], Contact | None, int]] = []
    for name, contact in sorted(world.contacts.items()):
        uses = sum(name in named for named in world.notify.values())
        places = shown.get(VARIANTS.index(contact), ["slack://...", "file:/etc/url"])
        infos.append((world.prefix + name, places, contact, uses))
    notify = {
        task: tuple(NotifyContact(world.prefix + to, i * 60_000_000) for i, to in enumerate(named))
        for task, named in world.notify.items()
    }
    return Seen(infos, notify)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Way]]:
    """A store for each way; each has the period."""
    folder = tmp_path_factory.mktemp("ways")
    with ExitStack() as stack:
        clients: dict[str, Callable[[], Client]] = {}
        if find_postgres_binaries():
            server = PostgresServer(durable=False)
            stack.callback(server.close)
            server.start()
            for kind in ("by hand", "in a file"):
                dsn = server.create_database()
                _with_period(PostgresStore(dsn))
                clients[f"cluster, {kind}"] = partial(DatabaseClient, dsn, "eva")
        for kind in ("by hand", "in a file"):
            alone, near, far = (folder / kind / name for name in ("alone.db", "near.db", "serving.db"))
            alone.parent.mkdir()
            for path in (alone, near, far):
                _with_period(SqliteStore(path))
            stack.enter_context(LiveNode(near, grace=0.1))
            stack.enter_context(LiveNode(far, grace=0.1))
            url = f"http://127.0.0.1:{stack.enter_context(HttpServer(far.parent)).port}"
            memory = MemoryStore()
            memory.set_periods({PERIOD: Period(ranges=("22:00-24:00",))}, "eva", 0, "eva")  # type: ignore[arg-type]
            clients |= {
                f"live, {kind}": partial(DatabaseClient, near, "eva"),
                f"stopped, {kind}": partial(DatabaseClient, alone, "eva"),
                f"URL, {kind}": partial(_over_http, url),
                f"program, {kind}": partial(_in_program, memory),
            }
        yield {
            name: Way(client, folder / f"{name}.toml" if name.endswith("file") else None)
            for name, client in clients.items()
        }


def _over_http(url: str) -> Client:
    return HttpClient(ApiConnection(url))


def _in_program(store: MemoryStore) -> Client:
    return InProcessClient(store, InProcessBackend(store), "eva")


def _with_period(store: SqliteStore | PostgresStore) -> None:
    store.set_periods({PERIOD: Period(ranges=("22:00-24:00",))}, "eva", 0, "eva")  # type: ignore[arg-type]
    store.close()


@settings(max_examples=25 if IS_FULL else 4, deadline=None)
@given(steps=STEPS)
def test_contacts_are_the_same_by_every_way(ways: dict[str, Way], steps: list[Step]) -> None:
    prefix = f"{next(_examples)}-"
    worlds = dict.fromkeys(ways, World(prefix))
    for step in steps:
        for name, way in ways.items():
            world = worlds[name]
            after = world.after(step)
            refused = way.take(world, step)
            if way.file is not None and isinstance(step, Remove) and step.contact not in world.contacts:
                assert refused == "", "a file that says nothing of it is right"
            else:
                assert (refused == "") is (after is not None), (name, step, refused)
            worlds[name] = after or world
    world = next(iter(worlds.values()))
    for name, way in ways.items():
        assert way.found(worlds[name]) == expected(worlds[name]), name
    for way in ways.values():
        if way.file is not None:
            way.file.write_text("")
            with closing(way.client()) as client:
                client.apply([way.file])
