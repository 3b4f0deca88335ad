"""Runs with arguments of their own, by each way to ask a live node: the same is run, and refused in the same words."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer
from live_node import LiveNode

from conftest import Evenbeat
from evenbeat.app import App
from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.in_process import InProcessBackend
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import Invalid
from evenbeat.store.contract import Conflict
from evenbeat.wire.replies import EndedRun
from evenbeat.wire.requests import RunArguments

WAYS = ("live node", "URL", "program")
HELLO = ["sh", "-c", 'echo "$0 $@ $WHO"', "hello"]
TASKS: dict[str, dict[str, Any]] = {
    "hello": {"command": HELLO},
    "line": {"command": "true", "shell": True},
    "nap": {"command": ["sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.01; done']},
}


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[], Client]]]:
    folder = tmp_path_factory.mktemp("ways")
    with ExitStack() as stack:
        near = stack.enter_context(LiveNode(folder / "near.db", grace=0.1))
        stack.enter_context(LiveNode(folder / "serving.db", grace=0.1))
        url = f"http://127.0.0.1:{stack.enter_context(HttpServer(folder)).port}"
        app = App(":memory:", workers=1)
        app.start()
        stack.callback(app.stop, wait=True)
        found: dict[str, Callable[[], Client]] = {
            "live node": lambda: DatabaseClient(near.database, "eva"),
            "URL": lambda: HttpClient(ApiConnection(url)),
            "program": app._client,
        }
        for way in WAYS:
            with closing(found[way]()) as client:
                for name, work in TASKS.items():
                    keys = {"every": "1d", "env": {"WHO": "world"}, **work}
                    client.add([task_from_table(name, keys, check=False)], "eva")
        yield found


@pytest.fixture(params=WAYS)
def client(request: pytest.FixtureRequest, ways: dict[str, Callable[[], Client]]) -> Iterator[Client]:
    with closing(ways[request.param]()) as client:
        yield client


def outputs(ended: list[EndedRun]) -> list[str]:
    return [run.output for run in ended]


def test_one_run_has_them(client: Client) -> None:
    own = RunArguments(("dear",), env={"WHO": "reader"})
    assert outputs(client.run_now(["hello"], wait=True, arguments=own)) == ["hello dear reader\n"]
    assert outputs(client.run_now(["hello"], wait=True)) == ["hello  world\n"]


@pytest.mark.parametrize(
    ("names", "arguments", "message"),
    [
        (["hello"], RunArguments(kwargs={"a": 1}), "a command has no named arguments, found 'a'"),
        (["hello"], RunArguments((1,)), "1 is no word of a command"),
        (["line"], RunArguments(("a",)), "a line for the shell gets no further words"),
        (["hello", "line"], RunArguments(("a",)), "arguments are for the run of one task"),
        (["hello"], RunArguments(env={"A=B": ""}), "'A=B' cannot be the name of a variable"),
    ],
)
def test_what_a_task_cannot_have_is_refused(
    client: Client, names: list[str], arguments: RunArguments, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        client.run_now(names, wait=True, arguments=arguments)


def test_another_forced_run_does_not_merge_into_it(client: Client, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    client.request_run(["nap"], RunArguments((str(flag),)))
    for own in (None, RunArguments(("other",))):
        with pytest.raises(Conflict, match="'nap' has a run with arguments of its own that has not ended"):
            client.request_run(["nap"], own)
    flag.touch()


def test_the_command_line_types_values_for_functions_and_not_for_commands(
    evenbeat: Evenbeat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text("def order(number, items=None, dry=False): return repr((number, items, dry))\n")
    with LiveNode(tmp_path / "a.db", grace=0.1):
        evenbeat("add", "order", "--every", "1d", "--function", "shop:order", "--kwarg", "number=1", "--db", "a.db")
        evenbeat("add", "hello", "--every", "1d", "--db", "a.db", "--", *HELLO)
        run = ("run", "--wait", "--json", "--db", "a.db")
        ended = evenbeat(*run, "order", "--arg", "number=2", "--arg", 'items=["a", 1]', "--arg", "dry=true")
        assert ended.json["runs"][0]["output"] == "(2, ['a', 1], True)\n"
        ended = evenbeat(*run, "hello", "--arg", "a=1", "--arg", "b c", "--env", "WHO=you")
        assert ended.json["runs"][0]["output"] == "hello a=1 b c you\n"
        assert "--arg: 'x' is not K=V" in evenbeat(*run, "order", "--arg", "x").err
        assert evenbeat(*run, "order", "--arg", "numbre=2").json["runs"][0]["outcome"] == "failed"


def test_functions_of_a_program_get_python_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text("def order(number, items=None): return repr((number, items))\n")
    monkeypatch.chdir(tmp_path)
    app = App(":memory:", workers=1)
    app.create("order", every="1d", function="shop:order", args=[1])
    assert isinstance(app._inside, InProcessBackend)
    app.start()
    try:
        (run,) = app.force("order", wait=True, args=[2], kwargs={"items": [{"a": None}]})
        assert run.output == "(2, [{'a': None}])\n"
        assert app.result(run) == "(2, [{'a': None}])"
        assert app.force("order", wait=True)[0].output == "(1, None)\n"
        assert app.result("order") == "(1, None)"
    finally:
        app.stop(wait=True)
