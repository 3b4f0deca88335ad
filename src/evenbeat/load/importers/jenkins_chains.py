"""Jobs of Jenkins that other jobs start: the links between them, and the chained tasks that they become."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from evenbeat.load.config import FilePosition
from evenbeat.load.importers.report import ImportReport
from evenbeat.load.importers.xml_tree import XmlElement
from evenbeat.model import Schedule

_DOWNSTREAM: Final = "publishers/hudson.tasks.BuildTrigger"
_PARAMETERIZED: Final = "publishers/hudson.plugins.parameterizedtrigger.BuildTrigger/configs/*"
_UPSTREAM: Final = "triggers/jenkins.triggers.ReverseBuildTrigger"
_ENDS: Final = {
    "SUCCESS": ("after",),
    "UNSTABLE": ("after",),
    "UNSTABLE_OR_BETTER": ("after",),
    "FAILED": ("after_failure",),
    "FAILURE": ("after", "after_failure"),
    "ALWAYS": ("after", "after_failure"),
}
"""Which ends of a job start another one, by thresholds and conditions."""
_MAX_TASKS: Final = 50
"""Tasks that one job becomes at most by its chains."""


class ChainLink(NamedTuple):
    """One job starts another one."""

    parent: str
    child: str
    ends: tuple[str, ...]
    """Keys of the schedule of the child."""
    file: str
    place: FilePosition
    what: str


class ChainedSchedule(NamedTuple):
    """A schedule that a job gets by a link."""

    job: str
    name: str
    """Of its task."""
    schedule: Schedule


def chain_links(root: XmlElement, name: str, file: str) -> Iterator[ChainLink]:
    """The links that a config.xml has; what they are read from is taken."""
    for one in root.all(_DOWNSTREAM):
        yield from _links(one, name, file, "childProjects", one.value("threshold/name") or "SUCCESS")
        _take_threshold(one)
    for one in root.all(_PARAMETERIZED):
        inner = one.all("configs/*")
        condition = one.value("condition") or "SUCCESS"
        if not inner and condition in _ENDS:  # with parameters it stays in the report
            yield from _links(one, name, file, "projects", condition)
            for each in (
                *one.all("triggerWithNoParameters"),
                *one.all("configs"),
                *one.all("triggerFromChildProjects"),
            ):
                each.take_all()
    for one in root.all(_UPSTREAM):
        for link in _links(one, name, file, "upstreamProjects", one.value("threshold/name") or "SUCCESS"):
            yield link._replace(parent=link.child, child=link.parent)
        _take_threshold(one)


def _links(one: XmlElement, name: str, file: str, path: str, end: str) -> Iterator[ChainLink]:
    for other in filter(None, (word.strip() for word in re.split(r",", one.value(path)))):
        # Names are relative to the folder of the job.
        whole = posixpath.normpath(posixpath.join("/", posixpath.dirname(name), other)).lstrip("/")
        yield ChainLink(name, whole, _ENDS.get(end, ("after",)), file, one.place, f"{one.tag}: {other}")


def _take_threshold(one: XmlElement) -> None:
    for each in (*one.all("threshold"), *one.all("spec")):
        each.take_all()


def chained_schedules(
    links: Sequence[ChainLink], jobs: Collection[str], timed: Mapping[str, Sequence[str]], report: ImportReport
) -> Iterator[ChainedSchedule]:
    """The schedules that links give to jobs, parents first; `timed` are the tasks that jobs have already.

    In Jenkins each parent starts the job by itself, so there is a task for each of them.
    """
    tasks = {job: list(timed.get(job, ())) for job in jobs}
    for child, incoming in _parents_first(links, tasks, report):
        has_timer = bool(tasks[child])
        for link in incoming:
            if not tasks.get(link.parent):
                report.omit(link.file, link.place, link.what, f"{link.parent} has no task here")
            for parent in tasks.get(link.parent, ()):
                for key in link.ends:
                    if len(tasks[child]) >= _MAX_TASKS:
                        report.omit(link.file, link.place, link.what, f"{child} has {_MAX_TASKS} tasks already")
                        break
                    words = "failure of " if key == "after_failure" else ""
                    name = f"{child} (after {words}{parent})" if has_timer or tasks[child] else child
                    tasks[child].append(name)
                    schedule = Schedule(after_failure=(parent,)) if words else Schedule(after=(parent,))
                    yield ChainedSchedule(child, name, schedule)


def _parents_first(
    links: Sequence[ChainLink], jobs: Mapping[str, Sequence[str]], report: ImportReport
) -> Iterator[tuple[str, list[ChainLink]]]:
    """Every job with the links that start it, after all of its parents; links that close a circle are left out, rather
    those to jobs that have tasks already.
    """
    incoming: defaultdict[str, list[ChainLink]] = defaultdict(list)
    for link in dict.fromkeys(links):
        if link.child not in jobs or link.parent not in jobs:
            missing = link.child if link.child not in jobs else link.parent
            report.omit(link.file, link.place, link.what, f"there is no job {missing!r} here")
        elif not any((one.parent, one.ends) == (link.parent, link.ends) for one in incoming[link.child]):
            incoming[link.child].append(link)
    done: dict[str, list[ChainLink]] = {}
    for start in sorted(incoming, key=lambda job: bool(jobs[job])):
        left = [start] if start not in done else []
        under_way: dict[str, list[ChainLink]] = {}
        while left:
            job = left[-1]
            kept = under_way.setdefault(job, [])
            if not incoming[job]:
                done[job] = kept
                del under_way[left.pop()]
                continue
            link = incoming[job].pop(0)
            if link.parent in under_way:
                report.omit(link.file, link.place, link.what, "it closes a circle of jobs")
                continue
            kept.append(link)
            if link.parent not in done and link.parent in incoming:
                left.append(link.parent)
    yield from done.items()
