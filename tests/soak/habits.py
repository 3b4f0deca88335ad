"""What the functions of the soak do: return at once, talk, fail, wait, take too long, remember."""

import asyncio
import time

from evenbeat.work.context import Run


def quick() -> None:
    pass


def talkative() -> str:
    print("x" * 5_000)
    return "said much"


def failing() -> None:
    raise RuntimeError("as it always does")


def remembering(run: Run) -> None:
    run.cursor = str(run.cursor or "")[-100:] + "."


def endless() -> None:
    time.sleep(600)


async def waiting() -> None:
    await asyncio.sleep(0.2)
