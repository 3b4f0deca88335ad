"""Worker processes that die again and again."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.crash_loop import DEATHS, WITHIN, CrashLoop
from evenbeat.model import SECOND


def test_a_few_deaths_are_none_and_many_within_five_minutes_are_one() -> None:
    loop = CrashLoop()
    found = [loop.look({"": deaths}, deaths * 20 * SECOND) for deaths in range(8)]
    assert found == [0, 0, 0, 0, 0, 5, 6, 7]


def test_it_is_over_when_none_has_died_for_five_minutes() -> None:
    loop = CrashLoop()
    loop.look({"": 0}, 0)
    assert loop.look({"": 5}, SECOND) == 5
    assert loop.look({"": 6}, WITHIN) == 6
    assert loop.look({"": 6}, WITHIN + SECOND) == 1
    assert loop.look({"": 6}, 2 * WITHIN) == 0
    assert loop.look({"": 7}, 2 * WITHIN + SECOND) == 0


def test_a_worker_that_comes_into_sight_again_has_lost_nothing_by_that() -> None:
    loop = CrashLoop()
    for now, deaths in enumerate(({"a": 0, "b": 100}, {"a": 0}, {"a": 0, "b": 100, "c": 50}, {"a": 0, "b": 101})):
        assert loop.look(deaths, now) == 0


@given(
    pauses=st.lists(st.integers(0, 100), max_size=60),
    deaths=st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=60, max_size=60),
)
def test_it_opens_exactly_when_so_many_died_within_five_minutes(pauses: list[int], deaths: list[int]) -> None:
    loop, now, total, log, is_open = CrashLoop(), 0, 0, [], False
    loop.look({"": 0}, 0)
    for pause, died in zip(pauses, deaths, strict=False):
        now += pause * SECOND
        total += died
        log += [now] * died
        lately = sum(at > now - WITHIN for at in log)
        is_open = lately >= DEATHS or (is_open and lately > 0)
        assert loop.look({"": total}, now) == (lately if is_open else 0)
