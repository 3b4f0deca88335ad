"""Which variables of its environment a worker passes on: to commands a few, to functions all but evenbeat's secrets."""

from collections.abc import Iterable, Mapping
from typing import Final

from evenbeat.model import SECRET_VARIABLE_PREFIXES

COMMANDS_GET: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}  # and all that begin with LC_
)
"""What a program needs to find its files and to write its texts; about as much as cron gives."""
_MARK: Final = "EVENBEAT_WORKER"
"""The variable by which runs that outlive their worker are recognised: see `child_processes.worker_records`."""
_LOCALE: Final = "LC_"
_POSTGRES: Final = ("postgresql://", "postgres://")
_OF_POSTGRES: Final = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY"})
"""How evenbeat gets into its database, if that is PostgreSQL. On a node with a file they may be meant for a task."""
_OF_SHELLS: Final = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})
"""Variables that every shell sets anew: leaving them out changes nothing."""


def own_secrets(environment: Mapping[str, str], *, in_cluster: bool = False) -> frozenset[str]:
    """Names of the variables that are for evenbeat alone: tokens, and addresses that may have a password in them.

    `in_cluster` says that the database is PostgreSQL, where the environment does not.
    """
    database = environment.get("EVENBEAT_DB", "")
    found = {name for name in environment if name.startswith(SECRET_VARIABLE_PREFIXES)}
    if "://" in database:
        found.add("EVENBEAT_DB")
    if "@" in environment.get("EVENBEAT_URL", ""):
        found.add("EVENBEAT_URL")
    if in_cluster or database.startswith(_POSTGRES):
        found |= _OF_POSTGRES & environment.keys()
    return frozenset(found)


def without_secrets(environment: Mapping[str, str], *, in_cluster: bool = False) -> dict[str, str]:
    """The environment of worker processes, which functions inherit and `env:NAME` refers to."""
    secrets = own_secrets(environment, in_cluster=in_cluster)
    return {name: value for name, value in environment.items() if name not in secrets}


def for_commands(environment: Mapping[str, str], pass_env: Iterable[str] = ()) -> dict[str, str]:
    """What commands get of the environment of their worker; `pass_env` names more of it, a * at the end all that begin
    so.
    """
    secrets = own_secrets(environment)
    exact = COMMANDS_GET | {_MARK, *(name for name in pass_env if not name.endswith("*"))}
    beginnings = (_LOCALE, *(name[:-1] for name in pass_env if name.endswith("*")))
    return {
        name: value
        for name, value in environment.items()
        if (name in exact or name.startswith(beginnings)) and name not in secrets
    }


def for_checks(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a check, as in Icinga: numbers in the output of a plugin have a point, whatever the locale."""
    return {name: value for name, value in environment.items() if name != "LC_ALL"} | {"LC_NUMERIC": "C"}


def not_passed(environment: Mapping[str, str], pass_env: Iterable[str] = ()) -> list[str]:
    """Names of variables that commands do not get, and may miss."""
    return sorted(environment.keys() - for_commands(environment, pass_env).keys() - _OF_SHELLS)
