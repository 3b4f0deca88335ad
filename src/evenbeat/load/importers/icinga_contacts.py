"""Converts users, groups and notifications of Icinga 2 to contacts, `notify` and `repeat`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from evenbeat.load.contacts import address_error
from evenbeat.load.importers.contact_tables import ALL_STATES, ContactTables
from evenbeat.load.importers.icinga_notification_command import CommandOfContacts
from evenbeat.load.importers.icinga_objects import IcingaObject
from evenbeat.load.importers.icinga_report import IcingaReport
from evenbeat.load.importers.secret_values import SecretFiles
from evenbeat.model import DAY, MAX_EVERY, MINUTE, NOTIFY_LIMIT, SECOND, Instant, Period
from evenbeat.when.duration import format_duration
from evenbeat.when.period import compile_periods

_STATE_OF: Final = {"Warning": "warning", "Critical": "critical", "Unknown": "unknown"}
_ADDRESSES: Final = ("email", "pager")
_SENT: Final = frozenset(("Problem", "Recovery", "Acknowledgement", "Custom"))
_A_YEAR: Final = (Instant(1_735_689_600 * SECOND), Instant(1_735_689_600 * SECOND + 366 * DAY))


class IcingaContacts:
    """All users of a dump; those that are notified become tables."""

    def __init__(
        self,
        by_kind: Mapping[str, Mapping[str, IcingaObject]],
        periods: Mapping[str, Period],
        secrets: SecretFiles,
        report: IcingaReport,
    ) -> None:
        self._report = report
        self._users = by_kind.get("User", {})
        self._groups = by_kind.get("UserGroup", {})
        self._commands = by_kind.get("NotificationCommand", {})
        self._members = self._members_of_groups()
        self._timeperiods = by_kind.get("TimePeriod", {})
        self._periods = periods
        compiled = compile_periods(dict(periods)) if self._users else {}
        self._always = frozenset(n for n, period in compiled.items() if period.windows(*_A_YEAR) == [_A_YEAR])
        self._command_of = CommandOfContacts(secrets, report)
        self._variants = ContactTables()
        self._used: dict[str, set[str]] = {}
        """The users that are notified, and by which commands."""
        self._used_commands: set[str] = set()
        self._used_groups: set[str] = set()
        self._notifications: dict[tuple[str, str], list[IcingaObject]] = {}
        for one in by_kind.get("Notification", {}).values():
            self._notifications.setdefault((one.text("host_name"), one.text("service_name")), []).append(one)

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables of `[contacts]`."""
        return self._variants.tables

    def keys_for(self, one: IcingaObject, host: str, service: str) -> dict[str, Any]:
        """`notify` and `repeat` of the check of a host, or of a service on it."""
        notifications = self._notifications.pop((host, service), [])
        if notifications and not one.flag("enable_notifications", default=True):
            self._report.warn_of(one, f"notifications of {one.name!r} are off: nobody is notified")
            return {}
        notify: dict[str, int] = {}
        intervals = []
        for notification in notifications:
            found = [name for name in self._notified(notification, is_host=not service) if name]
            after = min(int(_seconds(notification.table("times").get("begin")) * SECOND), MAX_EVERY)
            for name in found:
                notify[name] = min(after, notify.get(name, after))
            interval = min(int(notification.number("interval", 1800) * SECOND), MAX_EVERY)
            intervals += [interval] if found else []
            if "end" in notification.table("times"):
                self._report.omit_of(notification, "times.end", "a contact is notified until the problem is over")
        if len(notify) > NOTIFY_LIMIT:
            what = f"contacts {', '.join([*notify][NOTIFY_LIMIT:])}"
            self._report.omit_of(one, what, f"{len(notify)} of them, accepted: at most {NOTIFY_LIMIT}")
        if not notify:
            return {}
        repeats = [interval for interval in intervals if interval]
        if len(set(intervals)) > 1:
            message = f"{one.name!r}: all of its contacts are reminded every {format_duration(min(repeats))}"
            self._report.warn_of(one, message)
        listed = [
            name if not after else {"to": name, "after": format_duration(after)} for name, after in notify.items()
        ]
        repeat = {"repeat": format_duration(max(min(repeats), MINUTE))} if repeats else {}
        return {"notify": listed[:NOTIFY_LIMIT], **repeat}

    def report_unused(self) -> None:
        """Users, groups, commands and notifications that nothing uses."""
        for some in self._notifications.values():
            for one in some:
                self._report.omit_of(one, f"notification {one.name!r}", "no such check is carried over")
        for name, commands in self._used.items():
            for attribute in _ADDRESSES:
                is_used = any(self._command_of.uses(self._commands[command], attribute) for command in commands)
                if self._users[name].text(attribute) and not is_used:
                    what = f"{attribute} of user {name!r}"
                    self._report.omit_of(self._users[name], what, "no command that notifies it has it")
        for what, objects, used in (
            ("user", self._users, set(self._used)),
            ("user group", self._groups, self._used_groups),
            ("notification command", self._commands, self._used_commands),
        ):
            for name, one in objects.items():
                if name not in used:
                    self._report.omit_of(one, f"{what} {name!r}", "nothing that is carried over uses it")

    # Who

    def _members_of_groups(self) -> dict[str, dict[str, None]]:
        """The users in each group; a group that is in others passes its users on."""
        found: dict[str, dict[str, None]] = {name: {} for name in self._groups}
        for name, user in self._users.items():
            for group_name in user.words("groups"):
                found.setdefault(group_name, {})[name] = None
        changed = any(group.words("groups") for group in self._groups.values())
        while changed:
            changed = False
            for name, group in self._groups.items():
                for outer in group.words("groups"):
                    before = len(found.setdefault(outer, {}))
                    found[outer].update(found[name])
                    changed |= len(found[outer]) > before
        return found

    def _notified(self, notification: IcingaObject, *, is_host: bool) -> Iterator[str]:
        if not _is_meant(notification, "Problem"):
            why = "it is not about problems, and other messages go to those who are sent a problem"
            self._report.omit_of(notification, f"notification {notification.name!r}", why)
            return
        if more := [one for one in notification.words("types") if one not in _SENT]:
            what = f"types {', '.join(more)} of notification {notification.text('name')!r}"
            self._report.omit_of(notification, what, "flapping and downtime are not sent")
        if not _is_meant(notification, "Recovery"):
            message = f"notification {notification.name!r}: who was sent a problem is sent its recovery too"
            self._report.warn_of(notification, message)
        names = dict.fromkeys(notification.words("users"))
        for group in notification.words("user_groups"):
            if group in self._groups:
                self._used_groups.add(group)
            elif group not in self._members:
                self._report.omit_of(notification, f"user group {group!r}", "there is none of that name here")
            names |= self._members.get(group, {})
        for name in names:
            if name not in self._users:
                self._report.omit_of(notification, f"user {name!r}", "there is none of that name here")
            elif contact := self._variant(notification, self._users[name], is_host=is_host):
                self._used.setdefault(name, set()).add(notification.text("command"))
                yield contact

    def _variant(self, notification: IcingaObject, user: IcingaObject, *, is_host: bool) -> str:
        """The name of the contact that gets this; empty if it gets nothing."""
        if not user.flag("enable_notifications", default=True) or not _is_meant(user, "Problem"):
            self._report.omit_of(user, f"user {user.name!r}", "no problems are sent to it")
            return ""
        states = _states(notification, is_host=is_host) & _states(user, is_host=is_host)
        period = self._period(notification, user)
        if not states or period == "":
            return ""
        places = self._places(notification, user)
        if not places:
            return ""
        own = (_states(user, is_host=False), self._period(None, user))
        is_plain = own == (states, period)
        return self._variants.variant(
            user.name, places, states, period, is_plain=is_plain, way=notification.text("command")
        )

    def _period(self, notification: IcingaObject | None, user: IcingaObject) -> str | None:
        """The period of the messages; None for always, empty for never."""
        about = notification or user
        names = [user.text("period"), *([notification.text("period")] if notification else [])]
        found = dict.fromkeys(name for name in names if name and name not in self._always)
        for name in list(found):
            if name in self._periods:
                continue
            if name in self._timeperiods:
                return ""  # it could not be imported, as it is never open
            self._report.omit_of(about, f"period {name!r}", "there is no such period here")
            del found[name]
        if len(found) > 1:
            what = f"period {[*found][1]!r} of messages to {user.name!r}"
            self._report.omit_of(about, what, f"they wait for one period, which is {next(iter(found))!r}")
        return next(iter(found), None)

    # Where to

    def _places(self, notification: IcingaObject, user: IcingaObject) -> dict[str, Any]:
        name = notification.text("command")
        command = self._commands.get(name)
        if command is None:
            self._report.omit_of(notification, f"the command {name!r}", "it is not in these files")
            return {}
        self._used_commands.add(name)
        if not self._command_of.mails(command):
            return {"command": self._command_of.words(command, notification, user)}
        address = user.text("email")
        if not address:
            self._report.omit_of(user, f"mails to user {user.name!r}", "it has no address")
            return {}
        address = address if "@" in address else f"{address}@localhost"
        if problem := address_error(address):
            self._report.omit_of(user, f"email of user {user.name!r}", problem)
            return {}
        self._report.omit_of(
            command, f"how the command {name!r} words its mails", "mails to $user.email$ are evenbeat's own"
        )
        return {"email": [address]}


def _seconds(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e9 else 0


def _is_meant(one: IcingaObject, type_: str) -> bool:
    types = one.attributes.get("types")
    return not isinstance(types, list) or type_ in types


def _states(one: IcingaObject, *, is_host: bool) -> frozenset[str]:
    """The states that are selected: of a host that is down all that its check has."""
    states = one.attributes.get("states")
    if not isinstance(states, list):
        return ALL_STATES
    if is_host:
        return ALL_STATES if "Down" in states else frozenset()
    return frozenset(_STATE_OF[state] for state in states if isinstance(state, str) and state in _STATE_OF)
