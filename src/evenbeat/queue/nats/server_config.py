"""A configuration for nats-server: a user for the schedulers, and one for each pool that hears no other pool's work."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from evenbeat.queue.nats.address import QueueAddress, subject_token


class NatsUser(NamedTuple):
    """Somebody who may connect."""

    name: str
    secret: str
    """A password, or the public half of an nkey."""
    is_nkey: bool = False


class NatsTls(NamedTuple):
    """Files that the server needs for TLS."""

    certificate: str
    key: str
    authority: str = ""
    """Of the certificates that clients must show; "" if they need none."""


SCHEDULER_USER = "scheduler"


def pool_user(pool: str) -> str:
    """The user of the workers of a pool."""
    return f"pool-{subject_token(pool)}"


def nats_config(
    where: QueueAddress,
    scheduler: NatsUser,
    pools: Sequence[tuple[str, NatsUser]],
    listen: str,
    store: str,
    tls: NatsTls | None = None,
) -> str:
    """The text of the file. What nobody is allowed here is refused by the server."""
    users = [_user(scheduler, _of_schedulers(where))]
    users += [_user(user, _of_pool(where, pool, user.name)) for pool, user in pools]
    lines = [f"listen: {json.dumps(listen)}", f"jetstream {{ store_dir: {json.dumps(store)} }}"]
    if tls is not None:
        files = {"cert_file": tls.certificate, "key_file": tls.key, "ca_file": tls.authority}
        inside = [f"  {key}: {json.dumps(file)}" for key, file in files.items() if file]
        lines += ["tls {", *inside, *(["  verify: true"] if tls.authority else []), "}"]
    return "\n".join([*lines, "authorization {", "  users = [", *users, "  ]", "}", ""])


def _of_schedulers(where: QueueAddress) -> tuple[list[str], list[str]]:
    """They hand out all work, and hear all results."""
    everything = f"{where.prefix}.>"
    publish = [everything, "$JS.API.>", f"$JS.ACK.{where.stream}.>"]
    return publish, [everything, f"_INBOX.{SCHEDULER_USER}.>"]


def _of_pool(where: QueueAddress, pool: str, user: str) -> tuple[list[str], list[str]]:
    """They fetch what is for their pool, ask and report to schedulers, and hear only what is for them.

    Nobody but schedulers publishes work, and messages of other pools cannot be fetched, read or heard.
    """
    stream, consumer = where.stream, where.consumer(pool)
    publish = [
        f"$JS.API.CONSUMER.CREATE.{stream}.{consumer}.{where.runs(pool)}",
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}",
        f"$JS.ACK.{stream}.{consumer}.>",
        where.nodes,
        where.node("*"),
    ]
    return publish, [where.worker(f"{user}.>"), f"_INBOX.{user}.>"]


def _user(user: NatsUser, allowed: tuple[list[str], list[str]]) -> str:
    publish, subscribe = allowed
    if user.is_nkey:
        who = f"nkey: {user.secret}"
    else:
        who = f"user: {json.dumps(user.name)}, password: {json.dumps(user.secret)}"
    return "\n".join(
        [
            f"    # {user.name}",
            f"    {{ {who}, permissions: {{",
            f"        publish: {{ allow: {json.dumps(publish)} }}",
            f"        subscribe: {{ allow: {json.dumps(subscribe)} }} }} }}",
        ]
    )
