"""Finding threads by what a person types."""

import os
from pathlib import Path

import pytest

from tasuki.errors import ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness.claude import folder_name
from tasuki.testing import ThreadBuilder, story
from tasuki.threads import catalog


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder with nothing of the user's in reach."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def claude_thread(home: Path, cwd: Path, seed: int, modified: float) -> Path:
    """A thread of Claude Code where Claude Code keeps it."""
    folder = home / ".claude" / "projects" / folder_name(cwd)
    folder.mkdir(parents=True, exist_ok=True)
    path = (
        ThreadBuilder("claude", cwd=str(cwd), seed=seed)
        .user(f"task {seed}")
        .assistant("ok")
        .write(folder)
    )
    os.utime(path, (modified, modified))
    return path


def test_threads_of_this_folder_come_newest_first(home: Path) -> None:
    """Only this folder's threads, the newest in front; all folders on request."""
    here, there = home / "here", home / "there"
    here.mkdir()
    there.mkdir()
    old, new = claude_thread(home, here, 1, 1000), claude_thread(home, here, 2, 2000)
    other = claude_thread(home, there, 3, 3000)

    assert [h.path for h in catalog.heads(None, here)] == [str(new), str(old)]
    assert [h.path for h in catalog.heads()] == [str(other), str(new), str(old)]
    assert next(catalog.heads(None, here)).first_words == "task 2"


def test_at_n_harness_names_ids_and_paths_find_a_thread(home: Path) -> None:
    """@1 is the newest here, @2 the one before; an id, its beginning and a path name one thread."""
    here = home / "here"
    here.mkdir()
    old, new = claude_thread(home, here, 1, 1000), claude_thread(home, here, 2, 2000)

    assert catalog.find("", here)[1] == new
    assert catalog.find("@1", here)[1] == new
    assert catalog.find("@2", here)[1] == old
    assert catalog.find("claude", here)[1] == new
    assert catalog.find(old.stem, here)[1] == old
    assert catalog.find(str(old), here)[1] == old


def test_a_shared_beginning_is_ambiguous_and_lists_the_threads(home: Path) -> None:
    """More of the id is asked for, and both candidates are shown."""
    here = home / "here"
    here.mkdir()
    old, new = claude_thread(home, here, 1, 1000), claude_thread(home, here, 2, 2000)

    with pytest.raises(UsageError, match="2 threads begin with") as caught:
        catalog.find(old.stem[:8], here)
    assert str(old) in str(caught.value)
    assert str(new) in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["", "@1", "@3", "codex", "deadbeef", "not-an-id!", "/nowhere/x.jsonl"]
)
def test_what_is_not_there_says_what_to_do(home: Path, spec: str) -> None:
    """Each failed search ends in a sentence with the next step."""
    with pytest.raises(ThreadNotFound, match=r"tasuki (threads|handoff)|neither a file"):
        catalog.find(spec, home)


def test_a_file_that_is_no_thread_is_named(home: Path) -> None:
    """Other files, empty files and folders are not read as threads."""
    text, empty = home / "notes.jsonl", home / "empty.jsonl"
    text.write_text("hello\n")
    empty.write_text("\n")

    with pytest.raises(ThreadUnreadable, match="is not a thread of a known harness"):
        catalog.find(str(text), home)
    with pytest.raises(ThreadUnreadable, match="is empty"):
        catalog.find(str(empty), home)
    with pytest.raises(ThreadUnreadable, match="Cannot open"):
        catalog.find(f"{home}/", home)


@pytest.mark.parametrize("harness", ["claude", "codex", "pi", "omp"])
def test_any_threads_file_is_recognised_wherever_it_lies(harness: str, home: Path) -> None:
    """The format is told by the first bytes, not by the folder or the name."""
    path = story(harness).write(home / "anything.jsonl")

    assert catalog.find(str(path), home)[0].name in (
        {harness, "pi"} if harness == "omp" else {harness}
    )
