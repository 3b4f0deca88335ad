"""Warns, once per database, of variables of the node's environment that commands got before and get no longer."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from evenbeat.core.environment import not_passed, own_secrets
from evenbeat.store.contract import ENVIRONMENT_TOLD, Store

_log: Final = logging.getLogger("evenbeat.node")


def warn_no_longer_passed(
    store: Store, environment: Mapping[str, str], pass_env: Sequence[str], *, is_new: bool, in_cluster: bool = False
) -> None:
    """To be called at a node's start. With `is_new` there was no task before, so that none can miss anything."""
    if store.setting(ENVIRONMENT_TOLD) is not None:
        return
    names = not_passed(environment, pass_env)
    if names and not is_new:
        told = {"action": "environment", "not_passed": ",".join(names)}
        secrets = sorted(own_secrets(environment, in_cluster=in_cluster))
        functions = f"; functions no longer get {', '.join(secrets)}" if secrets else ""
        _log.warning(
            "commands no longer get these variables of the node's environment: %s%s. Those that a command needs belong "
            "into `pass_env` of [node], or into `env` of its task",
            *(", ".join(names), functions),
            extra=told,
        )
    store.set_settings({ENVIRONMENT_TOLD: "1"})
