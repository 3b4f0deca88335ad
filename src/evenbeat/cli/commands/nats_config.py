"""`evenbeat nats-config`: a configuration for nats-server that keeps the work of each pool private."""

import argparse
import os
import secrets
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

from evenbeat.cli.output.common import print_json
from evenbeat.model import Invalid
from evenbeat.queue.nats.address import DEFAULT_PREFIX, parse_queue_address
from evenbeat.queue.nats.identity import new_nkey, public_nkey
from evenbeat.queue.nats.server_config import SCHEDULER_USER, NatsTls, NatsUser, nats_config, pool_user
from evenbeat.wire.cluster_messages import DEFAULT_POOL

_MAX_POOLS: Final = 1_000
_KEY: Final = 32


def run_command(args: argparse.Namespace) -> int:
    """Print the configuration, with new passwords or with nkeys whose seeds are written to files; exit 0."""
    pools = tuple(dict.fromkeys(args.pools)) or (DEFAULT_POOL,)
    if len(pools) > _MAX_POOLS:
        raise Invalid(f"{len(pools)} pools, accepted: at most {_MAX_POOLS}", place="--pool")
    if bool(args.tls_cert) is not bool(args.tls_key) or (args.tls_ca and not args.tls_cert):
        raise Invalid("TLS needs --tls-cert and --tls-key, and --tls-ca to require client certificates")
    tls = NatsTls(args.tls_cert, args.tls_key, args.tls_ca or "") if args.tls_cert else None
    scheme = "nats" if tls is None else "tls"
    where = parse_queue_address(f"{scheme}://{args.server}/{args.prefix or DEFAULT_PREFIX}")
    folder = None if args.nkeys is None else Path(args.nkeys)
    users: dict[str, NatsUser] = {}
    urls: dict[str, str] = {}
    for name in (SCHEDULER_USER, *map(pool_user, pools)):
        users[name], urls[name] = _new_user(name, folder, f"{scheme}://", f"{','.join(where.servers)}/{where.prefix}")
    text = nats_config(
        where,
        users[SCHEDULER_USER],
        [(pool, users[pool_user(pool)]) for pool in pools],
        args.listen,
        args.store_dir,
        tls,
    )
    if args.json:
        print_json({"config": text, "queues": urls})
        return 0
    print(text, end="")
    print("Protect this file: `chmod 600`. EVENBEAT_QUEUE for the schedulers and for each pool:", file=sys.stderr)
    for name, url in urls.items():
        print(f"  {name:{max(map(len, urls))}}  {url}", file=sys.stderr)
    return 0


def _new_user(name: str, folder: Path | None, scheme: str, places: str) -> tuple[NatsUser, str]:
    """A new user, and the address of the queue with their credentials."""
    if folder is None:
        password = secrets.token_urlsafe(24)
        return NatsUser(name, password), f"{scheme}{quote(name, '')}:{password}@{places}"
    seed, file = new_nkey(secrets.token_bytes(_KEY)), folder.resolve() / f"{name}.nk"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(seed + "\n")
    except OSError as e:
        raise Invalid(f"{file}: {e.strerror}", place="--nkeys") from None
    return NatsUser(name, public_nkey(seed), is_nkey=True), f"{scheme}{places}?nkey={quote(str(file))}&name={name}"
