"""Characters that mislead a reader: names and other short texts refuse them, and output escapes them.

Control characters move the cursor, clear the screen or end a line of a log; direction marks make a text read as
another one. A name with one of them cannot be distinguished from another name, typed, or put into an address.
"""

import re
from typing import Final

UNSAFE_CHARACTERS: Final = (
    "\x00-\x1f\x7f-\x9f"  # control characters: C0, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks and overrides of the direction of writing
    "\u2028\u2029"  # separators of lines and paragraphs
    "\ud800-\udfff"  # halves of characters, which no UTF-8 has
)
"""As a part of a regular expression: [...]."""
_UNSAFE: Final = re.compile(f"[{UNSAFE_CHARACTERS}]")
_UNSAFE_IN_TEXT: Final = re.compile(f"(?![\t\n])[{UNSAFE_CHARACTERS}]")
_SHORT: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ACCEPTED: Final = "accepted: no control characters and no marks of writing direction"


def text_error(text: str) -> str:
    """Why a short text that people read, such as an owner or a label, is refused; empty if it is not."""
    if text.isprintable():
        return ""
    found = _UNSAFE.search(text)
    return "" if found is None else f"{escaped_line(text[:64])!r:.80} has U+{ord(found[0]):04X}, {_ACCEPTED}"


def lines_error(text: str) -> str:
    """Why a text of several lines, such as a comment, is refused; empty if it is not. Tabs are accepted too."""
    return text_error(text.replace("\n", " ").replace("\t", " "))


def name_error(name: str) -> str:
    """Why a name that is used in the path of a URL is refused; empty if it is not."""
    if name.isprintable() and name[:1] not in (" ", ".") and name[-1:] != " ":
        return ""  # a million names are looked at
    if problem := text_error(name):
        return problem
    if name in (".", ".."):
        return f"{name!r} means a folder in every address; accepted: any other name"
    if name != name.strip():
        return f"{name[:64]!r} begins or ends with a space; accepted: spaces between words"
    return ""


def safe_name(name: str) -> str:
    """A name like this one that is accepted."""
    name = _UNSAFE.sub("-", name).strip()
    return {"": "unnamed", ".": "dot", "..": "dot-dot"}.get(name, name)


def escaped_text(text: str) -> str:
    """A text for a terminal, with control characters shown as escapes such as \\x1b."""
    return text if text.isprintable() else _UNSAFE_IN_TEXT.sub(_escaped, text)


def escaped_line(text: str) -> str:
    """A text for one line of a terminal, with control characters and line breaks shown as escapes."""
    return text if text.isprintable() else _UNSAFE.sub(_escaped, text)


def safe_json(text: str) -> str:
    """A JSON document with such characters replaced by JSON's own escapes."""
    if text.isascii() and "\x7f" not in text:
        return text  # JSON itself escapes all other control characters of ASCII
    return _UNSAFE_IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    code = ord(sign)
    return _SHORT.get(sign) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
