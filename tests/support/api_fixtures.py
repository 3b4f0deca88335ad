"""Fixtures: a live node, one for all tests of a module, and the API application that is asked in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode

from evenbeat.api.http.context import ApiContext


@pytest.fixture(scope="module")
def live_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """One node for all tests of a module: they give their tasks names of their own."""
    with LiveNode(tmp_path_factory.mktemp("node") / "evenbeat.db", grace=0.1) as node:
        yield node


@pytest.fixture(scope="module")
def context(live_node: LiveNode) -> Iterator[ApiContext]:
    context = ApiContext(live_node.database)
    yield context
    context.close()


@pytest.fixture(scope="module")
def api(context: ApiContext) -> Iterator[ApiClient]:
    api = ApiClient(context, RoleNameAuthenticator())
    yield api
    api.close()


@pytest.fixture
def stopped_context(tmp_path: Path) -> Iterator[ApiContext]:
    """A database whose node has stopped."""
    database = tmp_path / "evenbeat.db"
    with LiveNode(database):
        pass
    context = ApiContext(database)
    yield context
    context.close()
