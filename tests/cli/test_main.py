import argparse
import os
import shlex
import subprocess
import sys

import pytest

from conftest import Evenbeat
from evenbeat.cli.main import parser

COMMANDS = [
    name for action in parser()._actions if isinstance(action, argparse._SubParsersAction) for name in action.choices
]


def test_help_names_every_command_and_gives_examples(evenbeat: Evenbeat) -> None:
    result = evenbeat("--help")
    assert result.code == 0
    assert all(command in result.out for command in ("next", "explain", "period", "spread", "bench", "examples:"))


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_explained(evenbeat: Evenbeat, command: str) -> None:
    asked = evenbeat("help", command)
    assert asked.code == 0
    assert asked.out.startswith(f"usage: evenbeat {command}")
    assert evenbeat(command, "--help").out == asked.out


def test_help_alone_is_that_of_all_commands(evenbeat: Evenbeat) -> None:
    asked = evenbeat("help")
    assert asked.code == 0
    assert asked.out == evenbeat("--help").out
    assert "evenbeat help COMMAND" in asked.out
    assert evenbeat("help", "nxt").code == 2


def test_no_command_is_bad_input(evenbeat: Evenbeat) -> None:
    result = evenbeat()
    assert result.code == 2
    assert "COMMAND" in result.err


def test_an_unknown_command_is_bad_input_that_lists_the_known_ones(evenbeat: Evenbeat) -> None:
    result = evenbeat("nxt")
    assert result.code == 2
    assert "'next'" in result.err


@pytest.mark.parametrize("argv", [("ls", "--bogus"), ("token", "add", "ci", "--bogus"), ("next", "@daily", "more")])
def test_what_a_command_does_not_know_is_refused_with_its_own_usage(evenbeat: Evenbeat, argv: tuple[str, ...]) -> None:
    result = evenbeat(*argv)
    assert result.code == 2
    assert result.err.startswith(f"usage: evenbeat {argv[0]}")
    assert f"unrecognized arguments: {argv[-1]}" in result.err


def test_help_waits_for_no_heavy_import() -> None:
    heavy = ("numpy", "rich", "cronsim", "matplotlib", "asyncio")
    code = (
        "import sys\nfrom evenbeat.cli.main import parser\nparser().format_help()\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plain_next_does_not_wait_for_numpy() -> None:
    code = (
        "import sys\nfrom evenbeat.cli.main import main\nmain(['next', 'H * * * *', '--json'])\n"
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False"


@pytest.mark.parametrize("said", [None, "2"])
def test_numpy_starts_no_threads_and_the_environment_stays(said: str | None) -> None:
    code = (
        "import os\nfrom evenbeat.cli.main import import_command\nimport_command('evenbeat.cli.commands.up')\n"
        "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    env = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    env |= {} if said is None else {"OPENBLAS_NUM_THREADS": said}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    threads, left = done.stdout.split()
    assert left == str(said)
    if said is None:
        assert threads == "1"


def test_python_dash_m_is_the_same_command() -> None:
    argv = [sys.executable, "-m", "evenbeat", "explain", "@daily", "--name", "x", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert '"resolved"' in done.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    argv = [sys.executable, "-m", "evenbeat", "next", "* * * * *", "-n", "10000"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def run_with(stdout: str, *argv: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = " ".join(["exec", shlex.quote(sys.executable), "-m", "evenbeat", *map(shlex.quote, argv), stdout])
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False, env=os.environ | env)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_full_disk_is_said_in_one_line(form: tuple[str, ...]) -> None:
    done = run_with(">/dev/full", "next", "--every", "1s", *form)
    assert done.returncode == 1
    assert done.stderr == "evenbeat next: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_closed_stdout_is_no_traceback(form: tuple[str, ...]) -> None:
    done = run_with(">&-", "next", "--every", "1s", *form)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_terminal_without_blocks_gets_plain_signs() -> None:
    done = run_with("", "spread", "--tasks", "60", "--every", "1m", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert ",,,,,," in done.stdout


def test_the_version_is_told(evenbeat: Evenbeat) -> None:
    assert evenbeat("--version").out.startswith("evenbeat 0.")
