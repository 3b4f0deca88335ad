"""Forced runs with arguments of their own: each belongs to one run, also after a crash, and merges with no other."""

from typing import Any

import msgspec
import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.admin.job_with_arguments import own_job
from evenbeat.model import MINUTE, SECOND, Job, Outcome, RunKind
from evenbeat.node.loop.jobs_with_arguments import stored_own_jobs
from evenbeat.store.contract import Conflict
from evenbeat.wire.requests import RunArguments
from evenbeat.wire.worker_frames import RunSpec


@pytest.fixture
def driven() -> HandDrivenNode:
    driven = HandDrivenNode()
    driven.add("backup", every="1h", phase="59m")
    return driven


def ask(driven: HandDrivenNode, *words: str, name: str = "backup") -> None:
    """As the node performs the request, up to the crash that a test may want."""
    store_arguments(driven, *words, name=name)
    entry = driven.admin.find_or_raise(name)
    driven.node.live.force([entry], is_own=True)


def store_arguments(driven: HandDrivenNode, *words: str, name: str = "backup") -> None:
    arguments = RunArguments(words)
    (entry,) = driven.admin.select_forced([name], "ana", arguments=arguments)
    planned = driven.node.live.own_runs.plan(entry, own_job(entry, arguments))
    assert planned is not None
    driven.store.set_settings(dict([planned]))


def words(run: RunSpec) -> tuple[str, ...]:
    return msgspec.msgpack.decode(run.job, type=Job).command


def stored(driven: HandDrivenNode) -> dict[str, str]:
    return dict(stored_own_jobs(driven.store))


def test_the_run_has_them_and_the_next_one_does_not(driven: HandDrivenNode) -> None:
    ask(driven, "--full")
    (run,) = driven.turn()
    assert (run.kind, words(run)) == (RunKind.FORCED, ("true", "--full"))
    driven.end("backup")
    driven.turn()
    assert stored(driven) == {}
    driven.force("backup")
    (run,) = driven.turn()
    assert words(run) == ("true",)


def test_a_run_on_the_grid_that_comes_first_has_its_own_words(driven: HandDrivenNode) -> None:
    driven.turn(after=59 * MINUTE)
    assert words(driven.under_way["backup"]) == ("true",)
    ask(driven, "--full")
    driven.end("backup")
    driven.turn()
    assert words(driven.under_way["backup"]) == ("true", "--full")


def test_while_one_has_not_ended_no_other_forced_run_is_taken(driven: HandDrivenNode) -> None:
    ask(driven, "--full")
    for _ in ("it waits", "it runs"):
        with pytest.raises(Conflict, match="'backup' has a run with arguments of its own that has not ended"):
            driven.force("backup")
        with pytest.raises(Conflict, match="has not ended"):
            ask(driven, "--other")
        driven.turn()
    driven.end("backup")
    driven.turn()
    driven.force("backup")
    with pytest.raises(Conflict, match="'backup' waits for a forced run already; run it with arguments when"):
        ask(driven, "--other")


@pytest.mark.parametrize("is_claimed", [False, True], ids=["it waits", "it was claimed"])
def test_a_crash_loses_neither_the_run_nor_its_arguments(driven: HandDrivenNode, is_claimed: bool) -> None:
    ask(driven, "--full")
    if is_claimed:
        driven.turn()
    driven.restart(after=SECOND)
    (run,) = driven.turn()
    assert (run.kind, words(run)) == (RunKind.FORCED, ("true", "--full"))
    driven.end("backup")
    driven.turn()
    assert stored(driven) == {}
    outcomes = [run.outcome for run in driven.store.runs()]
    assert outcomes == ([Outcome.SUCCEEDED, Outcome.LOST] if is_claimed else [Outcome.SUCCEEDED])


def test_a_crash_between_the_arguments_and_the_run_leaves_nothing(driven: HandDrivenNode) -> None:
    store_arguments(driven, "--full")
    driven.restart(after=SECOND)
    assert (driven.turn(), stored(driven)) == ([], {})


def test_arguments_that_came_after_the_claim_of_a_lost_run_are_not_those_of_that_run(driven: HandDrivenNode) -> None:
    driven.force("backup")
    driven.turn()
    driven.now += SECOND
    store_arguments(driven, "--full")
    driven.restart(after=SECOND)
    runs = driven.advance(2 * MINUTE)
    assert [words(run) for run in runs] == [("true",)]
    assert stored(driven) == {}


def test_a_run_that_is_lost_with_its_worker_is_made_again_with_them(driven: HandDrivenNode) -> None:
    ask(driven, "--full")
    driven.turn()
    driven.end("backup", Outcome.LOST, None)
    (run,) = driven.turn()
    assert (run.kind, words(run)) == (RunKind.FORCED, ("true", "--full"))
    driven.end("backup")
    driven.turn()
    assert stored(driven) == {}


def test_what_is_missed_may_be_skipped(driven: HandDrivenNode) -> None:
    driven.add("once", every="1h", phase="59m", missed="skip")
    ask(driven, "--full", name="once")
    driven.turn()
    driven.end("once", Outcome.LOST, None)
    assert (driven.turn(), stored(driven)) == ([], {})


@pytest.mark.parametrize("is_running", [False, True], ids=["it waits", "it runs"])
def test_a_task_that_is_removed_takes_them_along(driven: HandDrivenNode, is_running: bool) -> None:
    ask(driven, "--full")
    if is_running:
        driven.turn()
    driven.remove("backup")
    if is_running:
        driven.end("backup")
    driven.turn()
    assert stored(driven) == {}


def test_an_edit_meanwhile_does_not_change_what_was_asked_for(driven: HandDrivenNode) -> None:
    ask(driven, "--full")
    keys: dict[str, Any] = {"every": "1h", "phase": "59m"}
    driven.set("backup", function="m:f", **keys)
    (run,) = driven.turn()
    assert (words(run), driven.functions) == (("true", "--full"), [None])


def test_the_audit_has_names_and_no_values(driven: HandDrivenNode) -> None:
    driven.add("f", function="m:f", every="1h", phase="59m")
    arguments = RunArguments(("x",), {"password": "secret"}, {"TOKEN": "secret"})
    driven.admin.select_forced(["f"], "ana", arguments=arguments)
    assert driven.audit()[0].detail == "with arguments: 1 positional, password, env.TOKEN"


class TestRetries:
    @pytest.fixture
    def trying(self) -> HandDrivenNode:
        driven = HandDrivenNode()
        driven.add("backup", every="1h", phase="59m", retries=2, backoff="1m")
        ask(driven, "--full")
        driven.turn()
        driven.end("backup", Outcome.FAILED, 1)
        driven.turn()
        return driven

    @pytest.mark.parametrize("is_restarted", [False, True], ids=["live", "after a crash"])
    def test_a_retry_has_the_arguments_of_its_run(self, trying: HandDrivenNode, is_restarted: bool) -> None:
        if is_restarted:
            trying.restart(after=SECOND)
        for outcome in (Outcome.FAILED, Outcome.SUCCEEDED):
            with pytest.raises(Conflict, match="has not ended"):
                trying.force("backup")
            (run,) = trying.turn(after=3 * MINUTE)
            assert (run.kind, words(run)) == (RunKind.RETRY, ("true", "--full"))
            trying.end("backup", outcome, 0 if outcome is Outcome.SUCCEEDED else 1)
            trying.turn()
        assert stored(trying) == {}
        trying.force("backup")
        assert words(trying.turn()[0]) == ("true",)

    def test_a_crash_during_a_retry_repeats_it_with_them(self, trying: HandDrivenNode) -> None:
        trying.turn(after=2 * MINUTE)
        trying.restart(after=SECOND)
        (run,) = trying.turn()
        assert (run.kind, words(run)) == (RunKind.FORCED, ("true", "--full"))

    def test_a_retry_that_is_given_up_takes_them_along(self, trying: HandDrivenNode) -> None:
        trying.set("backup", every="1h", phase="59m", command=["true"])
        trying.force("backup")
        assert words(trying.turn()[0]) == ("true",)
        trying.end("backup")
        trying.turn()
        assert stored(trying) == {}

    def test_the_retry_of_a_run_on_the_grid_has_none(self, trying: HandDrivenNode) -> None:
        trying.turn(after=2 * MINUTE)
        trying.end("backup")
        trying.turn(after=59 * MINUTE)
        trying.end("backup", Outcome.FAILED, 1)
        trying.turn()
        (run,) = trying.turn(after=2 * MINUTE)
        assert (run.kind, words(run)) == (RunKind.RETRY, ("true",))
