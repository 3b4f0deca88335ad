"""The output of a monitoring plugin: a text, long text on further lines, and performance data after the bars.

    DISK OK - 3326 MB free | /=2643MB;5948;5958;0;5968
    / 15272 MB (77%);
    /boot 68 MB (69%); | /boot=68MB;88;93;0;98
    /home=69357MB;253404;253409;0;253414

Plugins break the rules of performance data in every way, so nothing here refuses: what cannot be read is shown.
"""

import re
from typing import Final, NamedTuple

_NUMBER: Final = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE: Final = re.compile(rf"@?(?:(?:{_NUMBER}|~)?:)?(?:{_NUMBER})?\Z")
_VALUE: Final = re.compile(rf"(?P<number>{_NUMBER}|U)(?P<unit>[^\d;\s.,+=-][^;\s=]*)?\Z")
_LABEL: Final = re.compile(r"'(?P<quoted>(?:[^']|'')*)'=|(?P<bare>[^\s=']+)=")
_FIELDS: Final = 5


class Perf(NamedTuple):
    """One measured value; thresholds are ranges such as `10`, `10:`, `~:10`, `10:20`, `@10:20`, or empty."""

    label: str
    value: float | None
    """None if the plugin could not measure it ("U")."""
    unit: str = ""
    warn: str = ""
    crit: str = ""
    min: float | None = None
    max: float | None = None

    def __str__(self) -> str:
        label = self.label
        if not label or re.search(r"[\s='|]", label):
            label = "'" + label.replace("'", "''") + "'"
        value = "U" if self.value is None else _shortest(self.value)
        limits = ["" if x is None else _shortest(x) for x in (self.min, self.max)]
        return ";".join([f"{label}={value}{self.unit}", self.warn, self.crit, *limits]).rstrip(";")


class PluginOutput(NamedTuple):
    """What a plugin said."""

    text: str
    long: str = ""
    perfdata: tuple[Perf, ...] = ()
    malformed: tuple[str, ...] = ()
    """Performance data that could not be read, as it was written."""

    def __str__(self) -> str:
        first = f"{self.text} | {' '.join(map(str, self.perfdata))}" if self.perfdata else self.text
        return f"{first}\n{self.long}" if self.long else first


def parse(output: str) -> PluginOutput:
    """Read a plugin's output: the first line, then long text up to a second bar, then more performance data."""
    first, _, rest = output.partition("\n")
    text, _, perfdata = first.partition("|")
    long, _, more = rest.partition("|")
    perfs: list[Perf] = []
    malformed: list[str] = []
    for line in (perfdata, *more.splitlines()):
        _read_perfdata(line, perfs, malformed)
    return PluginOutput(text.strip(), long.strip("\r\n").rstrip(), tuple(perfs), tuple(malformed))


def _read_perfdata(line: str, perfs: list[Perf], malformed: list[str]) -> None:
    position = 0
    while position < len(line):
        if line[position].isspace():
            position += 1
            continue
        label = _LABEL.match(line, position)
        end = label.end() if label else position
        while end < len(line) and not line[end].isspace():
            end += 1
        word = line[position:end]
        perf = _read_perf(label, line[label.end() : end]) if label else None
        if perf is None:
            malformed.append(word)
        else:
            perfs.append(perf)
        position = end


def _read_perf(label: re.Match[str], text: str) -> Perf | None:
    name = label["bare"] if label["quoted"] is None else label["quoted"].replace("''", "'")
    fields = text.rstrip(";").split(";")
    value = _VALUE.match(fields[0])
    if value is None or len(fields) > _FIELDS:
        return None
    warn, crit, low, high = (*fields[1:], "", "", "", "")[:4]
    if not (_RANGE.match(warn) and _RANGE.match(crit) and _is_number(low) and _is_number(high)):
        return None
    number = None if value["number"] == "U" else float(value["number"])
    return Perf(
        name.strip(),
        number,
        value["unit"] or "",
        warn,
        crit,
        float(low) if low else None,
        float(high) if high else None,
    )


def _is_number(text: str) -> bool:
    return not text or re.fullmatch(_NUMBER, text) is not None


def _shortest(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
