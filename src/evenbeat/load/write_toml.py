"""Writes TOML that reads back unchanged: the output of the importers."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from evenbeat.load.config import NODE_DURATIONS, Config
from evenbeat.load.contacts import contact_to_table, notify_to_list
from evenbeat.load.downtimes import downtime_table
from evenbeat.load.safe_text import UNSAFE_CHARACTERS, safe_json
from evenbeat.load.task_tables import task_to_table
from evenbeat.model import Invalid, Period
from evenbeat.when.duration import format_duration

ConfigDocument = dict[str, dict[str, Any]]
"""Sections; the values of all but node, defaults and limits are tables by name, those of downtimes by any key."""


_SECTIONS_WITHOUT_NAMES: Final = ("node", "defaults", "limits")
_SHARED_KEYS: Final = ("zone", "hash", "days", "second", "env", "notify", "repeat", "gather")
"""Keys that imported tasks often share: written once, in [defaults]."""
_CRON_KEYS: Final = ("hash", "days", "second")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL: Final = re.compile(f"(?![\t\n])[{UNSAFE_CHARACTERS}]")


def write_config(config: Config, comments: Sequence[str] = ()) -> str:
    """A text that `parse_toml` reads as this same config; raise Invalid if TOML cannot express it."""
    return write_document(config_document(config), comments)


def config_document(config: Config) -> ConfigDocument:
    """The sections of a config, as a file would have them."""
    node: dict[str, Any] = {} if config.node is None else msgspec.to_builtins(config.node)
    for key in NODE_DURATIONS.keys() & node.keys():
        node[key] = format_duration(node[key])
    if config.node is not None and config.node.notify is not None:
        node["notify"] = notify_to_list(config.node.notify)
    checks = {task.name: task_to_table(task) for task in config.tasks if task.check}
    tasks = {task.name: task_to_table(task) for task in config.tasks if not task.check}
    periods: dict[str, Any] = {name: period_table(period) for name, period in config.periods.items()}
    defaults = _extract_defaults([*checks.values(), *tasks.values()], periods.values())
    contacts: dict[str, Any] = {name: contact_to_table(contact) for name, contact in config.contacts.items()}
    sections: ConfigDocument = {"defaults": defaults, "limits": dict(config.limits), "periods": periods}
    sections |= {"contacts": contacts} if contacts else {}
    if config.downtimes:
        sections["downtimes"] = {str(i): downtime_table(downtime) for i, downtime in enumerate(config.downtimes)}
    return {**({} if config.node is None else {"node": node}), **sections, "checks": checks, "tasks": tasks}


def period_table(period: Period) -> dict[str, Any]:
    """The keys of a period."""
    table: dict[str, Any] = msgspec.to_builtins(period)
    return table


def _extract_defaults(tables: Sequence[dict[str, Any]], periods: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Move keys that all tables share into the defaults."""
    defaults = {}
    for key in _SHARED_KEYS:
        having = [t for t in tables if key not in _CRON_KEYS or "cron" in t]
        value = having[0].get(key) if len(having) > 1 else None
        if value is not None and all(table.get(key) == value for table in having):
            defaults[key] = value
            for table in having:
                del table[key]
    if "zone" in defaults:
        for period in periods:
            if period.setdefault("zone", "UTC") == defaults["zone"]:
                del period["zone"]
    return defaults


def write_document(document: ConfigDocument, comments: Sequence[str] = ()) -> str:
    """The text of a document, with comments at its head."""
    blocks = ["".join(f"# {_printable(line)}\n" for comment in comments for line in comment.splitlines())]
    for section, tables in document.items():
        if section in _SECTIONS_WITHOUT_NAMES:
            if tables or section == "node":
                blocks.append(f"[{section}]\n{_lines(tables)}")
            continue
        if section == "downtimes":
            blocks += [f"[[{section}]]\n{_lines(table)}" for table in tables.values()]
            continue
        blocks += [f"[{section}.{_key(name)}]\n{_lines(table)}" for name, table in tables.items()]
    return "\n".join(filter(None, blocks))


def _lines(table: Mapping[str, Any]) -> str:
    lines = []
    for key, value in table.items():
        if key == "for" and isinstance(value, dict) and value:  # one line for each of its keys
            lines += [f"for.{_key(k)} = {_value(v)}\n" for k, v in value.items()]
        else:
            lines.append(f"{_key(key)} = {_value(value)}\n")
    return "".join(lines)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        readable = "\n" in value and "'''" not in value and not value.endswith("'") and not _CONTROL.search(value)
        return f"'''\n{value}'''" if readable else _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())} }}" if value else "{}"
    raise Invalid(f"{value!r} cannot be expressed in TOML")


def _text(text: str) -> str:
    return safe_json(json.dumps(text, ensure_ascii=False))


def _printable(text: str) -> str:
    return _CONTROL.sub("?", text)
