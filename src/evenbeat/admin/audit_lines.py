"""Lines of the audit about applied files, and about the limits and node settings that they change."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from evenbeat.admin.cross_check import LIMITS_PREFIX, NODE_PREFIX
from evenbeat.admin.file_owner import file_of_owner
from evenbeat.model import Instant
from evenbeat.store.contract import Change, FieldChange

if TYPE_CHECKING:
    from evenbeat.wire.replies import ChangeResult


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
    """Lines for the limits and node settings that an owner has changed."""
    return [
        change
        for key in after
        for change in _audit_of_setting(key, _decode_setting(before[key]), _decode_setting(after[key]), now, who)
    ]


def _audit_of_setting(
    key: str, before: Mapping[str, Any], after: Mapping[str, Any], now: Instant, who: str
) -> Iterator[Change]:
    fields = [FieldChange(k, before.get(k), after.get(k)) for k in {**before, **after} if before.get(k) != after.get(k)]
    if key.startswith(NODE_PREFIX) and fields:
        yield Change(now, who, "changed", "node", f"by {_owner_text(key.removeprefix(NODE_PREFIX))}", tuple(fields))
    elif key.startswith(LIMITS_PREFIX):
        for name, old, new in fields:
            action = "created" if old is None else "removed" if new is None else "changed"
            detail = f"by {_owner_text(key.removeprefix(LIMITS_PREFIX))}"
            yield Change(now, who, action, f"limit {name}", detail, (FieldChange("most", old, new),))


def _owner_text(owner: str) -> str:
    return file_of_owner(owner) or owner


def _decode_setting(text: str | None) -> dict[str, Any]:
    found = msgspec.json.decode(text) if text is not None and text.startswith("{") else {}
    return found if isinstance(found, dict) else {}
