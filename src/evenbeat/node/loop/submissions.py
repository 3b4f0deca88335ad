"""What others tell a live node of checks: results, and heartbeats, for which a token is enough."""

import asyncio
import hashlib
import logging
import secrets
from typing import TYPE_CHECKING, Final

from evenbeat.admin.passive_settings import BEATS, BEGUN, GOOD_UNTIL, tokens_of
from evenbeat.admin.submitters import Submitter
from evenbeat.core.task import Flag
from evenbeat.model import OUTPUT_LIMIT, SECOND, Entry, Instant, Invalid, State
from evenbeat.store.contract import Conflict, StoreError, Told
from evenbeat.wire.requests import Beat, DropBeat, Missing, NewBeat, Reply, Signal, Taken, Tell

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import Desk
    from evenbeat.node.scheduler import Node

_MARK: Final = "evb_beat_"
_AHEAD: Final = 5 * SECOND
"""Other machines' clocks may be ahead of ours by so much; a result of then is one of now."""
_STATUS: Final = {Signal.SUCCESS: State.OK, Signal.FAIL: State.CRITICAL}
_log: Final = logging.getLogger("evenbeat.told")


async def answer(node: "Node", request: Tell | Beat | NewBeat | DropBeat) -> Reply:
    """Do what was asked, and have it safe."""
    match request:
        case Tell():
            return await _tell(node, request)
        case Beat():
            return await _beat(node, request)
        case NewBeat(name, who):
            return Reply(token=await asyncio.to_thread(new_beat, node.desk, name, who))
        case DropBeat(name, who):
            await asyncio.to_thread(drop_beat, node.desk, name, who)
            return Reply()


# Results


async def _tell(node: "Node", request: Tell) -> Reply:
    node.take_over()  # it may be that new
    row = node.roster.names.find(request.name)
    if row is None:
        row = await _row(node, request.name)
    now, c = node.clock.now(), node.roster.columns
    name = node.roster.names.name(row)
    if not c.flags[row] & int(Flag.CHECK):
        raise Conflict(f"{name!r} is a task and no check: it has no results that could be told")
    at = now if request.at is None else request.at
    if at > now + _AHEAD:
        raise Invalid(f"a result of {(at - now) / SECOND:.0f} s from now, accepted: of now or before", place="at")
    before = node.beat.passive.good_until(row)
    output = joined(request.output, request.perfdata)
    told = node.beat.passive.tell(row, request.status, output, Instant(min(at, now)), now, request.ttl)
    good_until = node.beat.passive.good_until(row)
    if good_until != before:
        await _remember(node, name, GOOD_UNTIL, *good_until or ())
    reply = await _taken(node, name, told)
    await _note_submitter(node, name, Submitter(request.who, request.source))
    _log.debug("%s told %s", request.who, name, extra={"action": "told", "task": name, "who": request.who})
    return reply


async def _note_submitter(node: "Node", name: str, submitter: Submitter) -> None:
    """For the audit, after the result is safe; that is not refused because the audit cannot be written."""
    if not node.submitters.knows(name, submitter):
        try:
            await asyncio.to_thread(node.submitters.note, node.desk, name, submitter)
        except StoreError as e:
            _log.warning("the audit cannot be written: %s", e, extra={"action": "audit_failed"})


def joined(output: str, perfdata: str) -> str:
    """As a plugin would have said it: performance data behind the first line."""
    if perfdata.strip():
        first, newline, rest = output.partition("\n")
        output = f"{first} | {' '.join(perfdata.split())}{newline}{rest}"
    return output[:OUTPUT_LIMIT]


async def _taken(node: "Node", name: str, told: Told) -> Reply:
    node.beat.soon()
    await node.outbox.safe()
    is_newest = told.made is not None
    return Reply(taken=Taken(name, State(told.state), told.hard, told.attempt, is_newest))


async def _row(node: "Node", name_or_id: str) -> int:
    entry = await asyncio.to_thread(node.store.find, name_or_id)
    row = None if entry is None else node.roster.row(entry.number)
    if row is None:
        if entry is not None:
            node.not_here(entry.number)
        raise Missing(f"there is no task {name_or_id!r}")
    return row


async def _remember(node: "Node", name: str, what: str, *times: int) -> None:
    """For a node that starts after this one; without times there is nothing to remember any more."""
    entry = await asyncio.to_thread(node.store.find, name)
    if entry is not None:
        await asyncio.to_thread(node.store.set_settings, {what + entry.id: " ".join(map(str, times)) or None})


# Heartbeats


async def _beat(node: "Node", request: Beat) -> Reply:
    id_ = await asyncio.to_thread(node.store.setting, BEATS + _digest(request.token))
    if id_ is None:
        raise Missing("nobody has this token")
    node.take_over()
    row = await _row(node, id_)
    now, passive = node.clock.now(), node.beat.passive
    name = node.roster.names.name(row)
    _must_be_passive(node, row)
    if request.signal is Signal.START:
        passive.begin(row, now)
        await _remember(node, name, BEGUN, now)
        node.beat.soon()
        return Reply()
    had_begun = row in passive.begun
    told = passive.end(row, _STATUS[request.signal], request.output[:OUTPUT_LIMIT], now)
    reply = await _taken(node, name, told)
    await _note_submitter(node, name, Submitter("heartbeat", request.source))
    # Not before: a node that dies in between must know that something has begun. It may have begun again by now.
    if had_begun and row not in passive.begun:
        await _remember(node, name, BEGUN)
    return reply


def _must_be_passive(node: "Node", row: int) -> None:
    if not node.roster.columns.flags[row] & int(Flag.PASSIVE):
        name = node.roster.names.name(row)
        raise Conflict(f"{name!r} has something to run by itself: only passive checks have heartbeats")


def new_beat(desk: "Desk", name: str, who: str) -> str:
    """A token for a passive check, in place of the one it had. Only its digest is kept, so it is told once."""
    token = _MARK + secrets.token_urlsafe(24)
    with desk.at_rest():
        entry = _need(desk, name)
        if not entry.task.passive:
            raise Conflict(f"{entry.task.name!r} has something to run by itself: only passive checks have heartbeats")
        before: dict[str, str | None] = dict.fromkeys(tokens_of(desk.store, {entry.id}))
        desk.store.set_settings(before | {BEATS + _digest(token): entry.id})
        desk.note(entry.task.name, "heartbeat created", who)
    return token


def drop_beat(desk: "Desk", name: str, who: str) -> None:
    """Its token is nobody's any more."""
    with desk.at_rest():
        entry = _need(desk, name)
        found = tokens_of(desk.store, {entry.id})
        if not found:
            raise Missing(f"{entry.task.name!r} has no heartbeat")
        desk.store.set_settings(dict.fromkeys(found))
        desk.note(entry.task.name, "heartbeat removed", who)


def _need(desk: "Desk", name: str) -> Entry:
    entry = desk.store.find(name)
    if entry is None:
        raise Missing(f"there is no task {name!r}")
    return entry


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
