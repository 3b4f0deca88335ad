"""Names that callers give must be those of tasks; a misspelled one is answered with one that resembles it."""

from difflib import get_close_matches
from itertools import islice
from typing import Final

from evenbeat.core.scope import Scope
from evenbeat.name_patterns import is_pattern
from evenbeat.store.contract import Filter, Store
from evenbeat.wire.replies import NotFound

_NAMES_SEARCHED: Final = 1_000
"""Names among which one is suggested for a misspelled name."""


def require_tasks(store: Store, only: Filter, within: Scope | None = None) -> None:
    """Every name that is no pattern must be that of a task, of this owner and with these labels if they are given, and
    of the scope that the caller is limited to.
    """
    scope = Scope(only.owner, only.labels)
    limit = within or Scope()
    for name in only.names:
        if not name or is_pattern(name):
            continue
        entry = store.find(name)
        if entry is None or not all(one.contains(entry.owner, entry.task.labels) for one in (scope, limit)):
            seen = scope if within is None else within
            among = store.entries(Filter(owner=seen.owner, labels=seen.labels, most=_NAMES_SEARCHED))
            like = get_close_matches(name, (known.task.name for known in islice(among, _NAMES_SEARCHED)), n=1)
            limits = f" with {scope}" if str(scope) else ""
            raise NotFound(f"there is no task {name!r}{limits}{f'; did you mean {like[0]!r}?' if like else ''}")
