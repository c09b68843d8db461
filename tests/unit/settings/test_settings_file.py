"""Changing the user's own settings file: some keys, whole or not at all, and nothing else in it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasuki.config import edit, settings
from tasuki.errors import ConfigInvalid, StoreFailed

MINE = """# mine
budget = 900   # tokens

[providers.own]
base_url = "https://example.org/v1"  # ours
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, with words of theirs."""
    path = tmp_path / "config.toml"
    path.write_text(MINE)
    monkeypatch.setenv("TASUKI_CONFIG", str(path))
    return path


def test_other_keys_and_comments_stay(file: Path, tmp_path: Path) -> None:
    """A key is set and taken out again; every other character stays as it was."""
    edit.write_settings({"context_threshold": 70})
    with_it, held = file.read_text(), settings.load_settings(tmp_path).context_threshold
    edit.write_settings({"context_threshold": None})

    assert held == 70
    assert all(line in with_it for line in MINE.splitlines())
    assert file.read_text().split() == MINE.split()


def test_line_ends_stay(file: Path) -> None:
    """A file that was written on another system keeps its line ends."""
    file.write_bytes(MINE.replace("\n", "\r\n").encode())
    edit.write_settings({"budget": 800})

    assert file.read_bytes() == MINE.replace("900", "800").replace("\n", "\r\n").encode()


def test_two_changes_at_once(file: Path, tmp_path: Path) -> None:
    """Two browsers that change two settings: neither change is lost."""
    changes = [{"context_threshold": 61}, {"notify": "desktop"}, {"notify_about": "failed"}] * 8
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(edit.write_settings, changes))
    held = settings.load_settings(tmp_path)

    assert (held.context_threshold, held.notify, held.notify_about) == (61, "desktop", "failed")
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_missing_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file one is made, for its owner alone."""
    path = tmp_path / "new" / "config.toml"
    monkeypatch.setenv("TASUKI_CONFIG", str(path))
    edit.write_settings({"notify": "desktop"})

    assert settings.load_settings(tmp_path).notify == "desktop"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"context_threshold": 101}, "at most 100"),
        ({"context_threshold": "many"}, "whole number"),
        ({"notify_about": "failed everything"}, "everything"),
        ({"unknown_key": 1}, "unknown"),
    ],
)
def test_what_would_be_invalid_is_never_written(
    file: Path, changes: dict[str, object], said: str
) -> None:
    """A value that cannot be read again is refused with its sentence, and the file stays."""
    with pytest.raises(ConfigInvalid, match=said):
        edit.write_settings(changes)

    assert file.read_text() == MINE


@pytest.mark.parametrize("content", ["budget = ", "budget = -3", "\x00", "nonsense = 1"])
def test_a_file_that_is_invalid_is_left_alone(file: Path, content: str) -> None:
    """What the user has to mend is not made worse."""
    file.write_text(content)
    with pytest.raises(ConfigInvalid):
        edit.write_settings({"notify": "desktop"})

    assert file.read_text() == content


def test_a_variable_that_is_stronger_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that the environment sets cannot be changed in the file: that says so."""
    monkeypatch.setenv("TASUKI_NOTIFY", "desktop")
    with pytest.raises(StoreFailed, match="TASUKI_NOTIFY"):
        edit.write_settings({"notify": "ntfy://x"})

    assert file.read_text() == MINE


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    """A file that is kept elsewhere, and linked, is changed there; its mode stays."""
    real = tmp_path / "dotfiles.toml"
    file.rename(real)
    real.chmod(0o640)
    file.symlink_to(real)
    edit.write_settings({"notify": "desktop"})

    assert (file.is_symlink(), stat.S_IMODE(real.stat().st_mode)) == (True, 0o640)
    assert 'notify = "desktop"' in real.read_text()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_no_permission(file: Path) -> None:
    """A folder that cannot be written to is told, and nothing is changed."""
    file.parent.chmod(0o500)
    try:
        with pytest.raises(StoreFailed, match="permission"):
            edit.write_settings({"notify": "desktop"})
    finally:
        file.parent.chmod(0o700)


def test_a_path_that_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file can be, that is told with the path."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TASUKI_CONFIG", str(tmp_path / "file" / "config.toml"))
    with pytest.raises(StoreFailed, match=r"config\.toml cannot be"):
        edit.write_settings({"notify": "desktop"})
