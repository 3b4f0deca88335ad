"""What can be typed to run a node and to manage its tasks. Only the grammar: each answer is a module of its own."""

import argparse
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

STATES: Final = (
    *("ok", "warning", "critical", "unknown", "unchecked", "running", "disabled", "failed"),
    *("paused", "problem", "late", "stale"),
)
LIST_OPTIONS: Final = ("files", "names", "label", "changes", "arg", "kwarg", "env", "work", "pools", "pass_env")
"""Options and arguments that may well be empty lists."""

_DB_HELP: Final = "the database: a file, or postgresql://... (default: EVENBEAT_DB, else evenbeat.db)"

KEY_OPTIONS: Final = (
    ("every", "D", "an interval: 30s 5m 1h30m"),
    ("cron", "C", "a cron entry, with H if you like"),
    ("calendar", "C", 'a systemd expression: "Mon..Fri 09:00"'),
    ("at", "T", "once, at this time, or in so much time: +10m"),
    ("zone", "Z", "time zone, such as Europe/Paris (default: UTC)"),
    ("spread", "S", "how the phase is chosen: even, hash, icinga, bergamot, aligned"),
    ("phase", "D", "where in its interval it runs, instead of the least-loaded place"),
    ("hash", "H", "whose H in cron entries: stable or jenkins"),
    ("days", "or|and", "day of month and of week both restricted: either, or both"),
    ("second", "N", "pin the second within the minute of a cron entry"),
    ("period", "P", "run only inside this period"),
    ("start_at", "T", "run exactly then, not before"),
    ("timebox", "D", "how long one run may last"),
    ("tolerance", "D", "how much closer than their interval two starts may be"),
    ("missed", "W", "what was missed while stopped: once, skip, all"),
    ("catch_up", "D", "how far back missed=all goes"),
    ("backlog", "W", "what passes while a run waits or runs: merge, each"),
    ("limit", "L", "takes a place of this limit"),
    ("pool", "P", "only workers of this pool run it"),
    ("priority", "N", "from -100 to 100, at saturation"),
    ("retry", "D", "of a check in a SOFT problem state"),
    ("attempts", "N", "problems in a row until a check is HARD (default: 3, of a passive check 1)"),
    (
        "grace",
        "D",
        "how much later than its timebox a result may come (default of a passive check: half the interval, at most 1h)",
    ),
    ("when_missing", "S", "critical (default), unknown or warning: a passive check without a result in time"),
    ("weight", "S", "expected run time in seconds, for the load wheel"),
    ("function", "M:F", "run a function of yours: module:function"),
    ("cwd", "DIR", "where the command runs"),
    ("user", "U", "as whom the command or function runs"),
)
"""Keys of a task, as a file has them, that `add` takes as options."""


class CommandFactory(Protocol):
    """Makes the parser of one command."""

    def __call__(self, commands: "_Commands", name: str, help_: str, answer: str) -> argparse.ArgumentParser: ...


def add_commands(commands: "_Commands", new: CommandFactory) -> None:
    """All of them, in the order of the help."""
    _add_up(commands, new)
    _add_worker(commands, new)
    _add_nats_config(commands, new)
    _add_changes(commands, new)
    _add_questions(commands, new)
    _add_care(commands, new)


def _with_database(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    command.add_argument("--db", metavar="PATH", help=_DB_HELP)
    return command


def _with_node(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    where = command.add_mutually_exclusive_group()
    where.add_argument("--db", metavar="PATH", help=_DB_HELP)
    where.add_argument("--url", metavar="URL", help="or the node at this address (default: EVENBEAT_URL, if it is set)")
    command.add_argument("--ca-file", metavar="FILE", help="trust this authority, in PEM (default: EVENBEAT_CA)")
    return command


def _with_selection(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    command.add_argument("names", nargs="*", metavar="NAME", help="names, ids, or patterns with * and ?")
    command.add_argument("--owner", metavar="O", help="only tasks of this owner")
    command.add_argument("--label", action="append", default=[], metavar="K=V", help="only with it; may be repeated")
    command.add_argument("--state", choices=STATES, help="only tasks in this state")
    return _with_node(command)


def _add_up(commands: "_Commands", new: CommandFactory) -> None:
    command = _with_database(new(commands, "up", "run a node: it runs the tasks of a database", "up"))
    command.add_argument(
        "--workers", type=int, metavar="N", help="worker processes (default: one per core; 0 executes nothing)"
    )
    _with_start_options(command)
    help_ = "a node of a cluster, without workers of its own"
    _with_start_options(_with_database(new(commands, "scheduler", help_, "scheduler")))


def _with_start_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("files", nargs="*", metavar="FILE", help="tasks to apply first, and again on `reload`")
    help_ = "do not start if a file is bad, instead of going on with what was last applied of it"
    command.add_argument("--strict", action="store_true", help=help_)
    command.add_argument("--queue", metavar="URL", help="of a cluster: nats://HOST:PORT (default: EVENBEAT_QUEUE)")
    command.add_argument("--replicas", type=int, default=1, metavar="N", help="copies of the queue (default: 1)")
    command.add_argument("--max-concurrent", type=int, metavar="N", help="runs at the same time (default: 512)")
    command.add_argument("--for", dest="for_", metavar="D", help="stop after so much time")
    where = "serve the API and the page there; a PORT alone: for this machine only (default: EVENBEAT_LISTEN, else not)"
    command.add_argument("--listen", metavar="HOST:PORT", help=where)
    help_ = "let every user of this machine in without a token; on loopback only, and not as root"
    command.add_argument("--open", action="store_true", help=help_)
    command.add_argument("--tls-cert", metavar="FILE", help="speak TLS with this certificate, in PEM ...")
    command.add_argument("--tls-key", metavar="FILE", help="... and its key")
    command.add_argument("--no-tls", action="store_true", help="speak plain HTTP with other machines too")


def _add_worker(commands: "_Commands", new: CommandFactory) -> None:
    command = new(commands, "worker", "run what the nodes of a cluster hand over", "worker")
    command.add_argument("--queue", metavar="URL", help="nats://HOST:PORT (default: EVENBEAT_QUEUE)")
    pools = "serve this pool; may be repeated (default: default)"
    command.add_argument("--pool", dest="pools", action="append", default=[], metavar="NAME", help=pools)
    passed = "commands get this variable of its environment too; may be repeated, and end with *"
    command.add_argument("--pass-env", action="append", default=[], metavar="NAME", help=passed)
    command.add_argument("--slots", type=int, metavar="N", help="runs at the same time (default: 256)")
    command.add_argument("--workers", type=int, metavar="N", help="processes for them (default: one per core)")
    command.add_argument("--name", metavar="N", help="what people call it (default: the name of this host)")
    command.add_argument("--grace", metavar="D", help="how long runs may go on when it is stopped (default: 30s)")
    # Whoever started it holds the other end of its standard input, and it leaves when that is closed.
    command.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)


def _add_nats_config(commands: "_Commands", new: CommandFactory) -> None:
    help_ = "a configuration for nats-server in which no pool hears the work of another"
    command = new(commands, "nats-config", help_, "nats_config")
    pools = "a user for the workers of this pool; may be repeated (default: default)"
    command.add_argument("--pool", dest="pools", action="append", default=[], metavar="NAME", help=pools)
    command.add_argument("--prefix", metavar="P", help="of all subjects, as in the address of the queue")
    server = "where schedulers and workers find it (default: localhost:4222)"
    command.add_argument("--server", default="localhost:4222", metavar="HOST:PORT[,...]", help=server)
    command.add_argument("--listen", default="0.0.0.0:4222", metavar="HOST:PORT", help="where it listens")
    command.add_argument("--store-dir", default="/var/lib/nats", metavar="FOLDER", help="where it keeps the stream")
    command.add_argument("--tls-cert", metavar="FILE", help="its certificate, in PEM ...")
    command.add_argument("--tls-key", metavar="FILE", help="... and its key")
    command.add_argument("--tls-ca", metavar="FILE", help="clients must show a certificate of this authority, too")
    nkeys = "make nkeys instead of passwords, and write their seeds there"
    command.add_argument("--nkeys", metavar="FOLDER", help=nkeys)


def _add_changes(commands: "_Commands", new: CommandFactory) -> None:
    command = new(commands, "apply", "make the tasks of files be what the files say", "apply")
    _with_node(command).add_argument("files", nargs="+", metavar="FILE")
    command = new(commands, "add", "add one task", "add")
    command.usage = "evenbeat add NAME (--every D | --cron C | --calendar C | --at T) [options] -- COMMAND..."
    _with_node(command).add_argument("name", metavar="NAME")
    command.add_argument("--check", action="store_true", help="its exit status is a monitoring state")
    for key, metavar, help_ in KEY_OPTIONS:
        command.add_argument(f"--{key.replace('_', '-')}", metavar=metavar, help=help_)
    command.add_argument("--passive", action="store_true", help="its results are submitted from outside")
    command.add_argument("--shell", action="store_true", help="the command is one line, and a shell reads it")
    command.add_argument("--arg", action="append", default=[], metavar="X", help="an argument of the function")
    command.add_argument("--kwarg", action="append", default=[], metavar="K=X", help="one with a name")
    command.add_argument("--env", action="append", default=[], metavar="K=V", help="a variable for the command")
    command.add_argument("--label", action="append", default=[], metavar="K=V", help="a label; may be repeated")
    command.add_argument("--disabled", action="store_true", help="it does not run until it is enabled")
    command.add_argument("--owner", metavar="O", help="who it belongs to (default: you)")
    command = new(commands, "set", "change keys of a task; an empty value is the default", "set")
    _with_node(command).add_argument("name", metavar="NAME")
    command.add_argument("changes", nargs="+", metavar="KEY=VALUE", help="keys as in files: every=10m labels.team=web")
    _with_selection(new(commands, "rm", "delete tasks", "rm"))
    for name, help_ in (("slots", "runs at the same time"), ("limit", "runs at the same time under a limit")):
        command = _with_node(new(commands, name, f"set how many {help_}, until --reset", "slots"))
        if name == "limit":
            command.add_argument("name", metavar="NAME", help="a limit that files declare")
        command.add_argument("most", nargs="?", type=int, metavar="N", help="how many")
        command.add_argument("--reset", action="store_true", help="back to what the command line or files say")
    for name, help_ in (("pause", "disable tasks until they are resumed"), ("resume", "enable paused tasks again")):
        _with_selection(new(commands, name, help_, "pause"))
    command = _with_node(new(commands, "run", "run tasks now", "run"))
    command.add_argument("names", nargs="+", metavar="NAME")
    command.add_argument("--wait", action="store_true", help="until they have ended; exit 0 if all succeeded")
    command = _with_node(new(commands, "result", "tell the result of a check", "result"))
    command.add_argument("name", metavar="NAME")
    command.add_argument("status", metavar="STATUS", help="ok, warning, critical, unknown, or 0 to 3")
    command.add_argument(
        "output", nargs="?", default="", metavar="OUTPUT", help='as a plugin says it: "text | perfdata"'
    )
    command.add_argument(
        "--ttl", metavar="D", help="good for so long; then a result is missing, unless another one came"
    )
    command.add_argument("--at", metavar="T", help="when it was so (default: now)")
    command = _with_node(new(commands, "heartbeat", "a new token for a passive check", "heartbeat"))
    command.add_argument("name", metavar="NAME")
    command.add_argument("--drop", action="store_true", help="take its token away instead")


def _add_questions(commands: "_Commands", new: CommandFactory) -> None:
    _with_selection(new(commands, "ls", "list tasks: state, next and last run", "ls"))
    command = new(commands, "show", "everything about one task", "show")
    _with_node(command).add_argument("name", metavar="NAME")
    command = _with_node(new(commands, "history", "runs and skips, newest first", "history"))
    command.add_argument("name", nargs="?", metavar="NAME", help="of one task (default: of all)")
    command.add_argument("-n", type=int, default=20, metavar="K", help="how many (default: 20)")
    only = command.add_mutually_exclusive_group()
    only.add_argument("--failed", action="store_true", help="only runs that did not succeed")
    only.add_argument("--skips", action="store_true", help="only what was skipped")
    command = _with_node(new(commands, "audit", "who changed what, from what to what", "audit"))
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="a task, also a removed one, or 'token ci', 'limit db'"
    )
    command.add_argument("--who", metavar="W", help="only what this user, token or address did")
    command.add_argument("--since", metavar="T", help="from this time on, or so long ago: 1d, 2026-12-01")
    command.add_argument("-n", "--limit", type=int, default=50, metavar="N", help="how many (default: 50)")
    command = _with_node(new(commands, "why", "why does it run, or not, and when next?", "why"))
    command.add_argument("name", metavar="NAME")
    command.add_argument("--at", metavar="T", help="ask about this time, in the task's zone (default: now)")
    _with_node(new(commands, "status", "how the node is", "status"))


def _add_care(commands: "_Commands", new: CommandFactory) -> None:
    command = new(commands, "reload", "let the node read its files again", "apply")
    _with_database(command).set_defaults(files=[])
    command = new(commands, "backup", "copy the database while everything goes on", "backup")
    _with_database(command).add_argument("file", metavar="FILE")
    command = new(commands, "migrate", "bring a PostgreSQL database up to date, or fill it", "migrate")
    command.add_argument("--db", metavar="ADDRESS", help="postgresql://user@host/database (default: EVENBEAT_DB)")
    command.add_argument("--from", dest="from_", metavar="PATH", help="copy this SQLite database into it first")
    command = _with_database(new(commands, "token", "who may use the API: make, list, remove", "token"))
    command.usage = (
        "evenbeat token add NAME --role read|operate|admin [--expires D] [--owner O] [--label K=V]... | token ls | "
        "token rm NAME | token link [NAME]"
    )
    command.add_argument("action", choices=["add", "ls", "rm", "link"])
    command.add_argument("name", nargs="?", metavar="NAME", help="whose token it is")
    command.add_argument("--role", choices=["read", "operate", "admin"], help="what they may do")
    command.add_argument("--expires", metavar="D", help="it works for so long: 90d (default: until it is removed)")
    command.add_argument("--owner", metavar="O", help="it sees and does only what is of this owner")
    command.add_argument("--label", action="append", metavar="K=V", help="... and has this label; may be repeated")
