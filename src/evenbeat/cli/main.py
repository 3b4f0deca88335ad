"""The command `evenbeat`: parses arguments and runs the module of the command. Only that module has heavy imports."""

import argparse
import os
import sys
from enum import StrEnum
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from evenbeat.cli.arguments import LIST_OPTIONS, add_commands
from evenbeat.cli.output.terminal import escape_output, escaped_output
from evenbeat.model import Days, Hash, Invalid, Prefer, Spread

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130
"""As shells report an end by signal 2."""

_EXAMPLES: Final = """\
`evenbeat help COMMAND` explains one command.

examples:
  evenbeat up examples/first.toml
  evenbeat add heartbeat --every 10s -- date
  evenbeat why heartbeat
  evenbeat next "H/15 9-17 * * 1-5" --name report --zone Europe/Paris
  evenbeat next --every 5m --period "monday-friday 09:00-17:00" -n 3
  evenbeat explain "0 0 13 * 5"
  evenbeat period "monday-friday 09:00-17:00" --exclude "december 25"
  evenbeat spread --tasks 10000 --every 10s,1m,5m --strategy all
"""


class _Version(argparse.Action):
    """Prints the version. The import that finds it is slow, so it happens only here."""

    def __call__(self, *_: object) -> NoReturn:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"evenbeat {version('evenbeat')}")
        sys.exit(EXIT_OK)


class _CommandParser(argparse.ArgumentParser):
    """Refuses arguments that it does not know with its own usage, not with that of all commands."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top: argparse.ArgumentParser = _CommandParser(
        prog="evenbeat",
        description="Periodic work, spread evenly over time, never overlapping, every skipped run accounted for.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_next(commands)
    _add_explain(commands)
    _add_period(commands)
    _add_spread(commands)
    _add_simulate(commands)
    _add_verify(commands)
    add_commands(commands, _command)
    _add_bench(commands)
    _add_check_config(commands)
    _add_import(commands)
    return top


def _choice_words(choices: type[StrEnum]) -> list[str]:
    return [choice.value for choice in choices]


def _command(commands: "_Commands", name: str, help_: str, answer: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help_, description=help_)
    command.set_defaults(answer=f"evenbeat.cli.commands.{answer}")
    command.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return command


def _add_cron_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", default="", metavar="N", help="the task's name, from which H takes its values")
    command.add_argument(
        "--hash",
        choices=_choice_words(Hash),
        default=Hash.STABLE,
        help="how H is computed: by evenbeat or as Jenkins does",
    )
    command.add_argument(
        "--days",
        choices=_choice_words(Days),
        default=Days.OR,
        help="if both day of month and day of week are given: either or both must match",
    )
    command.add_argument(
        "--second", default="spread", metavar="N|spread", help="pin the second within the minute (default: spread)"
    )
    command.add_argument("--zone", default="UTC", metavar="Z", help="time zone, such as Europe/Paris (default: UTC)")


def _add_next(commands: "_Commands") -> None:
    command = _command(commands, "next", "the next nominal times of a schedule", "next")
    command.add_argument("cron", nargs="?", metavar="CRON", help="a cron entry, with H if you like")
    command.add_argument("--every", metavar="D", help="an interval: 30s 5m 1h30m")
    command.add_argument("--calendar", metavar="C", help='a systemd expression: "Mon..Fri 09:00"')
    command.add_argument("--at", metavar="T", help="once, at this time")
    _add_cron_options(command)
    command.add_argument("--phase", metavar="S", help="offset within the interval (default: by name, else 0)")
    command.add_argument(
        "--period", action="append", default=[], metavar="LINE", help="only inside this period; may be repeated"
    )
    command.add_argument(
        "--exclude", action="append", default=[], metavar="LINE", help="never inside this period; may be repeated"
    )
    command.add_argument("--from", dest="from_", metavar="T", help="strictly after this time (default: now)")
    command.add_argument("-n", type=int, default=5, metavar="K", help="how many (default: 5)")


def _add_explain(commands: "_Commands") -> None:
    command = _command(commands, "explain", "explain a cron entry in plain English", "explain")
    command.add_argument("cron", metavar="CRON")
    _add_cron_options(command)


def _add_period(commands: "_Commands") -> None:
    command = _command(commands, "period", "when a period is open", "period")
    command.add_argument("lines", nargs="*", metavar="LINE", help='such as "monday-friday 09:00-17:00"; none: always')
    command.add_argument("--exclude", action="append", default=[], metavar="LINE", help="closed during this")
    command.add_argument("--include", action="append", default=[], metavar="LINE", help="also open during this")
    command.add_argument(
        "--prefer", choices=_choice_words(Prefer), default=Prefer.INCLUDE, help="which of the two wins"
    )
    command.add_argument("--zone", default="UTC", metavar="Z", help="time zone (default: UTC)")
    command.add_argument("--from", dest="from_", metavar="T", help="ask about this time (default: now)")
    command.add_argument("--to", metavar="T", help="list the windows up to this time (default: a week on)")


def _add_spread(commands: "_Commands") -> None:
    command = _command(commands, "spread", "show the load per second for each strategy", "spread")
    command.add_argument("file", nargs="?", metavar="FILE", help="a TOML file with checks and tasks")
    command.add_argument("--tasks", type=int, metavar="N", help="instead of a file: this many tasks")
    command.add_argument("--every", metavar="D[,D...]", help="with --tasks: their intervals, in turn")
    command.add_argument(
        "--strategy", choices=[*_choice_words(Spread), "all"], default="even", help="how phases are chosen"
    )
    command.add_argument(
        "--for", dest="for_", metavar="D", help="length of the simulated time (default: 1h; for a file: 1d)"
    )
    command.add_argument("--from", dest="from_", metavar="T", help="from this time on (default: the next full hour)")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed for the random strategies")
    command.add_argument("--plot", metavar="FILE.png", help="draw the curves (needs evenbeat[plot])")


def _add_simulate(commands: "_Commands") -> None:
    command = _command(commands, "simulate", "simulate the tasks of a file on a virtual clock", "simulate")
    command.add_argument("file", metavar="FILE", help="a TOML file with checks and tasks")
    command.add_argument(
        "--for", dest="for_", default="1h", metavar="D", help="length of the simulated time (default: 1h)"
    )
    command.add_argument("--from", dest="from_", metavar="T", help="from this time on (default: the next full hour)")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed for the durations")
    command.add_argument("--slots", type=int, default=1000, metavar="N", help="concurrent runs (default: 1000)")


def _add_verify(commands: "_Commands") -> None:
    command = _command(commands, "verify", "check every reachable state of small sets of tasks", "verify")
    command.add_argument("--tasks", type=int, metavar="N", help="instead of the named worlds, one with this many tasks")
    command.add_argument("--slots", type=int, metavar="N", help="and this many concurrent runs")


def _add_bench(commands: "_Commands") -> None:
    command = _command(commands, "bench", "compare evenbeat on this machine with bare baselines", "bench")
    what = (
        "core: times, segments, memory; spawn: short commands; store: claims and finishes; node, cluster: everything; "
    )
    what += "alerts: a storm of problems; peers: beside Nagios, Icinga, APScheduler, Celery and huey"
    command.add_argument("what", choices=["core", "spawn", "store", "node", "cluster", "alerts", "peers"], help=what)
    command.add_argument("--pairs", type=int, default=5, metavar="N", help="interleaved pairs per measure (default: 5)")
    command.add_argument("--only", metavar="NAME,..", help="peers: only these measures, only these contenders")
    command.add_argument("--seconds", type=int, metavar="N", help="peers: seconds per measurement (default: 15)")
    help_ = "peers: the Python where APScheduler, Celery and huey are installed (default: this one)"
    command.add_argument("--peers-python", metavar="PATH", help=help_)
    command.add_argument("--with-api-load", action="store_true", help="node: lateness while 1,000 requests/s are read")
    command.add_argument(
        "--plot",
        metavar="FILE.png",
        help="core: draw a segment's cost by size; peers: the figures (needs evenbeat[plot])",
    )


def _add_check_config(commands: "_Commands") -> None:
    help_ = "list all errors of files without changing anything"
    command = _command(commands, "check-config", help_, "check_config")
    command.add_argument("files", nargs="+", metavar="FILE", help="TOML files and crontabs that belong together")


def _add_import(commands: "_Commands") -> None:
    help_ = "turn other systems' files into evenbeat TOML"
    command = _command(commands, "import", help_, "import_")
    systems = ["crontab", "systemd", "jenkins", "nagios", "icinga"]
    command.add_argument("kind", choices=systems, help="the system that the files are from")
    command.add_argument("files", nargs="+", metavar="PATH", help="files or folders of that system")
    command.add_argument(
        "--zone", metavar="Z", help="time zone of the times in the files (default: that of this machine)"
    )
    command.add_argument("--spread", action="store_true", help="crontab: spread @daily and the like, and seconds")
    help_ = "crontab: a user precedes each command, or none does (default: as the file looks)"
    command.add_argument("--system", action=argparse.BooleanOptionalAction, help=help_)
    help_ = "the folder for files of secrets (default: nagios-secrets, crontab-secrets and the like)"
    command.add_argument("--secrets", metavar="DIR", help=help_)


def main(argv: list[str]) -> int:
    """Run one command and return its exit code; bad input goes to stderr and changes nothing."""
    with escaped_output():
        return _main(argv)


def _main(argv: list[str]) -> int:
    top = parser()
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    argv, work = _split_off_command(argv)
    args = top.parse_args(argv)
    args.work = work
    for name, value in vars(args).items():
        # Python 3.11 reads `--name=--` as an empty list.
        if (value == [] and name not in _LIST_OPTIONS) or (isinstance(value, list) and [] in value):
            top.error(f"--{name.rstrip('_')} needs a value")
    try:
        code: int = import_command(args.answer).run_command(args)
        sys.stdout.flush()
    except Invalid as e:
        print(f"evenbeat {args.command}: {e}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _detach_stdout()  # the reader has closed the pipe, as `head` does
        return EXIT_OK
    except OSError as e:
        _detach_stdout()
        print(f"evenbeat {args.command}: the output cannot be written: {e.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    except Exception as e:
        from evenbeat.store.contract import StoreError  # noqa: PLC0415 - not every command needs a store

        problem = e if isinstance(e, StoreError) else _database_error(args)
        if problem is None:
            raise
        print(f"evenbeat {args.command}: {problem}", file=sys.stderr)
        return EXIT_FAILURE
    return code


def _database_error(args: argparse.Namespace) -> Exception | None:
    """After an unforeseen exception: what is wrong with the database, if it is damaged, as the likely cause."""
    from evenbeat.cli.which_database import database_option  # noqa: PLC0415
    from evenbeat.store.sqlite.inspection import check_tables  # noqa: PLC0415
    from evenbeat.store.sqlite.statements import migrations  # noqa: PLC0415

    path = database_option(args) if hasattr(args, "db") else ""
    return None if isinstance(path, str) or not path.exists() else check_tables(path, len(migrations()))


def import_command(module: str) -> ModuleType:
    """Import the module of a command, with numpy's threads for matrices off: starting them takes a fifth of the
    import time, and we multiply no matrices. The environment of programs that we start stays as it is.
    """
    if _THREADS_VARIABLE in os.environ:
        return import_module(module)
    os.environ[_THREADS_VARIABLE] = "1"
    try:
        return import_module(module)
    finally:
        os.environ.pop(_THREADS_VARIABLE, None)


_THREADS_VARIABLE: Final = "OPENBLAS_NUM_THREADS"
_LIST_OPTIONS: Final = ("lines", "period", "exclude", "include", *LIST_OPTIONS)


def _split_off_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split off what follows `--` in `add`: the task's command, with options of its own."""
    if argv[:1] != ["add"] or "--" not in argv:
        return argv, []
    where = argv.index("--")
    return argv[:where], argv[where + 1 :]


def _detach_stdout() -> None:
    # Python flushes stdout once more when it ends, and would complain once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> NoReturn:
    """The console script."""
    if sys.stdout is None:
        sys.exit(EXIT_FAILURE)  # stdout was closed before the start
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    escape_output()
    sys.exit(main(sys.argv[1:]))
