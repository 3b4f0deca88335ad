"""Can the oracle of the cluster tests fail? Books that are right, and every way in which a cluster could spoil them."""

from collections.abc import Callable

import cluster_oracle
import pytest
from cluster_oracle import ClusterRecords, Sighting
from run_oracle import Evidence, Line, Run, Skip, Task

SECOND = 1_000_000
BEGIN = 1_800_000_000 * SECOND
FENCE = 7 << 32


def at(second: float) -> int:
    return BEGIN + round(second * SECOND)


class Draft:
    """A minute of two tasks that share a limit of one: a worker died in second 20, and what it ran was made up for."""

    def __init__(self) -> None:
        self.lines = [Line("begun", str(at(0) - 1), 0, 1, at(0))]
        self.runs: dict[str, list[Run]] = {"a": [], "b": []}
        self.skips: dict[str, list[Skip]] = {"a": [], "b": []}
        self.sightings: list[Sighting] = []
        self._tokens = 0
        self.known: int | None = None
        for second in range(0, 60, 2):
            if second == 20:
                self.run("a", 20, outcome="lost", ends=False)
                self.lines += [Line("fault", "worker", 0, 1, at(20.5)), Line("healed", "worker", 0, 1, at(21))]
                self.skips["a"].append(Skip(at(22), at(28), 4, "coalesced"))
            elif second == 30:
                self._tokens += 1 << 32
                self.run("a", 29.5, kind=2)
                self.run("a", 30)
            elif second > 30 or second < 20:
                self.run("a", second)
            self.run("b", second + 1)
        self.run("a", 60, outcome="open", ends=False)
        self.lines.append(Line("settled", str(at(59)), 0, 1, at(59)))

    def run(self, name: str, second: float, *, outcome: str = "succeeded", kind: int = 0, ends: bool = True) -> None:
        """Claimed, begun and ended at once."""
        self._tokens += 1
        self.runs[name].append(Run(at(second), kind, 0, at(second), outcome))
        self.sightings.append(Sighting(name, at(second), kind, at(second), FENCE + self._tokens))
        self.begin(name, second)
        if ends:
            self.lines.append(Line("end", name, at(second), 1, at(second + 0.2)))

    def begin(self, name: str, second: float, *, really: float | None = None) -> None:
        self.lines.append(Line("start", name, at(second), 1, at(second if really is None else really)))

    def find(self, word: str, name: str, second: float) -> int:
        """The place of a line."""
        wanted = (word, name, at(second))
        (found,) = [i for i, line in enumerate(self.lines) if (line.word, line.name, line.nominal) == wanted]
        return found

    def change(self, name: str, second: float, **changes: object) -> None:
        """A row of the history becomes another."""
        (i,) = [i for i, run in enumerate(self.runs[name]) if run.nominal == at(second)]
        self.runs[name][i] = self.runs[name][i]._replace(**changes)  # type: ignore[arg-type]

    def forget(self, name: str, second: float) -> None:
        self.runs[name] = [run for run in self.runs[name] if run.nominal != at(second)]

    def see(self, name: str, second: float, token: int) -> None:
        self.sightings.append(Sighting(name, at(second), 0, at(second), FENCE + token))

    def findings(self) -> list[str]:
        tasks = [
            Task(name, at(-10), None, at(following) - 1, _definition(phase), None, self.runs[name], self.skips[name])
            for name, following, phase in (("a", 62, 0), ("b", 61, 1))
        ]
        evidence = Evidence(self.lines, tasks, {"one": 1}, [])
        known = len(self.lines) if self.known is None else self.known
        return cluster_oracle.findings(ClusterRecords(evidence, known, self.sightings, at(62)), is_timed=True)


def _definition(phase: int) -> dict[str, object]:
    return {"schedule": {"every": 2 * SECOND, "phase": phase * SECOND}, "limit": "one"}


def _double_claim(draft: Draft) -> None:
    """Two nodes, each sure that the task is its own."""
    draft.runs["a"].append(Run(at(10), 0, 0, at(10.1), "succeeded"))
    draft.begin("a", 10, really=10.1)
    draft.see("a", 10, token=900)


def _lost_run(draft: Draft) -> None:
    """Claimed, and then nobody knows of it any more."""
    draft.forget("a", 10)


def _silent_makeup(draft: Draft) -> None:
    """What was lost is not made up for, and the task does not go on."""
    draft.runs["a"] = [run for run in draft.runs["a"] if run.nominal <= at(20)]


def _overlap(draft: Draft) -> None:
    """The worker that was cut off did not end what it ran."""
    draft.lines.append(Line("overlap", "a", at(29.5), 1, at(29.6)))


def _crowd(draft: Draft) -> None:
    """Two nodes, each with the whole limit."""
    end = draft.lines.pop(draft.find("end", "a", 10))
    draft.lines.insert(draft.find("start", "b", 11) + 1, end)


def _dropped_result(draft: Draft) -> None:
    """The worker told how it ended, and was told that this is safe; it was not."""
    draft.change("a", 50, outcome="lost")


def _unstored_result(draft: Draft) -> None:
    draft.change("a", 40, outcome="open")


def _early(draft: Draft) -> None:
    """A node goes by its own clock, five minutes ahead."""
    draft.lines[draft.find("start", "a", 50)] = Line("start", "a", at(50), 1, at(-250))


def _late(draft: Draft) -> None:
    """... or behind."""
    draft.lines[draft.find("start", "a", 50)] = Line("start", "a", at(50), 1, at(350))


def _old_token(draft: Draft) -> None:
    """A claim of a node that had been buried got through."""
    draft.sightings = [seen._replace(token=1) if seen.nominal == at(50) else seen for seen in draft.sightings]


def _same_token(draft: Draft) -> None:
    first = draft.sightings[0]
    draft.sightings[1] = draft.sightings[1]._replace(token=first.token)


def _not_back(draft: Draft) -> None:
    draft.lines = [line for line in draft.lines if not (line.name == "b" and 21 <= (line.at - BEGIN) / SECOND < 40)]


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (_double_claim, "a: nominal {10} is accounted for 2 times"),
        (_double_claim, "a: the run of {10} has 2 results"),
        (_double_claim, "a: the run of {10} began 2 times"),
        (_double_claim, "was claimed with token"),
        (_lost_run, "a: nominal {10} is not accounted for"),
        (_lost_run, "a: a run of {10} began that the store does not know"),
        (_silent_makeup, "a: what was missed at {20} was never made up for"),
        (_overlap, "met another that still lived"),
        (_crowd, "run 2 of at most 1 under 'one'"),
        (_dropped_result, "a: the run of {50} is recorded lost, though nothing was wrong"),
        (_unstored_result, "a: the run of {40} has ended, and its result was never stored"),
        (_early, "before its time"),
        (_late, "and was claimed at {50}"),
        (_old_token, "a: the run of {50} has token 1, and an earlier one had"),
        (_same_token, "belongs to [('a',"),
        (_not_back, "b: healed at {21}, and no run began within 15 s"),
    ],
)
def test_what_is_wrong_is_found(spoil: Callable[[Draft], None], found: str) -> None:
    draft = Draft()
    assert draft.findings() == []
    spoil(draft)
    wanted = found
    for second in range(60):
        wanted = wanted.replace(f"{{{second}}}", str(at(second)))
    assert any(wanted in finding for finding in draft.findings()), draft.findings()


def test_a_run_that_began_after_the_store_was_asked_is_no_finding() -> None:
    draft = Draft()
    draft.known = len(draft.lines)
    draft.begin("a", 62)
    assert draft.findings() == []
    draft.known += 1
    assert draft.findings() == [f"a: a run of {at(62)} began that the store does not know"]


def test_a_run_that_is_recorded_and_never_was_is_found() -> None:
    draft = Draft()
    del draft.lines[draft.find("end", "b", 11)], draft.lines[draft.find("start", "b", 11)]
    assert draft.findings() == [f"b: the run of {at(11)} is recorded succeeded, but did not end"]


def test_something_that_never_heals_excuses_losses_until_the_end() -> None:
    draft = Draft()
    draft.change("a", 50, outcome="lost")
    draft.lines = [line for line in draft.lines if line.word != "healed"]
    assert draft.findings() == []


def test_what_is_due_while_a_run_goes_on_need_not_begin() -> None:
    draft = Draft()
    _not_back(draft)
    assert any("no run began" in finding for finding in draft.findings())
    draft.lines += [Line("start", "b", at(19), 77, at(19.5)), Line("end", "b", at(19), 77, at(39))]
    assert not any("no run began" in finding for finding in draft.findings())
    draft.lines[-1] = draft.lines[-1]._replace(at=at(25))
    assert any("no run began" in finding for finding in draft.findings()), "of those after its end one should have"


def test_a_run_that_waited_long_for_the_queue_is_not_taken_for_its_retry_that_was_claimed_soon_after() -> None:
    runs = [Run(at(0), 0, 0, at(0), "failed"), Run(at(0), 3, 0, at(11), "succeeded")]
    task = Task("a", at(-10), None, at(2) - 1, _definition(0), None, runs, [])
    starts = [Line("start", "a", at(0), 1, at(second)) for second in (8, 11.2)]
    assert cluster_oracle._untimely(task, starts) == []
    assert len(cluster_oracle._untimely(task, [Line("start", "a", at(0), 1, at(-3))])) == 2
