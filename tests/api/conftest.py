"""A node that lives, and the application beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_node import Living

from api.asking import Api, Porter
from evenbeat.api.http.context import ApiContext


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """One node for all tests of a module: they give their tasks names of their own."""
    with Living(tmp_path_factory.mktemp("node") / "evenbeat.db", grace=0.1) as node:
        yield node


@pytest.fixture(scope="module")
def house(living: Living) -> Iterator[ApiContext]:
    house = ApiContext(living.database)
    yield house
    house.close()


@pytest.fixture(scope="module")
def api(house: ApiContext) -> Iterator[Api]:
    api = Api(house, Porter())
    yield api
    api.close()


@pytest.fixture
def empty_house(tmp_path: Path) -> Iterator[ApiContext]:
    """A database whose node has stopped."""
    database = tmp_path / "evenbeat.db"
    with Living(database):
        pass
    house = ApiContext(database)
    yield house
    house.close()
