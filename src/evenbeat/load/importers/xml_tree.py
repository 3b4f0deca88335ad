"""Reads XML of a bounded size and depth into elements that know their place, and which of them nobody has used."""

import re
from collections.abc import Iterator
from typing import Final, NoReturn
from xml.parsers import expat

from evenbeat.load.config import BadFileError, ConfigError, FilePosition

_MAX_BYTES: Final = 16 << 20
_MAX_DEPTH: Final = 200
_DECLARATION: Final = re.compile(r"\s*<\?xml.*?\?>", re.DOTALL)
_CONTROL: Final = re.compile(r"&#(?:x0*([0-9a-fA-F]{1,2})|0*(\d{1,3}));")
_SHIFT: Final = 0xE000
"""Control characters, which only XML 1.1 allows, are shifted into an area that no text uses while the parser reads."""


class XmlElement:
    """An element; whoever uses it takes it."""

    def __init__(self, tag: str, attributes: dict[str, str], place: FilePosition) -> None:
        self.tag = tag
        self.attributes = attributes
        self.place = place
        self.children: list[XmlElement] = []
        self.text = ""
        self._is_used = False

    def all(self, path: str) -> "list[XmlElement]":
        """The elements at a path of tags; `*` is any."""
        found = [self]
        for tag in path.split("/"):
            found = [child for one in found for child in one.children if tag in ("*", child.tag)]
        return found

    def below(self, tag: str) -> Iterator["XmlElement"]:
        """All elements of this tag, however deep."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.below(tag)

    def value(self, path: str) -> str:
        """The text of the first element at a path, which is taken; empty if there is none."""
        found = self.all(path)
        return found[0].take().text.strip() if found else ""

    def take(self) -> "XmlElement":
        """Mark this element as used."""
        self._is_used = True
        return self

    def take_all(self) -> "XmlElement":
        """Mark this element as used, and everything in it."""
        self._is_used = True
        for child in self.children:
            child.take_all()
        return self

    def left(self, path: str = "") -> Iterator[tuple[str, "XmlElement"]]:
        """The paths of the largest elements that nobody has used."""
        for child in self.children:
            here = f"{path}/{child.tag}" if path else child.tag
            if child.has_used():
                yield from child.left(here)
            else:
                yield here, child

    def has_used(self) -> bool:
        """Is this element used, or something in it?"""
        return self._is_used or any(child.has_used() for child in self.children)


def parse_xml(text: str, file: str) -> XmlElement:
    """The root of a document. Entities and document types are refused; raise BadFileError."""
    return _Reader(text, file).root()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._file = file
        if len(text) > _MAX_BYTES:
            raise BadFileError([ConfigError(file, None, f"larger than {_MAX_BYTES >> 20} MiB")])
        # Jenkins declares XML 1.1, which the parser does not know; its control characters are put back below.
        declaration = _DECLARATION.match(text)
        end = declaration.end() if declaration else 0
        text = "\n" * text[:end].count("\n") + text[end:]
        self._content = _CONTROL.sub(_shifted, text).encode("utf-8", "replace")
        self._stack: list[XmlElement] = []
        self._root: XmlElement | None = None
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._data

    def root(self) -> XmlElement:
        try:
            self._parser.Parse(self._content, True)  # noqa: FBT003
        except expat.ExpatError as e:
            message = expat.ErrorString(e.code)
            raise self._error(FilePosition(e.lineno, e.offset + 1), f"not XML: {message}") from None
        assert self._root is not None
        return self._root

    def _error(self, place: FilePosition, problem: str) -> BadFileError:
        return BadFileError([ConfigError(self._file, place, problem)])

    def _here(self) -> FilePosition:
        return FilePosition(self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)

    def _refuse_doctype(self, *_: object) -> NoReturn:
        # Entities are how a small file becomes a huge one, or another one; Jenkins writes none.
        start = self._content[: self._parser.CurrentByteIndex + 1].rfind(b"<!DOCTYPE")
        before = self._content[:start]
        place = FilePosition(before.count(b"\n") + 1, start - before.rfind(b"\n"))
        raise self._error(place, "<!DOCTYPE is not accepted in a config.xml")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._stack) >= _MAX_DEPTH:
            raise self._error(self._here(), f"elements nested more than {_MAX_DEPTH} deep")
        element = XmlElement(tag, attributes, self._here())
        if self._stack:
            self._stack[-1].children.append(element)
        else:
            self._root = element
        self._stack.append(element)

    def _end(self, _: str) -> None:
        element = self._stack.pop()
        if element.children and not element.text.strip():
            element.text = ""

    def _data(self, data: str) -> None:
        self._stack[-1].text += _unshifted(data)


def _shifted(found: "re.Match[str]") -> str:
    code = int(found[1], 16) if found[1] else int(found[2])
    return chr(_SHIFT + code) if 0 < code < 0x20 and code not in (9, 10, 13) else found[0]


def _unshifted(text: str) -> str:
    if text.isascii():
        return text
    return "".join(chr(ord(sign) - _SHIFT) if _SHIFT < ord(sign) < _SHIFT + 0x20 else sign for sign in text)
