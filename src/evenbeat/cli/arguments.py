"""Arguments of the commands that run a node and manage its tasks. Each command is a module of cli/commands/."""

import argparse
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

STATES: Final = (
    *("ok", "warning", "critical", "unknown", "unchecked", "running", "disabled", "failed"),
    *("paused", "problem", "late", "stale", "long", "unreachable", "downtime"),
)
CAUSES: Final = ("state", "failed", "stale", "long")
PROBLEM_STATES: Final = ("warning", "critical", "unknown")
LIST_OPTIONS: Final = (
    *("files", "names", "ids", "label", "changes", "arg", "kwarg", "env", "work", "pools", "pass_env"),
    *("depends", "depends_any", "after", "after_failure", "notify"),
)
"""Options and arguments for which an empty list is a valid value."""

NEW_URL: Final = "new"
"""Of `heartbeat --test` without a URL: the one that is made now."""
_ID_HELP: Final = "the problem with this id; may be repeated"
_DB_HELP: Final = "the database: a file, or postgresql://... (default: EVENBEAT_DB, else evenbeat.db)"

KEY_OPTIONS: Final = (
    ("every", "D", "an interval: 30s 5m 1h30m"),
    ("cron", "C", "a cron entry, with H if you like"),
    ("calendar", "C", 'a systemd expression: "Mon..Fri 09:00"'),
    ("at", "T", "once, at this time, or after a delay: +10m"),
    ("zone", "Z", "time zone, such as Europe/Paris (default: UTC)"),
    ("spread", "S", "how the phase is chosen: even, hash, icinga, bergamot, aligned"),
    ("phase", "D", "offset within the interval, instead of the least-loaded one"),
    ("hash", "H", "how H in cron entries is computed: stable or jenkins"),
    ("days", "or|and", "if both day of month and day of week are given: either or both must match"),
    ("second", "N", "pin the second within the minute of a cron entry"),
    ("period", "P", "run only inside this period"),
    ("start_at", "T", "first run exactly then, none before"),
    ("timebox", "D", "maximum duration of a run: 10m, 50%% of the interval, none (default: a check 60s, a task none)"),
    (
        "longer_than",
        "D",
        "a run that lasts longer is a problem, though nothing ends it (default: 2 x every, at least 1h)",
    ),
    ("tolerance", "D", "how much earlier than the interval a run may follow the previous one"),
    ("missed", "W", "runs missed while the node was stopped: once, skip, all"),
    ("catch_up", "D", "how far back missed=all goes"),
    ("backlog", "W", "due times that pass while a run waits or runs: merge, each"),
    ("limit", "L", "each run takes a slot of this limit"),
    ("pool", "P", "only workers of this pool run it"),
    ("priority", "N", "-100 to 100; decides who goes first when slots are short"),
    ("retry", "D", "interval of a check in a SOFT problem state"),
    ("attempts", "N", "bad results in a row until a problem is HARD (default: 3, passive check: 1)"),
    ("retries", "N", "how often a task that fails tries again (default: 0)"),
    ("backoff", "D", "how long after a failure it tries again, twice as long each time (default: 10s)"),
    ("backoff_max", "D", "the longest time between two attempts (default: 10m)"),
    ("retry_on", "LIST", "only after these: exit codes and exceptions, such as '[75, \"ConnectionError\"]'"),
    (
        "grace",
        "D",
        "extra wait for the result after the timebox (default for a passive check: half the interval, at most 1h)",
    ),
    ("when_missing", "S", "state of a passive check without a result in time: critical (default), unknown or warning"),
    ("repeat", "D", "remind whoever is notified this often, as long as the problem lasts"),
    ("gather", "D", "how long a message waits for more problems (default: 30s)"),
    ("weight", "S", "expected run time in seconds, for spreading the load"),
    ("when_unreachable", "W", "its runs while it is unreachable: run (default), skip"),
    ("function", "M:F", "run a Python function: module:function"),
    ("cwd", "DIR", "working directory of the command"),
    ("user", "U", "user that the command or function runs as"),
    ("output_keep", "SIZE", "how much of the output of each run is kept: 1KB to 16MB"),
)
"""Keys of a task in a file that `add` takes as options."""


class CommandFactory(Protocol):
    """Makes the parser of one command."""

    def __call__(self, commands: "_Commands", name: str, help_: str, answer: str) -> argparse.ArgumentParser: ...


def add_commands(commands: "_Commands", new: CommandFactory) -> None:
    """Add all commands, in the order of the help."""
    _add_up(commands, new)
    _add_worker(commands, new)
    _add_nats_config(commands, new)
    _add_changes(commands, new)
    _add_questions(commands, new)
    _add_problems(commands, new)
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
    _with_tasks_of(command)
    command.add_argument("--state", choices=STATES, help="only tasks in this state")
    return _with_node(command)


def _add_problems(commands: "_Commands", new: CommandFactory) -> None:
    command = _with_node(new(commands, "problems", "list open problems, newest first, or show one of them", "problems"))
    command.add_argument("names", nargs="*", metavar="NAME", help="names or ids of tasks, or patterns with * and ?")
    command.add_argument("--id", type=int, metavar="N", help="show this problem with its times and its timeline")
    _with_tasks_of(command)
    command.add_argument(
        "--cause",
        choices=CAUSES,
        help="state: checks that are not OK; failed: other tasks; stale: a result is missing; long: a run lasts long",
    )
    command.add_argument("--state", choices=PROBLEM_STATES, help="only problems in this state")
    known = command.add_mutually_exclusive_group()
    known.add_argument("--unacknowledged", action="store_true", help="only problems that nobody takes care of")
    known.add_argument("--acknowledged", action="store_true", help="only problems that are acknowledged")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--closed", action="store_true", help="closed problems instead of open ones")
    which.add_argument("--all", action="store_true", help="open and closed problems")
    command.add_argument("-n", "--limit", type=int, default=1000, metavar="N", help="how many (default: 1000)")
    command = _with_selection(new(commands, "ack", "say that you take care of open problems", "ack"))
    command.add_argument("--id", dest="ids", action="append", type=int, default=[], metavar="N", help=_ID_HELP)
    command.add_argument("-m", "--comment", default="", metavar="TEXT", help="a comment, kept with the problem")
    until = command.add_mutually_exclusive_group()
    until.add_argument("--for", dest="for_", metavar="D", help="the acknowledgement ends after this time: 2h")
    until.add_argument("--until", metavar="T", help="or at this time (default: when the problem closes or gets worse)")
    command.add_argument("--sticky", action="store_true", help="keep it even if the problem gets worse")
    command.add_argument("--withdraw", action="store_true", help="take acknowledgements back")
    command = _with_selection(new(commands, "unack", "take acknowledgements back", "ack"))
    command.add_argument("--id", dest="ids", action="append", type=int, default=[], metavar="N", help=_ID_HELP)
    command.set_defaults(withdraw=True, comment="", for_=None, until=None, sticky=False)
    command = new(commands, "comment", "comment on the open problem of a task", "comment")
    command.usage = "evenbeat comment (NAME | --id N) TEXT [options]"
    command.add_argument("name", nargs="?", metavar="NAME", help="name or id of a task, or a pattern with * and ?")
    command.add_argument("text", metavar="TEXT", help="the comment")
    command.add_argument(
        "--id", dest="ids", action="append", type=int, default=[], metavar="N", help=f"{_ID_HELP}; also a closed one"
    )
    _with_node(command)
    _add_notifications(commands, new)
    _add_downtime(commands, new)


def _add_downtime(commands: "_Commands", new: CommandFactory) -> None:
    help_ = "set a downtime: problems are expected then, and nobody is notified; list or end downtimes"
    command = _with_node(new(commands, "downtime", help_, "downtime"))
    command.usage = "evenbeat downtime add NAME... (--for D | --to T) [options] | downtime ls [--all] | downtime rm ID"
    command.add_argument("action", choices=["add", "ls", "rm", "list", "end"], help="list is ls, end is rm")
    command.add_argument("names", nargs="*", metavar="NAME", help="names of tasks, or patterns with * and ?; or an id")
    _with_tasks_of(command)
    until = command.add_mutually_exclusive_group()
    until.add_argument("--for", dest="for_", metavar="D", help="it ends after this time: 2h")
    help_ = "or at this time, in UTC unless it has an offset; --until is the same"
    until.add_argument("--to", "--until", dest="until", metavar="T", help=help_)
    command.add_argument("--from", dest="from_", metavar="T", help="it begins at this time (default: now)")
    command.add_argument("--period", metavar="P", help="only while this period is open")
    command.add_argument("--reason", default="", metavar="TEXT", help="why; shown with the tasks")
    help_ = "without the tasks that depend on these"
    command.add_argument("--no-dependents", action="store_true", help=help_)
    command.add_argument("--all", action="store_true", help="also downtimes that are over, for 30 days")


def _with_tasks_of(command: argparse.ArgumentParser) -> None:
    command.add_argument("--owner", metavar="O", help="only tasks of this owner")
    command.add_argument(
        "--label", action="append", default=[], metavar="K=V", help="only tasks with this label; may be repeated"
    )


def _add_up(commands: "_Commands", new: CommandFactory) -> None:
    command = _with_database(new(commands, "up", "run a node: it runs the tasks of a database", "up"))
    command.add_argument(
        "--workers", type=int, metavar="N", help="worker processes (default: one per core; 0 executes nothing)"
    )
    _with_start_options(command)
    help_ = "a node of a cluster, without workers of its own"
    _with_start_options(_with_database(new(commands, "scheduler", help_, "scheduler")))


def _with_start_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("files", nargs="*", metavar="FILE", help="files to apply at the start, and again on `reload`")
    help_ = "read the files again when they change, as on `reload`: a crontab stays the source of truth"
    command.add_argument("--follow", action="store_true", help=help_)
    help_ = "refuse to start if a file has errors, instead of using its last applied version"
    command.add_argument("--strict", action="store_true", help=help_)
    command.add_argument(
        "--queue", metavar="URL", help="queue of a cluster: nats://HOST:PORT (default: EVENBEAT_QUEUE)"
    )
    command.add_argument("--replicas", type=int, default=1, metavar="N", help="copies of the queue (default: 1)")
    command.add_argument("--max-concurrent", type=int, metavar="N", help="maximum concurrent runs (default: 512)")
    command.add_argument("--for", dest="for_", metavar="D", help="stop after this time")
    where = "serve the API and the page here; a PORT alone means this machine only (default: EVENBEAT_LISTEN, or off)"
    command.add_argument("--listen", metavar="HOST:PORT", help=where)
    help_ = "admit every user of this machine without a token; only on loopback, and not as root"
    command.add_argument("--open", action="store_true", help=help_)
    command.add_argument("--tls-cert", metavar="FILE", help="serve TLS with this certificate, in PEM")
    command.add_argument("--tls-key", metavar="FILE", help="the key of the certificate")
    command.add_argument("--no-tls", action="store_true", help="allow plain HTTP for other machines too")


def _add_worker(commands: "_Commands", new: CommandFactory) -> None:
    command = new(commands, "worker", "execute runs for the schedulers of a cluster", "worker")
    command.add_argument("--queue", metavar="URL", help="nats://HOST:PORT (default: EVENBEAT_QUEUE)")
    pools = "serve this pool; may be repeated (default: default)"
    command.add_argument("--pool", dest="pools", action="append", default=[], metavar="NAME", help=pools)
    passed = "pass this variable of the worker's environment to commands; may be repeated, and end with *"
    command.add_argument("--pass-env", action="append", default=[], metavar="NAME", help=passed)
    command.add_argument("--slots", type=int, metavar="N", help="maximum concurrent runs (default: 256)")
    command.add_argument("--workers", type=int, metavar="N", help="processes for them (default: one per core)")
    command.add_argument("--name", metavar="N", help="a name to show to people (default: the name of this host)")
    command.add_argument(
        "--grace", metavar="D", help="how long running commands may continue when the worker is stopped (default: 30s)"
    )
    # The parent holds the other end of standard input; the worker stops when it closes.
    command.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)


def _add_nats_config(commands: "_Commands", new: CommandFactory) -> None:
    help_ = "print a configuration for nats-server that keeps each pool's work private"
    command = new(commands, "nats-config", help_, "nats_config")
    pools = "a user for the workers of this pool; may be repeated (default: default)"
    command.add_argument("--pool", dest="pools", action="append", default=[], metavar="NAME", help=pools)
    command.add_argument("--prefix", metavar="P", help="prefix of all subjects, as in the address of the queue")
    server = "address that schedulers and workers connect to (default: localhost:4222)"
    command.add_argument("--server", default="localhost:4222", metavar="HOST:PORT[,...]", help=server)
    command.add_argument(
        "--listen", default="0.0.0.0:4222", metavar="HOST:PORT", help="address that nats-server listens on"
    )
    command.add_argument("--store-dir", default="/var/lib/nats", metavar="FOLDER", help="folder for the stream")
    command.add_argument("--tls-cert", metavar="FILE", help="its certificate, in PEM")
    command.add_argument("--tls-key", metavar="FILE", help="its key")
    command.add_argument("--tls-ca", metavar="FILE", help="also require client certificates of this authority")
    nkeys = "use nkeys instead of passwords, and write their seeds into this folder"
    command.add_argument("--nkeys", metavar="FOLDER", help=nkeys)


def _add_changes(commands: "_Commands", new: CommandFactory) -> None:
    command = new(commands, "apply", "create, change and remove tasks to match files", "apply")
    _with_node(command).add_argument("files", nargs="+", metavar="FILE")
    command = new(commands, "add", "add one task", "add")
    command.usage = (
        "evenbeat add NAME (--every D | --cron C | --calendar C | --at T | --after TASK) [options] -- COMMAND..."
    )
    _with_node(command).add_argument("name", metavar="NAME")
    command.add_argument("--check", action="store_true", help="a check: its exit status is a monitoring state")
    for key, metavar, help_ in KEY_OPTIONS:
        command.add_argument(f"--{key.replace('_', '-')}", metavar=metavar, help=help_)
    command.add_argument("--passive", action="store_true", help="its results are submitted externally")
    command.add_argument("--shell", action="store_true", help="run the command through a shell, as one line")
    command.add_argument("--arg", action="append", default=[], metavar="X", help="an argument of the function")
    command.add_argument(
        "--kwarg", action="append", default=[], metavar="K=X", help="a keyword argument of the function"
    )
    command.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="an environment variable for the command"
    )
    command.add_argument("--label", action="append", default=[], metavar="K=V", help="a label; may be repeated")
    command.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="C",
        help='a contact that is notified of problems; may be repeated; or { to = "boss", after = "30m" }',
    )
    depends = "a check that must be fine, or else the task is unreachable"
    for option, help_ in (("--depends", depends), ("--depends-any", "checks of which one must be fine")):
        command.add_argument(option, action="append", default=[], metavar="CHECK", help=f"{help_}; may be repeated")
    for option, help_ in (
        ("--after", "run as soon as this task has succeeded"),
        ("--after-failure", "run when this task has failed and is not tried again"),
    ):
        command.add_argument(option, action="append", default=[], metavar="TASK", help=f"{help_}; may be repeated")
    command.add_argument("--disabled", action="store_true", help="add the task without running it until it is enabled")
    command.add_argument("--owner", metavar="O", help="the owner of the task (default: you)")
    command = new(commands, "set", "change keys of a task; an empty value restores the default", "set")
    _with_node(command).add_argument("name", metavar="NAME")
    command.add_argument("changes", nargs="+", metavar="KEY=VALUE", help="keys as in files: every=10m labels.team=web")
    _with_selection(new(commands, "rm", "delete tasks", "rm"))
    _add_periods(commands, new)
    _add_contacts(commands, new)
    for name, help_ in (("slots", "concurrent runs"), ("limit", "concurrent runs under a limit")):
        command = _with_node(new(commands, name, f"set the maximum of {help_}, until --reset", "slots"))
        if name == "limit":
            command.add_argument("name", metavar="NAME", help="a limit that files declare")
        command.add_argument("most", nargs="?", type=int, metavar="N", help="how many")
        command.add_argument("--reset", action="store_true", help="return to the value of the command line or files")
    _add_pauses(commands, new)
    _add_runs(commands, new)
    command = _with_node(new(commands, "result", "submit the result of a check", "result"))
    command.add_argument("name", metavar="NAME")
    command.add_argument("status", metavar="STATUS", help="ok, warning, critical, unknown, or 0 to 3")
    command.add_argument(
        "output", nargs="?", default="", metavar="OUTPUT", help='output as plugins print it: "text | perfdata"'
    )
    command.add_argument(
        "--ttl",
        metavar="D",
        help="valid for this long; without another result after that, the result counts as missing",
    )
    command.add_argument("--at", metavar="T", help="when the result was determined (default: now)")
    command = _with_node(
        new(commands, "heartbeat", "create, test or remove the URL for heartbeats of a passive check", "heartbeat")
    )
    command.add_argument("name", metavar="NAME")
    command.add_argument("--drop", action="store_true", help="remove it instead")
    test = "send a line for the log, which changes no state: to the new URL, or to this one, which stays valid"
    command.add_argument("--test", nargs="?", const=NEW_URL, metavar="URL", help=test)


def _add_runs(commands: "_Commands", new: CommandFactory) -> None:
    command = _with_node(new(commands, "run", "run tasks now", "run"))
    command.add_argument("names", nargs="+", metavar="NAME")
    command.add_argument("--wait", action="store_true", help="wait until they have ended; exit 0 if all succeeded")
    command.add_argument("--follow", action="store_true", help="print what the run writes, until it has ended")
    command.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="K=V",
        help="of one task, for this run: a named argument of its function, or a further word of its command",
    )
    command.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="of one task, for this run: a further variable"
    )
    help_ = "stop runs under way, and withdraw forced runs that wait"
    command = _with_selection(new(commands, "stop", help_, "stop"))
    command.add_argument("--reason", default="", metavar="TEXT", help="why; shown with the run")
    command.add_argument("--wait", action="store_true", help="wait until the runs have ended")
    command = _with_node(new(commands, "cursor", "show where the next run of a task goes on, or change that", "cursor"))
    command.add_argument("name", metavar="NAME")
    change = command.add_mutually_exclusive_group()
    change.add_argument("--reset", action="store_true", help="the next run has no cursor")
    change.add_argument("--set", metavar="VALUE", help="the next run goes on from here")


def _add_pauses(commands: "_Commands", new: CommandFactory) -> None:
    pause = "pause tasks, for a while or until they are resumed"
    for name, help_ in (("pause", pause), ("resume", "resume paused tasks")):
        command = _with_selection(new(commands, name, help_, "pause"))
        if name == "pause":
            until = command.add_mutually_exclusive_group()
            until.add_argument("--for", dest="for_", metavar="D", help="they are resumed after this time: 2h")
            until.add_argument("--until", metavar="T", help="or at this time, in UTC unless it has an offset")
            command.add_argument("--reason", default="", metavar="TEXT", help="why; shown with the tasks")


def _add_periods(commands: "_Commands", new: CommandFactory) -> None:
    help_ = "list named periods and whether they are open, show one, or define or remove one"
    command = _with_node(new(commands, "periods", help_, "periods"))
    command.usage = "evenbeat periods [NAME] | periods set NAME LINE... [KEY=VALUE...] | periods rm NAME"
    actions = "ls, show, set or rm; a NAME alone shows the period with its windows of a week"
    command.add_argument("action", nargs="?", metavar="ACTION", default="ls", help=actions)
    command.add_argument("name", nargs="?", metavar="NAME", help="name of the period")
    changes = 'lines such as "monday-friday 09:00-17:00", and keys as in files: zone=Europe/Paris exclude=holidays'
    command.add_argument("changes", nargs="*", metavar="LINE", help=f"{changes}; an empty value removes a key")


def _add_contacts(commands: "_Commands", new: CommandFactory) -> None:
    help_ = "list contacts, show one with its latest messages, or define, remove or test one"
    command = _with_node(new(commands, "contacts", help_, "contacts"))
    command.usage = "evenbeat contacts [NAME] | contacts set NAME KEY=VALUE... | contacts rm NAME | contacts test NAME"
    actions = "ls, show, set, rm or test; a NAME alone shows the contact with its latest messages"
    command.add_argument("action", nargs="?", metavar="ACTION", default="ls", help=actions)
    command.add_argument("name", nargs="?", metavar="NAME", help="name of the contact")
    changes = "keys as in files: email=ops@example.org webhook=env:HOOK; an empty value removes a key"
    command.add_argument("changes", nargs="*", metavar="KEY=VALUE", help=changes)
    command.add_argument("-n", type=int, default=10, metavar="K", help="how many messages to show (default: 10)")


def _add_notifications(commands: "_Commands", new: CommandFactory) -> None:
    help_ = "who was notified of problems and who was not, with reasons, newest first"
    command = _with_node(new(commands, "notifications", help_, "notifications"))
    command.add_argument("name", nargs="?", metavar="NAME", help="only of this task, also a removed one (default: all)")
    command.add_argument("--contact", metavar="C", help="only to this contact")
    command.add_argument("--since", metavar="T", help="since this time, or within this long: 1h, 2026-12-01")
    command.add_argument("-n", "--limit", type=int, default=100, metavar="N", help="how many (default: 100)")


def _add_questions(commands: "_Commands", new: CommandFactory) -> None:
    _with_selection(new(commands, "ls", "list tasks: state, next and last run", "ls"))
    command = new(commands, "show", "everything about one task", "show")
    _with_node(command).add_argument("name", metavar="NAME")
    command = _with_node(new(commands, "history", "runs and skips, newest first", "history"))
    command.add_argument("name", nargs="?", metavar="NAME", help="only this task (default: all)")
    command.add_argument("-n", type=int, metavar="K", help="how many (default: 20, with --since all)")
    command.add_argument("--since", metavar="T", help="since this time, or within this long: 1h, 2026-12-01")
    only = command.add_mutually_exclusive_group()
    only.add_argument("--failed", action="store_true", help="only runs that did not succeed")
    only.add_argument("--skips", action="store_true", help="only skips")
    only.add_argument("--by", choices=("hour", "day"), help="summaries of the runs of each hour or day")
    command = _with_node(new(commands, "logs", "the output of a run, also while it is under way", "logs"))
    command.add_argument("name", metavar="NAME")
    command.add_argument("-f", "--follow", action="store_true", help="print what the run writes, until it has ended")
    command.add_argument("--run", metavar="T", help="the run that began then (default: the latest)")
    command = _with_node(new(commands, "audit", "who changed what, from what to what", "audit"))
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="a task, even a removed one, or 'token ci', 'limit db', 'contact ops'"
    )
    command.add_argument("--who", metavar="W", help="only changes by this user, token or address")
    command.add_argument("--since", metavar="T", help="changes since this time, or within this long: 1d, 2026-12-01")
    command.add_argument("-n", "--limit", type=int, default=50, metavar="N", help="how many (default: 50)")
    command = _with_node(
        new(commands, "why", "explain why a task runs or does not run, when it is due, and who is notified", "why")
    )
    command.add_argument("name", metavar="NAME")
    command.add_argument("--at", metavar="T", help="ask about this time, in the task's zone (default: now)")
    _with_node(new(commands, "status", "show how the node is doing", "status"))


def _add_service(commands: "_Commands", new: CommandFactory) -> None:
    help_ = "write a systemd unit for a node on this machine, and say how to start it and undo it"
    command = _with_database(new(commands, "install-service", help_, "install_service"))
    command.add_argument("files", nargs="*", metavar="FILE", help="files to apply at the start, and again on `reload`")
    command.add_argument("--name", default="evenbeat", metavar="N", help="name of the service (default: evenbeat)")
    command.add_argument("--listen", metavar="HOST:PORT", help="serve the API and the page here")
    command.add_argument("--run-as", metavar="U", help="user that the service runs as (default: evenbeat)")
    command.add_argument("--user", action="store_true", help="a unit of this user, also as root")
    command.add_argument("--dry-run", action="store_true", help="print the unit and write nothing")
    command.add_argument("--force", action="store_true", help="replace a different unit of this name")


def _add_care(commands: "_Commands", new: CommandFactory) -> None:
    _add_service(commands, new)
    command = new(commands, "reload", "make the node apply its files again", "apply")
    _with_database(command).set_defaults(files=[])
    command = new(commands, "backup", "copy the database while the node keeps running", "backup")
    _with_database(command).add_argument("file", metavar="FILE")
    command = new(commands, "migrate", "bring a PostgreSQL database up to date, or fill it", "migrate")
    command.add_argument("--db", metavar="ADDRESS", help="postgresql://user@host/database (default: EVENBEAT_DB)")
    command.add_argument("--from", dest="from_", metavar="PATH", help="copy this SQLite database into it first")
    command = _with_database(new(commands, "token", "manage access to the API: add, list and remove tokens", "token"))
    command.usage = (
        "evenbeat token add NAME --role read|operate|admin [--expires D] [--owner O] [--label K=V]... | token ls | "
        "token rm NAME | token link [NAME]"
    )
    command.add_argument("action", choices=["add", "ls", "rm", "link"])
    command.add_argument("name", nargs="?", metavar="NAME", help="name of the token")
    command.add_argument("--role", choices=["read", "operate", "admin"], help="what the token may do")
    command.add_argument("--expires", metavar="D", help="valid for this long: 90d (default: until it is removed)")
    command.add_argument("--owner", metavar="O", help="limit the token to tasks of this owner")
    command.add_argument(
        "--label", action="append", metavar="K=V", help="limit the token to tasks with this label; may be repeated"
    )
