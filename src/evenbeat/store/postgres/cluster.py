"""Authority, orders and news in PostgreSQL: what several nodes that share a store need. See `cluster`."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import psycopg

from evenbeat.model import PARTITION_COUNT, SECOND, Entry
from evenbeat.store.cluster_contract import (
    ClusterSnapshot,
    CommitsForgotten,
    ForwardedRequest,
    LeaseLost,
    NodeLease,
    StoreChanges,
    TakenPartitions,
)
from evenbeat.store.common.rows import past_definition
from evenbeat.store.contract import PastDefinition, StoreError, TaskProgress
from evenbeat.store.postgres import rows
from evenbeat.store.postgres.base import PostgresBase
from evenbeat.store.postgres.connect import Connection
from evenbeat.store.postgres.notifications import ChangeListener
from evenbeat.store.postgres.read_connections import Parameters
from evenbeat.store.postgres.statements import fill_in, query
from evenbeat.store.postgres.task_changes import notify
from evenbeat.store.postgres.text import from_text
from evenbeat.store.postgres.write_session import SessionLease

FORWARDED_REQUEST_LIFETIME: Final = 60 * SECOND
"""An order that nobody has answered by then is not for anybody any more: whoever gave it has gone."""
_MAX_REQUEST_SIZE: Final = 1 << 20
"""Bytes of an order, an answer, or what a node tells of itself."""
_BURY_TIMEOUT: Final = 2.0
"""Seconds that a transaction of the dead may take to end; then it is ended."""
_BURY_TRIES: Final = 3
_FENCE_JUMP: Final = 4096
"""More fences than are given in what a server may forget."""


class PostgresClusterStore(PostgresBase):
    """The part of the store that nodes share."""

    _quiet = 0
    """Microseconds to be careful after the server has forgotten something."""
    _seen = 0
    """The highest fence that we know of."""

    def clock(self) -> int:
        """What time it is, by the clock of the store."""
        ((now,),) = self._readers.all(query("clock"))
        return int(now)

    # Authority

    def join(self, node: str, lease: int, about: bytes, *, quiet: int = 0, forgot: bool = False) -> int:
        """A lease for so many microseconds; its epoch."""
        _check_size(about)
        former, self._quiet = self._held, quiet
        known = self._confirmed.question()

        def work(connection: Connection) -> int:
            connection.execute(query("lock_authority"))
            if former is None or connection.execute(query("lease_of"), former).fetchone() is None:
                _forget(connection, node)
                connection.execute(query("begin_cluster"))
            else:
                _forget(connection, former.node)
            has_forgotten = forgot or (former is not None and former == self._confirmed.forgotten)
            if known is not None and not has_forgotten:
                has_forgotten = bool(_number(connection, "has_forgotten", known[1]))
            self._notice_promotion(connection, has_forgotten=has_forgotten)
            epoch = self._next_fence(connection, _FENCE_JUMP if has_forgotten else 0)
            connection.execute(query("add_lease"), (node, epoch, lease, about))
            notify(connection, "partitions")
            return epoch

        epoch = self._change(work)
        self._held = SessionLease(node, epoch)
        self._confirmed.begin(self._held)
        return epoch

    def _next_fence(self, connection: Connection, jump: int = 0) -> int:
        self._seen = _number(connection, "next_fence", {"seen": self._seen, "jump": jump})
        return self._seen

    def _notice_promotion(self, connection: Connection, *, has_forgotten: bool = False) -> int:
        """The first node that sees that the server was promoted makes all nodes careful; until when they must be."""
        now, before = connection.execute(query("timeline")).fetchall()[0]
        if now != before:
            connection.execute(query("set_timeline"), (now,))
        if has_forgotten or (before is not None and now != before):
            connection.execute(query("be_quiet"), (self._quiet,))
        return _number(connection, "quiet_until")

    def renew(self, lease: int, about: bytes, *, is_hint: bool = False) -> ClusterSnapshot:
        """The same for another while, and who there is."""
        _check_size(about)
        held = self._require_lease()
        known = self._confirmed.question()
        assert known is not None
        asked = time.monotonic()
        hints: list[tuple[str, Parameters]] = [(query("notify"), ("shares",))] if is_hint else []
        ((forgotten,),), renewed, seen, ((now, before),), *_ = self._change_idempotent(
            (query("has_forgotten"), known[1]),
            (query("renew"), (lease, about, *held)),
            (query("view"), ()),
            (query("timeline"), ()),
            *hints,
        )
        if not renewed:
            raise LeaseLost(f"{self._address}: the lease of {held.node} was taken away")
        if forgotten or held == self._confirmed.forgotten:
            raise CommitsForgotten(f"{self._address}: the database does not know any more what it had confirmed")
        self._confirmed.renewed(held, renewed[0][0], asked)
        if now != before:
            # We have lost nothing; but others may have, and what they had may come to us.
            self._change(self._notice_promotion)
        return _view(seen)

    def view(self) -> ClusterSnapshot:
        """Who there is, without being one of them."""
        return _view(self._readers.all(query("view")))

    def revoke_expired_lease(self, node: str, epoch: int) -> bool:
        """Take a lease away that has ended, and free what its holder held."""

        def work(connection: Connection) -> bool:
            connection.execute(f"SET LOCAL lock_timeout = {int(_BURY_TIMEOUT * 1_000)}")
            if connection.execute(query("bury"), (node, epoch)).fetchone() is None:
                return False
            connection.execute(query("free_partitions"), (node,))
            connection.execute(query("drop_shares"), (node,))
            notify(connection, "partitions")
            return True

        for _ in range(_BURY_TRIES):
            if not self._readers.all(query("is_over"), (node, epoch))[0][0]:
                return False
            try:
                return self._change(work)
            except StoreError as e:
                if not isinstance(e.__cause__, psycopg.errors.LockNotAvailable):
                    raise
                # Stopped, or cut off, in the middle of a transaction: it would keep its lock for as long as it likes.
                self._readers.all(query("end_recording"), (node,))
        return self._change(work)

    def take(self, partitions: Sequence[int]) -> TakenPartitions:
        """Hold those of these partitions that nobody holds."""
        held = self._require_lease()

        def work(connection: Connection) -> TakenPartitions:
            found = sorted(connection.execute(query("take"), (list(partitions), held.node)).fetchall())
            fence = self._next_fence(connection)
            quiet_until = self._notice_promotion(connection)
            ours = [partition for partition, _ in found]
            shares: dict[str, int] = {}
            silent: dict[int, int] = {}
            if ours:
                for (told,) in connection.execute(query("take_settings"), ([_silence(p) for p in ours],)).fetchall():
                    silent |= {int(token): age for token, age in json.loads(told).items()}
                carried = connection.execute(query("carry"), {"partitions": ours, "node": held.node})
                shares = {from_text(key): share for key, share in carried.fetchall()}
                notify(connection, "partitions")
            return TakenPartitions(
                ours, [partition for partition, new in found if new], fence, shares, silent, quiet_until
            )

        return self._change(work, held)

    def release(
        self,
        partitions: Sequence[int],
        untaken: Sequence[int] = (),
        silent: Mapping[int, Mapping[int, int]] | None = None,
    ) -> None:
        """Hold these no longer. Of the runs with the tokens `untaken` it is known that nobody has them."""
        held = self._require_lease()

        def work(connection: Connection) -> None:
            if untaken:
                connection.execute(query("untaken"), (True, list(untaken)))
            connection.execute(query("put_down"), {"partitions": list(partitions), "node": held.node})
            connection.execute(query("release"), (held.node, list(partitions)))
            if silent:
                told = [json.dumps(runs) for runs in silent.values()]
                connection.execute(query("set_settings"), ([_silence(p) for p in silent], told))
            notify(connection, "partitions")

        self._change(work, held)

    def retake(self, tokens: Sequence[int]) -> None:
        """Runs that were untaken are handed over again: from now on that is not known any more."""

        def work(connection: Connection) -> None:
            connection.execute(query("untaken"), (False, list(tokens)))

        self._change(work, self._require_lease())

    def may_leave(self) -> bool:
        """Say that we are about to leave; False, and not said, if nobody else stays."""
        held = self._require_lease()

        def work(connection: Connection) -> bool:
            connection.execute(query("lock_authority"))  # of two that leave at once, one is the last
            found = connection.execute(query("may_leave"), held).fetchone()
            if found is None:
                raise LeaseLost(f"{self._address}: the lease of {held.node} was taken away")
            return bool(found[0])

        return self._change(work)

    def leave(self) -> None:
        """Release all, and give the lease back. What is recorded after this is refused."""
        held = self._require_lease()

        def work(connection: Connection) -> None:
            found = connection.execute(query("lease_of"), held).fetchone()
            if found is not None:
                _forget(connection, held.node)
                notify(connection, "partitions")

        self._change(work)

    def set_share(self, key: str, limit: int, decide: Callable[[int], int], running: int = 0) -> int:
        """Decide anew how much of a limit is ours; never more than the others leave."""
        held = self._require_lease()

        def work(connection: Connection) -> int:
            connection.execute(query("lock_share"), (key,))
            row = connection.execute(query("shares"), {"key": key, "node": held.node}).fetchone()
            assert row is not None
            mine, others, is_quiet = row
            share = decide(others)
            if share > mine and is_quiet:
                share = mine  # runs that the database has forgotten may still use it
            elif share > mine:
                share = max(mine, min(share, limit - others))
            share = max(share, running)
            if share > 0:
                connection.execute(query("set_share"), (key, held.node, share))
            else:
                connection.execute(query("drop_share"), (key, held.node))
            if share < mine:
                notify(connection, "shares")  # for those who wait for it
            return share

        return self._change(work, held)

    # The tasks of some partitions

    def entries_in(self, partitions: Sequence[int]) -> Iterator[Entry]:
        """In the order of their numbers."""
        return map(rows.entry, self._readers.many(query("entries_in"), (list(partitions),)))

    def progress_in(self, partitions: Sequence[int]) -> Iterator[TaskProgress]:
        """With tokens; in the order of the tasks' numbers."""
        statement = fill_in("progress", ":filter", "mod(p.task, 256) = ANY(%s)")
        return map(rows.progress, self._readers.many(statement, (list(partitions),)))

    def past_definitions_in(self, partitions: Sequence[int]) -> Iterator[PastDefinition]:
        """In the order of tasks and times."""
        statement = fill_in("past_definitions", ":filter", "mod(d.task, 256) = ANY(%s)")
        return map(past_definition, self._readers.many(statement, (list(partitions),)))

    # What others do

    def stamp(self) -> int:
        """Of the newest change."""
        return int(self._readers.all(query("stamp"))[0][0])

    def changes_since(self, since: int, partitions: Sequence[int]) -> StoreChanges:
        """What has changed after that stamp."""
        # The stamp first: what comes between the two is told twice, and never missed.
        ((stamp, settings_stamp),) = self._readers.all(query("stamp"))
        news = StoreChanges(stamp, settings=settings_stamp > since)
        if stamp > since:
            for *row, is_removed in self._readers.all(query("news"), (since, list(partitions))):
                (news.removed if is_removed else news.entries).append(rows.entry(tuple(row)))
        return news

    def forward_request(self, task: int, request: bytes) -> int:
        """Ask something of the node that holds a task; its id."""
        _check_size(request)

        def work(connection: Connection) -> int:
            id_ = _number(connection, "order", (task, request))
            notify(connection, "orders")
            return id_

        return self._change(work)

    def take_orders(self, partitions: Sequence[int]) -> list[ForwardedRequest]:
        """Those that nobody has taken, oldest first: from now on they are ours to do, and nobody else's."""
        asked = (list(partitions), FORWARDED_REQUEST_LIFETIME)
        # Nearly always there is none, which needs no transaction.
        if not self._readers.all(query("has_orders"), asked)[0][0]:
            return []

        def work(connection: Connection) -> list[ForwardedRequest]:
            found = sorted(connection.execute(query("take_orders"), asked).fetchall())
            return [ForwardedRequest(id_, task, bytes(request)) for id_, task, request in found]

        return self._change(work, self._require_lease())

    def give_back_order(self, id_: int) -> None:
        """Somebody else is to do it."""

        def work(connection: Connection) -> None:
            connection.execute(query("give_back_order"), (id_,))
            notify(connection, "orders")

        self._change(work)

    def answer(self, id_: int, reply: bytes) -> None:
        """What became of an order."""
        _check_size(reply)

        def work(connection: Connection) -> None:
            connection.execute(query("answer"), (reply, id_))
            notify(connection, "answers")

        self._change(work)

    def reply(self, id_: int) -> bytes | None:
        """The answer, once; None if there is none yet."""

        def work(connection: Connection) -> bytes | None:
            found = connection.execute(query("reply"), (id_,)).fetchone()
            return None if found is None else bytes(found[0])

        # Most questions come too early, and need no transaction.
        if not self._readers.all(query("is_answered"), (id_,))[0][0]:
            return None
        return self._change(work)

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """`heard` is told, on a thread of the store's, what to look at."""
        listener = ChangeListener(self._address, heard)
        self._end_listeners.append(listener.close)
        return listener.close

    def _require_lease(self) -> SessionLease:
        if self._held is None:
            raise LeaseLost(f"{self._address}: this store has joined no cluster")
        return self._held


def _forget(connection: Connection, node: str) -> None:
    """In order: what it held is free at once. Waits for what it is recording."""
    connection.execute(query("drop_lease"), (node,))
    connection.execute(query("free_partitions"), (node,))
    connection.execute(query("drop_shares"), (node,))


def _view(found: Sequence[rows.Row]) -> ClusterSnapshot:
    now = 0
    leases: list[NodeLease] = []
    holders: list[str | None] = [None] * PARTITION_COUNT
    shares: dict[str, dict[str, int]] = {}
    for kind, name, number, expires, extra in found:
        match kind:
            case "clock":
                now = number
            case "lease":
                leases.append(NodeLease(from_text(name), number, expires, bytes(extra)))
            case "partition":
                holders[number] = from_text(name)
            case "share":
                shares.setdefault(from_text(bytes(extra).decode()), {})[from_text(name)] = number
    return ClusterSnapshot(now, sorted(leases, key=lambda lease: lease.epoch), holders, shares)


def _number(connection: Connection, name: str, values: Parameters = ()) -> int:
    row = connection.execute(query(name), values).fetchone()
    assert row is not None
    return int(row[0])


def _silence(partition: int) -> str:
    """The setting that says which runs of a partition nobody had answered for, and for how long."""
    return f"cluster:silent:{partition}"


def _check_size(said: bytes) -> None:
    if len(said) > _MAX_REQUEST_SIZE:
        raise StoreError(f"{len(said)} bytes are too many to hand to another node, accepted: up to {_MAX_REQUEST_SIZE}")
