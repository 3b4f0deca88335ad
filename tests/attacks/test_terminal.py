"""What a task is called, prints or fails with commands no terminal and forges no line of a log."""

import io
import logging
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from budget import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.text import Text

from conftest import Evenbeat
from evenbeat.cli.main import main
from evenbeat.cli.output.cluster_lines import cluster_lines
from evenbeat.cli.output.common import SafeConsole, console
from evenbeat.cli.output.node_screen import _LogAboveScreen
from evenbeat.cli.output.terminal import EscapingStream, escaped_output, raw_stream
from evenbeat.load.safe_text import UNSAFE_CHARACTERS
from evenbeat.model import Job, Schedule, Task
from evenbeat.node.process.log_format import CondensingHandler, KeyValueFormatter
from evenbeat.report.cluster_document import ClusterDocument, ClusterWorkerDocument
from evenbeat.store.contract import Batch
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_skip

ATTACK = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\r\x08\x00\x7f[link=http://x]y[/link]"
BAD = re.compile(f"(?![\n\t])[{UNSAFE_CHARACTERS}]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


def database_with(folder: str, text: str) -> tuple[str, str]:
    """A database of before, in which this text is everywhere; and the id of its task."""
    path = Path(folder) / "x.db"
    store = SqliteStore(path)
    schedule = Schedule(every=60_000_000, phase=0)
    job = Job(command=("echo", text), env={"A": text})
    task = Task(text, schedule, job, check=True, labels={text: text}, pool=text)
    try:
        (entry,) = store.create([task], text, T0, text)
        store.record(Batch(claims=[a_claim(entry.number)])).result()
        store.record(
            Batch(finishes=[a_finish(entry.number, output=text, outcome="failed", state=2, notable=True)])
        ).result()
        store.record(Batch(skips=[a_skip(entry.number, T0 + 120_000_000, reason=text)])).result()
    finally:
        store.close()
    return str(path), entry.id


def commands(path: str, id_: str, text: str) -> list[list[str]]:
    db = ["--db", path]
    return [
        ["ls", *db],
        ["ls", "--json", *db],
        ["show", id_, *db],
        ["show", id_, "--json", *db],
        ["history", *db],
        ["history", "--json", *db],
        ["why", id_, *db],
        ["status", *db],
        ["pause", id_, *db],
        ["show", f"x{text}", *db],
        ["set", id_, f"every={text}", *db],
        ["add", f"x{text}", "--every", text, *db, "--", "true"],
        ["explain", f"x{text}"],
        ["period", f"x{text}"],
        ["check-config", f"x{text}".replace("\0", "")],
        ["nonsense", f"x{text}"],
        ["rm", id_, *db],
    ]


def printed(argv: list[str]) -> str:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err, suppress(SystemExit):
        main(argv)
    return out.getvalue() + err.getvalue()


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.too_slow])
@given(anything)
@example(ATTACK)
@example("a\nb\tc")
def test_whatever_a_text_is_no_command_prints_a_control_character(text: str) -> None:
    with TemporaryDirectory() as folder:
        path, id_ = database_with(folder, text)
        for argv in commands(path, id_, text):
            found = printed(argv)
            assert found, argv
            assert not BAD.search(found), (argv, found)


def test_what_is_hidden_in_a_text_is_shown(evenbeat: Evenbeat, tmp_path: Path) -> None:
    path, id_ = database_with(str(tmp_path), ATTACK)
    shown = "\\x1b[2J\\x1b]0;owned"
    for argv in (["ls"], ["show", id_], ["history"]):
        found = evenbeat(*argv, "--db", path)
        assert shown in found.out, argv
        assert "[link=http://x]y[/link]" in found.out, argv
    assert evenbeat("show", id_, "--json", "--db", path).json["name"] == ATTACK
    assert evenbeat("ls", "--json", "--db", path).json["tasks"][0]["owner"] == ATTACK
    assert evenbeat("history", "--json", "--db", path).json["runs"][0]["output"] == ATTACK


def test_on_a_terminal_only_our_colours_are_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with redirect_stdout(io.StringIO()) as out, escaped_output():
        console().print(Text.assemble((ATTACK, "bold"), ATTACK))
        console().print(ATTACK, style="red", markup=False)
        sys.stdout.write(ATTACK)
    assert "\x1b[1m\\x1b[2J" in out.getvalue()
    assert not BAD.search(COLOUR.sub("", out.getvalue()))


def test_a_stream_in_front_of_another_is_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    raw = sys.stdout
    with escaped_output():
        shown = sys.stdout
        with escaped_output():
            assert sys.stdout is shown
        assert isinstance(shown, EscapingStream)
        assert raw_stream(sys.stdout) is raw
        assert (shown.encoding, shown.isatty()) == (raw.encoding, raw.isatty())
        assert shown.write("a\x1b\n") == 3
        shown.writelines(["b\x07", "\n"])
    assert sys.stdout is raw
    assert capsys.readouterr().out == "a\\x1b\nb\\x07\n"


def test_workers_of_a_cluster_are_shown_as_text() -> None:
    worker = ClusterWorkerDocument(
        **dict.fromkeys(ClusterWorkerDocument.__struct_fields__, 0)  # type: ignore[arg-type]
        | {"id": ATTACK, "name": ATTACK, "pools": [ATTACK], "problem": ATTACK}
    )
    fields = dict.fromkeys(ClusterDocument.__struct_fields__)
    cluster = ClusterDocument(**fields | {"nodes": [], "workers": [worker], "pools": {}, "unheld": []})  # type: ignore[arg-type]
    with redirect_stdout(io.StringIO()) as out:
        for line in cluster_lines(cluster):
            console().print(line)
    assert not BAD.search(out.getvalue())
    assert out.getvalue().count("[link=http://x]y[/link]") == 4


def logged(make: Callable[[io.StringIO], logging.Handler], message: str, error: Exception | None = None) -> str:
    out = io.StringIO()
    handler = make(out)
    record = logging.LogRecord("evenbeat.x", logging.ERROR, "", 0, "%s", (message,), None)
    record.__dict__ |= {"action": "state", "task": message}
    if error is not None:
        record.exc_info = (type(error), error, None)
    handler.emit(record)
    handler.close()
    return out.getvalue()


def lines(out: io.StringIO) -> logging.Handler:
    handler = CondensingHandler(out)
    handler.setFormatter(KeyValueFormatter())
    return handler


def screen(out: io.StringIO) -> logging.Handler:
    with redirect_stdout(out):
        return _LogAboveScreen(SafeConsole(width=1_000))


FORGED = "fine\ntime=1999-01-01T00:00:00.000+00:00 level=info action=ready"


@given(anything)
@example(ATTACK)
def test_a_record_of_a_log_is_one_line_of_text(text: str) -> None:
    found = logged(lines, text)
    assert found.count("\n") == 1
    assert not BAD.search(found)
    assert not BAD.search(logged(screen, text, ValueError(text)))
    assert not BAD.search(logged(lines, text, ValueError(text)))


@pytest.mark.parametrize("handler", [lines, screen])
def test_no_text_forges_a_line_of_a_log(handler: Callable[[io.StringIO], logging.Handler]) -> None:
    found = logged(handler, FORGED, ValueError(FORGED))
    assert not re.search(r"^time=1999", found, re.MULTILINE)
