"""Imports timers of Jenkins: a list of `name: H/15 * * * *`, or the config.xml of jobs, with unchanged times."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from evenbeat.load.config import BadFileError, Config, ConfigError, FilePosition
from evenbeat.load.importers.jenkins_chains import ChainLink, chain_links, chained_schedules
from evenbeat.load.importers.jenkins_home import CATEGORIES_FILE, JenkinsHome, is_of_home, is_of_node
from evenbeat.load.importers.jenkins_job import COMMENT, PLACEHOLDER, JenkinsJob, JobReader
from evenbeat.load.importers.report import ImportReport, ImportResult, shown
from evenbeat.load.importers.secret_values import SecretFiles
from evenbeat.load.importers.source_files import check_exists, files_below, read_source
from evenbeat.load.importers.task_names import TaskNames
from evenbeat.load.importers.xml_tree import parse_xml
from evenbeat.load.safe_text import name_error, safe_name
from evenbeat.load.write_toml import config_document
from evenbeat.model import NAME_LIMIT, Contact, Days, Hash, Invalid, Job, NotifyContact, Schedule, Task
from evenbeat.when.cron_entry import CronEntry, parse_cron_entry
from evenbeat.when.hashing import JenkinsChooser
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.zone import zone as zone_named

_LIST_LINE: Final = re.compile(r"\s*(?P<name>\S.*?)\s*:\s+(?P<spec>\S.*?)\s*")
_ZONE: Final = re.compile(r"\s*TZ\s*=\s*(?P<zone>\S*)\s*")
_WORKSPACES: Final = "jobs ran in workspaces of their own; a task runs in the folder of the node, unless it has a `cwd`"


class _TimerLine(NamedTuple):
    """One entry of a timer."""

    job: str
    text: str
    zone: str
    place: FilePosition | None
    env: Mapping[str, str] = {}


def find_jenkins_files(paths: Sequence[Path], report: ImportReport) -> list[tuple[str, str]]:
    """The (text, file) pairs that these paths lead to: of a folder the config.xml of all jobs below it."""
    found = []
    for path in paths:
        check_exists(path)
        files = [path]
        if path.is_dir():
            files = [file for file in files_below(path) if _is_read(file, path)]
            if not any(_is_job(file, path) for file in files):
                raise BadFileError([ConfigError(str(path), None, "no jobs/NAME/config.xml in it")])
        found += [(read_source(file, report), str(file)) for file in files]
    return found


def _is_read(file: Path, root: Path) -> bool:
    return _is_job(file, root) or file.name == CATEGORIES_FILE or is_of_node(file)


def _is_job(file: Path, root: Path) -> bool:
    if file.name != "config.xml":
        return False
    return file.parent == root or file.parent.parent.name == "jobs" or file.parent.parent == root


def import_jenkins(
    texts: Sequence[tuple[str, str]],
    zone: str = "UTC",
    report: ImportReport | None = None,
    secrets_folder: str = "jenkins-secrets",
) -> ImportResult:
    """The tasks of (text, file) pairs: lists of timers, config.xml; raise BadFileError with every problem found."""
    report, secrets = report or ImportReport(), SecretFiles(secrets_folder)
    importer = _JenkinsImport(zone, report, secrets)
    for text, file in texts:
        if is_of_home(text, file):
            importer.read_home(text, file)
    for text, file in texts:
        if not is_of_home(text, file):
            importer.read(text, file)
    if importer.errors:
        raise BadFileError(importer.errors)
    return report.result(config_document(importer.config()))._replace(secrets=secrets.contents)


class _ReadJob(NamedTuple):
    """A job that was read, and what all of its tasks have."""

    file: str
    place: FilePosition
    kind: str
    job: Job
    enabled: bool
    keys: dict[str, Any]
    tasks: list[str]
    """Those that its timer has become."""


class _JenkinsImport:
    def __init__(self, zone: str, report: ImportReport, secrets: SecretFiles) -> None:
        self.errors: list[ConfigError] = []
        self._zone_name = zone
        self._report = report
        self._secrets = secrets
        self._file = ""
        self._has_warned_of_workspaces = False
        self._home = JenkinsHome(report, secrets)
        self._tasks_found: dict[str, Task] = {}
        self._jobs: dict[str, _ReadJob] = {}
        self._doubts: dict[str, list[str]] = {}
        self._links: list[ChainLink] = []
        self._contacts: dict[str, Contact] = {}
        self._limits: dict[str, int] = {}

    def config(self) -> Config:
        """Everything that was read."""
        self._add_chained_tasks()
        tasks = tuple(self._tasks_found.values())
        used = {task.limit for task in tasks}
        notified = {one.to for task in tasks for one in task.notify}
        return Config(
            tasks,
            {},
            {name: most for name, most in self._limits.items() if name in used},
            None,
            {name: contact for name, contact in self._contacts.items() if name in notified},
        )

    def read_home(self, text: str, file: str) -> None:
        """What is about all jobs."""
        try:
            self._home.read(text, file)
        except BadFileError as e:
            self.errors += e.errors

    def read(self, text: str, file: str) -> None:
        """One list, or one config.xml."""
        self._file = file
        try:
            found = self._from_xml(text) if text.lstrip().startswith("<") else self._from_list(text, self._zone_name)
        except BadFileError as e:
            self.errors += e.errors
            return
        for task in found:
            if task.name in self._tasks_found:
                self._refuse(None, f"{task.name!r} is there twice; names are unique")
            self._tasks_found[task.name] = task

    def _refuse(self, place: FilePosition | None, problem: str) -> None:
        self.errors.append(ConfigError(self._file, place, problem))

    def _warn(self, problem: str) -> None:
        self._report.warn(self._file, None, problem)

    # A list

    def _from_list(self, text: str, zone: str) -> list[Task]:
        """`name: H/15 * * * *`, line by line."""
        jobs: dict[str, list[_TimerLine]] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if line.lstrip().startswith("#"):
                self._report.omit(self._file, FilePosition(number, 1), line.strip(), COMMENT)
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if found := _ZONE.fullmatch(line):
                zone = self._zone(found["zone"], FilePosition(number, found.start("zone") + 1)) or zone
            elif found := _LIST_LINE.fullmatch(line):
                place = FilePosition(number, found.start("spec") + 1)
                jobs.setdefault(found["name"], []).append(_TimerLine(found["name"], found["spec"], zone, place))
            else:
                at = FilePosition(number, len(line) - len(line.lstrip()) + 1)
                self._refuse(at, f"{line.strip()[:64]!r} is not understood, accepted: name: H/15 * * * *")
        tasks = [task for lines in jobs.values() for task in self._tasks(lines, PLACEHOLDER, enabled=False)]
        if tasks:
            self._warn("a list says when, not what: the tasks are written disabled; give each task its command")
        return tasks

    # A job's config.xml

    def _from_xml(self, text: str) -> list[Task]:
        """The tasks of one job: one for each line of its timer."""
        name = _job_name(self._file)
        root = parse_xml(text, self._file)
        self._links += chain_links(root, name, self._file)
        reader = JobReader(root, name, self._file, self._report, self._secrets, self._home)
        if reader.is_folder():
            self._report.omit(
                self._file, root.place, f"{name} ({root.tag})", "a folder is part of the names of its jobs"
            )
            return []
        found = reader.read()
        self._contacts |= found.contacts
        self._limits |= found.limits
        enabled, keys = not (found.is_disabled or found.doubts), _task_keys(found)
        zone, lines = self._zone_name, []
        for line in found.lines:
            if zone_line := _ZONE.fullmatch(line.text):
                zone = self._zone(zone_line["zone"], line.place) or zone
            else:
                lines.append(_TimerLine(name, line.text, zone, line.place, line.env))
        tasks = self._tasks(lines, found.job, enabled=enabled, keys=keys) if lines else []
        names = [task.name for task in tasks]
        self._jobs[name] = _ReadJob(self._file, root.place, root.tag, found.job, enabled, keys, names)
        self._doubts[name] = found.doubts
        return tasks

    def _add_chained_tasks(self) -> None:
        """Tasks of jobs that other jobs start."""
        timed = {name: job.tasks for name, job in self._jobs.items()}
        names = TaskNames(self._tasks_found)
        renamed: dict[str, str] = {}
        for job, title, schedule in chained_schedules(self._links, self._jobs, timed, self._report):
            read = self._jobs[job]
            name = renamed[title] = names.unique(safe_name(title)[:NAME_LIMIT])
            parents = [renamed.get(parent, parent) for parent in schedule.parents]
            key = "after" if schedule.after else "after_failure"
            own = msgspec.structs.replace(schedule, **{key: tuple(parents)})
            self._tasks_found[name] = Task(name, own, read.job, enabled=read.enabled, **read.keys)
            read.tasks.append(name)
        for name, read in self._jobs.items():
            self._file = read.file
            if not read.tasks:
                what = f"{name} ({read.kind})"
                self._report.omit(read.file, read.place, what, "neither a timer nor a job here starts it")
            elif doubts := self._doubts[name]:
                self._warn(f"{name} is written disabled: {shown('; '.join(doubts))}")
            elif read.job.cwd is None and not self._has_warned_of_workspaces:
                self._has_warned_of_workspaces = True
                self._warn(_WORKSPACES)
            self._limit_tasks(name, read)

    def _limit_tasks(self, name: str, read: _ReadJob) -> None:
        """Several tasks of one job never run at the same time, as the job did not."""
        if len(read.tasks) < 2:
            return
        limit = read.keys.get("limit")
        if limit is None:
            limit = safe_name(name)[:NAME_LIMIT]
            self._limits[limit] = 1
            for task in read.tasks:
                self._tasks_found[task] = msgspec.structs.replace(self._tasks_found[task], limit=limit)
        elif self._limits[limit] > 1:
            self._warn(f"{name}: its {len(read.tasks)} tasks may run at the same time")

    # Both

    def _zone(self, name: str, place: FilePosition | None) -> str | None:
        try:
            return zone_named(name).name
        except Invalid as e:
            self._refuse(place, e.problem)
            return None

    def _tasks(
        self, lines: list[_TimerLine], job: Job, *, enabled: bool, keys: Mapping[str, Any] | None = None
    ) -> list[Task]:
        """The tasks of one job: Jenkins draws every H of all its lines from one sequence."""
        tasks = []
        chooser = JenkinsChooser(lines[0].job)
        for i, line in enumerate(lines):
            title = line.job if i == 0 else f"{line.job} ({i + 1})"
            name = safe_name(title)
            if name != title:
                self._warn(f"the job {title!r} becomes the task {name!r}: {name_error(title)}")
            try:
                if len(name) > NAME_LIMIT:
                    raise Invalid(f"a name of {len(name)} characters, accepted: at most {NAME_LIMIT}")
                entry = parse_cron_entry(line.text)
                drawn = _resolve_hashes(entry, chooser)
                is_drawn = i > 0 or name != title
                if is_drawn and drawn != line.text:
                    self._warn(f"{name}: {line.text!r} is written as {drawn!r}, what Jenkins made of its H")
                schedule = Schedule(
                    cron=drawn if is_drawn else line.text, zone=line.zone, hash=Hash.JENKINS, days=Days.AND, second=0
                )
                compile_schedule(schedule, name)
            except Invalid as e:
                place = line.place and FilePosition(line.place.line, line.place.column + (e.column or 1) - 1)
                self._refuse(place, f"{name}: {e.problem if place else e}")
                continue
            own = msgspec.structs.replace(job, env={**job.env, **line.env}) if line.env else job
            tasks.append(Task(name, schedule, own, enabled=enabled, **(keys or {})))
        return tasks


def _task_keys(job: JenkinsJob) -> dict[str, Any]:
    notify = tuple(NotifyContact(name) for name in job.keys.get("notify", ()))
    return {**job.keys, "notify": notify}


def _resolve_hashes(entry: CronEntry, chooser: JenkinsChooser) -> str:
    """A plain entry with what the sequence gives for each H, in the order in which Jenkins asks for them."""
    fields = []
    for kind, field in enumerate(entry.fields):
        parts = []
        for term in field.terms:
            if term.hashed is None:
                parts.append(term.text)
            elif term.step > 1:
                start = chooser.below(term.step, kind)
                parts += map(str, term.hashed[start :: term.step])
            else:
                parts.append(str(term.hashed[chooser.below(len(term.hashed), kind)]))
        fields.append(",".join(parts))
    return " ".join(fields) if any(field.uses_hash for field in entry.fields) else entry.text


def _job_name(file: str) -> str:
    """Jenkins keeps a job in jobs/NAME/config.xml, one in a folder in jobs/FOLDER/jobs/NAME/config.xml."""
    parts = Path(file).resolve().parent.parts
    names: list[str] = []
    while len(parts) > 1 and parts[-2] == "jobs":
        names.insert(0, parts[-1])
        parts = parts[:-2]
    return "/".join(names) or Path(file).resolve().parent.name or "job"
