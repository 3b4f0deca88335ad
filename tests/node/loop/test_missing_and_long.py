"""Missing results and unusually long runs become problems of a live node, and go again; after restarts and removals."""

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.model import HOUR, MINUTE, SECOND, Instant
from evenbeat.node.loop.missing_and_long import LOOK_INTERVAL, TimedProblemsWatch
from evenbeat.store.contract import Filter, ProblemFilter


class Watched:
    """A node driven by hand that is looked at as often as a live one."""

    def __init__(self, *, slots: int | None = None) -> None:
        self.driven = HandDrivenNode(slots=slots)
        self.watch = TimedProblemsWatch(self.driven.turns, Instant(self.driven.now))

    def pass_by(self, length: int) -> None:
        for _ in range(length // LOOK_INTERVAL):
            self.driven.turn(LOOK_INTERVAL)
            self.watch.look(Instant(self.driven.now))

    def restart(self, after: int = 0) -> None:
        self.driven.restart(after)
        self.watch = TimedProblemsWatch(self.driven.turns, Instant(self.driven.now))

    def words(self, name: str) -> list[str]:
        """The problems of a task, oldest first: cause, state, and why it closed."""
        found = self.driven.store.problems(ProblemFilter(tasks=Filter(names=(name,)), is_open=None))
        return [
            f"{p.cause} {p.state.name}" + ("" if p.closed is None else f", closed {p.reason}".rstrip())
            for p in found[::-1]
        ]

    def holds(self, name: str) -> list[str]:
        """Why nobody is told of its open problems."""
        return [p.hold for p in self.driven.store.problems(ProblemFilter(tasks=Filter(names=(name,))))]


@pytest.fixture
def node() -> Watched:
    return Watched()


class TestLongRuns:
    def begin(self, node: Watched) -> None:
        run = node.driven.under_way.get("a") or next(iter(node.driven.turn(MINUTE)))
        node.driven.turns.add_starts([(run.token, node.driven.now)])
        node.driven.turn()

    def test_a_run_that_lasts_longer_than_its_task_says_is_a_problem_until_it_ends(self, node: Watched) -> None:
        node.driven.add("a", every="1m", phase="0s", longer_than="30s")
        self.begin(node)
        node.pass_by(30 * SECOND)
        assert node.words("a") == []
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["long WARNING"]
        node.pass_by(10 * MINUTE)
        assert node.words("a") == ["long WARNING"], "the same one, however long it lasts"
        node.driven.end("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["long WARNING, closed"]

    def test_by_default_an_hour_is_nothing_unusual(self, node: Watched) -> None:
        node.driven.add("a", every="1m", phase="0s")
        self.begin(node)
        node.pass_by(HOUR)
        assert node.words("a") == []
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["long WARNING"]

    def test_while_its_task_is_paused_it_is_told_to_nobody_and_a_restart_knows_that(self, node: Watched) -> None:
        node.driven.add("a", every="1m", phase="0s", longer_than="30s")
        self.begin(node)
        node.pass_by(MINUTE)
        assert node.holds("a") == [""]
        node.driven.pause("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.holds("a") == ["paused"]
        node.driven.pause("a", paused=False)
        node.pass_by(LOOK_INTERVAL)
        assert node.holds("a") == [""]

    def test_it_closes_with_a_restart_that_loses_the_run(self, node: Watched) -> None:
        node.driven.add("a", every="1d", phase="1m", longer_than="30s", missed="skip")
        self.begin(node)
        node.pass_by(MINUTE)
        assert node.words("a") == ["long WARNING"]
        node.restart(MINUTE)
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a")[0] == "long WARNING, closed"

    def test_it_closes_with_its_task_and_a_task_that_returns_has_it_only_as_long_as_the_run(
        self, node: Watched
    ) -> None:
        node.driven.add("a", every="1m", phase="0s", longer_than="30s")
        self.begin(node)
        node.pass_by(MINUTE)
        node.driven.remove("a")
        assert node.words("a") == ["long WARNING, closed removed"]
        node.pass_by(MINUTE)
        node.driven.add("a", every="1m", phase="0s", longer_than="30s")
        assert node.words("a") == ["long WARNING"], "its run has not ended, so it is the same task"
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["long WARNING"]
        node.driven.end("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["long WARNING, closed"]


class TestMissingResults:
    def test_a_check_that_waits_for_a_slot_has_a_problem_until_its_result_is_there(self) -> None:
        node = Watched(slots=1)
        node.driven.add("hog", every="1d", phase="0s")
        node.driven.force("hog")
        node.driven.turn(SECOND)
        node.driven.add("a", check=True, every="5m", phase="1m")
        node.driven.force("a")
        node.pass_by(90 * SECOND)
        assert node.words("a") == []
        node.pass_by(10 * MINUTE)
        assert node.words("a") == ["stale UNKNOWN"]
        node.driven.end("hog")
        node.driven.turn()
        assert "a" in node.driven.under_way
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN"], "it runs, but its result is not there"
        node.driven.end("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN, closed"]

    def test_a_result_ends_it_also_if_the_next_run_begins_at_once(self) -> None:
        node = Watched(slots=1)
        node.driven.add("hog", every="1d", phase="0s")
        node.driven.force("hog")
        node.driven.turn(SECOND)
        node.driven.add("a", check=True, every="5m", phase="1m")
        node.pass_by(15 * MINUTE)
        assert node.words("a") == ["stale UNKNOWN"]
        node.driven.end("hog")
        node.driven.turn()
        node.driven.force("a")
        node.driven.end("a")
        node.pass_by(LOOK_INTERVAL)
        assert "a" in node.driven.under_way
        assert node.words("a") == ["stale UNKNOWN, closed"]

    def test_a_pause_ends_it(self) -> None:
        node = Watched(slots=1)
        node.driven.add("hog", every="1d", phase="0s")
        node.driven.force("hog")
        node.driven.turn(SECOND)
        node.driven.add("a", check=True, every="5m", phase="1m")
        node.pass_by(15 * MINUTE)
        assert node.words("a") == ["stale UNKNOWN"]
        node.driven.pause("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN, closed"]

    def test_after_the_machine_slept_nothing_is_missing_yet(self) -> None:
        node = Watched(slots=1)
        node.driven.add("hog", every="1d", phase="0s")
        node.driven.force("hog")
        node.driven.turn(SECOND)
        node.driven.add("a", check=True, every="5m", phase="1m")
        node.driven.now += 30 * MINUTE
        node.pass_by(30 * SECOND)
        assert node.words("a") == []
        node.pass_by(5 * MINUTE)
        assert node.words("a") == ["stale UNKNOWN"]


class TestMissingFromBefore:
    """A stop and a sleep bring no result: who was told that one is missing is not told that it came."""

    def node(self) -> Watched:
        node = Watched(slots=1)
        node.driven.add("hog", every="1d", phase="0s", missed="skip")
        node.driven.force("hog")
        node.driven.turn(SECOND)
        node.driven.add("a", check=True, every="5m", phase="1m", priority=-1)
        node.pass_by(15 * MINUTE)
        assert node.words("a") == ["stale UNKNOWN"]
        return node

    def run_hog_again(self, node: Watched) -> None:
        node.driven.force("hog")
        node.driven.turn()
        assert "hog" in node.driven.under_way

    def ends_with_a_result(self, node: Watched) -> None:
        node.pass_by(20 * MINUTE)
        assert node.words("a") == ["stale UNKNOWN"], "the same problem"
        node.driven.end("hog")
        node.driven.turn(5 * MINUTE)
        node.driven.end("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN, closed"]

    def test_it_outlasts_a_stop_of_the_node(self) -> None:
        node = self.node()
        node.restart(MINUTE)
        self.run_hog_again(node)
        self.ends_with_a_result(node)

    def test_it_outlasts_a_sleep_of_the_machine(self) -> None:
        node = self.node()
        node.driven.now += 30 * MINUTE
        self.ends_with_a_result(node)

    @pytest.mark.parametrize("by", [-HOUR, HOUR])
    def test_it_outlasts_a_set_clock(self, by: int) -> None:
        node = self.node()
        node.driven.clock_is_set(by)
        self.ends_with_a_result(node)

    def test_a_catch_up_run_ends_it(self) -> None:
        node = self.node()
        node.restart(MINUTE)
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN"]
        node.driven.end("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN, closed"]

    def test_a_pause_ends_it(self) -> None:
        node = self.node()
        node.restart(MINUTE)
        self.run_hog_again(node)
        node.driven.pause("a")
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN, closed"]

    def test_a_task_that_does_not_run_any_more_misses_nothing(self) -> None:
        node = Watched(slots=1)
        node.driven.add("hog", every="1d", phase="0s", missed="skip")
        node.driven.force("hog")
        node.driven.turn(SECOND)
        node.driven.add("a", at="2024-10-04T00:10Z", missed="skip", timebox="1m")
        node.pass_by(HOUR)
        assert node.words("a") == ["stale UNKNOWN"]
        node.restart(MINUTE)
        node.pass_by(LOOK_INTERVAL)
        assert node.words("a") == ["stale UNKNOWN, closed"]
