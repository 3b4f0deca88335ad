"""Every document that crosses a border is read as an earlier version wrote it, and written so that that one reads it.

The documents in `recorded_documents.json` were written by commit 66bb3db: commands, api processes, schedulers and
workers of two versions work side by side during an upgrade. A field may be added, with a default: to what is an array
on the wire only at its end.
"""

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from evenbeat.wire.cluster_messages import MessageToNodes, MessageToWorker, RunOffer
from evenbeat.wire.cluster_view import NodeInfo
from evenbeat.wire.events import EventMessage
from evenbeat.wire.node_messages import NodeMessage
from evenbeat.wire.replies import Reply
from evenbeat.wire.requests import Request

RECORDED: Final = json.loads(Path(__file__).with_name("recorded_documents.json").read_text())
TYPE_OF_KIND: Final[dict[str, Any]] = {
    "messages between nodes": NodeMessage,
    "requests": Request,
    "replies": Reply,
    "events": EventMessage,
    "nodes": NodeInfo,
}


def contains(new: Any, old: Any) -> bool:
    """Is everything of the old document in the new one, at the same place?"""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and contains(new[key], old[key]) for key in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(new) >= len(old) and all(map(contains, new, old))
    return bool(new == old and type(new) is type(old))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in TYPE_OF_KIND for name in RECORDED[kind]])
def test_a_document_of_before_is_read_and_written(kind: str, name: str) -> None:
    old = RECORDED[kind][name]
    read = msgspec.json.decode(json.dumps(old), type=TYPE_OF_KIND[kind])
    assert contains(msgspec.json.decode(msgspec.json.encode(read)), old)


@pytest.mark.parametrize("name", RECORDED["cluster messages"])
def test_a_message_of_before_between_scheduler_and_worker_is_read_and_written(name: str) -> None:
    packed = bytes.fromhex(RECORDED["cluster messages"][name])
    old = msgspec.msgpack.decode(packed)
    readers = [t for t in (MessageToNodes, MessageToWorker, RunOffer) if can_read(packed, t)]
    assert len(readers) == 1, "its tag says whom it is for"
    read = msgspec.msgpack.decode(packed, type=readers[0])
    assert contains(msgspec.msgpack.decode(msgspec.msgpack.encode(read)), old)


def can_read(packed: bytes, message: Any) -> bool:
    try:
        msgspec.msgpack.decode(packed, type=message)
    except msgspec.ValidationError:
        return False
    return True


def test_nothing_was_recorded_that_has_no_type_today() -> None:
    assert RECORDED.keys() == {"cluster messages", *TYPE_OF_KIND}


def test_a_document_that_misses_a_field_is_noticed() -> None:
    assert contains([1, {"a": 2, "b": 3}, 4], [1, {"a": 2}])
    assert not contains([1, {"b": 3}], [1, {"a": 2}])
    assert not contains([1], [1, 2])
    assert not contains([True], [1])
