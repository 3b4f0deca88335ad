"""Converts Nagios contacts, and what hosts, services and escalations say of whom to notify.

Where a host or service narrows down what a contact gets, the contact has a variant of its own for that.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from evenbeat.load.contacts import address_error
from evenbeat.load.importers.contact_tables import ALL_STATES, ContactTables
from evenbeat.load.importers.nagios_check_command import CheckCommands
from evenbeat.load.importers.nagios_command import command_words, for_hosts_and_services, shell_line
from evenbeat.load.importers.nagios_groups import NagiosGroups
from evenbeat.load.importers.nagios_objects import NagiosObject, NagiosObjects
from evenbeat.load.importers.nagios_report import NagiosReport
from evenbeat.model import DAY, MAX_EVERY, MINUTE, NOTIFY_LIMIT, SECOND, Instant, Period
from evenbeat.when.duration import format_duration
from evenbeat.when.period import compile_periods

_OF_NOTIFICATIONS: Final = (
    *("contacts", "contact_groups", "notification_period", "notification_options", "notification_interval"),
    "first_notification_delay",
)
_INHERITED_FROM_HOST: Final = ("notification_period", "notification_interval")
_STATE_OF_OPTION: Final = {"w": "warning", "u": "unknown", "c": "critical"}
_NOBODY: Final = frozenset[str]()
_A_YEAR: Final = (Instant(1_735_689_600 * SECOND), Instant(1_735_689_600 * SECOND + 366 * DAY))
_OWN_MACROS: Final = {
    "CONTACTNAME": "contact_name",
    "CONTACTALIAS": "alias",
    "CONTACTEMAIL": "email",
    "CONTACTPAGER": "pager",
    **{f"CONTACTADDRESS{i}": f"address{i}" for i in range(1, 7)},
}
"""Macros of a contact, and the directives that they stand for."""
_OF_CONTACTS: Final = tuple(directive for directive in _OWN_MACROS.values() if directive != "contact_name")


class NagiosContacts:
    """All contacts of some files; those that are notified become tables."""

    def __init__(
        self,
        objects: NagiosObjects,
        named: Callable[[str], dict[str, NagiosObject]],
        lines: Mapping[str, str],
        commands: CheckCommands,
        unit: float,
        groups: NagiosGroups,
        report: NagiosReport,
    ) -> None:
        """`named` returns the objects of a kind by their names, `lines` has those of commands; `unit` is
        `interval_length`.
        """
        self.used_commands: set[str] = set()
        """The commands that contacts name."""
        self._report = report
        self._unit = unit
        self._contacts = named("contact")
        self._contactgroups = named("contactgroup")
        self._lines_of = lines
        self._commands = commands
        self._groups = groups
        self._members = _members(self._contacts, self._contactgroups)
        self._timeperiods: Collection[str] = ()
        self._escalations = {kind: objects.nameless(f"{kind}escalation") for kind in ("host", "service")}
        self._found_escalations: dict[str, dict[tuple[str, str], list[NagiosObject]]] = {}
        """By kind, the escalations of each host and service."""
        self._periods: Mapping[str, Period] = {}
        self._always: frozenset[str] = frozenset()
        self._places: dict[str, dict[str, Any]] = {}
        self._used: set[str] = set()
        self._variants = ContactTables()

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables of `[contacts]`."""
        return self._variants.tables

    def use_periods(self, periods: Mapping[str, Period], timeperiods: Collection[str]) -> None:
        """These periods are imported, of these that there are."""
        self._periods, self._timeperiods = periods, timeperiods
        compiled = compile_periods(dict(periods)) if self._contacts else {}
        self._always = frozenset(n for n, period in compiled.items() if period.windows(*_A_YEAR) == [_A_YEAR])

    def keys_for(self, kind: str, one: NagiosObject, host: NagiosObject, description: str) -> dict[str, Any]:
        """`notify` and `repeat` of the check of a host, or of a service on it."""
        for said in (one, host):
            if said.get("notifications_enabled", "1") == "0":
                self._report.warn_of(
                    said.values["notifications_enabled"],
                    f"notifications of this {said.kind} are off: nobody is notified",
                )
                return {}
        said = one if kind == "host" else _with_inherited(one, host)
        interval, delay = self._length(said, "notification_interval"), self._length(said, "first_notification_delay")
        found = [(self._variant(kind, name, said, ""), delay) for name in self._named_in(said)]
        for escalation in self._escalations_of(kind, host.get("host_name"), description):
            found += self._escalated_to(kind, escalation, said, delay, interval)
        notify: dict[str, int] = {}
        for name, after in found:
            if name:
                notify[name] = min(after, notify.get(name, after))
        if len(notify) > NOTIFY_LIMIT:
            what = f"contacts {', '.join([*notify][NOTIFY_LIMIT:])}"
            self._report.omit_of(one, what, f"{len(notify)} of them, accepted: at most {NOTIFY_LIMIT}")
        if not notify:
            self._omit_all_of(said, "nobody is notified")
            return {}
        listed = [
            name if not after else {"to": name, "after": format_duration(after)} for name, after in notify.items()
        ]
        repeat = {"repeat": format_duration(max(interval, MINUTE))} if interval else {}
        return {"notify": listed[:NOTIFY_LIMIT], **repeat}

    def _omit_all_of(self, said: NagiosObject, why: str) -> None:
        for directive in _OF_NOTIFICATIONS:
            if directive in said.values:
                self._report.omit_of(said.values[directive], directive, why)

    def warn_of_differences(self) -> None:
        """What contacts do differently here, and which of them are not carried over."""
        if self.tables:
            self._report.warn_of(
                None,
                "contacts: who was sent a problem is sent its recovery too (option r); flapping and scheduled downtime "
                "(f, s) are not sent; escalated contacts are notified beside the others, until the problem is over",
            )
        for name, contact in self._contacts.items():
            if name not in self._used:
                self._report.omit_of(contact, f"contact {name!r}", "nothing here notifies it")
        for name, group in self._contactgroups.items():
            if not self._used & set(self._members[name]):
                self._report.omit_of(group, f"contactgroup {name!r}", "nothing here notifies one of it")
            for member in group.words("members"):
                if member not in self._contacts:
                    self._report.omit_of(
                        group.values["members"], f"{member} in contactgroup {name!r}", "there is no such contact here"
                    )

    # Who

    def _named_in(self, said: NagiosObject) -> list[str]:
        """The names of contacts, those in groups too."""
        names = dict.fromkeys(said.words("contacts"))
        for name in list(names):
            if name not in self._contacts:
                self._report.omit_of(said.values["contacts"], f"contact {name!r}", "there is no such contact here")
        for group in said.words("contact_groups"):
            if group not in self._members:
                self._report.omit_of(
                    said.values["contact_groups"], f"contactgroup {group!r}", "there is none of that name here"
                )
            names |= dict.fromkeys(self._members.get(group, ()))
        return [name for name in names if name in self._contacts]

    def _escalations_of(self, kind: str, host: str, description: str) -> list[NagiosObject]:
        if kind not in self._found_escalations:
            self._found_escalations[kind] = self._find_escalations(kind)
        found = self._found_escalations[kind]
        return [*found.get((host, description), ()), *(found.get((host, "*"), ()) if description else ())]

    def _find_escalations(self, kind: str) -> dict[tuple[str, str], list[NagiosObject]]:
        found: dict[tuple[str, str], list[NagiosObject]] = {}
        for one in self._escalations[kind]:
            services = one.words("service_description") if kind == "service" else [""]
            about = [(host, service) for host in self._groups.hosts_named(one) for service in services]
            about += self._groups.services_in(one, "servicegroup_name") if kind == "service" else []
            for key in dict.fromkeys(about):
                found.setdefault(key, []).append(one)
            if not about:
                self._report.omit_of(one, f"a {one.kind}", "it names no host or service here")
        return found

    def _escalated_to(
        self, kind: str, escalation: NagiosObject, said: NagiosObject, delay: int, interval: int
    ) -> Iterator[tuple[str, int]]:
        first = int(_number(escalation.get("first_notification")) or 1)
        if first > 1 and not interval:
            why = "it begins with the second notification or a later one, where there is only one"
            self._report.omit_of(escalation, f"a {escalation.kind}", why)
            return
        if escalation.get("escalation_period", "24x7") not in self._always | {"24x7"}:
            self._report.omit_of(
                escalation.values["escalation_period"], "escalation_period", "the escalation counts at any time"
            )
        after = min(delay + (first - 1) * interval, MAX_EVERY)
        for name in self._named_in(escalation):
            yield self._variant(kind, name, said, escalation.get("escalation_options")), after

    # What of it

    def _variant(self, kind: str, name: str, said: NagiosObject, escalation_options: str) -> str:
        """The name of the contact that gets this; empty if it gets nothing."""
        contact = self._contacts[name]
        states = self._states(kind, contact, said) & _states(kind, escalation_options)
        period = self._period(kind, contact, said)
        if not states or period == "" or not self._place_keys(name):
            return ""
        self._used.add(name)
        own = (self._states("service", contact, None), self._period("service", contact, None))
        return self._variants.variant(name, self._place_keys(name), states, period, is_plain=own == (states, period))

    def _states(self, kind: str, contact: NagiosObject, said: NagiosObject | None) -> frozenset[str]:
        if contact.get(f"{kind}_notifications_enabled", "1") == "0":
            return _NOBODY
        own = _states(kind, contact.get(f"{kind}_notification_options"))
        return own if said is None else own & _states(kind, said.get("notification_options"))

    def _period(self, kind: str, contact: NagiosObject, said: NagiosObject | None) -> str | None:
        """The period of the messages; None for always, empty for never."""
        names = [contact.get(f"{kind}_notification_period")]
        names += [] if said is None else [said.get("notification_period")]
        found = dict.fromkeys(name for name in names if name and name not in self._always)
        for name in list(found):
            if name in self._periods:
                continue
            if name in self._timeperiods:
                return ""  # it could not be imported, as it is never open
            self._report.omit_of(said or contact, f"notification_period {name}", "there is no such period here")
            del found[name]
        if len(found) > 1:
            what = f"notification_period {', '.join([*found][1:])} of messages to {contact.get('contact_name')!r}"
            self._report.omit_of(said or contact, what, f"they wait for one period, which is {next(iter(found))!r}")
        return next(iter(found), None)

    # Where to

    def _place_keys(self, name: str) -> dict[str, Any]:
        """`email` and `command` of a contact; empty if it has no place, which is said once."""
        if name not in self._places:
            self._places[name] = self._places_of(self._contacts[name])
        return self._places[name]

    def _places_of(self, contact: NagiosObject) -> dict[str, Any]:
        what = f"contact {contact.get('contact_name')!r}"
        lines = {kind: list(self._lines(contact, kind)) for kind in ("host", "service")}
        mails = not any(lines.values()) or any("$CONTACTEMAIL$" in line for some in lines.values() for line in some)
        keys: dict[str, Any] = {}
        used: set[str] = set()
        address = contact.get("email")
        if address and mails:
            used.add("email")
            address = address if "@" in address else f"{address}@localhost"
            if problem := address_error(address):
                self._report.omit_of(contact.values["email"], f"email of {what}", problem)
            else:
                keys["email"] = [address]
        others = {kind: [line for line in some if "$CONTACTEMAIL$" not in line] for kind, some in lines.items()}
        for line in dict.fromkeys(line for some in others.values() for line in some[1:]):
            self._report.omit_of(contact, f"of {what} the command {line}", "a contact has one, which is the first")
        firsts = {kind: next(iter(some), "") for kind, some in others.items()}
        if any(firsts.values()):
            keys["command"] = self._command(contact, firsts["host"], firsts["service"])
        if not keys:
            self._report.omit_of(contact, what, "it has neither an address nor a command that is carried over")
        used |= {directive for macro, directive in _OWN_MACROS.items() if f"${macro}$" in "".join(firsts.values())}
        for directive in _OF_CONTACTS:
            if directive in contact.values and directive not in used:
                why = "a contact has no other name" if directive == "alias" else "no command of the contact uses it"
                self._report.omit_of(contact.values[directive], f"{directive} of {what}", why)
        return keys

    def _lines(self, contact: NagiosObject, kind: str) -> Iterator[str]:
        """The command lines for problems of hosts or services, with their arguments."""
        directive = f"{kind}_notification_commands"
        for named in contact.words(directive):
            name, *arguments = named.split("!")
            if name not in self._lines_of:
                why = "it is not defined in these files"
                self._report.omit_of(contact.values[directive], f"the command {name!r}", why)
                continue
            self.used_commands.add(name)
            line = self._lines_of[name]
            for i in range(32, 0, -1):
                line = line.replace(f"$ARG{i}$", arguments[i - 1] if i <= len(arguments) else "")
            if "$CONTACTEMAIL$" in line:
                what = f"how the command {name!r} words its mails"
                self._report.omit_of(contact.values[directive], what, "mails to $CONTACTEMAIL$ are evenbeat's own")
            yield line

    def _command(self, contact: NagiosObject, for_hosts: str, for_services: str) -> list[str]:
        values = self._commands.macros_of_contacts()
        values |= {macro: contact.get(directive) for macro, directive in _OWN_MACROS.items()}
        hosts, services = shell_line(for_hosts, values), shell_line(for_services, values)
        if unknown := list(dict.fromkeys((*hosts.unknown, *services.unknown))):
            name = contact.get("contact_name")
            self._report.warn_of(contact, f"contact {name!r}: in its command {', '.join(unknown)} will be empty")
        line = for_hosts_and_services(hosts.text, services.text)
        return command_words(self._commands.with_secrets_read(line))

    def _length(self, said: NagiosObject, directive: str) -> int:
        return min(int((_number(said.get(directive)) or 0) * self._unit * SECOND), MAX_EVERY)


def _members(contacts: Mapping[str, NagiosObject], groups: Mapping[str, NagiosObject]) -> dict[str, list[str]]:
    """The contacts in each group, those of the groups in it too."""
    found = {name: dict.fromkeys(group.words("members")) for name, group in groups.items()}
    for name, contact in contacts.items():
        for group_name in contact.words("contactgroups"):
            found.setdefault(group_name, {})[name] = None
    for _ in groups:  # as many rounds as groups reach the deepest, and a circle ends too
        for name, group in groups.items():
            for inner in group.words("contactgroup_members"):
                found[name] |= found.get(inner, {})
    return {name: list(members) for name, members in found.items()}


def _with_inherited(service: NagiosObject, host: NagiosObject) -> NagiosObject:
    """A service with what it takes from its host in silence: contacts if it has none, interval and period."""
    taken: list[str] = [key for key in _INHERITED_FROM_HOST if key not in service.values and key in host.values]
    if not {"contacts", "contact_groups"} & service.values.keys():
        taken += [key for key in ("contacts", "contact_groups") if key in host.values]
    return service._replace(values=service.values | {key: host.values[key] for key in taken}) if taken else service


def _states(kind: str, options: str) -> frozenset[str]:
    """The states that options select: of a host that is down all that its check has."""
    if not options:
        return ALL_STATES
    letters = {word.strip()[:1].lower() for word in options.split(",")}
    if kind == "host":
        return ALL_STATES if letters & {"d", "a"} else _NOBODY
    return ALL_STATES if "a" in letters else frozenset(_STATE_OF_OPTION[o] for o in letters if o in _STATE_OF_OPTION)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
