"""Where the queue of a cluster is: the servers, how to get in, and the names of all that belongs to this cluster."""

import re
from hashlib import blake2b
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from evenbeat.model import Invalid

DEFAULT_PREFIX: Final = "evenbeat"
MOST_REPLICAS: Final = 5
_LONGEST: Final = 4_096
_MOST_SERVERS: Final = 32
_PORT: Final = 4_222
_ACCEPTED: Final = "nats://[USER:PASSWORD@|TOKEN@]HOST:PORT[,HOST:PORT...][/PREFIX], or tls://..."
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]{1,253})(?::([0-9]{1,5}))?")
_ENCODED: Final = "x--"


class Where(Struct, frozen=True):
    """A queue, as `parse_where` has read it. What is secret is not part of what is shown of it."""

    scheme: str
    servers: tuple[str, ...]
    """HOST:PORT of each."""
    prefix: str
    replicas: int
    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"Where({self})"

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(self.servers)}/{self.prefix}"

    @property
    def whole(self) -> str:
        """What `parse_where` reads, secrets included: not to be shown."""
        secrets = f"{quote(self.user, '')}:{quote(self.password, '')}@" if self.user or self.password else ""
        secrets = secrets or (f"{quote(self.token, '')}@" if self.token else "")
        return f"{self.scheme}://{secrets}{','.join(self.servers)}/{self.prefix}"

    @property
    def urls(self) -> list[str]:
        """Of each server, without what is secret."""
        return [f"{self.scheme}://{server}" for server in self.servers]

    @property
    def stream(self) -> str:
        return f"{self.prefix}-runs"

    @property
    def all_runs(self) -> str:
        """The subjects of the stream."""
        return f"{self.prefix}.runs.*"

    def runs(self, pool: str) -> str:
        """Where the runs of a pool go."""
        return f"{self.prefix}.runs.{subject_token(pool)}"

    def consumer(self, pool: str) -> str:
        """What the workers of a pool fetch from."""
        return f"pool-{subject_token(pool)}"

    def node(self, node: str) -> str:
        return f"{self.prefix}.node.{node}"

    @property
    def nodes(self) -> str:
        return f"{self.prefix}.nodes"

    @property
    def feed(self) -> str:
        """Where nodes tell each other what happens, for those who watch."""
        return f"{self.prefix}.feed"

    def worker(self, worker: str) -> str:
        return f"{self.prefix}.worker.{worker}"


def subject_token(pool: str) -> str:
    """The name of a pool as it may stand in a subject: itself, or a digest of it."""
    if _PREFIX.fullmatch(pool) and not pool.startswith(_ENCODED):
        return pool
    return _ENCODED + blake2b(pool.encode(), digest_size=16).hexdigest()


def parse_where(url: str, replicas: int = 1) -> Where:
    """Read where the queue is; what was found is never shown, as it may hold a password."""
    if not 1 <= replicas <= MOST_REPLICAS:
        raise Invalid(f"{replicas} is out of range, accepted: 1 to {MOST_REPLICAS}", place="replicas")
    scheme, separator, rest = url.partition("://")
    if len(url) > _LONGEST or not separator or scheme not in ("nats", "tls"):
        raise Invalid(f"not the address of a queue, accepted: {_ACCEPTED}", place="queue")
    secrets, _, places = rest.rpartition("@")
    hosts, _, prefix = places.partition("/")
    prefix = prefix or DEFAULT_PREFIX
    if not _PREFIX.fullmatch(prefix):
        raise Invalid("a prefix of letters, digits, - and _ is accepted, at most 64 of them", place="queue")
    servers = hosts.split(",")
    if len(servers) > _MOST_SERVERS:
        raise Invalid(f"{len(servers)} servers, accepted: at most {_MOST_SERVERS}", place="queue")
    user, colon, password = secrets.partition(":")
    return Where(
        scheme,
        tuple(map(_server, servers)),
        prefix,
        replicas,
        user=unquote(user) if colon else "",
        password=unquote(password),
        token="" if colon else unquote(user),
    )


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or not 1 <= (port := int(found[2] or _PORT)) <= 65_535:
        raise Invalid(f"one of its servers is not HOST:PORT, accepted: {_ACCEPTED}", place="queue")
    return f"{found[1]}:{port}"
