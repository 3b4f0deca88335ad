"""How a node writes its log: one line per record, key=value, for people with grep and for programs alike."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Final

_PLAIN: Final = re.compile(r"[\w.:+/@%,*~-]+")
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
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What a record carries beside its message."""
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
