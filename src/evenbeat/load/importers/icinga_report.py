"""What an import of Icinga 2's objects reports: every attribute that says something and has no counterpart, and why."""

from collections.abc import Iterable
from typing import Any, Final

from evenbeat.load.importers.icinga_objects import IcingaObject, as_text
from evenbeat.load.importers.report import ImportReport
from evenbeat.load.importers.secret_values import sounds_secret

_OF_ALL: Final = frozenset(
    (
        *("__name", "name", "type", "package", "templates", "source_location", "zone", "original_attributes"),
        *("version", "ha_mode", "active", "paused", "extensions"),
    )
)
"""What Icinga notes of every object: where it stands, and what it was made of."""
_OF_CHECKS: Final = (
    *("address", "address6", "check_command", "check_interval", "check_period", "check_timeout", "command_endpoint"),
    *("display_name", "enable_active_checks", "enable_notifications", "enable_passive_checks", "groups", "host_name"),
    *("max_check_attempts", "retry_interval", "vars"),
)
_OF_COMMANDS: Final = ("arguments", "command", "env", "execute", "timeout", "vars")
_OF_DOWNTIMES: Final = ("author", "comment", "fixed", "host_name", "service_name")
_CARRIED: Final = {
    "Host": _OF_CHECKS,
    "Service": _OF_CHECKS,
    "CheckCommand": _OF_COMMANDS,
    "NotificationCommand": _OF_COMMANDS,
    "TimePeriod": ("excludes", "includes", "prefer_includes", "ranges", "update"),
    "User": ("email", "enable_notifications", "groups", "pager", "period", "states", "types", "vars"),
    "UserGroup": ("groups",),
    "HostGroup": ("groups",),
    "ServiceGroup": ("groups",),
    "Notification": (
        *("command", "host_name", "service_name", "interval", "period", "states", "times", "types"),
        *("user_groups", "users"),
    ),
    "Dependency": (
        *("child_host_name", "child_service_name", "parent_host_name", "parent_service_name", "disable_checks"),
        *("disable_notifications", "redundancy_group", "states"),
    ),
    "Downtime": (*_OF_DOWNTIMES, "start_time", "end_time", "config_owner", "scheduled_by"),
    "ScheduledDowntime": (*_OF_DOWNTIMES, "child_options", "ranges"),
    "Zone": ("endpoints", "parent", "global", "all_parents"),
    "Endpoint": (),
}
"""The attributes of each kind that the result depends on. Objects of all other kinds are about the program itself."""
_RUNTIME: Final = frozenset(
    (
        *("acknowledgement", "acknowledgement_expiry", "acknowledgement_last_change", "check_attempt"),
        *("downtime_depth", "executions", "flapping", "flapping_buffer", "flapping_current", "flapping_index"),
        *("flapping_last_change", "flapping_last_state", "force_next_check", "force_next_notification", "handled"),
        *("last_check", "last_check_result", "last_check_started", "last_hard_state", "last_hard_state_change"),
        *("last_hard_states_raw", "last_notification", "last_problem_notification", "last_reachable", "last_state"),
        *("last_soft_states_raw", "last_state_change", "last_state_critical", "last_state_down", "last_state_ok"),
        *("last_state_raw", "last_state_type", "last_state_unbound", "last_state_unknown", "last_state_unreachable"),
        *("last_state_up", "last_state_warning", "next_check", "next_notification", "next_update"),
        *("no_more_notifications", "notification_number", "notified_problem_users", "previous_state_change"),
        *("problem", "severity", "state", "state_raw", "state_type", "suppressed_notifications"),
        *("is_inside", "segments", "valid_begin", "valid_end", "bytes_received_per_second", "bytes_sent_per_second"),
        *("capabilities", "connected", "connecting", "icinga_version", "last_message_received", "last_message_sent"),
        *("local_log_position", "messages_received_per_second", "messages_sent_per_second", "remote_log_position"),
        *("syncing", "authoritative_zone", "config_owner_hash", "duration", "entry_time", "legacy_id", "parent"),
        *("remove_time", "trigger_time", "triggered_by", "triggers", "was_cancelled", "seconds_processing_messages"),
        *("seconds_reading_messages", "seconds_awaiting_semaphore", "pending_outgoing_messages"),
    )
)
"""What the API knows of objects beside what defines them."""
_DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    "volatile": (False,),
    "enable_event_handler": (True,),
    "enable_perfdata": (True,),
    "enable_flapping": (False,),
    "flapping_threshold": (0,),
    "flapping_threshold_high": (30,),
    "flapping_threshold_low": (25,),
    "ignore_soft_states": (True,),
    "log_duration": (86400,),
    "port": ("5665",),
}
_LOOKS: Final = "it is for the pages of Icinga only"
_FLAPPING: Final = "flapping is detected for all checks alike, above 30 % of changes until below 25 %"
_WHY: Final = {
    **dict.fromkeys(("notes", "notes_url", "action_url", "icon_image", "icon_image_alt"), _LOOKS),
    **dict.fromkeys(
        ("enable_flapping", "flapping_threshold_high", "flapping_threshold_low", "flapping_ignore_states"), _FLAPPING
    ),
    "event_command": "no command runs when a state changes; a contact's command runs for problems and recoveries",
    "volatile": "a problem is one problem until it is over; `repeat` reminds of it",
    "ignore_soft_states": "what counts of a parent is its HARD state",
    "display_name": "it has no other name here",
    "period": "it counts at any time",
    "command_endpoint": "the node sends all messages",
    "enable_perfdata": "performance data are always kept",
    "host": "workers connect to the queue of the cluster, not the other way round",
    "port": "workers connect to the queue of the cluster, not the other way round",
}
_UNKNOWN: Final = "evenbeat has no counterpart"
_PROGRAM: Final = "it is about the program Icinga itself"
_OF_KINDS: Final = {
    "EventCommand": _WHY["event_command"],
    "Comment": "comments are written about problems",
}


class IcingaReport(ImportReport):
    """A report about objects of Icinga 2."""

    def warn_of(self, about: IcingaObject, message: str) -> None:
        """Something of an object was carried over and is different now."""
        self.warn(about.file, about.place, message)

    def omit_of(self, about: IcingaObject, what: str, why: str) -> None:
        """Something of an object is not carried over."""
        self.omit(about.file, about.place, what, why)

    def omit_unused(self, objects: Iterable[IcingaObject]) -> None:
        """Name each attribute that has no counterpart and is not as Icinga has it by default, once for all objects of a
        kind.
        """
        found: dict[tuple[str, str], list[IcingaObject]] = {}
        kinds: dict[str, list[IcingaObject]] = {}
        running: dict[str, list[IcingaObject]] = {}
        for one in objects:
            if one.kind not in _CARRIED:
                kinds.setdefault(one.kind, []).append(one)
                continue
            for name, value in one.attributes.items():
                if name in _RUNTIME and name not in _CARRIED[one.kind]:
                    if one.kind in ("Host", "Service") and one not in running.setdefault(one.kind, [])[-1:]:
                        running[one.kind].append(one)
                elif name not in _CARRIED[one.kind] and name not in _OF_ALL and _says_something(one, name, value):
                    found.setdefault((one.kind, name), []).append(one)
        for (kind, name), some in found.items():
            value = _shown(name, some[0].attributes[name])
            self.omit_of(some[0], f"{name} = {value} of {kind} {some[0].name}{_times(some)}", _WHY.get(name, _UNKNOWN))
        for kind, some in kinds.items():
            self.omit_of(some[0], f"{kind} {some[0].name}{_times(some)}", _OF_KINDS.get(kind, _PROGRAM))
        for kind, some in running.items():
            what = f"states, times and acknowledgements of a {kind}{_times(some)}"
            self.omit_of(some[0], what, "they are made anew by the first results")


def _shown(name: str, value: Any) -> str:
    """A value for people, without what may be secret in it."""
    if sounds_secret(name, value if isinstance(value, str) else ""):
        return "..."
    if isinstance(value, dict):
        return f"{{{', '.join(map(str, value))}}}"[:64]
    return as_text(value)[:64]


def _times(some: list[IcingaObject]) -> str:
    return f" ({len(some)} times, here first)" if len(some) > 1 else ""


def _says_something(one: IcingaObject, name: str, value: Any) -> bool:
    if value in (None, "", [], {}) or value in _DEFAULTS.get(name, ()):
        return False
    return not (name == "display_name" and value == one.attributes.get("name", one.name))
