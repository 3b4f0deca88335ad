"""What a message says to people: a subject and a text, made of its document. Short lines, no markup: for phones too."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from evenbeat.core.telling_lines import summary_line, telling_lines
from evenbeat.load.safe_text import escaped_line
from evenbeat.wire.sender_documents import MessageDocument, MessageItem

LINE_LIMIT: Final = 20
"""Items of a digest that the text shows; it counts the others."""
_SUBJECT_LENGTH: Final = 120
_OUTPUT_LENGTH: Final = 500
"""Characters of an output in a message about one problem."""
OUTPUT_LINES: Final = 10
"""Last lines of the output of a task that failed, in a message about it alone."""
_ITEM_LENGTH: Final = 200
"""Characters of an item in a digest."""
_NAME_LENGTH: Final = 256
_COMMENT_LENGTH: Final = 300
_LINK_LENGTH: Final = 2_000
_TOLD_SHOWN: Final = 20
_CONDITIONS: Final = {"failed": "failing", "stale": "without a result", "long": "running too long"}
"""What is wrong with a task, by cause, if that is not the state of a check; after "it is"."""
_HEADLINES: Final = {"failed": "failed", "stale": "result missing"}
"""The same in front of a name, where that differs."""
_SEVERITY: Final = ("critical", "unknown", "warning", "ok")
_KINDS: Final = ("problem", "acknowledged", "recovery")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def subject_of(document: MessageDocument) -> str:
    """One line without control characters, at most 120 characters."""
    if document.test:
        subject = f"Test message to {_line(document.contact)}"
    elif len(document.items) == 1 and not document.more:
        subject = _headline(document.items[0])
    else:
        names = ", ".join(_line(item.task) for item in _sorted(document.items)[:LINE_LIMIT])
        subject = f"{_counts(document)}: {names}" if names else _counts(document)
    return _cut(subject, _SUBJECT_LENGTH)


def text_of(document: MessageDocument) -> str:
    """The text: what, since when, the output, who else was told, how to acknowledge, and the link to the page."""
    if document.test:
        name = _line(document.contact)
        lines = [f"This is a test message to {name}. Messages about problems will arrive here.", ""]
    elif len(document.items) == 1 and not document.more:
        lines = _one_item(document.items[0], document)
    else:
        lines = _digest(document)
    if document.link:
        lines.append(_line(document.link, _LINK_LENGTH))
    if document.possible_repetition:
        lines.append("You may have got this message before: its first delivery did not end properly.")
    while lines[-1] == "":
        lines.pop()
    return "\n".join(lines) + "\n"


def summary_of(item: MessageItem) -> str:
    """The line of an output that says what is wrong: of a plugin the first, of any other command the last."""
    line = summary_line(item.output, is_check=item.cause == "state", has_failed=True)
    # Performance data of a plugin follow a |, and are for programs.
    return line.partition("|")[0].rstrip() if item.cause == "state" else line


def condition_of(item: MessageItem) -> str:
    """What is wrong, after "it is": CRITICAL, failing, without a result."""
    return _CONDITIONS.get(item.cause, item.state.upper())


def worst_item(items: Sequence[MessageItem]) -> MessageItem:
    """The one that matters most."""
    return _sorted(items)[0]


def counts_of(items: Sequence[MessageItem], more: int = 0) -> str:
    """ "2 problems, 1 recovery"."""
    counts = Counter(item.kind for item in items)
    words = [
        (counts["problem"], "problem", "problems"),
        (counts["acknowledged"], "acknowledged", "acknowledged"),
        (counts["recovery"], "recovery", "recoveries"),
        (more, "more", "more"),
    ]
    return ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in words if count) or "no problems"


def _one_item(item: MessageItem, document: MessageDocument) -> list[str]:
    name = _line(item.task, _NAME_LENGTH)
    condition = condition_of(item)
    lasted = f" ({span})" if (span := _span(item.since, item.closed or document.created)) else ""
    lines = []
    match item.kind:
        case "recovery":
            now = "is fine again" if not item.reason else f"is no problem any more: {_line(item.reason)}"
            lines.append(f"{name} {now}.")
            lines.append(f"It had been {condition} since {_time(item.since)}{lasted}.")
        case "acknowledged":
            by = f" by {_line(item.who)}" if item.who else ""
            lines.append(f"{name}: the problem was acknowledged{by}.")
            if item.comment:
                lines.append(_line(item.comment, _COMMENT_LENGTH))
            lines.append(f"It has been {condition} since {_time(item.since)}{lasted}.")
        case _:
            words = f"is still {condition}," if item.reminder else f"has been {condition}"
            lines.append(f"{name} {words} since {_time(item.since)}{lasted}.")
    if item.flapping:
        lines.append("It is flapping: its state changes again and again.")
    if output := _output_lines(item):
        lines += ["", *output]
    lines.append("")
    if item.told:
        lines.append(f"Also told: {_names(item.told)}")
    if item.acknowledge:
        lines.append(f"To acknowledge: {_line(item.acknowledge, 2 * _NAME_LENGTH)}")
    return lines


def _output_lines(item: MessageItem) -> list[str]:
    """The line that says what is wrong; of a task that has just failed, its last lines."""
    if item.kind != "problem" or item.cause != "failed":
        line = summary_of(item)
        return [_line(line, _OUTPUT_LENGTH)] if line else []
    lines, _, _ = telling_lines(item.output, OUTPUT_LINES, is_check=False, has_failed=True)
    return [_cut(escaped_line(line[: 4 * _OUTPUT_LENGTH].rstrip()), _OUTPUT_LENGTH) for line in lines if line.strip()]


def _digest(document: MessageDocument) -> list[str]:
    items = _sorted(document.items)
    lines = [f"{_counts(document)}:", ""]
    lines += [_cut(_headline(item), _ITEM_LENGTH) for item in items[:LINE_LIMIT]]
    if left := len(items) - LINE_LIMIT + document.more if len(items) > LINE_LIMIT else document.more:
        lines.append(f"... and {left:,} more")
    lines.append("")
    if told := list(dict.fromkeys(name for item in items for name in item.told)):
        lines.append(f"Also told: {_names(told)}")
    if any(item.acknowledge for item in items):
        lines.append("To acknowledge: evenbeat ack NAME...")
    return lines


def _headline(item: MessageItem) -> str:
    """An item in one line."""
    name = _line(item.task, _NAME_LENGTH)
    condition = condition_of(item)
    if item.kind == "recovery":
        if item.reason:
            return f"Closed: {name} ({_line(item.reason)}; it was {condition})"
        span = _span(item.since, item.closed)
        return f"OK: {name} (it was {condition}{f' for {span}' if span else ''})"
    flapping = ", flapping" if item.flapping else ""
    if item.kind == "acknowledged":
        by = f" by {_line(item.who)}" if item.who else ""
        comment = f": {_line(item.comment, _COMMENT_LENGTH)}" if item.comment else ""
        return f"Acknowledged{by}: {name} ({condition}{flapping}){comment}"
    words = f"still {condition}" if item.reminder else _HEADLINES.get(item.cause, condition)
    words += flapping
    output = summary_of(item)
    return f"{words[:1].upper()}{words[1:]}: {name}{f' - {_line(output, _OUTPUT_LENGTH)}' if output else ''}"


def _sorted(items: Sequence[MessageItem]) -> list[MessageItem]:
    """Problems first, the worst in front."""
    return sorted(items, key=lambda item: (_KINDS.index(item.kind), _SEVERITY.index(item.state)))


def _counts(document: MessageDocument) -> str:
    return counts_of(document.items, document.more)


def _names(told: Sequence[str]) -> str:
    shown = ", ".join(_line(name) for name in told[:_TOLD_SHOWN])
    left = len(told) - _TOLD_SHOWN
    return f"{shown} and {left:,} more" if left > 0 else shown


def _line(text: str, length: int = 100) -> str:
    """Text of others, in one line, short and without control characters."""
    return _cut(escaped_line(" ".join(text[: 4 * length].split())), length)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3].rstrip() + "..."


def _time(text: str) -> str:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _line(text)
    zone = "UTC" if time.utcoffset() in (None, UTC.utcoffset(None)) else time.strftime("%z")
    return f"{time:%Y-%m-%d %H:%M} {zone}"


def _span(since: str, until: str | None) -> str:
    """How long that is, in words; "" if it is not known."""
    try:
        seconds = (datetime.fromisoformat(until or "") - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return ""
    if seconds < 0:
        return ""
    for size, unit in _UNITS:
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            smaller = next(((int(rest // s), u) for s, u in _UNITS if s < size), (0, ""))
            return f"{int(whole)} {unit}" + (f" {smaller[0]} {smaller[1]}" if smaller[0] else "")
    return f"{int(seconds)} s"
