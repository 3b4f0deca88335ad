"""Where the queue of a cluster is: the servers, how to get in, and the names of all that belongs to this cluster."""

import re
from hashlib import blake2b
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from evenbeat.model import Invalid

DEFAULT_PREFIX: Final = "evenbeat"
MAX_REPLICAS: Final = 5
_LONGEST: Final = 4_096
_MOST_SERVERS: Final = 32
_PORT: Final = 4_222
_ACCEPTED: Final = "nats://[USER:PASSWORD@|TOKEN@]HOST:PORT[,HOST:PORT...][/PREFIX][?KEY=VALUE&...], or tls://..."
_KEYS: Final = {
    "creds": "credentials",
    "nkey": "nkey",
    "ca": "authority",
    "cert": "certificate",
    "key": "key",
    "name": "name",
}
"""What may stand behind the ?, and where it is kept."""
_OF_TLS: Final = ("ca", "cert", "key")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]{1,253})(?::([0-9]{1,5}))?")
_ENCODED: Final = "x--"


class QueueAddress(Struct, frozen=True):
    """A queue, as `parse_where` has read it. What is secret is not part of what is shown of it."""

    scheme: str
    servers: tuple[str, ...]
    """HOST:PORT of each."""
    prefix: str
    replicas: int
    user: str = ""
    password: str = ""
    token: str = ""
    credentials: str = ""
    """A file as `nsc` writes it: who we are, signed, and the seed to prove it."""
    nkey: str = ""
    """A file with the seed of a user."""
    authority: str = ""
    """A file with the certificates of those who may sign that of the server; "" for those of the machine."""
    certificate: str = ""
    key: str = ""
    """Files with our own certificate and its key."""
    name: str = ""
    """Who we are, if the user does not say it: subjects that only we may hear have it in them."""

    def __repr__(self) -> str:
        return f"Where({self})"

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(self.servers)}/{self.prefix}"

    @property
    def url_with_secrets(self) -> str:
        """What `parse_where` reads, secrets included: not to be shown."""
        secrets = f"{quote(self.user, '')}:{quote(self.password, '')}@" if self.user or self.password else ""
        secrets = secrets or (f"{quote(self.token, '')}@" if self.token else "")
        said = [(key, getattr(self, field)) for key, field in _KEYS.items() if getattr(self, field)]
        more = "?" + "&".join(f"{key}={quote(value, '')}" for key, value in said) if said else ""
        return f"{self.scheme}://{secrets}{','.join(self.servers)}/{self.prefix}{more}"

    @property
    def identity(self) -> str:
        """Who we are, as part of subjects; "" if nobody says."""
        known = self.name or self.user
        return subject_token(known) if known else ""

    @property
    def inbox(self) -> str:
        """Before the subjects that answers to us go to: with a name in it, nobody else need be allowed to hear them."""
        return f"_INBOX.{self.identity}" if self.identity else "_INBOX"

    def new_worker(self, random: str) -> str:
        """What a new worker is called; `worker` makes a subject of it, that of others with the same name likewise."""
        return f"{self.identity}.{random}" if self.identity else random

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


def parse_queue_address(url: str, replicas: int = 1) -> QueueAddress:
    """Read where the queue is; what was found is never shown, as it may hold a password."""
    if not 1 <= replicas <= MAX_REPLICAS:
        raise Invalid(f"{replicas} is out of range, accepted: 1 to {MAX_REPLICAS}", place="replicas")
    scheme, separator, rest = url.partition("://")
    if len(url) > _LONGEST or not separator or scheme not in ("nats", "tls"):
        raise Invalid(f"not the address of a queue, accepted: {_ACCEPTED}", place="queue")
    rest, _, query = rest.partition("?")
    secrets, _, places = rest.rpartition("@")
    hosts, _, prefix = places.partition("/")
    prefix = prefix or DEFAULT_PREFIX
    if not _PREFIX.fullmatch(prefix):
        raise Invalid("a prefix of letters, digits, - and _ is accepted, at most 64 of them", place="queue")
    servers = hosts.split(",")
    if len(servers) > _MOST_SERVERS:
        raise Invalid(f"{len(servers)} servers, accepted: at most {_MOST_SERVERS}", place="queue")
    user, colon, password = secrets.partition(":")
    return QueueAddress(
        scheme,
        tuple(map(_server, servers)),
        prefix,
        replicas,
        user=unquote(user) if colon else "",
        password=unquote(password),
        token="" if colon else unquote(user),
        **_query_options(query, scheme),
    )


def _query_options(query: str, scheme: str) -> dict[str, str]:
    """What stands behind the ?."""
    found: dict[str, str] = {}
    for part in query.split("&") if query else ():
        key, equals, value = part.partition("=")
        if key not in _KEYS or not equals or not value or _KEYS[key] in found:
            raise Invalid(f"behind the ? accepted: {', '.join(_KEYS)}, each once and with a value", place="queue")
        if key in _OF_TLS and scheme != "tls":
            raise Invalid(f"{key} is about TLS: accepted with tls://", place="queue")
        found[_KEYS[key]] = unquote(value)
    if "credentials" in found and "nkey" in found:
        raise Invalid("creds or nkey? accepted: one of them", place="queue")
    if "key" in found and "certificate" not in found:
        raise Invalid("key without cert: accepted: both, or cert alone if it holds the key too", place="queue")
    return found


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or not 1 <= (port := int(found[2] or _PORT)) <= 65_535:
        raise Invalid(f"one of its servers is not HOST:PORT, accepted: {_ACCEPTED}", place="queue")
    return f"{found[1]}:{port}"
