"""A run that was lost while a forced run of its task waits: that one makes up for it, as it does after a restart."""

import pytest
from virtual_node import Node

from evenbeat.core.lost_runs import repeat_lost_runs
from evenbeat.core.task import Flag
from evenbeat.model import HOUR, RunKind
from evenbeat.when.windows import FOREVER


@pytest.mark.parametrize("missed", [Flag(0), Flag.MISSED_SKIP])
def test_a_forced_run_that_waits_makes_up_for_a_lost_one(missed: Flag) -> None:
    node = Node()
    row = node.add(every=HOUR)
    node.lifecycle.set_flag(row, missed, on=True)
    node.lifecycle.force(row)
    node.lifecycle.release(node.now)
    node.lifecycle.force(row)
    node.lifecycle.complete(row)
    assert repeat_lost_runs(node.lifecycle, row, node.now).tolist() == row.tolist(), "the task runs once more"
    assert node.columns.off_grid_due[row] == FOREVER, "not twice"
    assert node.lifecycle.release(node.now).claims.kind.tolist() == [RunKind.FORCED]
