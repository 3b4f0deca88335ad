"""The address of a queue."""

import pytest

from evenbeat.model import Invalid
from evenbeat.queue.nats.address import parse_queue_address, subject_token


def test_servers_and_prefix_are_read() -> None:
    where = parse_queue_address("nats://one:4222,two:5222,three/site-1", 3)
    assert where.urls == ["nats://one:4222", "nats://two:5222", "nats://three:4222"]
    assert (where.prefix, where.replicas, where.stream) == ("site-1", 3, "site-1-runs")
    assert parse_queue_address("tls://[::1]:4222").urls == ["tls://[::1]:4222"]
    assert parse_queue_address("nats://one").prefix == "evenbeat"


def test_users_and_tokens_are_read_and_never_shown() -> None:
    with_user = parse_queue_address("nats://me:p%40ss@one:4222/p")
    assert (with_user.user, with_user.password, with_user.token) == ("me", "p@ss", "")
    with_token = parse_queue_address("nats://s3cret@one:4222")
    assert (with_token.user, with_token.token) == ("", "s3cret")
    for where in (with_user, with_token):
        for shown in (str(where), repr(where), f"{where}", *where.urls):
            assert "p@ss" not in shown
            assert "s3cret" not in shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "one:4222",
        "http://one:4222",
        "nats://",
        "nats://one:0",
        "nats://one:65536",
        "nats://one:x",
        "nats://one,,two",
        "nats://one two",
        "nats://one/a.b",
        "nats://one/" + "a" * 65,
        "nats://me:s3cret@one/a/b",
        "nats://me:s3cret@a b",
        "nats://" + "a" * 5_000,
        "nats://" + ",".join(["one"] * 33),
    ],
)
def test_what_is_no_queue_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(Invalid, match="accepted") as refusal:
        parse_queue_address(url)
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize("replicas", [0, 6])
def test_replicas_have_their_limits(replicas: int) -> None:
    with pytest.raises(Invalid, match="accepted: 1 to 5"):
        parse_queue_address("nats://one", replicas)


def test_names_of_pools_become_parts_of_subjects() -> None:
    assert subject_token("site_1-a") == "site_1-a"
    odd = ["a.b", "a b", "*", ">", "köln", "", "x" * 65, "x--1"]
    tokens = [subject_token(name) for name in odd]
    assert len(set(tokens)) == len(odd)
    assert all(token.startswith("x--") and set(token[3:]) <= set("0123456789abcdef") for token in tokens)


@pytest.mark.parametrize("secret", ["", "to%20ken@", "me:p%40ss%2Fword@", "me:@"])
def test_the_whole_of_it_is_read_as_the_same(secret: str) -> None:
    where = parse_queue_address(f"tls://{secret}a:1,b:2/prefix")
    assert parse_queue_address(where.url_with_secrets) == where
