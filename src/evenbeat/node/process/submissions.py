"""Answers requests that submit results of checks: by name, or as a heartbeat, for which a token is enough."""

import asyncio
import logging
from typing import Final

from evenbeat.admin.heartbeats import create_heartbeat_token, not_passive, remove_heartbeat_token, task_of_token
from evenbeat.admin.passive_settings import BEGUN_PREFIX, GOOD_UNTIL_PREFIX
from evenbeat.admin.submitters import Submitter
from evenbeat.core.submitted_results import exit_status_output, join_perfdata, time_of_result
from evenbeat.core.task import Flag
from evenbeat.model import OUTPUT_LIMIT, State
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import Conflict, StoreError, SubmittedResult
from evenbeat.wire.replies import AcceptedResult, HeldByOtherNode, NotFound, Reply
from evenbeat.wire.requests import (
    CreateHeartbeatToken,
    HeartbeatSignal,
    RemoveHeartbeatToken,
    SendHeartbeat,
    SubmitResult,
)

_STATE_OF_SIGNAL: Final = {HeartbeatSignal.SUCCESS: State.OK, HeartbeatSignal.FAIL: State.CRITICAL}
_log: Final = logging.getLogger("evenbeat.node")


async def answer_result_request(
    node: Scheduler, request: SubmitResult | SendHeartbeat | CreateHeartbeatToken | RemoveHeartbeatToken
) -> Reply:
    """Do what was asked; the answer comes after the commit."""
    match request:
        case SubmitResult():
            return await _submit_result(node, request)
        case SendHeartbeat():
            return await _receive_heartbeat(node, request)
        case CreateHeartbeatToken(name, who):
            token = await asyncio.to_thread(create_heartbeat_token, node.admin, name, who)
            return Reply(token=token, page=node.page or "")
        case RemoveHeartbeatToken(name, who):
            await asyncio.to_thread(remove_heartbeat_token, node.admin, name, who)
            return Reply()


# Results


async def _submit_result(node: Scheduler, request: SubmitResult) -> Reply:
    node.apply_changes()  # the check may be new
    row = node.tasks.names.find(request.name)
    if row is None:
        row = await _find_row(node, request.name)
    now, c = node.clock.now(), node.tasks.columns
    name = node.tasks.names.name(row)
    if not c.flags[row] & int(Flag.CHECK):
        raise Conflict(f"{name!r} is a task and no check: it takes no results")
    at = time_of_result(request.at, now)
    before = node.turns.passive.good_until(row)
    output = join_perfdata(request.output, request.perfdata)
    submitted = node.turns.passive.submit(row, request.status, output, at, now, request.ttl)
    good_until = node.turns.passive.good_until(row)
    if good_until != before:
        await _store_times(node, name, GOOD_UNTIL_PREFIX, *good_until or ())
    reply = await _accepted_reply(node, name, submitted)
    await _note_submitter(node, name, Submitter(request.who, request.source))
    _log.debug(
        "%s submitted a result of %s", request.who, name, extra={"action": "told", "task": name, "who": request.who}
    )
    return reply


async def _note_submitter(node: Scheduler, name: str, submitter: Submitter) -> None:
    """For the audit, after the result is committed: a result is not refused because the audit cannot be written."""
    if not node.submitters.knows(name, submitter):
        try:
            await asyncio.to_thread(node.submitters.note, node.admin, name, submitter)
        except StoreError as e:
            _log.warning("the audit cannot be written: %s", e, extra={"action": "audit_failed"})


async def _accepted_reply(node: Scheduler, name: str, submitted: SubmittedResult) -> Reply:
    node.turns.plan_turn_soon()
    await node.outbox.wait_committed()
    is_newest = submitted.made is not None
    return Reply(taken=AcceptedResult(name, State(submitted.state), submitted.hard, submitted.attempt, is_newest))


async def _find_row(node: Scheduler, name_or_id: str) -> int:
    entry = await asyncio.to_thread(node.store.find, name_or_id)
    row = None if entry is None else node.tasks.row(entry.number)
    if row is None:
        if entry is not None and node.others is not None:
            raise HeldByOtherNode(entry.number)
        raise NotFound(f"there is no task {name_or_id!r}")
    return row


async def _store_times(node: Scheduler, name: str, what: str, *times: int) -> None:
    """Remember times for a node that starts after this one; without `times`, forget them."""
    entry = await asyncio.to_thread(node.store.find, name)
    if entry is not None:
        await asyncio.to_thread(node.store.set_settings, {what + entry.id: " ".join(map(str, times)) or None})


# Heartbeats


async def _receive_heartbeat(node: Scheduler, request: SendHeartbeat) -> Reply:
    id_ = await asyncio.to_thread(task_of_token, node.store, request.token)
    if id_ is None:
        raise NotFound("nobody has this token")
    node.apply_changes()
    row = await _find_row(node, id_)
    now, passive = node.clock.now(), node.turns.passive
    name = node.tasks.names.name(row)
    _must_be_passive(node, row)
    if request.signal is HeartbeatSignal.START:
        passive.begin(row, now)
        await _store_times(node, name, BEGUN_PREFIX, now)
        node.turns.plan_turn_soon()
        return Reply()
    if request.signal is HeartbeatSignal.LOG:
        passive.log(row, request.output[:OUTPUT_LIMIT], now)
        node.turns.plan_turn_soon()
        await node.outbox.wait_committed()
        return Reply()
    had_begun = row in passive.begun_rows
    output = exit_status_output(request.status, request.output) if request.status else request.output[:OUTPUT_LIMIT]
    submitted = passive.end(row, _STATE_OF_SIGNAL[request.signal], output, now)
    reply = await _accepted_reply(node, name, submitted)
    await _note_submitter(node, name, Submitter("heartbeat", request.source))
    # Only now: the next node must know of the begin if this one dies before. The sender may have begun again by now.
    if had_begun and row not in passive.begun_rows:
        await _store_times(node, name, BEGUN_PREFIX)
    return reply


def _must_be_passive(node: Scheduler, row: int) -> None:
    if not node.tasks.columns.flags[row] & int(Flag.PASSIVE):
        raise not_passive(node.tasks.names.name(row))
