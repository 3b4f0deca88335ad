"""`evenbeat import`: convert other systems' files to evenbeat TOML, and report what is different then."""

import argparse
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from evenbeat.cli.output.common import print_json
from evenbeat.load.config import BadFileError, Config, ConfigError
from evenbeat.load.crontab_dialect import CrontabDialect
from evenbeat.load.importers.crontab import find_crontabs, import_crontab
from evenbeat.load.importers.icinga import import_icinga
from evenbeat.load.importers.icinga_files import find_icinga_files
from evenbeat.load.importers.jenkins import find_jenkins_files, import_jenkins
from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.importers.nagios_files import find_nagios_files
from evenbeat.load.importers.report import ImportReport, ImportResult, Omission, carried_over
from evenbeat.load.importers.secret_values import write_secrets
from evenbeat.load.importers.systemd import import_systemd
from evenbeat.load.toml import parse_toml_file
from evenbeat.load.write_toml import write_document
from evenbeat.model import Invalid, prefix_place
from evenbeat.when.zone import zone

_LONG_TEXT: Final = 60
"""Characters; texts that are longer on average stand on lines of their own."""
_MAX_LINE: Final = 160
"""Characters of a line of the report, where it has several things of one reason."""


def run_command(args: argparse.Namespace) -> int:
    """Print the TOML. The report goes to stderr and to the top of the TOML."""
    with prefix_place("--zone"):
        zone_name = zone(args.zone or _zone_of_this_machine()).name
    for option in ("spread", "system"):
        if getattr(args, option) and args.kind != "crontab":
            raise Invalid(f"only for crontabs, not for {args.kind}", place=f"--{option}")
    secrets = Path(args.secrets or f"{args.kind}-secrets").absolute()
    try:
        imported = _import_files(args, zone_name, str(secrets))
        text = write_document(imported.document)
        config = parse_toml_file(text, "what was imported", must_run=True).config
        if args.zone is None and _has_times_of(config, zone_name):
            message = f"times without a zone are those of {zone_name}, the zone of this machine; --zone Z takes others"
            imported = imported._replace(warnings=[*imported.warnings, ConfigError(args.files[0], None, message)])
        text = write_document(imported.document, [f"Imported from {args.kind}.", *_report_lines(imported)])
    except BadFileError as e:
        raise Invalid(str(e)) from None
    write_secrets(secrets, imported.secrets)
    if args.json:
        checks = sum(task.check for task in config.tasks)
        found = {"tasks": len(config.tasks) - checks, "checks": checks, **_report_json(imported), "toml": text}
        print_json(found | {"secrets": [f"{secrets}/{name}" for name in imported.secrets]})
        return 0
    sys.stdout.write(text)
    sys.stdout.flush()
    lines = _report_lines(imported)
    if imported.secrets:
        count = len(imported.secrets)
        lines.insert(0, f"secrets: {count} in {secrets}; the user of the node must be able to read them")
    for line in (f"carried over: {carried_over(config)}", *lines):
        print(line, file=sys.stderr)
    return 0


def _report_lines(imported: ImportResult) -> list[str]:
    """The report for people."""
    lines = []
    if imported.omissions:
        lines += ["not carried over:", *(f"  {line}" for line in _grouped(imported.omissions))]
    if imported.warnings:
        lines += ["different now, or worth a look:", *(f"  {one}" for one in imported.warnings)]
    return lines


def _grouped(omissions: Sequence[Omission]) -> Iterator[str]:
    """A line for each omission; those of one file that have one reason share a line, or lines that follow it."""
    groups: dict[tuple[str, str], list[Omission]] = {}
    for one in omissions:
        groups.setdefault((one.file, one.why), []).append(one)
    for (file, why), group in groups.items():
        if len(group) == 1:
            yield str(group[0])
            continue
        lines = ", ".join(dict.fromkeys(str(one.place.line) for one in group if one.place))
        whole = f"{file}{':' if lines else ''}{lines}: {', '.join(one.what for one in group)}: {why}"
        if len(whole) <= _MAX_LINE:
            yield whole
            continue
        yield f"{file}: {len(group)} times: {why}"
        named = [f"{one.what} (line {one.place.line})" if one.place else one.what for one in group]
        if len(whole) > _LONG_TEXT * len(group):
            yield from (f"  {text}" for text in named)
            continue
        each = ", ".join(named)
        yield from textwrap.wrap(
            each,
            _MAX_LINE,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _report_json(imported: ImportResult) -> dict[str, Any]:
    def where(one: Omission | ConfigError) -> dict[str, Any]:
        line, column = one.place or (None, None)
        return {"file": one.file, "line": line, "column": column}

    def also(one: Omission) -> dict[str, Any]:
        places = [{"file": file, "line": place.line, "column": place.column} for file, place in one.also]
        return {"also": places} if places else {}

    return {
        "not_carried_over": [
            {**where(one), "what": one.what, "why": one.why, **also(one)} for one in imported.omissions
        ],
        "warnings": [{**where(one), "message": one.message} for one in imported.warnings],
    }


def _has_times_of(config: Config, zone_name: str) -> bool:
    """Do any times depend on the zone that was assumed?"""
    zones = {task.schedule.zone for task in config.tasks if task.schedule.every is None}
    return zone_name in zones | {period.zone for period in config.periods.values()}


def _zone_of_this_machine() -> str:
    """As cron and systemd find it; UTC if that is no name of a zone."""
    link = os.path.realpath("/etc/localtime")
    for name in (os.environ.get("TZ", "").lstrip(":"), link.partition("/zoneinfo/")[2]):
        with suppress(Invalid):
            return "UTC" if name in ("Etc/UTC", "Etc/UCT") else zone(name).name
    return "UTC"


def _import_files(args: argparse.Namespace, zone_name: str, secrets_folder: str) -> ImportResult:
    if args.kind == "crontab":
        report = ImportReport()
        sources = find_crontabs([Path(file) for file in args.files], report)
        dialect = CrontabDialect(args.spread, args.system, zone_name)
        return import_crontab(sources, dialect, report, secrets_folder)
    if args.kind == "systemd":
        return import_systemd([Path(file) for file in args.files], zone_name, secrets_folder)
    if args.kind == "nagios":
        files = find_nagios_files(args.files)
        found = import_nagios(files.texts, zone_name, secrets_folder)
        return found._replace(warnings=[*files.warnings, *found.warnings])
    if args.kind == "icinga":
        dump = find_icinga_files(args.files)
        found = import_icinga(dump.texts, zone_name, secrets_folder)
        return found._replace(warnings=[*dump.warnings, *found.warnings])
    report = ImportReport()
    return import_jenkins(
        find_jenkins_files([Path(file) for file in args.files], report), zone_name, report, secrets_folder
    )
