"""Functions through the local queue, in real host processes."""

import time
from pathlib import Path

import msgspec
import pytest
from queue_node import QueueNode, is_alive, play

from evenbeat.core.timebox import NO_TIMEBOX
from evenbeat.model import OUTPUT_LIMIT, SECOND, ArgumentItem, Job, Outcome, State
from evenbeat.queue.local import async_function_host
from evenbeat.wire.worker_frames import RunResult

HERE = Path(__file__).parents[2] / "support"


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's modules are looked for in the working directory of the node."""
    monkeypatch.chdir(HERE)


def call(function: str, *args: ArgumentItem, **kwargs: ArgumentItem) -> Job:
    return Job(function=f"sample_functions:{function}", args=args, kwargs=kwargs)


def answer(function: str, *args: ArgumentItem, timebox: float = 10, check: bool = False) -> RunResult:
    found: list[RunResult] = []

    async def scene(queue_node: QueueNode) -> None:
        found.append(await queue_node.run(call(function, *args), timebox=timebox, check=check))

    play(scene)
    return found[0]


def test_a_function_gets_its_arguments_and_its_text_is_the_output() -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.run(call("add", 2, 3, sep="="))
        assert (result.outcome, result.status, result.output) == (Outcome.SUCCEEDED, 0, b"sum=5\n")

    play(scene)


def test_what_a_function_does_to_its_arguments_does_not_change_those_of_the_next_run() -> None:
    async def scene(queue_node: QueueNode) -> None:
        by_position, by_name = call("grow", [1, 2]), call("grow", values=[1, 2])
        outputs = [(await queue_node.run(job)).output for job in (by_position, by_position, by_name, by_name)]
        assert outputs == [b"3\n"] * 4

    play(scene)


def test_runs_that_say_nothing_and_runs_that_do_end_as_they_should_in_any_order() -> None:
    async def scene(queue_node: QueueNode) -> None:
        functions = ["nothing_much", "add", "nothing_much", "fail", "nothing_much", "nothing_much"]
        jobs = [call(name, *((1, 2) if name == "add" else ())) for name in functions * 20]
        results = await queue_node.answers(queue_node.send(*jobs))
        ended = [(result.outcome, result.status, result.output[:5]) for result in results]
        expected = {
            "nothing_much": ("succeeded", 0, b""),
            "add": ("succeeded", 0, b"sum 3"),
            "fail": ("failed", 1, b"Trace"),
        }
        assert ended == [expected[name] for name in functions] * 20
        assert all(result.started <= result.ended for result in results)

    play(scene)


def test_a_function_whose_first_parameter_is_run_knows_its_run() -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.run(call("greet", "hello"), name="report", nominal=1_700_000_000_000_001, attempt=2)
        assert result.output.decode().splitlines() == [
            "hello report 2",
            "2023-11-14T22:13:20.000001+00:00 True True False",
        ]

    play(scene)


def test_what_a_function_prints_and_logs_is_its_output() -> None:
    assert answer("talk").output == b"printed\ncomplained\n\xff\nINFO talk: said\nWARNING talk: logged\n"


def test_a_function_gets_lists_and_tables() -> None:
    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.run(call("total", [1, 2], rates={"a": [3, {"b": 4}]}))
        assert result.output == b"3 {'a': [3, {'b': 4}]}\n"

    play(scene)


@pytest.mark.parametrize(
    ("function", "returned"),
    [
        ("rows", b'{"value":{"rows":[1,2.5,null]}}'),
        ("nothing_much", b""),
        ("too_much", b'{"refused":"65550 bytes, accepted: at most 65536"}'),
        ("odd", b'{"refused":"a object that is no JSON: Encoding objects of type object is unsupported"}'),
    ],
)
def test_what_a_function_returns_is_reported(function: str, returned: bytes) -> None:
    result = answer(function)
    assert (result.outcome, result.returned) == (Outcome.SUCCEEDED, returned)
    is_refused = returned.startswith(b'{"refused"')
    assert (b"what it returned is not kept" in result.output) is is_refused


def test_a_module_that_configures_logging_decides_how_records_look() -> None:
    assert answer("log_as_configured").output == b"mine logged\n"


def test_the_cursor_of_one_run_is_found_by_the_next() -> None:
    async def scene(queue_node: QueueNode) -> None:
        first = await queue_node.run(call("count"))
        second = await queue_node.run(call("count"), cursor=first.cursor)
        assert (first.output, second.output) == (b"at 1\n", b"at 2\n")
        untouched = await queue_node.run(call("add", 1, 2), cursor=second.cursor)
        assert untouched.cursor is None
        for bad, reason in (("too_much_cursor", b"accepted: at most 4096"), ("odd_cursor", b"found list")):
            result = await queue_node.run(call(bad))
            assert (result.outcome, result.cursor) == (Outcome.FAILED, None)
            assert reason in result.output

    play(scene)


def test_an_exception_is_a_failure_with_its_traceback_and_without_our_own_lines() -> None:
    result = answer("fail")
    text = result.output.decode()
    assert (result.outcome, result.status) == (Outcome.FAILED, 1)
    assert text.startswith("Traceback (most recent call last):")
    assert text.endswith("ValueError: no luck today\n")
    assert "sync_host" not in text
    assert answer("fail", check=True).status == State.UNKNOWN


def test_a_check_returns_its_state_and_a_task_may_return_anything() -> None:
    async def scene(queue_node: QueueNode) -> None:
        for value, status, output in [(None, 0, b""), (0, 0, b""), (2, 2, b""), ("fine", 0, b"fine\n")]:
            result = await queue_node.run(call("give", value), check=True)
            assert (result.status, result.output) == (status, output)
            assert result.outcome == (Outcome.FAILED if status else Outcome.SUCCEEDED)
        both = await queue_node.run(call("pair", 1, "slow | t=2s"), check=True)
        assert (both.outcome, both.status, both.output) == (Outcome.FAILED, State.WARNING, b"slow | t=2s\n")
        for odd in (4, -1, True, 1.5):
            result = await queue_node.run(call("give", odd), check=True)
            assert (result.status, b"accepted: 0 to 3" in result.output) == (State.UNKNOWN, True)
        for anything in (17, True, 1.5, None):
            assert (await queue_node.run(call("give", anything))).outcome == Outcome.SUCCEEDED

    play(scene)


@pytest.mark.parametrize("function", ["lazy", "lazy_async", "lazy_object", "lazy_partial"])
def test_a_generator_runs_nothing_so_it_is_refused(function: str) -> None:
    result = answer(function)
    assert result.outcome == Outcome.BROKEN
    assert f"sample_functions:{function} is a generator: calling it runs nothing" in result.output.decode()


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("function", ["lazy_inside", "lazy_inside_async"])
def test_a_function_that_returns_what_was_not_run_has_failed(function: str, *, check: bool) -> None:
    result = answer(function, check=check)
    assert (result.outcome, result.status) == (Outcome.FAILED, State.UNKNOWN if check else 1)
    assert result.output == b"it returned a generator, and nothing of that was run\n"


def test_a_partial_of_a_module_is_found_by_its_name() -> None:
    assert answer("three").output == b"sum 3\n"


def test_sys_exit_means_what_it_means_in_a_program() -> None:
    async def scene(queue_node: QueueNode) -> None:
        for code, status, output in [(None, 0, b""), (0, 0, b""), (2, 2, b""), ("sorry", 1, b"sorry\n")]:
            result = await queue_node.run(call("leave", code))
            assert (result.status, result.output) == (status, output)

    play(scene)


def test_a_function_can_ask_for_the_node_to_stop() -> None:
    assert answer("stop").stop_node
    assert not answer("add", 1, 2).stop_node


def test_a_function_of_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("word = 'beside'\n")
    file = tmp_path / "app.py"
    file.write_text("import beside\ndef say(): return f'{beside.word} {__name__ != \"__main__\"}'\n")

    async def scene(queue_node: QueueNode) -> None:
        assert (await queue_node.run(Job(function=f"{file}:say"))).output == b"beside True\n"

    play(scene)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("no_such_module:x", "No module named 'no_such_module' (looked in "),
        ("no_such_file.py:x", "no such file: "),
        ("sample_functions:missing", "has no attribute 'missing'"),
        ("sample_functions:not_a_function", "int is not a function"),
        ("sample_functions", "names no function, accepted: module:function or file.py:function"),
        ("broken_module:x", "SyntaxError"),
    ],
)
def test_a_function_that_is_not_there_says_where_it_was_looked_for(
    reference: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("def x(:\n")
    (tmp_path / "sample_functions.py").write_text((HERE / "sample_functions.py").read_text())
    monkeypatch.chdir(tmp_path)

    async def scene(queue_node: QueueNode) -> None:
        result = await queue_node.run(Job(function=reference))
        assert result.outcome == Outcome.BROKEN
        assert reason in result.output.decode()

    play(scene)


def test_output_of_a_function_has_the_same_limit_as_any() -> None:
    result = answer("flood")
    assert (len(result.output) <= OUTPUT_LIMIT, result.truncated) == (True, True)


def test_the_guard_runs_in_the_host_too() -> None:
    async def scene(queue_node: QueueNode) -> None:
        now = time.time_ns() // 1_000
        for function in ("add", "anap"):
            soon = await queue_node.run(call(function, 1, 2), last_start=now - SECOND)
            assert soon.outcome == Outcome.DROPPED

    play(scene)


def test_a_function_is_interrupted_at_its_timebox_and_may_tidy_up() -> None:
    result = answer("polite_nap", timebox=3)
    assert (result.outcome, result.output) == (Outcome.TIMEBOXED, b"tidied up\n")
    assert msgspec.msgpack.decode(result.cursor or b"") == "saved"


@pytest.mark.parametrize("function", ["stuck_in_c", "deaf", "swallow"])
def test_a_function_that_will_not_end_costs_its_host_and_not_the_runs_behind_it(function: str) -> None:
    async def scene(queue_node: QueueNode) -> None:
        (stuck,) = queue_node.send(call(function), timebox=0.1)
        behind = queue_node.send(*[call("who")] * 20)
        (result,) = await queue_node.answers([stuck])
        assert result.outcome == Outcome.TIMEBOXED
        assert {r.outcome for r in await queue_node.answers(behind)} == {Outcome.SUCCEEDED}

    play(scene, hosts=1)


def test_a_function_that_crashes_is_lost_and_the_runs_behind_it_are_made() -> None:
    async def scene(queue_node: QueueNode) -> None:
        before = await queue_node.run(call("who"))
        await queue_node.answers(queue_node.send(*[call("who")] * 5))
        tokens = queue_node.send(call("crash"), *[call("who")] * 20)
        crashed, *rest = await queue_node.answers(tokens)
        assert (crashed.outcome, crashed.status) == (Outcome.LOST, None)
        assert {r.outcome for r in rest} == {Outcome.SUCCEEDED}
        assert rest[-1].output.split()[0] != before.output.split()[0]

    play(scene, hosts=1)


def test_what_a_function_started_ends_with_its_host(tmp_path: Path) -> None:
    async def scene(queue_node: QueueNode) -> None:
        file = tmp_path / "pid"
        result = await queue_node.run(call("start_something_and_crash", str(file)))
        assert result.outcome == Outcome.LOST
        await queue_node.until(lambda: not is_alive(int(file.read_text())))

    play(scene)


def test_ordinary_functions_run_at_the_same_time_in_as_many_hosts_as_allowed() -> None:
    async def scene(queue_node: QueueNode) -> None:
        slow, quick = queue_node.send(call("nap", 30.0), call("add", 1, 2), timebox=60)
        await queue_node.answers([quick])
        assert slow not in queue_node.results
        assert len(queue_node.queue.pids) == 3

    play(scene, hosts=2)


def test_a_run_that_lasts_is_told_as_started() -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(call("nap", 0.0))
        (token,) = queue_node.send(call("nap", 30.0), timebox=60)
        await queue_node.until(lambda: token in queue_node.started)

    queue_node = play(scene)
    assert queue_node.results[1].outcome == Outcome.CANCELLED


def test_asynchronous_functions_share_one_host_and_run_at_the_same_time() -> None:
    async def scene(queue_node: QueueNode) -> None:
        began = time.monotonic()
        results = await queue_node.answers(queue_node.send(*[call("anap", 0.3)] * 50))
        assert time.monotonic() - began < 0.3 * 50
        assert {r.outcome for r in results} == {Outcome.SUCCEEDED}
        assert len({r.output.splitlines()[-1] for r in results}) == 1
        assert {r.output.splitlines()[0] for r in results} == {b"one a task"}, "each run has its own output"

    play(scene)


def test_an_asynchronous_function_is_cancelled_at_its_timebox() -> None:
    result = answer("acursor", timebox=0.1)
    assert result.outcome == Outcome.TIMEBOXED
    assert msgspec.msgpack.decode(result.cursor or b"") == "here"


def test_an_asynchronous_function_can_fail_and_a_disguised_one_still_runs() -> None:
    failed = answer("afail")
    assert (failed.outcome, failed.status) == (Outcome.FAILED, 1)
    assert failed.output.endswith(b"ValueError: no luck today\n")
    assert answer("in_disguise", "found").output == b"found\n"


def test_one_that_swallows_its_cancellation_costs_the_host_and_others_are_lost() -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(call("anap", 0.0))
        (other,) = queue_node.send(call("anap", 30.0), timebox=60)
        swallowed = await queue_node.run(call("aswallow"), timebox=0.1)
        assert swallowed.outcome == Outcome.TIMEBOXED
        assert (await queue_node.answers([other]))[0].outcome == Outcome.LOST
        assert (await queue_node.run(call("anap", 0.0))).outcome == Outcome.SUCCEEDED

    play(scene)


def test_one_that_blocks_the_loop_costs_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_function_host, "UNRESPONSIVE_AFTER", 0.2)
    monkeypatch.setattr(async_function_host, "_POLL_INTERVAL", 0.05)

    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(call("anap", 0.0))
        result = await queue_node.run(call("ablock"), timebox=0.1)
        assert result.outcome == Outcome.TIMEBOXED
        assert (await queue_node.run(call("anap", 0.0))).outcome == Outcome.SUCCEEDED

    play(scene)


def test_functions_can_be_cancelled() -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(call("anap", 0.0))
        tokens = queue_node.send(call("nap", 30.0), call("anap", 30.0), timebox=60)
        await queue_node.until(lambda: set(tokens) <= set(queue_node.started))
        queue_node.queue.cancel(tokens)
        assert {r.outcome for r in await queue_node.answers(tokens)} == {Outcome.CANCELLED}

    play(scene)


@pytest.mark.parametrize("function", ["swallow", "aswallow"])
def test_one_that_does_not_end_when_it_is_cancelled_costs_its_host(function: str) -> None:
    async def scene(queue_node: QueueNode) -> None:
        (token,) = queue_node.send(call(function), timebox=NO_TIMEBOX / SECOND)
        await queue_node.until(lambda: token in queue_node.started)
        queue_node.queue.cancel([token])
        (result,) = await queue_node.answers([token])
        assert result.outcome == Outcome.CANCELLED
        assert (await queue_node.run(call("add", 2, 3))).outcome == Outcome.SUCCEEDED

    play(scene)
