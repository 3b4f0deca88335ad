"""What a live node knows of one task at this moment."""

import numpy as np
import pytest
from hand_driven_node import T0, HandDrivenNode

from evenbeat.core.gate import Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import MINUTE, RunKind
from evenbeat.node.answers.task_state import live_task_state_of
from evenbeat.report.why import explain
from evenbeat.wire.live_runs import LiveTaskState


def moment(driven: HandDrivenNode, name: str) -> LiveTaskState:
    found = live_task_state_of(driven.node, driven.admin.find_or_raise(name).number)
    assert found is not None
    return found


def sentence(driven: HandDrivenNode, name: str) -> str:
    return explain(driven.store, name, None, driven.node.clock.now(), lambda _: (True, moment(driven, name))).answer


@pytest.mark.parametrize(
    ("is_running", "free_slots", "free_of_limit", "reason"),
    [
        (False, 1, None, Reason.NONE),
        (False, 1, 1, Reason.NONE),
        (False, 0, None, Reason.NO_SLOT),
        (False, -3, 1, Reason.NO_SLOT),
        (False, 5, 0, Reason.LIMIT),
        (False, 0, 0, Reason.LIMIT),
        (True, 0, 0, Reason.RUNNING),
    ],
)
def test_what_holds_a_run_back(is_running: bool, free_slots: int, free_of_limit: int | None, reason: Reason) -> None:
    life, row = Lifecycle(columns := TaskColumns(), Timetable(columns), ScheduleTimes(columns), free_slots), 0
    life.add_new(columns.allocate(1), T0)
    life.set_flag(np.array([row]), Flag.RUNNING, on=is_running)
    if free_of_limit is not None:
        columns.limit[row] = 1
        life.set_limit(1, free_of_limit)
    assert life.reason_to_wait(row, T0) is reason


class TestAForcedRun:
    def test_of_a_paused_task_is_due_before_the_next_turn_has_seen_it(self) -> None:
        driven = HandDrivenNode()
        entry = driven.add("nap")
        driven.pause("nap")
        assert driven.node.live.force([entry], 1) == {}
        assert (moment(driven, "nap").kind, moment(driven, "nap").waiting) == (RunKind.FORCED, "")
        assert sentence(driven, "nap") == "nap runs now: a forced run is due."

    def test_waits_for_the_running_instance_and_says_so_at_once(self) -> None:
        driven = HandDrivenNode()
        entry = driven.add("nap")
        driven.turn(MINUTE)
        assert driven.node.live.force([entry], 1) == {"nap": "waits for its running instance"}
        assert moment(driven, "nap").waiting == Reason.RUNNING
        driven.turn()
        assert moment(driven, "nap").waiting == Reason.RUNNING
        assert sentence(driven, "nap").startswith("nap is running")
        driven.end("nap")
        (run,) = driven.turn()
        assert RunKind(run.kind) is RunKind.FORCED

    def test_waits_for_a_slot(self) -> None:
        driven = HandDrivenNode(slots=1)
        driven.add("long")
        entry = driven.add("nap", every="1h", phase="30m")
        driven.turn(MINUTE)
        assert driven.node.live.force([entry], 1) == {"nap": "waits for a slot"}
        driven.pause("nap")
        driven.turn()
        assert sentence(driven, "nap").startswith("nap is due and waits for a slot")

    def test_waits_for_its_limit(self) -> None:
        driven = HandDrivenNode()
        driven.limits(db=1)
        driven.add("long", limit="db")
        entry = driven.add("nap", limit="db", every="1h", phase="30m")
        driven.turn(MINUTE)
        assert driven.node.live.force([entry], 1) == {"nap": "waits for its limit"}

    def test_only_as_many_are_looked_at_as_are_named(self) -> None:
        driven = HandDrivenNode(slots=1)
        entries = [driven.add(name) for name in "abc"]
        driven.turn(MINUTE)
        assert len(driven.node.live.force(entries, 2)) == 2
