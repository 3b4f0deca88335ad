"""Tasks that run after others, on a node driven by hand: what is committed decides, whenever the node is killed."""

from typing import Any

import pytest
from hand_driven_node import T0, HandDrivenNode

from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Outcome, Period, RunKind
from evenbeat.store.contract import RunRecord

FAILED = (Outcome.FAILED, 1)


@pytest.fixture
def node() -> HandDrivenNode:
    return HandDrivenNode()


def begin(node: HandDrivenNode, name: str = "backup") -> None:
    """A run of a parent is under way."""
    while name not in node.under_way:
        node.turn(SECOND)


def run(node: HandDrivenNode, name: str, outcome: Outcome = Outcome.SUCCEEDED, status: int = 0) -> int:
    """A task runs to its end; its nominal time."""
    node.force(name)
    node.turn(SECOND)
    nominal = node.under_way[name].nominal
    node.end(name, outcome, status, lasted=SECOND)
    node.turn()
    return int(nominal)


def runs_of(node: HandDrivenNode, name: str) -> list[RunRecord]:
    """Oldest first."""
    return node.store.runs(node.admin.find_or_raise(name).number)[::-1]


def skips_of(node: HandDrivenNode, name: str) -> list[tuple[int, str]]:
    number = node.admin.find_or_raise(name).number
    return [(skip.first, skip.reason) for skip in node.store.skips(number)[::-1]]


def a_pair(node: HandDrivenNode, *, phase: str = "12h", **keys: Any) -> None:
    parents(node, "backup", phase=phase)
    node.add("upload", after=["backup"], **keys)


def parents(node: HandDrivenNode, *names: str, phase: str = "12h") -> None:
    for name in names:
        node.add(name, every="1d", phase=phase)


# When it is due


def test_a_task_runs_as_soon_as_its_parent_has_succeeded_with_its_nominal_time(node: HandDrivenNode) -> None:
    a_pair(node, phase="1m")
    begin(node)
    node.end("backup", lasted=HOUR)
    (made,) = node.turn()
    assert (made.name, made.nominal, made.kind) == ("upload", T0 + MINUTE, RunKind.CHAIN)
    node.end("upload")
    assert node.advance(2 * HOUR) == []
    (record,) = runs_of(node, "upload")
    assert (record.nominal, record.kind, record.outcome) == (T0 + MINUTE, RunKind.CHAIN, Outcome.SUCCEEDED)


def test_the_end_of_the_parent_and_the_claim_that_follows_are_one_batch(node: HandDrivenNode) -> None:
    a_pair(node, phase="1m")
    begin(node)
    node.end("backup")
    node.turn()
    (batch,) = [batch for batch in node.store.batches if batch.chain_ends]
    assert [len(of) for of in (batch.finishes, batch.claims, batch.chain_uses)] == [1, 1, 1]


def test_a_parent_that_failed_makes_nothing_due(node: HandDrivenNode) -> None:
    a_pair(node)
    run(node, "backup", *FAILED)
    assert not node.under_way
    run(node, "backup")
    assert list(node.under_way) == ["upload"]


def test_forced_and_caught_up_runs_of_a_parent_count(node: HandDrivenNode) -> None:
    a_pair(node, phase="1m")
    node.turn(SECOND)
    node.restart(after=25 * HOUR)
    made = node.advance(5 * MINUTE)
    assert [(r.name, r.kind) for r in made] == [("backup", RunKind.CATCH_UP), ("upload", RunKind.CHAIN)]
    nominal = run(node, "backup")
    assert node.under_way["upload"].nominal == nominal


def test_the_nominal_time_is_handed_on_along_a_chain(node: HandDrivenNode) -> None:
    a_pair(node, phase="1m")
    node.add("report", after=["upload"])
    made = node.advance(2 * MINUTE)
    assert [(r.name, r.nominal) for r in made] == [(name, T0 + MINUTE) for name in ("backup", "upload", "report")]


def test_all_parents_must_have_succeeded_since_and_the_first_listed_gives_the_nominal_time(
    node: HandDrivenNode,
) -> None:
    node.add("backup", every="1d", phase="1m")
    node.add("dump", every="1d", phase="2m")
    node.add("upload", after=["dump", "backup"])
    run(node, "backup")
    run(node, "backup")
    assert not node.under_way
    nominal = run(node, "dump")
    assert node.under_way["upload"].nominal == nominal
    node.end("upload")
    run(node, "dump")
    assert not node.under_way, "backup has not succeeded since"
    run(node, "backup")
    assert list(node.under_way) == ["upload"]


def test_what_parents_did_before_the_task_was_defined_does_not_count(node: HandDrivenNode) -> None:
    parents(node, "backup")
    run(node, "backup")
    node.add("upload", after=["backup"])
    node.turn(SECOND)
    node.restart()
    node.turn(SECOND)
    assert not node.under_way
    run(node, "backup")
    assert list(node.under_way) == ["upload"]


def test_after_failure_runs_when_a_parent_has_failed_for_good(node: HandDrivenNode) -> None:
    parents(node, "backup", "dump")
    node.add("alarm", after_failure=["backup", "dump"])
    run(node, "backup")
    assert not node.under_way
    nominal = run(node, "dump", *FAILED)
    assert node.under_way["alarm"].nominal == nominal
    node.end("alarm")
    node.turn(SECOND)
    assert not node.under_way
    run(node, "dump", Outcome.TIMEBOXED)
    assert list(node.under_way) == ["alarm"]


def test_a_cancelled_run_chains_nothing(node: HandDrivenNode) -> None:
    a_pair(node)
    node.add("alarm", after_failure=["backup"])
    run(node, "backup", Outcome.CANCELLED)
    assert not {"upload", "alarm"} & node.under_way.keys()


def test_a_lost_run_of_a_parent_is_a_failure_only_if_it_is_not_repeated(node: HandDrivenNode) -> None:
    node.add("once", every="1d", phase="1m")
    node.add("never", every="1d", phase="1m", missed="skip")
    node.add("alarm", after_failure=["once", "never"])
    node.force("once")
    node.turn(SECOND)
    node.restart(after=SECOND)
    node.turn(0)
    assert "alarm" not in node.under_way
    node.force("never")
    node.turn(SECOND)
    node.restart(after=SECOND)
    node.turn(0)
    assert "alarm" in node.under_way


def test_a_retry_that_succeeds_counts_with_the_nominal_time_of_the_first_attempt(node: HandDrivenNode) -> None:
    parents(node, "backup")
    node.set("backup", every="1d", phase="12h", command=["true"], retries=2, backoff="10s")
    node.add("upload", after=["backup"])
    node.add("alarm", after_failure=["backup"])
    nominal = run(node, "backup", *FAILED)
    assert not node.under_way, "it tries again"
    node.turn(10 * SECOND)
    node.end("backup")
    node.turn()
    assert [(r.name, r.nominal) for r in node.under_way.values()] == [("upload", nominal)]


def test_only_the_last_attempt_that_fails_makes_a_failure_final(node: HandDrivenNode) -> None:
    parents(node, "backup")
    node.set("backup", every="1d", phase="12h", command=["true"], retries=1, backoff="10s")
    node.add("alarm", after_failure=["backup"])
    nominal = run(node, "backup", *FAILED)
    node.turn(10 * SECOND)
    node.end("backup", *FAILED)
    node.turn()
    assert [(r.name, r.nominal) for r in node.under_way.values()] == [("alarm", nominal)]


def test_a_retry_that_is_given_up_makes_the_failure_final(node: HandDrivenNode) -> None:
    parents(node, "backup")
    node.set("backup", every="1d", phase="12h", command=["true"], retries=1, backoff="1h")
    node.add("alarm", after_failure=["backup"])
    nominal = run(node, "backup", *FAILED)
    assert not node.under_way
    node.set("backup", every="1d", phase="12h", command=["true"])
    node.turn(SECOND)
    assert [(r.name, r.nominal) for r in node.under_way.values()] == [("alarm", nominal)]


def test_a_run_after_others_tries_again_with_their_nominal_time_and_gives_up_for_the_next_one(
    node: HandDrivenNode,
) -> None:
    a_pair(node, retries=5, backoff="1h")
    first = run(node, "backup")
    node.end("upload", *FAILED)
    node.turn(HOUR)
    assert (node.under_way["upload"].nominal, node.under_way["upload"].kind) == (first, RunKind.RETRY)
    node.end("upload", *FAILED)
    node.turn(SECOND)
    second = run(node, "backup")
    assert (node.under_way["upload"].nominal, node.under_way["upload"].kind) == (second, RunKind.CHAIN)
    node.end("upload")
    assert node.advance(3 * HOUR, step=MINUTE) == []


# While it waits


def test_two_successes_while_it_waits_are_one_run_and_the_older_one_is_recorded_as_coalesced() -> None:
    node = HandDrivenNode(slots=2)
    a_pair(node)
    first = run(node, "backup")
    assert list(node.under_way) == ["upload"]
    second = run(node, "backup")
    third = run(node, "backup")
    assert list(node.under_way) == ["upload"], "it still runs"
    node.end("upload")
    node.turn(SECOND)
    assert node.under_way["upload"].nominal == third
    node.end("upload")
    node.turn(SECOND)
    assert not node.under_way
    assert [record.nominal for record in runs_of(node, "upload")] == [first, third]
    assert skips_of(node, "upload") == [(second, "coalesced")]


def test_outside_its_period_it_is_skipped_with_the_reason(node: HandDrivenNode) -> None:
    node.periods(night=Period(ranges=("22:00-23:00",)))
    a_pair(node, period="night")
    nominal = run(node, "backup")
    assert not node.under_way
    assert skips_of(node, "upload") == [(nominal, "period closed")]
    node.advance(24 * HOUR, step=MINUTE)
    assert len(skips_of(node, "upload")) == 2, "and that of the next day, never made up for"
    assert runs_of(node, "upload") == []


def test_a_limit_holds_and_the_run_waits_for_it(node: HandDrivenNode) -> None:
    node.limits(db=1)
    a_pair(node, limit="db")
    node.add("other", every="1d", phase="12h", limit="db")
    node.force("other")
    node.turn()
    run(node, "backup")
    assert list(node.under_way) == ["other"]
    node.end("other")
    node.turn(SECOND)
    assert list(node.under_way) == ["upload"]


def test_a_forced_run_while_nothing_is_due_uses_nothing(node: HandDrivenNode) -> None:
    a_pair(node)
    run(node, "upload")
    run(node, "backup")
    assert list(node.under_way) == ["upload"]


# Pause, change, removal


def test_a_success_that_comes_while_it_is_paused_is_skipped(node: HandDrivenNode) -> None:
    a_pair(node)
    node.pause("upload")
    nominal = run(node, "backup")
    assert skips_of(node, "upload") == [(nominal, "disabled")]
    node.pause("upload", paused=False)
    node.turn(SECOND)
    assert not node.under_way
    run(node, "backup")
    assert list(node.under_way) == ["upload"]


def test_what_was_due_before_a_pause_is_made_after_it(node: HandDrivenNode) -> None:
    node.limits(db=1)
    a_pair(node, limit="db")
    node.add("other", every="1d", phase="12h", limit="db")
    node.force("other")
    node.turn()
    nominal = run(node, "backup")
    node.pause("upload")
    node.end("other")
    node.turn(SECOND)
    node.restart(after=MINUTE)
    node.turn(SECOND)
    assert not node.under_way
    node.pause("upload", paused=False)
    node.turn(SECOND)
    assert node.under_way["upload"].nominal == nominal


def test_a_paused_parent_is_waited_for(node: HandDrivenNode) -> None:
    a_pair(node)
    node.pause("backup")
    assert node.advance(HOUR, step=MINUTE) == []
    assert skips_of(node, "upload") == []
    run(node, "backup")
    assert list(node.under_way) == ["upload"], "forced runs of a paused parent count"


def test_an_edit_keeps_what_it_waits_for(node: HandDrivenNode) -> None:
    parents(node, "backup", "dump")
    node.add("upload", after=["backup", "dump"])
    run(node, "backup")
    node.set("upload", after=["backup", "dump"], command=["false"], priority=3)
    node.restart(after=MINUTE)
    run(node, "dump")
    assert list(node.under_way) == ["upload"]


def test_a_parent_that_is_taken_away_is_not_waited_for_any_more(node: HandDrivenNode) -> None:
    parents(node, "backup", "dump")
    node.add("upload", after=["dump", "backup"])
    nominal = run(node, "backup")
    node.set("upload", after=["backup"], command=["true"])
    (made,) = node.turn(SECOND)
    assert (made.name, made.nominal) == ("upload", nominal)


def test_of_a_new_parent_only_what_follows_the_edit_counts(node: HandDrivenNode) -> None:
    parents(node, "backup", "dump")
    node.add("upload", after=["backup"])
    node.add("other", after=["dump"])
    run(node, "dump")
    node.end("other")
    node.set("upload", after=["dump"], command=["true"])
    node.turn(SECOND)
    node.restart(after=SECOND)
    node.turn(SECOND)
    assert not node.under_way
    run(node, "dump")
    assert set(node.under_way) == {"upload", "other"}


@pytest.mark.parametrize("is_live", [True, False])
def test_a_task_that_gets_times_of_its_own_makes_up_for_the_run_that_it_owes(
    node: HandDrivenNode, *, is_live: bool
) -> None:
    node.limits(db=1)
    a_pair(node, limit="db")
    node.add("other", every="1d", phase="12h", limit="db")
    node.force("other")
    node.turn()
    nominal = run(node, "backup")
    by_time = task_from_table("upload", {"every": "1d", "phase": "12h", "command": ["true"]}, check=False)
    if is_live:
        node.set("upload", every="1d", phase="12h", command=["true"])
        node.end("other")
    else:
        node.store.update([(node.admin.find_or_raise("upload").number, by_time)], node.clock.now())
        node.restart(after=SECOND)
    made = node.advance(2 * MINUTE)
    assert [(r.name, r.kind) for r in made if r.name == "upload"] == [("upload", RunKind.CATCH_UP)]
    assert skips_of(node, "upload") == [(nominal, "coalesced")]
    node.set("upload", after=["backup"], command=["true"])
    node.turn(SECOND)
    assert "upload" not in node.under_way


def test_a_removal_while_it_waits_is_recorded(node: HandDrivenNode) -> None:
    node.limits(db=1)
    a_pair(node, limit="db")
    node.add("other", every="1d", phase="12h", limit="db")
    node.force("other")
    node.turn()
    nominal = run(node, "backup")
    number = node.admin.find_or_raise("upload").number
    node.remove("upload")
    node.end("other")
    node.turn(SECOND)
    assert not node.under_way
    assert [(skip.first, skip.reason) for skip in node.store.skips(number)] == [(nominal, "removed")]


# Stops and clocks


def test_a_run_that_is_due_when_the_node_is_killed_is_made_by_the_next_one_once(node: HandDrivenNode) -> None:
    a_pair(node, phase="1m")
    begin(node)
    node.turns.is_claiming = False  # killed between the end of the parent and the claim
    node.end("backup", lasted=MINUTE)
    node.turn()
    node.restart(after=3 * HOUR)
    made = node.turn(SECOND)
    assert [(r.name, r.nominal, r.kind) for r in made] == [("upload", T0 + MINUTE, RunKind.CHAIN)]
    node.end("upload")
    node.turn()
    node.restart(after=SECOND)
    assert node.advance(MINUTE) == []
    assert skips_of(node, "upload") == []


def test_a_wait_for_the_other_parent_outlives_a_stop(node: HandDrivenNode) -> None:
    parents(node, "backup", "dump")
    node.add("upload", after=["backup", "dump"])
    nominal = run(node, "backup")
    node.restart(after=MINUTE)
    run(node, "dump")
    assert node.under_way["upload"].nominal == nominal


@pytest.mark.parametrize("missed", ["once", "skip"])
def test_a_claimed_run_that_was_lost_is_repeated_as_missed_says(node: HandDrivenNode, missed: str) -> None:
    a_pair(node, missed=missed)
    run(node, "backup")
    assert list(node.under_way) == ["upload"]
    node.restart(after=SECOND)
    made = [r.kind for r in node.advance(2 * MINUTE) if r.name == "upload"]
    assert made == ([RunKind.CATCH_UP] if missed == "once" else [])


def test_a_clock_that_is_set_back_neither_loses_nor_doubles_what_is_due() -> None:
    node = HandDrivenNode()
    node.limits(db=1)
    a_pair(node, limit="db")
    node.add("other", every="1d", phase="12h", limit="db")
    node.force("other")
    node.turn(SECOND)
    node.advance(HOUR, step=MINUTE)
    run(node, "backup")
    node.clock_is_set(-30 * MINUTE)
    node.end("other")
    node.turn(SECOND)
    assert list(node.under_way) == ["upload"]
    node.end("upload")
    node.turn(SECOND)
    assert not node.under_way
    run(node, "backup")
    assert list(node.under_way) == ["upload"], "a success after the step is newer, though its time is earlier"


def test_a_new_check_that_follows_a_task_has_no_first_run(node: HandDrivenNode) -> None:
    parents(node, "backup")
    node.add("backup is complete", after=["backup"], check=True)
    assert node.turn(30 * SECOND) == []
    run(node, "backup")
    node.end("backup is complete", Outcome.FAILED, 2)
    node.turn()
    assert node.condition("backup is complete").state == 2


def test_its_lateness_counts_from_the_end_of_its_parent(node: HandDrivenNode) -> None:
    a_pair(node, phase="1m")
    begin(node)
    node.end("backup", lasted=HOUR)
    node.turn()
    node.end("upload", lasted=SECOND)
    node.turn()
    assert max(node.turns.counts.lateness) < 2
