"""Whoever answers - a live node, a database, a URL or this program - the same is asked, done, refused and shown."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count, product
from typing import Any, Final, NamedTuple, TypeVar

import pytest
from budget import examples
from http_server import HttpServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from live_node import LiveNode
from problem_seeds import seed_problem

from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.in_process import InProcessBackend, InProcessClient
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.model import HOUR, SECOND, Instant, Invalid, State
from evenbeat.report.problems import note_document, problem_document
from evenbeat.store.contract import Filter, ProblemFilter, Store
from evenbeat.store.memory import MemoryStore
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries
from evenbeat.testing.samples import T0, a_task
from evenbeat.wire.replies import ProblemsChanged

T = TypeVar("T")
NOW: Final = Instant(T0 + 24 * HOUR)
FAR: Final = Instant(7_000_000_000 * SECOND)
NAMES: Final = ("db", "job", "mail", "web")
_examples: Final = count()


class Way(NamedTuple):
    """One of the ways to ask, and to the store behind it."""

    client: Callable[[], Client]
    store: Callable[[], Store]

    def ask(self, question: Callable[[Client], T]) -> T:
        """Each time with a client of its own: who owns a database keeps others from it."""
        with closing(self.client()) as client:
            return question(client)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Way]]:
    """A store for each way."""
    folder = tmp_path_factory.mktemp("ways")
    with ExitStack() as stack:
        near = stack.enter_context(LiveNode(folder / "near.db", grace=0.1))
        far = stack.enter_context(LiveNode(folder / "serving.db", grace=0.1))
        url = f"http://127.0.0.1:{stack.enter_context(HttpServer(folder)).port}"
        alone, memory = folder / "alone.db", MemoryStore()
        SqliteStore(alone).close()
        ways = {} if not find_postgres_binaries() else {"cluster": _cluster_way(stack)}
        yield ways | {
            "live node": Way(lambda: DatabaseClient(near.database, "eva"), lambda: _lent(near.node.store)),
            "URL": Way(lambda: HttpClient(ApiConnection(url)), lambda: _lent(far.node.store)),
            "database": Way(lambda: DatabaseClient(alone, "eva"), lambda: SqliteStore(alone)),
            "program": Way(lambda: InProcessClient(memory, InProcessBackend(memory), "eva"), lambda: _lent(memory)),
        }


def _cluster_way(stack: ExitStack) -> Way:
    """A database of a cluster, none of whose nodes runs."""
    server = PostgresServer(durable=False)
    stack.callback(server.close)
    dsn = server.start().create_database()
    store = PostgresStore(dsn)
    stack.callback(store.close)
    return Way(lambda: DatabaseClient(dsn, "eva"), lambda: _lent(store))


def _lent(store: Store) -> Store:
    """A store that its owner closes."""
    return _NeverClosed(store)


class _NeverClosed:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> None:
        pass


class Opens(NamedTuple):
    """The problem of a task opens, or has another state."""

    name: str
    state: State


class Closes(NamedTuple):
    name: str


class Acts(NamedTuple):
    """Somebody acknowledges, withdraws or comments."""

    action: str
    names: tuple[str, ...]
    owner: bool
    label: bool
    places: tuple[int, ...]
    """Of problems in the order of their ids; one that is not there stands for an id that no problem has."""
    text: str
    sticky: bool
    ends: bool


NAMED = st.one_of(
    st.sampled_from([("*",), ("web",), ("db", "web"), ("?o?", "web"), ()]),
    st.lists(st.sampled_from([*NAMES, "nope", "we"]), max_size=2).map(tuple),
)
SELDOM = st.sampled_from([False, False, False, True])
STEPS = st.one_of(
    st.builds(Opens, st.sampled_from(NAMES), st.sampled_from([State.WARNING, State.CRITICAL, State.UNKNOWN])),
    st.builds(Closes, st.sampled_from(NAMES)),
    st.builds(
        Acts,
        st.sampled_from(["acknowledge", "withdraw", "comment"]),
        NAMED,
        SELDOM,
        SELDOM,
        st.sampled_from([(), (), (), (0,), (0, 1), (1, 4)]),
        st.sampled_from(["on it", "two\nlines <b>", " "]),
        st.booleans(),
        st.booleans(),
    ),
)


class Scene:
    """Four tasks in one of the stores, of one example: others do not see them."""

    def __init__(self, way: Way, prefix: str) -> None:
        self._way = way
        self._prefix = prefix
        self._opened: dict[str, int] = {}
        self._clock = int(T0)
        with closing(way.store()) as store:
            for i, name in enumerate(NAMES):
                task = a_task(prefix + name, check=True, enabled=False, team=f"{prefix}{'ops' if i % 2 else 'dev'}")
                store.create([task], f"{prefix}{'ana' if i < 2 else 'bob'}", T0)
        for name in ("db", "web"):
            self.take(Opens(name, State.WARNING))

    def take(self, step: Opens | Closes | Acts) -> object:
        """What was answered, in terms that do not depend on the store."""
        if isinstance(step, Acts):
            ids = self._ids()
            try:
                changed = self._way.ask(lambda client: self._act(client, step, ids))
            except Invalid as e:
                return type(e), self._plain(str(e), ids)
            return [ids.index(id_) for id_ in changed.ids], changed.tasks
        self._clock += SECOND
        if isinstance(step, Opens) or step.name in self._opened:
            opened = self._opened.setdefault(step.name, self._clock)
            is_open = isinstance(step, Opens)
            state = step.state if isinstance(step, Opens) else State.WARNING
            with closing(self._way.store()) as store:
                seed_problem(store, self._prefix + step.name, state, opened=opened, at=self._clock, is_open=is_open)
            if not is_open:
                del self._opened[step.name]
        return None

    def _act(self, client: Client, step: Acts, ids: list[int]) -> ProblemsChanged:
        only = Filter(
            tuple(self._prefix + name for name in step.names),
            f"{self._prefix}ana" if step.owner or not (step.names or step.label) else None,
            {"team": f"{self._prefix}ops"} if step.label else {},
        )
        chosen = tuple(ids[place] if place < len(ids) else 10**15 for place in step.places)
        if step.action == "comment":
            return client.comment(only, step.text, chosen)
        if step.action == "withdraw":
            return client.acknowledge(only, chosen, withdraw=True)
        until = FAR if step.ends else None
        return client.acknowledge(only, chosen, comment=step.text, until=until, sticky=step.sticky)

    def seen(self) -> list[object]:
        """All that can be asked of these problems."""
        return self._way.ask(lambda client: self._seen(client, self._ids()))

    def _seen(self, client: Client, ids: list[int]) -> list[object]:
        found: list[object] = []
        for is_open, state, acknowledged in product((True, False, None), (None, State.CRITICAL), (None, True, False)):
            tasks = Filter((f"{self._prefix}*",))
            only = ProblemFilter(tasks, state=state, is_open=is_open, acknowledged=acknowledged)
            problems = client.problems(only)
            found.append([self._document(problem_document(problem, NOW), ids) for problem in problems])
        for id_ in ids:
            problem, notes = client.problem(id_)
            said = [{**note_document(note), "at": "", "who": ""} for note in notes]
            found.append((self._document(problem_document(problem, NOW), ids), said))
        return found

    def _ids(self) -> list[int]:
        with closing(self._way.store()) as store:
            return sorted(p.id for p in store.problems(ProblemFilter(Filter((f"{self._prefix}*",)), is_open=None)))

    @staticmethod
    def _document(document: dict[str, Any], ids: list[int]) -> dict[str, Any]:
        """A document without what differs from store to store."""
        ack = document["acknowledged"] and {**document["acknowledged"], "at": "", "by": ""}
        return {**document, "id": ids.index(document["id"]), "acknowledged": ack}

    @staticmethod
    def _plain(text: str, ids: list[int]) -> str:
        known = {str(id_): str(place) for place, id_ in enumerate(ids)}
        return re.sub(r"problem (\d+)", lambda found: f"problem {known.get(found[1], found[1])}", text)


@given(steps=st.lists(STEPS, min_size=1, max_size=6))
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_steps_lead_to_the_same_answers_and_documents(ways: dict[str, Way], steps: list[Any]) -> None:
    prefix = f"example-{next(_examples)}-"
    scenes = {name: Scene(way, prefix) for name, way in ways.items()}
    for step in steps:
        answers = {name: scene.take(step) for name, scene in scenes.items()}
        assert list(answers.values()) == [answers["program"]] * len(ways), (step, answers)
    seen = {name: scene.seen() for name, scene in scenes.items()}
    for name, found in seen.items():
        assert found == seen["program"], name


def test_a_text_that_is_too_long_is_refused_in_words_for_people(ways: dict[str, Way]) -> None:
    scenes = {name: Scene(way, f"long-{next(_examples)}-") for name, way in ways.items() if name != "URL"}
    for action, place in (("acknowledge", "comment"), ("comment", "text")):
        step = Acts(action, ("web",), owner=False, label=False, places=(), text="x" * 5_000, sticky=False, ends=False)
        for name, scene in scenes.items():
            assert scene.take(step) == (Invalid, f"{place}: 5,000 characters, accepted: at most 4,096"), name
