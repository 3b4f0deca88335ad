"""The files of a node, when it starts: a bad one changes nothing that is there, and keeps no node from coming back."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from evenbeat.admin.command_permission import count_unauthorised_tasks
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid
from evenbeat.wire.replies import ChangeResult

_log: Final = logging.getLogger("evenbeat.node")


def apply_files_at_start(desk: TaskAdmin, files: Sequence[Path], *, is_strict: bool) -> tuple[ChangeResult, str]:
    """What the files have changed, and why they could not be applied.

    A node that comes back after a crash must not stay away because somebody was editing a file: it goes on with what
    was last applied. Files of which nothing was ever applied are refused, as all are with `is_strict`, and as are those
    whose tasks were changed otherwise since if only files may say what is executed.
    """
    try:
        changed, problem = desk.apply(files, "start", at_up=True), ""
    except (BadFileError, Invalid) as e:
        if is_strict or not all(desk.has_applied(file) for file in files) or desk.has_others_commands(files):
            raise
        _log.error(
            "the files cannot be applied, so the node starts with what was last applied of them: %s",
            e,
            extra={"action": "files_failed"},
        )
        changed, problem = ChangeResult(unchanged=desk.store.count()), str(e)
    desk.set_named_files(files)
    if others := count_unauthorised_tasks(desk.store):
        message = 'commands = "files": %d tasks are not from these files; those with a command or function do not run'
        _log.warning(message, others, extra={"action": "not_from_a_file", "tasks": others})
    return changed, problem
