"""Checks that notify receivers, the nodes that live and die with them, and what is done to all of them at random."""

import os
import random
import re
import signal
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from crashing_node import CrashingNode
from fickle_receivers import HTTP_BEHAVIOURS, MAIL_BEHAVIOURS, FickleHttpReceiver, FickleSmtpReceiver
from notification_oracle import CheckResult, Evidence, Quiet, findings, read
from run_log_reader import show_logged_runs
from waiting import eventually

from evenbeat.client.node_or_database import open_client
from evenbeat.client.store_based import LocalClient
from evenbeat.model import Invalid
from evenbeat.store.contract import Filter, StoreError

PASSIVE: Final = ("p0", "p1", "p2", "p3")
"""Checks whose results the test submits."""
ACTIVE: Final = ("a0", "a1")
"""Checks that run once a second, and are as a file says."""
PARENT: Final = "gateway"
"""An active check; CHILDREN depend on it."""
CHILDREN: Final = ("c0", "c1")
LEAVING: Final = "leaving"
"""A passive check that is removed on the way."""
CHECKS: Final = (*PASSIVE, *ACTIVE, PARENT, *CHILDREN, LEAVING)
NOTIFY: Final = {name: ("ops", "twin", "mail", "boss") if name[0] in "pc" else ("ops", "mail") for name in CHECKS}
_ESCALATION: Final = 2
"""Seconds until the boss is told."""
_GATHER: Final = "300ms"
_CALM_PATIENCE: Final = 240.0
"""Seconds until everything must be told when nothing fails any more: a message that has failed five times, within 75 s,
is tried again after 80 s, and a recovery may wait for its end."""


class Receivers:
    """Everything that messages go to; the contacts ops and twin share a receiver."""

    def __init__(self) -> None:
        self.http = FickleHttpReceiver()
        self.boss = FickleHttpReceiver()
        self.mail = FickleSmtpReceiver()

    def __enter__(self) -> "Receivers":
        for receiver in (self.http, self.boss, self.mail):
            receiver.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for receiver in (self.http, self.boss, self.mail):
            receiver.__exit__(None, None, None)

    @property
    def arrivals(self) -> list[Any]:
        return [*self.http.arrivals, *self.boss.arrivals, *self.mail.arrivals("mail")]

    def contacts(self) -> str:
        """For a file."""
        parts = [
            f'[contacts.{name}]\nwebhook = "{receiver.url(name)}"\nper_hour = 3600\n'
            for name, receiver in (("ops", self.http), ("twin", self.http), ("boss", self.boss))
        ]
        mail = f'email = ["ops@localhost"]\nsmtp = "smtp://127.0.0.1:{self.mail.port}"\nper_hour = 3600\n'
        return "\n".join([*parts, f"[contacts.mail]\n{mail}"])

    def misbehave(self, chance: random.Random) -> None:
        """One of them, in one way."""
        which = chance.choice((self.http, self.http, self.boss, None))
        if which is None:
            self.mail.behaviour = chance.choice(MAIL_BEHAVIOURS)
        else:
            which.behaviour = chance.choice(HTTP_BEHAVIOURS)

    def heal(self) -> None:
        for receiver in (self.http, self.boss, self.mail):
            receiver.behaviour = "ok"


def check_tables(folder: Path, gather: str = _GATHER) -> str:
    """The checks, for a file."""
    parts = []
    for name in CHECKS:
        wanted = [f'{{ to = "{to}", after = "{_ESCALATION}s" }}' if to == "boss" else f'"{to}"' for to in NOTIFY[name]]
        lines = [f"[checks.{name}]", "attempts = 1", f"notify = [{', '.join(wanted)}]", f'gather = "{gather}"']
        if name in (*ACTIVE, PARENT):
            script = f"read s < {folder}/state.{name}; echo state $s; exit $s"
            lines += ['every = "1s"', f'command = ["sh", "-c", "{script}"]']
        else:
            lines += ["passive = true", 'every = "1h"']
        if name in CHILDREN:
            lines.append(f'depends = ["{PARENT}"]')
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


class StateFiles:
    """What the active checks find."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in (*ACTIVE, PARENT):
            self.set(name, 0)

    def set(self, name: str, state: int) -> None:
        """At once: no run may find an empty file."""
        new = self._folder / "new state"
        new.write_text(f"{state}\n")
        new.replace(self._folder / f"state.{name}")


class People:
    """What people do, by a client of the database; what they were promised is noted for the oracle."""

    def __init__(self, ask: Callable[[Callable[[LocalClient], Any]], Any], chance: random.Random) -> None:
        """`ask` has a client do something; it returns None if the node refuses or dies meanwhile."""
        self._ask = ask
        self._chance = chance
        self._downtimes: dict[str, str] = {}
        self._paused: set[str] = set()
        self._open: list[Quiet] = []
        self._over: list[Quiet] = []

    @property
    def quiet(self) -> list[Quiet]:
        return self._open + self._over

    def submit(self, name: str, state: int) -> bool:
        """A result of a passive check; was it promised to be kept?"""
        return self._ask(lambda client: client.submit_result(name, state, f"state {state}")) is not None

    def begin_downtime(self, name: str) -> None:
        if name not in self._downtimes:
            end = time.time_ns() // 1_000 + 3_600_000_000
            made = self._ask(lambda client: client.add_downtime([name], end=end, dependents=False, comment="test"))  # type: ignore[arg-type]
            if made is not None:
                self._downtimes[name] = made.id
                self._begin("downtime", name)

    def end_downtimes(self) -> None:
        for name, id_ in list(self._downtimes.items()):
            self._end("downtime", name)
            if self._ask(lambda client, id_=id_: client.end_downtime(id_)) is not None:  # type: ignore[misc]
                del self._downtimes[name]

    def pause(self, name: str) -> None:
        self._paused.add(name)  # one that dies before it replies may have done it
        if self._ask(lambda client: client.pause(Filter(names=(name,)), paused=True)) is not None:
            self._begin("pause", name)

    def resume(self) -> None:
        for name in sorted(self._paused):
            self._end("pause", name)
            if self._ask(lambda client, name=name: client.pause(Filter(names=(name,)), paused=False)) is not None:  # type: ignore[misc]
                self._paused.remove(name)

    def end_all(self) -> None:
        """As soon as the node can do it."""

        def is_done() -> bool:
            self.end_downtimes()
            self.resume()
            return not self._paused and not self._downtimes

        eventually(is_done, "downtimes and pauses end")

    def acknowledge(self, name: str) -> None:
        """Until the problem closes."""
        done = self._ask(lambda client: client.acknowledge(Filter(names=(name,)), comment="seen", sticky=True))
        if done is not None and done.ids:
            self._begin("acknowledged", name)

    def note_recovery(self, name: str) -> None:
        """The problem may be over from now on, and with it its acknowledgement."""
        self._end("acknowledged", name)

    def remove(self, name: str) -> bool:
        return self._ask(lambda client: client.remove(Filter(names=(name,)))) is not None

    def do_something(self, names: tuple[str, ...]) -> None:
        """At random."""
        name = self._chance.choice(names)
        what = self._chance.choice([self.begin_downtime, self.begin_downtime, self.pause, self.acknowledge, None])
        if what is None:
            self.end_downtimes()
            self.resume()
        else:
            what(name)

    def _begin(self, why: str, name: str) -> None:
        self._end(why, name)
        self._open.append(Quiet(why, name, _now(), None))

    def _end(self, why: str, name: str) -> None:
        """From before it is asked for."""
        for quiet in [quiet for quiet in self._open if (quiet.why, quiet.task) == (why, name)]:
            self._open.remove(quiet)
            self._over.append(quiet._replace(end=_now()))


class NotifyingWorld(ABC):
    """Checks that become better and worse, people, and receivers; nodes come with those who inherit from this."""

    def __init__(self, folder: Path, receivers: Receivers, chance: random.Random) -> None:
        self.receivers = receivers
        self.states = StateFiles(folder)
        self.chance = chance
        self.people = People(self._do, chance)
        self.removed: set[str] = set()
        self._results: set[CheckResult] = set()
        """All that were seen: the history packs them meanwhile."""

    @abstractmethod
    def client(self) -> LocalClient:
        """Of the database."""

    @abstractmethod
    def connection(self) -> AbstractContextManager[Any]:
        """To the database, by plain SQL; all within one transaction."""

    @abstractmethod
    def assert_alive(self) -> None:
        """Fail if there is no node."""

    def _do(self, what: Callable[[LocalClient], Any]) -> Any:
        with suppress(StoreError, Invalid, OSError), self.client() as client:
            return what(client)
        return None

    # What happens

    def set_state(self, name: str, state: int) -> None:
        if not state:
            self.people.note_recovery(name)
        if name in (*ACTIVE, PARENT):
            self.states.set(name, state)
        elif name not in self.removed:
            self.people.submit(name, state)

    def flip(self) -> None:
        """One of them becomes better or worse."""
        self.set_state(self.chance.choice(CHECKS), self.chance.choice([0, 0, 1, 2, 2, 3]))

    def flip_and_more(self) -> None:
        """And sometimes receivers and people do something, too."""
        self.flip()
        if self.chance.random() < 0.1:
            self.receivers.misbehave(self.chance)
        if self.chance.random() < 0.15:
            self.people.do_something(tuple(name for name in CHECKS if name != LEAVING))

    def calm_down(self) -> None:
        """Everything works; every check becomes CRITICAL and then OK, and everybody is told."""
        self.receivers.heal()
        self.people.end_all()
        self.set_state(PARENT, 0)
        for state in (2, 0):
            for name in (*PASSIVE, *CHILDREN, *ACTIVE):
                self.set_state(name, state)
            with suppress(AssertionError):
                eventually(lambda s=state: not self._unfinished(s), "everything is told", patience=_CALM_PATIENCE)  # type: ignore[misc]
            assert not (found := self._unfinished(state)), "\n".join(found)

    # Judging

    def evidence(self) -> Evidence:
        with self.connection() as connection:
            notify = {name: to for name, to in NOTIFY.items() if name not in self.removed}
            found = read(connection, self.receivers.arrivals, notify, self.people.quiet)
        self._results.update(found.results)
        return found._replace(results=sorted(self._results, key=lambda result: result.ended))

    def _unfinished(self, state: int) -> list[str]:
        """What is not right now that every check has this state; some of it may only need time."""
        self.assert_alive()
        evidence = self.evidence()
        latest = {result.task: result.state for result in evidence.results}
        others = [name for name in (*PASSIVE, *CHILDREN, *ACTIVE) if latest.get(name) != state]
        return [*(f"the latest result of {name} is not {state}" for name in others), *findings(evidence)]


class NotifyingNode(CrashingNode, NotifyingWorld):
    """A single node on SQLite."""

    def __init__(self, folder: Path, receivers: Receivers, chance: random.Random) -> None:
        NotifyingWorld.__init__(self, folder, receivers, chance)
        CrashingNode.__init__(self, folder)

    def _tasks(self) -> str:
        return "[node]\nmax_concurrent = 10\n" + self.receivers.contacts() + check_tables(self.folder)

    def start_eager(self, **fault: object) -> None:
        """With a fault planted: `crash` at a boundary of the engine of notifications, or `store`."""
        names = {"crash": "alert crash", "store": "store"}
        self.start_with({"eager": True} | {names[name]: value for name, value in fault.items()})

    @property
    def is_alive(self) -> bool:
        return self.node is not None and self.node.poll() is None

    def assert_alive(self) -> None:
        assert self.is_alive, (self.folder / "node.log").read_text()

    def client(self) -> LocalClient:
        return open_client(self.database, "ana")

    @contextmanager
    def connection(self) -> Iterator[Any]:
        with closing(sqlite3.connect(f"{self.database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("BEGIN")
            show_logged_runs(connection)
            yield connection

    def kill_sender(self) -> None:
        kill_senders(self._process().pid)

    def reload(self) -> None:
        """The files have changed a little, and are applied: a contact that nobody names comes or goes."""
        text = self._file.read_text()
        extra = '[contacts.nobody]\nwebhook = "http://localhost:1/"\n'
        self._file.write_text(text.replace(extra, "") if extra in text else text + extra)
        self._process().send_signal(signal.SIGHUP)

    def remove_leaving(self) -> None:
        """From the file first, which the next node applies."""
        self.removed.add(LEAVING)
        table = rf"\[checks\.{LEAVING}\]\n([^\[\n].*\n|\n)*"
        self._file.write_text(re.sub(table, "", self._file.read_text()))
        self.people.remove(LEAVING)


def kill_senders(node: int) -> None:
    """The processes that deliver for a node."""
    with suppress(OSError):
        for child in Path(f"/proc/{node}/task/{node}/children").read_text().split():
            if b"evenbeat.sender.process" in _command_line(int(child)):
                os.kill(int(child), signal.SIGKILL)


def _command_line(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _now() -> int:
    return time.time_ns() // 1_000
