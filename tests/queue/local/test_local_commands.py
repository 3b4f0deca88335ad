"""Commands through the local queue, with real processes: polite ones and hostile ones."""

import os
import signal
import time
from pathlib import Path

import pytest
from queue_node import QueueNode, is_alive, play

from evenbeat.model import OUTPUT_LIMIT, SECOND, Job, Outcome
from evenbeat.wire.worker_frames import RunResult

IS_ROOT = os.getuid() == 0


def answer(*words: str, timebox: float = 10, shell: bool = False, **job: object) -> RunResult:
    """The result of one command."""
    found: list[RunResult] = []

    async def scene(queue_node: QueueNode) -> None:
        found.append(await queue_node.run(Job(command=words, shell=shell, **job), timebox=timebox))  # type: ignore[arg-type]

    play(scene)
    return found[0]


def child_memory(process: int) -> int:
    """The most it ever had, in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise AssertionError("no such line")


def test_a_command_that_ends_well_succeeds_with_its_output() -> None:
    result = answer("echo", "hello world")
    assert (result.outcome, result.status, result.output) == (Outcome.SUCCEEDED, 0, b"hello world\n")
    assert result.started <= result.ended
    assert not result.truncated


def test_an_exit_status_is_a_failure_and_told() -> None:
    result = answer("echo out; echo err >&2; exit 3", shell=True)
    assert (result.outcome, result.status, result.output) == (Outcome.FAILED, 3, b"out\nerr\n")


def test_a_signal_that_is_not_ours_kills_and_is_told_as_a_negative_status() -> None:
    result = answer("kill -SEGV $$", shell=True)
    assert (result.outcome, result.status) == (Outcome.KILLED, -11)


def test_noop_succeeds_without_a_process() -> None:
    result = answer("noop")
    assert (result.outcome, result.status, result.started) == (Outcome.SUCCEEDED, 0, result.ended)


def test_a_command_finds_itself_in_its_environment() -> None:
    found: list[RunResult] = []

    async def scene(queue_node: QueueNode) -> None:
        job = Job(command=("env",), env={"COLOR": "blue", "EMPTY": ""})
        found.append(await queue_node.run(job, name="täsk", nominal=1_700_000_000_000_001, attempt=2))

    play(scene)
    lines = found[0].output.decode().splitlines()
    assert {"EVENBEAT_NAME=täsk", "EVENBEAT_ATTEMPT=2", "COLOR=blue", "EMPTY="} <= set(lines)
    assert "EVENBEAT_NOMINAL=2023-11-14T22:13:20.000001+00:00" in lines
    assert any(line.startswith("PATH=") for line in lines)


def test_what_one_run_finds_in_its_environment_the_next_does_not() -> None:
    found: list[RunResult] = []

    async def scene(queue_node: QueueNode) -> None:
        for job in (Job(command=("env",), env={"COLOR": "blue", "PATH": "/bin:/usr/bin:/x"}), Job(command=("env",))):
            found.append(await queue_node.run(job, name=f"task {len(found)}", attempt=1 + len(found)))

    play(scene, workers=1)
    lines = set(found[1].output.decode().splitlines())
    assert {"EVENBEAT_NAME=task 1", "EVENBEAT_ATTEMPT=2", f"PATH={os.environ['PATH']}"} <= lines
    assert "COLOR=blue" in found[0].output.decode().splitlines()
    assert "COLOR=blue" not in lines


def test_a_node_that_is_a_run_itself_tells_its_runs_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENBEAT_NAME", "that of the node")
    for env in ({}, {"COLOR": "blue"}):
        lines = answer("env", env=env).output.decode().splitlines()
        assert [line for line in lines if line.startswith("EVENBEAT_NAME=")] == ["EVENBEAT_NAME=a task"]


def test_runs_that_wait_for_their_start_together_find_themselves() -> None:
    async def scene(queue_node: QueueNode) -> None:
        job = Job(command=('echo "$EVENBEAT_NAME $EVENBEAT_ATTEMPT"',), shell=True)
        tokens = [token for i in range(1, 40) for token in queue_node.send(job, name=f"task {i}", attempt=i)]
        outputs = [result.output.decode() for result in await queue_node.answers(tokens)]
        assert outputs == [f"task {i} {i}\n" for i in range(1, 40)]

    play(scene)


@pytest.mark.parametrize("name", ["", "A=B"])
def test_a_variable_that_cannot_be_is_refused(name: str) -> None:
    for user in (None, "root"):
        result = answer("env", env={name: "x"}, user=user)
        assert (result.outcome, result.output) == (Outcome.BROKEN, b"'env': illegal environment variable name")


def test_a_nul_is_refused_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"half\0of it")
    refused = (Outcome.BROKEN, b"'env': embedded null byte")

    async def scene(queue_node: QueueNode) -> None:
        for job, name in (
            (Job(command=("env",)), "half\0of it"),
            (Job(command=("env",), env={"A": "half\0of it"}), "task"),
            (Job(command=("env",), env={"A": f"file:{tmp_path}/secret"}), "task"),
        ):
            result = await queue_node.run(job, name=name)
            assert (result.outcome, result.output) == refused

    play(scene)


def test_secrets_come_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_ENV", "one")
    (tmp_path / "secret").write_text("two\n")
    result = answer("echo $A $B", shell=True, env={"A": "env:FROM_ENV", "B": f"file:{tmp_path}/secret"})
    assert result.output == b"one two\n"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("env:NOT_THERE", "env.A: the worker has no variable NOT_THERE"),
        ("file:/not/there", "env.A: /not/there: no such file or directory"),
        ("file:/dev/zero", "not a regular file"),
        ("file:FIFO", "not a regular file"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(
    value: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "FIFO")
    monkeypatch.chdir(tmp_path)
    result = answer("true", env={"A": value})
    assert result.outcome == Outcome.BROKEN
    assert reason in result.output.decode()


def test_a_command_runs_in_its_working_directory_and_the_next_one_does_not(tmp_path: Path) -> None:
    async def scene(queue_node: QueueNode) -> None:
        assert (await queue_node.command("pwd", cwd=str(tmp_path))).output.decode().strip() == str(tmp_path)
        assert (await queue_node.command("pwd")).output.decode().strip() == str(Path.cwd())
        missing = await queue_node.command("pwd", cwd="/not/there")
        assert missing.outcome == Outcome.BROKEN
        assert missing.output == b"the working directory /not/there: no such file or directory"
        assert (await queue_node.command("pwd")).output.decode().strip() == str(Path.cwd())

    play(scene)


def test_a_tilde_is_the_home_folder_of_who_runs_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "other").mkdir()
    assert answer("pwd", cwd="~").output.decode().strip() == str(tmp_path)
    own = answer("pwd", cwd="~", env={"HOME": str(tmp_path / "other")})
    assert own.output.decode().strip() == str(tmp_path / "other")
    if IS_ROOT:
        assert answer("pwd", cwd="~", user="sys").output.decode().strip() == "/dev"


@pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
def test_a_command_runs_as_its_user_with_the_groups_and_the_home_of_that_user() -> None:
    result = answer('echo "$(id -un) $(id -u -r) $USER"; id -G; echo "$HOME"', shell=True, user="nobody", cwd="/")
    who, groups, home = result.output.decode().splitlines()
    name, number, variable = who.split()
    assert (name, variable) == ("nobody", "nobody")
    assert number != "0"
    assert "0" not in groups.split()
    assert home != os.environ.get("HOME")


def test_a_user_who_does_not_exist_is_named() -> None:
    result = answer("true", user="no-such-user")
    assert (result.outcome, result.output) == (Outcome.BROKEN, b"no such user: no-such-user")


def make(path: Path, text: str, mode: int) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    no_loader = make(tmp_path / "no_loader", "#!/not/there\n", 0o755)
    no_first_line = make(tmp_path / "no_first_line", "echo hello\n", 0o755)
    not_executable = make(tmp_path / "not_executable", "#!/bin/sh\n", 0o644)
    expected = {
        ("/not/there",): "no such file: /not/there",
        ("check_nothing",): "no such file: check_nothing (looked in PATH /a:/b)",
        ("",): "no such file:  (looked in PATH /a:/b)",
        (not_executable,): f"not executable: {not_executable}",
        (str(tmp_path),): f"not executable: {tmp_path}",
        (no_loader,): f"{no_loader}: the program named in its first line",
        (no_first_line,): "not a program, and no script with a first line such as #!/bin/sh",
        ("/bin/true", "nul\0"): "'/bin/true': embedded null byte",
        ("/bin/true", "x" * 99_999, *["y" * 99_999] * 40): "longer than the kernel takes",
        (): "nothing to run: the task has no command",
    }

    async def scene(queue_node: QueueNode) -> None:
        for words, reason in expected.items():
            result = await queue_node.command(*words, env={"PATH": "/a:/b"})
            assert (result.outcome, result.status) == (Outcome.BROKEN, None)
            assert reason in result.output.decode()

    play(scene)


def test_a_program_in_the_path_that_is_not_executable_is_named(tmp_path: Path) -> None:
    make(tmp_path / "check_it", "#!/bin/sh\n", 0o644)
    result = answer("check_it", env={"PATH": str(tmp_path)})
    assert result.output.decode() == f"not executable: {tmp_path}/check_it"


def test_the_guard_in_the_worker_drops_what_is_too_soon_or_too_late() -> None:
    async def scene(queue_node: QueueNode) -> None:
        now = time.time_ns() // 1_000
        soon = await queue_node.run(Job(command=("true",)), last_start=now - SECOND, interval=60 * SECOND)
        assert (soon.outcome, soon.status) == (Outcome.DROPPED, None)
        assert soon.output.startswith(b"too soon after the last start")
        fine = await queue_node.run(Job(command=("true",)), last_start=now - 60 * SECOND, interval=60 * SECOND)
        assert fine.outcome == Outcome.SUCCEEDED
        late = await queue_node.run(Job(command=("true",)), latest_start=now - 1)
        assert late.outcome == Outcome.DROPPED
        assert late.output.startswith(b"too late to start")

    play(scene)


def test_the_guard_reads_the_clock_of_the_node() -> None:
    async def scene(queue_node: QueueNode) -> None:
        hour = 3_600 * SECOND
        queue_node.queue.set_clock(hour)
        result = await queue_node.run(Job(command=("true",)), latest_start=2 * hour + 10**15)
        assert hour <= result.started < hour + 10**15
        assert (await queue_node.run(Job(command=("true",)), latest_start=hour)).outcome == Outcome.DROPPED

    play(scene)


def test_children_inherit_nothing_but_their_three_descriptors() -> None:
    listing = answer("ls -l /proc/self/fd", shell=True).output.decode()
    targets = [line.split(" -> ")[1] for line in listing.splitlines() if " -> " in line]
    assert targets[0] == "/dev/null"
    assert targets[1] == targets[2]
    assert targets[1].startswith("pipe:")
    assert len(targets) == 4, "the fourth is the directory that ls reads"


def test_children_start_with_signals_as_new_and_no_terminal() -> None:
    status = answer("cat", "/proc/self/status").output.decode()
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    private_to_libc = 1 << 31 | 1 << 32
    assert int(fields["SigIgn"], 16) & ~private_to_libc == 0
    assert int(fields["SigBlk"], 16) == 0
    assert answer("tty").output == b"not a tty\n"


def test_a_child_that_ignores_the_polite_signal_is_killed() -> None:
    result = answer("trap '' TERM; echo stubborn; while :; do sleep 0.05; done", shell=True, timebox=0.2)
    assert (result.outcome, result.status, result.output) == (Outcome.TIMEBOXED, -9, b"stubborn\n")


def test_a_child_that_ends_politely_at_its_timebox_is_timeboxed_all_the_same() -> None:
    result = answer("trap 'echo bye; exit 0' TERM; while :; do sleep 0.02; done", shell=True, timebox=0.2)
    assert (result.outcome, result.status) == (Outcome.TIMEBOXED, 0)
    assert result.output.endswith(b"bye\n")


def test_a_child_that_has_stopped_itself_ends_at_its_timebox() -> None:
    assert answer("kill -STOP $$", shell=True, timebox=0.1).outcome == Outcome.TIMEBOXED


def test_a_timebox_shorter_than_a_moment_holds() -> None:
    assert answer("sleep", "30", timebox=0.01).outcome == Outcome.TIMEBOXED


def test_the_whole_group_ends_at_the_timebox() -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.shell("sleep 300 & echo $!; wait", timebox=0.2)
        assert result.outcome == Outcome.TIMEBOXED
        await queue_node.until(lambda: not is_alive(int(result.output)))

    play(scene)


def test_a_run_ends_with_its_child_and_what_that_left_behind_ends_too() -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.shell("sleep 300 & echo $!", timebox=60)
        assert (result.outcome, result.status) == (Outcome.SUCCEEDED, 0)
        await queue_node.until(lambda: not is_alive(int(result.output)))

    play(scene)


def test_a_daemon_that_holds_the_pipe_does_not_hold_the_run() -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.shell("setsid sleep 300 & echo $!", timebox=60)
        assert (result.outcome, result.status) == (Outcome.SUCCEEDED, 0)
        os.kill(int(result.output), 9)

    play(scene)


def test_a_child_that_closes_its_output_is_waited_for() -> None:
    result = answer("echo early; exec >/dev/null 2>&1; sleep 0.2; exit 7", shell=True)
    assert (result.outcome, result.status, result.output) == (Outcome.FAILED, 7, b"early\n")
    assert result.ended - result.started >= 0.2 * SECOND


def test_a_gigabyte_of_output_costs_no_memory() -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.command("true")
        (worker,) = queue_node.queue.pids
        before = child_memory(worker)
        result = await queue_node.command("head", "-c", "1G", "/dev/zero", timebox=60)
        assert (result.outcome, result.truncated) == (Outcome.SUCCEEDED, True)
        assert result.output.count(0) > OUTPUT_LIMIT - 100
        assert b"bytes left out" in result.output
        assert child_memory(worker) - before < 8 << 20

    play(scene)


def test_output_just_at_the_limit_is_whole() -> None:
    whole = answer("head", "-c", str(OUTPUT_LIMIT), "/dev/zero")
    assert (len(whole.output), whole.truncated) == (OUTPUT_LIMIT, False)
    more = answer("head", "-c", str(OUTPUT_LIMIT + 1), "/dev/zero")
    assert (len(more.output) <= OUTPUT_LIMIT, more.truncated) == (True, True)


def test_a_slow_talker_is_heard_to_the_end() -> None:
    result = answer("for i in 1 2 3; do echo $i; sleep 0.06; done", shell=True)
    assert result.output == b"1\n2\n3\n"


def test_output_that_is_no_text_arrives_as_it_is() -> None:
    assert answer(r"printf '\377\376\0\200'", shell=True).output == b"\xff\xfe\x00\x80"


def test_a_child_that_reads_gets_nothing_to_read() -> None:
    result = answer("cat; echo done", shell=True)
    assert (result.outcome, result.output) == (Outcome.SUCCEEDED, b"done\n")


def test_only_runs_that_last_are_told_as_started() -> None:
    tokens: list[int] = []

    async def scene(queue_node: QueueNode) -> None:
        tokens.extend(queue_node.send(Job(command=("noop",)), Job(command=("sleep", "0.4"))))
        await queue_node.answers(tokens)

    queue_node = play(scene)
    assert list(queue_node.started) == [tokens[1]]
    assert queue_node.started[tokens[1]] == queue_node.results[tokens[1]].started


def test_runs_can_be_cancelled_while_they_run() -> None:
    async def scene(queue_node: QueueNode) -> None:
        one, other = queue_node.send(Job(command=("sleep", "300")), Job(command=("sleep", "300")))
        await queue_node.until(lambda: len(queue_node.started) == 2)
        queue_node.queue.cancel([one])
        (result,) = await queue_node.answers([one])
        assert (result.outcome, result.status) == (Outcome.CANCELLED, -15)
        assert other not in queue_node.results

    queue_node = play(scene)
    assert [r.outcome for r in queue_node.results.values()] == [Outcome.CANCELLED] * 2, "stopping cancels the other"


SETSID = {
    "a child that it waits for": "setsid -w sh -c 'echo $$; exec sleep 300'",
    "a child beside it": "setsid sh -c 'echo $$; exec sleep 300' & wait",
    "a child whose parent has ended": "(setsid sh -c 'echo $$; exec sleep 300' &); sleep 300",
    "a child of such a child": "setsid sh -c 'setsid sh -c \"echo \\$\\$; sleep 300\" & wait' & wait",
    "a child that ignores all but SIGKILL": "setsid sh -c 'trap \"\" TERM; echo $$; sleep 300' & wait",
}


@pytest.mark.parametrize("script", SETSID.values(), ids=SETSID.keys())
def test_what_has_a_session_of_its_own_ends_at_the_timebox_too(script: str) -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.shell(script, timebox=0.5)
        assert result.outcome == Outcome.TIMEBOXED
        process = int(result.output.split()[0])  # what else is there is the shell's, which was told to end
        await queue_node.until(lambda: not is_alive(process))

    play(scene)


def test_what_another_run_has_started_does_not_end_with_it() -> None:
    async def scene(queue_node: QueueNode) -> None:
        script = "(setsid sh -c 'echo $$; exec sleep 300' &); sleep {}"
        other = queue_node.send(Job(command=(script.format(2),), shell=True), timebox=60, name="other")
        result = await queue_node.run(Job(command=(script.format(300),), shell=True), timebox=0.5)
        await queue_node.until(lambda: not is_alive(int(result.output)))
        (its,) = await queue_node.answers(other)
        # It ended by itself, so what it left wanted to stay.
        assert its.outcome == Outcome.SUCCEEDED
        assert is_alive(int(its.output))
        os.kill(int(its.output), signal.SIGKILL)

    play(scene)


def test_daemons_that_end_are_reaped() -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.shell("(setsid sleep 0.01 & echo $!)")
        daemon = int(result.output)
        (worker,) = queue_node.queue.pids
        await queue_node.until(lambda: not Path(f"/proc/{daemon}").exists())
        assert is_alive(worker)

    play(scene)
