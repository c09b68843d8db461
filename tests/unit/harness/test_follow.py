"""Threads that grow: only what was appended is read, and the thread is that of the whole file."""

import shutil
from pathlib import Path

import msgspec
import pytest

from tasuki.errors import ThreadUnreadable
from tasuki.harness.optional import ThreadFollower, follow_thread
from tasuki.harness.protocol import Harness
from tasuki.harness.registry import get_harness
from tasuki.model import Thread
from tasuki_testing import ThreadBuilder, story

FOLLOWED = ("claude", "codex", "pi")


def follow(harness: Harness, path: Path) -> ThreadFollower:
    follower = follow_thread(harness, path)
    assert follower is not None
    return follower


def encode(thread: Thread) -> bytes:
    return msgspec.json.encode(thread)


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_growing_thread_is_that_of_the_whole_file(tmp_path: Path, name: str) -> None:
    """After each line, and after each half of one, both readings give the same thread."""
    harness = get_harness(name)
    written = story(name).write(tmp_path)
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join(lines[:3]))
    follower = follow(harness, written)
    follower.read()
    for line in lines[3:]:
        for piece in (line[: len(line) // 2], line[len(line) // 2 :]):
            with written.open("ab") as file:
                file.write(piece)
            assert follower.is_continued()
            thread = follower.read()
        assert encode(harness.read(written)) == encode(thread)


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_last_line_without_an_end_is_read_once(tmp_path: Path, name: str) -> None:
    """A complete line counts before its end is written, and not again when that is there."""
    harness = get_harness(name)
    written = story(name).write(tmp_path)
    whole = written.read_bytes()
    written.write_bytes(whole[:-1])
    follower = follow(harness, written)
    before = follower.read()
    with written.open("ab") as file:
        file.write(b"\n\n")

    assert before.entries == follower.read().entries
    assert encode(harness.read(written)) == encode(follower.read())


def test_words_that_are_confirmed_later_are_typed(tmp_path: Path) -> None:
    """Codex tells after a message whether it was typed; a reading in between settles nothing."""
    harness = get_harness("codex")
    written = ThreadBuilder("codex").user("First").assistant("Yes").user("Second").write(tmp_path)
    lines = written.read_bytes().splitlines(keepends=True)
    for number in range(2, len(lines)):
        written.write_bytes(b"".join(lines[:number]))
        follower = follow(harness, written)
        try:
            follower.read()
        except ThreadUnreadable:
            continue
        written.write_bytes(b"".join(lines))
        assert encode(harness.read(written)) == encode(follower.read())


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    """Another file, a shorter one and one of other words are no continuation."""
    from tasuki.web.pages.threads.files import (
        ThreadCache,  # it takes a second, which no worker spends to collect
    )

    harness, cache = get_harness("claude"), ThreadCache()
    path = ThreadBuilder("claude").user("One").assistant("Two").write(tmp_path / "a.jsonl")
    assert 2 == len(cache.read_thread(harness, path).entries)
    follower = follow(harness, path)
    follower.read()
    path.write_text(path.read_text().replace("Two", "Six"))
    assert not follower.is_continued()
    assert ["One", "Six"] == [e.text for e in cache.read_thread(harness, path).entries]

    other = ThreadBuilder("claude").user("A").assistant("B").user("C").write(tmp_path / "b.jsonl")
    shutil.move(other, path)
    assert ["A", "B", "C"] == [e.text for e in cache.read_thread(harness, path).entries]
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert ["A", "B"] == [e.text for e in cache.read_thread(harness, path).entries]
    path.unlink()
    assert not follow(harness, path).is_continued()


def test_the_cache_reads_the_end_alone(tmp_path: Path) -> None:
    """What was read is not read again: its entries are the same objects."""
    from tasuki.web.pages.threads.files import (
        ThreadCache,  # it takes a second, which no worker spends to collect
    )

    harness, cache = get_harness("claude"), ThreadCache()
    builder = ThreadBuilder("claude").user("One").assistant("Two")
    path = builder.write(tmp_path / "it.jsonl")
    before = cache.read_thread(harness, path)
    assert before is cache.read_thread(harness, path)
    builder.user("Three").write(path)

    after = cache.read_thread(harness, path)
    assert ["One", "Two", "Three"] == [entry.text for entry in after.entries]
    assert all(a is b for a, b in zip(before.entries, after.entries, strict=False))


def test_of_some_harnesses_only_the_whole_is_read(tmp_path: Path) -> None:
    """Where a harness writes its file anew each time, nothing follows it."""
    assert follow_thread(get_harness("gemini"), tmp_path) is None
    assert follow_thread(get_harness("omp"), tmp_path) is None
