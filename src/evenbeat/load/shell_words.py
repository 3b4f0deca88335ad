"""The simple commands of a line for a shell, as words: quotes resolved, redirections left out, nothing evaluated."""

import re
from typing import Final, NamedTuple

_REDIRECTION: Final = re.compile(r"(?:\d+(?=[<>])|&(?=>))?(?:<<<|<<-?|>>|<>|>\||[<>]&?)")
_OPERATOR: Final = re.compile(r"&&|\|\||;;|[;&|()\n]")
_VARIABLE: Final = re.compile(r"\$(?:\w+|\{[^}]*\}?|[@*#?$!-])")
_PLAIN: Final = re.compile(r"[^\s\\'\"`$<>;&|()]+")


class ShellWord(NamedTuple):
    """One word of a command."""

    text: str
    """Without its quotes, and without what the shell would put there: `$(date)`, `$HOME`."""
    is_literal: bool = True
    """All of it is known before the shell runs."""


def simple_commands(line: str) -> list[list[ShellWord]]:
    """The commands between `;`, `&&`, `||`, `|`, `&`, parentheses and ends of lines, those without words left out."""
    return _ShellLine(line).commands()


class _ShellLine:
    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0
        self._found: list[list[ShellWord]] = [[]]
        self._text: list[str] | None = None
        """The pieces of the word that has begun."""
        self._is_literal = True
        self._is_target = False
        """The word that comes next is where a redirection leads to."""

    def commands(self) -> list[list[ShellWord]]:
        while self._at < len(self._line):
            self._read_next()
        self._end_word()
        return [command for command in self._found if command]

    def _read_next(self) -> None:
        line, at = self._line, self._at
        if line[at].isspace() and line[at] != "\n":
            self._end_word()
            self._at += 1
        elif line[at] == "#" and self._text is None:
            end = line.find("\n", at)
            self._at = len(line) if end < 0 else end
        elif (redirected := _REDIRECTION.match(line, at)) and (self._text is None or line[at] in "<>"):
            self._end_word()
            self._at, self._is_target = redirected.end(), True
        elif operator := _OPERATOR.match(line, at):
            self._end_word()
            self._is_target = False
            self._found.append([])
            self._at = operator.end()
        else:
            self._read_piece()

    def _read_piece(self) -> None:
        line, at = self._line, self._at
        if line[at] == "\\":
            self._add(line[at + 1 : at + 2], at + 2)
        elif line[at] == "'":
            end = line.find("'", at + 1)
            end = len(line) if end < 0 else end
            self._add(line[at + 1 : end], end + 1)
        elif line[at] == '"':
            self._read_quoted()
        elif line[at] in "$`":
            self._skip_substitution()
        else:
            plain = _PLAIN.match(line, at)
            assert plain is not None
            self._add(plain[0], plain.end())

    def _read_quoted(self) -> None:
        """What is between double quotes."""
        self._add("", self._at + 1)
        line = self._line
        while self._at < len(line) and line[self._at] != '"':
            if line[self._at] == "\\":
                self._add(line[self._at + 1 : self._at + 2], self._at + 2)
            elif line[self._at] in "$`":
                self._skip_substitution()
            else:
                self._add(line[self._at], self._at + 1)
        self._at += 1

    def _skip_substitution(self) -> None:
        """`$(...)`, a variable, or what is between backquotes."""
        line, at = self._line, self._at
        if line[at] == "`":
            end = line.find("`", at + 1)
            end = len(line) if end < 0 else end + 1
        elif line.startswith("$(", at):
            end, depth = at + 2, 1
            while end < len(line) and depth:
                depth += {"(": 1, ")": -1}.get(line[end], 0)
                end += 1
        elif variable := _VARIABLE.match(line, at):
            end = variable.end()
        else:
            self._add("$", at + 1)
            return
        self._is_literal = False
        self._add("", end)

    def _add(self, text: str, end: int) -> None:
        if self._text is None:
            self._text = []
        self._text.append(text)
        self._at = end

    def _end_word(self) -> None:
        if self._text is not None:
            if not self._is_target:
                self._found[-1].append(ShellWord("".join(self._text), self._is_literal))
            self._is_target = False
        self._text, self._is_literal = None, True
