"""References to secrets are read when a message is delivered; errors name the reference, and never the value."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_messages import order

from evenbeat.model import Contact
from evenbeat.sender.attempt import Attempt
from evenbeat.sender.references import SecretScrubber, read_reference

SECRET = "Zm9v-s3cr3t-0123456789"


def test_what_is_no_reference_is_the_value_itself() -> None:
    assert read_reference("https://example.org/x", "webhook") == "https://example.org/x"


def test_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", f"{SECRET}\n")
    assert read_reference("env:KEY", "secret") == SECRET
    monkeypatch.delenv("KEY")
    with pytest.raises(ValueError, match=r"^secret: the node has no variable KEY in its environment"):
        read_reference("env:KEY", "secret")


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"{SECRET}\r\n")
    assert read_reference(f"file:{path}", "secret") == SECRET


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (SECRET.encode() + b"\nX: y", "control characters or more than one line"),
        (SECRET.encode() + b"\x00", "control characters"),
        (b"\xff\xfe", "not UTF-8"),
        (SECRET.encode() * 1_000, "longer than 10000 bytes"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=problem) as refused:
        read_reference(f"file:{path}", "secret")
    assert str(path) in str(refused.value)
    assert SECRET not in str(refused.value)


def test_what_is_no_file_does_not_stop_the_sender(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "not a regular"),
        (tmp_path / "no", "no such"),
    ):
        with pytest.raises(ValueError, match=problem):
            read_reference(f"file:{path}", "secret")


@pytest.mark.parametrize(
    "url",
    [
        f"https://hooks.example.org/services/{SECRET}",
        f"https://bot:{SECRET}@example.org/",
        f"https://{SECRET}@example.org/",
        f"https://example.org/?token={SECRET}",
        f"slack://{SECRET}/channel",
        f"tgram://{SECRET}/123",
        f"discord://1234567/{SECRET}",
        f"mailto://user:{SECRET}@gmail.com",
    ],
)
def test_the_secret_part_of_a_url_is_removed_wherever_it_is_repeated(url: str) -> None:
    scrubber = SecretScrubber()
    scrubber.add(url)
    said = scrubber.scrub(f"POST {url} failed: {SECRET}, {SECRET.lower() if '://' + SECRET in url else ''} refused")
    assert SECRET not in said
    assert "refused" in said


def test_an_attempt_hides_the_host_of_a_reference_and_shows_that_of_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://intern.example.org/x")
    attempt = Attempt(order(Contact(webhook="env:HOOK")))
    attempt.resolve("env:HOOK", "webhook")
    assert attempt.quote("no route to intern.example.org") == "no route to ***"
    attempt = Attempt(order(Contact(webhook="https://intern.example.org/x")))
    attempt.resolve("https://intern.example.org/x", "webhook")
    assert attempt.quote("no route to intern.example.org") == "no route to intern.example.org"


def test_of_a_reference_the_host_is_secret_too() -> None:
    scrubber = SecretScrubber()
    scrubber.add("https://intern.example.org/x", with_host=True)
    assert scrubber.scrub("cannot reach intern.example.org") == "cannot reach ***"


@given(st.text(min_size=5).filter(lambda text: text == text.strip()), st.text())
def test_no_form_of_a_secret_is_left(secret: str, around: str) -> None:
    scrubber = SecretScrubber()
    scrubber.add(secret)
    for form in (secret, quote(secret, safe="")):
        assert secret not in scrubber.scrub(f"{around}{form}").replace("***", "")
