"""Read the text of a file that may be anything: bounded, regular, UTF-8, or refused with the reason."""

import stat
from pathlib import Path
from typing import Final

from evenbeat.load.config import BadFileError, ConfigError

MAX_FILE_BYTES: Final = 256 << 20


def read_text(path: Path) -> str:
    """The whole text; raise BadFileError with the reason why not."""
    try:
        # A pipe or a device may have no end, or no beginning.
        if not stat.S_ISREG(path.stat().st_mode):
            raise _refused(path, "not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise _refused(path, f"larger than {MAX_FILE_BYTES >> 20} MiB")
        return content.decode("utf-8-sig")
    except OSError as e:
        raise _refused(path, e.strerror or str(e)) from None
    except UnicodeDecodeError as e:
        raise _refused(path, f"not UTF-8 text ({e.reason} at byte {e.start})") from None
    except ValueError as e:
        if isinstance(e, BadFileError):
            raise
        raise _refused(path, str(e)) from None  # a NUL in the path


def _refused(path: Path, reason: str) -> BadFileError:
    return BadFileError([ConfigError(str(path), None, reason)])
