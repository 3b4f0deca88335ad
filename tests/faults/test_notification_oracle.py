"""Can the oracle of the notification tests fail? What arrived when all is right, and every way to spoil it."""

from collections.abc import Callable

import pytest
from fickle_receivers import REFUSED, TAKEN, UNCLEAR, Arrival, ArrivedItem
from notification_oracle import CheckResult, Decided, Evidence, Message, Problem, Quiet, findings

S = 1_000_000


def problem(number: int, task: str = "web", state: str = "critical", kind: str = "problem") -> ArrivedItem:
    return ArrivedItem(kind, reminder=False, task=task, problem=number, state=state)


def arrival(at: int, message: int, *items: ArrivedItem, verdict: str = TAKEN, is_marked: bool = False) -> Arrival:
    return Arrival(at * S, "ops", verdict, message, is_marked, items)


class Draft:
    """`web` fails from second 10 to 30 and from 40 on: each time ops is told, and once of the recovery."""

    def __init__(self) -> None:
        self.arrivals = [
            arrival(11, 1, problem(1), verdict=REFUSED),
            arrival(12, 1, problem(1), verdict=UNCLEAR),
            arrival(13, 1, problem(1), is_marked=True),
            arrival(31, 2, problem(1, kind="recovery")),
            arrival(41, 3, problem(2)),
        ]
        self.problems = [
            Problem(1, "web", "state", 10 * S, 30 * S, ""),
            Problem(2, "web", "state", 40 * S, None, ""),
        ]
        self.decisions = [
            Decided(11 * S, 1, "ops", "sent", "", 1, "problem"),
            Decided(31 * S, 1, "ops", "sent", "", 2, "recovery"),
            Decided(41 * S, 2, "ops", "sent", "", 3, "problem"),
        ]
        self.messages = [Message(i + 1, "ops", at * S, "delivered") for i, at in enumerate((11, 31, 41))]
        self.results = [CheckResult("web", at * S, state, hard=True) for at, state in ((10, 2), (30, 0), (40, 2))]
        self.quiet: list[Quiet] = []
        self.unsettled = 0

    def findings(self) -> list[str]:
        return findings(
            Evidence(
                self.arrivals,
                self.problems,
                self.decisions,
                self.messages,
                self.results,
                {"web": ("ops",)},
                self.quiet,
                self.unsettled,
            )
        )

    def replace(self, at: int, *items: ArrivedItem) -> None:
        """Another message arrived instead, and that is what was decided."""
        old = self.arrivals[at]
        self.arrivals[at] = old._replace(items=items)
        self.decisions = [d for d in self.decisions if d.message != old.message]
        self.decisions += [Decided(old.at, i.problem, "ops", "sent", "", old.message, i.kind) for i in items]

    def more(self, at: int, message: int, *items: ArrivedItem) -> None:
        """One more message arrived."""
        self.messages.append(Message(message, "ops", at * S, "delivered"))
        self.arrivals.append(arrival(at, message))
        self.replace(-1, *items)


def _unmarked(draft: Draft) -> None:
    draft.arrivals[2] = draft.arrivals[2]._replace(is_marked=False)


def _another_text(draft: Draft) -> None:
    draft.arrivals[2] = draft.arrivals[2]._replace(items=(problem(1, state="warning"),))


def _lost_message(draft: Draft) -> None:
    del draft.arrivals[-1]


def _lost_recovery(draft: Draft) -> None:
    del draft.arrivals[3], draft.decisions[1], draft.messages[1]


def _two_recoveries(draft: Draft) -> None:
    draft.more(50, 4, problem(1, kind="recovery"))


def _recovery_alone(draft: Draft) -> None:
    del draft.arrivals[:3], draft.decisions[0], draft.messages[0]


def _told_again(draft: Draft) -> None:
    draft.more(50, 4, problem(2))


def _reminder(draft: Draft) -> None:
    draft.more(50, 4, problem(2))
    draft.arrivals[-1] = draft.arrivals[-1]._replace(items=(problem(2)._replace(reminder=True),))
    draft.decisions[-1] = draft.decisions[-1]._replace(item="reminder")


def _recovered_though_open(draft: Draft) -> None:
    draft.more(50, 4, problem(2, kind="recovery"))


def _mixed(draft: Draft) -> None:
    draft.replace(3)
    draft.replace(4, problem(2), problem(1, kind="recovery"))


def _undecided(draft: Draft) -> None:
    del draft.decisions[-1]


def _untold(draft: Draft) -> None:
    del draft.arrivals[-1], draft.decisions[-1], draft.messages[-1]


def _unexplained(draft: Draft) -> None:
    draft.problems.append(Problem(3, "web", "state", 50 * S, 51 * S, ""))


def _unknown_message(draft: Draft) -> None:
    del draft.messages[0]


def _given_up(draft: Draft) -> None:
    draft.messages[0] = draft.messages[0]._replace(state="given up")


def _in_downtime(draft: Draft) -> None:
    draft.quiet = [Quiet("downtime", "web", 39 * S, None)]


def _in_a_long_downtime(draft: Draft) -> None:
    draft.quiet = [Quiet("downtime", "web", 41 * S, 90 * S)]
    draft.messages[2] = draft.messages[2]._replace(created=60 * S)
    draft.arrivals[-1] = draft.arrivals[-1]._replace(at=60 * S)


def _no_problem(draft: Draft) -> None:
    draft.results.insert(2, CheckResult("web", 35 * S, 2, hard=True))
    draft.results.insert(3, CheckResult("web", 36 * S, 0, hard=True))


def _before_it_was_made(draft: Draft) -> None:
    draft.messages[2] = draft.messages[2]._replace(created=45 * S)


def _unsettled(draft: Draft) -> None:
    draft.unsettled = 1


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (_unmarked, "message 1 to ops arrived 2 times without being marked"),
        (_another_text, "message 1 says something else"),
        (_lost_message, "message 3 is recorded as delivered, and no receiver has taken it"),
        (_lost_message, "ops was not told of the open problem 2"),
        (_lost_recovery, "problem 1 of web is over, and ops was not told"),
        (_two_recoveries, "problem 1 of web goes on after its recovery"),
        (_recovery_alone, "problem 1 of web began with recovery"),
        (_told_again, "problem 2 of web was told again, and was no worse"),
        (_reminder, "problem 2 of web was reminded of"),
        (_recovered_though_open, "problem 2 of web is open, and ops was told that it is over"),
        (_mixed, "problems of web are mixed"),
        (_undecided, "message 3 to ops: no decision to send"),
        (_untold, "ops was not told of the open problem 2"),
        (_unexplained, "nothing says why ops was not told of problem 3"),
        (_unknown_message, "message 1 is not kept"),
        (_given_up, "message 1 was given up"),
        (_in_downtime, "in spite of Quiet(why='downtime'"),
        (_in_a_long_downtime, "in spite of Quiet(why='downtime'"),
        (_no_problem, f"web was not OK at {35 * S}, and had no problem"),
        (_before_it_was_made, "message 3 arrived before it was made"),
        (_unsettled, "1 messages or alerts are not settled"),
    ],
)
def test_what_is_wrong_is_found(spoil: Callable[[Draft], None], found: str) -> None:
    draft = Draft()
    assert draft.findings() == []
    spoil(draft)
    assert any(found in finding for finding in draft.findings()), draft.findings()


def test_what_gets_worse_may_be_told_again() -> None:
    draft = Draft()
    draft.replace(4, problem(2, state="warning"))
    draft.more(50, 4, problem(2))
    assert draft.findings() == []


def test_what_was_about_to_leave_when_a_downtime_began_is_no_finding() -> None:
    draft = Draft()
    draft.quiet = [Quiet("downtime", "web", 40 * S + 1, None)]
    assert draft.findings() == []


def test_a_mail_that_does_not_say_the_ids_of_problems_is_judged_by_what_was_decided() -> None:
    draft = Draft()
    draft.arrivals = [
        one._replace(items=tuple(item._replace(problem=0, state="") for item in one.items)) for one in draft.arrivals
    ]
    assert draft.findings() == []
    draft.arrivals[-1] = draft.arrivals[-1]._replace(items=(problem(0, task="db"),))
    assert any("no decision to send" in finding for finding in draft.findings())
