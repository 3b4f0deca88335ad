"""The contract of a store as tests: subclass `StoreContract` and say how to make one of yours.

    class TestMine(StoreContract):
        def make_store(self, folder):
            return MyStore(folder / "data")

Every sentence of `evenbeat.store.contract` is a test.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evenbeat.store.contract import Store
from evenbeat.testing.store_care import MaintenanceContract
from evenbeat.testing.store_history import HistoryContract
from evenbeat.testing.store_past import PastDefinitionsContract
from evenbeat.testing.store_runs import RunsContract
from evenbeat.testing.store_tasks import TasksContract
from evenbeat.testing.store_told import SubmittedResultsContract


class StoreContract(
    TasksContract, PastDefinitionsContract, RunsContract, SubmittedResultsContract, HistoryContract, MaintenanceContract
):
    """What every store does."""

    def make_store(self, folder: Path) -> Store:
        """A new and empty store; `folder` is empty and goes away after the test."""
        raise NotImplementedError

    def make_bounded_store(self, folder: Path, plain_runs: int) -> Store | None:
        """The same, with a bound on the plain successes that it keeps; None if that cannot be chosen."""
        return None

    def reopen(self, store: Store, folder: Path) -> Store | None:
        """Close the store and open what it left in the folder; None for a store that forgets."""
        return None

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        made = self.make_store(tmp_path)
        yield made
        made.close()
