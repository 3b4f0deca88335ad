"""Applies the files of a node when it starts: a broken file changes nothing, and does not keep a node from starting."""

import logging
import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from evenbeat.admin.command_permission import count_unauthorised_tasks
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.load.config import BadFileError, NodeSettings
from evenbeat.model import Entry, Invalid
from evenbeat.node.process.passed_variables import warn_no_longer_passed
from evenbeat.wire.replies import ChangeResult

_log: Final = logging.getLogger("evenbeat.node")


class AppliedFiles(NamedTuple):
    """What applying the files of a node has come to."""

    problem: str
    """Why the files could not be applied; empty if they were."""
    settings: NodeSettings
    """What files say of the node now."""
    has_changed: bool
    all_entries: list[Entry]
    """All tasks of the store, if the files have just created every one of them; else nothing."""


def apply_node_files(
    admin: TaskAdmin, files: Sequence[Path], *, is_strict: bool, has_workers: bool = True, in_cluster: bool = False
) -> AppliedFiles:
    """Apply the files, and log what has changed. `has_workers`: the node, or a worker beside it, runs commands."""
    is_new = admin.store.count() == 0
    changed, problem = apply_files_at_start(admin, files, is_strict=is_strict)
    settings = admin.settings()
    if has_workers:
        pass_env = settings.pass_env or ()
        warn_no_longer_passed(admin.store, os.environ, pass_env, is_new=is_new, in_cluster=in_cluster)
    has_changed = bool(changed.created or changed.changed or changed.removed)
    if has_changed:
        log_changes("files applied", "applied", changed)
    # In the order of the store, so that what a start records of them touches its pages one after the other.
    all_entries = sorted(changed.created, key=attrgetter("number")) if is_new else []
    return AppliedFiles(problem, settings, has_changed, all_entries)


def apply_files_at_start(admin: TaskAdmin, files: Sequence[Path], *, is_strict: bool) -> tuple[ChangeResult, str]:
    """What the files have changed, and why they could not be applied.

    A node must come back after a crash even while a person edits one of its files: it continues with what was last
    applied. A file of which nothing was ever applied is refused, as every broken file is with `is_strict`. Also
    refused, if only files may define what is executed, are files whose tasks were changed otherwise since.
    """
    try:
        changed, problem = admin.apply(files, "start", at_up=True), ""
    except (BadFileError, Invalid) as e:
        if is_strict or not all(admin.has_applied(file) for file in files) or admin.has_others_commands(files):
            raise
        _log.error(
            "the files cannot be applied, so the node starts with what was last applied of them: %s",
            e,
            extra={"action": "files_failed"},
        )
        changed, problem = ChangeResult(unchanged=admin.store.count()), str(e)
    admin.set_named_files(files)
    admin.forget_placement()
    if others := count_unauthorised_tasks(admin.store):
        message = 'commands = "files": %d tasks are not from these files; those with a command or function do not run'
        _log.warning(message, others, extra={"action": "not_from_a_file", "tasks": others})
    return changed, problem


def log_changes(what: str, action: str, changed: ChangeResult) -> None:
    """Log how many tasks were created, changed and removed, and what people should know beside it."""
    for notice in changed.notices:
        _log.warning("%s", notice, extra={"action": "not_in_force"})
    counts = len(changed.created), len(changed.changed), len(changed.removed)
    _log.info("%s: %d new, %d changed, %d removed", what, *counts, extra={"action": action})
