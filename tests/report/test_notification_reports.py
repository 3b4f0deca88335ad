"""Who was notified, timelines, messages, contacts that fail: the same from each store, and for whoever may see it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from notification_seeds import NOW, OPS_KEY, seed_notifications

from evenbeat.admin.problem_actions import perform_problem_request
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.scope import Scope
from evenbeat.model import MINUTE, SECOND, Instant
from evenbeat.report.contacts import contact_document, read_contacts
from evenbeat.report.messages import read_messages
from evenbeat.report.problem_timeline import problem_timeline
from evenbeat.report.problems import find_problem
from evenbeat.report.why import explain
from evenbeat.store.alert_records import ALL_MESSAGES, AlertBatch, MessageEnd, MessageFilter, MessageRecord
from evenbeat.store.contract import Filter, Store
from evenbeat.store.memory import MemoryStore
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries
from evenbeat.testing.samples import T0
from evenbeat.wire.documents import SentMessage, TimelineEntry
from evenbeat.wire.requests import CommentOnProblems

HOOK = "webhook https://hooks.example.org"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    if not find_postgres_binaries():
        pytest.skip("no PostgreSQL on this machine")
    server = PostgresServer(durable=False)
    yield server.start()
    server.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        made: Store = MemoryStore()
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "a.db")
    else:
        made = PostgresStore(request.getfixturevalue("postgres").create_database())
    yield made
    made.close()


def notified(store: Store, name: str, at: str | None = None) -> list[str]:
    return [answer.text for answer in explain(store, name, at, NOW, lambda _: (False, None)).notified]


def timeline(store: Store, problem: int) -> list[TimelineEntry]:
    return problem_timeline(store, *find_problem(store, problem, NOW), NOW)


def test_why_says_who_was_told(store: Store) -> None:
    seed_notifications(store)
    opened = "Fri 2027-01-15 08:00:30+00:00"
    over = "problem 1, over since Fri 2027-01-15 08:02:00+00:00: "
    assert notified(store, "web") == [
        f"{over}ops was told on {opened} of CRITICAL, by {HOOK}, delivered at attempt 2, gathered into message 1 with "
        "1 other; on Fri 2027-01-15 08:02:30+00:00 that it is over, not delivered yet: HTTP 500; tried again in 1 min",
        f"{over}boss was not told: it was over before its delay of 5 min had passed",
    ]
    assert notified(store, "db") == [
        f"ops was told on {opened} of WARNING, by {HOOK}, delivered at attempt 2, gathered into message 1 with 1 other",
        "boss is told within 30 s",
    ]
    assert notified(store, "web", "2027-01-15T08:02") == [
        "Fri 2027-01-15 08:02:00+00:00: boss was not told: over before it was sent",
        f"Fri 2027-01-15 08:02:30+00:00: ops was told that it is over, by {HOOK}, not delivered yet: HTTP 500; tried "
        "again in 1 min",
    ]


def test_a_timeline_has_notes_and_notifications_in_one_order_of_time(store: Store) -> None:
    web, db = seed_notifications(store)
    now = Instant(T0 + MINUTE)
    admin = TaskAdmin(store, lambda: now)
    for problem, text in ((web, "on it\nsoon"), (db, "later")):
        perform_problem_request(admin, CommentOnProblems(Filter(), "eva", text, (problem,)))
    found = timeline(store, web)
    assert [(entry.kind, entry.who or entry.contact) for entry in found] == [
        ("opened", ""),
        ("sent", "ops"),
        ("commented", "eva"),
        ("suppressed", "boss"),
        ("closed", ""),
        ("sent", "ops"),
    ]
    assert [entry.at for entry in found] == sorted(entry.at for entry in found)
    assert (found[1].message, found[1].delivery, found[1].place, found[1].item) == (1, "delivered", HOOK, "problem")
    assert (found[2].text, found[3].reason) == ("on it\nsoon", "over before it was sent")
    assert (found[5].delivery, found[5].error, found[5].item) == ("waiting", "HTTP 500", "recovery")
    assert "S3CRET" not in str(found)
    assert [entry.kind for entry in timeline(store, db)] == ["opened", "sent", "commented"]


def test_messages_come_newest_first_and_in_pages(store: Store) -> None:
    seed_notifications(store)
    (later, first), next_ = read_messages(store, ALL_MESSAGES, NOW)
    assert next_ is None
    assert later == SentMessage(
        id=2,
        contact="ops",
        kind="webhook",
        place="https://hooks.example.org",
        created="2027-01-15T08:02:30+00:00",
        items=1,
        state="waiting",
        attempts=3,
        next_attempt="2027-01-15T08:11:00+00:00",
        ended=None,
        error="HTTP 500\nsorry",
        detail="500",
        possible_repetition=False,
        text="not delivered yet: HTTP 500; tried again in 1 min",
    )
    assert (first.id, first.state, first.items, first.text) == (1, "delivered", 2, "delivered at attempt 2")
    assert read_messages(store, MessageFilter(most=1), NOW) == ([later], 2)
    assert read_messages(store, MessageFilter(most=1, before=2), NOW) == ([first], None)
    assert read_messages(store, MessageFilter(state="delivered"), NOW) == ([first], None)
    assert read_messages(store, MessageFilter(contact="boss"), NOW) == ([], None)


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        (Scope("ana"), [(2, 1), (1, 2)]),
        (Scope(None, {"team": "ops"}), [(2, 1), (1, 1)]),
        (Scope("ana", {"team": "data"}), [(1, 1)]),
        (Scope("bo"), []),
        (Scope(None, {"team": "else"}), []),
    ],
)
def test_who_is_limited_sees_messages_about_its_tasks(store: Store, scope: Scope, seen: list[Any]) -> None:
    seed_notifications(store)
    found, next_ = read_messages(store, ALL_MESSAGES, NOW, scope)
    assert [(message.id, message.items) for message in found] == seen
    assert next_ is None
    assert len(read_messages(store, MessageFilter(most=1), NOW, scope).messages) == min(len(seen), 1)


def test_contacts_say_what_was_sent_last_and_what_fails(store: Store) -> None:
    seed_notifications(store)
    boss, ops = read_contacts(store, NOW)
    assert [(place.failing, place.latest) for place in boss.places] == [(False, None)]
    (place,) = ops.places
    assert (place.failing, place.latest and place.latest.id) == (True, 2)
    document = contact_document(ops, secrets=False)
    assert document["places"][0]["latest"] == msgspec.to_builtins(place.latest)
    assert "S3CRET" not in str(document)
    store.record_alerts(AlertBatch(message_ends=[MessageEnd(2, NOW, "given up", "HTTP 500")])).result()
    assert read_contacts(store, NOW)[1].places[0].failing
    number = store.reserve_messages(1)
    record = MessageRecord(number, OPS_KEY, "ops", Instant(NOW + SECOND), 1, b"{}")
    store.record_alerts(AlertBatch(messages=[record])).result()
    assert not read_contacts(store, NOW)[1].places[0].failing


def test_a_search_among_messages_of_others_ends_and_can_be_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbeat.report.messages._MOST_SEARCHED", 3)
    store = MemoryStore()
    seed_notifications(store)
    for i in range(5):
        record = MessageRecord(store.reserve_messages(1), OPS_KEY, "ops", Instant(NOW + i), 1, b"{}")
        store.record_alerts(AlertBatch(messages=[record])).result()
    found: list[int] = []
    before, pages = None, 0
    while pages == 0 or before is not None:
        page = read_messages(store, MessageFilter(before=before, most=10), NOW, Scope("ana"))
        found, before, pages = [*found, *(message.id for message in page.messages)], page.next, pages + 1
    assert (found, pages) == ([2, 1], 3)
