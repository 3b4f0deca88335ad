"""The desk: every change to tasks passes over it, whoever asks - a file, the command line, a program - and however.

It works on a store. If a node lives on that store, it takes over each change when the desk is done with it.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from evenbeat.admin.audit_lines import applied_change, settings_changes
from evenbeat.admin.capacity import limits_of, not_in_force, set_limit, set_slots, slots_of
from evenbeat.admin.command_permission import (
    NAMED_FILES,
    Forbidden,
    must_be_allowed,
    must_be_files_that_count,
    named_files,
    permission_of,
    why_blocked,
)
from evenbeat.admin.cross_check import (
    LIMITS,
    NODE,
    known_beside,
    must_not_need,
    must_refer_to_what_is_there,
    needed,
    refusal,
)
from evenbeat.admin.file_owner import is_file, owner_of
from evenbeat.admin.passive_settings import forget_told
from evenbeat.admin.period_changes import changed_by_periods
from evenbeat.admin.phases import Places, keep_phase
from evenbeat.core.permission import is_blocked, runs_something
from evenbeat.core.scope import Scope
from evenbeat.load.config import Config, NodeSettings
from evenbeat.load.cross_check import Finding, findings
from evenbeat.load.files import load_file, load_source
from evenbeat.load.one_off import must_be_to_come, past_at
from evenbeat.load.pause_gc import without_collector
from evenbeat.load.safe_text import name_problem, text_problem
from evenbeat.model import Commands, Entry, Instant, Invalid, Period, Task
from evenbeat.report.task_status import Upcoming
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Change, Conflict, FieldChange, Filter, Store
from evenbeat.when.period import compile_periods

_DIGEST: Final = "digest:"
_ID_LENGTH: Final = 36
"""Characters of an id."""
_TOLD: Final = 10
"""One-off tasks whose time has passed that are named."""
_Thing = TypeVar("_Thing")


class Changed(Struct):
    """What is different now: what a live node must take over, and what people are told."""

    created: list[Entry] = []
    changed: list[Entry] = []
    removed: list[Entry] = []
    unchanged: int = 0
    settings: bool = False
    """Periods, limits or settings of the node ..."""
    settings_at: Instant = Instant(0)
    """... and when."""
    notices: list[str] = []
    """What people should know beside it."""


class _Alone(AbstractContextManager[object]):
    """One at a time, among all processes that share a store. Places that others have given since are not known here."""

    def __init__(self, store: ClusterStore, places: Places) -> None:
        self._store = store
        self._places = places
        self._here = RLock()
        self._depth = 0
        self._stamp = -1

    def __enter__(self) -> None:
        self._here.acquire()
        try:
            if self._depth == 0:
                self._there = self._store.alone()
                self._there.__enter__()
                if self._store.stamp() != self._stamp:
                    self._places.forget()
            self._depth += 1
        except BaseException:
            self._here.release()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._depth -= 1
            if self._depth == 0:
                try:
                    self._stamp = self._store.stamp()
                finally:
                    self._there.__exit__(None, None, None)
        finally:
            self._here.release()


class TakenOver(NamedTuple):
    """A change that a live node has made its own."""

    changed: Changed
    old_names: Mapping[int, str]
    """The names that the changed tasks had before, by their numbers."""
    replanned: Sequence[int]
    """Tasks that a changed period may have given another next time."""


class Desk:
    """Changes tasks, one at a time; may be asked from any thread."""

    def __init__(self, store: Store, now: Callable[[], Instant]) -> None:
        self.store = store
        self._now = now
        self._places = Places(store.entries)
        self._lock: AbstractContextManager[object] = RLock()
        if isinstance(store, ClusterStore):
            self._lock = _Alone(store, self._places)
        self.command_line_slots: int | None = None
        """What the live node was started with."""
        self.load: Callable[[Path], Config] = load_file
        self.part = sys.maxsize
        """Tasks of a file that are written at once. Others can write between two parts, but small ones take longer."""
        self.on_changed: Callable[[Changed], None] = lambda _: None
        """Told of each change when it is done, one after the other, by whoever made it."""

    def now(self) -> Instant:
        """By the clock of the store, where nodes share one."""
        return self._now()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Nobody changes anything meanwhile."""
        with self._lock:
            yield

    def _done(self, changed: Changed) -> Changed:
        if changed.removed:
            forget_told(self.store, changed.removed)
        self.on_changed(changed)
        return changed

    # Single tasks

    def add(self, tasks: Sequence[Task], owner: str, who: str, scope: Scope | None = None) -> Changed:
        """New tasks, all or none; whoever is limited to a `scope` takes over no run from outside it."""
        with self._lock, self._places.right():
            must_refer_to_what_is_there(tasks, self._periods(), self.limits())
            if problem := text_problem(owner):
                raise Invalid(problem, place="owner")
            permission = permission_of(self.store)
            for task in tasks:
                must_be_to_come(task, self._now())
                must_be_allowed(permission, owner, None, task)
            self._must_be_no_ids([task.name for task in tasks])
            self._edited_by_hand({owner})
            placed_ = self._places.give(self._as_still_running(tasks, scope))
            return self._done(Changed(created=self.store.create(placed_, owner, self._now(), who)))

    def _as_still_running(self, tasks: Sequence[Task], scope: Scope | None = None) -> Sequence[Task]:
        """Tasks that were removed while they ran come back if they still do: each keeps its phase, and its history."""
        entries = {entry.task.name: entry for entry in self.store.removed_running()}
        for task in tasks if scope is not None else ():
            entry = entries.get(task.name)
            if scope is not None and entry is not None and not scope.contains(entry.owner, entry.task.labels):
                raise Conflict(f"a removed task {task.name!r} still runs; accepted: another name, or this one later")
        running = {name: entry.task for name, entry in entries.items()}
        return [keep_phase(t, running[t.name]) if t.name in running else t for t in tasks] if running else tasks

    def set(self, name: str, new: Task, who: str, version: int | None = None) -> Changed:
        """A new definition for a task; its phase stays where it can."""
        with self._lock, self._places.right():
            entry = self.need(name)
            must_refer_to_what_is_there([new], self._periods(), self.limits())
            must_be_to_come(new, self._now(), entry.task)
            must_be_allowed(permission_of(self.store), entry.owner, entry.task, new)
            if new.name != entry.task.name:
                self._must_be_no_ids([new.name])
            task = keep_phase(replace(new, paused=entry.task.paused), entry.task)
            if task == entry.task:
                return Changed(unchanged=1)
            self._edited_by_hand({entry.owner})
            moved = self._places.move([(entry, task)])
            return self._done(Changed(changed=self.store.update(moved, self._now(), who, version)))

    def remove(self, only: Filter, who: str) -> Changed:
        """Delete tasks; a run that is under way finishes."""
        with self._lock, self._places.right():
            entries = list(self._chosen(only))
            self._edited_by_hand({entry.owner for entry in entries})
            self.store.remove([entry.number for entry in entries], self._now(), who)
            self._places.free(entries)
            changed = Changed(removed=entries)
            if only.owner is not None and only == Filter(owner=only.owner):
                changed.settings_at = self._now()
                changed.settings = self._forget_owner(only.owner, changed.settings_at, who)
            return self._done(changed)

    def _forget_owner(self, owner: str, now: Instant, who: str) -> bool:
        """Of an owner whose tasks are all gone: what it says of the node, and periods and limits that nobody uses."""
        limits = self._limits_of(owner)
        periods = {name: None for name, (of, _) in self.store.periods().items() if of == owner}
        if limits or periods:
            for entry in self.store.entries():
                limits.pop(entry.task.limit or "", None)
                periods.pop(entry.task.period or "", None)
            for _, period in self.store.periods().values():
                for name in (*period.include, *period.exclude):
                    periods.pop(name, None)
            self._set_periods(periods, owner, now, who)
        kept = {name: most for name, most in self._limits_of(owner).items() if name not in limits}
        settings = {NODE + owner: None, LIMITS + owner: _packed(kept)}
        if is_file(owner) and permission_of(self.store).commands is Commands.FILES:
            del settings[NODE + owner]  # who may delete its tasks may not say what is executed
        if isinstance(self.store, ClusterStore) and owner in (named := named_files(self.store)):
            settings[NAMED_FILES] = _list(named - {owner})
        return self._put(settings, who) or bool(periods)

    def pause(self, only: Filter, who: str, *, paused: bool) -> Changed:
        """Disable tasks by hand, or enable them again."""
        with self._lock:
            entries = list(self._chosen(only))
            changes = [(e.number, replace(e.task, paused=paused)) for e in entries if e.task.paused is not paused]
            changed = self.store.update(changes, self._now(), who) if changes else []
            return self._done(Changed(changed=changed, unchanged=len(entries) - len(changed)))

    def _chosen(self, only: Filter) -> Iterator[Entry]:
        return Upcoming(self.store, self._now()).entries(only)

    def forced(self, names: Sequence[str], who: str, only: Filter | None = None, *, noted: bool = True) -> list[Entry]:
        """The tasks that somebody wants to run now, by name and by what fits; the audit knows, unless it did before."""
        entries = [self.need(name) for name in names]
        permission = permission_of(self.store)
        idle = next((entry.task.name for entry in entries if not runs_something(entry.task)), None)
        if idle is not None:
            raise Conflict(f"{idle!r} is a passive check: it has nothing to run, results are submitted")
        for entry in entries:
            if is_blocked(permission, entry.owner, entry.task):
                raise Forbidden(f'{entry.task.name!r} does not run: commands = "files", and {why_blocked(entry.owner)}')
        if only is not None:
            named = {entry.number for entry in entries}
            able = (entry for entry in self._chosen(only) if runs_something(entry.task))
            some = (entry for entry in able if not is_blocked(permission, entry.owner, entry.task))
            entries += [entry for entry in some if entry.number not in named]
        if noted:
            self.store.note([Change(self._now(), who, "forced", entry.task.name) for entry in entries])
        return entries

    def note(self, name: str, action: str, who: str, detail: str = "", fields: Sequence[FieldChange] = ()) -> None:
        """For the audit: what was done, though to no task."""
        self.store.note([Change(self._now(), who, action, name, detail, tuple(fields))])

    def _must_be_no_ids(self, names: Iterable[str]) -> None:
        """A name comes before an id: whoever means a task by its id would get another one that is called so."""
        for name in names:
            if len(name) == _ID_LENGTH and (entry := self.store.find(name)) is not None and entry.task.name != name:
                raise Conflict(f"{name!r} is the id of another task; accepted: any other name")

    def need(self, name: str) -> Entry:
        """A task that must be there."""
        entry = self.store.find(name)
        if entry is None:
            raise Invalid(f"there is no task {name!r}")
        return entry

    def _edited_by_hand(self, owners: Collection[str]) -> None:
        """A file whose tasks or periods were changed otherwise is not as it was applied: `apply` reads it again."""
        digests = [_DIGEST + owner for owner in owners]
        if known := [key for key in digests if self.store.setting(key) is not None]:
            self.store.set_settings(dict.fromkeys(known))

    # Periods

    def set_periods(self, periods: Mapping[str, Period], owner: str, who: str) -> Changed:
        """New periods of this owner, and other definitions for those that are there."""
        with self._lock:
            stored = self.store.periods()
            for name in periods.keys() - stored.keys():
                if problem := name_problem(name):
                    raise Invalid(problem, place="name")
            compile_periods({**self._periods(), **periods})
            different: dict[str, dict[str, Period]] = {}
            for name, period in periods.items():
                whose, before = stored.get(name, (owner, None))
                if period != before:
                    different.setdefault(whose, {})[name] = period
            self._edited_by_hand(different.keys())
            now = self._now()
            for whose, some in different.items():
                self._set_periods(some, whose, now, who)
            return self._done(Changed(settings=True, settings_at=now)) if different else Changed()

    def remove_period(self, name: str, who: str) -> Changed:
        """Delete a period that nobody uses."""
        with self._lock:
            stored = self.store.periods()
            if name not in stored:
                raise Invalid(f"there is no period {name!r}")
            for other, (_, period) in stored.items():
                if name in (*period.include, *period.exclude):
                    raise Conflict(f"the period {name!r} cannot go: the period {other!r} uses it")
            must_not_need(self.store.entries(), {name}, set())
            self._edited_by_hand({stored[name][0]})
            now = self._now()
            self._set_periods({name: None}, stored[name][0], now, who)
            return self._done(Changed(settings=True, settings_at=now))

    def _set_periods(
        self,
        periods: Mapping[str, Period | None],
        owner: str,
        now: Instant,
        who: str,
        changed: Iterable[Entry] = (),
    ) -> None:
        """Set or delete periods; what was due by the old ones is kept for whoever settles it, also of tasks that were
        `changed` at the same time and went by them before.
        """
        before = self._periods()
        known = [name for name in periods if name in before]
        tasks = chain(self.store.entries(), changed) if known else ()
        self.store.set_periods(periods, owner, now, who, list(changed_by_periods(tasks, before, known, now)))

    # Slots and limits at run time

    def set_slots(self, most: int | None, who: str) -> Changed:
        """So many runs at the same time, until that is taken back with None."""
        with self._lock:
            now, before = self._now(), slots_of(self.store, self.command_line_slots).most
            set_slots(self.store, most, who, now)
            field = FieldChange("slots", before, slots_of(self.store, self.command_line_slots).most)
            self.note("slots", "reset" if most is None else "set", who, "" if most is None else str(most), [field])
            return self._done(Changed(settings=True, settings_at=now))

    def set_limit(self, name: str, most: int | None, who: str) -> Changed:
        """The same for a limit that is declared."""
        with self._lock:
            now, before = self._now(), self.limits().get(name)
            set_limit(self.store, name, most, who, now)
            field, detail = FieldChange("most", before, self.limits().get(name)), "" if most is None else str(most)
            self.note(f"limit {name}", "reset" if most is None else "set", who, detail, [field])
            return self._done(Changed(settings=True, settings_at=now))

    # Files

    def apply(self, files: Sequence[Path], who: str, *, anew: bool = False, at_up: bool = False) -> Changed:
        """Make the tasks that these files own be what the files say: all of them, or nothing if one is wrong.

        The files win over what was changed by hand, except for pauses. A file that is as it was when it was last
        applied, and whose tasks nobody has changed since, is not read again, unless `anew` asks for it. `at_up`: these
        are the files that a node is started with.
        """
        with self._lock, without_collector():
            was_strict = permission_of(self.store).commands is Commands.FILES
            if was_strict:
                must_be_files_that_count(self.store, files, at_up=at_up)
            fresh: dict[str, Config] = {}
            digests: dict[str, str | None] = {}
            for path in files:
                owner = owner_of(path)
                digest = _digest(path)
                if anew or digest is None or self.store.setting(_DIGEST + owner) != digest:
                    fresh[owner] = self.load(path)
                    digests[_DIGEST + owner] = digest
            if not fresh:
                return Changed(unchanged=self.store.count())
            becomes_strict = any(c.node is not None and c.node.commands is Commands.FILES for c in fresh.values())
            if becomes_strict and not was_strict:
                must_be_files_that_count(self.store, files, at_up=True)
                # What was written before the files were looked at may be another's.
                fresh = {owner_of(path): self.load(path) for path in files}
            if at_up:
                self.name_files(files)  # before any node hears that only such files count
            changed = self._apply(fresh, who, {owner_of(path): path for path in files})
            self.store.set_settings(digests)
            return changed

    def name_files(self, files: Sequence[Path]) -> None:
        """A node is started with these. In a cluster the files of all its nodes count, else only these."""
        with self._lock:
            owners = {owner_of(path) for path in files}
            if isinstance(self.store, ClusterStore):
                owners |= named_files(self.store)
            if self._put({NAMED_FILES: _list(owners)}):
                self._done(Changed(settings=True, settings_at=self._now()))

    def has_applied(self, file: Path) -> bool:
        """Is there anything that this file says, or said when it was last applied?"""
        owner = owner_of(file)
        return (
            any(self.store.setting(kind + owner) is not None for kind in (_DIGEST, LIMITS, NODE))
            or any(whose == owner for whose, _ in self.store.periods().values())
            or self.store.count(Filter(owner=owner)) > 0
        )

    def has_others_commands(self, files: Sequence[Path]) -> bool:
        """With commands = "files": may tasks of these files say what the files did not, as somebody changed them?"""
        if permission_of(self.store).commands is Commands.ANYONE:
            return False
        return any(self.store.setting(_DIGEST + owner_of(file)) is None for file in files)

    def declare(self, owner: str, config: Config, who: str) -> Changed:
        """Make the tasks of this owner be what a program says, as `apply` does for a file."""
        return self.declare_together({owner: config}, who)

    def declare_together(self, configs: Mapping[str, Config], who: str) -> Changed:
        """The same for several owners, all of it or nothing."""
        with self._lock, without_collector():
            changed = self._apply(configs, who)
            # A file that is one of the owners is not what was applied last any more.
            self._put(dict.fromkeys(_DIGEST + owner for owner in configs))
            return changed

    def _apply(self, configs: Mapping[str, Config], who: str, files: Mapping[str, Path] | None = None) -> Changed:
        """Everything that can be refused is, before anything is changed."""
        created: dict[str, list[Task]] = {}
        changed: dict[str | None, list[tuple[Entry, Task]]] = {None: []}
        removed: dict[str, Entry] = {}
        unchanged, permission = 0, permission_of(self.store)
        for owner, config in configs.items():
            before = {entry.task.name: entry for entry in self.store.entries(Filter(owner=owner))}
            if permission.commands is Commands.FILES and owner not in (files or {}):
                if config.node is not None and config.node.pass_env is not None:
                    raise Forbidden('commands = "files": which variables commands get is said in files, by `pass_env`')
                for task in config.tasks:
                    old = before.get(task.name)
                    must_be_allowed(permission, owner, None if old is None else old.task, task)
            new = []
            for task in config.tasks:
                entry = before.pop(task.name, None)
                if entry is None:
                    new.append(task)
                    continue
                task_now = _as_before(task, entry)
                if task_now == entry.task:
                    unchanged += 1
                else:
                    changed[None].append((entry, task_now))
            created[owner] = new
            removed |= before
        self._must_fit(configs, {task.name for tasks in created.values() for task in tasks}, files or {})
        self._must_be_no_ids(task.name for tasks in created.values() for task in tasks)
        for owner, tasks in created.items() if removed else ():
            # A task that moves from one owner to another stays the same task.
            changed[owner] = [(removed[t.name], _as_before(t, removed[t.name])) for t in tasks if t.name in removed]
            created[owner] = [task for task in tasks if task.name not in removed]
            for entry, _ in changed[owner]:
                del removed[entry.task.name]
        with self._places.right():
            done = self._write(configs, created, changed, list(removed.values()), who)
        done.unchanged = unchanged
        if applied := applied_change(configs, done, self._now(), who):
            self.store.note([applied])
        said = {owner: config.node.max_concurrent for owner, config in configs.items() if config.node is not None}
        done.notices = [
            f"{entry.task.name}: {passed}"
            for entry in (*done.created, *done.changed)
            if entry.task.schedule.at is not None and (passed := past_at(entry.task, self._now()))
        ][:_TOLD]
        done.notices += not_in_force(
            {owner: most for owner, most in said.items() if most is not None},
            slots_of(self.store, self.command_line_slots),
        )
        return done

    def _write(
        self,
        configs: Mapping[str, Config],
        created: Mapping[str, list[Task]],
        changed: Mapping[str | None, list[tuple[Entry, Task]]],
        removed: list[Entry],
        who: str,
    ) -> Changed:
        """Step by step, so that a live node knows of each that was done: what tasks refer to is there before them.

        `changed` has the tasks that move under the owners that they get, and all others under None. For a live node
        each step is written in parts: between them its claims get into the store in time.
        """
        now, all_done = self._now(), Changed()
        if self._set_up(configs, now, who):
            all_done.settings = self._done(Changed(settings=True, settings_at=now)).settings
        for leaving in self._parts(removed):
            self.store.remove([entry.number for entry in leaving], now, who)
            self._places.free(leaving)
            all_done.removed += self._done(Changed(removed=leaving)).removed
        for new_owner, some in changed.items():
            for moved in self._parts(self._places.move(some)):
                entries = self.store.update(moved, now, who, owner=new_owner)
                all_done.changed += self._done(Changed(changed=entries)).changed
        for owner, tasks in created.items():
            for placed_ in self._parts(list(self._places.give(self._as_still_running(tasks)) if tasks else [])):
                entries = self.store.create(placed_, owner, now, who)
                all_done.created += self._done(Changed(created=entries)).created
        if self._clear_up(configs, [entry for some in changed.values() for entry, _ in some], now, who):
            all_done.settings = self._done(Changed(settings=True, settings_at=now)).settings
        return all_done

    def _parts(self, things: list[_Thing]) -> Iterator[list[_Thing]]:
        return (things[at : at + self.part] for at in range(0, len(things), self.part))

    def _must_fit(self, configs: Mapping[str, Config], new: Collection[str], files: Mapping[str, Path]) -> None:
        """Raise all that does not fit at once, with lines of files; `new`: names that these owners do not have yet."""
        known = known_beside(self.store, configs, new)
        found = findings(configs, known)
        gone_periods = self._periods().keys() - known.periods.keys()
        gone_limits = self.limits().keys() - known.limits.keys()
        for config in configs.values():
            gone_periods -= config.periods.keys()
            gone_limits -= config.limits.keys()
        if gone_periods or gone_limits:
            others = (entry for entry in self.store.entries() if entry.owner not in configs)
            for section, name, message in needed(others, gone_periods, gone_limits):
                owner = self._owner_of_setting(section, name, configs)
                found.append(Finding(owner, (section, name), message, is_conflict=True))
        if found:
            raise refusal(found, lambda owner: load_source(files[owner]) if owner in files else None)

    def _owner_of_setting(self, section: str, name: str, configs: Mapping[str, Config]) -> str:
        if section == "periods":
            return self.store.periods()[name][0]
        return next(owner for owner in configs if name in self._limits_of(owner))

    def _set_up(self, configs: Mapping[str, Config], now: Instant, who: str) -> bool:
        """What is new in periods, limits and settings; what goes stays until no task needs it."""
        different = False
        for owner, config in configs.items():
            known = {name: period for name, (_, period) in self.store.periods().items()}
            new = {name: period for name, period in config.periods.items() if known.get(name) != period}
            if new:
                self._set_periods(new, owner, now, who)
            limits = self._limits_of(owner) | config.limits
            different |= bool(new) | self._put(
                {LIMITS + owner: _packed(limits), NODE + owner: _packed(config.node)}, who
            )
        return different

    def _clear_up(self, configs: Mapping[str, Config], changed: Sequence[Entry], now: Instant, who: str) -> bool:
        different = False
        said = {name for config in configs.values() for name in config.periods}
        for owner, config in configs.items():
            gone = [name for name, (of, _) in self.store.periods().items() if of == owner and name not in said]
            if gone:
                self._set_periods(dict.fromkeys(gone), owner, now, who, changed)
            different |= bool(gone) | self._put({LIMITS + owner: _packed(config.limits)}, who)
        return different

    def _put(self, settings: dict[str, str | None], who: str = "") -> bool:
        before = {key: self.store.setting(key) for key in settings}
        different = before != settings
        if different:
            self.store.set_settings(settings)
            if noted := settings_changes(before, settings, self._now(), who):
                self.store.note(noted)
        return different

    # What is there

    def limits(self) -> dict[str, int]:
        """All limits that are declared, by name: what files say, or what was set at run time."""
        return {name: capacity.most for name, capacity in limits_of(self.store).items()}

    def _limits_of(self, owner: str) -> dict[str, int]:
        return msgspec.json.decode(self.store.setting(LIMITS + owner) or "{}", type=dict[str, int])

    def settings(self) -> NodeSettings:
        """What files say of the node; of two the later name counts."""
        found = NodeSettings()
        for owner in self._owners(NODE):
            said = msgspec.json.decode(self.store.setting(NODE + owner) or "{}", type=NodeSettings)
            found = replace(found, **{k: v for k, v in msgspec.structs.asdict(said).items() if v is not None})
        return found

    def _owners(self, kind: str) -> list[str]:
        return sorted(key.removeprefix(kind) for key in self.store.settings(kind))

    def _periods(self) -> dict[str, Period]:
        return {name: period for name, (_, period) in self.store.periods().items()}


def _as_before(task: Task, entry: Entry | None) -> Task:
    """What a file does not say stays as it was."""
    if entry is None:
        return task
    if task.paused is not entry.task.paused:
        task = replace(task, paused=entry.task.paused)
    return keep_phase(task, entry.task)


def _list(owners: Collection[str]) -> str | None:
    return msgspec.json.encode(sorted(owners)).decode() if owners else None


def _packed(said: dict[str, int] | NodeSettings | None) -> str | None:
    return msgspec.json.encode(said).decode() if said else None


def _digest(path: Path) -> str | None:
    """Of a file's content; None if it cannot be read, which reading it properly will tell better."""
    try:
        with path.open("rb") as file:
            digest = blake2b(digest_size=16)
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
