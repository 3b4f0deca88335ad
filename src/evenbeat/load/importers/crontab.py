"""Turn crontabs into TOML with the times cron kept: @daily is midnight, seconds are 0, unless told to spread."""

from collections.abc import Sequence

from evenbeat.load.config import BadFileError, Config, Problem, Source
from evenbeat.load.crontab import Manner, crontab_source
from evenbeat.load.cross_check import findings, problems_of
from evenbeat.load.write_toml import Imported, document_of


def import_crontab(texts: Sequence[tuple[str, str]], manner: Manner) -> Imported:
    """The tasks of (text, file) pairs; raise BadFileError with every problem found."""
    sources: list[Source] = []
    problems: list[Problem] = []
    for text, file in texts:
        try:
            sources.append(crontab_source(text, file, manner))
        except BadFileError as e:
            problems += e.problems
    if not problems:
        by_file = {source.file: source for source in sources}
        found = findings({file: source.config for file, source in by_file.items()})
        problems, _ = problems_of(found, by_file.get)
    if problems:
        raise BadFileError(problems)
    warnings = [warning for source in sources for warning in source.warnings]
    kept = []
    for source in sources:
        for task in source.config.tasks:
            if None in (*task.job.args, *task.job.kwargs.values()):
                place = source.place_of(("tasks", task.name), None)
                warnings.append(Problem(source.file, place, f"{task.name!r} is left out: TOML cannot say None"))
            else:
                kept.append(task)
    return Imported(document_of(Config(tuple(kept), {}, {}, None)), warnings)
