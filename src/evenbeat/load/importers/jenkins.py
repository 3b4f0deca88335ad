"""Imports timers of Jenkins: a list of `name: H/15 * * * *`, or a job's config.xml, with unchanged times."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from evenbeat.load.config import BadFileError, Config, ConfigError, FilePosition
from evenbeat.load.safe_text import name_error, safe_name
from evenbeat.load.write_toml import ImportResult, config_document
from evenbeat.model import NAME_LIMIT, Days, Hash, Invalid, Job, Schedule, Task
from evenbeat.when.cron_entry import CronEntry, parse_cron_entry
from evenbeat.when.hashing import JenkinsChooser
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.zone import zone as zone_named

_MAX_XML_BYTES: Final = 16 << 20
_LIST_LINE: Final = re.compile(r"\s*(?P<name>\S.*?)\s*:\s+(?P<spec>\S.*?)\s*")
_ZONE: Final = re.compile(r"\s*TZ\s*=\s*(?P<zone>\S*)\s*")
_DECLARATION: Final = re.compile(r"\s*<\?xml.*?\?>", re.DOTALL)
_SPECS: Final = "./triggers//hudson.triggers.TimerTrigger/spec"
_SPECS_OF_PIPELINES: Final = "./properties//hudson.triggers.TimerTrigger/spec"
_STEPS: Final = "./builders/*"
_SHELL_STEP: Final = "hudson.tasks.Shell"
_PLACEHOLDER: Final = Job(command=("noop",))
"""For a task whose command is not known; it is disabled."""


class _TimerLine(NamedTuple):
    """One entry of a timer."""

    job: str
    text: str
    zone: str
    place: FilePosition | None


def import_jenkins(texts: Sequence[tuple[str, str]], zone: str = "UTC") -> ImportResult:
    """The tasks of (text, file) pairs: lists of timers, config.xml; raise BadFileError with every problem found."""
    tasks: dict[str, Task] = {}
    errors: list[ConfigError] = []
    warnings: list[ConfigError] = []
    for text, file in texts:
        reader = _JenkinsReader(file)
        found = reader.from_xml(text, zone) if text.lstrip().startswith("<") else reader.from_list(text, zone)
        errors += reader.errors
        warnings += reader.warnings
        errors += [
            ConfigError(file, None, f"{t.name!r} is there twice; names are unique") for t in found if t.name in tasks
        ]
        tasks |= {task.name: task for task in found}
    if errors:
        raise BadFileError(errors)
    return ImportResult(config_document(Config(tuple(tasks.values()), {}, {}, None)), warnings)


class _JenkinsReader:
    def __init__(self, file: str) -> None:
        self._file = file
        self.errors: list[ConfigError] = []
        self.warnings: list[ConfigError] = []

    def _refuse(self, place: FilePosition | None, problem: str) -> None:
        self.errors.append(ConfigError(self._file, place, problem))

    def _warn(self, problem: str) -> None:
        self.warnings.append(ConfigError(self._file, None, problem))

    # A list

    def from_list(self, text: str, zone: str) -> list[Task]:
        """`name: H/15 * * * *`, line by line."""
        jobs: dict[str, list[_TimerLine]] = {}
        for number, line in enumerate(text.splitlines(), start=1):
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
        tasks = [task for lines in jobs.values() for task in self._tasks(lines, _PLACEHOLDER, enabled=False)]
        if tasks:
            self._warn("a list says when, not what: the tasks are written disabled; give each task its command")
        return tasks

    # A job's config.xml

    def from_xml(self, text: str, zone: str) -> list[Task]:
        """The timer of one job, and its command if that is a shell step."""
        name = _job_name(self._file)
        root = self._root(text)
        tasks: list[Task] = []
        if root is not None:
            specs = [e.text or "" for e in (*root.iterfind(_SPECS), *root.iterfind(_SPECS_OF_PIPELINES))]
            lines = list(self._lines(name, "\n".join(specs), zone))
            if not lines and not self.errors:
                self._warn(f"{name}: no timer, so nothing to import")
            enabled = (root.findtext("disabled") or "").strip().lower() != "true"
            if lines:
                job = self._job(root, name)
                tasks = self._tasks(lines, job, enabled=enabled and job is not _PLACEHOLDER)
            for other in ("hudson.triggers.SCMTrigger", "jenkins.triggers.ReverseBuildTrigger"):
                if root.find(f".//{other}") is not None:
                    self._warn(f"{name}: {other} is not imported, only timers are")
        return tasks

    def _root(self, text: str) -> "ET.Element | None":
        if len(text) > _MAX_XML_BYTES:
            self._refuse(None, f"larger than {_MAX_XML_BYTES >> 20} MiB")
            return None
        # Entities are how a small file becomes a huge one, or another one; Jenkins writes none.
        declared = re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE)
        if declared is not None:
            before = text[: declared.start()]
            place = FilePosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
            self._refuse(place, f"{declared[0]} is not accepted in a config.xml")
            return None
        try:
            # Jenkins declares XML 1.1, which the parser does not know and nothing here needs.
            declaration = _DECLARATION.match(text)
            end = declaration.end() if declaration else 0
            blank = "\n" * text[:end].count("\n")
            return ET.fromstring(blank + text[end:])  # noqa: S314 - without a DOCTYPE there are no entities
        except ET.ParseError as e:
            line, column = e.position
            self._refuse(FilePosition(line, column + 1), f"not XML: {e.msg.partition(':')[0]}")
            return None

    def _lines(self, name: str, spec: str, zone: str) -> Iterator[_TimerLine]:
        for line in spec.splitlines():
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if found := _ZONE.fullmatch(line):
                zone = self._zone(found["zone"], None) or zone
            else:
                yield _TimerLine(name, line.strip(), zone, None)

    def _job(self, root: "ET.Element", name: str) -> Job:
        steps = root.findall(_STEPS)
        scripts = [(step.findtext("command") or "") for step in steps if step.tag == _SHELL_STEP]
        if len(scripts) == len(steps) == 1 and scripts[0].strip() and not scripts[0].startswith("#!"):
            # As Jenkins runs it.
            return Job(command=("/bin/sh", "-xe", "-c", scripts[0]))
        found = ", ".join(dict.fromkeys(step.tag for step in steps)) or "none"
        only = f"only a single shell step becomes the command, found: {found}"
        self._warn(f"{name} is written disabled: {only}; give the task its command")
        return _PLACEHOLDER

    # Both

    def _zone(self, name: str, place: FilePosition | None) -> str | None:
        try:
            return zone_named(name).name
        except Invalid as e:
            self._refuse(place, e.problem)
            return None

    def _tasks(self, lines: list[_TimerLine], job: Job, *, enabled: bool) -> list[Task]:
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
            tasks.append(Task(name, schedule, job, enabled=enabled))
        return tasks


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
