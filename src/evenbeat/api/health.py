"""Is it well? /healthz asks the api process, /readyz the node: whether it still does what it is there for."""

import asyncio
import time
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct
from starlette.responses import Response

from evenbeat.api.house import House
from evenbeat.api.route import Call, Role, Route
from evenbeat.node.numbers import Numbers
from evenbeat.node.requests import AskNumbers
from evenbeat.store.contract import StoreError

STILL: Final = 5.0
"""Seconds without a turn of the beat, or an answer of the node, after which it is not well."""
STUCK: Final = 10.0
"""Seconds that the oldest batch may be on its way into the store."""
_FRESH: Final = 1.0
"""Seconds for which one look is enough for all who ask: nobody keeps a node busy by asking how it is."""


class Health(Struct):
    """Whether all is well, and if not, what is wrong."""

    ok: bool
    problems: list[str]


class _Look(NamedTuple):
    at: float
    numbers: "asyncio.Task[Numbers]"


_looks: Final[WeakKeyDictionary[House, _Look]] = WeakKeyDictionary()


async def numbers_of(house: House) -> Numbers:
    """What the node measures of itself, at most a second old; raise StoreError if it does not answer."""
    look = _looks.get(house)
    if look is None or time.monotonic() - look.at > _FRESH or look.numbers.get_loop() is not asyncio.get_running_loop():
        look = _looks[house] = _Look(time.monotonic(), asyncio.create_task(_ask(house)))
        look.numbers.add_done_callback(lambda task: task.cancelled() or task.exception())  # whoever asked may be gone
    return await asyncio.shield(look.numbers)


async def _ask(house: House) -> Numbers:
    try:
        async with asyncio.timeout(STILL):
            numbers = (await house.ask(AskNumbers())).numbers
    except TimeoutError:
        raise StoreError(f"the node has not answered for {STILL:g} s") from None
    assert numbers is not None
    return numbers


def problems_of(numbers: Numbers) -> list[str]:
    """What keeps a node from doing what it is there for."""
    problems = []
    if numbers.last_turn > STILL:
        problems.append(f"the beat has not turned for {numbers.last_turn:.0f} s")
    if numbers.status.store != "ok":
        problems.append("the store cannot take anything; the node's log says why")
    if numbers.oldest_unsafe > STUCK:
        problems.append(f"the store has not taken what was offered for {numbers.oldest_unsafe:.0f} s")
    if not numbers.workers:
        problems.append("no worker process is alive")
    return problems


async def _healthy(_: Call) -> Health:
    return Health(ok=True, problems=[])


async def _ready(call: Call) -> Response:
    try:
        problems = problems_of(await numbers_of(call.house))
    except StoreError as e:
        problems = [str(e)]
    health = Health(ok=not problems, problems=problems)
    return Response(msgspec.json.encode(health), 200 if health.ok else 503, media_type="application/json")


ROUTES: Final = (
    Route("GET", "/healthz", Role.ANYBODY, _healthy, "Is the server of the API alive?", Health, "Health"),
    Route(
        "GET",
        "/readyz",
        Role.ANYBODY,
        _ready,
        "Does the node do its work? 503 and the reasons if it does not.",
        Health,
        "Health",
    ),
)
