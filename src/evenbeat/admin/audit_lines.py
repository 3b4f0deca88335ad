"""Lines of the audit about applied files, and about the limits and node settings that they change."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from evenbeat.admin.contacts import CONTACTS_PREFIX
from evenbeat.admin.stored_downtimes import DOWNTIMES_PREFIX, decode_downtimes
from evenbeat.admin.stored_references import LIMITS_PREFIX, NODE_PREFIX
from evenbeat.admin.tasks_of_files import file_of_owner
from evenbeat.core.channels import shown_url
from evenbeat.model import Instant
from evenbeat.report.downtime_words import downtime_sentence
from evenbeat.store.contract import Change, FieldChange

if TYPE_CHECKING:
    from evenbeat.wire.replies import ChangeResult

_URL_KEYS: Final = ("send", "webhook", "smtp", "ping")
"""Keys of contacts and of [node] whose values may have passwords and tokens in them."""


def audit_of_apply(owners: Collection[str], done: "ChangeResult", now: Instant, who: str) -> Change | None:
    """A line for applied files or owners, with the numbers of tasks; None if nothing changed."""
    numbers = {"created": len(done.created), "changed": len(done.changed), "removed": len(done.removed)}
    if not any(numbers.values()) and not done.settings:
        return None
    numbers["unchanged"] = done.unchanged
    detail = ", ".join(f"{number:,} {word}" for word, number in numbers.items())
    return Change(now, who, "applied", ", ".join(map(_owner_text, owners))[:1_000], detail)


def audit_of_settings(
    before: Mapping[str, str | None], after: Mapping[str, str | None], now: Instant, who: str
) -> list[Change]:
    """Lines for the limits, contacts, downtimes and node settings that an owner has changed."""
    downtimes = [
        change
        for key in after
        if key.startswith(DOWNTIMES_PREFIX)
        for change in _audit_of_downtimes(key.removeprefix(DOWNTIMES_PREFIX), before[key], after[key], now, who)
    ]
    return downtimes + [
        change
        for key in after
        for change in _audit_of_setting(key, _decode_setting(before[key]), _decode_setting(after[key]), now, who)
    ]


def _audit_of_setting(
    key: str, before: Mapping[str, Any], after: Mapping[str, Any], now: Instant, who: str
) -> Iterator[Change]:
    fields = [FieldChange(k, before.get(k), after.get(k)) for k in {**before, **after} if before.get(k) != after.get(k)]
    if key.startswith(CONTACTS_PREFIX):
        owner = _owner_text(key.removeprefix(CONTACTS_PREFIX))
        yield from (_audit_of_contact(field, owner, now, who) for field in fields)
    elif key.startswith(NODE_PREFIX) and fields:
        fields = [_without_secrets(field) for field in fields]
        yield Change(now, who, "changed", "node", f"by {_owner_text(key.removeprefix(NODE_PREFIX))}", tuple(fields))
    elif key.startswith(LIMITS_PREFIX):
        for name, old, new in fields:
            action = "created" if old is None else "removed" if new is None else "changed"
            detail = f"by {_owner_text(key.removeprefix(LIMITS_PREFIX))}"
            yield Change(now, who, action, f"limit {name}", detail, (FieldChange("most", old, new),))


def _audit_of_contact(changed: FieldChange, owner: str, now: Instant, who: str) -> Change:
    name, old, new = changed
    before, after = old or {}, new or {}
    action = "created" if old is None else "removed" if new is None else "changed"
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    fields = (_without_secrets(FieldChange(key, before.get(key), after.get(key))) for key in keys)
    return Change(now, who, action, f"contact {name}", f"by {owner}", tuple(fields))


def _without_secrets(field: FieldChange) -> FieldChange:
    """URLs without what may be secret in them. So a change may show the same place twice."""
    if field.key not in _URL_KEYS:
        return field
    return FieldChange(field.key, _shown_place(field.old), _shown_place(field.new))


def _shown_place(value: Any) -> Any:
    if isinstance(value, list):
        return [shown_url(url) for url in value]
    return shown_url(value) if isinstance(value, str) else value


def _audit_of_downtimes(owner: str, before: str | None, after: str | None, now: Instant, who: str) -> Iterator[Change]:
    old, new = ({one.id: one for one in decode_downtimes(text)} for text in (before, after))
    for action, ones, others in (("created", new, old), ("removed", old, new)):
        for id_, downtime in ones.items():
            if id_ not in others:
                detail = f"by {_owner_text(owner)}: {downtime_sentence(downtime)}"
                yield Change(now, who, action, f"downtime {id_}", detail)


def _owner_text(owner: str) -> str:
    return file_of_owner(owner) or owner


def _decode_setting(text: str | None) -> dict[str, Any]:
    found = msgspec.json.decode(text) if text is not None and text.startswith("{") else {}
    return found if isinstance(found, dict) else {}
