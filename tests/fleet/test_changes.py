"""What an agent changed, as git in its folder says it."""

import os
import time
from pathlib import Path

import pytest
from work_trees import WorkFolder, by_path, diff_of

from tasuki.fleet.changes import diffs, files, work
from tasuki.fleet.changes.work import EARLIER, build_start_values, read_changes, summarize_work


@pytest.fixture
def work_folder(tmp_path: Path) -> WorkFolder:
    """A repository at whose first commit the agent began."""
    return WorkFolder(tmp_path / "repository")


def test_commits_and_files_since_the_start(work_folder: WorkFolder) -> None:
    """Committed, staged, unstaged and untracked work counts, each file once, with its lines."""
    work_folder.write("app.py", "one\n2\nthree\nfour\n")
    second = work_folder.commit("Count further")
    work_folder.write("app.py", "one\n2\nthree\nfour\nfive\n")
    work_folder.write("staged.py", "a\nb\n")
    work_folder.git("add", "staged.py")
    (work_folder.folder / "notes.md").unlink()
    work_folder.write("new/loose.txt", "x\ny\nz")
    changes = work_folder.read()
    found = by_path(changes)

    assert "" == changes.problem
    assert ("main", second, work_folder.begun) == (changes.branch, changes.head, changes.base)
    assert ["Count further"] == [commit.subject for commit in changes.commits]
    assert ("Ann", 1) == (changes.commits[0].author, changes.commit_count)
    assert ["app.py", "new/loose.txt", "notes.md", "staged.py"] == list(found)
    assert ("changed", 3, 1) == (
        found["app.py"].state,
        found["app.py"].added,
        found["app.py"].removed,
    )
    assert ("deleted", 0, 1) == (
        found["notes.md"].state, found["notes.md"].added, found["notes.md"].removed,
    )  # fmt: skip
    assert ("untracked", 3) == (found["new/loose.txt"].state, found["new/loose.txt"].added)
    assert ("added", 2) == (found["staged.py"].state, found["staged.py"].added)
    assert (8, 2, 4) == (changes.added, changes.removed, changes.file_count)
    assert ("@@ -1,3 +1,5 @@", " one", "-two", "+2", " three", "+four", "+five") == diff_of(
        changes, "app.py"
    ).lines
    assert ("@@ -0,0 +1,3 @@", "+x", "+y", "+z") == diff_of(changes, "new/loose.txt").lines


def test_the_summary_says_the_same(work_folder: WorkFolder) -> None:
    """The line of a card has the figures of the page."""
    work_folder.write("app.py", "1\n")
    work_folder.commit("Shorten")
    work_folder.write("loose.txt", "x\n")
    changes, summary = work_folder.read(diff=""), summarize_work(work_folder.agent())

    assert (changes.branch, changes.added, changes.removed) == (
        summary.branch, summary.added, summary.removed,
    )  # fmt: skip
    assert (2, 1, 2, 3) == (summary.files, summary.commits, summary.added, summary.removed)
    assert () == changes.diffs


def test_nothing_changed(work_folder: WorkFolder) -> None:
    """A file that was only touched, and one whose index entry is old, are no changes."""
    os.utime(work_folder.folder / "app.py", (1, 1))
    changes = work_folder.read()

    assert ((), (), "") == (changes.files, changes.commits, changes.problem)
    assert not summarize_work(work_folder.agent()).has_work


def test_ahead_and_behind(work_folder: WorkFolder, tmp_path: Path) -> None:
    """The branch is compared with its upstream as it was fetched last; nothing is fetched."""
    other = tmp_path / "origin.git"
    work_folder.git("init", "-q", "--bare", str(other))
    work_folder.git("remote", "add", "origin", str(other))
    work_folder.commit("Theirs")
    work_folder.git("push", "-q", "-u", "origin", "main")
    work_folder.git("reset", "-q", "--hard", work_folder.begun)
    work_folder.commit("Mine")
    work_folder.commit("Mine, too")
    changes = work_folder.read()

    assert ("origin/main", 2, 1) == (changes.upstream, changes.ahead, changes.behind)


def test_a_rename_a_mode_and_a_binary(work_folder: WorkFolder) -> None:
    """A renamed file is one, a binary file is only named, and a changed mode has no lines."""
    work_folder.write("long.py", "".join(f"line {n}\n" for n in range(40)))
    begun = work_folder.commit("More")
    work_folder.git("mv", "long.py", "longer.py")
    (work_folder.folder / "notes.md").chmod(0o755)
    (work_folder.folder / "picture.png").write_bytes(b"\x89PNG\0\1\2")
    changes = work_folder.read(begun_commit=begun)
    found = by_path(changes)

    assert ("renamed", "long.py", 0) == (
        found["longer.py"].state, found["longer.py"].old_path, found["longer.py"].added,
    )  # fmt: skip
    assert (diffs.EMPTY, ()) == (
        diff_of(changes, "notes.md").note,
        diff_of(changes, "notes.md").lines,
    )
    assert None is found["picture.png"].added
    assert "Binary" in diff_of(changes, "picture.png").note


# -- where it began --------------------------------------------------------------------


def test_an_agent_from_before(work_folder: WorkFolder) -> None:
    """Where nobody recorded the start, the newest commit before it is taken, and that is said."""
    work_folder.write("app.py", "later\n")
    work_folder.commit("Later", "--date", "2099-01-01T00:00:00Z")
    past = time.time() - 3600
    before = work_folder.read(begun_commit=None, started_at=past)
    after = work_folder.read(begun_commit=None, started_at=time.time() + 60)

    assert (EARLIER, EARLIER) == (before.note, after.note)
    assert ("", 2) == (before.base, before.commit_count)
    assert (work_folder.git("rev-parse", "HEAD"), 0) == (after.base, after.commit_count)


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    """Without any commit all files are new; a first one is the agent's."""
    made = WorkFolder(tmp_path / "made")
    made.git("update-ref", "-d", "HEAD")
    start = build_start_values(str(made.folder))
    empty = made.read(begun_commit=start["begun_commit"])
    made.commit("Now first")
    first = made.read(begun_commit="")

    assert ("", "main") == (start["begun_commit"], start["begun_branch"])
    assert (["app.py", "notes.md"], 0, "") == (list(by_path(empty)), empty.commit_count, empty.note)
    assert (2, 1) == (first.file_count, first.commit_count)
    assert "no commit when it began" in first.note


def test_a_start_that_is_gone(work_folder: WorkFolder) -> None:
    """A commit that is not there, and a branch that was rewritten, are told of."""
    gone = work_folder.read(begun_commit="f" * 40, started_at=time.time() + 60)
    work_folder.write("app.py", "other\n")
    work_folder.git("add", "-A")
    begun = work_folder.commit("To be rewritten")
    work_folder.git("reset", "-q", "--hard", work_folder.begun)
    work_folder.commit("Rewritten")
    rewritten = work_folder.read(begun_commit=begun)

    assert "ffffffffff, is not in this repository" in gone.note
    assert "last common one" in rewritten.note
    assert work_folder.begun == rewritten.base
    assert ["Rewritten"] == [commit.subject for commit in rewritten.commits]


def test_since_the_last_document(work_folder: WorkFolder) -> None:
    """What came after the last handoff document can be shown alone."""
    work_folder.commit("Before the document")
    agent, at = work_folder.agent(), time.time() + 5
    work_folder.git(
        "-c", "user.name=Ann", "commit", "-q", "--allow-empty", "-m", "Unseen", "--no-verify"
    )
    changes = read_changes(agent, since="handoff", document_at=at)

    assert ("handoff", 0) == (changes.since, changes.commit_count)
    assert "last handoff document" in changes.note
    assert 2 == read_changes(agent, since="handoff").commit_count


# -- bounds ----------------------------------------------------------------------------


def test_long_differences_are_cut_and_one_file_is_whole(
    work_folder: WorkFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long file the first lines are shown with the number of the others; alone it is whole."""
    work_folder.write("long.txt", "".join(f"{n}\n" for n in range(1000)))
    work_folder.git("add", "long.txt")
    work_folder.write("loose.txt", "".join(f"{n}\n" for n in range(700)))
    changes = work_folder.read()
    cut, loose = diff_of(changes, "long.txt"), diff_of(changes, "loose.txt")
    whole = work_folder.read(diff=cut.key)
    monkeypatch.setattr(diffs, "MOST_LINES", 500)
    few = work_folder.read()

    assert (diffs.MOST_FILE_LINES, 601) == (len(cut.lines), cut.more)
    assert (diffs.MOST_FILE_LINES, 301) == (len(loose.lines), loose.more)
    assert (1001, 0, 1) == (len(whole.diffs[0].lines), whole.diffs[0].more, len(whole.files))
    assert 2 == whole.file_count
    assert 500 == sum(len(diff.lines) for diff in few.diffs)


def test_more_than_is_read(work_folder: WorkFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is too much to read, each file says whether it was cut or not read."""
    for name in ("a.txt", "b.txt", "c.txt"):
        work_folder.write(name, "".join(f"{n}\n" for n in range(300)))
    work_folder.git("add", "-A")
    monkeypatch.setattr(diffs, "MOST_BYTES", 2000)
    changes = work_folder.read()
    cut, missing = diff_of(changes, "b.txt"), diff_of(changes, "c.txt")

    assert (None, ()) == (missing.more, missing.lines)
    assert "Not read" in missing.note
    assert None is cut.more
    assert cut.lines
    assert 0 == diff_of(changes, "a.txt").more


def test_many_untracked_files(work_folder: WorkFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many untracked files some are counted, and that is said."""
    for number in range(30):
        work_folder.write(f"many/{number}.txt", "x\n")
    monkeypatch.setattr(files, "MOST_COUNTED_FILES", 10)
    monkeypatch.setattr(work, "MOST_FILES", 20)
    changes = work_folder.read()

    assert (30, 10, 20) == (changes.file_count, changes.added, len(changes.files))
    assert "10 more files are not listed" in changes.left_out
    assert "first 10 untracked" in changes.left_out
