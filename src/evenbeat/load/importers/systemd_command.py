"""Converts `Exec...=` lines of a service: words, quotes, specifiers and variables as systemd reads them."""

import re
import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

from evenbeat.model import Invalid

_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "} | {
    sign: sign for sign in "\\\"'"
}
_NUMERIC: Final = re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_SPECIFIER: Final = re.compile(r"%(.)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}", re.ASCII)
_WHOLE_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)
_HOME: Final = "\ue000"
"""Stands in a word for the home folder, which is known when the run starts."""
_PREFIXES: Final = "@-:+!|"
_FOLDERS: Final = {"t": "/run", "S": "/var/lib", "C": "/var/cache", "L": "/var/log", "E": "/etc"} | {
    "T": "/tmp",  # noqa: S108 - what systemd fills in
    "V": "/var/tmp",  # noqa: S108
}
_CONTROL_CODES: Final = range(1, 0x110000)


class ServiceCommand(NamedTuple):
    """One command of a service."""

    words: tuple[str, ...]
    """Words without variables; empty if only a shell can say it."""
    line: str
    """The command for a shell."""
    prefixes: str
    """The signs before it: `-`, `@`, `+`..."""


def unit_specifiers(stem: str, kind: str, file: str, user: str | None) -> dict[str, str]:
    """What the specifiers of a unit mean that do not depend on the machine."""
    prefix, _, instance = stem.partition("@")
    last = prefix.rpartition("-")[2]
    found = {
        "n": f"{stem}.{kind}",
        "N": stem,
        "p": prefix,
        "P": _unescaped(prefix),
        "i": instance,
        "I": _unescaped(instance),
        "j": last,
        "J": _unescaped(last),
        "f": f"/{_unescaped(instance or prefix).lstrip('/')}",
        "y": file,
        "Y": file.rpartition("/")[0],
        "h": _HOME,
        "%": "%",
        **_FOLDERS,
    }
    return found | ({"u": user} if user else {})


def fill_specifiers(text: str, specifiers: Mapping[str, str]) -> str:
    """The text with its specifiers filled in; raise Invalid for those that only the machine knows."""

    def value(found: "re.Match[str]") -> str:
        if found[1] not in specifiers:
            raise Invalid(f"{found[0]} is not known here")
        return specifiers[found[1]]

    return _SPECIFIER.sub(value, text)


def plain_text(text: str, specifiers: Mapping[str, str]) -> str:
    """A text for which no shell is asked, so that it cannot have the home folder in it."""
    filled = fill_specifiers(text, specifiers)
    if _HOME in filled:
        raise Invalid("%h is not known here")
    return filled


def split_words(text: str) -> list[str]:
    """Words as systemd splits them: quotes and C escapes; raise Invalid for a quote without an end."""
    words: list[str] = []
    word: list[str] | None = None
    quote, at = "", 0
    while at < len(text):
        sign = text[at]
        at += 1
        if sign == "\\":
            word = [] if word is None else word
            piece, at = _escape(text, at)
            word.append(piece)
        elif quote:
            if sign == quote:
                quote = ""
            else:
                assert word is not None
                word.append(sign)
        elif sign in "\"'":
            word = [] if word is None else word
            quote = sign
        elif sign.isspace():
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = [] if word is None else word
            word.append(sign)
    if quote:
        raise Invalid(f"a quote {quote} without an end")
    return words if word is None else [*words, "".join(word)]


def _escape(text: str, at: int) -> tuple[str, int]:
    if at >= len(text):
        return "\\", at
    if text[at] in _ESCAPES:
        return _ESCAPES[text[at]], at + 1
    if found := _NUMERIC.match(text, at):
        code = int(found[2], 8) if found[2] else int(next(filter(None, found.groups())), 16)
        if code in _CONTROL_CODES and not 0xD800 <= code < 0xE000:
            return chr(code), found.end()
    return f"\\{text[at]}", at + 1


def service_commands(value: str, specifiers: Mapping[str, str]) -> list[ServiceCommand]:
    """The commands of one line: `;` as a word separates them. Raise Invalid."""
    found: list[list[str]] = [[]]
    for word in split_words(value):
        if word == ";":
            found.append([])
        else:
            found[-1].append(";" if word == "\\;" else word)
    return [_command(words, specifiers) for words in found if words]


def _command(words: list[str], specifiers: Mapping[str, str]) -> ServiceCommand:
    program = words[0].lstrip(_PREFIXES)
    prefixes = words[0][: len(words[0]) - len(program)]
    if not program:
        raise Invalid("no command behind its prefixes")
    rest = words[2:] if "@" in prefixes else words[1:]
    filled = [fill_specifiers(word, specifiers) for word in (program, *rest)]
    is_literal = ":" in prefixes
    shell = [_shell_word(word, is_literal=is_literal or i == 0) for i, word in enumerate(filled)]
    has_variables = any(_HOME in word for word in filled) or (
        not is_literal and any("$" in word for word in filled[1:])
    )
    plain = () if has_variables else tuple(filled)
    return ServiceCommand(plain, " ".join(shell), prefixes)


def _shell_word(word: str, *, is_literal: bool) -> str:
    if not is_literal and (whole := _WHOLE_VARIABLE.fullmatch(word)):
        return f"${whole[1]}"  # split into words, by systemd as by a shell
    pieces, at = [], 0
    for found in () if is_literal else _VARIABLE.finditer(word):
        pieces += [_quoted(word[at : found.start()]), "'$'" if found[1] is None else f'"${{{found[1]}}}"']
        at = found.end()
    return "".join([*pieces, _quoted(word[at:])]) or "''"


def _quoted(text: str) -> str:
    return '"${HOME}"'.join(shlex.quote(part) if part else "" for part in text.split(_HOME))


def _unescaped(text: str) -> str:
    """A part of the name of a unit, as systemd-escape -u gives it back: `-` is a slash."""
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text.replace("-", "/"))
