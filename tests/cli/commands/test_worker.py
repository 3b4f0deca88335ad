"""`evenbeat worker`: what it refuses. What it does is in tests/queue."""

import pytest

from evenbeat.cli.main import main


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --queue nats://HOST:PORT"),
        (["--queue", "http://me:s3cret@one"], "not the address of a queue"),
        (["--queue", "nats://one", "--slots", "0"], "--slots: 0 is out of range"),
        (["--queue", "nats://one", "--workers", "257"], "--workers: 257 is out of range"),
        (["--queue", "nats://one", "--grace", "soon"], "--grace"),
        (["--queue", "nats://one", "--name", "x" * 257], "--name: a name of 257 characters"),
        (["--queue", "nats://one", "--pool", ""], "--pool: a name of 0 characters"),
        (["--queue", "nats://one", *(f"--pool={n}" for n in range(65))], "--pool: 65 pools"),
    ],
)
def test_bad_input_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENBEAT_QUEUE", raising=False)
    assert main(["worker", *options]) == 2
    stderr = capsys.readouterr().err
    assert said in stderr
    assert "s3cret" not in stderr
