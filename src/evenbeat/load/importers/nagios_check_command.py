"""Converts the check_command of a host or service to the command of a check: macros become values, or gaps for those
of a host; what is secret becomes a variable that is read from a file.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from evenbeat.load.importers.nagios_command import SHELL_CHARACTERS, fill_by_quotes
from evenbeat.load.importers.nagios_objects import NagiosObject, NagiosObjects
from evenbeat.load.importers.secret_values import SECRET_GAP, SecretFiles, secret_gap, sounds_secret
from evenbeat.load.placeholders import fill_host_variables, host_variable

_MACRO: Final = re.compile(r"\$([\w:@.-]*)\$")
_FOLDER: Final = re.compile(r"/[\w./+-]*")
_NOT_IN_VARIABLES: Final = re.compile(r"\W", re.ASCII)
_OF_HOST: Final = {
    "HOSTNAME": "host",
    "HOSTADDRESS": "host.address",
    "HOSTALIAS": "host.alias",
    "HOSTDISPLAYNAME": "host.display_name",
}
_DIRECTIVE_OF: Final = {"HOSTADDRESS": "address", "HOSTALIAS": "alias", "HOSTDISPLAYNAME": "display_name"}


class _OwnNames(dict[str, str]):
    """Fills each gap with its own name."""

    def __missing__(self, key: str) -> str:
        return key.replace("._", "_")


class CheckCommands:
    """The commands of some files, and the values of macros."""

    def __init__(
        self,
        objects: NagiosObjects,
        commands: Mapping[str, str],
        hosts: Mapping[str, NagiosObject],
        secrets: SecretFiles,
    ) -> None:
        self.used: set[str] = set()
        """The commands that checks run."""
        self._commands = commands
        self._hosts = hosts
        self._secrets = secrets
        self._values = {name.strip("$"): value.text for name, value in objects.settings.items() if name[0] == "$"}
        self._several: set[str] = set()
        """Files of secrets that hold several words, as `-u monitor -p ...`."""
        self._plain = {name for name, value in self._values.items() if self._is_folder(name, value)}

    def _is_folder(self, name: str, value: str) -> bool:
        """Is it a folder of programs or files, and not a secret? Then all that uses it adds the rest of a path."""
        if not _FOLDER.fullmatch(value):
            return False
        uses = [found for line in self._commands.values() for found in re.finditer(rf"(.?)\${name}\$(.?)", line)]
        return bool(uses) and all(use[1] in ("", " ", "=", "'", '"') and use[2] == "/" for use in uses)

    def macros_of_contacts(self) -> dict[str, str]:
        """The values of $USERn$, with gaps for those that are secret."""
        return {
            name: value if name in self._plain else self._secret(name, value) for name, value in self._values.items()
        }

    def with_secrets_read(self, line: str) -> str:
        """A line of a command that reads its secrets from their files: contacts have no variables of their own."""
        return self._filled(line, lambda file: f"$(cat {shlex.quote(self._secrets.path(file))})")

    def _filled(self, line: str, reference: Callable[[str], str]) -> str:
        """A line with references to its secrets: each is one word, unless it holds several and stands by itself."""

        def fill(gap: "re.Match[str]", quote: str) -> str:
            text = reference(gap[1])
            if quote == "":
                return text if gap[1] in self._several else f'"{text}"'
            return text if quote == '"' else f"'\"{text}\"'"

        return fill_by_quotes(line, SECRET_GAP, fill)

    def keys_for(self, one: NagiosObject, service: str) -> tuple[dict[str, Any], list[str]]:
        """The keys of the command of a host or service, and why it would not do what it did."""
        name, *args = (p.replace("\\!", "!") for p in re.split(r"(?<!\\)!", one.get("check_command")))
        name = name.strip()
        if name not in self._commands:
            # A check that is disabled until it has one.
            whole = f" of check_command {one.get('check_command')[:128]!r}" if args else ""
            return {"command": ["noop"]}, [f"the command {name[:64]!r}{whole} is not defined in these files"]
        self.used.add(name)
        unknown: list[str] = []

        def value(macro: "re.Match[str]") -> str:
            found = self._macro(macro[1], one, service)
            if found is None:
                unknown.append(macro[0])
            return macro[0] if found is None else found

        # Arguments have macros of their own.
        line = _MACRO.sub(lambda m: args[int(m[1][3:]) - 1] if _is_given(m[1], args) else m[0], self._commands[name])
        line = _MACRO.sub(value, line).strip()
        doubts = [f"nothing is known of {', '.join(dict.fromkeys(unknown))}"] if unknown else []
        if not line:
            return {"command": ["noop"]}, [*doubts, f"the command {name[:64]!r} is empty"]
        return self._keys_of_line(line), doubts

    def _keys_of_line(self, line: str) -> dict[str, Any]:
        if secrets := dict.fromkeys(SECRET_GAP.findall(line)):
            env = {self._variable(file): self._secrets.reference(file) for file in secrets}
            command = self._filled(line, lambda file: f"${{{self._variable(file)}}}")
            return {"command": command, "shell": True, "env": env}
        words = _words(line)
        plain = fill_host_variables(line, defaultdict(lambda: "x"))
        return {"command": words} if words and not SHELL_CHARACTERS.search(plain) else {"command": line, "shell": True}

    @staticmethod
    def _variable(file: str) -> str:
        name = _NOT_IN_VARIABLES.sub("_", fill_host_variables(file, _OwnNames())).upper()
        return f"_{name}" if name[:1].isdigit() else name

    def _macro(self, name: str, one: NagiosObject, service: str) -> str | None:
        """The value of a macro; None if it is unknown."""
        if re.fullmatch(r"ARG[1-9]\d?", name):
            return ""  # one that the check does not give
        if name == "":
            return "$"
        if name in self._values:
            return self._values[name] if name in self._plain else self._secret(name, self._values[name])
        custom = f"_{'SERVICE' if service else 'HOST'}"
        if name.startswith(custom):
            variable, text = name[len(custom) :], custom_variable(one, name[len(custom) :])
            if service and text is not None:
                return self._secret(f"{service}-{variable}", text) if sounds_secret(variable, text) else text
        if name.startswith("_HOST"):
            return self._of_host(name[5:].lower())
        if name in _OF_HOST:
            return host_variable(_OF_HOST[name])
        what, colon, other = name.partition(":")
        if colon and what in _DIRECTIVE_OF and other in self._hosts:
            return self._hosts[other].get(_DIRECTIVE_OF[what]) or other
        return {"SERVICEDESC": service, "SERVICEDISPLAYNAME": one.get("display_name") or service}.get(name)

    @staticmethod
    def _of_host(variable: str) -> str:
        gap = host_variable(f"host._{variable}")
        return secret_gap(gap) if sounds_secret(variable) else gap

    def _secret(self, name: str, text: str) -> str:
        if not text:
            return ""
        file = self._secrets.add(name, _unquoted(text))
        if len(_words(text)) > 1:
            self._several.add(file)
        return secret_gap(file)

    def host_secret(self, host: str, variable: str) -> str:
        """The name of the file that holds a custom variable of a host, which is secret."""
        return self._secrets.add(f"{host}-{variable}", _unquoted(custom_variable(self._hosts[host], variable) or ""))


def custom_variable(one: NagiosObject, name: str) -> str | None:
    """The value of a custom variable, whose name has no case."""
    values = {key.upper(): value.text for key, value in one.values.items() if key.startswith("_")}
    return values.get(f"_{name.upper()}")


def _is_given(name: str, args: Sequence[str]) -> bool:
    return re.fullmatch(r"ARG[1-9]\d?", name) is not None and int(name[3:]) <= len(args)


def _unquoted(text: str) -> str:
    """A value as a shell would have read it, if it is one word: the variable that holds it is not read by a shell."""
    words = _words(text)
    return words[0] if len(words) == 1 else text


def _words(text: str) -> list[str]:
    """The words that a shell makes of a text; none if it has unfinished quotes."""
    try:
        return shlex.split(text)
    except ValueError:
        return []
