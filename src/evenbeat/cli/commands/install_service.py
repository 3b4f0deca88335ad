"""`evenbeat install-service`: write a hardened systemd unit for a node on this machine, of root or of one user."""

import argparse
import os
import pwd
import re
import shlex
import sys
from pathlib import Path
from typing import Final

from evenbeat.cli.output.common import load_file_option, print_json
from evenbeat.cli.service_unit import HIDDEN_FROM_SYSTEM_UNIT, ServiceUnit
from evenbeat.model import Invalid
from evenbeat.node.process.listen import parse_listen
from evenbeat.store.addresses import is_shared_database

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_USER_NAME: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def run_command(args: argparse.Namespace) -> int:
    """Write the unit, or print it with --dry-run; say what follows and how to undo it; exit 0."""
    unit = _unit(args)
    text = unit.text()
    steps, undo = _steps(unit)
    if not args.dry_run:
        _write(unit, text, force=args.force)
    if args.json:
        written = {"unit": str(unit.path), "written": not args.dry_run, "text": text}
        print_json({**written, "next": steps, "undo": undo})
        return 0
    if args.dry_run:
        print(text, end="")
    out = sys.stderr if args.dry_run else sys.stdout
    print(f"{'would write' if args.dry_run else 'wrote'} {unit.path}", file=out)
    for title, lines in (("next", steps), ("undo", undo)):
        print(f"{title}:", *(f"    {line}" for line in lines), sep="\n", file=out)
    return 0


def _unit(args: argparse.Namespace) -> ServiceUnit:
    if not _NAME.fullmatch(args.name):
        raise Invalid(f"{args.name[:64]!r} is no name of a service, accepted: letters, digits, - and _", place="--name")
    is_of_root = os.geteuid() == 0 and not args.user
    if args.run_as is not None and not is_of_root:
        raise Invalid("only root writes a unit that runs as another user", place="--run-as")
    if args.run_as is not None and not _USER_NAME.fullmatch(args.run_as):
        raise Invalid(f"{args.run_as[:64]!r} is no name of a user", place="--run-as")
    if args.db is not None and is_shared_database(args.db):
        raise Invalid(f"{args.db} is that of a cluster: docs/how-to/cluster.md has the units for one", place="--db")
    if args.listen is not None:
        parse_listen(args.listen)
    files = [Path(file).resolve() for file in args.files]
    for file in args.files:
        load_file_option(file)
    state = Path("/var/lib") if is_of_root else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    database = state / args.name / "evenbeat.db" if args.db is None else Path(args.db).absolute()
    unit = ServiceUnit(args.name, _command(), files, database, args.listen, args.run_as or "evenbeat")
    if not is_of_root:
        return unit._replace(run_as=None)
    for what in (Path(unit.command[0]), *files, database):
        if any(what.is_relative_to(folder) for folder in HIDDEN_FROM_SYSTEM_UNIT):
            raise Invalid(f"{what} is in a folder that the service does not see: {_elsewhere(unit, what)}")
    if args.db is not None and not database.is_relative_to(state / args.name):
        raise Invalid(f"{database}: the service writes in {state / args.name} only", place="--db")
    return unit


def _elsewhere(unit: ServiceUnit, what: Path) -> str:
    if str(what) == unit.command[0]:
        return (
            "install evenbeat elsewhere (python3 -m venv /opt/evenbeat; /opt/evenbeat/bin/pip install .), or use --user"
        )
    return "put it into /etc/evenbeat, or use --user"


def _command() -> tuple[str, ...]:
    """This evenbeat, however it was started."""
    script = Path(sys.executable).with_name("evenbeat")
    return (str(script),) if script.exists() else (sys.executable, "-m", "evenbeat")


def _write(unit: ServiceUnit, text: str, *, force: bool) -> None:
    if unit.path.exists() and unit.path.read_text() != text and not force:
        raise Invalid(
            f"{unit.path} is there already, and is different: --force replaces it, --name NAME is another one"
        )
    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        new = unit.path.with_suffix(".service.new")
        new.write_text(text)
        new.chmod(0o644)
        new.replace(unit.path)
        if unit.run_as is None:
            unit.database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as e:
        raise Invalid(f"{unit.path} cannot be written: {e.strerror}") from None


def _steps(unit: ServiceUnit) -> tuple[list[str], list[str]]:
    """What starts, watches and asks the service; and what removes it."""
    control = "systemctl" if unit.run_as is not None else "systemctl --user"
    journal = "journalctl" if unit.run_as is not None else "journalctl --user"
    database = shlex.quote(str(unit.database))
    steps = [
        f"{control} daemon-reload",
        f"{control} enable --now {unit.name}",
        f"{journal} -u {unit.name} -f          # its log",
        f"evenbeat ls --db {database}",
    ]
    undo = [
        f"{control} disable --now {unit.name}",
        f"rm {shlex.quote(str(unit.path))}",
        f"{control} daemon-reload",
        f"rm -r {shlex.quote(str(unit.database.parent))}          # its tasks and their history, for ever",
    ]
    if unit.run_as is None:
        return [*steps, "loginctl enable-linger          # so that it runs while you are not logged in"], undo
    if not _is_user(unit.run_as):
        home = shlex.quote(str(unit.database.parent))
        steps.insert(0, f"useradd --system --home-dir {home} --shell /usr/sbin/nologin {unit.run_as}")
        undo.append(f"userdel {unit.run_as}")
    return steps, undo


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
