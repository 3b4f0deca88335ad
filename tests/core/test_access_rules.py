from itertools import product

import pytest

from evenbeat.core.access_rules import (
    SIGN_IN_LINK_LIFETIME,
    FirstToken,
    first_token,
    is_good,
    link_expires,
    needs_no_token,
    why_not_open,
)
from evenbeat.model import MINUTE, Instant

BOTH = (False, True)


@pytest.mark.parametrize(("has_tokens", "is_open", "is_loopback"), list(product(BOTH, repeat=3)))
def test_who_has_no_token_gets_in_only_by_open_on_loopback_without_tokens(
    has_tokens: bool, is_open: bool, is_loopback: bool
) -> None:
    found = needs_no_token(is_open=is_open, is_loopback=is_loopback, has_tokens=has_tokens)
    assert found is (is_open and is_loopback and not has_tokens)


@pytest.mark.parametrize(("has_tokens", "is_open", "is_loopback", "is_cluster"), list(product(BOTH, repeat=4)))
def test_a_first_token_is_made_by_a_single_node_for_its_own_machine_alone(
    has_tokens: bool, is_open: bool, is_loopback: bool, is_cluster: bool
) -> None:
    found = first_token(has_tokens=has_tokens, is_open=is_open, is_loopback=is_loopback, is_cluster=is_cluster)
    if has_tokens or is_open:
        assert found is FirstToken.NOT_NEEDED
    elif is_loopback and not is_cluster:
        assert found is FirstToken.MAKE
    else:
        assert found is FirstToken.ASK


def test_open_is_refused_as_root_and_for_other_machines_with_what_to_do() -> None:
    assert why_not_open(is_loopback=True, is_root=False) == ""
    assert "leave --open out" in why_not_open(is_loopback=True, is_root=True)
    assert "run commands as root" in why_not_open(is_loopback=True, is_root=True)
    assert "loopback address" in why_not_open(is_loopback=False, is_root=False)
    assert "loopback address" in why_not_open(is_loopback=False, is_root=True)


def test_a_link_is_good_for_ten_minutes_and_not_a_moment_longer() -> None:
    made = Instant(1_000 * MINUTE)
    expires = link_expires(made)
    assert expires - made == SIGN_IN_LINK_LIFETIME == 10 * MINUTE
    assert is_good(expires, made)
    assert is_good(expires, Instant(expires - 1))
    assert not is_good(expires, expires)
