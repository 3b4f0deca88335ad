"""TaskAdmin makes every change to tasks, whether a file, the command line, the API or a program asks for it.

It works on a store. A node that runs on the store takes each change over once it is made.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from random import SystemRandom
from threading import RLock
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from evenbeat.admin.audit_lines import audit_of_apply
from evenbeat.admin.capacity import limit_capacities, overridden_slot_settings, set_limit, set_slots, slot_capacity
from evenbeat.admin.cluster_lock import ClusterLock
from evenbeat.admin.command_permission import (
    blocked_advice,
    check_files_are_authorised,
    check_may_define,
    permission_of,
)
from evenbeat.admin.contacts import CONTACTS_PREFIX, check_may_define_contact
from evenbeat.admin.job_with_arguments import check_arguments
from evenbeat.admin.kept_names import file_with_names, keep_names_of_tasks
from evenbeat.admin.owner_settings import OwnerSettings
from evenbeat.admin.passive_settings import forget_removed_tasks
from evenbeat.admin.stored_references import (
    LIMITS_PREFIX,
    NODE_PREFIX,
    UnchangedTasks,
    check_configs,
    check_not_depended_on,
    check_references,
    check_unused,
    node_settings_by_owner,
    shared_names,
)
from evenbeat.admin.tasks_of_files import file_owner_of
from evenbeat.core.permission import has_runnable_job, is_blocked
from evenbeat.core.placement import PhasePlacement, keep_phase
from evenbeat.core.references import SharedNames
from evenbeat.core.scope import Scope
from evenbeat.load.config import Config, NodeSettings, ParsedFile
from evenbeat.load.files import load_file, load_parsed_file
from evenbeat.load.one_off import past_at_error, require_future_at
from evenbeat.load.pause_gc import without_garbage_collection
from evenbeat.load.safe_text import lines_error, name_error, text_error
from evenbeat.model import (
    MAX_PAUSE,
    TEXT_LIMIT,
    CommandSource,
    Contact,
    Downtime,
    Entry,
    Instant,
    Invalid,
    Period,
    Task,
    TaskPause,
)
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Change, Conflict, FieldChange, Filter, Store
from evenbeat.when.period import compile_periods
from evenbeat.wire.replies import ChangeResult, Forbidden
from evenbeat.wire.requests import RunArguments

_FILE_DIGEST_PREFIX: Final = "digest:"
_END_OF_PAUSE: Final = "end of the pause"
"""Resumes tasks, as the audit tells it."""
_ID_LENGTH: Final = 36
"""Characters of an id."""
_MAX_PAST_NOTICES: Final = 10
"""One-off tasks in the past that are listed by name."""
_Item = TypeVar("_Item")


class LiveChange(NamedTuple):
    """A completed change, for the running node to take over."""

    changed: ChangeResult
    old_names: Mapping[int, str]
    """The previous names of changed tasks, by number."""
    replanned: Sequence[int]
    """Tasks whose next due time a changed period may have moved."""


class TaskAdmin:
    """Makes changes one at a time; may be called from any thread."""

    def __init__(self, store: Store, now: Callable[[], Instant]) -> None:
        self.store = store
        self._now = now
        self._settings = OwnerSettings(store, now)
        self._phases = PhasePlacement(store.entries, SystemRandom().random)
        self._lock: AbstractContextManager[object] = RLock()
        if isinstance(store, ClusterStore):
            self._lock = ClusterLock(store, self._phases)
        self.command_line_slots: int | None = None
        """The options of the running node."""
        self.load: Callable[[Path], Config] = load_file
        self.part_size = sys.maxsize
        """Tasks of a file that are written at once. Smaller parts delay other writers less, but take longer."""
        self.on_changed: Callable[[ChangeResult], None] = lambda _: None
        """Called after each change, in order, in the thread that made it."""

    def now(self) -> Instant:
        """The current time, by the clock of the store if nodes share one."""
        return self._now()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock: no other change is made meanwhile."""
        with self._lock:
            yield

    def _announce(self, changed: ChangeResult) -> ChangeResult:
        if changed.removed:
            forget_removed_tasks(self.store, changed.removed)
        self.on_changed(changed)
        return changed

    # Single tasks

    def add(self, tasks: Sequence[Task], owner: str, who: str, scope: Scope | None = None) -> ChangeResult:
        """Add tasks, all or none. With a `scope`, they take over no running instance from outside the scope."""
        with self._lock, self._phases.invalidated_on_error():
            check_references(tasks, shared_names(self.store), UnchangedTasks(self.store))
            if problem := text_error(owner):
                raise Invalid(problem, place="owner")
            permission = permission_of(self.store)
            for task in tasks:
                require_future_at(task, self._now())
                check_may_define(permission, owner, None, task)
            self._refuse_ids_as_names([task.name for task in tasks])
            self._forget_file_digests({owner})
            placed_ = self._phases.place_new(self._as_still_running(tasks, scope))
            return self._announce(ChangeResult(created=self.store.create(placed_, owner, self._now(), who)))

    def _as_still_running(self, tasks: Sequence[Task], scope: Scope | None = None) -> Sequence[Task]:
        """Restore tasks that were removed while running and still run: each keeps its phase and its history."""
        entries = {entry.task.name: entry for entry in self.store.removed_running()}
        for task in tasks if scope is not None else ():
            entry = entries.get(task.name)
            if scope is not None and entry is not None and not scope.contains(entry.owner, entry.task.labels):
                raise Conflict(f"a removed task {task.name!r} still runs; accepted: another name, or this one later")
        running = {name: entry.task for name, entry in entries.items()}
        return [keep_phase(t, running[t.name]) if t.name in running else t for t in tasks] if running else tasks

    def set(self, name: str, new: Task, who: str, version: int | None = None) -> ChangeResult:
        """Redefine a task; its phase is kept where possible."""
        with self._lock, self._phases.invalidated_on_error():
            entry = self.find_or_raise(name)
            others = UnchangedTasks(self.store, without_names={entry.task.name})
            check_references([new], shared_names(self.store), others)
            check_not_depended_on(self.store, [entry], [new])
            require_future_at(new, self._now(), entry.task)
            check_may_define(permission_of(self.store), entry.owner, entry.task, new)
            if new.name != entry.task.name:
                self._refuse_ids_as_names([new.name])
            task = keep_phase(replace(new, paused=entry.task.paused, pause=entry.task.pause), entry.task)
            if task == entry.task:
                return ChangeResult(unchanged=1)
            self._forget_file_digests({entry.owner})
            moved = self._phases.place_changed([(entry, task)])
            return self._announce(ChangeResult(changed=self.store.update(moved, self._now(), who, version)))

    def remove(self, only: Filter, who: str) -> ChangeResult:
        """Delete tasks; runs under way still finish."""
        with self._lock, self._phases.invalidated_on_error():
            entries = list(self._entries_for(only))
            check_not_depended_on(self.store, entries)
            self._forget_file_digests({entry.owner for entry in entries})
            self.store.remove([entry.number for entry in entries], self._now(), who)
            self._phases.remove(entries)
            changed = ChangeResult(removed=entries)
            if only.owner is not None and only == Filter(owner=only.owner):
                changed.settings_at = self._now()
                changed.settings = self._settings.forget(only.owner, changed.settings_at, who)
            return self._announce(changed)

    def pause(
        self, only: Filter, who: str, *, paused: bool, until: Instant | None = None, reason: str = ""
    ) -> ChangeResult:
        """Pause tasks by hand, until a time if one is given, or resume them."""
        with self._lock:
            now = self._now()
            _check_pause(paused=paused, until=until, reason=reason, now=now)
            entries = list(self._entries_for(only))
            # Without an end and a reason it is as it was before there were any: the audit knows who paused the task.
            pause = TaskPause(now, who, until, reason) if until is not None or reason else None
            others = [entry for entry in entries if _pause_of(entry.task) != (paused, until, reason)]
            tasks = [(entry.number, replace(entry.task, paused=paused, pause=pause)) for entry in others]
            changed = self.store.update(tasks, now, who) if tasks else []
            return self._announce(ChangeResult(changed=changed, unchanged=len(entries) - len(changed)))

    def end_pauses(self, names: Sequence[str]) -> ChangeResult:
        """Resume those of these tasks whose pause is to have ended by now."""
        with self._lock:
            now = self._now()
            over = [
                (entry.number, replace(entry.task, paused=False, pause=None))
                for entry in self.store.entries(Filter(names=tuple(names)))
                if entry.task.pause is not None and entry.task.pause.until is not None and entry.task.pause.until <= now
            ]
            return self._announce(ChangeResult(changed=self.store.update(over, now, _END_OF_PAUSE) if over else []))

    def _entries_for(self, only: Filter) -> Iterator[Entry]:
        return ConditionReader(self.store, self._now()).entries(only)

    def select_forced(
        self,
        names: Sequence[str],
        who: str,
        only: Filter | None = None,
        *,
        noted: bool = True,
        arguments: RunArguments | None = None,
    ) -> list[Entry]:
        """The tasks to run now, by name and by filter; written to the audit, unless this request was already.

        With `arguments`, the run of the one task that is named is checked.
        """
        entries = [self.find_or_raise(name) for name in names]
        permission = permission_of(self.store)
        if arguments is not None:
            check_arguments(entries, arguments, permission)
        idle = next((entry.task.name for entry in entries if not has_runnable_job(entry.task)), None)
        if idle is not None:
            raise Conflict(f"{idle!r} is a passive check: it has nothing to run, results are submitted")
        for entry in entries:
            if is_blocked(permission, entry.owner, entry.task):
                raise Forbidden(
                    f'{entry.task.name!r} does not run: commands = "files", and {blocked_advice(entry.owner)}'
                )
        if only is not None:
            named = {entry.number for entry in entries}
            able = (entry for entry in self._entries_for(only) if has_runnable_job(entry.task))
            some = (entry for entry in able if not is_blocked(permission, entry.owner, entry.task))
            entries += [entry for entry in some if entry.number not in named]
        if noted:
            detail = "" if arguments is None else f"with arguments: {arguments.names()}"
            self.store.note([Change(self._now(), who, "forced", entry.task.name, detail) for entry in entries])
        return entries

    def audit(self, name: str, action: str, who: str, detail: str = "", fields: Sequence[FieldChange] = ()) -> None:
        """Write to the audit a change that concerns no task."""
        self.store.note([Change(self._now(), who, action, name, detail, tuple(fields))])

    def _refuse_ids_as_names(self, names: Iterable[str]) -> None:
        """Refuse a name that is the id of another task: lookups try names before ids, and would find the wrong task."""
        for name in names:
            if len(name) == _ID_LENGTH and (entry := self.store.find(name)) is not None and entry.task.name != name:
                raise Conflict(f"{name!r} is the id of another task; accepted: any other name")

    def find_or_raise(self, name: str) -> Entry:
        """A task by name or id; raise Invalid if it does not exist."""
        entry = self.store.find(name)
        if entry is None:
            raise Invalid(f"there is no task {name!r}")
        return entry

    def _forget_file_digests(self, owners: Collection[str]) -> None:
        """Forget digests of files whose tasks or periods were changed otherwise, so that `apply` reads them again."""
        digests = [_FILE_DIGEST_PREFIX + owner for owner in owners]
        if known := [key for key in digests if self.store.setting(key) is not None]:
            self.store.set_settings(dict.fromkeys(known))

    # Periods

    def set_periods(self, periods: Mapping[str, Period], owner: str, who: str) -> ChangeResult:
        """Create or redefine periods of an owner."""
        with self._lock:
            stored = self.store.periods()
            for name in periods.keys() - stored.keys():
                if problem := name_error(name):
                    raise Invalid(problem, place="name")
            compile_periods({**self._settings.periods(), **periods})
            different: dict[str, dict[str, Period]] = {}
            for name, period in periods.items():
                period_owner, before = stored.get(name, (owner, None))
                if period != before:
                    different.setdefault(period_owner, {})[name] = period
            self._forget_file_digests(different.keys())
            now = self._now()
            for period_owner, changed in different.items():
                self._settings.set_periods(changed, period_owner, now, who)
            return self._announce(ChangeResult(settings=True, settings_at=now)) if different else ChangeResult()

    def remove_period(self, name: str, who: str) -> ChangeResult:
        """Delete an unused period."""
        with self._lock:
            stored = self.store.periods()
            if name not in stored:
                raise Invalid(f"there is no period {name!r}")
            for other, (_, period) in stored.items():
                if name in (*period.include, *period.exclude):
                    raise Conflict(f"the period {name!r} cannot go: the period {other!r} uses it")
            check_unused(self.store, SharedNames(periods={name}), self._now())
            self._forget_file_digests({stored[name][0]})
            now = self._now()
            self._settings.set_periods({name: None}, stored[name][0], now, who)
            return self._announce(ChangeResult(settings=True, settings_at=now))

    # Contacts

    def define_contact(self, owners: Sequence[str], name: str, contact: Contact | None, who: str) -> ChangeResult:
        """Set or delete a contact of these owners; the caller holds the lock and has checked it."""
        self._forget_file_digests(owners)
        for owner in owners:
            self._settings.set_contact(owner, name, contact, who)
        return self._announce(ChangeResult(settings=True, settings_at=self._now()))

    # Downtimes

    def announce_downtime(self, downtime: Downtime, now: Instant) -> ChangeResult:
        """A downtime was set or ended."""
        return self._announce(ChangeResult(settings=True, settings_at=now, downtime=downtime))

    # Slots and limits at run time

    def set_slots(self, most: int | None, who: str) -> ChangeResult:
        """Set the number of slots; None returns to the value of the command line or files."""
        with self._lock:
            now, before = self._now(), slot_capacity(self.store, self.command_line_slots).most
            set_slots(self.store, most, who, now)
            field = FieldChange("slots", before, slot_capacity(self.store, self.command_line_slots).most)
            self.audit("slots", "reset" if most is None else "set", who, "" if most is None else str(most), [field])
            return self._announce(ChangeResult(settings=True, settings_at=now))

    def set_limit(self, name: str, most: int | None, who: str) -> ChangeResult:
        """Set a declared limit; None returns to its declared value."""
        with self._lock:
            now, before = self._now(), self.limits().get(name)
            set_limit(self.store, name, most, who, now)
            field, detail = FieldChange("most", before, self.limits().get(name)), "" if most is None else str(most)
            self.audit(f"limit {name}", "reset" if most is None else "set", who, detail, [field])
            return self._announce(ChangeResult(settings=True, settings_at=now))

    # Files

    def apply(self, files: Sequence[Path], who: str, *, anew: bool = False, at_up: bool = False) -> ChangeResult:
        """Make the tasks that these files own be what the files say: all of them, or nothing if one is wrong.

        The files win over what was changed by hand, except for pauses. A file that is as it was when it was last
        applied, and whose tasks have not changed since, is not read again, unless `anew` asks for it. `at_up`: these
        are the files that a node is started with.
        """
        with self._lock, without_garbage_collection():
            was_strict = permission_of(self.store).commands is CommandSource.FILES
            if was_strict:
                check_files_are_authorised(self.store, files, at_up=at_up)
            fresh: dict[str, Config] = {}
            digests: dict[str, str | None] = {}
            for path in files:
                owner = file_owner_of(path)
                digest = _file_digest(path)
                if anew or digest is None or self.store.setting(_FILE_DIGEST_PREFIX + owner) != digest:
                    fresh[owner] = self.load(path)
                    digests[_FILE_DIGEST_PREFIX + owner] = digest
            if not fresh:
                return ChangeResult(unchanged=self.store.count())
            becomes_strict = any(c.node is not None and c.node.commands is CommandSource.FILES for c in fresh.values())
            if becomes_strict and not was_strict:
                check_files_are_authorised(self.store, files, at_up=True)
                # Another user may have changed what was read before the files were checked.
                fresh = {file_owner_of(path): self.load(path) for path in files}
            if at_up:
                self.set_named_files(files)  # before any node learns that only such files count
            changed = self._apply(fresh, who, {file_owner_of(path): path for path in files})
            self.store.set_settings(digests)
            return changed

    def set_named_files(self, files: Sequence[Path]) -> None:
        """Store the files a node was started with. In a cluster the files of all nodes count, otherwise only these."""
        with self._lock:
            if self._settings.set_named_files({file_owner_of(path) for path in files}):
                self._announce(ChangeResult(settings=True, settings_at=self._now()))

    def has_applied(self, file: Path) -> bool:
        """Does the store have anything from this file?"""
        owner = file_owner_of(file)
        return (
            any(
                self.store.setting(kind + owner) is not None
                for kind in (_FILE_DIGEST_PREFIX, LIMITS_PREFIX, CONTACTS_PREFIX, NODE_PREFIX)
            )
            or any(period_owner == owner for period_owner, _ in self.store.periods().values())
            or self.store.count(Filter(owner=owner)) > 0
        )

    def has_others_commands(self, files: Sequence[Path]) -> bool:
        """With commands = "files": may tasks of these files differ from the files, because a user changed them?"""
        if permission_of(self.store).commands is CommandSource.ANYONE:
            return False
        return any(self.store.setting(_FILE_DIGEST_PREFIX + file_owner_of(file)) is None for file in files)

    def apply_config(self, owner: str, config: Config, who: str) -> ChangeResult:
        """Create, change and remove tasks to match what a program declares, as `apply` does for a file."""
        return self.apply_configs({owner: config}, who)

    def apply_configs(self, configs: Mapping[str, Config], who: str) -> ChangeResult:
        """Do that for several owners, all or nothing."""
        with self._lock, without_garbage_collection():
            changed = self._apply(configs, who)
            # If one of the owners is a file, its last applied content is out of date.
            self._settings.put(dict.fromkeys(_FILE_DIGEST_PREFIX + owner for owner in configs))
            return changed

    def _apply(self, configs: Mapping[str, Config], who: str, files: Mapping[str, Path] | None = None) -> ChangeResult:
        """Make all checks that can refuse, before changing anything."""
        created: dict[str, list[Task]] = {}
        changed: dict[str | None, list[tuple[Entry, Task]]] = {None: []}
        removed: dict[str, Entry] = {}
        unchanged, permission = 0, permission_of(self.store)
        names, configs = keep_names_of_tasks(self.store, configs)
        for owner, config in configs.items():
            before = {entry.task.name: entry for entry in self.store.entries(Filter(owner=owner))}
            if permission.commands is CommandSource.FILES and owner not in (files or {}):
                if config.node is not None and config.node.pass_env is not None:
                    raise Forbidden('commands = "files": which variables commands get is set in files, by `pass_env`')
                known = self._settings.contacts_of(owner)
                for name, contact in config.contacts.items():
                    check_may_define_contact(permission, owner, name, known.get(name), contact)
                for task in config.tasks:
                    old = before.get(task.name)
                    check_may_define(permission, owner, None if old is None else old.task, task)
            new = [] if before else list(config.tasks)
            for task in config.tasks if before else ():
                entry = before.pop(task.name, None)
                if entry is None:
                    new.append(task)
                    continue
                task_now = _keep_unstated(task, entry)
                if task_now == entry.task:
                    unchanged += 1
                else:
                    changed[None].append((entry, task_now))
            created[owner] = new
            removed |= before
        has_tasks = next(self.store.entries(Filter(most=1)), None) is not None
        new_names = {task.name for tasks in created.values() for task in tasks} if has_tasks else set()
        other = (*removed.values(), *(entry for entry, _ in changed[None]))
        check_configs(
            self.store,
            configs,
            new_names,
            lambda owner: _parsed_file(owner, files or {}, names[owner]),
            self._now(),
            other,
        )
        self._refuse_ids_as_names(sorted(new_names))
        for owner, tasks in created.items() if removed else ():
            # A task that moves from one owner to another keeps its identity.
            changed[owner] = [(removed[t.name], _keep_unstated(t, removed[t.name])) for t in tasks if t.name in removed]
            created[owner] = [task for task in tasks if task.name not in removed]
            for entry, _ in changed[owner]:
                del removed[entry.task.name]
        with self._phases.invalidated_on_error():
            done = self._write(configs, created, changed, list(removed.values()), who)
        done.unchanged = unchanged
        if applied := audit_of_apply(configs, done, self._now(), who):
            self.store.note([applied])
        slots = {owner: config.node.max_concurrent for owner, config in configs.items() if config.node is not None}
        done.notices = [
            f"{entry.task.name}: {passed}"
            for entry in chain(done.created, done.changed)
            if entry.task.schedule.at is not None and (passed := past_at_error(entry.task, self._now()))
        ][:_MAX_PAST_NOTICES]
        done.notices += overridden_slot_settings(
            {owner: most for owner, most in slots.items() if most is not None},
            slot_capacity(self.store, self.command_line_slots),
        )
        return done

    def _write(
        self,
        configs: Mapping[str, Config],
        created: Mapping[str, list[Task]],
        changed: Mapping[str | None, list[tuple[Entry, Task]]],
        removed: list[Entry],
        who: str,
    ) -> ChangeResult:
        """Step by step, so that a live node knows of each that was done: what tasks refer to is there before them.

        `changed` has the tasks that move under the owners that they get, and all others under None. For a live node
        each step is written in parts: between them its claims get into the store in time.
        """
        now, all_done = self._now(), ChangeResult()
        if self._settings.add_new(configs, now, who):
            all_done.settings = self._announce(ChangeResult(settings=True, settings_at=now)).settings
        for leaving in self._parts(removed):
            self.store.remove([entry.number for entry in leaving], now, who)
            self._phases.remove(leaving)
            all_done.removed += self._announce(ChangeResult(removed=leaving)).removed
        for new_owner, of_owner in changed.items():
            for moved in self._parts(self._phases.place_changed(of_owner)):
                entries = self.store.update(moved, now, who, owner=new_owner)
                all_done.changed += self._announce(ChangeResult(changed=entries)).changed
        for owner, tasks in created.items():
            for placed_ in self._parts(list(self._phases.place_new(self._as_still_running(tasks)) if tasks else [])):
                entries = self.store.create(placed_, owner, now, who)
                all_done.created += self._announce(ChangeResult(created=entries)).created
        if self._settings.remove_old(
            configs, [entry for of_owner in changed.values() for entry, _ in of_owner], now, who
        ):
            all_done.settings = self._announce(ChangeResult(settings=True, settings_at=now)).settings
        return all_done

    def _parts(self, things: list[_Item]) -> Iterator[list[_Item]]:
        return (things[at : at + self.part_size] for at in range(0, len(things), self.part_size))

    # What is there

    def limits(self) -> dict[str, int]:
        """All limits that are declared, by name: what files say, or what was set at run time."""
        return {name: capacity.most for name, capacity in limit_capacities(self.store).items()}

    def forget_placement(self) -> None:
        """Fill the load wheel from the store before the next task is placed, so that its phase does not depend on which
        process placed the tasks before it.
        """
        self._phases.invalidate()

    def settings(self) -> NodeSettings:
        """What files say of the node; of two the later name counts."""
        found = NodeSettings()
        for settings in node_settings_by_owner(self.store).values():
            found = replace(found, **{k: v for k, v in msgspec.structs.asdict(settings).items() if v is not None})
        return found


def _check_pause(*, paused: bool, until: Instant | None, reason: str, now: Instant) -> None:
    if not paused and (until is not None or reason):
        raise Invalid("a resumed task has neither an end of its pause nor a reason for it")
    if until is not None and not now < until <= now + MAX_PAUSE:
        raise Invalid("accepted: a time in the future, at most 366 days ahead", place="until")
    if len(reason) > TEXT_LIMIT:
        raise Invalid(f"{len(reason):,} characters, accepted: at most {TEXT_LIMIT:,}", place="reason")
    if problem := lines_error(reason):
        raise Invalid(problem, place="reason")


def _pause_of(task: Task) -> tuple[bool, Instant | None, str]:
    """Is it paused, until when, and why?"""
    return (task.paused, None, "") if task.pause is None else (task.paused, task.pause.until, task.pause.reason)


def _keep_unstated(task: Task, entry: Entry | None) -> Task:
    """Keep the settings that a file does not mention."""
    if entry is None:
        return task
    if (task.paused, task.pause) != (entry.task.paused, entry.task.pause):
        task = replace(task, paused=entry.task.paused, pause=entry.task.pause)
    return keep_phase(task, entry.task)


def _parsed_file(owner: str, files: Mapping[str, Path], names: Mapping[str, str]) -> ParsedFile | None:
    """The file of an owner again, with the positions of its values by the names that its tasks get, for messages."""
    return file_with_names(load_parsed_file(files[owner]), names) if owner in files else None


def _file_digest(path: Path) -> str | None:
    """The digest of a file's content; None if it is unreadable, which the proper parser will report."""
    try:
        with path.open("rb") as file:
            digest = blake2b(digest_size=16)
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
