"""Values of Icinga 2's macros for one check: `$address$`, `$host.vars.rack$`, and custom variables that name others."""

import re
from collections.abc import Callable
from typing import Any, Final

from evenbeat.load.importers.icinga_objects import IcingaObject, as_text
from evenbeat.load.importers.secret_values import SECRET_GAP, SecretFiles, secret_gap, sounds_secret
from evenbeat.load.placeholders import host_variable

MACRO: Final = re.compile(r"\$([^$\s]*)\$")
_HOST_ATTRIBUTES: Final = ("address", "address6", "display_name")
"""Attributes of hosts that checks of many hosts differ by."""
_PLAIN: Final = re.compile(r"[\w.:%-]+")
"""Values that no shell reads as something else."""
_RUNTIME: Final = re.compile(
    r"(last_)?(hard_)?state(_id|_type|_change)?|(last|next)_check|(long_)?output|perfdata|duration_sec|check_attempt"
    r"|problem|acknowledgement|downtime_depth|latency|execution_time|num_services\w*|check_source|scheduling_source"
)
_MAX_DEPTH: Final = 15


class Missing(Exception):
    """Nothing has a value for a macro."""


class Unresolved(Exception):
    """A value that only Icinga itself can compute."""


class MacroValues:
    """The macros of a check: of its service, its host and its command, in this order."""

    def __init__(
        self, host: IcingaObject, service: IcingaObject | None, command: IcingaObject, secrets: SecretFiles
    ) -> None:
        self._host = host
        self._secrets = secrets
        self._objects = {**({} if service is None else {"service": service}), "host": host, "command": command}
        self.uses_gaps = True
        """Attributes of the host are gaps, that checks of many hosts may be alike."""

    def resolved(self, value: Any, escape: Callable[[str], str] = str, depth: int = 0) -> Any:
        """A value with those of its macros; raise Missing or Unresolved. A text that is nothing but a macro becomes
        whatever value that has; `escape` is for texts within others.
        """
        if is_function(value):
            raise Unresolved("a function")
        if isinstance(value, list):
            return [as_text(self.resolved(one, depth=depth + 1)) for one in value]
        if not isinstance(value, str):
            return value
        whole = MACRO.fullmatch(value)
        if whole and whole[1] and escape is str:
            return self._value(whole[1], depth)
        return MACRO.sub(lambda m: escape(as_text(self._value(m[1], depth))) if m[1] else "$", value)

    def text(self, value: Any) -> str:
        """The same as a text."""
        return as_text(self.resolved(value))

    def _value(self, name: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise Unresolved(f"${name}$ stands for itself")
        which, dot, rest = name.partition(".")
        for kind, one in self._objects.items():
            if dot and kind != which:
                continue
            variables = one.table("vars")
            if not dot and name in variables:
                return self._variable(name, variables[name], depth)
            found = self._attribute(kind, one, rest if dot else name, depth)
            if found is not None:
                return found
        raise Missing(f"${name}$")

    def _variable(self, name: str, value: Any, depth: int) -> Any:
        if is_function(value):
            return self._of_function(name, depth)
        found = self.resolved(value, depth=depth + 1)
        is_text = isinstance(found, str | int | float) and not isinstance(found, bool)
        return self.secret(name, as_text(found)) if is_text and sounds_secret(name, as_text(found)) else found

    def secret(self, name: str, text: str) -> str:
        """A text, or a gap for it if it sounds secret; a text that has such a gap already stays as it is."""
        is_secret = text and sounds_secret(name, text) and not SECRET_GAP.search(text)
        return secret_gap(self._secrets.add(name, text)) if is_secret else text

    def _attribute(self, kind: str, one: IcingaObject, path: str, depth: int) -> Any:
        first, _, rest = path.partition(".")
        if first == "vars":
            value: Any = one.table("vars")
            keys = rest.split(".")
            for key in keys:
                if not isinstance(value, dict) or key not in value:
                    return None
                value = value[key]
            return self._variable(keys[-1], value, depth)
        if kind == "host" and path == "name":
            return host_variable("host") if self.uses_gaps and _PLAIN.fullmatch(one.name) else one.name
        if _RUNTIME.fullmatch(path):
            raise Unresolved(f"${kind}.{path}$, which is known when it runs")
        value = one.attributes.get(path)
        if kind == "host" and path in _HOST_ATTRIBUTES and isinstance(value, str) and self.uses_gaps:
            return host_variable(f"host.{path}") if _PLAIN.fullmatch(value) else value
        if path in ("notes", "notes_url", "action_url"):
            return self.resolved(value, depth=depth + 1)
        return value if isinstance(value, str | int | float | list) else None

    def _of_function(self, name: str, depth: int) -> Any:
        """What the functions do that Icinga's own library has in variables."""
        address, address6 = self._host.text("address"), self._host.text("address6")
        if name == "check_address":
            is_4 = (address and not self._is_set("check_ipv6")) or self._is_set("check_ipv4")
            return self._attribute("host", self._host, "address" if is_4 else "address6", depth) or ""
        if name == "snmp_address":
            return self._attribute("host", self._host, "address", depth) if address else f"udp6:[{address6}]"
        raise Unresolved(f"${name}$, which is a function")

    def _is_set(self, name: str) -> bool:
        return self.flag(f"${name}$")

    def flag(self, value: Any) -> bool:
        """Is a condition met? Icinga takes what is neither true nor false nor a number as not met."""
        try:
            found = self.resolved(value)
        except Missing:
            return False
        if found == "true":
            return True
        try:
            return float(as_text(found)) != 0 if not isinstance(found, bool) else found
        except ValueError:
            return False


def is_function(value: Any) -> bool:
    """Is it a function of Icinga's language? What it does stands in no output of Icinga."""
    return isinstance(value, dict) and value.get("type") == "Function"
