"""commands = "files": only files named at `up` say what is executed, whoever asks, live or not; all else is skipped."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.perform import perform_change
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tasks_of_files import file_owner_of
from evenbeat.core.gate import Reason
from evenbeat.core.permission import CommandPolicy, may_define
from evenbeat.load.config import Config, NodeSettings
from evenbeat.load.task_tables import task_from_table
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


def up(driven: HandDrivenNode, *files: Path) -> None:
    """A node starts with these files."""
    apply_files_at_start(TaskAdmin(driven.store, lambda: Instant(driven.now)), files, is_strict=True)
    driven.restart()


def skips(driven: HandDrivenNode, name: str) -> list[tuple[str, int]]:
    number = driven.admin.find_or_raise(name).number
    return [(skip.reason, skip.times) for skip in driven.store.skips(number, most=100)]


def test_what_is_there_already_is_listed_and_not_run_and_every_nominal_time_is_accounted_for(tmp_path: Path) -> None:
    driven = HandDrivenNode()
    driven.add("theirs", owner="api")
    driven.add("disk", owner="api", check=True)
    up(driven, file(tmp_path, STRICT + TASK))
    made = driven.advance(5 * MINUTE)
    assert set(driven.names(made)) == {"mine"}
    assert {reason for reason, _ in skips(driven, "theirs")} == {"not from a file"}
    assert sum(times for _, times in skips(driven, "theirs")) == 5
    condition = driven.condition("theirs")
    assert (condition.blocked, condition.next_run) == (Reason.NOT_FROM_A_FILE, None)
    assert driven.condition("mine").blocked == ""
    assert next_run_time(driven.node, driven.row("theirs")) is None
    number = driven.admin.find_or_raise("theirs").number
    moment = live_task_state_of(driven.node, number)
    entry = driven.admin.find_or_raise("theirs")
    for live in (True, False):
        seen = (live, moment if live else None)
        said = explain(driven.store, entry.id, None, Instant(driven.now), partial(lambda seen, _: seen, seen)).answer
        assert said.startswith("theirs does not run: not from a file")
        assert "`evenbeat up`" in said


def test_force_is_refused_by_name_and_leaves_them_out_by_filter(tmp_path: Path) -> None:
    driven = HandDrivenNode()
    driven.add("theirs", owner="api")
    up(driven, file(tmp_path, STRICT + TASK))
    with pytest.raises(Forbidden, match="write it into a file that is named at `evenbeat up`"):
        driven.force("theirs")
    assert [entry.task.name for entry in driven.admin.select_forced((), "ana", Filter())] == ["mine"]
    driven.force("mine")
    assert driven.names(driven.turn()) == ["mine"]
    driven.end("mine")
    driven.pause("mine")
    assert not driven.advance(2 * MINUTE)
    driven.pause("mine", paused=False)
    assert driven.names(driven.advance(MINUTE)) == ["mine"]


def test_a_forced_run_that_waited_over_the_restart_is_refused(tmp_path: Path) -> None:
    driven = HandDrivenNode(slots=1)
    driven.add("long", owner="api", cron="0 0 1 1 *")
    driven.add("theirs", owner="api", cron="0 0 1 1 *")
    driven.force("long")
    driven.turn()
    driven.force("theirs")
    assert not driven.turn()
    up(driven, file(tmp_path, STRICT + TASK))
    assert set(driven.names(driven.advance(2 * MINUTE))) == {"mine"}


def test_a_reload_turns_it_on_and_off_while_the_node_lives(tmp_path: Path) -> None:
    driven = HandDrivenNode()
    path = file(tmp_path, TASK)
    up(driven, path)
    driven.add("theirs", owner="api")
    assert set(driven.names(driven.advance(MINUTE))) == {"mine", "theirs"}
    for text, ran in ((STRICT + TASK, {"mine"}), (TASK, {"mine", "theirs"})):
        file(tmp_path, text)
        driven.admin.apply([path], "reload", anew=True)
        driven.node.apply_changes()
        assert set(driven.names(driven.advance(MINUTE))) == ran


def test_a_passive_check_may_come_from_anybody_but_not_its_command(tmp_path: Path) -> None:
    driven = HandDrivenNode()
    driven.add("beat", owner="api", check=True, passive=True, grace="0s", timebox="1s", command=["true"])
    up(driven, file(tmp_path, STRICT + TASK))
    driven.add("pushed", owner="api", check=True, passive=True)
    with pytest.raises(Forbidden, match="passive = true"):
        driven.add("more", owner="api", check=True, passive=True, command=["id"])
    driven.advance(3 * MINUTE)
    assert "beat" not in driven.names(driven.dispatched)
    assert driven.condition("beat").state is State.CRITICAL


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
    driven = HandDrivenNode()
    up(driven, file(tmp_path, (STRICT if is_strict else "") + TASK))
    with pytest.raises(Forbidden, match="stands for a file of the node"):
        perform_change(driven.admin, change)


def test_what_is_executed_is_changed_in_the_file_only(tmp_path: Path) -> None:
    driven = HandDrivenNode()
    driven.add("theirs", owner="api")
    path = file(tmp_path, STRICT + TASK)
    up(driven, path)
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
                perform_change(driven.admin, change)
    driven.set("mine", every="2m", command=["true"], priority=3)  # when is not what
    driven.remove("mine")
    # The file brings it back, and what the file says of the node stays.
    driven.admin.remove(Filter(owner=file_owner_of(path)), "eve")
    assert permission_of(driven.store).commands is CommandSource.FILES
    driven.admin.apply([path], "reload")
    assert driven.admin.find_or_raise("mine").task.job.command == ("true",)


def test_a_program_or_another_file_adds_nothing_that_is_executed(tmp_path: Path) -> None:
    driven = HandDrivenNode()
    path = file(tmp_path, STRICT + TASK)
    up(driven, path)
    other = file(tmp_path, TASK.replace("mine", "other"), "other.toml")
    with pytest.raises(Forbidden, match=r"only the files named at `evenbeat up` are applied"):
        driven.admin.apply([path, other], "eve")
    config = Config((task_from_table("new", JOB, check=False),), {}, {}, None)
    with pytest.raises(Forbidden, match="only files named at `evenbeat up` may say"):
        driven.admin.apply_config("app:program", config, "program")
    said = Config((), {}, {}, NodeSettings(pass_env=("SECRET_*",), commands=CommandSource.ANYONE))
    with pytest.raises(Forbidden, match="pass_env"):
        driven.admin.apply_config("upload:elsewhere.toml", said, "eve")
    up(driven, path, other)
    assert {"mine", "other"} == set(driven.names(driven.advance(MINUTE)))
    # What is not named any more is not executed any more.
    up(driven, path)
    assert set(driven.names(driven.advance(MINUTE))) == {"mine"}
    assert driven.condition("other").blocked


LIVE, STOPPED = "live", "stopped"


@pytest.mark.parametrize("way", [LIVE, STOPPED])
def test_live_or_stopped_the_same_is_refused_and_the_same_runs(tmp_path: Path, way: str) -> None:
    driven = HandDrivenNode()
    path = file(tmp_path, TASK)
    up(driven, path)
    driven.add("theirs", owner="api")
    driven.advance(30 * SECOND)
    file(tmp_path, STRICT + TASK)

    def changing(change: Callable[[TaskAdmin], object]) -> None:
        if way == LIVE:
            change(driven.admin)
            driven.node.apply_changes()
        else:
            change(TaskAdmin(driven.store, lambda: Instant(driven.now)))
            driven.restart()

    changing(lambda admin: admin.apply([path], "ana", anew=True))
    driven.advance(5 * MINUTE)
    with pytest.raises(Forbidden):
        changing(
            lambda admin: perform_change(admin, AddTasks((task_from_table("new", JOB, check=False),), "api", "eve"))
        )
    ran = [(run.name, run.nominal) for run in driven.dispatched]
    assert [name for name, _ in ran if name == "theirs"] == []
    assert len([name for name, _ in ran if name == "mine"]) == 6
    assert skips(driven, "theirs")
    assert {reason for reason, _ in skips(driven, "theirs")} == {Reason.NOT_FROM_A_FILE}


def test_a_file_that_cannot_be_applied_starts_no_node_on_what_somebody_changed(tmp_path: Path) -> None:
    driven = HandDrivenNode()
    path = file(tmp_path, STRICT + TASK)
    up(driven, path)
    admin = TaskAdmin(driven.store, lambda: Instant(driven.now))
    path.write_text("[tasks")
    _, problem = apply_files_at_start(admin, [path], is_strict=False)
    assert problem
    driven.admin.remove(Filter(names=("mine",)), "eve")
    with pytest.raises(ValueError, match=r"tasks\.toml"):
        apply_files_at_start(admin, [path], is_strict=False)


def test_who_may_define_what() -> None:
    strict = CommandPolicy(CommandSource.FILES, frozenset({"file:a"}))
    nothing, old, new = Job(), Job(command=("true",)), Job(command=("id",))
    assert may_define(CommandPolicy(), "api", old, new)
    assert may_define(strict, "api", old, old)
    assert may_define(strict, "api", old, nothing)
    assert not may_define(strict, "api", nothing, new)
    assert not may_define(strict, "file:a", old, nothing)
    assert not may_define(strict, "file:b", nothing, new)
