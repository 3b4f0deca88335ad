"""The channels of a contact: each place has its own, and what is shown of a place has no secret."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.channels import channels_of, is_reference, shown_url
from evenbeat.model import Contact

WHOLE = Contact(
    send=("slack://TokenA/TokenB/TokenC", "env:CHAT"),
    webhook="https://ana:pass@hooks.example.org/T0/B0?key=s3",
    command=("/usr/bin/notify", "--key", "s3"),
    email=("ana@example.org", "bo@example.org", "ci@example.org", "di@example.org", "ed@example.org"),
)


def test_every_place_of_a_contact_is_a_channel_of_its_own() -> None:
    channels = channels_of("ops", WHOLE)
    assert [(channel.contact, channel.kind, channel.shown) for channel in channels] == [
        ("ops", "send", "slack://..."),
        ("ops", "send", "env:CHAT"),
        ("ops", "webhook", "https://hooks.example.org"),
        ("ops", "command", "/usr/bin/notify"),
        ("ops", "email", "ana@example.org, bo@example.org, ci@example.org and 2 more"),
    ]
    assert len({channel.key for channel in channels}) == len(channels)
    for channel in channels:
        assert re.fullmatch(rf"ops/{channel.kind}/[0-9a-f]{{8}}", channel.key)
    assert [channel.place for channel in channels[:3]] == [*WHOLE.send, WHOLE.webhook]
    assert [channel.words for channel in channels[3:]] == [WHOLE.command, WHOLE.email]


def test_another_place_is_another_channel_and_other_settings_are_not() -> None:
    def key(**keys: object) -> str:
        return channels_of("ops", Contact(**{"webhook": "https://a/", **keys}))[0].key  # type: ignore[arg-type]

    assert key() == key(per_hour=5, period="nights", secret="env:KEY") != key(webhook="https://b/")
    assert channels_of("boss", Contact(webhook="https://a/"))[0].key != key()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org:8443/a?b#c", "https://example.org"),
        ("https://[::1]:8443/a", "https://::1"),
        ("mailtos://ana:pass@smtp.example.org?to=bo@example.org", "mailtos://smtp.example.org"),
        ("mailto:ana@example.org", "mailto:ana@example.org"),
        ("mailto:ana:pass@example.org", "mailto://..."),
        ("smtp+starttls://ana:pass@mx.example.org:587", "smtp+starttls://mx.example.org"),
        ("tgram://123456:abcdef/42", "tgram://..."),
        ("discord://id/token", "discord://..."),
        # A password with signs that should have been encoded: what looks like the host is a part of it.
        ("mailto://ana:pa/ss@example.org", "mailto://..."),
        ("mailto://ana:p@ss/word@example.org", "mailto://..."),
        ("mailto://ana:p@ss#word@example.org", "mailto://..."),
        ("mailto://ana:p@ss?word@example.org", "mailto://..."),
        ("http://[broken", "http://..."),
        ("file:/etc/evenbeat/url", "file:/etc/evenbeat/url"),
    ],
)
def test_of_a_url_only_scheme_and_host_are_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@given(
    st.sampled_from(["mailto://", "mailtos://", "json://", "https://", "slack://", "tgram://", "nonsense"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="@"), max_size=8),
    st.sampled_from(["/", "?", "#", ":", "@", ""]),
)
def test_no_password_is_shown_whatever_it_looks_like(scheme: str, rest: str, sign: str) -> None:
    url = f"{scheme}ana:s3cret{sign}{rest}@host.example"
    shown = shown_url(url)
    assert is_reference(url) or "s3cret" not in shown
