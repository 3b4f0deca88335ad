"""What an import of Nagios objects reports: every directive that has no counterpart, and why."""

from collections.abc import Sequence
from typing import Final

from evenbeat.load.importers.nagios_files import FILE_SETTINGS
from evenbeat.load.importers.nagios_objects import DirectiveValue, NagiosObject, NagiosObjects
from evenbeat.load.importers.report import ImportReport

_OF_ALL: Final = ("use", "name", "register")
_OF_CHECKS: Final = (
    *("host_name", "alias", "display_name", "address", "parents", "check_command", "check_interval"),
    *("normal_check_interval", "retry_interval", "retry_check_interval", "max_check_attempts", "check_period"),
    *("active_checks_enabled", "passive_checks_enabled", "check_freshness", "freshness_threshold", "contacts"),
    *("contact_groups", "notification_period", "notification_options", "notification_interval"),
    *("first_notification_delay", "notifications_enabled"),
)
_OF_ESCALATIONS: Final = (
    *("host_name", "hostgroup_name", "contacts", "contact_groups", "first_notification", "escalation_options"),
    "escalation_period",
)
_OF_DEPENDENCIES: Final = (
    *("host_name", "hostgroup_name", "dependent_host_name", "dependent_hostgroup_name"),
    *("execution_failure_criteria", "notification_failure_criteria", "inherits_parent"),
)
_CACHED: Final = ("execution_failure_options", "notification_failure_options")
"""The names that objects.cache has for them."""
_OF_DEPENDENT_SERVICES: Final = (
    *("service_description", "dependent_service_description", "servicegroup_name", "dependent_servicegroup_name"),
)
_CARRIED: Final = {
    "host": {*_OF_CHECKS, "hostgroups"},
    "service": {*_OF_CHECKS, "hostgroup_name", "service_description", "servicegroups"} - {"alias", "address"},
    "command": {"command_name", "command_line"},
    "hostgroup": {"hostgroup_name", "members", "hostgroup_members"},
    "servicegroup": {"servicegroup_name", "members", "servicegroup_members"},
    "contact": {
        *("contact_name", "alias", "email", "pager", "contactgroups", *(f"address{i}" for i in range(1, 7))),
        *(f"{kind}_notification{what}" for kind in ("host", "service") for what in ("_commands", "_options")),
        *(f"{kind}_notification{what}" for kind in ("host", "service") for what in ("_period", "s_enabled")),
    },
    "contactgroup": {"contactgroup_name", "members", "contactgroup_members"},
    "hostescalation": set(_OF_ESCALATIONS),
    "serviceescalation": {*_OF_ESCALATIONS, "service_description", "servicegroup_name"},
    "hostdependency": {*_OF_DEPENDENCIES, *_CACHED},
    "servicedependency": {*_OF_DEPENDENCIES, *_CACHED, *_OF_DEPENDENT_SERVICES},
}
"""The directives of each kind that the result depends on; a timeperiod has days as well, see `nagios_period`."""
_LOOKS: Final = "it is for the pages of Nagios only"
_ALWAYS: Final = "evenbeat always does"
_WHY: Final = {
    **dict.fromkeys(("notes", "notes_url", "action_url", "icon_image", "icon_image_alt", "statusmap_image"), _LOOKS),
    **dict.fromkeys(("vrml_image", "2d_coords", "3d_coords", "can_submit_commands"), _LOOKS),
    **dict.fromkeys(
        ("event_handler", "event_handler_enabled"),
        "no command runs when a state changes; a contact with a command runs it for problems and recoveries",
    ),
    **dict.fromkeys(
        ("flap_detection_enabled", "flap_detection_options", "low_flap_threshold", "high_flap_threshold"),
        "flapping is detected for all checks alike, above 30 % of changes until below 25 %",
    ),
    **dict.fromkeys(
        ("process_perf_data", "stalking_options"), f"keep every result and its performance data: {_ALWAYS}"
    ),
    **dict.fromkeys(
        ("retain_status_information", "retain_nonstatus_information"), f"keep states over a restart: {_ALWAYS}"
    ),
    **dict.fromkeys(("obsess", "obsess_over_host", "obsess_over_service"), "events are a stream of the API"),
    "is_volatile": "a problem is one problem until it is over; `repeat` reminds of it",
    "initial_state": "a check without a result is unchecked",
    "failure_prediction_enabled": "Nagios ignores it, too",
    "alias": "a group is a label, which has no other name",
    "last_notification": "an escalated contact is notified until the problem is over",
    "notification_interval": "the interval of its host or service counts",
    "dependency_period": "a dependency counts at any time",
}
_UNKNOWN: Final = "evenbeat has no counterpart"
_MACRO_SETTING: Final = "$USER"
_CARRIED_SETTINGS: Final = frozenset(
    {*FILE_SETTINGS, "interval_length", "host_check_timeout", "service_check_timeout"}
    | {"use_regexp_matching", "use_true_regexp_matching", "use_timezone"}
)


class NagiosReport(ImportReport):
    """A report about objects and directives of Nagios."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    def warn_of(self, about: NagiosObject | DirectiveValue | None, message: str) -> None:
        """Something of an object was carried over and is different now."""
        self.warn(about.file if about else self._file, about.place if about else None, message)

    def omit_of(self, about: NagiosObject | DirectiveValue | None, what: str, why: str) -> None:
        """Something of an object is not carried over."""
        self.omit(about.file if about else self._file, about.place if about else None, what, why)

    def _omit_all(self, some: Sequence[NagiosObject | DirectiveValue], what: str, why: str) -> None:
        """Something that several objects have is named once, with the places of all."""
        first, *others = some
        times = f" ({len(some)} times, here first)" if others else ""
        self.omit(first.file, first.place, what + times, why, [(one.file, one.place) for one in others])

    def omit_unused(self, objects: NagiosObjects) -> None:
        """Name every directive that has no counterpart, once for all objects of a kind, and every setting."""
        found: dict[tuple[str, str], list[DirectiveValue]] = {}
        kinds: dict[str, list[NagiosObject]] = {}
        for one in objects.defined:
            if one.kind == "timeperiod":
                continue
            if one.kind not in _CARRIED:
                kinds.setdefault(one.kind, []).append(one)
                continue
            for directive, value in one.values.items():
                is_custom = directive.startswith("_") and one.kind in ("host", "service")
                if directive not in _CARRIED[one.kind] and directive not in _OF_ALL and not is_custom:
                    found.setdefault((one.kind, directive), []).append(value)
        for (kind, directive), values in found.items():
            self._omit_all(values, f"{directive} of a {kind}", _WHY.get(directive, _UNKNOWN))
        for kind, some in kinds.items():
            self._omit_all(some, f"define {kind}", _LOOKS if kind.endswith("extinfo") else _UNKNOWN)
        for one in objects.defined:
            if (
                one.get("register") == "0"
                and one.get("name")
                and (one.kind, one.get("name")) not in objects.used_templates
            ):
                self.omit_of(one, f"the {one.kind} template {one.get('name')!r}", "nothing uses it")
        for name, value in objects.settings.items():
            if name not in _CARRIED_SETTINGS and not name.startswith(_MACRO_SETTING):
                self.omit_of(value, f"the setting {name}", "it is about the program Nagios itself")
