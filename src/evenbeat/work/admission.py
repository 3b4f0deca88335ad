"""The last check before a start, in the worker: may this run start now?"""

from typing import Final

from evenbeat.core.drop_guard import is_too_soon
from evenbeat.model import SECOND, Instant
from evenbeat.wire.worker_frames import RunSpec

TOO_LATE: Final = "too late to start"
TOO_SOON: Final = "too soon after the last start"


def refusal_reason(run: RunSpec, now: int) -> str | None:
    """Why this run is dropped; None if it may start."""
    if now > run.latest_start:
        return f"{TOO_LATE}: {_seconds(now - run.latest_start)} past the latest start"
    # Most off-grid runs have no interval, and are never too soon.
    if run.interval and is_too_soon(Instant(now), Instant(run.last_start), run.interval, run.tolerance):
        least = run.interval - run.tolerance
        return f"{TOO_SOON}: {_seconds(now - run.last_start)} after it, accepted: at least {_seconds(least)}"
    return None


def _seconds(microseconds: int) -> str:
    return f"{microseconds / SECOND:.6g} s"
