"""What a message says: plain words in short lines, bounded, and free of control characters whatever outputs contain."""

import re
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from sample_messages import LINK, document, item

from evenbeat.load.safe_text import text_error
from evenbeat.sender.nagios_macros import message_variables
from evenbeat.sender.text import subject_of, text_of
from evenbeat.wire.sender_documents import MessageDocument, MessageItem, message_decoder


def lines(message: MessageDocument) -> list[str]:
    return text_of(message).splitlines()


def test_a_reminder() -> None:
    message = document(item(reminder=True, flapping=True))
    assert subject_of(message) == "Still CRITICAL, flapping: web1/http - HTTP CRITICAL - connection refused"
    assert lines(message)[:2] == [
        "web1/http is still CRITICAL, since 2026-11-19 00:41 UTC (2 h 4 min).",
        "It is flapping: its state changes again and again.",
    ]


def test_a_recovery() -> None:
    message = document(item(kind="recovery", output="HTTP OK", closed="2026-11-19T00:53:02.500000+00:00"))
    assert subject_of(message) == "OK: web1/http (it was CRITICAL for 12 min)"
    assert lines(message) == [
        "web1/http is fine again.",
        "It had been CRITICAL since 2026-11-19 00:41 UTC (12 min).",
        "",
        "HTTP OK",
        "",
        LINK,
    ]


def test_a_recovery_for_another_reason() -> None:
    message = document(item(kind="recovery", reason="removed", output=""))
    assert subject_of(message) == "Closed: web1/http (removed; it was CRITICAL)"
    assert lines(message)[0] == "web1/http is no problem any more: removed."


def test_an_acknowledgement() -> None:
    message = document(item(kind="acknowledged", who="anna", comment="new disk\nis coming"))
    assert subject_of(message) == "Acknowledged by anna: web1/http (CRITICAL): new disk is coming"
    assert lines(message)[:3] == [
        "web1/http: the problem was acknowledged by anna.",
        "new disk is coming",
        "It has been CRITICAL since 2026-11-19 00:41 UTC (2 h 4 min).",
    ]


def test_of_a_task_that_failed_the_last_line_counts_and_of_a_plugin_the_first() -> None:
    output = "Traceback:\n  line 1 | x\nValueError: no disk | really\n\n"
    assert subject_of(document(item("backup", cause="failed", output=output))) == (
        "Failed: backup - ValueError: no disk | really"
    )
    assert subject_of(document(item("disk", output="DISK OK|a=1\nlong"))) == "CRITICAL: disk - DISK OK"


def test_a_task_that_failed() -> None:
    one = {"task": "backup", "cause": "failed", "output": "disk full"}
    assert lines(document(item(**one)))[0] == "backup has been failing since 2026-11-19 00:41 UTC (2 h 4 min)."
    assert subject_of(document(item(**one, reminder=True))) == "Still failing: backup - disk full"
    closed = "2026-11-19T00:42:02.500000+00:00"
    assert subject_of(document(item(**one, kind="recovery", closed=closed))) == "OK: backup (it was failing for 1 min)"


def test_a_task_that_has_just_failed_shows_its_last_lines() -> None:
    output = "".join(f"step {i}\n" for i in range(50)) + "  \x1b[31mdisk full\n\n"
    told = lines(document(item("backup", cause="failed", output=output)))
    assert told[1:12] == ["", *(f"step {i}" for i in range(41, 50)), r"  \x1b[31mdisk full"]
    again = lines(document(item("backup", cause="failed", output=output, kind="recovery")))
    assert not any(line.startswith("step") for line in again)


def test_other_causes_have_words_of_their_own() -> None:
    assert subject_of(document(item("backup", cause="stale", output=""))) == "Result missing: backup"
    assert subject_of(document(item("backup", cause="long", output=""))) == "Running too long: backup"


def test_a_test_message() -> None:
    message = document(test=True, items=[])
    assert subject_of(message) == "Test message to ops"
    assert lines(message) == ["This is a test message to ops. Messages about problems will arrive here.", "", LINK]


def test_times_keep_their_zone() -> None:
    message = document(item(since="2026-11-19T01:41:02+01:00", told=["a", "b"]), created=None, link="")
    assert lines(message)[0] == "web1/http has been CRITICAL since 2026-11-19 01:41 +0100."
    assert lines(message)[-1] == "Also told: a, b"


def test_a_digest_begins_with_the_worst() -> None:
    message = document(
        item("a", kind="recovery", closed="2026-11-19T00:41:32.5+00:00"),
        item("b", state="warning", output="slow", told=["boss"], acknowledge="evenbeat ack b"),
        item("c", state="critical", output="down"),
        item("d", state="unknown", output="?"),
        item("e", kind="acknowledged", who="anna"),
        more=0,
    )
    assert subject_of(message) == "3 problems, 1 acknowledged, 1 recovery: c, d, b, e, a"
    assert lines(message) == [
        "3 problems, 1 acknowledged, 1 recovery:",
        "",
        "CRITICAL: c - down",
        "UNKNOWN: d - ?",
        "WARNING: b - slow",
        "Acknowledged by anna: e (CRITICAL)",
        "OK: a (it was CRITICAL for 30 s)",
        "",
        "Also told: boss",
        "To acknowledge: evenbeat ack NAME...",
        LINK,
    ]


def test_a_digest_has_twenty_lines_a_count_and_a_link() -> None:
    message = document(*(item(f"check {n:05}") for n in range(10_000)), more=2_345)
    said = lines(message)
    assert said[0] == "10,000 problems, 2,345 more:"
    assert [line[:21] for line in said[2:22]] == [f"CRITICAL: check {n:05}" for n in range(20)]
    assert said[22:] == ["... and 12,325 more", "", LINK]


def test_one_item_of_many_is_a_digest_too() -> None:
    assert subject_of(document(item(), more=4)) == "1 problem, 4 more: web1/http"
    assert lines(document(item(), more=4))[3] == "... and 4 more"


# Whatever a document contains

nasty = st.text(max_size=80) | st.sampled_from(
    ["\x1b[2J", "a\r\nBcc: x@y", "\u202egnp.exe", "x" * 70_000, "\u2028", "\n" * 500, "|", "\x00", "\x9b31m", " \t "]
)
times = st.sampled_from(["2026-11-19T00:41:02+00:00", "1970-01-01T00:00:00Z", "nonsense\x1b", "2026-11-19T00:41:02"])
items: st.SearchStrategy[MessageItem] = st.builds(
    MessageItem,
    kind=st.sampled_from(["problem", "recovery", "acknowledged"]),
    reminder=st.booleans(),
    task=nasty,
    cause=st.sampled_from(["state", "failed", "stale", "long", "node"]),
    state=st.sampled_from(["ok", "warning", "critical", "unknown"]),
    flapping=st.booleans(),
    problem=st.integers(0, 2**62),
    since=times,
    output=nasty,
    labels=st.dictionaries(nasty | st.sampled_from(["host", "service", "site"]), nasty, max_size=3),
    reason=nasty,
    told=st.lists(nasty, max_size=30),
    acknowledge=nasty,
    closed=st.none() | times,
    who=nasty,
    comment=nasty,
)
documents: st.SearchStrategy[MessageDocument] = st.builds(
    MessageDocument,
    message=st.integers(0, 2**62),
    contact=nasty,
    possible_repetition=st.booleans(),
    items=st.lists(items, max_size=25),
    more=st.integers(0, 10**6),
    link=nasty,
    test=st.booleans(),
    created=st.none() | times,
)


@given(documents)
def test_any_document_has_a_bounded_text_without_control_characters(message: MessageDocument) -> None:
    subject, text = subject_of(message), text_of(message)
    assert 0 < len(subject) <= 120
    assert not text_error(subject)
    assert 0 < len(text) < 20_000
    assert text.endswith("\n")
    assert len(text.splitlines()) <= 40
    for line in text.split("\n"):
        assert not text_error(line), line


@given(documents)
def test_any_document_fits_into_an_environment(message: MessageDocument) -> None:
    variables = message_variables(message)
    for name, value in variables.items():
        assert re.fullmatch(r"(NAGIOS|EVENBEAT)_[A-Z0-9_]+", name), name
        assert "\0" not in value
        assert len(value.encode()) < 128 << 10
        assert not text_error(value.replace("\n", "").replace("\t", ""))
        if name.startswith("NAGIOS_"):
            assert "\n" not in value, name


@given(documents)
def test_any_document_is_read_back_as_it_was(message: MessageDocument) -> None:
    assert message_decoder.decode(msgspec.json.encode(message)) == message


def test_older_documents_without_what_was_added_later_are_read() -> None:
    old: dict[str, Any] = msgspec.to_builtins(document())
    for name in ("more", "link", "test", "created"):
        del old[name]
    for name in ("told", "acknowledge", "closed", "who", "comment"):
        del old["items"][0][name]
    assert message_decoder.decode(msgspec.json.encode(old)).items[0].told == []
