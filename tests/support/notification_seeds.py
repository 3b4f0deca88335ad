"""What a node would have recorded of notifications about two problems, for tests of what is said of it afterwards."""

from typing import Final

import msgspec
from problem_seeds import seed_problem

from evenbeat.core.channels import channels_of
from evenbeat.model import MINUTE, SECOND, Contact, Instant, NotifyContact, State
from evenbeat.store.alert_records import (
    NONE_REFUSED,
    AlertBatch,
    AlertDecision,
    AlertRecord,
    MessageAttempt,
    MessageEnd,
    MessageRecord,
)
from evenbeat.store.contract import Store
from evenbeat.testing.samples import T0, a_task

OPS: Final = Contact(webhook="https://hooks.example.org/S3CRET")
BOSS: Final = Contact(email=("boss@example.org",))
OPS_KEY: Final = channels_of("ops", OPS)[0].key
BOSS_KEY: Final = channels_of("boss", BOSS)[0].key
NOW: Final = Instant(T0 + 10 * MINUTE)


def seed_notifications(store: Store) -> tuple[int, int]:
    """`web` of the team ops is told to ops in message 1 together with `db` of the team data, and its recovery is on its
    way in message 2, which fails; boss was not told of it. The ids of the problems of `web` and `db`.
    """
    notify = (NotifyContact("ops"), NotifyContact("boss", 5 * MINUTE))
    for name, team in (("web", "ops"), ("db", "data")):
        task = a_task(name, check=True, enabled=False, team=team)
        store.create([msgspec.structs.replace(task, notify=notify)], "ana", T0)
    contacts = msgspec.json.encode({"ops": OPS, "boss": BOSS}).decode()
    store.set_settings({"contacts:ana": contacts})
    web, db = seed_problem(store, "web"), seed_problem(store, "db", State.WARNING)
    first = store.reserve_messages(2)
    left, closed = T0 + 30 * SECOND, T0 + 2 * MINUTE
    _record(
        store,
        AlertBatch(
            alerts=[_alert(web, 0, sent=3, last_sent=left, message=first), _alert(db, 0, sent=1, message=first)],
            decisions=[_sent(left, web, first, "problem"), _sent(left, db, first, "problem")],
            messages=[MessageRecord(first, OPS_KEY, "ops", Instant(left), 2, b"{}")],
        ),
    )
    _record(
        store,
        AlertBatch(
            alerts=[
                _alert(web, 1, sent=3, last_sent=left, is_known=True),
                _alert(db, 1, sent=1, last_sent=left, is_known=True),
            ],
            attempts=[MessageAttempt(first, 2, None, left + SECOND)],
            message_ends=[MessageEnd(first, left + 2 * SECOND, "delivered", "", "200 OK")],
        ),
    )
    seed_problem(store, "web", at=closed, is_open=False)
    over = AlertDecision(closed, web, BOSS_KEY, "boss", "suppressed", "over before it was sent", item="problem")
    later = closed + 30 * SECOND
    _record(
        store,
        AlertBatch(
            alerts=[
                _alert(web, 2, sent=3, last_sent=left, is_known=True, is_over=True, message=first + 1),
                AlertRecord(web, BOSS_KEY, "boss", 0, is_over=True),
            ],
            decisions=[over, _sent(later, web, first + 1, "recovery")],
            messages=[MessageRecord(first + 1, OPS_KEY, "ops", Instant(later), 1, b"{}")],
        ),
    )
    _record(store, AlertBatch(attempts=[MessageAttempt(first + 1, 3, NOW + MINUTE, None, "HTTP 500\nsorry", "500")]))
    return web, db


def _alert(problem: int, version: int, **known: object) -> AlertRecord:
    return AlertRecord(problem, OPS_KEY, "ops", version, **known)  # type: ignore[arg-type]


def _sent(at: int, problem: int, message: int, item: str) -> AlertDecision:
    return AlertDecision(at, problem, OPS_KEY, "ops", "sent", "", message, item)


def _record(store: Store, batch: AlertBatch) -> None:
    assert store.record_alerts(batch).result() == NONE_REFUSED
