"""What a brief says while a merge or rebase with conflicts is neither committed nor given up."""

import subprocess
from pathlib import Path

import pytest
from test_repository_state import ONE, lines_of, start

from tasuki_testing import ThreadBuilder

CONFLICT = "Auto-merging b.py\nCONFLICT (content): Merge conflict in b.py"
LONG = (
    "On branch main\nYou have unmerged paths.\n\nChanges to be committed:\n\tmodified:   a.py\n\tnew file:   theirs.py\n\n"
    "Unmerged paths:\n\tboth modified:   b.py\n"
)
SHORT = "M  a.py\nA  theirs.py\nUU b.py"
BROUGHT = "Also changed or new in the folder, by the merge or rebase too, as git listed it"


@pytest.mark.parametrize(
    "command", ["git merge next", "git pull", "git rebase next", "git cherry-pick 1"]
)
@pytest.mark.parametrize(("look", "listed"), [("git status", LONG), ("git status --short", SHORT)])  # fmt: skip
def test_what_a_merge_brings_is_no_work_of_the_thread(
    command: str, look: str, listed: str, tmp_path: Path
) -> None:
    """A file that the thread committed is listed, because the merge changes it; what resolves a conflict is left."""
    builder = start().shell("git commit -am one", ONE).edit("c.py", "1", "2")
    builder = builder.shell(command, CONFLICT, 1).shell(look, listed)
    seen = lines_of(builder, tmp_path)
    resolved = lines_of(builder.edit("b.py", "<<<", "x").shell(look, listed), tmp_path)

    assert seen["Not committed yet"] == "`c.py`"
    assert "theirs.py" in seen[BROUGHT]
    assert resolved["Not committed yet"] == "`b.py`, `c.py`"
    assert "theirs.py" in resolved[BROUGHT]


def run_git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *names, *words), cwd=folder, check=False, capture_output=True)


@pytest.mark.parametrize("verb", ["merge", "cherry-pick"])
def test_git_says_that_a_merge_is_under_way(verb: str, tmp_path: Path) -> None:
    """Where the folder is here, also without a word of it in the thread."""
    folder = tmp_path / "proj"
    folder.mkdir()
    run_git(folder, "init", "-qb", "main")
    for branch, names in (("main", "a"), ("next", "abc"), ("main", "ad")):
        run_git(folder, "checkout", "-qB" if branch == "next" else "-q", branch)
        for name in names:
            (folder / f"{name}.py").write_text(f"{branch}\n{names}")
        run_git(folder, "add", ".")
        run_git(folder, "commit", "-qm", names)
        (folder / "a.py").write_text(f"own {names}")
        run_git(folder, "commit", "-qam", "own")
    run_git(folder, verb, "next")
    (folder / "own.py").write_text("1")
    builder = ThreadBuilder("claude", cwd=str(folder)).user("go").edit("b.py", "1", "2")
    builder = builder.shell("git commit -am one", ONE).edit("own.py", "1", "2")
    lines = lines_of(builder, tmp_path, str(folder))

    assert lines["Merge or rebase, under way"] == "git has not ended it"
    assert lines["Not committed yet"] == "`own.py`"
    assert "`a.py`" in lines["Also changed or new in the folder, by the merge or rebase too, now"]
