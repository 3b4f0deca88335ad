"""Converts timers of systemd and the services that they start: one task for each trigger of a timer."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from evenbeat.load.config import Config
from evenbeat.load.importers.label_values import add_label
from evenbeat.load.importers.report import ImportReport, ImportResult, shown
from evenbeat.load.importers.secret_values import SecretFiles
from evenbeat.load.importers.systemd_command import plain_text, unit_specifiers
from evenbeat.load.importers.systemd_service import PLACEHOLDER, YES, ServiceJob, ServiceReader
from evenbeat.load.importers.systemd_times import entry_with_delay, parse_span
from evenbeat.load.importers.systemd_units import Directive, Unit, UnitFolders
from evenbeat.load.importers.task_names import TaskNames
from evenbeat.load.safe_text import safe_name
from evenbeat.load.write_toml import config_document
from evenbeat.model import MAX_EVERY, MIN_EVERY, NAME_LIMIT, PARENT_LIMIT, Invalid, Missed, Schedule, Task
from evenbeat.when.schedule import compile_schedule

_KEEP_THE_UNIT: Final = "to keep it, let the command be `systemctl start --wait {unit}`"
_SANDBOX: Final = re.compile(
    r"Protect|Private|Restrict|SystemCall|Capabilit|Ambient|NoNewPriv|ReadOnly|ReadWrite|Inaccessible|Exec(Paths|SearchPath)"
    r"|NoExecPaths|Lock|MemoryDeny|Root|Dynamic|Secure|Device|Bind|TemporaryFile|RemoveIPC|IPAddress|Keyring|Proc|AppArmor"
    r"|SELinux|Smack|Mount|Network|Socket|Personality|Supplementary|Credential|LoadCred|SetCred|ImportCred|PAM|UMask"
)
_RESOURCES: Final = re.compile(r"CPU|Memory|IO|Tasks|Limit|Slice|Delegate|OOM|NUMA|BlockIO|Managed|Allowed|Startup")
_OUTPUT: Final = re.compile(r"Standard|Syslog|Log|TTY")
_FOLDERS: Final = re.compile(r"(State|Cache|Runtime|Logs|Configuration)Directory")
_STOPPING: Final = re.compile(r"Kill|SendSIG|FinalKill|TimeoutStop|TimeoutAbort|RestartKill|Watchdog")
_CONDITIONS: Final = re.compile(r"Condition|Assert")
_ORDER: Final = re.compile(
    r"After|Before|Wants|Requires|Requisite|BindsTo|PartOf|Conflicts|Upholds|RequiresMounts|WantsMounts"
)
_WORDS: Final = ("Documentation", "SourcePath")
_ENDS: Final = ("OnFailure", "OnSuccess")
"""Directives that start other units at the end of a service."""
_RESTART: Final = re.compile(r"Restart|StartLimit")


class _Trigger(NamedTuple):
    """One reason of a timer to start its unit."""

    schedule: Schedule
    missed: Missed


def import_systemd(paths: Sequence[Path], zone: str, secrets_folder: str = "systemd-secrets") -> ImportResult:
    """Import timers, given as files or folders of units; raise BadFileError if they cannot be read."""
    report, secrets = ImportReport(), SecretFiles(secrets_folder)
    config = _SystemdImport(UnitFolders(paths, report), zone, report, secrets).config()
    return report.result(config_document(config))._replace(secrets=secrets.contents)


class _SystemdImport:
    def __init__(self, folders: UnitFolders, zone: str, report: ImportReport, secrets: SecretFiles) -> None:
        self._folders = folders
        self._zone = zone
        self._report = report
        self._secrets = secrets
        self._services: dict[str, ServiceJob | None] = {}
        self._followers: defaultdict[str, list[tuple[Directive, str]]] = defaultdict(list)
        """Units that are started at the end of a service: with the directive that says so, by services."""
        self._files: dict[str, str] = {}
        """The files of timers by tasks."""

    def config(self) -> Config:
        """The tasks of all timers."""
        tasks: dict[str, Task] = {}
        names = TaskNames()
        starting: defaultdict[str, list[str]] = defaultdict(list)
        for name, file in sorted(self._folders.timers.items()):
            timer = self._folders.unit(name, file)
            if timer is None:
                continue
            service = self._service_of(timer)
            for task in self._tasks(timer, service):
                unique = names.unique(task.name)
                tasks[unique] = msgspec.structs.replace(task, name=unique)
                starting[service].append(unique)
                self._files[unique] = str(file)
            self._report_left(timer, service)
        for task in self._chained(starting):
            unique = names.unique(task.name)
            tasks[unique] = msgspec.structs.replace(task, name=unique)
        limits = {}
        for service, started in starting.items():
            if len(started) > 1:
                limit = safe_name(service)[:NAME_LIMIT]
                limits[limit] = 1
                text = f"{len(started)} tasks, one for each of its times, never at the same time"
                self._report.warn(self._files[started[0]], None, text)
                for name in started:
                    tasks[name] = msgspec.structs.replace(tasks[name], limit=limit)
        return Config(tuple(tasks.values()), {}, limits, None)

    # Timers

    def _service_of(self, timer: Unit) -> str:
        one = timer.take_last("Timer", "Unit")
        if one is not None:
            try:
                return plain_text(one.value, unit_specifiers(timer.stem, "timer", timer.file, None))
            except Invalid as e:
                self._omit(one, e.problem)
        return f"{timer.stem}.service"

    def _tasks(self, timer: Unit, service: str) -> Iterator[Task]:
        triggers = self._triggers(timer)
        if not triggers:
            self._report.warn(timer.file, None, f"{timer.name} has no trigger that can be carried over: no task")
            return
        found = self._job(service)
        doubts = [f"there is no {service} here"] if found is None else list(found.doubts)
        is_enabled = self._folders.is_enabled(timer.name)
        for one in timer.take("Install", "WantedBy"):
            if one.value != "timers.target":
                self._omit(one, "a task does not wait for units")
        if not is_enabled:
            text = f"{timer.name} is not enabled there (no *.wants has a link to it): written disabled"
            self._report.warn(timer.file, None, text)
        if doubts:
            text = f"{timer.stem} is written disabled: {shown('; '.join(doubts))}"
            self._report.warn(timer.file, None, text)
        labels = self._labels(timer)
        for trigger in triggers:
            yield Task(
                safe_name(timer.stem)[:NAME_LIMIT],
                trigger.schedule,
                PLACEHOLDER if found is None else found.job,
                enabled=is_enabled and not doubts,
                missed=trigger.missed,
                timebox=None if found is None else found.timebox,
                labels=labels,
                **({} if found is None else found.retries),
            )

    def _labels(self, timer: Unit) -> dict[str, str]:
        labels: dict[str, str] = {}
        one = timer.take_last("Unit", "Description")
        if one is not None:
            try:
                text = plain_text(one.value, unit_specifiers(timer.stem, "timer", timer.file, None))
            except Invalid:
                text = one.value
            if problem := add_label(labels, "description", text):
                self._omit(one, problem)
        return labels

    def _triggers(self, timer: Unit) -> list[_Trigger]:
        delay = self._delay(timer)
        persistent = timer.take_last("Timer", "Persistent")
        missed = Missed.ONCE if persistent and persistent.value.lower() in YES else Missed.SKIP
        found = [
            _Trigger(schedule, missed)
            for one in timer.take("Timer", "OnCalendar")
            if (schedule := self._calendar(one, delay)) is not None
        ]
        active = timer.take("Timer", "OnUnitActiveSec")
        inactive = timer.take("Timer", "OnUnitInactiveSec")
        intervals = [self._interval(one) for one in (*active, *inactive)]
        found += [_Trigger(schedule, Missed.ONCE) for schedule in intervals if schedule is not None]
        for one in inactive:
            text = f"{one}: the interval counts from start to start, not from the end of a run"
            self._report.warn(one.file, one.place, text)
        has_interval = any(trigger.schedule.every is not None for trigger in found)
        for one in timer.take("Timer", "OnBootSec", "OnStartupSec"):
            if has_interval:
                self._omit(one, "a task with an interval runs at its next time after a start")
            else:
                text = f"{one}: it runs at every start of the node, at once"
                self._report.warn(one.file, one.place, text)
                found.append(_Trigger(Schedule(cron="@reboot"), Missed.ONCE))
        for one in timer.take("Timer", "OnActiveSec"):
            self._omit(one, "a task runs at the times of its schedule, not when it is enabled")
        if delay is not None and not any(trigger.schedule.calendar or trigger.schedule.cron for trigger in found):
            self._omit(delay[0], "an interval is spread evenly")
        return found

    def _delay(self, timer: Unit) -> tuple[Directive, int] | None:
        one = timer.take_last("Timer", "RandomizedDelaySec")
        timer.take("Timer", "FixedRandomDelay")  # a delay is always the same here
        if one is None:
            return None
        try:
            delay = parse_span(one.value)
        except Invalid as e:
            self._omit(one, e.problem)
            return None
        return None if not delay else (one, delay)

    def _calendar(self, one: Directive, delay: tuple[Directive, int] | None) -> Schedule | None:
        schedule = Schedule(calendar=one.value or None, zone=self._zone)
        try:
            compile_schedule(schedule, "x")
            entry = entry_with_delay(one.value, delay[1]) if delay else None
            if entry is not None:
                spread = Schedule(cron=entry, zone=self._zone)
                compile_schedule(spread, "x")
                return spread
        except Invalid as e:
            self._omit(one, e.problem)
            return None
        if delay is not None:
            self._omit(delay[0], f"no entry with H says that of {one.value}: it runs without a delay")
        return schedule

    def _interval(self, one: Directive) -> Schedule | None:
        try:
            every = parse_span(one.value)
        except Invalid as e:
            self._omit(one, e.problem)
            return None
        if every is None or not MIN_EVERY <= every <= MAX_EVERY:
            self._omit(one, "accepted: 1s to 3653d")
            return None
        return Schedule(every=every, zone=self._zone)

    # Services

    def _job(self, name: str) -> ServiceJob | None:
        if name not in self._services:
            unit = self._folders.unit(name)
            if unit is None:
                self._services[name] = None
            else:
                self._services[name] = ServiceReader(unit, self._report, self._secrets).job()
                specifiers = unit_specifiers(unit.stem, "service", unit.file, None)
                for one in unit.take("Unit", *_ENDS):
                    for word in one.value.split():
                        self._follow(name, one, word, specifiers)
                self._report_left(unit, name)
        return self._services[name]

    def _follow(self, service: str, one: Directive, word: str, specifiers: Mapping[str, str]) -> None:
        try:
            follower = plain_text(word, specifiers)
        except Invalid as e:
            self._omit(one, e.problem)
            return
        if not follower.endswith(".service"):
            self._omit(one, "only services become tasks")
        elif self._folders.unit(follower) is None:
            self._omit(one, f"there is no {follower} here")
        else:
            self._followers[service].append((one, follower))

    def _chained(self, starting: Mapping[str, Sequence[str]]) -> Iterator[Task]:
        """Tasks of services that systemd starts when others have failed or succeeded."""
        failing: defaultdict[str, list[str]] = defaultdict(list)
        for service, parents in starting.items():
            for one, follower in self._followers[service]:
                if one.key == "OnFailure":
                    failing[follower] += parents
                else:
                    yield from (self._chained_task(follower, Schedule(after=(parent,))) for parent in parents)
        for follower, parents in failing.items():
            for i in range(0, len(parents), PARENT_LIMIT):
                schedule = Schedule(after_failure=tuple(parents[i : i + PARENT_LIMIT]))
                yield self._chained_task(follower, schedule)

    def _chained_task(self, follower: str, schedule: Schedule) -> Task:
        found = self._job(follower)
        assert found is not None
        stem = follower.removesuffix(".service")
        if found.doubts:
            text = f"{stem} is written disabled: {shown('; '.join(found.doubts))}"
            self._report.warn(follower, None, text)
        name = safe_name(stem)[:NAME_LIMIT]
        return Task(name, schedule, found.job, enabled=not found.doubts, timebox=found.timebox)

    # What is left

    def _omit(self, one: Directive, why: str) -> None:
        self._report.omit(one.file, one.place, str(one), why)

    def _report_left(self, unit: Unit, service: str) -> None:
        for one in unit.left():
            self._omit(one, _why_left(one, service))


def _why_left(one: Directive, service: str) -> str:
    """Why nothing stands for a directive."""
    reasons: Mapping[re.Pattern[str], str] = {
        _CONDITIONS: "it is not asked before a run",
        _ORDER: "a task does not wait for units",
    }
    if one.section == "Install":
        return "a task of a file is enabled unless it says otherwise"
    if one.section == "Unit":
        if one.key == "Description":
            return "the label `description` is that of the timer"
        if one.key in _WORDS:
            return "nothing in it runs"
    elif one.section == "Service":
        keep = _KEEP_THE_UNIT.format(unit=service)
        reasons = {
            _RESTART: "a run that failed waits for its next time",
            _OUTPUT: "output is kept with the run",
            _STOPPING: "a run that is stopped gets SIGTERM, then SIGKILL",
            _FOLDERS: "no folder is made",
            _SANDBOX: f"evenbeat has no sandbox; {keep}",
            _RESOURCES: f"evenbeat limits no resources; {keep}",
        }
    elif one.section == "Timer":
        reasons = {
            re.compile("AccuracySec"): "a run starts at its time",
            re.compile("RemainAfterElapse|DeferReactivation"): "a task stays and does not overlap itself",
            re.compile("WakeSystem"): "evenbeat does not wake the machine",
            re.compile("OnClockChange|OnTimezoneChange"): "a change of the clock starts nothing",
        }
    return next((why for pattern, why in reasons.items() if pattern.match(one.key)), "evenbeat has nothing like it")
