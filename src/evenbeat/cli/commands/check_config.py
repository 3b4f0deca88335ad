"""`evenbeat check-config`: all errors and warnings of files, with file, line and column."""

import argparse
import sys
from pathlib import Path

from evenbeat.admin.trusted_files import check_trusted_file
from evenbeat.cli.output.common import now, print_json
from evenbeat.load.config import BadFileError, ConfigError, ParsedFile
from evenbeat.load.config_validation import config_warnings
from evenbeat.load.files import load_together
from evenbeat.model import CommandSource, Invalid

EXIT_BAD_INPUT = 2
MAX_ERRORS_SHOWN = 1_000
"""More warnings than this are counted, not listed."""


def run_command(args: argparse.Namespace) -> int:
    """Print errors and warnings; exit 2 if a file has errors."""
    sources: list[ParsedFile] = []
    errors: list[str] = []
    try:
        sources = load_together([Path(file) for file in args.files])
    except BadFileError as e:
        errors = str(e).split("\n")
    if any(source.config.node is not None and source.config.node.commands is CommandSource.FILES for source in sources):
        errors += _permission_refusals([Path(file) for file in args.files])
    found: list[ConfigError] = [warning for source in sources for warning in config_warnings(source, now())]
    shown = [str(warning) for warning in found[:MAX_ERRORS_SHOWN]]
    if len(found) > MAX_ERRORS_SHOWN:
        shown.append(f"... and {len(found) - MAX_ERRORS_SHOWN:,} more")
    tasks = sum(len(source.config.tasks) for source in sources)
    if args.json:
        print_json({"errors": errors, "warnings": shown, "tasks": tasks})
    else:
        for line in errors:
            print(line, file=sys.stderr)
        for line in shown:
            print(line)
        if not errors:
            many = "" if len(sources) == 1 else f" in {len(sources)} files"
            print(f"{tasks:,} task{'' if tasks == 1 else 's'}{many}, no problem")
    return EXIT_BAD_INPUT if errors else 0


def _permission_refusals(files: list[Path]) -> list[str]:
    """Errors that a node of this user would report because commands may only come from files."""
    found = []
    for file in files:
        try:
            check_trusted_file(file)
        except Invalid as e:
            found.append(str(e))
    return found
