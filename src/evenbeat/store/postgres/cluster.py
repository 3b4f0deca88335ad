"""What nodes of a cluster share in PostgreSQL, see `cluster_contract`: leases, partitions, shares, requests."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import psycopg

from evenbeat.model import PARTITION_COUNT, SECOND, Entry
from evenbeat.store.cluster_contract import (
    CheckPosition,
    ClusterSnapshot,
    CommitsForgotten,
    ForwardedRequest,
    LeaseLost,
    NodeLease,
    StoreChanges,
    TakenPartitions,
)
from evenbeat.store.common.rows import Parameters, Row, past_definition
from evenbeat.store.contract import PastDefinition, StoreError, TaskProgress
from evenbeat.store.postgres import rows
from evenbeat.store.postgres.alert_store import PostgresAlertStore
from evenbeat.store.postgres.connect import Connection
from evenbeat.store.postgres.listener import ChangeListener
from evenbeat.store.postgres.statements import fill_in, query
from evenbeat.store.postgres.task_changes import notify
from evenbeat.store.postgres.text import from_text
from evenbeat.store.postgres.write_session import SessionLease
from evenbeat.store.problem_records import OpenProblem

FORWARDED_REQUEST_LIFETIME: Final = 60 * SECOND
"""A request that is older is not taken any more: its sender no longer waits for an answer."""
_MAX_REQUEST_SIZE: Final = 1 << 20
"""Bytes of a request, an answer, or what a node publishes about itself."""
_REVOKE_TIMEOUT: Final = 2.0
"""Seconds that a transaction of a node with an expired lease may take to end; then its connection is ended."""
_REVOKE_TRIES: Final = 3
_FENCE_JUMP: Final = 4096
"""More fences than are given out in the time of which a server may lose its commits."""


class PostgresClusterStore(PostgresAlertStore):
    """The part of the store for nodes of a cluster."""

    _quiet = 0
    """Microseconds without claims in taken partitions after the server has lost commits."""
    _seen = 0
    """The highest fence that this node knows."""

    def clock(self) -> int:
        """What time it is, by the clock of the store."""
        ((now,),) = self._readers.all(query("clock"))
        return int(now)

    # Authority

    def join(self, node: str, lease: int, about: bytes, *, quiet: int = 0, forgot: bool = False) -> int:
        """Get a lease for this many microseconds; return its epoch."""
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

        epoch = self._writers.transaction(work)
        self._held = SessionLease(node, epoch)
        self._confirmed.begin(self._held)
        return epoch

    def _next_fence(self, connection: Connection, jump: int = 0) -> int:
        self._seen = _number(connection, "next_fence", {"seen": self._seen, "jump": jump})
        return self._seen

    def _notice_promotion(self, connection: Connection, *, has_forgotten: bool = False) -> int:
        """If the server was promoted, let all nodes wait before they claim; return until when they must wait."""
        now, before = connection.execute(query("timeline")).fetchall()[0]
        if now != before:
            connection.execute(query("set_timeline"), (now,))
        if has_forgotten or (before is not None and now != before):
            connection.execute(query("set_quiet_time"), (self._quiet,))
        return _number(connection, "quiet_until")

    def renew(self, lease: int, about: bytes, *, is_hint: bool = False) -> ClusterSnapshot:
        """Extend the lease; return the state of the cluster."""
        _check_size(about)
        held = self._require_lease()
        known = self._confirmed.question()
        assert known is not None
        asked = time.monotonic()
        hints: list[tuple[str, Parameters]] = [(query("notify"), ("shares",))] if is_hint else []
        ((forgotten,),), renewed, seen, ((now, before),), *_ = self._writers.repeatable(
            held,
            (query("has_forgotten"), known[1]),
            (query("renew"), (lease, about, *held)),
            (query("view"), ()),
            (query("timeline"), ()),
            *hints,
        )
        if not renewed:
            raise LeaseLost(f"{self._address}: the lease of {held.node} was taken away")
        if forgotten or held == self._confirmed.forgotten:
            raise CommitsForgotten(f"{self._address}: the database has lost commits that it had confirmed")
        self._confirmed.renewed(held, renewed[0][0], asked)
        if now != before:
            # This node has lost nothing; but other nodes may have, and their partitions may come here.
            self._writers.transaction(self._notice_promotion)
        return _view(seen)

    def view(self) -> ClusterSnapshot:
        """The state of the cluster, also for a process that has not joined."""
        return _view(self._readers.all(query("view")))

    def revoke_expired_lease(self, node: str, epoch: int) -> bool:
        """Revoke a lease that has expired, and free what its node held."""

        def work(connection: Connection) -> bool:
            connection.execute(f"SET LOCAL lock_timeout = {int(_REVOKE_TIMEOUT * 1_000)}")
            if connection.execute(query("revoke_lease"), (node, epoch)).fetchone() is None:
                return False
            connection.execute(query("free_partitions"), (node,))
            connection.execute(query("drop_shares"), (node,))
            notify(connection, "partitions")
            return True

        for _ in range(_REVOKE_TRIES):
            if not self._readers.all(query("is_lease_expired"), (node, epoch))[0][0]:
                return False
            try:
                return self._writers.transaction(work)
            except StoreError as e:
                if not isinstance(e.__cause__, psycopg.errors.LockNotAvailable):
                    raise
                # Stopped, or cut off, in the middle of a transaction: it would keep its lock for as long as it likes.
                self._readers.all(query("end_recording"), (node,))
        return self._writers.transaction(work)

    def take(self, partitions: Sequence[int]) -> TakenPartitions:
        """Take those of these partitions that no node holds."""
        held = self._require_lease()

        def work(connection: Connection) -> TakenPartitions:
            found = sorted(connection.execute(query("take"), (list(partitions), held.node)).fetchall())
            fence = self._next_fence(connection)
            quiet_until = self._notice_promotion(connection)
            taken = [partition for partition, _ in found]
            shares: dict[str, int] = {}
            silent: dict[int, int] = {}
            if taken:
                for (text,) in connection.execute(query("take_settings"), ([_silence(p) for p in taken],)).fetchall():
                    silent |= {int(token): age for token, age in json.loads(text).items()}
                carried = connection.execute(query("add_to_share"), {"partitions": taken, "node": held.node})
                shares = {from_text(key): share for key, share in carried.fetchall()}
                notify(connection, "partitions")
            return TakenPartitions(
                taken, [partition for partition, new in found if new], fence, shares, silent, quiet_until
            )

        return self._writers.transaction(work, held)

    def release(
        self,
        partitions: Sequence[int],
        untaken: Sequence[int] = (),
        silent: Mapping[int, Mapping[int, int]] | None = None,
    ) -> None:
        """Release partitions. `untaken` are the tokens of runs that are known to be with no worker."""
        held = self._require_lease()

        def work(connection: Connection) -> None:
            if untaken:
                connection.execute(query("mark_untaken"), (True, list(untaken)))
            connection.execute(query("take_from_share"), {"partitions": list(partitions), "node": held.node})
            connection.execute(query("release"), (held.node, list(partitions)))
            if silent:
                texts = [json.dumps(runs) for runs in silent.values()]
                connection.execute(query("set_settings"), ([_silence(p) for p in silent], texts))
            notify(connection, "partitions")

        self._writers.transaction(work, held)

    def retake(self, tokens: Sequence[int]) -> None:
        """Runs that were untaken are handed to workers again, so they no longer count as untaken."""

        def work(connection: Connection) -> None:
            connection.execute(query("mark_untaken"), (False, list(tokens)))

        self._writers.transaction(work, self._require_lease())

    def may_leave(self) -> bool:
        """Announce that this node is about to leave, unless no other node stays; whether it did."""
        held = self._require_lease()

        def work(connection: Connection) -> bool:
            connection.execute(query("lock_authority"))  # of two nodes that leave at once, one must be the last
            found = connection.execute(query("may_leave"), held).fetchone()
            if found is None:
                raise LeaseLost(f"{self._address}: the lease of {held.node} was taken away")
            return bool(found[0])

        return self._writers.transaction(work)

    def leave(self) -> None:
        """Release everything, and give the lease back. Batches recorded after this are refused."""
        held = self._require_lease()

        def work(connection: Connection) -> None:
            found = connection.execute(query("lease_of"), held).fetchone()
            if found is not None:
                _forget(connection, held.node)
                notify(connection, "partitions")

        self._writers.transaction(work)

    def set_share(self, key: str, limit: int, decide: Callable[[int], int], running: int = 0) -> int:
        """Set the share of a limit that this node has; never more than the others leave."""
        held = self._require_lease()

        def work(connection: Connection) -> int:
            connection.execute(query("lock_share"), (key,))
            row = connection.execute(query("shares"), {"key": key, "node": held.node}).fetchone()
            assert row is not None
            mine, others, is_quiet = row
            share = decide(others)
            if share > mine and is_quiet:
                share = mine  # runs in the commits that were lost may still use it
            elif share > mine:
                share = max(mine, min(share, limit - others))
            share = max(share, running)
            if share > 0:
                connection.execute(query("set_share"), (key, held.node, share))
            else:
                connection.execute(query("drop_share"), (key, held.node))
            if share < mine:
                notify(connection, "shares")  # other nodes may wait for it
            return share

        return self._writers.transaction(work, held)

    # The tasks of some partitions

    def entries_in(self, partitions: Sequence[int]) -> Iterator[Entry]:
        """The tasks of these partitions, in the order of their numbers."""
        return map(rows.entry, self._readers.many(query("entries_in"), (list(partitions),)))

    def progress_in(self, partitions: Sequence[int]) -> Iterator[TaskProgress]:
        """The progress of their tasks, with tokens, in the order of the tasks' numbers."""
        statement = fill_in("progress", ":filter", "mod(p.task, 256) = ANY(%s)")
        return map(rows.progress, self._readers.many(statement, (list(partitions),)))

    def past_definitions_in(self, partitions: Sequence[int]) -> Iterator[PastDefinition]:
        """Their past definitions, in the order of tasks and times."""
        statement = fill_in("past_definitions", ":filter", "mod(d.task, 256) = ANY(%s)")
        return map(past_definition, self._readers.many(statement, (list(partitions),)))

    def open_problems_in(self, partitions: Sequence[int]) -> Iterator[OpenProblem]:
        """Their open problems, in the order of tasks."""
        statement = fill_in("open_problems", ":filter", "mod(p.task, 256) = ANY(%s)")
        return map(OpenProblem._make, self._readers.many(statement, (list(partitions),)))

    # Tasks of any partition, by their names

    def positions_of(self, names: Sequence[str]) -> list[CheckPosition]:
        """Where the tasks with these names stand, of those that exist."""
        found = self._readers.all(query("positions_of"), (list(names),))
        return [CheckPosition(from_text(name), *rest) for name, *rest in found]

    def entries_named(self, names: Sequence[str]) -> list[Entry]:
        """The tasks with these names, of those that exist."""
        return [rows.entry(row) for row in self._readers.all(query("entries_named"), (list(names),))]

    # Changes and requests of other processes

    def stamp(self) -> int:
        """The stamp of the newest change."""
        return int(self._readers.all(query("stamp"))[0][0])

    def changes_since(self, since: int, partitions: Sequence[int]) -> StoreChanges:
        """The changes after that stamp."""
        # The stamp first: a change between the two reads is reported twice, but never missed.
        ((stamp, settings_stamp),) = self._readers.all(query("stamp"))
        changes = StoreChanges(stamp, settings=settings_stamp > since)
        if stamp > since:
            for *row, is_removed in self._readers.all(query("changes_since"), (since, list(partitions))):
                (changes.removed if is_removed else changes.entries).append(rows.entry(tuple(row)))
        return changes

    def forward_request(self, task: int, request: bytes) -> int:
        """Send a request to the node that holds a task; return the id of the request."""
        _check_size(request)

        def work(connection: Connection) -> int:
            id_ = _number(connection, "add_request", (task, request))
            notify(connection, "orders")
            return id_

        return self._writers.transaction(work)

    def take_requests(self, partitions: Sequence[int]) -> list[ForwardedRequest]:
        """Take the requests for these partitions that no node has taken, oldest first."""
        asked = (list(partitions), FORWARDED_REQUEST_LIFETIME)
        # There is nearly always none, and that needs no transaction.
        if not self._readers.all(query("has_requests"), asked)[0][0]:
            return []

        def work(connection: Connection) -> list[ForwardedRequest]:
            found = sorted(connection.execute(query("take_requests"), asked).fetchall())
            return [ForwardedRequest(id_, task, bytes(request)) for id_, task, request in found]

        return self._writers.transaction(work, self._require_lease())

    def return_request(self, id_: int) -> None:
        """Leave a request that was taken to another node."""

        def work(connection: Connection) -> None:
            connection.execute(query("return_request"), (id_,))
            notify(connection, "orders")

        self._writers.transaction(work)

    def answer(self, id_: int, reply: bytes) -> None:
        """Store the answer to a request."""
        _check_size(reply)

        def work(connection: Connection) -> None:
            connection.execute(query("answer"), (reply, id_))
            notify(connection, "answers")

        self._writers.transaction(work)

    def reply(self, id_: int) -> bytes | None:
        """Fetch and delete the answer to a request; None if there is none yet."""

        def work(connection: Connection) -> bytes | None:
            found = connection.execute(query("reply"), (id_,)).fetchone()
            return None if found is None else bytes(found[0])

        # Most calls come before the answer, and need no transaction.
        if not self._readers.all(query("is_answered"), (id_,))[0][0]:
            return None
        return self._writers.transaction(work)

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Call `heard`, on a thread of the store, with what has changed. Return a function that ends this."""
        listener = ChangeListener(self._address, heard)
        self._end_listeners.append(listener.close)
        return listener.close

    def _require_lease(self) -> SessionLease:
        if self._held is None:
            raise LeaseLost(f"{self._address}: this store has joined no cluster")
        return self._held


def _forget(connection: Connection, node: str) -> None:
    """Delete the lease of a node that leaves or joins again, and free what it held. Waits for its transactions."""
    connection.execute(query("drop_lease"), (node,))
    connection.execute(query("free_partitions"), (node,))
    connection.execute(query("drop_shares"), (node,))


def _view(found: Sequence[Row]) -> ClusterSnapshot:
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
    """The key of the setting that holds for which runs of a partition no node had answered, and for how long."""
    return f"cluster:silent:{partition}"


def _check_size(message: bytes) -> None:
    if len(message) > _MAX_REQUEST_SIZE:
        raise StoreError(
            f"{len(message)} bytes are too many to send to another node, accepted: up to {_MAX_REQUEST_SIZE}"
        )
