"""`evenbeat import`: convert crontabs, Nagios objects and Jenkins timers to evenbeat TOML with unchanged times."""

import argparse
import sys
from pathlib import Path

from evenbeat.load.config import BadFileError
from evenbeat.load.crontab import CrontabDialect
from evenbeat.load.files import read_text
from evenbeat.load.importers.crontab import import_crontab
from evenbeat.load.importers.jenkins import import_jenkins
from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.toml import parse_toml_file
from evenbeat.load.write_toml import ConfigDocument, ImportResult, write_document
from evenbeat.model import Invalid, prefix_place
from evenbeat.when.zone import zone


def run_command(args: argparse.Namespace) -> int:
    """Print the TOML; warnings go to stderr and to the top of the TOML."""
    with prefix_place("--zone"):
        zone_name = zone(args.zone or "UTC").name
    for option in ("spread", "system"):
        if getattr(args, option) and args.kind != "crontab":
            raise Invalid(f"only for crontabs, not for {args.kind}", place=f"--{option}")
    try:
        imported = _import_files(args, zone_name)
        warnings = [str(warning) for warning in imported.warnings]
        if args.zone is None and _lacks_zone(imported.document):
            warnings.append("times without a zone are taken as UTC; --zone Z takes them as another's")
        text = write_document(imported.document, [f"Imported from {args.kind}.", *warnings])
        parse_toml_file(text, "what was imported", must_run=True)
    except BadFileError as e:
        raise Invalid(str(e)) from None
    for warning in warnings:
        print(warning, file=sys.stderr)
    sys.stdout.write(text)
    return 0


def _lacks_zone(document: ConfigDocument) -> bool:
    tables = [*document.get("tasks", {}).values(), *document["periods"].values()]
    return "zone" not in document.get("defaults", {}) and any("zone" not in table for table in tables)


def _import_files(args: argparse.Namespace, zone_name: str) -> ImportResult:
    texts = [(read_text(Path(file)), file) for file in args.files]
    if args.kind == "nagios":
        return import_nagios(texts, zone_name)
    if args.kind == "jenkins":
        return import_jenkins(texts, zone_name)
    return import_crontab(texts, CrontabDialect(args.spread, args.system, zone_name))
