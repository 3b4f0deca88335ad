"""commands = "files": a file that somebody else could change is refused, with what to type."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.trusted_files import check_trusted_file
from evenbeat.cli.main import main
from evenbeat.model import Instant, Invalid
from evenbeat.store.contract import Filter
from evenbeat.store.memory import MemoryStore

NOBODY = 65534
TEXT = '[node]\ncommands = "files"\n[tasks.a]\nevery = "1d"\ncommand = ["true"]\n'
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir(mode=0o755)
    (folder / "tasks.toml").write_text(TEXT)
    (folder / "tasks.toml").chmod(0o644)
    return folder / "tasks.toml"


def typed(path: Path) -> str:
    """The command of the refusal."""
    with pytest.raises(Invalid) as refused:
        check_trusted_file(path)
    found = re.findall(r"`([^`]+)`", str(refused.value))
    assert len(found) == 1
    return str(found[0])


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused_with_the_command_that_mends_it(path: Path, mode: int) -> None:
    path.chmod(mode)
    command = typed(path)
    assert command == f"chmod go-w {path}"
    subprocess.run(command, shell=True, check=True)
    check_trusted_file(path)


@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_a_folder_that_others_may_write_is_one_in_which_the_file_can_be_replaced(path: Path, mode: int) -> None:
    path.parent.chmod(mode)
    assert typed(path) == f"chmod go-w {path.parent}"
    path.parent.chmod(0o1777)  # as /tmp: nobody takes away what is not theirs
    check_trusted_file(path)


def test_dots_after_a_link_lead_to_where_the_kernel_goes(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "inner").mkdir(parents=True)
    (theirs / path.name).write_text(TEXT)
    (theirs / path.name).chmod(0o666)
    (path.parent / "link").symlink_to(theirs / "inner")
    through = path.parent / "link" / ".." / path.name
    assert typed(through) == f"chmod go-w {theirs / path.name}"
    monkeypatch.chdir(path.parent)
    assert typed(Path("link/..") / path.name) == f"chmod go-w {theirs / path.name}"
    check_trusted_file(Path(path.name))


def test_a_link_is_followed_step_by_step(path: Path, tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    link = open_folder / "link.toml"
    link.symlink_to("../conf/tasks.toml")
    check_trusted_file(link)
    open_folder.chmod(0o777)  # whoever writes there can lead the link elsewhere
    assert typed(link) == f"chmod go-w {open_folder}"
    hop = tmp_path / "hop.toml"
    hop.symlink_to(link)
    assert typed(hop) == f"chmod go-w {open_folder}"


@as_root
def test_a_file_a_folder_or_a_link_of_another_user_is_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert typed(link) == f"chown -h root {link}"
    for found in (path, path.parent):
        os.chown(found, NOBODY, NOBODY)
        assert typed(path) == f"chown root {found}"
        os.chown(found, 0, 0)
    check_trusted_file(path)


@as_root
def test_another_user_cannot_turn_it_off_by_writing_to_the_file(path: Path) -> None:
    store = MemoryStore()
    admin = TaskAdmin(store, lambda: Instant(0))
    admin.apply([path], "start", at_up=True)
    admin.set_named_files([path])
    path.chmod(0o666)
    evil = '[tasks.evil]\nevery = "1d"\ncommand = ["id"]\n'
    subprocess.run(
        ["/bin/sh", "-c", f"cat > {path}"], input=evil.encode(), user=NOBODY, group=NOBODY, extra_groups=[], check=False
    )
    for at_up in (True, False):
        with pytest.raises(Invalid, match="chmod go-w"):
            admin.apply([path], "reload", anew=True, at_up=at_up)
    assert [entry.task.name for entry in store.entries(Filter())] == ["a"]


def test_check_config_tells_what_a_node_would_refuse(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", str(path)]) == 0
    path.chmod(0o666)
    assert main(["check-config", str(path)]) == 2
    assert f"`chmod go-w {path}`" in capsys.readouterr().err


def test_the_setting_itself_is_refused_in_a_file_that_others_may_write(path: Path) -> None:
    path.chmod(0o666)
    store = MemoryStore()
    with pytest.raises(Invalid, match="chmod go-w"):
        TaskAdmin(store, lambda: Instant(0)).apply([path], "start", at_up=True)
    assert store.count() == 0
