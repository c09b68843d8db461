"""Secrets in work that is about to travel are named by file, line and kind."""

import os
from pathlib import Path

import pytest
from checkouts import Pair, commit_all, git, make_pair

from tasuki.errors import NotPossible
from tasuki.fleet.handoff.bundles import work_secrets
from tasuki.fleet.handoff.bundles.work_secrets import find_secrets_in_work

KEY = "AKIA" + "Z3QW7RTYB5KLM2NX"
TOKEN = "ghp_" + "a8Kd02mfLq7Zx91BvRt5Yw3Nc6Pj4Hs0Ge2U"
FOUND = "holds what looks like a secret"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """An origin with two clones."""
    return make_pair(tmp_path)


def test_added_lines_alone_are_looked_through(pair: Pair) -> None:
    """Staged, unstaged, untracked and in unpublished commits; what was there before is not named, nor ignored files."""
    (pair.source / "old.env").write_text(f"AWS_ACCESS_KEY_ID={KEY}\nx=1\n")
    commit_all(pair.source, "old")
    git(pair.source, "push", "-q")
    (pair.source / "old.env").write_text(f"AWS_ACCESS_KEY_ID={KEY}\nx=2\n")
    (pair.source / "committed.env").write_text(f"a\nb\n{KEY}\n")
    commit_all(pair.source, "committed")
    (pair.source / "committed.env").write_text("a\nb\n")
    (pair.source / "staged.env").write_text(f"a\n{TOKEN}\n")
    git(pair.source, "add", "staged.env")
    (pair.source / "staged.env").write_text("a\n")
    (pair.source / "src" / "upload.py").write_text(f"LIMIT = 1\n\n\ntoken = '{TOKEN}'\n")
    (pair.source / "config").mkdir()
    (pair.source / "config" / "dev.env").write_text(f"a\n\n{KEY}\n")
    (pair.source / "ignored.log").write_text(KEY)
    found = find_secrets_in_work(str(pair.source)).found

    assert sorted(found) == [
        f"committed.env line 3 {FOUND} (aws access key)",
        f"config/dev.env line 3 {FOUND} (aws access key)",
        f"src/upload.py line 4 {FOUND} (github token)",
        f"staged.env line 2 {FOUND} (github token)",
    ]


def test_odd_names_and_files_are_named(pair: Pair) -> None:
    """Line breaks, quotes and bytes in names; a name that is a secret; binary files; files without an end of line."""
    names = [b"a\nb.env", b'q"q', b"sp ace", "ü".encode(), b"\xff", b"t\tb", b"b\\s"]
    for name in names:
        for folder in (b"", b"tracked"):
            path = os.path.join(os.fsencode(pair.source), folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(f"x\n{KEY}".encode())
    git(pair.source, "add", "tracked")
    (pair.source / f"{TOKEN}.txt").write_text(KEY)
    (pair.source / "bin").write_bytes(b"\0" + KEY.encode())
    (pair.source / "tracked.bin").write_bytes(b"\0" + KEY.encode())
    git(pair.source, "add", "tracked.bin")
    secrets = find_secrets_in_work(str(pair.source))
    found = secrets.found

    shown = ["a\\nb.env", 'q"q', "sp ace", "ü", "\\xff", "b\\s", "t b"]
    for name in shown:
        for folder in ("", "tracked/"):
            assert f"{folder}{name} line 2 {FOUND} (aws access key)" in found
    assert "bin is binary and was not looked through." in secrets.unread
    assert "tracked.bin is binary and was not looked through." in secrets.unread
    assert (len(found), len(secrets.unread)) == (2 * len(shown) + 1, 2)
    assert KEY not in str(secrets)
    assert TOKEN not in str(secrets)


def test_a_diff_within_a_file_misleads_nobody(pair: Pair) -> None:
    """Added lines that look like the head of a diff are lines."""
    text = f"diff --git a/x b/x\n+++ b/x\n@@ -1 +1,900 @@\n+{KEY}\n"
    (pair.source / "README").write_text(text)

    found = find_secrets_in_work(str(pair.source)).found
    assert found == (f"README line 4 {FOUND} (aws access key)",)


def test_it_is_bounded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the size of a file, of all files and in time; what was left out is said."""
    monkeypatch.setattr(work_secrets, "MOST_BYTES", 3_000_000)
    for name in "abcd":
        (pair.source / name).write_bytes(b"word word\n" * 150_000)
    found = find_secrets_in_work(str(pair.source)).unread
    assert "a is large: only its first 1 MB was looked through." in found
    assert "d and what follows was not looked through: it is too much." in found
    (pair.source / "README").write_bytes(b"word word\n" * 400_000)
    assert any(
        s.startswith("git diff and what follows")
        for s in find_secrets_in_work(str(pair.source)).unread
    )
    monkeypatch.setattr(work_secrets, "MOST_SECONDS", 0.0)
    assert any("took too long" in s for s in find_secrets_in_work(str(pair.source)).unread)


def test_a_repository_that_git_cannot_read_is_not_called_clean(pair: Pair) -> None:
    """A damaged object within a commit that would travel."""
    (pair.source / "README").write_text("second\n")
    commit_all(pair.source, "second")
    blob = git(pair.source, "rev-parse", "HEAD:README")
    (pair.source / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(NotPossible, match="git log failed"):
        find_secrets_in_work(str(pair.source))


def test_no_repository_has_no_work(tmp_path: Path) -> None:
    """It is said."""
    with pytest.raises(NotPossible, match="no git repository"):
        find_secrets_in_work(str(tmp_path))
