"""The search for garbage pauses while much is read, and does not begin with all of it afterwards."""

import gc
from collections.abc import Iterator

import pytest

from evenbeat.load.pause_gc import without_garbage_collection


@pytest.fixture(autouse=True)
def searching() -> Iterator[None]:
    before = gc.isenabled()
    gc.enable()
    yield
    gc.unfreeze()
    if not before:
        gc.disable()


def searched_after_reading(objects: int) -> bool:
    """Is an object of a document searched by the first collection after it was read?"""
    with without_garbage_collection():
        assert not gc.isenabled()
        document: list[list[int]] = [[] for _ in range(objects)]
    assert gc.isenabled()
    return any(found is document[-1] for found in gc.get_objects())


def test_a_large_document_is_not_searched_after_it_was_read() -> None:
    assert not searched_after_reading(200_000)
    assert gc.get_count()[0] < 10_000


def test_a_small_document_is_searched_as_everything_else() -> None:
    assert searched_after_reading(1_000)


def test_a_large_document_is_freed_when_nobody_has_it_any_more() -> None:
    class Part:
        alive = 0

        def __init__(self) -> None:
            Part.alive += 1

        def __del__(self) -> None:
            Part.alive -= 1

    with without_garbage_collection():
        parts = [Part() for _ in range(100_000)]
    assert Part.alive == 100_000
    del parts
    assert Part.alive == 0


def test_what_was_off_before_stays_off() -> None:
    gc.disable()
    with without_garbage_collection():
        pass
    assert not gc.isenabled()
