import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from evenbeat.cli.main import main


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Evenbeat = Callable[..., Result]


@pytest.fixture
def evenbeat(capsys: pytest.CaptureFixture[str]) -> Evenbeat:
    """Run a command in this process, as typed."""

    def run(*argv: str) -> Result:
        try:
            code = main(list(argv))
        except SystemExit as e:
            code = int(e.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
