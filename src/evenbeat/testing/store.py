"""The contract of a store as tests: subclass `StoreContract` and define how to make a store of yours.

    class TestMine(StoreContract):
        def make_store(self, folder):
            return MyStore(folder / "data")

Every sentence of `evenbeat.store.contract` is a test.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evenbeat.store.contract import Store
from evenbeat.testing.store_alerts import AlertsContract, HoldsContract
from evenbeat.testing.store_chains import ChainsContract
from evenbeat.testing.store_history import HistoryContract
from evenbeat.testing.store_layers import LayersContract
from evenbeat.testing.store_maintenance import MaintenanceContract
from evenbeat.testing.store_messages import MessagesContract
from evenbeat.testing.store_outputs import OutputsContract
from evenbeat.testing.store_past_definitions import PastDefinitionsContract
from evenbeat.testing.store_problems import ProblemsContract
from evenbeat.testing.store_runs import RunsContract
from evenbeat.testing.store_submitted_results import SubmittedResultsContract
from evenbeat.testing.store_tasks import TasksContract


class StoreContract(
    TasksContract,
    PastDefinitionsContract,
    RunsContract,
    SubmittedResultsContract,
    ChainsContract,
    HistoryContract,
    OutputsContract,
    ProblemsContract,
    HoldsContract,
    AlertsContract,
    MessagesContract,
    MaintenanceContract,
    LayersContract,
):
    """What every store must do."""

    def make_store(self, folder: Path) -> Store:
        """A new and empty store; `folder` is empty and goes away after the test."""
        raise NotImplementedError

    def make_bounded_store(self, folder: Path, plain_runs: int) -> Store | None:
        """A new store that keeps at most this many plain successes; None if the bound cannot be chosen."""
        return None

    def reopen(self, store: Store, folder: Path) -> Store | None:
        """Close the store and open it again from the folder; None for a store that keeps nothing."""
        return None

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        made = self.make_store(tmp_path)
        yield made
        made.close()
