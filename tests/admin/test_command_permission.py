"""commands = "files": only files named at `up` say what is executed, whoever asks, live or not; all else is skipped."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hand_driven_node import Hand

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.file_owner import file_owner_of
from evenbeat.admin.perform import perform_change
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.gate import Reason
from evenbeat.core.permission import CommandPolicy, may_define
from evenbeat.load.config import Config, NodeSettings
from evenbeat.load.task_keys import task_from_table
from evenbeat.model import MINUTE, SECOND, CommandSource, Instant, Job, State
from evenbeat.node.answers.task_state import live_task_state_of, next_run_time
from evenbeat.node.process.files_at_start import apply_files_at_start
from evenbeat.report.why import explain
from evenbeat.store.contract import Filter
from evenbeat.wire.replies import Forbidden
from evenbeat.wire.requests import AddTasks, ApplyConfigs, ChangeRequest, SetPeriods, SetTask

STRICT = '[node]\ncommands = "files"\n'
TASK = '[tasks.mine]\nevery = "1m"\nphase = "10s"\ncommand = ["true"]\n'


def file(folder: Path, text: str, name: str = "tasks.toml") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return path


def up(hand: Hand, *files: Path) -> None:
    """A node starts with these files."""
    apply_files_at_start(TaskAdmin(hand.store, lambda: Instant(hand.now)), files, is_strict=True)
    hand.restart()


def skips(hand: Hand, name: str) -> list[tuple[str, int]]:
    number = hand.desk.find_or_raise(name).number
    return [(skip.reason, skip.times) for skip in hand.store.skips(number, most=100)]


def test_what_is_there_already_is_listed_and_not_run_and_every_nominal_time_is_accounted_for(tmp_path: Path) -> None:
    hand = Hand()
    hand.add("theirs", owner="api")
    hand.add("disk", owner="api", check=True)
    up(hand, file(tmp_path, STRICT + TASK))
    made = hand.advance(5 * MINUTE)
    assert set(hand.names(made)) == {"mine"}
    assert {reason for reason, _ in skips(hand, "theirs")} == {"not from a file"}
    assert sum(times for _, times in skips(hand, "theirs")) == 5
    condition = hand.condition("theirs")
    assert (condition.blocked, condition.next_run) == (Reason.NOT_FROM_A_FILE, None)
    assert hand.condition("mine").blocked == ""
    assert next_run_time(hand.node, hand.row("theirs")) is None
    number = hand.desk.find_or_raise("theirs").number
    moment = live_task_state_of(hand.node, number)
    entry = hand.desk.find_or_raise("theirs")
    for live in (True, False):
        seen = (live, moment if live else None)
        said = explain(hand.store, entry.id, None, Instant(hand.now), partial(lambda seen, _: seen, seen)).answer
        assert said.startswith("theirs does not run: not from a file")
        assert "`evenbeat up`" in said


def test_force_is_refused_by_name_and_leaves_them_out_by_filter(tmp_path: Path) -> None:
    hand = Hand()
    hand.add("theirs", owner="api")
    up(hand, file(tmp_path, STRICT + TASK))
    with pytest.raises(Forbidden, match="write it into a file that is named at `evenbeat up`"):
        hand.force("theirs")
    assert [entry.task.name for entry in hand.desk.select_forced((), "ana", Filter())] == ["mine"]
    hand.force("mine")
    assert hand.names(hand.turn()) == ["mine"]
    hand.end("mine")
    hand.pause("mine")
    assert not hand.advance(2 * MINUTE)
    hand.pause("mine", paused=False)
    assert hand.names(hand.advance(MINUTE)) == ["mine"]


def test_a_forced_run_that_waited_over_the_restart_is_refused(tmp_path: Path) -> None:
    hand = Hand(slots=1)
    hand.add("long", owner="api", cron="0 0 1 1 *")
    hand.add("theirs", owner="api", cron="0 0 1 1 *")
    hand.force("long")
    hand.turn()
    hand.force("theirs")
    assert not hand.turn()
    up(hand, file(tmp_path, STRICT + TASK))
    assert set(hand.names(hand.advance(2 * MINUTE))) == {"mine"}


def test_a_reload_turns_it_on_and_off_while_the_node_lives(tmp_path: Path) -> None:
    hand = Hand()
    path = file(tmp_path, TASK)
    up(hand, path)
    hand.add("theirs", owner="api")
    assert set(hand.names(hand.advance(MINUTE))) == {"mine", "theirs"}
    for text, ran in ((STRICT + TASK, {"mine"}), (TASK, {"mine", "theirs"})):
        file(tmp_path, text)
        hand.desk.apply([path], "reload", anew=True)
        hand.node.apply_changes()
        assert set(hand.names(hand.advance(MINUTE))) == ran


def test_a_passive_check_may_come_from_anybody_but_not_its_command(tmp_path: Path) -> None:
    hand = Hand()
    hand.add("beat", owner="api", check=True, passive=True, grace="0s", timebox="1s", command=["true"])
    up(hand, file(tmp_path, STRICT + TASK))
    hand.add("pushed", owner="api", check=True, passive=True)
    with pytest.raises(Forbidden, match="passive = true"):
        hand.add("more", owner="api", check=True, passive=True, command=["id"])
    hand.advance(3 * MINUTE)
    assert "beat" not in hand.names(hand.dispatched)
    assert hand.condition("beat").state is State.CRITICAL


JOB = {"every": "1m", "command": ["id"]}


@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        AddTasks((task_from_table("new", JOB, check=False),), "file:/etc/evenbeat.toml", "eve"),
        SetPeriods({}, "eve", "file:/etc/evenbeat.toml"),
        ApplyConfigs(
            {"file:/etc/evenbeat.toml": Config((task_from_table("new", JOB, check=False),), {}, {}, None)}, "eve"
        ),
    ],
    ids=["add", "set-periods", "declare"],
)
def test_nobody_forges_an_owner_that_stands_for_a_file(tmp_path: Path, change: ChangeRequest, is_strict: bool) -> None:
    hand = Hand()
    up(hand, file(tmp_path, (STRICT if is_strict else "") + TASK))
    with pytest.raises(Forbidden, match="stands for a file of the node"):
        perform_change(hand.desk, change)


def test_what_is_executed_is_changed_in_the_file_only(tmp_path: Path) -> None:
    hand = Hand()
    hand.add("theirs", owner="api")
    path = file(tmp_path, STRICT + TASK)
    up(hand, path)
    for keys in (
        {"command": ["id"]},
        {"command": ["true"], "env": {"LD_PRELOAD": "/tmp/evil.so"}},
        {"command": ["true"], "cwd": "/tmp"},
        {"command": ["true"], "user": "root"},
        {"function": "os:abort"},
        {"passive": True},
    ):
        for name in ("mine", "theirs"):
            if name == "theirs" and keys == {"passive": True}:
                continue  # to take a command away is no harm
            change = SetTask(name, task_from_table(name, {"every": "1m", **keys}, check="passive" in keys), "eve")
            with pytest.raises(Forbidden, match='commands = "files"'):
                perform_change(hand.desk, change)
    hand.set("mine", every="2m", command=["true"], priority=3)  # when is not what
    hand.remove("mine")
    # The file brings it back, and what the file says of the node stays.
    hand.desk.remove(Filter(owner=file_owner_of(path)), "eve")
    assert permission_of(hand.store).commands is CommandSource.FILES
    hand.desk.apply([path], "reload")
    assert hand.desk.find_or_raise("mine").task.job.command == ("true",)


def test_a_program_or_another_file_adds_nothing_that_is_executed(tmp_path: Path) -> None:
    hand = Hand()
    path = file(tmp_path, STRICT + TASK)
    up(hand, path)
    other = file(tmp_path, TASK.replace("mine", "other"), "other.toml")
    with pytest.raises(Forbidden, match=r"only the files named at `evenbeat up` are applied"):
        hand.desk.apply([path, other], "eve")
    config = Config((task_from_table("new", JOB, check=False),), {}, {}, None)
    with pytest.raises(Forbidden, match="only files named at `evenbeat up` may say"):
        hand.desk.apply_config("app:program", config, "program")
    said = Config((), {}, {}, NodeSettings(pass_env=("SECRET_*",), commands=CommandSource.ANYONE))
    with pytest.raises(Forbidden, match="pass_env"):
        hand.desk.apply_config("upload:elsewhere.toml", said, "eve")
    up(hand, path, other)
    assert {"mine", "other"} == set(hand.names(hand.advance(MINUTE)))
    # What is not named any more is not executed any more.
    up(hand, path)
    assert set(hand.names(hand.advance(MINUTE))) == {"mine"}
    assert hand.condition("other").blocked


LIVE, STOPPED = "live", "stopped"


@pytest.mark.parametrize("way", [LIVE, STOPPED])
def test_live_or_stopped_the_same_is_refused_and_the_same_runs(tmp_path: Path, way: str) -> None:
    hand = Hand()
    path = file(tmp_path, TASK)
    up(hand, path)
    hand.add("theirs", owner="api")
    hand.advance(30 * SECOND)
    file(tmp_path, STRICT + TASK)

    def changing(change: Callable[[TaskAdmin], object]) -> None:
        if way == LIVE:
            change(hand.desk)
            hand.node.apply_changes()
        else:
            change(TaskAdmin(hand.store, lambda: Instant(hand.now)))
            hand.restart()

    changing(lambda desk: desk.apply([path], "ana", anew=True))
    hand.advance(5 * MINUTE)
    with pytest.raises(Forbidden):
        changing(lambda desk: perform_change(desk, AddTasks((task_from_table("new", JOB, check=False),), "api", "eve")))
    ran = [(run.name, run.nominal) for run in hand.dispatched]
    assert [name for name, _ in ran if name == "theirs"] == []
    assert len([name for name, _ in ran if name == "mine"]) == 6
    assert skips(hand, "theirs")
    assert {reason for reason, _ in skips(hand, "theirs")} == {Reason.NOT_FROM_A_FILE}


def test_a_file_that_cannot_be_applied_starts_no_node_on_what_somebody_changed(tmp_path: Path) -> None:
    hand = Hand()
    path = file(tmp_path, STRICT + TASK)
    up(hand, path)
    desk = TaskAdmin(hand.store, lambda: Instant(hand.now))
    path.write_text("[tasks")
    _, problem = apply_files_at_start(desk, [path], is_strict=False)
    assert problem
    hand.desk.remove(Filter(names=("mine",)), "eve")
    with pytest.raises(ValueError, match=r"tasks\.toml"):
        apply_files_at_start(desk, [path], is_strict=False)


def test_who_may_define_what() -> None:
    strict = CommandPolicy(CommandSource.FILES, frozenset({"file:a"}))
    nothing, old, new = Job(), Job(command=("true",)), Job(command=("id",))
    assert may_define(CommandPolicy(), "api", old, new)
    assert may_define(strict, "api", old, old)
    assert may_define(strict, "api", old, nothing)
    assert not may_define(strict, "api", nothing, new)
    assert not may_define(strict, "file:a", old, nothing)
    assert not may_define(strict, "file:b", nothing, new)
