"""The line of an output that says most."""

import pytest

from evenbeat.core.telling_lines import SUMMARY_LIMIT, summary_line, telling_lines

TRACEBACK = """reading shop.db
Traceback (most recent call last):
  File "/srv/jobs/report.py", line 7, in main
    total = sum(prices)
TypeError: unsupported operand type(s) for +: 'int' and 'str'
"""


def test_a_job_that_failed_says_it_on_its_last_line() -> None:
    said = summary_line(TRACEBACK, is_check=False, has_failed=True)
    assert said == "TypeError: unsupported operand type(s) for +: 'int' and 'str'"


def test_a_plugin_says_it_on_its_first_line() -> None:
    output = "DISK CRITICAL - 2 % free | /=98%\n/var 98 %\n/home 3 %\n"
    assert summary_line(output, is_check=True, has_failed=True) == "DISK CRITICAL - 2 % free | /=98%"


def test_a_plugin_that_an_exception_ended_says_it_on_its_last_line() -> None:
    output = TRACEBACK.partition("\n")[2]
    assert summary_line(output, is_check=True, has_failed=True).startswith("TypeError: ")
    assert summary_line(TRACEBACK, is_check=True, has_failed=True) == "reading shop.db"


def test_a_success_says_it_on_its_first_line() -> None:
    assert summary_line("\n\n  12 rows copied \nbye\n", is_check=False, has_failed=False) == "12 rows copied"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("no newline at the end", "no newline at the end"),
        ("one\nfatal: no such branch\n\n\n", "fatal: no such branch"),
        ("disk is full\n+---------\n", "disk is full"),
        ("---\n+++\n", "+++"),
        (" 10 %\r 20 %\rbroken pipe\r\n", "broken pipe"),
    ],
)
def test_empty_lines_and_lines_of_signs_say_nothing(output: str, said: str) -> None:
    assert summary_line(output, is_check=False, has_failed=True) == said


def test_the_line_has_a_bound() -> None:
    assert len(summary_line("x" * 100_000, is_check=False, has_failed=True)) == SUMMARY_LIMIT
    assert len(summary_line("x" * 100_000, is_check=False, has_failed=False)) == SUMMARY_LIMIT


def test_of_a_long_output_the_lines_at_its_telling_end_are_shown() -> None:
    output = "".join(f"line {i}\n" for i in range(100))
    assert telling_lines(output, 2, is_check=False, has_failed=True) == (["line 98", "line 99"], 98, 0)
    assert telling_lines(output, 2, is_check=True, has_failed=True) == (["line 0", "line 1"], 0, 98)
    assert telling_lines("one\ntwo\n", 2, is_check=False, has_failed=True) == (["one", "two"], 0, 0)


def test_what_a_program_had_in_a_buffer_comes_after_its_traceback() -> None:
    output = TRACEBACK + "row\n" * 100
    assert summary_line(output, is_check=False, has_failed=True).startswith("TypeError: ")
    shown = telling_lines(output, 10, is_check=False, has_failed=True)
    assert "TypeError: unsupported operand type(s) for +: 'int' and 'str'" in shown.lines
    assert shown.before + len(shown.lines) + shown.after == 105


def test_of_several_tracebacks_the_last_one_counts() -> None:
    output = (
        f"{TRACEBACK}\nDuring handling of the above exception, another exception occurred:\n\n"
        + TRACEBACK.replace("TypeError: ", "shop.Closed: ")
    )
    assert summary_line(output, is_check=False, has_failed=True).startswith("shop.Closed: ")
