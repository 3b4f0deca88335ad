"""Problems of the node itself: of what lasts a contact is told, at most hourly, and of its end."""

from evenbeat.core.problems_of_node import ALWAYS, OwnProblems, OwnWishes
from evenbeat.model import HOUR, SECOND


class Told:
    """A contact that is told, every ten seconds, what is new."""

    def __init__(self) -> None:
        self.known = OwnProblems()
        self.now = 0
        self.log: list[str] = []

    def look(self, *kinds: str, seconds: int = 10, wishes: OwnWishes = ALWAYS, is_delivered: bool = True) -> None:
        for _ in range(0, seconds, 10):
            self.now += 10 * SECOND
            begun, over = self.known.look(dict.fromkeys(kinds, "words"), self.now, wishes)
            if not (begun or over):
                continue
            self.known.was_told(begun, over, self.now)
            self.log += [f"+{problem.kind}" for problem in begun] + [f"-{problem.kind}" for problem in over]
            if not is_delivered:
                self.known.was_not_told(begun, over, self.now)


def test_what_lasts_is_told_once_and_then_its_end() -> None:
    told = Told()
    told.look("store")
    told.look()
    assert told.log == []
    told.look("store", seconds=600)
    told.look("store", "disk", seconds=600)
    told.look("disk", seconds=600)
    assert told.log == ["+store", "+disk", "-store"]


def test_the_same_is_told_at_most_hourly() -> None:
    told = Told()
    for _ in range(12):
        told.look("late", seconds=300)
        told.look(seconds=300)
    assert told.log == ["+late", "-late"] * 2
    assert told.now == 2 * HOUR


def test_what_could_not_be_delivered_is_tried_again_a_minute_later() -> None:
    told = Told()
    told.look("store", seconds=130, is_delivered=False)
    assert told.log == ["+store"] * 2
    told.look("store", seconds=60)
    assert told.log == ["+store"] * 3
    told.look(seconds=10, is_delivered=False)
    told.look(seconds=120)
    assert told.log == ["+store"] * 3 + ["-store"] * 2


def test_a_clock_that_is_set_back_does_not_silence_the_node() -> None:
    told = Told()
    told.now = 2_000 * HOUR
    told.look("store", seconds=60)
    told.look("store", "disk", seconds=30, is_delivered=False)
    told.now -= 1_000 * HOUR
    told.look("store", "disk", seconds=90)
    assert told.log == ["+store", "+disk", "+disk"], "tried again"
    told.look("disk", seconds=3_600)
    told.look("store", "disk", seconds=60)
    assert told.log[3:] == ["-store", "+store"], "told again"


def test_a_contact_may_want_to_hear_only_of_what_lasts_longer() -> None:
    told = Told()
    told.look("store", seconds=300, wishes=OwnWishes(HOUR))
    assert told.log == []
    told.look("store", seconds=3_600, wishes=OwnWishes(HOUR))
    assert told.log == ["+store"]


def test_what_may_not_be_told_now_is_told_as_soon_as_it_may_if_it_is_still_wrong() -> None:
    told = Told()
    closed = OwnWishes(may_be_told_at=HOUR)
    told.look("store", seconds=600, wishes=closed)
    told.look(wishes=closed)
    told.look("late", seconds=2_980, wishes=closed)
    assert (told.log, told.now) == ([], HOUR - 10 * SECOND)
    told.look("late", wishes=closed)
    assert told.log == ["+late"]


def test_an_end_waits_too_and_is_told_however_long_ago_it_was() -> None:
    told = Told()
    told.look("store", seconds=60)
    told.look(seconds=2 * HOUR // SECOND, wishes=OwnWishes(may_be_told_at=3 * HOUR))
    assert told.log == ["+store"]
    told.look()
    assert told.log == ["+store", "-store"]


def test_a_state_that_the_contact_does_not_take_is_not_told_but_an_end_is() -> None:
    told = Told()
    told.look("store", seconds=60)
    unwanted = OwnWishes(is_wanted=False)
    told.look("store", "late", seconds=60, wishes=unwanted)
    told.look("late", seconds=60, wishes=unwanted)
    assert told.log == ["+store", "-store"]
