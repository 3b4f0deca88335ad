"""Write a configuration for nats-server: one user for the schedulers, and one per pool that sees no other pool's
runs."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from evenbeat.queue.nats.address import QueueAddress, subject_token


class NatsUser(NamedTuple):
    """A user of the NATS servers."""

    name: str
    secret: str
    """A password, or a public nkey."""
    is_nkey: bool = False


class NatsTls(NamedTuple):
    """Files that the server needs for TLS."""

    certificate: str
    key: str
    authority: str = ""
    """The authority of client certificates; "" if clients need none."""


SCHEDULER_USER = "scheduler"


def pool_user(pool: str) -> str:
    """The user of the workers of a pool."""
    return f"pool-{subject_token(pool)}"


def nats_config(
    address: QueueAddress,
    scheduler: NatsUser,
    pools: Sequence[tuple[str, NatsUser]],
    listen: str,
    store: str,
    tls: NatsTls | None = None,
) -> str:
    """The text of the file. The server refuses everything that it does not allow."""
    users = [_user(scheduler, _of_schedulers(address))]
    users += [_user(user, _of_pool(address, pool, user.name)) for pool, user in pools]
    lines = [f"listen: {json.dumps(listen)}", f"jetstream {{ store_dir: {json.dumps(store)} }}"]
    if tls is not None:
        files = {"cert_file": tls.certificate, "key_file": tls.key, "ca_file": tls.authority}
        inside = [f"  {key}: {json.dumps(file)}" for key, file in files.items() if file]
        lines += ["tls {", *inside, *(["  verify: true"] if tls.authority else []), "}"]
    return "\n".join([*lines, "authorization {", "  users = [", *users, "  ]", "}", ""])


def _of_schedulers(address: QueueAddress) -> tuple[list[str], list[str]]:
    """Schedulers send all runs and receive all results."""
    everything = f"{address.prefix}.>"
    publish = [everything, "$JS.API.>", f"$JS.ACK.{address.stream}.>"]
    return publish, [everything, f"_INBOX.{SCHEDULER_USER}.>"]


def _of_pool(address: QueueAddress, pool: str, user: str) -> tuple[list[str], list[str]]:
    """Workers fetch runs of their pool, send requests and reports to schedulers, and receive only their own messages.

    Only schedulers publish runs; messages of other pools cannot be fetched, read or subscribed to.
    """
    stream, consumer = address.stream, address.consumer(pool)
    publish = [
        f"$JS.API.CONSUMER.CREATE.{stream}.{consumer}.{address.runs(pool)}",
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}",
        f"$JS.ACK.{stream}.{consumer}.>",
        address.nodes,
        address.node("*"),
    ]
    return publish, [address.worker(f"{user}.>"), f"_INBOX.{user}.>"]


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
