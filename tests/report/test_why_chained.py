"""Why does a task not run that runs after others? What these do is for callers who may know of them."""

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.report.why import explain
from evenbeat.store.contract import Filter


@pytest.mark.parametrize(
    ("is_limited", "answer"),
    [
        (False, "upload waits for 'backup', which is paused: it does not run until it is resumed."),
        (True, "upload waits for backup."),
    ],
)
def test_what_a_parent_does_is_not_said_to_limited_callers(*, is_limited: bool, answer: str) -> None:
    node = HandDrivenNode()
    node.add("backup", every="1d", phase="12h")
    node.add("upload", after=["backup"])
    node.turn()
    node.admin.pause(Filter(("backup",)), "ana", paused=True)
    found = explain(node.store, "upload", None, node.clock.now(), lambda _: (True, None), is_limited=is_limited)
    assert found.answer == answer
    assert not [
        reason for reason in found.reasons if is_limited and "backup" in reason and "after backup" not in reason
    ]
