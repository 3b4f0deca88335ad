"""How a node writes its log: one line per record, key=value, for people with grep and for programs alike."""

import copy
import json
import logging
import re
from datetime import UTC, datetime
from typing import Final, NamedTuple, TextIO

from evenbeat.load.safe_text import safe_json, visible

_PLAIN: Final = re.compile(r"[\w.:+/@%,*~-]+")
CONDENSED_FOR: Final = 10.0
"""Seconds for which a warning or an error that is repeated is only counted."""
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "action", "taskName"}


class KeyValue(logging.Formatter):
    """time=... level=... action=... message="..." and whatever else the record carries."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "action": getattr(record, "action", record.name),
            "message": record.getMessage(),
        }
        fields |= fields_of(record)
        line = " ".join(f"{key}={_value(value)}" for key, value in fields.items())
        # Whoever chooses the text of an error must not be able to write a line that looks like a record of ours.
        return f"{line}\n  {continued(self.formatException(record.exc_info))}" if record.exc_info else line


class _Repeated(NamedTuple):
    record: logging.LogRecord
    """The one that was written."""
    times: int
    """Those after it that were not."""


class Condensed(logging.StreamHandler[TextIO]):
    """Writes a warning or an error once, and then every so often how many times it was repeated.

    Something that fails fails again and again, sometimes hundreds of times per second: the log must stay readable, and
    the disk must not run full.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._recent: dict[tuple[object, ...], _Repeated] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, or count it."""
        self._tell_repeated(record.created - CONDENSED_FOR)
        if record.levelno >= logging.WARNING:
            key = _key(record)
            if before := self._recent.get(key):
                self._recent[key] = before._replace(times=before.times + 1)
                return
            self._recent[key] = _Repeated(record, 0)
        super().emit(record)

    def close(self) -> None:
        """Write what was counted."""
        self._tell_repeated(float("inf"))
        super().close()

    def _tell_repeated(self, since: float) -> None:
        for key, (record, times) in list(self._recent.items()):
            if record.created <= since:
                del self._recent[key]
                if times:
                    again = copy.copy(record)
                    again.msg, again.args = f"{record.getMessage()} (repeated {times:,} times)", ()
                    again.exc_info = again.exc_text = None
                    again.__dict__["repeated"] = times
                    super().emit(again)


def _key(record: logging.LogRecord) -> tuple[object, ...]:
    """What makes two lines equal."""
    error = record.exc_info[1] if record.exc_info else None
    return record.name, record.levelno, record.getMessage(), repr(error), *map(repr, fields_of(record).items())


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What a record carries beside its message."""
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def continued(text: str) -> str:
    """A text of several lines, in which every line after the first is set off from the beginnings of records."""
    return visible(text).replace("\n", "\n  ")


def _value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else safe_json(json.dumps(text, ensure_ascii=False))
