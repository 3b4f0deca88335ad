import io
import logging
import re
from collections.abc import Iterator

import pytest

from evenbeat.node.process.log_format import CondensingHandler, KeyValueFormatter


def line(message: str, **extra: object) -> str:
    record = logging.LogRecord("evenbeat.node", logging.WARNING, __file__, 1, message, None, None)
    record.created = 1_800_000_000.25
    record.__dict__.update(extra)
    return KeyValueFormatter().format(record)


def test_a_record_is_one_line_of_keys_and_values() -> None:
    assert line("all is well", action="ready", tasks=3) == (
        'time=2027-01-15T08:00:00.250+00:00 level=warning action=ready message="all is well" tasks=3'
    )


def test_a_value_that_could_be_mistaken_is_quoted() -> None:
    assert line("a", action="x", path='b="c"\nd').endswith(r'message=a path="b=\"c\"\nd"')
    assert line("a", action="x", empty="").endswith('empty=""')


def test_a_record_without_an_action_has_the_name_of_its_logger() -> None:
    assert "action=evenbeat.node " in line("a b")


@pytest.fixture
def condensed() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream = io.StringIO()
    handler = CondensingHandler(stream)
    handler.setFormatter(KeyValueFormatter())
    logger = logging.getLogger("evenbeat.test_of_condensing")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger, stream
    logger.removeHandler(handler)
    handler.close()


def at(logger: logging.Logger, seconds: float, level: int, message: str, **extra: object) -> None:
    record = logger.makeRecord(logger.name, level, "", 0, message, (), None, extra={"action": "a", **extra})
    record.created = seconds
    logger.handle(record)


def messages(stream: io.StringIO) -> list[str]:
    return re.findall(r'message="?([^"\n]*?)"?(?: \w+=\S+)*$', stream.getvalue(), re.MULTILINE)


def test_a_line_that_is_repeated_is_written_once_and_then_counted(
    condensed: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, stream = condensed
    for i in range(1_000):
        at(logger, i / 100, logging.ERROR, "it fails")
    assert messages(stream) == ["it fails"]
    at(logger, 10.5, logging.INFO, "something else")
    assert messages(stream) == ["it fails", "it fails (repeated 999 times)", "something else"]
    assert "repeated=999" in stream.getvalue()
    at(logger, 11, logging.ERROR, "it fails")
    assert messages(stream)[-1] == "it fails"


def test_lines_that_differ_are_all_written(condensed: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = condensed
    for level, message, task in [
        (logging.ERROR, "it fails", "a"),
        (logging.WARNING, "it fails", "a"),
        (logging.ERROR, "it fails", "b"),
        (logging.ERROR, "it fails badly", "a"),
        (logging.INFO, "it runs", "a"),
        (logging.INFO, "it runs", "a"),
    ]:
        at(logger, 1, level, message, task=task)
    assert len(stream.getvalue().splitlines()) == 6


def test_what_was_counted_is_told_at_the_end() -> None:
    stream = io.StringIO()
    handler = CondensingHandler(stream)
    logger = logging.getLogger("evenbeat.test_of_condensing_2")
    logger.addHandler(handler)
    for _ in range(3):
        at(logger, 1, logging.ERROR, "it fails")
    handler.close()
    logger.removeHandler(handler)
    assert stream.getvalue().splitlines() == ["it fails", "it fails (repeated 2 times)"]
