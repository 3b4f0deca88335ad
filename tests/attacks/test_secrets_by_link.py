"""A task of another user has its secret in a file: a link in its place gives that user no other file of ours."""

import os
from pathlib import Path

import pytest

from evenbeat.work.spawn import CannotStart, resolve_variable

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of the user nobody."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    return folder


@pytest.fixture
def shadow(tmp_path: Path) -> Path:
    path = tmp_path / "shadow"
    path.write_text("root:secret")
    path.chmod(0o600)
    return path


@as_root
def test_a_link_in_a_folder_of_the_user_leads_to_no_file_of_ours(theirs: Path, shadow: Path) -> None:
    (theirs / "password").symlink_to(shadow)
    with pytest.raises(CannotStart, match=r"env\.PW: .*a file that is not of nobody"):
        resolve_variable("PW", f"file:{theirs / 'password'}", "nobody")
    # The folder on the way may be the link.
    (theirs / "folder").symlink_to(shadow.parent)
    with pytest.raises(CannotStart, match="not of nobody"):
        resolve_variable("PW", f"file:{theirs / 'folder' / 'shadow'}", "nobody")
    with pytest.raises(CannotStart, match="not of nobody"):
        resolve_variable("PW", f"file:{theirs}/../theirs/folder/shadow", "nobody")
    for ourselves in (None, "root"):
        assert resolve_variable("PW", f"file:{theirs / 'password'}", ourselves) == "root:secret", (
            "they may read it anyway"
        )


@as_root
def test_a_file_of_the_user_and_one_that_nobody_else_can_replace_are_read(theirs: Path, shadow: Path) -> None:
    own = theirs / "own"
    own.write_text("mine\n")
    own.chmod(0o600)
    os.chown(own, NOBODY, NOBODY)
    assert resolve_variable("PW", f"file:{own}", "nobody") == "mine"
    assert resolve_variable("PW", f"file:{shadow}", "nobody") == "root:secret", "a file says that they get it"


@as_root
def test_a_link_of_the_user_in_a_shared_folder_is_theirs_too(tmp_path: Path, shadow: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    link = shared / "password"
    link.symlink_to(shadow)
    assert resolve_variable("PW", f"file:{link}", "nobody") == "root:secret"
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(CannotStart, match="not of nobody"):
        resolve_variable("PW", f"file:{link}", "nobody")
