"""The commit that the version names, read without git."""

import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

from tasuki import __version__
from tasuki.cli.version import describe_version, find_commit


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(
        ("git", *identity, *arguments), cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit and the folder of a package."""
    folder = tmp_path / "checkout"
    (folder / "src" / "tasuki").mkdir(parents=True)
    (folder / "src" / "tasuki" / "a.py").touch()
    git(folder, "init", "-q", "-b", "feature/x")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_the_commit_is_found_in_every_form_of_a_checkout(checkout: Path) -> None:
    """On a branch, with packed references, without a branch, and in another worktree."""
    package, commit = checkout / "src" / "tasuki", git(checkout, "rev-parse", "HEAD")
    assert find_commit(str(package)) == commit
    git(checkout, "pack-refs", "--all")
    assert find_commit(str(package)) == commit
    git(checkout, "worktree", "add", "-q", "-b", "other", "../tree")
    git(checkout.parent / "tree", "commit", "-q", "--allow-empty", "-m", "second")
    second = git(checkout.parent / "tree", "rev-parse", "HEAD")
    assert find_commit(str(checkout.parent / "tree" / "src" / "tasuki")) == second
    assert find_commit(str(package)) == commit
    git(checkout, "checkout", "-q", "--detach")
    assert find_commit(str(package)) == commit


def test_an_installed_package_has_no_commit(checkout: Path) -> None:
    """Also where it lies in another repository; nor has a damaged or an empty one."""
    installed = checkout / ".venv" / "lib" / "site-packages" / "tasuki"
    installed.mkdir(parents=True)
    assert find_commit(str(installed)) == ""
    (checkout / "src" / "tasuki" / "docs").mkdir()  # `pip install --target src` in a repository
    assert find_commit(str(checkout / "src" / "tasuki")) == ""
    (checkout / "src" / "tasuki" / "docs").rmdir()
    for head in ("ref: refs/heads/.invalid", "ref: refs/heads/none", "", "abc"):
        (checkout / ".git" / "HEAD").write_text(head)
        assert find_commit(str(checkout / "src" / "tasuki")) == ""
    assert find_commit(str(checkout.parent / "src" / "tasuki")) == ""


def test_the_version_is_printed_with_it() -> None:
    """As git shortens it, after the version."""
    done = subprocess.run(
        (sys.executable, "-m", "tasuki", "--version"), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"tasuki {describe_version()}\n"
    if (ROOT / ".git").exists():
        assert describe_version() == f"{__version__} ({git(ROOT, 'rev-parse', 'HEAD')[:7]})"
