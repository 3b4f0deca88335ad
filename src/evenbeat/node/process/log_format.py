"""The log of a node: one line per record, key=value, for people with grep and for programs alike."""

import copy
import json
import logging
import re
from datetime import UTC, datetime
from typing import Final, NamedTuple, TextIO

from evenbeat.load.safe_text import escaped_text, safe_json

_UNQUOTED: Final = re.compile(r"[\w.:+/@%,*~-]+")
REPEAT_INTERVAL: Final = 10.0
"""Seconds for which a warning or an error that is repeated is only counted."""
_STANDARD_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "action", "taskName"}


class KeyValueFormatter(logging.Formatter):
    """time=... level=... action=... message="..." and whatever else the record carries."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "action": getattr(record, "action", record.name),
            "message": record.getMessage(),
        }
        fields |= extra_fields_of(record)
        line = " ".join(f"{key}={_format_value(value)}" for key, value in fields.items())
        # The author of an error text must not be able to write a line that looks like a record of ours.
        return f"{line}\n  {indent_continuation(self.formatException(record.exc_info))}" if record.exc_info else line


class _Repeated(NamedTuple):
    record: logging.LogRecord
    """The record that was written."""
    times: int
    """How many equal ones were not written after it."""


class CondensingHandler(logging.StreamHandler[TextIO]):
    """Writes a warning or an error once, and then every so often how many times it was repeated.

    Something that fails fails again and again, sometimes hundreds of times per second: the log must stay readable, and
    the disk must not run full.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._recent: dict[tuple[object, ...], _Repeated] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it as a repetition."""
        self._write_repeated(record.created - REPEAT_INTERVAL)
        if record.levelno >= logging.WARNING:
            key = _repetition_key(record)
            if before := self._recent.get(key):
                self._recent[key] = before._replace(times=before.times + 1)
                return
            self._recent[key] = _Repeated(record, 0)
        super().emit(record)

    def close(self) -> None:
        """Write the counts of repetitions."""
        self._write_repeated(float("inf"))
        super().close()

    def _write_repeated(self, since: float) -> None:
        for key, (record, times) in list(self._recent.items()):
            if record.created <= since:
                del self._recent[key]
                if times:
                    again = copy.copy(record)
                    again.msg, again.args = f"{record.getMessage()} (repeated {times:,} times)", ()
                    again.exc_info = again.exc_text = None
                    again.__dict__["repeated"] = times
                    super().emit(again)


def _repetition_key(record: logging.LogRecord) -> tuple[object, ...]:
    """What makes two lines equal."""
    error = record.exc_info[1] if record.exc_info else None
    return record.name, record.levelno, record.getMessage(), repr(error), *map(repr, extra_fields_of(record).items())


def extra_fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What a record carries beside its message."""
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD_FIELDS}


def indent_continuation(text: str) -> str:
    """A text of several lines, in which every line after the first is set off from the beginnings of records."""
    return escaped_text(text).replace("\n", "\n  ")


def _format_value(value: object) -> str:
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else safe_json(json.dumps(text, ensure_ascii=False))
