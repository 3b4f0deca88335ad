"""The environment of a command that delivers a message: the variables that Nagios sets, and evenbeat's own.

The names and values are those of Nagios Core 4 with `enable_environment_macros=1` (its `common/macros.c` and
`base/notifications.c`). Of Nagios' many variables only those are set that scripts for notifications are known to use.
"""

import re
from datetime import datetime
from typing import Final

from evenbeat.load.safe_text import escaped_line, escaped_text
from evenbeat.sender.text import counts_of, subject_of, summary_of, text_of, worst_item
from evenbeat.wire.sender_documents import MessageDocument, MessageItem

_ILLEGAL: Final = str.maketrans("", "", "`~$&|'\"<>")
"""What `illegal_macro_output_chars` removes from outputs and comments in the configuration that comes with Nagios, as
many scripts put them on the command line of a shell."""
_VALUE_LIMIT: Final = 16_000
"""Characters of one variable: the kernel takes no more than 128 KiB."""
_TYPES: Final = {"problem": "PROBLEM", "recovery": "RECOVERY", "acknowledged": "ACKNOWLEDGEMENT"}
_SERVICE_IDS: Final = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
_EMPTY: Final = (
    *("CONTACTEMAIL", "CONTACTPAGER", "NOTIFICATIONNUMBER", "NOTIFICATIONAUTHORNAME", "NOTIFICATIONAUTHORALIAS"),
    *("HOSTSTATE", "HOSTSTATEID", "HOSTOUTPUT", "LONGHOSTOUTPUT", "HOSTPERFDATA", "HOSTACKAUTHOR", "HOSTACKCOMMENT"),
    *("SERVICEDESC", "SERVICEDISPLAYNAME", "SERVICESTATE", "SERVICESTATEID", "SERVICEOUTPUT", "LONGSERVICEOUTPUT"),
    *("SERVICEPERFDATA", "SERVICEACKAUTHOR", "SERVICEACKCOMMENT", "HOSTGROUPNAMES", "SERVICEGROUPNAMES"),
)
"""Set even if there is nothing to say: a script may end at a variable that does not exist."""
_OWN_LABELS: Final = frozenset({"host", "service", "alias", "address"})
"""Labels that have variables of their own."""
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def message_variables(document: MessageDocument) -> dict[str, str]:
    """All of them. Of a message with several items they describe the worst one; its long output is the whole text."""
    found = _own_variables(document)
    if document.items:
        found |= _nagios_variables(document)
    elif document.test:
        found |= {"NAGIOS_NOTIFICATIONTYPE": "CUSTOM", "NAGIOS_CONTACTNAME": escaped_line(document.contact)}
    return found


def _own_variables(document: MessageDocument) -> dict[str, str]:
    own = {
        "MESSAGE": str(document.message),
        "CONTACT": document.contact,
        "POSSIBLE_REPETITION": "1" if document.possible_repetition else "0",
        "ITEMS": str(len(document.items) + document.more),
        "SUBJECT": subject_of(document),
        "TEXT": text_of(document),
        "LINK": document.link,
        "TEST": "1" if document.test else "0",
    }
    if document.items:
        item = worst_item(document.items)
        own |= {
            "KIND": item.kind,
            "REMINDER": "1" if item.reminder else "0",
            "NAME": item.task,
            "CAUSE": item.cause,
            "STATE": item.state,
            "FLAPPING": "1" if item.flapping else "0",
            "PROBLEM": str(item.problem),
            "SINCE": item.since,
            "OUTPUT": item.output,
            "REASON": item.reason,
        }
    return {f"EVENBEAT_{name}": escaped_text(value[:_VALUE_LIMIT]) for name, value in own.items()}


def _nagios_variables(document: MessageDocument) -> dict[str, str]:
    item = worst_item(document.items)
    host, service = host_and_service(item)
    others = len(document.items) - 1 + document.more
    output = summary_of(item)
    if others:
        output = f"{output} (and {counts_of([], others)})".strip()
        long_output = text_of(document)
    else:
        long_output = _long_output(item).strip("\n")
    found = dict.fromkeys(_EMPTY, "") | {
        "NOTIFICATIONTYPE": _TYPES[item.kind],
        "NOTIFICATIONRECIPIENTS": ",".join([document.contact, *item.told]),
        "NOTIFICATIONAUTHOR": item.who,
        "NOTIFICATIONCOMMENT": _output(item.comment),
        "CONTACTNAME": document.contact,
        "CONTACTALIAS": document.contact,
        "HOSTNAME": host,
        "HOSTALIAS": item.labels.get("alias", host),
        "HOSTDISPLAYNAME": item.labels.get("alias", host),
        "HOSTADDRESS": item.labels.get("address", host),
        **_times(document, item),
    }
    kind = "SERVICE" if service else "HOST"
    found |= {
        f"{kind}OUTPUT": _output(output),
        f"LONG{kind}OUTPUT": _output(long_output).replace("\n", "\\n"),
        f"{kind}PERFDATA": _output(_performance_data(item)),
        f"{kind}STATETYPE": "HARD",
        f"{kind}PROBLEMID": "0" if item.kind == "recovery" else str(item.problem),
        f"LAST{kind}PROBLEMID": str(item.problem),
        f"{kind}NOTIFICATIONID": str(document.message),
        f"{kind}INFOURL": document.link,
    }
    if item.kind == "acknowledged":
        found |= {f"{kind}ACKAUTHOR": item.who, f"{kind}ACKCOMMENT": _output(item.comment)}
    state = "ok" if item.kind == "recovery" else item.state
    if service:
        found |= {
            "SERVICEDESC": service,
            "SERVICEDISPLAYNAME": service,
            "SERVICESTATE": state.upper(),
            "SERVICESTATEID": str(_SERVICE_IDS[state]),
        }
        if item.kind == "recovery":
            found |= {"LASTSERVICESTATE": item.state.upper(), "LASTSERVICESTATEID": str(_SERVICE_IDS[item.state])}
    else:
        # A plugin that checks a host and ends with WARNING: the host is up.
        down = state in ("critical", "unknown")
        found |= {"HOSTSTATE": "DOWN" if down else "UP", "HOSTSTATEID": "1" if down else "0"}
        if item.kind == "recovery":
            found |= {"LASTHOSTSTATE": "DOWN", "LASTHOSTSTATEID": "1"}
    # As custom variables of the object: _SITE of a service is NAGIOS__SERVICESITE.
    custom = {name: text for name, text in item.labels.items() if name not in _OWN_LABELS}
    found |= {f"_{kind}{name.upper()}": text for name, text in custom.items() if _VARIABLE_NAME.fullmatch(name)}
    return {f"NAGIOS_{name}": escaped_line(value[:_VALUE_LIMIT]) for name, value in found.items()}


def host_and_service(item: MessageItem) -> tuple[str, str]:
    """The host that the item is about and the service on it, which is "" for the host itself.

    By its labels `host` and `service`, as an import from Nagios sets them, or else by its name: HOST/SERVICE.
    """
    first, slash, rest = item.task.partition("/")
    host = item.labels.get("host", first if slash else item.task)
    service = item.labels.get("service", "")
    if not service and item.task != host:
        service = rest if slash and first == host else item.task
    if not service and "host" not in item.labels:
        service = item.task  # a task that belongs to no host
    return host, service


def _times(document: MessageDocument, item: MessageItem) -> dict[str, str]:
    found: dict[str, str] = {}
    if (created := _parsed(document.created)) is not None:
        local = created.astimezone()
        found |= {
            "LONGDATETIME": f"{local:%a %b} {local.day} {local:%H:%M:%S %Z %Y}",
            "SHORTDATETIME": f"{local:%m-%d-%Y %H:%M:%S}",
            "DATE": f"{local:%m-%d-%Y}",
            "TIME": f"{local:%H:%M:%S}",
            "TIMET": str(int(created.timestamp())),
        }
    kind = "SERVICE" if host_and_service(item)[1] else "HOST"
    began = _parsed(item.closed or item.since)
    if began is not None:
        found[f"LAST{kind}STATECHANGE"] = str(int(began.timestamp()))
        if created is not None:
            seconds = max(int((created - began).total_seconds()), 0)
            hours, rest = divmod(seconds, 3_600)
            found[f"{kind}DURATIONSEC"] = str(seconds)
            found[f"{kind}DURATION"] = f"{hours // 24}d {hours % 24}h {rest // 60}m {rest % 60}s"
    return found


def _parsed(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _long_output(item: MessageItem) -> str:
    """What the one line leaves out: of a plugin the lines after the first, of any other command all lines."""
    if item.cause == "state":
        return item.output.partition("\n")[2].partition("|")[0]  # after a second bar performance data follow
    return item.output if "\n" in item.output.strip("\n") else ""


def _performance_data(item: MessageItem) -> str:
    if item.cause != "state":
        return ""
    first, _, rest = item.output.partition("\n")
    return " ".join((first.partition("|")[2] + " " + rest.partition("|")[2]).split())


def _output(text: str) -> str:
    """A text of others, as Nagios passes it on."""
    return text.translate(_ILLEGAL)
