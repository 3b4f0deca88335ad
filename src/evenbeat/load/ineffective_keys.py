"""Keys that affect only some kinds of tasks: where a key has no effect, it is refused instead of ignored."""

from collections.abc import Mapping
from typing import Any, Final

_CHECK_KEYS: Final = frozenset({"attempts", "retry"})
_RETRY_KEYS: Final = frozenset({"retries", "backoff", "backoff_max", "retry_on"})
_REPETITION_KEYS: Final = frozenset({"tolerance", "backlog"})
_RUN_KEYS: Final = frozenset(
    {"limit", "pool", "priority", "weight", "missed", "catch_up", "retry", "env", "cwd", "user", *_REPETITION_KEYS}
    | {"when_unreachable", "output_keep"}
)
_NOTIFY_KEYS: Final = frozenset({"repeat", "gather"})
CONDITIONAL_KEYS: Final = _CHECK_KEYS | _RETRY_KEYS | _RUN_KEYS | _NOTIFY_KEYS | {"timebox"}
"""All keys of that kind."""


def why_without_effect(key: str, table: Mapping[str, Any], *, check: bool) -> str:
    """Why a key of `CONDITIONAL` has no effect on the task of this table; empty if it has one."""
    passive = table.get("passive") is True
    if key in _RUN_KEYS and passive and "command" not in table and "function" not in table:
        return "a passive check without a command or function runs nothing"
    if key in _CHECK_KEYS and not (check or passive):
        return "it belongs to checks; a task that tries again after a failure has `retries` and `backoff`"
    if key in _RETRY_KEYS and (why := _why_no_retries(key, table, is_check=check or passive)):
        return why
    if key == "catch_up" and (table.get("missed") != "all" or _runs_after_others(table)):
        return 'it belongs to missed = "all"'
    if key == "when_unreachable" and not (table.get("depends") or table.get("depends_any")):
        return "the task depends on nothing"
    if key == "missed" and table["missed"] == "all" and _runs_after_others(table):
        return "the task has no times of its own that it could miss: it runs after others"
    if key in _REPETITION_KEYS and _runs_once(table):
        return "the task has no interval between runs"
    if key in _NOTIFY_KEYS and not table.get("notify"):
        return "nobody is notified: there is no `notify`"
    if key == "timebox":
        return _why_no_such_timebox(table, is_check=check or passive, is_passive=passive)
    return ""


def _why_no_retries(key: str, table: Mapping[str, Any], *, is_check: bool) -> str:
    if is_check:
        return "it belongs to tasks; a check has `retry` and `attempts`"
    if _cron_text(table) == "@shutdown":
        return "a run at the stop of the node cannot be tried again"
    if key != "retries" and not table.get("retries"):
        return "the task does not try again: there is no `retries`"
    causes = table.get("retry_on")
    if (
        key == "retry_on"
        and "command" in table
        and isinstance(causes, list | tuple)
        and not any(type(c) is int for c in causes)
    ):
        return "a command ends with an exit code, only functions raise exceptions"
    return ""


def _why_no_such_timebox(table: Mapping[str, Any], *, is_check: bool, is_passive: bool) -> str:
    timebox = table.get("timebox")
    if timebox in (0, "none"):
        return "a check has a timebox, say how long" if is_check else ""
    if (isinstance(timebox, int) and timebox < 0) or (isinstance(timebox, str) and "%" in timebox):
        if is_passive:
            return "a passive check has no runs of which it could be a share, say how long"
        if _runs_once(table):
            return "the task has no interval between runs of which it could be a share"
    return ""


def _runs_after_others(table: Mapping[str, Any]) -> bool:
    return bool(table.get("after") or table.get("after_failure"))


def _runs_once(table: Mapping[str, Any]) -> bool:
    """Is it due at one time, at events of the node, or after others?"""
    return "at" in table or _runs_after_others(table) or _cron_text(table) in ("@reboot", "@shutdown")


def _cron_text(table: Mapping[str, Any]) -> str:
    cron = table.get("cron")
    return cron.strip() if isinstance(cron, str) else ""
