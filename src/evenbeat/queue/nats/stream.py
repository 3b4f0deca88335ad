"""The JetStream stream that carries runs to workers: create it if it is missing, and check its health."""

from typing import Any, Final

from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.connection import NatsConnection, NatsRefused, NatsUnavailable

ACK_WAIT: Final = 10.0
"""Seconds after which a message goes to another worker, unless its worker reports progress."""
IN_PROGRESS_INTERVAL: Final = 3.0
"""Seconds between two progress reports."""
_MESSAGE_MAX_AGE_SECONDS: Final = 3_600
"""Seconds: a message that no worker fetched in an hour was given up by its node long ago."""
_NANOSECONDS: Final = 1_000_000_000
_NOT_FOUND: Final = 404
_SILENT: Final = 5
"""Seconds of silence after which a server of the stream counts as gone: they exchange heartbeats every second."""
_REQUEST_TIMEOUT: Final = 1.0
"""Seconds to wait for an answer: a request to a leader that has just died is lost, and the next one is answered."""


class RunStream:
    """The stream of one cluster."""

    def __init__(self, address: QueueAddress, connection: NatsConnection) -> None:
        self._address = address
        self._connection = connection
        self.created = ""
        """When the stream was created, by its servers: it identifies the stream, as another one has none of its
        messages."""
        self._first = 0

    async def ensure(self) -> str:
        """Create the stream if it is missing. What is wrong with it, or ""."""
        try:
            info = await self._connection.request_jetstream(f"STREAM.INFO.{self._address.stream}", {}, _REQUEST_TIMEOUT)
        except NatsRefused as e:
            if e.code != _NOT_FOUND:
                return f"stream {self._address.stream}: {e}"
            return await self._make()
        except NatsUnavailable as e:
            return f"JetStream does not answer: {e}"
        self._remember(info)
        return missing_majority(self._address.stream, info)

    async def set_replicas(self) -> str:
        """Give the stream the configured number of replicas. What is wrong, or ""."""
        problem = await self.ensure()
        try:
            info = await self._connection.request_jetstream(f"STREAM.INFO.{self._address.stream}", {})
            if info["config"]["num_replicas"] == self._address.replicas:
                return problem
            await self._connection.request_jetstream(
                f"STREAM.UPDATE.{self._address.stream}", {**info["config"], "num_replicas": self._address.replicas}
            )
        except NatsRefused as e:
            return problem or f"stream {self._address.stream} cannot have {self._address.replicas} replicas: {e}"
        except NatsUnavailable as e:
            return problem or f"JetStream does not answer: {e}"
        return problem

    async def has(self, sequence: int) -> bool:
        """Is that message still in the stream? Raise NatsUnavailable if no server answers."""
        if sequence < self._first:
            return False
        try:
            await self._connection.request_jetstream(f"STREAM.MSG.GET.{self._address.stream}", {"seq": sequence})
        except NatsRefused as e:
            if e.code == _NOT_FOUND:
                return False
            raise NatsUnavailable(str(e)) from None
        return True

    async def _make(self) -> str:
        config: dict[str, Any] = {
            "name": self._address.stream,
            "description": "runs on their way to workers; may be wiped at any time",
            "subjects": [self._address.all_runs],
            "retention": "workqueue",
            "storage": "file",
            "num_replicas": self._address.replicas,
            "duplicate_window": 120 * _NANOSECONDS,
            "max_age": _MESSAGE_MAX_AGE_SECONDS * _NANOSECONDS,
            "discard": "old",
        }
        try:
            self._remember(await self._connection.request_jetstream(f"STREAM.CREATE.{self._address.stream}", config))
        except NatsRefused as e:
            return f"stream {self._address.stream} cannot be made: {e}"
        except NatsUnavailable as e:
            return f"JetStream does not answer: {e}"
        return ""

    def _remember(self, info: dict[str, Any]) -> None:
        self.created = str(info.get("created", ""))
        self._first = int(info.get("state", {}).get("first_seq", 0))


def missing_majority(stream: str, info: dict[str, Any]) -> str:
    """Say that too few servers of the stream are up to confirm anything, or "". The remaining ones still answer."""
    cluster = info.get("cluster") or {}
    replicas, leader = cluster.get("replicas") or [], cluster.get("leader")
    if not replicas:
        return ""  # one server, or a stream on one server
    if not leader:
        return f"stream {stream} has no leader: NATS is electing one, or has no majority of its servers"
    # A leader that has lost the others stays leader for a while. Servers that ended in order are listed as offline.
    gone = [r for r in replicas if r.get("offline") or r.get("active", 0) > _SILENT * _NANOSECONDS]
    servers = len(replicas) + 1
    if 2 * (servers - len(gone)) > servers:
        return ""
    names = ", ".join(sorted(str(replica.get("name")) for replica in gone))
    return f"NATS has no majority: {len(gone)} of the {servers} servers of stream {stream} are out of reach ({names})"


async def ensure_pool_consumer(address: QueueAddress, connection: NatsConnection, pool: str) -> None:
    """Create the consumer that the workers of a pool fetch from, if missing; raise NatsRefused or NatsUnavailable."""
    name = address.consumer(pool)
    config = {
        "durable_name": name,
        "name": name,
        "filter_subject": address.runs(pool),
        "ack_policy": "explicit",
        "ack_wait": int(ACK_WAIT * _NANOSECONDS),
        "max_deliver": -1,
        "max_ack_pending": 100_000,
        "max_waiting": 8_192,
    }
    subject = f"CONSUMER.CREATE.{address.stream}.{name}.{address.runs(pool)}"
    await connection.request_jetstream(subject, {"stream_name": address.stream, "config": config}, _REQUEST_TIMEOUT)
