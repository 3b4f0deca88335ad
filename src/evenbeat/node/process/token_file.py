"""The first API token of a node: made if there is none, in a file that only its owner can read."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from evenbeat.admin.tokens import GENERATED_TOKEN_NAME, TOKEN_PREFIX, add_token, create_api_token, decode_tokens
from evenbeat.core.access_rules import FirstToken, first_token
from evenbeat.model import Invalid
from evenbeat.node.process.listen import ListenAddress, is_loopback
from evenbeat.store.contract import StoreError
from evenbeat.store.sqlite.ownership import token_path

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import TaskAdmin


def ensure_token(admin: "TaskAdmin", database: Path, listen: ListenAddress) -> Path | None:
    """Make a token if a node that listens there needs one. The file with the node's token, None without one."""
    known = admin.store.settings(TOKEN_PREFIX)
    path = token_path(database)
    needed = first_token(
        has_tokens=bool(known), is_open=listen.is_open, is_loopback=is_loopback(listen.host), is_cluster=False
    )
    if needed is FirstToken.MAKE:
        new = create_api_token(GENERATED_TOKEN_NAME, "admin", admin.now())
        # First the file: a token in the database whose text is nowhere would keep everyone out.
        write_private_file(path, new.text + "\n")
        add_token(admin, new.id, new.token, "evenbeat up")
        return path
    try:
        is_ours = any(token.name == GENERATED_TOKEN_NAME for token in decode_tokens(known).values())
    except StoreError:
        return None  # the API then refuses every request, and says why; the tasks run nevertheless
    return path if is_ours and path.is_file() else None


def write_private_file(path: Path, text: str) -> None:
    """Write a file that other users cannot read at any moment; it replaces an older one of ours."""
    with suppress(FileNotFoundError):
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise Invalid(f"{path} is where the token is to be kept, and it is a link or not our file: remove it")
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(file, 0o600)  # whatever the umask leaves of it
            os.write(file, text.encode())
            os.fsync(file)
        finally:
            os.close(file)
        new.replace(path)
    except OSError as e:
        with suppress(OSError):
            new.unlink()
        raise Invalid(f"{path}, where the token is to be kept, cannot be written: {e.strerror}") from None
