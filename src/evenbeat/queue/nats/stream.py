"""The stream that runs are handed over through: made if it is not there, and looked at again and again."""

from typing import Any, Final

from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.connection import NatsConnection, NatsRefused, NatsUnavailable

ACK_WAIT: Final = 10.0
"""Seconds after which a message is given to another worker, unless its worker says that it is at it ..."""
IN_PROGRESS_INTERVAL: Final = 3.0
"""... which it does so often. What a stopped worker had fetched and not begun waits no longer than that."""
_MESSAGE_MAX_AGE_SECONDS: Final = 3_600
"""Seconds: what nobody fetched in an hour was given up by its node long ago."""
_NANOSECONDS: Final = 1_000_000_000
_NOT_FOUND: Final = 404
_SILENT: Final = 5
"""Seconds without a word, after which a server of the stream is taken for gone: they talk every second."""
_REQUEST_TIMEOUT: Final = 1.0
"""Seconds to wait for an answer: a question to a leader that has just died is lost, and the next one is answered."""


class RunStream:
    """The stream of a cluster on its servers."""

    def __init__(self, where: QueueAddress, link: NatsConnection) -> None:
        self._where = where
        self._link = link
        self.created = ""
        """When the stream came to be, as the servers say it: another one knows nothing of what the last one had."""
        self._first = 0

    async def ensure(self) -> str:
        """Is it there? Make it, if not. What is wrong with it, or ""."""
        try:
            info = await self._link.request_jetstream(f"STREAM.INFO.{self._where.stream}", {}, _REQUEST_TIMEOUT)
        except NatsRefused as e:
            if e.code != _NOT_FOUND:
                return f"stream {self._where.stream}: {e}"
            return await self._make()
        except NatsUnavailable as e:
            return f"JetStream does not answer: {e}"
        self._learn(info)
        return missing_majority(self._where.stream, info)

    async def set_replicas(self) -> str:
        """Make it have as many replicas as we were told, if it has not. What is wrong, or ""."""
        problem = await self.ensure()
        try:
            info = await self._link.request_jetstream(f"STREAM.INFO.{self._where.stream}", {})
            if info["config"]["num_replicas"] == self._where.replicas:
                return problem
            await self._link.request_jetstream(
                f"STREAM.UPDATE.{self._where.stream}", {**info["config"], "num_replicas": self._where.replicas}
            )
        except NatsRefused as e:
            return problem or f"stream {self._where.stream} cannot have {self._where.replicas} replicas: {e}"
        except NatsUnavailable as e:
            return problem or f"JetStream does not answer: {e}"
        return problem

    async def has(self, sequence: int) -> bool:
        """Is that message still in the stream? Raise Unanswered if nobody knows."""
        if sequence < self._first:
            return False
        try:
            await self._link.request_jetstream(f"STREAM.MSG.GET.{self._where.stream}", {"seq": sequence})
        except NatsRefused as e:
            if e.code == _NOT_FOUND:
                return False
            raise NatsUnavailable(str(e)) from None
        return True

    async def _make(self) -> str:
        config: dict[str, Any] = {
            "name": self._where.stream,
            "description": "runs on their way to workers; may be wiped at any time",
            "subjects": [self._where.all_runs],
            "retention": "workqueue",
            "storage": "file",
            "num_replicas": self._where.replicas,
            "duplicate_window": 120 * _NANOSECONDS,
            "max_age": _MESSAGE_MAX_AGE_SECONDS * _NANOSECONDS,
            "discard": "old",
        }
        try:
            self._learn(await self._link.request_jetstream(f"STREAM.CREATE.{self._where.stream}", config))
        except NatsRefused as e:
            return f"stream {self._where.stream} cannot be made: {e}"
        except NatsUnavailable as e:
            return f"JetStream does not answer: {e}"
        return ""

    def _learn(self, info: dict[str, Any]) -> None:
        self.created = str(info.get("created", ""))
        self._first = int(info.get("state", {}).get("first_seq", 0))


def missing_majority(stream: str, info: dict[str, Any]) -> str:
    """That too few of its servers are there to confirm anything, or "". The ones that are left still answer."""
    cluster = info.get("cluster") or {}
    replicas, leader = cluster.get("replicas") or [], cluster.get("leader")
    if not replicas:
        return ""  # one server, or a stream on one server
    if not leader:
        return f"stream {stream} has no leader: NATS is electing one, or has no majority of its servers"
    # A leader that has lost the others stays so for a while. Servers that ended in order are said to be offline.
    gone = [r for r in replicas if r.get("offline") or r.get("active", 0) > _SILENT * _NANOSECONDS]
    servers = len(replicas) + 1
    if 2 * (servers - len(gone)) > servers:
        return ""
    names = ", ".join(sorted(str(replica.get("name")) for replica in gone))
    return f"NATS has no majority: {len(gone)} of the {servers} servers of stream {stream} are out of reach ({names})"


async def ensure_pool_consumer(where: QueueAddress, link: NatsConnection, pool: str) -> None:
    """What the workers of a pool fetch from, if it is not there; raise Refused or Unanswered."""
    name = where.consumer(pool)
    config = {
        "durable_name": name,
        "name": name,
        "filter_subject": where.runs(pool),
        "ack_policy": "explicit",
        "ack_wait": int(ACK_WAIT * _NANOSECONDS),
        "max_deliver": -1,
        "max_ack_pending": 100_000,
        "max_waiting": 8_192,
    }
    subject = f"CONSUMER.CREATE.{where.stream}.{name}.{where.runs(pool)}"
    await link.request_jetstream(subject, {"stream_name": where.stream, "config": config}, _REQUEST_TIMEOUT)
