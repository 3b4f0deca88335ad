"""Keys that affect only some kinds of tasks: where a key has no effect, it is refused instead of ignored."""

from collections.abc import Mapping
from typing import Any, Final

_CHECK_KEYS: Final = frozenset({"attempts", "retry"})
_REPETITION_KEYS: Final = frozenset({"tolerance", "backlog"})
_RUN_KEYS: Final = frozenset(
    {"limit", "pool", "priority", "weight", "missed", "catch_up", "retry", "env", "cwd", "user", *_REPETITION_KEYS}
)
CONDITIONAL_KEYS: Final = _CHECK_KEYS | _RUN_KEYS
"""All keys of that kind."""


def why_without_effect(key: str, table: Mapping[str, Any], *, check: bool) -> str:
    """Why a key of `CONDITIONAL` has no effect on the task of this table; empty if it has one."""
    passive = table.get("passive") is True
    if key in _RUN_KEYS and passive and "command" not in table and "function" not in table:
        return "a passive check without a command or function runs nothing"
    if key in _CHECK_KEYS and not (check or passive):
        return "it belongs to checks"
    if key == "catch_up" and table.get("missed") != "all":
        return 'it belongs to missed = "all"'
    if key in _REPETITION_KEYS and _runs_once(table):
        return "the task has no interval between runs"
    return ""


def _runs_once(table: Mapping[str, Any]) -> bool:
    """Is it due at one time, or at events of the node?"""
    cron = table.get("cron")
    return "at" in table or (isinstance(cron, str) and cron.strip() in ("@reboot", "@shutdown"))
