"""Objects of Icinga 2 as its API shows them, with as few attributes as an import needs."""

import json
from typing import Any

from evenbeat.load.config import Config
from evenbeat.load.importers.report import ImportResult
from evenbeat.model import Task


def tasks_of(config: Config) -> dict[str, Task]:
    return {task.name: task for task in config.tasks}


def reported(found: ImportResult) -> list[str]:
    return [*map(str, found.omissions), *map(str, found.warnings)]


def api(*objects: dict[str, Any]) -> str:
    """An answer of the API; the attributes of objects, with their types."""
    results = [{"name": one["__name"], "type": one["type"], "attrs": one} for one in objects]
    return json.dumps({"results": results})


def host(**more: Any) -> dict[str, Any]:
    return {"__name": "h", "type": "Host", "address": "192.0.2.1", "check_command": "c", "vars": {}, **more}


def service(**more: Any) -> dict[str, Any]:
    known = {"__name": "h!s", "name": "s", "type": "Service", "host_name": "h", "check_command": "c", "vars": {}}
    return {**known, **more}


def command(**more: Any) -> dict[str, Any]:
    execute = {"type": "Function", "name": "Internal#PluginCheck"}
    return {"__name": "c", "type": "CheckCommand", "command": ["c"], "execute": execute, **more}


def user(**more: Any) -> dict[str, Any]:
    return {"__name": "ana", "type": "User", "email": "ana@example.org", **more}


def notification(**more: Any) -> dict[str, Any]:
    known = {"__name": "h!n", "name": "n", "type": "Notification", "host_name": "h", "service_name": ""}
    return {**known, "command": "mail", "users": ["ana"], "interval": 0, **more}


def dependency(**more: Any) -> dict[str, Any]:
    known = {"__name": "h!d", "type": "Dependency", "child_host_name": "h", "parent_host_name": "gw"}
    return {**known, "child_service_name": "", "parent_service_name": "", **more}


MAIL = {"__name": "mail", "type": "NotificationCommand", "command": ["mail"], "env": {"TO": "$user.email$"}}
NIGHTS = {"__name": "nights", "type": "TimePeriod", "ranges": {"monday": "00:00-06:00"}}
GATEWAY = host(__name="gw")
