"""Labels of what is imported: groups, aliases and custom variables of other systems."""

from collections.abc import Iterable

from evenbeat.load.safe_text import text_error
from evenbeat.model import NAME_LIMIT


def add_label(labels: dict[str, str], key: str, value: str, text: str | None = None) -> str:
    """Add a label, if its value is one that labels have; `text` is written in place of it. Returns why not."""
    if not value:
        return "it is empty"
    if problem := _problem(key) or _problem(value):
        return problem
    labels[key] = value if text is None else text
    return ""


def add_group_labels(labels: dict[str, str], kind: str, groups: Iterable[str]) -> None:
    """A label for each group, as a task may be in many: `"hostgroup:web" = "yes"`."""
    for group in sorted(groups):
        key = f"{kind}:{group}"
        if not _problem(key):
            labels[key] = "yes"


def _problem(text: str) -> str:
    if len(text) > NAME_LIMIT:
        return f"{len(text)} characters, accepted: at most {NAME_LIMIT}"
    return text_error(text)
