"""Packs the outputs of runs: texts that differ only in their numbers become one template and columns of numbers."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, repeat
from operator import add, mul, sub
from typing import Final

import msgspec
from msgspec import Struct, structs

from evenbeat.store.common.int_columns import (
    IntColumn,
    PlaneWriter,
    numbers_of,
    pack_values,
    planes_of,
    read_planes,
    unpack,
    width_of,
)

_NUMBERS: Final = re.compile(r"(0|[1-9][0-9]{0,17})", re.ASCII)
"""Numbers that are written in one way only, so that a text is the same again afterwards; "05" is two of them."""
_HOLE: Final = "\0"
"""Stands for a number in a template, and for a digit in a mask."""
_DIGITS: Final = str.maketrans("0123456789", _HOLE * 10)
_HOLES: Final = re.compile(_HOLE + "+")
_MOST_DIGITS: Final = 18
_MOST_NUMBERS: Final = 64
_MOST_TEMPLATED: Final = 2_000
"""Characters. Longer texts are rare, and stay as they are."""
_FEWEST_TEXTS: Final = 3
"""Of a template: a description of its columns must pay."""
_FEWEST_ALIKE: Final = 16
"""Texts with digits at the same places get a template if there are so many; others share one by their words."""
_MOST_TEMPLATES: Final = 500
_POWERS: Final = (1, 10, 100, 1_000)
"""Performance data often repeats a number of the text, with more decimals."""


class _Numbers(Struct, array_like=True, frozen=True):
    """The numbers at one place of a template."""

    low: int = 0
    width: int = 0
    changes: bool = False
    """Whether each is the difference to the one before, and the first one to `first`."""
    first: int = 0
    like: int = -1
    """The earlier place whose numbers these are, times `power`; -1: there is none."""
    power: int = 1
    digits: int = 1
    """The number is written with this many digits at least."""


class _Template(Struct, array_like=True, frozen=True):
    text: str
    places: list[_Numbers]


class OutputColumn(Struct, array_like=True, frozen=True):
    """The outputs of the runs of a block; empty lists if all of them are empty."""

    texts: int
    """How many different texts there are."""
    which: IntColumn
    """Of each run: 0 for a text that no run before has had, else how many new texts ago it was new."""
    template: IntColumn
    """Of each different text, in the order in which they were new: 0 if it stays as it is."""
    head: bytes
    """Texts that stay as they are, and the templates, compressed."""
    numbers: bytes


class _Head(Struct, array_like=True):
    plain: list[str]
    templates: list[_Template]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_head: Final = msgspec.msgpack.Decoder(_Head).decode


def pack_outputs(outputs: Sequence[str]) -> OutputColumn | None:
    """The column of these texts; None if all are empty."""
    if not any(outputs):
        return None
    places: dict[str, int] = {}
    which = []
    for text in outputs:
        known = len(places)
        which.append(known - places.setdefault(text, known))
    texts = list(places)
    chosen, head, numbers = _templates(texts)
    return OutputColumn(len(texts), pack_values(which), pack_values(chosen), _compressed(head), numbers)


def _compressed(head: _Head) -> bytes:
    writer = PlaneWriter()
    data = _encode(head)
    writer.add(data)
    return len(data).to_bytes(4, "little") + writer.finish()


def _templates(texts: Sequence[str]) -> tuple[list[int], _Head, bytes]:
    """The template of each text, what they are, and the numbers in them."""
    chosen = [0] * len(texts)
    templates: list[_Template] = []
    writer = PlaneWriter()
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        if len(text) <= _MOST_TEMPLATED and _HOLE not in text:
            alike[text.translate(_DIGITS)].append(i)
    others = []
    for mask, members in alike.items():
        if len(members) < _FEWEST_ALIKE or len(templates) == _MOST_TEMPLATES or _HOLE not in mask:
            others += members
            continue
        templates.append(_template_of_mask(mask, [texts[i] for i in members], writer))
        for i in members:
            chosen[i] = len(templates)
    # Readers count the texts of a template in the order of all texts.
    for words, rows in _by_words(texts, sorted(others)).items():
        if len(rows) < _FEWEST_TEXTS or len(templates) == _MOST_TEMPLATES:
            continue
        templates.append(_template_of_words(words, [row for _, row in rows], writer))
        for i, _ in rows:
            chosen[i] = len(templates)
    plain = [text for text, template in zip(texts, chosen, strict=True) if not template]
    return chosen, _Head(plain, templates), writer.finish()


def _by_words(texts: Sequence[str], some: Sequence[int]) -> dict[str, list[tuple[int, list[str]]]]:
    """Some texts with the numbers in them, by the words between these."""
    found: defaultdict[str, list[tuple[int, list[str]]]] = defaultdict(list)
    for i in some:
        parts = _NUMBERS.split(texts[i])
        if 1 < len(parts) <= 2 * _MOST_NUMBERS + 1:
            found[_HOLE.join(parts[::2])].append((i, parts[1::2]))
    return found


def _template_of_mask(mask: str, texts: Sequence[str], writer: PlaneWriter) -> _Template:
    """The template of texts whose digits are at the same places. Digits that never change become part of it."""
    joined, length = "".join(texts), len(mask)
    made = _TemplateWriter(writer)
    written = 0
    for hole in _HOLES.finditer(mask):
        begin, end = hole.span()
        while begin < end and _is_constant(joined[begin::length]):
            begin += 1
        while end > begin and _is_constant(joined[end - 1 :: length]):
            end -= 1
        for start in range(begin, end, _MOST_DIGITS):
            stop = min(start + _MOST_DIGITS, end)
            made.add(texts[0][written:start], [int(text[start:stop]) for text in texts], stop - start)
            written = stop
    return made.finish(texts[0][written:])


def _template_of_words(words: str, rows: Sequence[Sequence[str]], writer: PlaneWriter) -> _Template:
    """The template of texts with the same words. Numbers that never change become part of it."""
    text, *rest = words.split(_HOLE)
    made = _TemplateWriter(writer)
    for column, literal in zip(zip(*rows, strict=True), rest, strict=True):
        if _is_constant(column):
            text += column[0] + literal
        else:
            made.add(text, list(map(int, column)), 1)
            text = literal
    return made.finish(text)


def _is_constant(column: Sequence[str]) -> bool:
    return column.count(column[0]) == len(column)


class _TemplateWriter:
    """Puts a template together, from left to right."""

    def __init__(self, planes: PlaneWriter) -> None:
        self._planes = planes
        self._texts: list[str] = []
        self._places: list[_Numbers] = []
        self._known: list[list[int]] = []

    def add(self, text: str, numbers: list[int], digits: int) -> None:
        """Add a text and, after it, the numbers of a place, written with this many digits at least."""
        self._texts.append(text)
        found = _like_another(numbers, self._known) or _packed_numbers(numbers, self._planes)
        self._places.append(structs.replace(found, digits=digits))
        self._known.append(numbers)

    def finish(self, text: str) -> _Template:
        """The template, with the text after its last place."""
        return _Template(_HOLE.join([*self._texts, text]), self._places)


def _like_another(values: list[int], known: list[list[int]]) -> _Numbers | None:
    for like, others in enumerate(known):
        for power in _POWERS:
            is_near = others[0] * power == values[0] and others[-1] * power == values[-1]
            if is_near and list(map(mul, others, repeat(power))) == values:
                return _Numbers(like=like, power=power)
    return None


def _packed_numbers(values: list[int], writer: PlaneWriter) -> _Numbers:
    low, first = min(values), values[0]
    changes = [0, *map(sub, values[1:], values)]
    is_steady = 4 * sum(map(abs, changes)) < sum(values) - low * len(values)
    if is_steady:
        values, low = changes, min(changes)
    width = width_of(max(values) - low)
    for plane in planes_of(map(sub, values, repeat(low)), width):
        writer.add(plane)
    return _Numbers(low, width, is_steady, first if is_steady else 0)


class OutputReader:
    """Reads texts of a column; what some runs need is not read for the others."""

    def __init__(self, column: OutputColumn, runs: int) -> None:
        self._column = column
        length = int.from_bytes(column.head[:4], "little")
        self._head = _decode_head(read_planes(column.head[4:], length))
        self._which = unpack(column.which, runs)
        self._templates = unpack(column.template, column.texts)
        self._texts_of_template = Counter(self._templates)

    def texts(self, runs: Sequence[int]) -> list[str]:
        """The outputs of these runs of the block."""
        if not runs:
            return []
        first, last = min(runs), max(runs)
        numbers = _text_numbers(self._which[first : last + 1], self._which[:first].count(0))
        texts = [numbers[run - first] for run in runs]
        begin = min(texts)
        places = self._places(begin, max(texts) + 1)
        wanted: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for text in texts:
            wanted[self._templates[text]][text] = places[text - begin]
        made: dict[int, str] = {}
        for template, some in wanted.items():
            made |= zip(some, self._made(template, list(some.values())), strict=True)
        return [made[text] for text in texts]

    def _places(self, begin: int, end: int) -> list[int]:
        """The places of some texts, each among those of its template."""
        some = self._templates[begin:end]
        used = {template: self._templates[:begin].count(template) for template in set(some)}
        places = []
        for template in some:
            places.append(used[template])
            used[template] += 1
        return places

    def _made(self, template: int, places: list[int]) -> list[str]:
        """The texts at these places of a template."""
        if template == 0:
            return [self._head.plain[place] for place in places]
        near = range(min(places), max(places) + 1)
        columns = self._columns(template, near)
        if places != list(near):
            columns = [[column[place - near.start] for place in places] for column in columns]
        form = _form(self._head.templates[template - 1])
        return [form % row for row in zip(*columns, strict=True)]

    def _columns(self, template: int, some: range) -> list[list[int]]:
        """The numbers at some places of a template that follow each other."""
        count = self._texts_of_template[template]
        columns: list[list[int]] = []
        at = self._begins[template - 1]
        for place in self._head.templates[template - 1].places:
            if place.like >= 0:
                columns.append(list(map(mul, columns[place.like], repeat(place.power))))
                continue
            near = range(some.stop) if place.changes else some
            numbers = list(map(add, numbers_of(self._planes, count, place.width, near, at), repeat(place.low)))
            if place.changes:
                numbers = list(map(add, accumulate(numbers), repeat(place.first)))[some.start :]
            columns.append(numbers)
            at += count * place.width
        return columns

    @cached_property
    def _begins(self) -> list[int]:
        """Where the planes of each template begin, and where the last ones end."""
        widths = (sum(place.width for place in template.places) for template in self._head.templates)
        sizes = (self._texts_of_template[i] * width for i, width in enumerate(widths, 1))
        return list(accumulate(sizes, initial=0))

    @cached_property
    def _planes(self) -> bytes:
        return read_planes(self._column.numbers, self._begins[-1])


def _form(template: _Template) -> str:
    """The template for the operator %."""
    first, *rest = template.text.replace("%", "%%").split(_HOLE)
    return first + "".join(f"%0{p.digits}d{text}" for p, text in zip(template.places, rest, strict=True))


def _text_numbers(which: list[int], known: int) -> Sequence[int]:
    """The text of each run, by its number in the order in which texts were new; `known` ones were before."""
    if not any(which):
        return range(known, known + len(which))
    texts = []
    for back in which:
        texts.append(known - back)
        known += not back
    return texts
