"""What commands know of their runs, and the cursors that they write, in real worker processes."""

import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from queue_node import QueueNode, play

from evenbeat.core.timebox import NO_TIMEBOX
from evenbeat.model import CURSOR_LIMIT, SECOND, Job, Outcome, RunKind
from evenbeat.wire.worker_frames import RunResult

OTHER = "nobody"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may run something as another user")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers make their folders."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def shell(script: str, timebox: float = 10, user: str | None = None, **fields: object) -> RunResult:
    found: list[RunResult] = []

    async def scene(queue_node: QueueNode) -> None:
        job = Job(command=(script,), shell=True, user=user)
        found.append(await queue_node.run(job, timebox=timebox, **fields))

    play(scene)
    return found[0]


def cursor_of(result: RunResult) -> object:
    return None if result.cursor is None else msgspec.msgpack.decode(result.cursor)


class TestWhatItKnows:
    def test_is_its_kind_and_its_timebox(self) -> None:
        result = shell('echo "$EVENBEAT_KIND $EVENBEAT_TIMEBOX $EVENBEAT_TIMEBOX_ENDS"', 90, kind=RunKind.CATCH_UP)
        kind, timebox, ends = result.output.decode().split()
        assert (kind, timebox) == ("catch-up", "90")
        left = datetime.fromisoformat(ends) - datetime.fromtimestamp(result.started / SECOND, UTC)
        assert left.total_seconds() == pytest.approx(90, abs=1)

    def test_is_nothing_of_a_timebox_if_it_has_none(self) -> None:
        result = shell('echo "[$EVENBEAT_TIMEBOX$EVENBEAT_TIMEBOX_ENDS]"', NO_TIMEBOX / SECOND)
        assert result.output == b"[]\n"

    @pytest.mark.parametrize(
        ("saved", "text"), [("page 7", "page 7"), (7, "7"), (2.5, "2.5"), (True, "true"), (None, "")]
    )
    def test_is_the_cursor_of_the_run_before(self, saved: object, text: str) -> None:
        result = shell('printf %s "$EVENBEAT_CURSOR"', cursor=msgspec.msgpack.encode(saved))
        assert result.output.decode() == text


class TestTheCursorThatItWrites:
    def test_goes_with_its_result(self) -> None:
        assert cursor_of(shell('echo "page 8" > "$EVENBEAT_CURSOR_FILE"')) == "page 8"

    def test_goes_with_its_result_however_the_run_ends(self) -> None:
        failed = shell('echo 8 > "$EVENBEAT_CURSOR_FILE"; exit 3')
        assert (failed.outcome, cursor_of(failed)) == (Outcome.FAILED, "8")
        late = shell('echo 8 > "$EVENBEAT_CURSOR_FILE"; sleep 60', 0.3)
        assert (late.outcome, cursor_of(late)) == (Outcome.TIMEBOXED, "8")

    @pytest.mark.parametrize("script", ["true", ': > "$EVENBEAT_CURSOR_FILE"'])
    def test_is_none_if_it_writes_nothing(self, script: str) -> None:
        assert shell(script).cursor is None

    @pytest.mark.parametrize(
        ("script", "words"),
        [
            (f'head -c {CURSOR_LIMIT + 1} /dev/zero | tr "\\0" x > "$EVENBEAT_CURSOR_FILE"', "longer than 4096 bytes"),
            ('printf "\\377" > "$EVENBEAT_CURSOR_FILE"', "no text in UTF-8"),
            ('mkdir "$EVENBEAT_CURSOR_FILE"', "no regular file"),
            ('mkfifo "$EVENBEAT_CURSOR_FILE"', "no regular file"),
            ('ln -s /etc/hostname "$EVENBEAT_CURSOR_FILE"', "cannot be read"),
        ],
    )
    def test_is_refused_and_the_run_has_failed_if_it_is_none(self, script: str, words: str) -> None:
        result = shell(f"echo done; {script}")
        assert (result.outcome, result.cursor) == (Outcome.FAILED, None)
        assert result.output.decode().startswith("done\nits cursor ")
        assert words in result.output.decode()

    def test_leaves_nothing_behind(self, folder: Path) -> None:
        shell('echo 8 > "$EVENBEAT_CURSOR_FILE"; ls -ld "$(dirname "$EVENBEAT_CURSOR_FILE")"')
        assert list(folder.glob("evenbeat-cursors-*")) == []

    def test_is_in_a_folder_that_no_other_user_can_enter(self) -> None:
        assert shell('stat -c %a "$(dirname "$EVENBEAT_CURSOR_FILE")"').output == b"700\n"

    def test_what_a_killed_worker_left_is_removed_by_another(self, folder: Path) -> None:
        left = folder / "evenbeat-cursors-abandoned"
        left.mkdir()
        (left / "5").write_text("old")
        os.utime(left, (1, 1))
        shell("true")
        assert not left.exists()

    @as_root
    def test_of_a_run_of_another_user_is_a_file_of_that_user_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TMPDIR", "/tmp")  # others cannot enter the folders of pytest
        script = 'stat -c "%U %a" "$EVENBEAT_CURSOR_FILE"; echo 8 > "$EVENBEAT_CURSOR_FILE"; id -un'
        result = shell(script, user=OTHER)
        assert (result.output.decode().split(), cursor_of(result)) == ([OTHER, "600", OTHER], "8")
        assert pwd.getpwnam(OTHER).pw_uid != os.geteuid()
