"""What changed between the draft and the start."""

from pathlib import Path

from tasuki.draft.facts import git
from tasuki.model import FileItem, Revision


def test_files_gone_changed_and_new_are_told_apart(tmp_path: Path) -> None:
    """A second look compares each named file with what it was."""
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("1")
    files = [FileItem(path=p) for p in ("a.py", "b.py", "c.py")]
    taken = git.take_snapshot(str(tmp_path), files, Revision())
    (tmp_path / "a.py").write_text("2")
    (tmp_path / "b.py").unlink()
    (tmp_path / "c.py").write_text("new")

    assert git.describe_snapshot_drift(str(tmp_path), taken, Revision()) == [
        "changed: a.py",
        "gone: b.py",
        "new: c.py",
    ]


def test_a_moved_head_and_a_switched_branch_are_told() -> None:
    """HEAD and branch are compared where there is a repository."""
    before = Revision(repository=True, head_now="a" * 40, branch_now="main")
    after = Revision(repository=True, head_now="b" * 40, branch_now="feature")
    taken = git.take_snapshot("/nowhere", [], before)

    assert git.describe_snapshot_drift("/nowhere", taken, after) == [
        "HEAD moved: aaaaaaaaa → bbbbbbbbb",
        "branch switched: main → feature",
    ]
    assert git.describe_snapshot_drift("/nowhere", taken, before) == []


def test_git_status_is_read_with_odd_names() -> None:
    """Spaces, renames, conflicts and detached heads in git's own output."""
    output = (
        "# branch.oid 1234\0# branch.head (detached)\0"
        "1 .M N... 100644 100644 100644 aa bb my file.py\0"
        "2 R. N... 100644 100644 100644 aa bb R100 new name\0old name\0"
        "u UU N... 1 2 3 4 aa bb cc both.py\0? untracked\n.txt\0"
    )
    revision = git.parse_status(output)

    assert revision.branch_now == ""
    assert revision.dirty_now == ("my file.py", "new name", "both.py", "untracked\n.txt")


def test_a_folder_without_repository_or_that_is_gone_says_nothing(tmp_path: Path) -> None:
    """No repository, no folder: no revision and no error."""
    assert git.GitProbe(str(tmp_path)).read_revision() == Revision()
    assert git.GitProbe("/nowhere/at/all").read_revision() == Revision()
    assert git.GitProbe("").read_revision() == Revision()
