"""A node goes on with a database that an earlier version wrote, and whose node was killed.

`recorded.db.gz` was written by commit 66bb3db; `recorded.json` is what its `ls` and `history` said after the
kill.
"""

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import Future, wait
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.admin.tokens import TOKEN_PREFIX, decode_tokens
from evenbeat.model import MINUTE, SECOND, Instant, Outcome, RunKind, State
from evenbeat.store.contract import ALL_TASKS, Batch, WithdrawnTasks
from evenbeat.store.sqlite.sqlite_store import SqliteStore

_HERE: Final = Path(__file__).parent
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
RECORDED: Final = json.loads((_HERE / "recorded.json").read_text())
TASKS: Final[dict[str, dict[str, Any]]] = {task["name"]: task for task in RECORDED["tasks"]}


class RecordingSqliteStore(SqliteStore):
    """Every batch is committed when `record` returns, as a node in the hands of a test needs it."""

    def __init__(self, path: Path) -> None:
        self.recorded: list[Any] = []
        super().__init__(path)

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        done = super().record(*batches)
        wait([done])
        return done


def text_of(at: int | None) -> str | None:
    return None if at is None else (_EPOCH + timedelta(microseconds=at)).isoformat()


def instant(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


def word(of: RunKind | State | None) -> str | None:
    return None if of is None else of.name.lower().replace("_", "-")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordingSqliteStore]:
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((_HERE / "recorded.db.gz").read_bytes()))
    path.chmod(0o600)
    store = RecordingSqliteStore(path)
    yield store
    store.close()


@pytest.fixture
def node(store: RecordingSqliteStore) -> HandDrivenNode:
    """A node that starts ten seconds after the other was killed."""
    killed = max(instant(run["claimed"]) for run in RECORDED["runs"])
    return HandDrivenNode(now=Instant(killed + 10 * SECOND), store=store)  # type: ignore[arg-type]


def runs_of(store: SqliteStore) -> list[dict[str, Any]]:
    return [
        {
            "task": run.task,
            "nominal": text_of(run.nominal),
            "kind": word(run.kind),
            "claimed": text_of(run.claimed),
            "started": text_of(run.started),
            "ended": text_of(run.ended),
            "outcome": run.outcome,
            "status": run.status,
            "state": word(run.state),
            "hard": None if run.state is None else run.hard,
            "attempt": None if run.state is None else run.attempt,
            "output": run.output,
        }
        for run in store.runs(most=1_000)
    ]


def test_the_history_is_what_it_was(store: RecordingSqliteStore) -> None:
    assert RECORDED["runs"]
    by_time = sorted(RECORDED["runs"], key=lambda run: (run["claimed"], run["task"]))
    assert sorted(runs_of(store), key=lambda run: (run["claimed"], run["task"])) == by_time
    found = [(skip.task, text_of(skip.first), text_of(skip.last), skip.times, skip.reason) for skip in store.skips()]
    assert found == [(s["task"], s["first"], s["last"], s["times"], s["reason"]) for s in RECORDED["skips"]]


def test_tasks_are_as_they_were(store: RecordingSqliteStore) -> None:
    found = {condition.entry.task.name: condition for condition in store.conditions(ALL_TASKS)}
    assert found.keys() == TASKS.keys()
    for name, recorded in TASKS.items():
        condition = found[name]
        task = condition.entry.task
        assert (condition.entry.id, condition.entry.owner) == (recorded["id"], recorded["owner"])
        assert (task.check, task.enabled, task.paused) == tuple(recorded[k] for k in ("check", "enabled", "paused"))
        assert (condition.outcome, word(condition.state)) == (recorded["outcome"], recorded["state"])
        assert text_of(condition.running_since) == recorded["running_since"]
        assert condition.output == recorded["output"]
        if recorded["state"] is not None:
            assert (condition.hard, condition.attempt) == (recorded["hard"], recorded["attempt"])


def test_limits_tokens_and_the_audit_are_there(store: RecordingSqliteStore, node: HandDrivenNode) -> None:
    assert (node.node.live.slots.most, node.node.live.limits["db"].most) == (15, 1)
    (token,) = decode_tokens(store.settings(TOKEN_PREFIX)).values()
    assert (token.name, token.role, token.owner, token.labels) == ("ci", "operate", "shop", {"team": "ops"})
    assert {"created", "changed", "removed", "paused", "forced", "set", "applied"} <= {
        c.action for c in store.changes()
    }


def test_the_run_of_the_killed_node_is_lost_and_recorded_once(
    store: RecordingSqliteStore, node: HandDrivenNode
) -> None:
    (open_run,) = [run for run in RECORDED["runs"] if run["ended"] is None]
    (record,) = [run for run in store.runs(node.admin.find_or_raise("long").number) if run.kind is RunKind.FORCED]
    assert text_of(record.claimed) == open_run["claimed"]
    assert (record.outcome, record.output) == (Outcome.LOST, "the node stopped while it ran")


def test_what_lies_ahead_is_due_when_it_was_due(node: HandDrivenNode) -> None:
    ahead = {name: task["next"] for name, task in TASKS.items() if task["next"] and instant(task["next"]) > node.now}
    assert {"cronned", "later", "office", "once", "passive", "hard", "soft"} <= ahead.keys()
    del ahead["long"]  # its lost run is made up for first
    assert {name: text_of(node.condition(name).next_run) for name in ahead} == ahead


def test_the_grid_goes_on_with_its_phases(node: HandDrivenNode) -> None:
    made = node.advance(3 * MINUTE)
    for name, every in (("beat", 2), ("calendar", 5), ("limited", 3)):
        before = {instant(r["nominal"]) for r in RECORDED["runs"] if (r["task"], r["kind"]) == (name, "grid")}
        after = {run.nominal for run in made if run.name == name and run.kind == RunKind.GRID}
        assert len({nominal % (every * SECOND) for nominal in before | after}) == 1
        assert len(after) >= 3 * 60 // every - 1
    (placed,) = {run.nominal % MINUTE for run in made if run.name == "placed" and run.kind == RunKind.GRID}
    assert placed == instant(TASKS["placed"]["next"]) % MINUTE
    assert not [run for run in made if run.name == "paused"]


def test_a_soft_check_goes_on_with_its_attempts(node: HandDrivenNode) -> None:
    soft = TASKS["soft"]
    assert (soft["state"], soft["hard"]) == ("critical", False)
    node.now = instant(soft["next"])
    assert "soft" in node.names(node.turn())
    node.end("soft", Outcome.FAILED, 2)
    node.turn()
    found = node.condition("soft")
    assert (found.state, found.attempt) == (State.CRITICAL, soft["attempt"] + 1)
