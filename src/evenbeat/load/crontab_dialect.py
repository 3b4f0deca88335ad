"""How a crontab is to be read where it does not say: whether its commands follow a user, who owns it, in which zone."""

import re
from pathlib import PurePath
from typing import Final, NamedTuple

_HEADER_WITH_USER: Final = re.compile(r"#.*\buser(?:-?name)?\s+<?(?:command|cmd)\b.*", re.IGNORECASE)
_USER: Final = re.compile(r"[A-Za-z_][\w.-]{0,31}\$?", re.ASCII)
_KNOWN_USERS: Final = frozenset(
    {
        *(
            "root",
            "www-data",
            "nobody",
            "daemon",
            "bin",
            "sys",
            "mail",
            "news",
            "uucp",
            "proxy",
            "backup",
            "list",
            "man",
        ),
        *("backup", "postgres", "mysql", "apache", "nginx", "httpd", "redis", "munin", "nagios", "icinga", "zabbix"),
        *(
            "jenkins",
            "git",
            "gitlab",
            "prometheus",
            "grafana",
            "asterisk",
            "tomcat",
            "ubuntu",
            "debian",
            "ec2-user",
            "vagrant",
        ),
        *("smmsp", "ec2-user", "vagrant", "logcheck", "amavis", "clamav", "bind", "named", "debian-spamd", "mailman"),
    }
)
"""Users that packages create. Nobody has a program of such a name."""
_SPOOLS: Final = ("crontabs", "tabs")
"""Folders of /var/spool/cron with a file for each user, named after that user."""


class CrontabDialect(NamedTuple):
    """How to read a crontab, where its own comments do not say."""

    spread: bool = False
    system: bool | None = None
    """As /etc/crontab: a user before each command. None: as the file looks."""
    zone: str = "UTC"


def has_users(file: str, comments: list[str], first_words: list[tuple[str, bool]]) -> tuple[bool, str]:
    """Does a user stand before each command of a file? If that is a guess, also why it is made.

    `first_words` are those behind the times of each entry, and whether more words follow.
    """
    if not first_words or not all(more and _USER.fullmatch(word) for word, more in first_words):
        return False, ""
    path = PurePath(file)
    if path.parent.name == "cron.d" or path.parts[-2:] == ("etc", "crontab"):
        return True, ""
    if any(_HEADER_WITH_USER.fullmatch(comment) for comment in comments):
        return True, "as its comment says"
    users = sorted({word for word, _ in first_words})
    is_known = all(user in _KNOWN_USERS for user in users)
    return is_known, f"all entries have {' or '.join(users)} there" if is_known else ""


def owner_of(file: str) -> str | None:
    """The user whose crontab a file is: cron keeps them in /var/spool/cron, named after their users."""
    path = PurePath(file)
    in_spool = path.parent.name in _SPOOLS or path.parts[-3:-1] == ("spool", "cron")
    return path.name if in_spool and _USER.fullmatch(path.name) else None
