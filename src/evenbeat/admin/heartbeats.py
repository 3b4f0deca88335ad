"""Heartbeat tokens: a sender that has the token of a passive check may submit its results, and nothing else."""

import hashlib
import secrets
from typing import Final

from evenbeat.admin.passive_settings import HEARTBEAT_TOKEN_PREFIX, heartbeat_tokens_of
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.model import Entry
from evenbeat.store.contract import Conflict, Store
from evenbeat.wire.replies import NotFound

_TOKEN_TEXT_PREFIX: Final = "evb_beat_"  # noqa: S105


def create_heartbeat_token(admin: TaskAdmin, name: str, who: str) -> str:
    """A new token for a passive check; its previous one is invalid. Only the digest is kept, so it is shown once."""
    token = _TOKEN_TEXT_PREFIX + secrets.token_urlsafe(24)
    with admin.locked():
        entry = _find_task(admin, name)
        if not entry.task.passive:
            raise not_passive(entry.task.name)
        before: dict[str, str | None] = dict.fromkeys(heartbeat_tokens_of(admin.store, {entry.id}))
        admin.store.set_settings(before | {HEARTBEAT_TOKEN_PREFIX + _token_digest(token): entry.id})
        admin.audit(entry.task.name, "heartbeat created", who)
    return token


def remove_heartbeat_token(admin: TaskAdmin, name: str, who: str) -> None:
    """Make the token of a check invalid."""
    with admin.locked():
        entry = _find_task(admin, name)
        found = heartbeat_tokens_of(admin.store, {entry.id})
        if not found:
            raise NotFound(f"{entry.task.name!r} has no heartbeat")
        admin.store.set_settings(dict.fromkeys(found))
        admin.audit(entry.task.name, "heartbeat removed", who)


def task_of_token(store: Store, token: str) -> str | None:
    """The id of the task that a token belongs to; None if the token is not valid."""
    return store.setting(HEARTBEAT_TOKEN_PREFIX + _token_digest(token))


def not_passive(name: str) -> Conflict:
    """The refusal of a heartbeat for a task that is no passive check."""
    return Conflict(f"{name!r} has something to run by itself: only passive checks have heartbeats")


def _find_task(admin: TaskAdmin, name: str) -> Entry:
    entry = admin.store.find(name)
    if entry is None:
        raise NotFound(f"there is no task {name!r}")
    return entry


def _token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
