"""Which lines of an output say most: the first of a plugin and of a success, the last of a job that failed."""

from typing import Final, NamedTuple

SUMMARY_LIMIT: Final = 200
"""Characters of the one line that lists and messages show."""
_SEARCHED: Final = 4_000
"""Characters of an output in which that line is looked for."""
_TRACEBACK: Final = "Traceback (most recent call last):"
"""The first line of an uncaught Python exception. The next one that is not indented names the exception."""


class TellingLines(NamedTuple):
    """Lines of an output, and how many there are in front of them and after them."""

    lines: list[str]
    before: int
    after: int


def tells_at_its_end(output: str, *, is_check: bool, has_failed: bool) -> bool:
    """Do the last lines of an output say more than the first ones?

    A plugin says on its first line what is wrong, unless it is a Python program that an exception ended.
    """
    return has_failed and (not is_check or output.lstrip().startswith(_TRACEBACK))


def summary_line(output: str, *, is_check: bool, has_failed: bool) -> str:
    """The line that says most; empty if no line says anything."""
    if not output:
        return ""
    if tells_at_its_end(output, is_check=is_check, has_failed=has_failed):
        line = _last_words(output)
    else:
        line = next(iter(output.lstrip()[:_SEARCHED].splitlines()), "")
    return line.strip()[:SUMMARY_LIMIT]


def telling_lines(output: str, most: int, *, is_check: bool, has_failed: bool) -> TellingLines:
    """Up to `most` lines of an output: those up to the one that says most, or the first ones."""
    lines = output.strip("\r\n").splitlines()
    end = min(most, len(lines))
    if tells_at_its_end(output, is_check=is_check, has_failed=has_failed):
        said = _last_words(output)
        end = next((i for i in range(len(lines), 0, -1) if lines[i - 1] == said), len(lines))
        end = len(lines) if len(lines) - end < most // 2 else max(end, min(most, len(lines)))
    start = max(end - most, 0)
    return TellingLines(lines[start:end], start, len(lines) - end)


def _last_words(output: str) -> str:
    """The exception of the last traceback - what a program has printed may come after it, from a buffer - else the last
    line. Tools draw frames and underlines: a line of signs only says nothing, unless there is no other.
    """
    traceback = output.rfind(_TRACEBACK)
    if traceback >= 0:
        for line in output[traceback + len(_TRACEBACK) :][: 4 * _SEARCHED].splitlines():
            if line[:1].strip() and not line.startswith("|"):
                return line
    lines = output.rstrip()[-_SEARCHED:].splitlines()[::-1]
    return next((line for line in lines if any(map(str.isalnum, line))), lines[0] if lines else "")
