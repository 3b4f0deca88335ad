"""What the latest result of a check is, by its history."""

from typing import Final

from evenbeat.model import RunKind
from evenbeat.store.contract import Store

_RECORDS_WITH_LOG: Final = 200
"""Records among which the latest result is searched for, where lines of a log are newer."""


def is_result_missing(store: Store, number: int) -> bool:
    """Is the latest result of a passive check that none came? What changed no state is no result: lines of a log."""
    for most in (1, _RECORDS_WITH_LOG):
        runs = store.runs(number, most=most)
        result = next((run for run in runs if run.state is not None), None)
        if result is not None or len(runs) < most:
            break
    return result is not None and result.kind is RunKind.STALE
