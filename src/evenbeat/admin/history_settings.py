"""How long history is kept, as files say, or as the database says that files say nothing."""

import logging
from typing import Final

from evenbeat.admin.stored_references import node_settings_by_owner
from evenbeat.core.retention import DEFAULT_KEEP_RUNS, Retention
from evenbeat.load.config import DEFAULT_KEEP
from evenbeat.store.contract import Store

DEFAULT_KEY: Final = "history:keep_runs"
"""The setting of the store that says what counts if no file says `keep_runs`."""
_AS_KEEP: Final = "keep"
_SHORT: Final = "default"
_log: Final = logging.getLogger("evenbeat.node")


def settle_default(store: Store) -> None:
    """For a node that starts. A database that has runs of before there was `keep_runs` goes on keeping all of them.

    Decided once, when the first node that knows of it starts.
    """
    if store.setting(DEFAULT_KEY) is not None:
        return
    is_old = bool(store.runs(most=1))
    store.set_settings({DEFAULT_KEY: _AS_KEEP if is_old else _SHORT})
    if is_old:
        _log.warning(
            "all runs of this database stay for as long as `keep` says, as before; "
            'with `keep_runs = "2d"` in [node] it becomes a fraction of its size: see docs/explanation/history.md',
            extra={"action": "keep_runs_as_before"},
        )


def stored_retention(store: Store) -> Retention:
    """What is in force. Of two owners the later name counts."""
    keep, keep_runs = DEFAULT_KEEP, None
    for settings in node_settings_by_owner(store).values():
        keep = settings.keep or keep
        keep_runs = settings.keep_runs or keep_runs
    if keep_runs is None:
        keep_runs = keep if store.setting(DEFAULT_KEY) == _AS_KEEP else DEFAULT_KEEP_RUNS
    return Retention(min(keep_runs, keep), keep)
