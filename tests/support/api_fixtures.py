"""Fixtures: a live node, one for all tests of a module, and the API application that is asked in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode

from evenbeat.api.http.context import ApiContext


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """One node for all tests of a module: they give their tasks names of their own."""
    with LiveNode(tmp_path_factory.mktemp("node") / "evenbeat.db", grace=0.1) as node:
        yield node


@pytest.fixture(scope="module")
def house(living: LiveNode) -> Iterator[ApiContext]:
    house = ApiContext(living.database)
    yield house
    house.close()


@pytest.fixture(scope="module")
def api(house: ApiContext) -> Iterator[ApiClient]:
    api = ApiClient(house, RoleNameAuthenticator())
    yield api
    api.close()


@pytest.fixture
def empty_house(tmp_path: Path) -> Iterator[ApiContext]:
    """A database whose node has stopped."""
    database = tmp_path / "evenbeat.db"
    with LiveNode(database):
        pass
    house = ApiContext(database)
    yield house
    house.close()
