"""The address of a cluster's queue: servers, credentials, and the subjects that belong to this cluster."""

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
"""Keys that are accepted after the ?, and the fields that hold their values."""
_OF_TLS: Final = ("ca", "cert", "key")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]{1,253})(?::([0-9]{1,5}))?")
_ENCODED: Final = "x--"


class QueueAddress(Struct, frozen=True):
    """A queue address, as parsed by `parse_queue_address`. Its str() and repr() leave out secrets."""

    scheme: str
    servers: tuple[str, ...]
    """HOST:PORT of each."""
    prefix: str
    replicas: int
    user: str = ""
    password: str = ""
    token: str = ""
    credentials: str = ""
    """A credentials file as `nsc` writes it: our signed identity, and the seed that proves it."""
    nkey: str = ""
    """A file with the seed of a user."""
    authority: str = ""
    """A file with the certificates that may sign that of the server; "" for those of this machine."""
    certificate: str = ""
    key: str = ""
    """Files with our own certificate and its key."""
    name: str = ""
    """Our name, if the user name does not say it: subjects that only we may subscribe to contain it."""

    def __repr__(self) -> str:
        return f"QueueAddress({self})"

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(self.servers)}/{self.prefix}"

    @property
    def url_with_secrets(self) -> str:
        """What `parse_queue_address` reads, secrets included: never show it."""
        secrets = f"{quote(self.user, '')}:{quote(self.password, '')}@" if self.user or self.password else ""
        secrets = secrets or (f"{quote(self.token, '')}@" if self.token else "")
        said = [(key, getattr(self, field)) for key, field in _KEYS.items() if getattr(self, field)]
        more = "?" + "&".join(f"{key}={quote(value, '')}" for key, value in said) if said else ""
        return f"{self.scheme}://{secrets}{','.join(self.servers)}/{self.prefix}{more}"

    @property
    def identity(self) -> str:
        """Our name as part of subjects; "" if none is given."""
        known = self.name or self.user
        return subject_token(known) if known else ""

    @property
    def inbox(self) -> str:
        """Prefix of the subjects for answers to us: with our name in it, the server can forbid others to subscribe to
        them.
        """
        return f"_INBOX.{self.identity}" if self.identity else "_INBOX"

    def new_worker(self, random: str) -> str:
        """The id of a new worker; it begins with our name, so that one permission covers all workers of that name."""
        return f"{self.identity}.{random}" if self.identity else random

    @property
    def urls(self) -> list[str]:
        """The URL of each server, without secrets."""
        return [f"{self.scheme}://{server}" for server in self.servers]

    @property
    def stream(self) -> str:
        return f"{self.prefix}-runs"

    @property
    def all_runs(self) -> str:
        """The subjects of the stream."""
        return f"{self.prefix}.runs.*"

    def runs(self, pool: str) -> str:
        """The subject of the runs of a pool."""
        return f"{self.prefix}.runs.{subject_token(pool)}"

    def consumer(self, pool: str) -> str:
        """The consumer that the workers of a pool fetch from."""
        return f"pool-{subject_token(pool)}"

    def node(self, node: str) -> str:
        return f"{self.prefix}.node.{node}"

    @property
    def nodes(self) -> str:
        return f"{self.prefix}.nodes"

    @property
    def feed(self) -> str:
        """The subject on which nodes tell each other of events, for their subscribers."""
        return f"{self.prefix}.feed"

    def worker(self, worker: str) -> str:
        return f"{self.prefix}.worker.{worker}"


def subject_token(pool: str) -> str:
    """The name of a pool as it may stand in a subject: itself, or a digest of it."""
    if _PREFIX.fullmatch(pool) and not pool.startswith(_ENCODED):
        return pool
    return _ENCODED + blake2b(pool.encode(), digest_size=16).hexdigest()


def parse_queue_address(url: str, replicas: int = 1) -> QueueAddress:
    """Parse the address of a queue; messages never quote it, as it may contain a password."""
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
    """The fields given after the ?."""
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
