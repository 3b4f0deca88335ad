import logging

from evenbeat.node.log import KeyValue


def line(message: str, **extra: object) -> str:
    record = logging.LogRecord("evenbeat.node", logging.WARNING, __file__, 1, message, None, None)
    record.created = 1_800_000_000.25
    record.__dict__.update(extra)
    return KeyValue().format(record)


def test_a_record_is_one_line_of_keys_and_values() -> None:
    assert line("all is well", action="ready", tasks=3) == (
        'time=2027-01-15T08:00:00.250+00:00 level=warning action=ready message="all is well" tasks=3'
    )


def test_a_value_that_could_be_mistaken_is_quoted() -> None:
    assert line("a", action="x", path='b="c"\nd').endswith(r'message=a path="b=\"c\"\nd"')
    assert line("a", action="x", empty="").endswith('empty=""')


def test_a_record_without_an_action_has_the_name_of_its_logger() -> None:
    assert "action=evenbeat.node " in line("a b")
