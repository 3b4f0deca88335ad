"""Converts crontabs to TOML with cron's times: @daily is midnight, seconds are 0, unless asked to spread."""

from collections.abc import Sequence

from evenbeat.load.config import BadFileError, Config, ConfigError, ParsedFile
from evenbeat.load.crontab import CrontabDialect, parse_crontab_file
from evenbeat.load.cross_check import config_errors_of, validate_configs
from evenbeat.load.write_toml import ImportResult, config_document


def import_crontab(texts: Sequence[tuple[str, str]], manner: CrontabDialect) -> ImportResult:
    """Import (text, file) pairs; raise BadFileError with all errors."""
    sources: list[ParsedFile] = []
    errors: list[ConfigError] = []
    for text, file in texts:
        try:
            sources.append(parse_crontab_file(text, file, manner))
        except BadFileError as e:
            errors += e.errors
    if not errors:
        by_file = {source.file: source for source in sources}
        found = validate_configs({file: source.config for file, source in by_file.items()})
        errors, _ = config_errors_of(found, by_file.get)
    if errors:
        raise BadFileError(errors)
    warnings = [warning for source in sources for warning in source.warnings]
    kept = []
    for source in sources:
        for task in source.config.tasks:
            if None in (*task.job.args, *task.job.kwargs.values()):
                place = source.place_of(("tasks", task.name), None)
                warnings.append(ConfigError(source.file, place, f"{task.name!r} is left out: TOML cannot express None"))
            else:
                kept.append(task)
    return ImportResult(config_document(Config(tuple(kept), {}, {}, None)), warnings)
