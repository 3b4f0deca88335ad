"""NATS with TLS, users of their own, nkeys and credentials files; and a worker that would like to read another pool."""

import asyncio
import base64
import json
import secrets
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats_nodes import Node
from waiting import PATIENCE, eventually_async

from evenbeat.cli.main import main
from evenbeat.core.timebox import kill_after
from evenbeat.model import Invalid, Job
from evenbeat.queue.nats.address import parse_queue_address
from evenbeat.queue.nats.connection import NatsConnection
from evenbeat.queue.nats.ed25519 import Ed25519PrivateKey
from evenbeat.queue.nats.identity import check_credentials, new_nkey, public_nkey
from evenbeat.queue.nats.worker import ClusterWorker, WorkerOptions
from evenbeat.testing.certificates import CertificateAuthority
from evenbeat.testing.nats_server import NatsServer

SECRET = "the secret of pool b"


class Served(NamedTuple):
    """A server, and where each finds it."""

    queues: dict[str, str]
    authority: CertificateAuthority


def configured(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["nats-config", "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=["passwords", "nkeys"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, authority: CertificateAuthority
) -> Iterator[Served]:
    """As `evenbeat nats-config` says it, with TLS."""
    folder = tmp_path_factory.mktemp("nats")
    server = NatsServer(folder, config=folder / "nats.conf")
    certificate, key = authority.sign(f"server-{request.param}", "IP:127.0.0.1")
    command = [sys.executable, "-m", "evenbeat", "nats-config", "--json", "--pool", "a", "--pool", "b"]
    command += ["--store-dir", str(folder / "data"), "--listen", f"127.0.0.1:{server.ports[0]}"]
    command += ["--server", f"127.0.0.1:{server.ports[0]}", "--tls-cert", str(certificate), "--tls-key", str(key)]
    command += ["--nkeys", str(folder / "keys")] if request.param == "nkeys" else []
    said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    (folder / "nats.conf").write_text(said["config"])
    server.start()
    queues = {name: _with(url, ca=str(authority.certificate)) for name, url in said["queues"].items()}
    yield Served(queues, authority)
    server.stop()


def _with(url: str, **more: str) -> str:
    return url + ("&" if "?" in url else "?") + "&".join(f"{key}={value}" for key, value in more.items())


async def staffed(stack: AsyncExitStack, served: Served) -> tuple[Node, dict[str, ClusterWorker]]:
    """A node, and a worker for each pool, all with their own users."""
    node = Node(parse_queue_address(served.queues["scheduler"]))
    await node.queue.start()
    stack.push_async_callback(node.queue.stop, 0)
    workers = {}
    for pool in "ab":
        where = parse_queue_address(served.queues[f"pool-{pool}"])
        worker = workers[pool] = ClusterWorker(where, WorkerOptions(kill_after, hosts=1, pools=(pool,)))
        await worker.start()
        stack.push_async_callback(worker.stop)
    await eventually_async(
        lambda: {worker.id for worker in workers.values()} <= {w.id for w in node.queue.worker_views}
    )
    await eventually_async(lambda: all(worker.has_recent_answer for worker in workers.values()))
    return node, workers


class Spy:
    """Has the credentials of pool a, and wants to know what pool b is told."""

    def __init__(self, served: Served) -> None:
        self.where = parse_queue_address(served.queues["pool-a"])
        self.heard: list[Msg] = []
        self.refused: list[str] = []

    async def connect(self, stack: AsyncExitStack) -> Client:
        link = NatsConnection(self.where, "spy", lambda: None)
        client = Client()
        from evenbeat.queue.nats.identity import set_client_identity

        set_client_identity(client, self.where)
        await client.connect(**{**link._options(), "error_cb": self._failed, "allow_reconnect": False})
        stack.push_async_callback(client.close)
        return client

    async def _failed(self, error: Exception) -> None:
        self.refused.append(str(error).lower())

    async def hear(self, message: Msg) -> None:
        self.heard.append(message)


def played(scene: Callable[[AsyncExitStack], Any]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(2 * PATIENCE), AsyncExitStack() as stack:
            await scene(stack)

    asyncio.run(whole())


def test_everything_works_and_a_worker_of_one_pool_cannot_read_the_work_of_another(served: Served) -> None:
    async def scene(stack: AsyncExitStack) -> None:
        spy = Spy(served)
        client = await spy.connect(stack)
        prefix, stream = spy.where.prefix, spy.where.stream
        ways = [f"{prefix}.runs.b", f"{prefix}.runs.*", f"{prefix}.>", ">", "_INBOX.>", "_INBOX.pool-b.>"]
        ways += [f"{prefix}.worker.>", f"{prefix}.worker.pool-b.>", f"{prefix}.nodes", f"{prefix}.feed", "$JS.ACK.>"]
        for subject in ways:
            await client.subscribe(subject, cb=spy.hear)
        await client.flush()
        await eventually_async(lambda: len(spy.refused) >= len(ways))
        assert all("permissions violation" in said for said in spy.refused)

        node, _ = await staffed(stack, served)
        tokens = node.send(Job(command=("echo", SECRET)), pool="b") + node.send(Job(command=("echo", "mine")), pool="a")
        results = await node.answers(tokens)
        assert [result.output.strip() for result in results] == [SECRET.encode(), b"mine"]

        inbox = f"{spy.where.inbox}.spy"
        await client.subscribe(inbox, cb=spy.hear)
        filters = f"CONSUMER.CREATE.{stream}.pool-a.{prefix}.runs.a"
        requests: dict[str, dict[str, Any]] = {
            f"CONSUMER.MSG.NEXT.{stream}.pool-b": {"batch": 9},
            f"CONSUMER.CREATE.{stream}.pool-b.{prefix}.runs.b": {"stream_name": stream, "config": {}},
            f"CONSUMER.CREATE.{stream}.mine.{prefix}.runs.>": {"stream_name": stream, "config": {}},
            f"CONSUMER.CREATE.{stream}": {"stream_name": stream, "config": {"filter_subject": f"{prefix}.runs.b"}},
            f"STREAM.MSG.GET.{stream}": {"last_by_subj": f"{prefix}.runs.b"},
            f"DIRECT.GET.{stream}": {"last_by_subj": f"{prefix}.runs.b"},
            f"STREAM.INFO.{stream}": {},
            f"STREAM.DELETE.{stream}": {},
            "STREAM.CREATE.spy": {"name": "spy", "sources": [{"name": stream}]},
        }
        before = len(spy.refused)
        for subject, request in requests.items():
            await client.publish(f"$JS.API.{subject}", json.dumps(request).encode(), inbox)
        await client.publish(f"{prefix}.runs.b", b"run this")
        await client.publish(f"{prefix}.runs.a", b"run this")
        await client.publish(f"{prefix}.worker.pool-b.x", b"you may")
        await client.flush()
        await eventually_async(lambda: len(spy.refused) >= before + len(requests) + 3)
        # What it may ask is only about its own pool: another filter in the body is refused by the server.
        body = {"stream_name": stream, "config": {"durable_name": "pool-a", "filter_subject": f"{prefix}.runs.b"}}
        await client.publish(f"$JS.API.{filters}", json.dumps(body).encode(), inbox)
        await eventually_async(lambda: spy.heard)
        assert [json.loads(message.data)["error"]["code"] for message in spy.heard] == [400]

        # And nothing is worse for all that.
        tokens = node.send(Job(command=("echo", SECRET)), pool="b")
        assert [result.output.strip() for result in await node.answers(tokens)] == [SECRET.encode()]
        assert not any(SECRET.encode() in message.data for message in spy.heard)

    played(scene)


def test_a_server_with_another_certificate_is_not_believed(served: Served, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other")
    url = served.queues["pool-a"].replace(str(served.authority.certificate), str(other.certificate))

    async def scene(stack: AsyncExitStack) -> None:
        link = NatsConnection(parse_queue_address(url), "wary", lambda: None)
        starting = asyncio.create_task(link.start())
        stack.push_async_callback(link.stop)
        await eventually_async(lambda: "certificate" in link.problem.lower())
        assert not link.is_up
        starting.cancel()

    played(scene)


def test_whoever_has_no_user_is_not_let_in(served: Served) -> None:
    where = parse_queue_address(served.queues["pool-a"])
    context = ssl.create_default_context(cafile=where.authority)

    async def scene(stack: AsyncExitStack) -> None:
        client = Client()
        stack.push_async_callback(client.close)  # it leaves a refused connection open
        with pytest.raises((nats.errors.Error, ConnectionError, OSError)):
            await client.connect(where.urls, tls=context, allow_reconnect=False, connect_timeout=5)

    played(scene)


def test_clients_can_be_asked_for_certificates(
    tmp_path: Path, authority: CertificateAuthority, capsys: pytest.CaptureFixture[str]
) -> None:
    server = NatsServer(tmp_path, config=tmp_path / "nats.conf")
    certificate, key = authority.sign("mutual", "IP:127.0.0.1")
    ours, our_key = authority.sign("client")
    said = configured(
        capsys,
        *("--store-dir", str(tmp_path / "data")),
        *("--server", f"127.0.0.1:{server.ports[0]}", "--tls-cert", str(certificate), "--tls-key", str(key)),
        *("--tls-ca", str(authority.certificate)),
    )
    (tmp_path / "nats.conf").write_text(said["config"])
    server.start()
    url = _with(said["queues"]["scheduler"], ca=str(authority.certificate))

    async def scene(stack: AsyncExitStack) -> None:
        without = NatsConnection(parse_queue_address(url), "without", lambda: None)
        starting = asyncio.create_task(without.start())
        stack.push_async_callback(without.stop)
        with_one = NatsConnection(
            parse_queue_address(_with(url, cert=str(ours), key=str(our_key))), "with", lambda: None
        )
        stack.push_async_callback(with_one.stop)
        await with_one.start()
        assert (with_one.is_up, without.is_up) == (True, False)
        starting.cancel()

    try:
        played(scene)
    finally:
        server.stop()


# Credentials files, as an operator hands them out


class _Issuer:
    """Signs what NATS calls JWTs, with nkeys of its own."""

    def __init__(self, kind: int) -> None:
        self._seed = secrets.token_bytes(32)
        with Ed25519PrivateKey(self._seed) as key:
            self.name = _encoded(bytes([kind << 3]) + key.public())

    def sign(self, subject: str, name: str, nats_claims: dict[str, Any]) -> str:
        claims = {"jti": secrets.token_hex(16), "iat": 1_700_000_000, "iss": self.name, "sub": subject, "name": name}
        parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, {**claims, "nats": {"version": 2, **nats_claims}}]
        text = ".".join(_url(json.dumps(part).encode()) for part in parts)
        with Ed25519PrivateKey(self._seed) as key:
            return f"{text}.{_url(key.sign(text.encode()))}"


def _encoded(data: bytes) -> str:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
            crc &= 0xFFFF
    return base64.b32encode(data + crc.to_bytes(2, "little")).decode().rstrip("=")


def _url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_credentials_files_are_taken_and_renewed_ones_are_read_again(tmp_path: Path) -> None:
    operator, system, account, seed = _Issuer(14), _Issuer(0), _Issuer(0), new_nkey(secrets.token_bytes(32))
    limits = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1, "subs": -1, "conn": -1}
    limits |= {"data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "leaf": -1}
    account_jwt = operator.sign(account.name, "evenbeat", {"type": "account", "limits": limits})
    user_jwt = account.sign(public_nkey(seed), "worker", {"type": "user", "subs": -1, "data": -1, "payload": -1})
    operator_jwt = operator.sign(operator.name, "operator", {"type": "operator"})
    nothing = {key: value for key, value in limits.items() if "storage" not in key}
    system_jwt = operator.sign(system.name, "system", {"type": "account", "limits": nothing})
    config = f"operator: {operator_jwt}\nsystem_account: {system.name}\nresolver: MEMORY\n"
    config += f"resolver_preload {{\n{account.name}: {account_jwt}\n{system.name}: {system_jwt}\n}}\n"
    config += f"jetstream {{ store_dir: {tmp_path / 'data'} }}\n"
    (tmp_path / "nats.conf").write_text(config)
    creds = tmp_path / "worker.creds"
    text = f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
    text += f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    creds.write_text(text)
    server = NatsServer(tmp_path, config=tmp_path / "nats.conf")
    server.start()
    where = parse_queue_address(f"{server.url}/c?creds={creds}&name=me")
    assert parse_queue_address(where.url_with_secrets) == where

    async def scene(stack: AsyncExitStack) -> None:
        node = Node(where)
        await node.queue.start()
        stack.push_async_callback(node.queue.stop, 0)
        worker = ClusterWorker(where, WorkerOptions(kill_after, hosts=1))
        await worker.start()
        stack.push_async_callback(worker.stop)
        tokens = node.send(Job(command=("echo", "signed")))
        assert [result.output.strip() for result in await node.answers(tokens)] == [b"signed"]
        creds.write_text(text.replace(seed, new_nkey(secrets.token_bytes(32))))  # of somebody else
        link = NatsConnection(where, "stranger", lambda: None)
        starting = asyncio.create_task(link.start())
        stack.push_async_callback(link.stop)
        await eventually_async(lambda: "authorization" in link.problem.lower())
        creds.write_text(text)
        await starting
        assert link.is_up

    try:
        played(scene)
    finally:
        server.stop()


def test_a_file_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "seed").write_text("SUAAAA")
    for said, words in (
        ("nats://a?creds=/not/there", "/not/there: No such file"),
        (f"nats://a?creds={tmp_path}/empty", "is no credentials file"),
        (f"nats://a?nkey={tmp_path}/seed", "begins with SU"),
        ("tls://a?ca=/not/there", "ca=/not/there: No such file"),
        (f"tls://a?cert={tmp_path}/empty", f"cert={tmp_path}/empty"),
    ):
        with pytest.raises(Invalid, match=words):
            check_credentials(parse_queue_address(said))
    for said in ("nats://a?ca=x", "nats://a?creds=a&nkey=b", "nats://a?what=b", "tls://a?key=k", "nats://a?creds="):
        with pytest.raises(Invalid, match="accepted"):
            parse_queue_address(said)


def test_signatures_are_those_of_rfc_8032() -> None:
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    with Ed25519PrivateKey(seed) as key:
        assert key.public().hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
        assert key.sign(b"\x72").hex().startswith("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da")
