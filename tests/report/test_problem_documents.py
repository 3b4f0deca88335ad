"""Problems as documents, in words, and page by page: only an acknowledgement that counts is shown."""

from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problem_seeds import seed_problem

from evenbeat.client.http_documents import UNKNOWN_NUMBER, to_problem_record
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import SECOND, Acknowledgement, Cause, Instant, State
from evenbeat.report.problems import (
    count_problems,
    has_acknowledgement,
    note_document,
    problem_document,
    problem_sentence,
    read_problems,
)
from evenbeat.store.contract import ProblemFilter
from evenbeat.store.memory import MemoryStore
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.testing.samples import T0
from evenbeat.when.zone import zone
from evenbeat.wire.documents import AcknowledgementDocument, ProblemNoteDocument, ProblemOfTask, ProblemWithNotes

NOW: Final = Instant(T0 + 10 * SECOND)
UTC: Final = zone("UTC")


def a_problem(**keys: object) -> ProblemRecord:
    known = {"id": 7, "number": 3, "task": "web", "cause": Cause.STATE, "opened": T0, "since": Instant(T0 + SECOND)}
    return ProblemRecord(**{**known, "state": State.CRITICAL, "worst": State.CRITICAL, **keys})  # type: ignore[arg-type]


def an_ack(**keys: object) -> Acknowledgement:
    return Acknowledgement(**{"at": T0, "who": "eva", "severity": 3, "worst_since": 3, **keys})  # type: ignore[arg-type]


def test_documents_have_the_shape_that_the_reference_describes() -> None:
    held = {"hold": "downtime", "held_since": NOW, "downtime": True, "passive": True}
    problem = a_problem(output="\n  no answer \nmore", acknowledgement=an_ack(comment="hm"), **held)
    document = problem_document(problem, NOW)
    assert list(document) == list(ProblemOfTask.__struct_fields__)
    assert {*document, "notes", "timeline"} == set(ProblemWithNotes.__struct_fields__)
    assert (document["hold"], document["held_since"]) == ("downtime", "2027-01-15T08:00:10+00:00")
    assert problem_document(a_problem(), NOW).keys() == document.keys() - held.keys()
    assert list(document["acknowledged"]) == list(AcknowledgementDocument.__struct_fields__)
    assert document["acknowledged"]["by"] == "eva"
    assert (document["state"], document["worst"], document["output"]) == ("critical", "critical", "no answer")
    assert (document["opened"], document["since"]) == ("2027-01-15T08:00:00+00:00", "2027-01-15T08:00:01+00:00")
    note = note_document(ProblemNote(NOW, "eva", "commented", "hm"))
    assert list(note) == list(ProblemNoteDocument.__struct_fields__)


def test_problems_of_checks_that_have_nothing_to_run_say_so() -> None:
    store = MemoryStore()
    keys = {"every": "1m", "passive": True}
    for name, more in (("door", {}), ("window", {"command": ["true"]})):
        seed_problem(store, name)
        entry = store.find(name)
        assert entry is not None
        store.update([(entry.number, task_from_table(name, {**keys, **more}, check=True))], T0)
    found = {problem.task: problem_document(problem, NOW) for problem in read_problems(store, ProblemFilter(), NOW)}
    assert {name: document.get("passive") for name, document in found.items()} == {"door": True, "window": None}


@pytest.mark.parametrize(
    ("ack", "closed", "counts"),
    [
        (None, None, False),
        (an_ack(), None, True),
        (an_ack(until=NOW), None, False),
        (an_ack(until=Instant(NOW + 1)), None, True),
        (an_ack(until=NOW), Instant(NOW - 1), True),
        (an_ack(severity=1, worst_since=3), None, False),
        (an_ack(severity=1, worst_since=3, sticky=True), None, True),
        (an_ack(until=NOW, sticky=True), None, False),
    ],
)
def test_only_an_acknowledgement_that_counts_is_shown(
    ack: Acknowledgement | None, closed: Instant | None, counts: bool
) -> None:
    problem = a_problem(acknowledgement=ack, closed=closed)
    assert has_acknowledgement(problem, NOW) is counts
    assert (problem_document(problem, NOW)["acknowledged"] is not None) is counts
    assert ("acknowledged by eva" in problem_sentence(problem, NOW, UTC)) is counts


@pytest.mark.parametrize(("cause", "said"), [(Cause.STATE, "DISK CRITICAL"), (Cause.FAILED, "disk full")])
def test_the_summary_is_the_first_line_of_a_check_and_the_last_one_of_a_task_that_failed(
    cause: Cause, said: str
) -> None:
    assert problem_document(a_problem(cause=cause, output="DISK CRITICAL\n\ndisk full\n"), NOW)["output"] == said


def test_a_sentence_says_since_when_and_who_takes_care() -> None:
    assert problem_sentence(a_problem(flapping=True), NOW, UTC) == (
        "open problem 7: CRITICAL, flapping since Fri 2027-01-15 08:00:01+00:00, opened Fri 2027-01-15 08:00:00+00:00, "
        "not acknowledged"
    )
    failing = a_problem(cause=Cause.FAILED, since=T0, acknowledgement=an_ack(comment="on it\nsoon", until=FAR))
    assert problem_sentence(failing, NOW, UTC) == (
        "open problem 7: failing since Fri 2027-01-15 08:00:00+00:00, "
        "acknowledged by eva until Fri 2027-01-15 09:00:00+00:00: on it"
    )


def test_a_sentence_says_why_nobody_is_notified() -> None:
    held = a_problem(since=T0, hold="downtime", held_since=NOW)
    assert problem_sentence(held, NOW, UTC) == (
        "open problem 7: CRITICAL since Fri 2027-01-15 08:00:00+00:00, not acknowledged; "
        "nobody is notified of it since Fri 2027-01-15 08:00:10+00:00: downtime"
    )


@pytest.mark.parametrize("held", [{}, {"hold": "downtime", "held_since": NOW}])
def test_the_http_client_reads_what_a_node_sends(held: dict[str, object]) -> None:
    problem = a_problem(number=UNKNOWN_NUMBER, **held)
    sent = msgspec.convert(problem_document(problem, NOW), ProblemOfTask)
    assert to_problem_record(sent) == problem


FAR: Final = Instant(T0 + 3_600 * SECOND)


@given(
    taken=st.lists(st.booleans(), max_size=12),
    acknowledged=st.sampled_from([None, True, False]),
    most=st.integers(1, 5),
)
def test_pages_of_acknowledged_and_other_problems_miss_nothing_and_repeat_nothing(
    taken: list[bool], acknowledged: bool | None, most: int
) -> None:
    store = MemoryStore()
    ids = [seed_problem(store, f"task {i}") for i in range(len(taken))]
    store.acknowledge([id_ for id_, is_taken in zip(ids, taken, strict=True) if is_taken], an_ack(), T0, "eva")
    wanted = [
        id_
        for id_, is_taken in reversed(list(zip(ids, taken, strict=True)))
        if acknowledged is None or is_taken is acknowledged
    ]
    found: list[int] = []
    before = None
    while page := read_problems(store, ProblemFilter(before=before, most=most, acknowledged=acknowledged), NOW):
        assert len(page) <= most
        found += (problem.id for problem in page)
        before = found[-1]
    count = count_problems(store, ProblemFilter(before=before, most=most, acknowledged=acknowledged), NOW)
    assert found == wanted
    assert count == len(wanted)
