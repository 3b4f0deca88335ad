"""Converts crontabs to TOML with cron's times: @daily is midnight, seconds are 0, unless asked to spread.

Folders such as /etc/cron.d and /etc/cron.daily, and anacrontabs, belong to it.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import msgspec

from evenbeat.load.config import BadFileError, Config, ConfigError, FilePosition, ParsedFile
from evenbeat.load.config_validation import config_errors_of, validate_configs
from evenbeat.load.crontab import CrontabReader
from evenbeat.load.crontab_dialect import CrontabDialect
from evenbeat.load.importers.anacrontab import Anacrontab, is_anacrontab
from evenbeat.load.importers.report import ImportReport, ImportResult
from evenbeat.load.importers.run_parts import (
    USUAL_TIMES,
    ScriptFolder,
    folder_run_by,
    leaves_to_anacron,
    script_folder,
    tasks_of_folder,
    usual_runner,
)
from evenbeat.load.importers.secret_values import SecretFiles
from evenbeat.load.importers.source_files import check_exists, files_in, read_source
from evenbeat.load.importers.task_names import TaskNames
from evenbeat.load.write_toml import config_document
from evenbeat.model import NAME_LIMIT, Contact, Period, Task

_NOT_CRONTABS: Final = ("~", ".bak", ".orig", ".rpmsave", ".rpmnew", ".rpmorig", ".swp")
_NO_MAILTO: Final = "no MAILTO: cron mailed all output to the owner of the crontab; nobody is mailed now"
_NEEDS_ROOT: Final = "a task with `user` needs a node that runs as root"
_ONE_AT_A_TIME: Final = (
    "run-parts runs its scripts one after the other: each is a task now, one at a time by the limit {limit!r}, and one "
    "that fails or hangs is seen by itself"
)


class CrontabSources(NamedTuple):
    """What an import of crontabs reads: (text, file) pairs, and folders of scripts."""

    crontabs: Sequence[tuple[str, str]]
    anacrontabs: Sequence[tuple[str, str]] = ()
    folders: Sequence[ScriptFolder] = ()


class _PlacedTask(NamedTuple):
    task: Task
    file: str
    place: FilePosition
    line: str


def find_crontabs(paths: Sequence[Path], report: ImportReport) -> CrontabSources:
    """The crontabs and folders that these paths lead to; a folder such as /etc is asked for all that cron knows."""
    crontabs: list[tuple[str, str]] = []
    anacrontabs: list[tuple[str, str]] = []
    folders: list[ScriptFolder] = []
    left = list(dict.fromkeys(paths))
    for path in left:
        check_exists(path)
        if not path.is_dir():
            text = read_source(path, report)
            (anacrontabs if is_anacrontab(text.splitlines()) else crontabs).append((text, str(path)))
        elif path.resolve().name in USUAL_TIMES:
            folders.append(script_folder(path, report))
        elif (path / "cron.d").is_dir():
            known = ("crontab", "anacrontab", "cron.d", *USUAL_TIMES)
            left += [path / name for name in known if (path / name).exists() and path / name not in left]
        else:
            left += [file for file in files_in(path) if _is_crontab_of_folder(file, report)]
    return CrontabSources(crontabs, anacrontabs, folders)


def _is_crontab_of_folder(file: Path, report: ImportReport) -> bool:
    if file.is_dir():
        report.omit(str(file), None, file.name, "a folder in a folder of crontabs, which cron does not read")
    elif file.name.startswith((".", "#")) or file.name.endswith(_NOT_CRONTABS) or ".dpkg-" in file.name:
        if file.name != ".placeholder":
            report.omit(str(file), None, file.name, "cron does not read files of such a name")
    elif "." in file.name:
        why = "Debian's cron does not read names with a dot; to import it, name the file itself"
        report.omit(str(file), None, file.name, why)
    else:
        return True
    return False


def import_crontab(
    sources: CrontabSources | Sequence[tuple[str, str]],
    manner: CrontabDialect,
    report: ImportReport | None = None,
    secrets_folder: str = "crontab-secrets",
) -> ImportResult:
    """Import crontabs and what belongs to them; raise BadFileError with all errors."""
    found = sources if isinstance(sources, CrontabSources) else CrontabSources(sources)
    secrets = SecretFiles(secrets_folder)
    importer = _CrontabImport(manner, report or ImportReport())
    config = importer.config(found)
    tasks = tuple(_without_secrets(task, secrets) for task in config.tasks)
    return importer.report.result(config_document(config._replace(tasks=tasks)))._replace(secrets=secrets.contents)


def _without_secrets(task: Task, secrets: SecretFiles) -> Task:
    env = secrets.hide("crontab", task.job.env)
    return (
        task if env == task.job.env else msgspec.structs.replace(task, job=msgspec.structs.replace(task.job, env=env))
    )


class _CrontabImport:
    def __init__(self, manner: CrontabDialect, report: ImportReport) -> None:
        self.report = report
        self._manner = manner
        self._errors: list[ConfigError] = []
        self._contacts: dict[str, Contact] = {}

    def config(self, sources: CrontabSources) -> Config:
        """Everything that the sources say."""
        readers = [self._read(text, file) for text, file in sources.crontabs]
        anacrontabs = [Anacrontab(text, file, self._manner.zone, self.report) for text, file in sources.anacrontabs]
        anacron = [_PlacedTask(*job) for one in anacrontabs for job in one.jobs]
        periods: dict[str, Period] = {}
        for one in anacrontabs:
            self._errors += one.errors
            self._contacts |= one.contacts
            periods |= one.periods
        placed = [*self._tasks(readers), *anacron]
        self._raise_errors()
        tasks, limits = self._with_scripts(placed, anacron, sources.folders)
        tasks = self._with_unique_names(tasks)
        kept = [one.task for one in tasks if self._can_be_written(one)]
        if any(task.job.user for task in kept):
            first = next(one for one in tasks if one.task.job.user)
            self.report.warn(first.file, first.place, _NEEDS_ROOT)
        notified = {one.to for task in kept for one in task.notify}
        used = {task.period for task in kept}
        config = Config(
            tuple(kept),
            {name: period for name, period in periods.items() if name in used},
            limits,
            None,
            {name: contact for name, contact in self._contacts.items() if name in notified},
        )
        self._validate(config, tasks)
        return config

    # Files

    def _read(self, text: str, file: str) -> CrontabReader:
        reader = CrontabReader(file, self._manner)
        reader.read_text(text)
        return reader

    def _tasks(self, readers: Sequence[CrontabReader]) -> list[_PlacedTask]:
        """The tasks of all crontabs; names that several files have are told apart by the names of the files."""
        names = [reader.names() for reader in readers]
        count = Counter(name for own in names for name in set(own))
        labels = _labels([reader.file for reader in readers])
        placed = []
        for reader, own, label in zip(readers, names, labels, strict=True):
            found = reader.tasks([name if count[name] == 1 else f"{label}/{name}"[-NAME_LIMIT:] for name in own])
            dead = {(entry.line, problem) for entry, problem in reader.never_due}
            for entry, problem in reader.never_due:
                place = FilePosition(entry.line, entry.column)
                self.report.omit(reader.file, place, f"{entry.fields} {entry.command}", f"it never runs: {problem}")
            self._errors += [
                error for error in reader.errors if error.place is None or (error.place.line, error.message) not in dead
            ]
            self._report_differences(reader, is_mailed=any(entry.mailto for entry in reader.entries))
            self._contacts |= reader.contacts
            for entry, task in found.values():
                line = f"{entry.fields} {entry.command}"
                placed.append(_PlacedTask(task, reader.file, FilePosition(entry.line, entry.column), line))
        return placed

    def _report_differences(self, reader: CrontabReader, *, is_mailed: bool) -> None:
        for unused in reader.unused:
            self.report.omit(reader.file, unused.place, unused.text, unused.why)
        for warning in reader.warnings:
            self.report.warn(warning.file, warning.place, warning.message)
        self.report.omit_comments(reader.file, sorted(reader.comments))
        if reader.entries and not is_mailed and not reader.mailto_was_set:
            self.report.warn(reader.file, None, _NO_MAILTO)

    # Scripts

    def _with_scripts(
        self, placed: Sequence[_PlacedTask], anacron: Sequence[_PlacedTask], folders: Sequence[ScriptFolder]
    ) -> tuple[list[_PlacedTask], dict[str, int]]:
        """The tasks with those of scripts in place of the tasks that run their folders."""
        left = {folder.name: folder for folder in folders}
        run_by_anacron = {PurePath(folder_run_by(one.task.job)[0]).name for one in anacron}
        tasks: list[_PlacedTask] = []
        limits: dict[str, int] = {}
        for one in placed:
            name = PurePath(folder_run_by(one.task.job)[0]).name
            is_anacrons = one in anacron
            if anacron and not is_anacrons and leaves_to_anacron(one.task.job) and name in {*run_by_anacron, ""}:
                why = "it does nothing where anacron is" if name else "it starts anacron"
                self.report.omit(one.file, one.place, one.line, f"{why}, whose jobs are imported")
                continue
            folder = left.pop(name, None)
            if folder is None:
                tasks.append(one)
                continue
            if anacron:
                folder = self._without_anacron(folder)
            if not folder.scripts:
                self.report.omit(
                    one.file, one.place, one.line, f"there is no script in {folder.path} that it would run"
                )
            tasks += self._scripts(folder, one, limits)
        for folder in filter(lambda folder: folder.scripts, left.values()):
            runner = usual_runner(folder, self._manner.zone)
            text = (
                f"no crontab here says when it runs: taken as {USUAL_TIMES[folder.name]!r}, as in Debian's /etc/crontab"
            )
            self.report.warn(folder.path, None, text)
            tasks += self._scripts(folder, _PlacedTask(runner, folder.path, FilePosition(0, 0), ""), limits)
        return tasks, limits

    def _without_anacron(self, folder: ScriptFolder) -> ScriptFolder:
        """The folder without the script that starts anacron every hour."""
        starters = [script for script in folder.scripts if script.lstrip("0123456789") == "anacron"]
        for script in starters:
            self.report.omit(f"{folder.path}/{script}", None, script, "it starts anacron, whose jobs are imported")
        return folder._replace(scripts=tuple(script for script in folder.scripts if script not in starters))

    def _scripts(self, folder: ScriptFolder, runner: _PlacedTask, limits: dict[str, int]) -> list[_PlacedTask]:
        found = [runner._replace(task=task) for task in tasks_of_folder(folder, runner.task)]
        if found:
            limit = found[0].task.limit or ""
            limits[limit] = 1
            place = runner.place if runner.line else None
            self.report.warn(runner.file, place, _ONE_AT_A_TIME.format(limit=limit))
        return found

    # Everything together

    def _with_unique_names(self, placed: Sequence[_PlacedTask]) -> list[_PlacedTask]:
        """A job of an anacrontab, or a script, may have the name of an entry of a crontab."""
        names = TaskNames()
        return [
            one._replace(task=msgspec.structs.replace(one.task, name=names.unique(one.task.name))) for one in placed
        ]

    def _can_be_written(self, one: _PlacedTask) -> bool:
        job = one.task.job
        if None not in (*job.args, *job.kwargs.values()):
            return True
        self.report.omit(one.file, one.place, one.line, "TOML cannot express None")
        return False

    def _validate(self, config: Config, placed: Sequence[_PlacedTask]) -> None:
        places = {one.task.name: one for one in placed}

        def place_of(path: tuple[str | int, ...], _: int | None) -> FilePosition | None:
            return places[str(path[1])].place if path[0] == "tasks" and path[1] in places else None

        for one in placed:
            try:
                msgspec.convert(msgspec.to_builtins(one.task), Task)
            except msgspec.ValidationError as e:
                self._errors.append(ConfigError(one.file, one.place, str(e)))
        self._raise_errors()
        file = placed[0].file if placed else ""
        found = validate_configs({file: config})
        self._errors, _ = config_errors_of(found, lambda _: ParsedFile(file, config, place_of))
        self._raise_errors()

    def _raise_errors(self) -> None:
        if self._errors:
            raise BadFileError(sorted(self._errors, key=lambda one: (one.file, one.place or FilePosition(0, 0))))


def _labels(files: Sequence[str]) -> list[str]:
    """The shortest ends of paths that tell files apart."""
    paths = [PurePath(file).parts for file in files]
    for count in range(1, max(map(len, paths), default=0) + 1):
        labels = ["/".join(part.strip("/") for part in parts[-count:]).strip("/") for parts in paths]
        if len(set(labels)) == len(labels):
            break
    else:
        labels = list(files)
    return [label.lstrip(".") or "crontab" for label in labels]
