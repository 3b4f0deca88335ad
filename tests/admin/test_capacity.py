"""Slots and limits: who says how many, what counts, and that it lasts until it is reset."""

from pathlib import Path

import pytest
from hand_driven_node import HandDrivenNode
from live_node import LiveNode

from conftest import Evenbeat
from evenbeat.admin.capacity import EffectiveLimit, limit_capacities, slot_capacity
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tasks_of_files import file_owner_of
from evenbeat.model import MINUTE, Instant, Invalid
from evenbeat.store.contract import Filter
from evenbeat.store.memory import MemoryStore

FILE = '[node]\nmax_concurrent = 7\n[limits]\ndb = 3\n[tasks.x]\nevery = "1d"\ncommand = ["true"]\nlimit = "db"\n'


def test_what_was_set_by_hand_counts_before_the_command_line_files_and_the_default(tmp_path: Path) -> None:
    store = MemoryStore()
    admin = TaskAdmin(store, lambda: Instant(0))
    assert slot_capacity(store) == EffectiveLimit(512, "default")
    file = tmp_path / "a.toml"
    file.write_text(FILE)
    admin.apply([file], "ana")
    assert (slot_capacity(store), slot_capacity(store, 2)) == (
        EffectiveLimit(7, str(file)),
        EffectiveLimit(2, "command line"),
    )
    assert limit_capacities(store) == {"db": EffectiveLimit(3, str(file))}
    admin.set_slots(9, "ana")
    admin.set_limit("db", 1, "bob")
    assert slot_capacity(store, 2) == EffectiveLimit(9, "set by ana")
    assert (limit_capacities(store), admin.limits()) == ({"db": EffectiveLimit(1, "set by bob")}, {"db": 1})
    admin.apply([file], "ana", anew=True)
    assert slot_capacity(store) == EffectiveLimit(9, "set by ana"), "until it is reset"
    admin.set_slots(None, "ana")
    admin.set_limit("db", None, "ana")
    assert (slot_capacity(store), limit_capacities(store)) == (
        EffectiveLimit(7, str(file)),
        {"db": EffectiveLimit(3, str(file))},
    )
    assert [(c.who, c.action, c.name, c.detail) for c in store.changes(most=1)] == [("ana", "reset", "limit db", "")]
    with pytest.raises(Invalid, match="there is no limit 'bd', known: db"):
        admin.set_limit("bd", 1, "ana")
    with pytest.raises(Invalid, match="accepted: 1 to 1,000,000"):
        admin.set_slots(0, "ana")


def test_who_applies_a_file_hears_what_is_not_in_force(tmp_path: Path) -> None:
    admin = TaskAdmin(MemoryStore(), lambda: Instant(0))
    file = tmp_path / "a.toml"
    file.write_text(FILE)
    admin.command_line_slots = 2
    (said,) = admin.apply([file], "ana").notices
    assert said == f"max_concurrent = 7 of {file} is not in force: --max-concurrent 2 of the command line is"
    admin.set_slots(5, "bob")
    (said,) = admin.apply([file], "ana", anew=True).notices
    assert said.endswith("is not in force: 5 is, set by bob; `evenbeat slots --reset` takes that back")
    admin.set_slots(7, "bob")
    assert admin.apply([file], "ana", anew=True).notices == []


def test_what_a_file_that_is_gone_said_goes_with_its_tasks(tmp_path: Path) -> None:
    store = MemoryStore()
    admin = TaskAdmin(store, lambda: Instant(0))
    a, b = tmp_path / "a.toml", tmp_path / "b.toml"
    a.write_text(FILE + '[periods.p]\nranges = ["monday"]\n')
    b.write_text('[tasks.y]\nevery = "1d"\ncommand = ["true"]\nlimit = "db"\n')
    admin.apply([a, b], "ana")
    assert admin.remove(Filter(owner=file_owner_of(a)), "ana").settings
    assert (slot_capacity(store), store.periods(), admin.limits()) == (EffectiveLimit(512, "default"), {}, {"db": 3})


def test_a_live_node_follows_at_once() -> None:
    driven = HandDrivenNode(slots=1)
    driven.limits(db=1)
    for name in ("a", "b", "c"):
        driven.add(name, limit="db")
    assert len(driven.turn(MINUTE)) == 1
    driven.admin.set_slots(3, "ana")
    driven.node.apply_changes()
    assert driven.turn() == []
    driven.admin.set_limit("db", 2, "ana")
    driven.node.apply_changes()
    assert len(driven.turn()) == 1
    status = driven.node.status()
    assert (status.slots, status.slots_source) == (3, "set by ana")
    assert (status.limits["db"].most, status.limits["db"].running, status.limits["db"].source) == (2, 2, "set by ana")
    driven.restart()
    assert (driven.lifecycle.slots, driven.node.live.limits["db"].most) == (3, 2)


def test_on_the_command_line(evenbeat: Evenbeat, tmp_path: Path) -> None:
    database, file = tmp_path / "a.db", tmp_path / "a.toml"
    file.write_text(FILE)
    db = ("--db", str(database))
    with LiveNode(database, files=(file,), max_concurrent=2):
        found = evenbeat("status", "--json", *db).json
        assert (found["slots"], found["slots_source"]) == (2, "command line")
        assert found["limits"] == {"db": {"most": 3, "running": 0, "source": str(file)}}
        applied = evenbeat("apply", str(file), *db)
        assert "is not in force: --max-concurrent 2 of the command line is" in applied.err
        found = evenbeat("slots", "5", "--json", *db).json
        assert (found["slots"], found["slots_source"][:7]) == (5, "set by ")
        assert "slots: 5, set by" in evenbeat("status", *db).out
        assert evenbeat("limit", "db", "4", "--json", *db).json["limits"]["db"]["most"] == 4
        assert "there is no limit 'bd', known: db" in evenbeat("limit", "bd", "4", *db).err
        for argv in (("slots",), ("slots", "3", "--reset"), ("slots", "0"), ("limit", "db")):
            assert evenbeat(*argv, *db).code == 2
        assert evenbeat("slots", "--reset", "--json", *db).json["slots_source"] == "command line"
    assert evenbeat("limit", "db", "--reset", *db).code == 0, "also without a node"


def test_a_database_without_a_node_says_what_the_next_one_has(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file, db = tmp_path / "a.toml", ("--db", str(tmp_path / "a.db"))
    evenbeat("add", "y", "--every", "1h", *db, "--", "true")
    found = evenbeat("status", "--json", *db).json
    assert (found["live"], found["slots"], found["slots_source"], found["limits"]) == (False, 512, "default", {})
    assert "slots" not in evenbeat("status", *db).out
    file.write_text(FILE)
    evenbeat("apply", str(file), *db)
    changed = evenbeat("slots", "5", *db)
    assert changed.code == 0
    assert "no node is running" in changed.out
    assert "slots: 5, set by " in changed.out
    assert f"limits: db 0 of 3 taken, from {file}" in changed.out
    found = evenbeat("limit", "db", "9", "--json", *db).json
    assert (found["slots"], found["limits"]["db"]["most"]) == (5, 9)
    assert found["limits"]["db"]["source"].startswith("set by ")
    assert evenbeat("slots", "--reset", "--json", *db).json["slots_source"] == str(file)
