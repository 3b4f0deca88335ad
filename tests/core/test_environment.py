"""Which variables are passed on: a short list to commands, and never a secret of evenbeat's to anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.environment import COMMANDS_GET, for_checks, for_commands, not_passed, own_secrets, without_secrets
from evenbeat.load.pass_env import pass_env_error

SECRET = {
    "EVENBEAT_TOKEN": "evb_x",
    "EVENBEAT_QUEUE": "nats://u:p@h",
    "EVENBEAT_DB": "postgresql://u:p@h/x",
    "EVENBEAT_URL": "https://u:p@h",
    "PGPASSWORD": "p",
}
USUAL = dict.fromkeys([*COMMANDS_GET, "LC_ALL", "LC_TIME"], "usual")
OTHER = {"SITE": "a", "DB_HOST": "b", "DB_PORT": "c", "DBX": "d"}
ALL = SECRET | USUAL | OTHER

some_names = st.lists(st.sampled_from([*ALL, "EVENBEAT_*", "EVENBEAT_TOK*", "PG*", "DB_*", "*"]))


@given(st.sets(st.sampled_from(sorted(ALL))), some_names)
def test_no_secret_is_ever_passed_on(names: set[str], pass_env: list[str]) -> None:
    environment = {name: ALL[name] for name in names}
    secrets = own_secrets(environment)
    passed = for_commands(environment, pass_env)
    assert not secrets & (passed.keys() | without_secrets(environment).keys())
    assert without_secrets(environment).keys() | secrets == environment.keys()
    assert passed.keys() <= environment.keys()
    assert {*passed, *not_passed(environment, pass_env)} == environment.keys()


def test_commands_get_the_usual_variables_and_those_that_are_named() -> None:
    assert for_commands(ALL) == USUAL
    assert for_commands(ALL, ["SITE", "NOT_THERE"]) == USUAL | {"SITE": "a"}
    assert for_commands(ALL, ["DB_*"]) == USUAL | {"DB_HOST": "b", "DB_PORT": "c"}
    assert for_commands(ALL, ["*"]) == USUAL | OTHER


def test_functions_get_all_but_the_secrets() -> None:
    assert without_secrets(ALL) == USUAL | OTHER
    assert without_secrets({"EVENBEAT_DB": "/var/x.db", "PGPASSWORD": "of a task"}).keys() == {
        "EVENBEAT_DB",
        "PGPASSWORD",
    }
    assert without_secrets({"PGPASSWORD": "p", "PGSERVICEFILE": "f", "PGHOST": "h"}, in_cluster=True) == {"PGHOST": "h"}
    assert own_secrets({"EVENBEAT_TOKEN_OF_MINE": "x", "EVENBEAT_CA": "x", "EVENBEAT_URL": "https://h"}) == {
        "EVENBEAT_TOKEN_OF_MINE"
    }


def test_checks_write_numbers_with_a_point() -> None:
    assert for_checks({"LC_ALL": "de_DE", "LC_NUMERIC": "de_DE", "LANG": "de_DE"}) == {
        "LC_NUMERIC": "C",
        "LANG": "de_DE",
    }


def test_what_shells_set_anew_is_not_missed() -> None:
    assert not_passed({"_": "x", "PWD": "/", "SHLVL": "1", "PATH": "x", "B": "", "A": ""}) == ["A", "B"]


@pytest.mark.parametrize("name", ["A", "_a1", "DB_*", "*", "EVENBEAT_DB", "EVENBEAT_*"])
def test_names_that_can_be_passed_on(name: str) -> None:
    assert pass_env_error(name) == ""


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=b", "*A", "A**", "a,b", "ä", "EVENBEAT_TOKEN", "EVENBEAT_QUEUE*"])
def test_names_that_cannot(name: str) -> None:
    assert pass_env_error(name)
