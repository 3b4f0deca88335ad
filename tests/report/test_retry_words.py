"""What people and programs read of a task that tries again."""

from typing import Any

import pytest
from hand_driven_node import T0, HandDrivenNode

from evenbeat.cli.output.task_words import condition_words
from evenbeat.model import HOUR, MINUTE, SECOND, Outcome
from evenbeat.report.documents import run_document, task_document
from evenbeat.report.why import explain
from evenbeat.report.words import run_words
from evenbeat.when.zone import zone

NOON = T0 + 12 * HOUR


@pytest.fixture
def driven() -> HandDrivenNode:
    """A run that was due at noon has failed, and tries again within a minute."""
    driven = HandDrivenNode()
    driven.add("a", cron="0 12 * * *", second=0, retries=3, backoff="1m")
    driven.turn(12 * HOUR)
    driven.end("a", Outcome.FAILED, 75, output=b"no disk")
    driven.turn()
    return driven


def document(driven: HandDrivenNode) -> dict[str, Any]:
    return task_document(driven.condition("a"), secrets=True)


def test_ls_says_which_attempt_is_next(driven: HandDrivenNode) -> None:
    assert condition_words(driven.condition("a")) == ("failed, attempt 2 of 4 is next", "yellow")


def test_the_document_says_when(driven: HandDrivenNode) -> None:
    retry = document(driven)["retry"]
    assert (retry["attempt"], retry["attempts"]) == (2, 4)
    assert retry["at"] == document(driven)["next"]
    assert "2024-10-04T12:00:45" <= retry["at"] <= "2024-10-04T12:01"


def test_a_retry_that_runs_is_not_to_come(driven: HandDrivenNode) -> None:
    driven.turn(MINUTE)
    assert document(driven)["retry"] is None


def test_neither_is_one_of_a_check() -> None:
    driven = HandDrivenNode()
    driven.add("a", check=True, every="1h", phase="0s", retry="1m")
    driven.turn(HOUR)
    driven.end("a", Outcome.FAILED, 2)
    driven.turn()
    assert document(driven)["retry"] is None


def test_why_names_the_run_that_is_tried_again(driven: HandDrivenNode) -> None:
    answer = explain(driven.store, "a", None, driven.clock.now(), lambda _: (True, None))
    assert answer.answer.startswith("a runs next on Fri 2024-10-04 12:00:")
    assert "that is attempt 2 of 4 of the run that was due Fri 2024-10-04 12:00:00+00:00" in answer.reasons[1]


def test_and_of_a_past_attempt_it_says_which_it_was(driven: HandDrivenNode) -> None:
    driven.turn(MINUTE)
    driven.end("a")
    driven.turn(SECOND)
    answer = explain(driven.store, "a", "2024-10-04T12:01", driven.clock.now(), lambda _: (True, None))
    assert "that run was attempt 2 of the run that was due Fri 2024-10-04 12:00:00+00:00" in answer.reasons
    assert not [reason for reason in answer.reasons if "after it was due" in reason]


def test_history_says_which_attempt_each_run_was(driven: HandDrivenNode) -> None:
    driven.turn(MINUTE)
    driven.end("a")
    driven.turn(SECOND)
    second, first = driven.store.runs()
    assert (run_document(second)["attempt"], run_document(first)["attempt"]) == (2, None)
    assert run_words(second, zone("UTC")).endswith("succeeded at attempt 2")


def test_metrics_count_attempts_that_were_made(driven: HandDrivenNode) -> None:
    assert driven.lifecycle.retries.begun_count == 0
    driven.turn(MINUTE)
    assert driven.lifecycle.retries.begun_count == 1
    late = driven.turns.counts.lateness
    driven.end("a")
    driven.turn()
    assert len(late) == 1, "a retry is not late because its nominal time has passed"
