"""Converts a CheckCommand of Icinga 2, for one host or service, to the command of a check.

Arguments come in their order, each with its key, its value, both or neither, as `set_if`, `skip_key`, `repeat_key`,
`separator` and `required` say.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from evenbeat.load.importers.icinga_macros import MacroValues, Missing, Unresolved, is_function
from evenbeat.load.importers.icinga_objects import IcingaObject, as_text
from evenbeat.load.importers.secret_values import SECRET_GAP, SecretFiles

_PLUGIN: Final = ("Internal#PluginCheck", "Internal#PluginNotification", "")
_DUMMY: Final = "Internal#DummyCheck"
_NOT_IN_VARIABLES: Final = re.compile(r"\W", re.ASCII)
_REFERENCES: Final = ("env:", "file:")
_DUMMY_LINE: Final = 'printf "%s\\n" "$1"; exit "$2"'


class ConvertedCommand(NamedTuple):
    """The keys of a command, why it would not do what it did, and what else is to be known of it."""

    keys: dict[str, Any]
    doubts: list[str]
    notes: Sequence[str] = ()


def is_dummy(command: IcingaObject) -> bool:
    """Does it only say what its variables say? Checks with it are passive."""
    return _executor(command) == _DUMMY


def converted_command(command: IcingaObject, values: MacroValues, secrets: SecretFiles) -> ConvertedCommand:
    """The command of a check."""
    if is_dummy(command):
        return _dummy(values)
    if (executor := _executor(command)) not in _PLUGIN:
        return _nothing(f"the command {command.name!r} is a part of Icinga itself ({executor})")
    line = command.attributes.get("command")
    notes: list[str] = []
    try:
        if isinstance(line, str) and not command.table("arguments"):
            whole = values.resolved(line, _quoted)
            keys = _with_secrets(SECRET_GAP.sub(lambda m: f'"${{{_variable(m[1])}}}"', whole), whole, secrets)
        else:
            words = [values.text(word) for word in (line if isinstance(line, list) else [line])]
            if not words or not words[0]:
                return _nothing(f"the command {command.name!r} has no command line")
            words += _arguments(command, values, notes)
            keys = _of_words(words, secrets)
        if env := _environment(command, values, secrets, notes):
            keys["env"] = {**env, **keys.get("env", {})}
    except Missing as e:
        return _nothing(f"the command {command.name!r} needs {e}, which nothing defines")
    except Unresolved as e:
        return _nothing(f"the command {command.name!r} needs {e}")
    return ConvertedCommand(keys, [], notes)


def _nothing(doubt: str) -> ConvertedCommand:
    """A check that is disabled until it has a command."""
    return ConvertedCommand({"command": ["noop"]}, [doubt])


def _executor(command: IcingaObject) -> str:
    name = command.table("execute").get("name")
    return name if isinstance(name, str) else ""


def _dummy(values: MacroValues) -> ConvertedCommand:
    try:
        text, state = values.text("$dummy_text$"), values.text("$dummy_state$")
    except (Missing, Unresolved) as e:
        return _nothing(f"its dummy_state or dummy_text is {e}")
    return ConvertedCommand({"command": ["/bin/sh", "-c", _DUMMY_LINE, "dummy", text, state]}, [])


# Arguments


class _Argument(NamedTuple):
    """An argument that is given: its key, unless that is left out, and its values; None if it has no value."""

    order: float
    key: str
    values: list[str] | None
    repeats: bool
    separator: str

    def words(self) -> Iterator[str]:
        if self.values is None:
            yield self.key
        for i, value in enumerate(self.values or ()):
            has_key = self.key and (self.repeats or i == 0)
            if has_key and self.separator:
                yield f"{self.key}{self.separator}{value}"
                continue
            if has_key:
                yield self.key
            yield value


def _arguments(command: IcingaObject, values: MacroValues, notes: list[str]) -> list[str]:
    given = [_argument(command, key, said, values, notes) for key, said in sorted(command.table("arguments").items())]
    ordered = sorted((one for one in given if one is not None), key=lambda one: one.order)
    return [word for one in ordered for word in one.words() if word is not None]


def _argument(command: IcingaObject, key: str, said: Any, values: MacroValues, notes: list[str]) -> _Argument | None:
    known = _KNOWN_FUNCTIONS.get((command.name, key))
    if known is not None and (is_function(said) or is_function(said.get("set_if") if isinstance(said, dict) else None)):
        found = known(values)
        return None if found is None else _Argument(0, key, [found] if found else None, repeats=True, separator="")
    if is_function(said) or not isinstance(said, dict):
        said = {"value": said}
    if "set_if" in said and not _is_given(command, key, said, values, notes):
        return None
    value = None
    if said.get("value") is not None:
        try:
            value = values.resolved(said["value"])
        except Missing as e:
            if said.get("required") is True:
                raise Missing(f"{e} for its argument {key}") from None
            return None
        except Unresolved as e:
            raise Unresolved(f"{e}, for its argument {key}") from None
    if isinstance(value, dict):
        raise Unresolved(f"a dictionary for its argument {key}")
    texts = None if value is None else [*map(as_text, value)] if isinstance(value, list) else [as_text(value)]
    if texts is not None:
        texts = [values.secret(key.strip("-").replace("-", "_"), text) for text in texts]
    name = said.get("key") if isinstance(said.get("key"), str) else key
    shown = "" if said.get("skip_key") is True else str(name)
    if texts is None and not shown:
        return None
    order = said.get("order")
    return _Argument(
        float(order) if isinstance(order, int | float) else 0,
        shown,
        texts,
        said.get("repeat_key") is not False,
        said["separator"] if isinstance(said.get("separator"), str) else "",
    )


def _is_given(command: IcingaObject, key: str, said: dict[str, Any], values: MacroValues, notes: list[str]) -> bool:
    if not is_function(said["set_if"]):
        return values.flag(said["set_if"])
    if said.get("value") is None:
        notes.append(f"the command {command.name!r}: argument {key} is not given: a function (set_if) decides on it")
        return False
    notes.append(
        f"the command {command.name!r}: argument {key} is given if it has a value: a function (set_if) decides on it"
    )
    return True


def _of_swap(name: str) -> Callable[[MacroValues], str | None]:
    return lambda values: values.text(f"${name}$" if values.flag("$swap_integer$") else f"${name}$%")


def _of_ssl(values: MacroValues) -> str | None:
    found = []
    for name in ("$ssl_cert_valid_days_warn$", "$ssl_cert_valid_days_critical$"):
        try:
            found.append(values.text(name))
        except Missing:
            break
    return ",".join(found) or None


def _of_mysql(values: MacroValues) -> str | None:
    try:
        return None if values.flag("$mysql_socket$") else values.text("$mysql_hostname$")
    except Unresolved:
        return None  # the path of a socket


_KNOWN_FUNCTIONS: Final[dict[tuple[str, str], Callable[[MacroValues], str | None]]] = {
    ("swap", "-w"): _of_swap("swap_wfree"),
    ("swap", "-c"): _of_swap("swap_cfree"),
    ("ssl", "-D"): _of_ssl,
    ("mysql", "-H"): _of_mysql,
}
"""What functions of Icinga's own library do: the value of an argument, or None if it is not given."""


# Words


def _quoted(text: str) -> str:
    """A value in a line for a shell; secrets are put in later."""
    return text if SECRET_GAP.fullmatch(text) else shlex.quote(text)


def _variable(file: str) -> str:
    name = _NOT_IN_VARIABLES.sub("_", file).upper()
    return f"_{name}" if name[:1].isdigit() else name


def _of_words(words: list[str], secrets: SecretFiles) -> dict[str, Any]:
    whole = "\n".join(words)
    if not SECRET_GAP.search(whole):
        return {"command": words}
    line = " ".join(_shell_word(word) for word in words)
    return _with_secrets(line, whole, secrets)


def _shell_word(word: str) -> str:
    """A word in a line for a shell; what is secret in it is a variable."""
    parts = SECRET_GAP.split(word)
    return "".join(
        f'"${{{_variable(part)}}}"' if i % 2 else shlex.quote(part) if part or len(parts) == 1 else ""
        for i, part in enumerate(parts)
    )


def _with_secrets(line: str, whole: str, secrets: SecretFiles) -> dict[str, Any]:
    files = dict.fromkeys(SECRET_GAP.findall(whole))
    env = {"env": {_variable(file): secrets.reference(file) for file in files}} if files else {}
    return {"command": line, "shell": True, **env}


def _environment(command: IcingaObject, values: MacroValues, secrets: SecretFiles, notes: list[str]) -> dict[str, str]:
    found = {}
    for name, said in command.table("env").items():
        try:
            text = values.secret(name, values.text(said))
        except Missing:
            continue
        if secret := SECRET_GAP.fullmatch(text):
            found[name] = secrets.reference(secret[1])
        elif SECRET_GAP.search(text) or text.startswith(_REFERENCES):
            notes.append(
                f"the command {command.name!r}: the variable {name} is not set: it would be read as a reference"
            )
        else:
            found[name] = text
    return found
