"""How people write a size: a number of bytes, or a text such as "512KB" or "1MB". A KB has 1,024 bytes."""

import re
from typing import Final

from evenbeat.model import MAX_OUTPUT_KEEP, MIN_OUTPUT_KEEP, Invalid

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20}
_SIZE: Final = re.compile(r"([0-9]{1,9})\s*([KM]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_ACCEPTED: Final = 'accepted: "1KB" to "16MB"'


def parse_size(value: object) -> int:
    """Bytes, as `Job.output_keep` has them; raise Invalid."""
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        size = int(found[1]) * _UNITS[found[2].upper()]
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise Invalid(f"{str(value)[:64]!r} is not a size, {_ACCEPTED}")
    if not MIN_OUTPUT_KEEP <= size <= MAX_OUTPUT_KEEP:
        raise Invalid(f"{str(value)[:64]!r} is out of range, {_ACCEPTED}")
    return size


def format_size(size: int) -> str:
    """As `parse_size` reads it."""
    for unit in ("M", "K"):
        if size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}B"
    return f"{size}B"
