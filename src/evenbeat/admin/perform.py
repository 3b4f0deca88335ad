"""Performs change requests: one function call of TaskAdmin for each kind of request."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from evenbeat.admin.command_permission import refuse_forged_owner
from evenbeat.admin.contact_changes import change_contacts
from evenbeat.admin.downtimes import change_downtimes
from evenbeat.admin.page_sessions import end_session, start_session
from evenbeat.admin.sign_in_links import create_sign_in_link, use_sign_in_link
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tasks_of_files import owning_files
from evenbeat.admin.tokens import add_token, remove_token
from evenbeat.model import Entry
from evenbeat.wire.replies import AffectedTasks, ChangeResult, Names, Reply
from evenbeat.wire.requests import (
    MAX_NAMES_IN_REPLY,
    AddDowntime,
    AddTasks,
    AddToken,
    ApplyConfigs,
    ApplyFiles,
    ChangeRequest,
    CreateSignInLink,
    EndDowntime,
    EndPageSession,
    PauseTasks,
    RecordSignIn,
    RemoveContact,
    RemovePeriod,
    RemoveTasks,
    RemoveToken,
    SetContact,
    SetLimit,
    SetPeriods,
    SetSlots,
    SetTask,
    SignInRequest,
    StartPageSession,
    UseSignInLink,
)

_SettingsChange = (
    SetPeriods | RemovePeriod | SetContact | RemoveContact | AddDowntime | EndDowntime | SetSlots | SetLimit
)


def perform_change(admin: TaskAdmin, change: ChangeRequest, files: Sequence[Path] = ()) -> ChangeResult:
    """Make a change; `files` are the node's own, for an `ApplyFiles` that names none."""
    refuse_forged_owner(*_owners_in(change))
    match change:
        case AddTasks(tasks, owner, who, scope):
            return admin.add(tasks, owner, who, scope)
        case SetTask(name, task, who, version):
            return admin.set(name, task, who, version)
        case RemoveTasks(only, who):
            return admin.remove(only, who)
        case PauseTasks(only, paused, who, until=until, reason=reason):
            return admin.pause(only, who, paused=paused, until=until, reason=reason)
        case AddToken(id_, token, who):
            add_token(admin, id_, token, who)
            return ChangeResult()
        case RemoveToken(name, who):
            remove_token(admin, name, who)
            return ChangeResult()
        case ApplyFiles(named, who, anew):
            return admin.apply([Path(file) for file in named] or files, who, anew=anew)
        case ApplyConfigs(configs, who):
            return admin.apply_configs(configs, who)
    return _perform_settings_change(admin, change)


def _perform_settings_change(admin: TaskAdmin, change: _SettingsChange) -> ChangeResult:
    """Change what tasks refer to, or how many run at the same time."""
    match change:
        case SetPeriods(periods, who, owner):
            return admin.set_periods(periods, owner, who)
        case RemovePeriod(name, who):
            return admin.remove_period(name, who)
        case SetContact() | RemoveContact():
            return change_contacts(admin, change)
        case AddDowntime() | EndDowntime():
            return change_downtimes(admin, change)
        case SetSlots(most, who):
            return admin.set_slots(most, who)
        case SetLimit(name, most, who):
            return admin.set_limit(name, most, who)


def _owners_in(change: ChangeRequest) -> Iterable[str]:
    """The owners that the caller names for new tasks, periods or contacts."""
    match change:
        case AddTasks(owner=owner) | SetPeriods(owner=owner) | SetContact(owner=owner):
            return (owner,)
        case ApplyConfigs(configs):
            return configs
    return ()


def reply_to_change(change: ChangeRequest, changed: ChangeResult) -> Reply:
    """The reply to a change, with as many task names as the request asks for."""
    match change:
        case RemoveTasks(briefly=True, named=named) | PauseTasks(briefly=True, named=named):
            return Reply(touched=affected_tasks(changed.changed + changed.removed, changed.unchanged, named))
        case ApplyConfigs():
            new, other, gone = (_names_of(some) for some in (changed.created, changed.changed, changed.removed))
            names = Names(new, other, gone, changed.unchanged, changed.settings, notices=changed.notices)
            return Reply(names=names)
    return Reply(changed=changed)


def affected_tasks(entries: Sequence[Entry], unchanged: int = 0, named: int = MAX_NAMES_IN_REPLY) -> AffectedTasks:
    """How many tasks an action affected, and the names of the first `named` of them."""
    return AffectedTasks(len(entries), _names_of(entries[:named]), unchanged, owning_files(entries))


def _names_of(entries: Sequence[Entry]) -> list[str]:
    return [entry.task.name for entry in entries]


def perform_sign_in(admin: TaskAdmin, request: SignInRequest, page: str) -> Reply:
    """Make or use a sign-in link; begin or end a session. `page` is the URL that a link opens."""
    match request:
        case CreateSignInLink(digest, who, name):
            return Reply(link=create_sign_in_link(admin, digest, name, who, page))
        case UseSignInLink(digest, who):
            return Reply(token=use_sign_in_link(admin, digest, who))
        case RecordSignIn(name, who):
            admin.audit(f"token {name}", "signed in", who)
        case StartPageSession(digest, token, life):
            start_session(admin, digest, token, life)
        case EndPageSession(digest):
            end_session(admin, digest)
    return Reply()
