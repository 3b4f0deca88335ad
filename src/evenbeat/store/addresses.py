"""Addresses of databases: which of them several nodes may share, and how to show one without its password."""

import re
from pathlib import Path
from typing import Final

_SCHEMES: Final = ("postgresql://", "postgres://")
_SECRETS: Final = re.compile(r"((?:^|[?&])(?:ssl)?password=)[^&]*", re.IGNORECASE)


def is_shared_database(database: str | Path) -> bool:
    """Whether several nodes may share it: the address of a PostgreSQL database."""
    return str(database).startswith(_SCHEMES)


def without_password(database: str | Path) -> str:
    """The address for people and logs: without the password."""
    if not is_shared_database(database):
        return str(database)
    scheme, rest = str(database).split("://", 1)
    place, mark, options = rest.partition("?")
    # A password may hold anything but the last @ before the path; what follows it is shown.
    user, at, host = place.rpartition("@")
    hidden = _SECRETS.sub(r"\1...", mark + options)
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{hidden}"
