"""Files that are replaced: whole or not at all, and for the user alone."""

import errno
import os
from pathlib import Path

import pytest

from tasuki.files import replace_file


def test_a_file_is_replaced(tmp_path: Path) -> None:
    """It holds the new content, the user alone may read it, and nothing else is left."""
    path = tmp_path / "settings.toml"
    path.write_text("old")
    path.chmod(0o644)
    replace_file(path, b"new")

    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["settings.toml"]


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    """A mode that is asked for holds."""
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "shared", b"text", 0o644)
    finally:
        os.umask(before)

    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o644


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """What it pointed to stays as it was."""
    (tmp_path / "target").write_text("another's")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    replace_file(tmp_path / "link", b"new")

    assert (tmp_path / "target").read_text() == "another's"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The disk is full: the old content stays, and no unfinished file."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "hosts.json"
    path.write_text("old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")

    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["hosts.json"]
