"""Copies of threads that outlive the harness's own files."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixture_threads import HARNESSES, adapter, holder, samples

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import pipeline
from tasuki.errors import KeptCopyDamaged, StoreFailed, ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness.optional import ThreadPart, find_file
from tasuki.harness.protocol import Harness
from tasuki.model import Goal, Thread
from tasuki.threads import catalog, references
from tasuki.threads.index import ThreadIndex
from tasuki.threads.kept import copies, policy
from tasuki.threads.kept.copies import read_record, unpack_copy
from tasuki.threads.kept.policy import find_failure, keep_at_handoff, keep_thread
from tasuki.threads.kept.reader import build_reader
from tasuki.threads.kept.store import KeptStore
from tasuki.threads.query import parse_query
from tasuki.threads.search import refresh_index, search_threads
from tasuki_testing import ThreadBuilder

ALL = Settings(keep_threads="all")
MARKDOWN = ("aider", "specstory")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, and a data folder in it."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "XDG_DATA_HOME",
                 "OPENCODE_DB", "AIDER_CHAT_HISTORY_FILE", "GEMINI_CLI_HOME", "COPILOT_HOME"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    return tmp_path


def write_claude(home: Path, words: str = "raise the login timeout", seed: int = 1) -> Path:
    """A thread of Claude Code in its place."""
    folder = home / ".claude" / "projects" / "-srv-app"
    folder.mkdir(parents=True, exist_ok=True)
    builder = ThreadBuilder("claude", cwd="/srv/app", seed=seed).user(words)
    return builder.assistant("It is raised to 30 s.").user("thanks").write(folder)


CLAUDE = adapter("claude")


def content(thread: Thread) -> tuple[object, ...]:
    """What must be the same in a thread and in its copy."""
    return (
        thread.harness, thread.id, thread.path, thread.cwd, thread.name, thread.model, thread.parent,
        thread.started, thread.updated, thread.entries, thread.notices, thread.skills, thread.report.lines,
    )  # fmt: skip


def place(name: str, sample: Path, home: Path) -> Path:
    """A captured thread that may be deleted, with what lies beside it."""
    target = home / "original"
    shutil.copytree(holder(sample).parent, target)
    copied = target / holder(sample).name
    return copied / sample.name if holder(sample) != sample else copied


def remove(path: Path) -> None:
    """Delete a thread as its harness does."""
    if path.parent.is_file():
        with closing(sqlite3.connect(path.parent)) as db:
            for table, column in (
                ("session", "id"),
                ("message", "session_id"),
                ("part", "session_id"),
            ):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (path.name,))
            db.commit()
    else:
        shutil.rmtree(path.parent)


CASES = [(name, sample) for name in HARNESSES if name not in MARKDOWN for sample in samples(name)]


@pytest.mark.parametrize(
    ("name", "sample"), CASES, ids=[f"{name}-{sample.name}" for name, sample in CASES]
)
def test_a_copy_reads_as_the_original_did(name: str, sample: Path, home: Path) -> None:
    """Of each harness, also a fork of a parent that is gone too, and a thread in a database."""
    path, harness = place(name, sample, home), adapter(name)
    before = harness.read(path)
    original = find_file(harness, path)
    assert original is not None
    head = catalog.read_head(harness, original)
    assert catalog.get_reader(harness.name, path) is harness

    if keep_thread(harness, path, ALL) is None:
        assert head is None
        return
    assert catalog.get_reader(harness.name, path) is harness
    remove(path)
    reader = catalog.get_reader(harness.name, path)

    assert reader is not harness
    assert content(reader.read(path)) == content(before)
    assert reader.can_ask is False
    assert reader.build_resume_command(before) == ()
    assert list(KeptStore().folder.glob(".read-*")) == []


@pytest.mark.parametrize("name", MARKDOWN)
def test_files_of_the_user_are_not_copied(name: str, home: Path) -> None:
    """Markdown in the user's own folder, which no harness deletes."""
    assert keep_thread(adapter(name), samples(name)[0], ALL) is None
    assert not KeptStore().folder.exists()


# -- reading from a copy ---------------------------------------------------------------------------


def test_a_thread_is_copied_once_and_listed_once(home: Path) -> None:
    """As long as its original exists, the copy is not shown; one that did not change is not written again."""
    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    first = file.stat().st_ino

    assert [head.path for head in catalog.list_heads()] == [str(path)]
    assert keep_thread(CLAUDE, path, ALL) == file
    assert file.stat().st_ino == first

    with path.open("a") as grown:
        grown.write(path.read_text().splitlines()[-1] + "\n")
    keep_thread(CLAUDE, path, ALL)
    assert file.stat().st_ino != first
    assert read_record(file).bytes == path.stat().st_size
    assert [head.kept for head in catalog.list_heads()] == [False]


def test_what_is_gone_is_found_by_all_its_names(home: Path) -> None:
    """By its path, its id, a beginning of that, `@1` in its folder, and the name of its harness."""
    path = write_claude(home)
    id = CLAUDE.read(path).id
    keep_thread(CLAUDE, path, ALL)
    path.unlink()

    (head,) = catalog.list_heads()
    assert (head.path, head.kept, head.first_words) == (str(path), True, "raise the login timeout")
    assert [h.path for h in catalog.list_heads("claude", Path("/srv/app"))] == [str(path)]
    assert (
        list(catalog.list_heads("codex"))
        == list(catalog.list_heads(None, Path("/srv/other")))
        == []
    )
    for spec in (str(path), id, id[:8], "@1", "claude"):
        harness, found, note = catalog.find_near(spec, Path("/srv/app"))
        assert (found, harness.name) == (path, "claude"), spec
        assert note.startswith("Kept copy of "), spec
        assert "Claude Code no longer has its own file" in note
    assert references.open_thread(id[:8], home).note.startswith("Kept copy")


def brief_of(harness: Harness, path: Path) -> str:
    """The brief of a handoff, without its goal."""
    goal, loaded = Goal(text="write the test of 4711_0815"), LoadedSettings(Settings())
    return pipeline.make_handoff(
        harness, path, goal, loaded, handoff_id="ab12cd34" * 4, to="claude"
    ).context


def test_a_draft_from_a_copy_is_the_one_from_the_thread(home: Path) -> None:
    """Nothing of the brief differs but its id, and no unpacked file stays."""
    path = write_claude(home, "do not touch `src/legacy.py`, the value is 4711_0815")
    keep_thread(CLAUDE, path, ALL)
    before = brief_of(CLAUDE, path)
    path.unlink()
    reader = catalog.get_reader("claude", path)
    after = brief_of(reader, path)

    assert after == before
    del reader
    assert [p.name for p in KeptStore().folder.glob(".read-*")] == []


def test_a_citation_of_an_old_handoff_opens_from_the_copy(home: Path) -> None:
    """Also entries that the handoff itself did not keep."""
    from tasuki import prepare_handoff, read_thread

    path = write_claude(home)
    prepared = prepare_handoff(str(path), "cover the login with a test")
    assert prepared.warnings == []
    keep_thread(CLAUDE, path, ALL)
    path.unlink()

    opened = references.open_thread(prepared.handoff.id[:8], home)
    assert opened.problem == ""
    assert opened.note.startswith("Kept copy")
    texts = [reading.text for reading in references.read_entries(opened)]
    assert any("It is raised to 30 s." in text for text in texts)
    assert read_thread(str(path)).path == str(path)


def test_the_index_finds_what_is_gone(home: Path) -> None:
    """Without reading it again, and where the index is new by reading its copy."""
    path = write_claude(home, "the heliograph blinks")
    keep_thread(CLAUDE, path, ALL)
    with ThreadIndex() as index:
        refresh_index(index, catalog.find_thread_files())
        path.unlink()
        assert index.find_stale(catalog.find_thread_files()) == []
        assert index.update_threads(catalog.find_thread_files()).gone == 0
        (hit,) = search_threads(index, parse_query("heliograph"))
    assert hit.note.startswith("Kept copy")
    assert hit.lines

    (home / "data" / "index.db").unlink()
    with ThreadIndex() as index:
        assert refresh_index(index, catalog.find_thread_files()) == []
        (hit,) = search_threads(index, parse_query("heliograph"))
    assert hit.lines


def test_a_thread_that_its_harness_moved_is_not_listed_twice(home: Path) -> None:
    """Codex archives threads: the file has another folder then, and the same name."""
    folder = home / ".codex" / "sessions" / "2026" / "01" / "05"
    folder.mkdir(parents=True)
    builder = ThreadBuilder("codex", cwd="/srv/app").user("bump the limit").assistant("Done.")
    path = builder.write(folder)
    keep_thread(adapter("codex"), path, ALL)
    archive = home / ".codex" / "archived_sessions"
    archive.mkdir()
    moved = Path(shutil.move(path, archive))

    assert [head.path for head in catalog.list_heads()] == [str(moved)]
    assert [h.path for h in catalog.list_heads(None, Path("/srv/app"))] == [str(moved)]


def test_without_copies_nothing_is_created(home: Path) -> None:
    """A list of threads makes no folder."""
    write_claude(home)
    assert len(list(catalog.list_heads())) == 1
    assert not (home / "data").exists()


# -- bounds ------------------------------------------------------------------------------


def keep_many(home: Path, count: int) -> list[Path]:
    """Copies of several threads, each a day newer than the one before, the last one of today."""
    files = []
    for number in range(count):
        file = keep_thread(CLAUDE, write_claude(home, f"task {number}", number), ALL)
        assert file
        files.append(file)
    for number, file in enumerate(files):
        age(file, count - 1 - number)
    return files


def age(file: Path, days: float) -> None:
    """Make a copy that old."""
    moment = time.time() - days * 86400
    os.utime(file, (moment, moment))


def test_the_oldest_are_removed_and_no_more_than_needed(home: Path) -> None:
    """Until all fit; what is not a copy of ours stays, and so does the newest, however large."""
    files = keep_many(home, 5)
    other = KeptStore().folder / "notes.txt"
    other.write_text("mine")
    total = sum(file.stat().st_size for file in files)

    removed = KeptStore().prune(days=0, most_bytes=total - 1, spared=files[-1])
    assert removed == files[:1]
    assert KeptStore().prune(days=2.5, most_bytes=0, spared=files[-1]) == files[1:2]  # type: ignore[arg-type]
    assert KeptStore().prune(days=0, most_bytes=1, spared=files[-1]) == files[2:4]
    assert files[-1].exists()
    assert other.read_text() == "mine"


def test_bounds_hold_when_a_thread_is_kept(home: Path) -> None:
    """By the settings; 0 is no bound."""
    files = keep_many(home, 3)
    path = write_claude(home, "one more", 9)
    keep_thread(CLAUDE, path, Settings(keep_threads_days=0, keep_threads_bytes=0))
    assert all(file.exists() for file in files)

    age(files[0], 91)
    path.write_text(path.read_text() + "\n")
    keep_thread(CLAUDE, path, ALL)
    assert [file.exists() for file in files] == [False, True, True]
    path.write_text(path.read_text() + "\n")
    last = keep_thread(CLAUDE, path, Settings(keep_threads_bytes=1))
    assert [copy.file for copy in KeptStore().list_copies()] == [last]


def test_a_clock_that_was_wrong_loses_nothing_new(home: Path) -> None:
    """A copy from the future counts as new, so that it is not the first to go, nor stays for ever first."""
    files = keep_many(home, 3)
    age(files[0], -4000)

    assert KeptStore().prune(days=90, most_bytes=0, spared=files[-1]) == []
    assert KeptStore().list_copies()[0].file == files[1]
    assert KeptStore().list_copies()[-1].kept <= time.time()


def test_a_copy_that_is_confirmed_gets_younger(home: Path) -> None:
    """A thread that is handed off again, unchanged, is kept as long as one that changed."""
    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    age(file, 80)
    keep_thread(CLAUDE, path, ALL)
    assert time.time() - file.stat().st_mtime < 1000


def test_what_killed_processes_left_is_removed(home: Path) -> None:
    """After a day, in case one of them still works."""
    folder = KeptStore().folder
    path = write_claude(home)
    keep_thread(CLAUDE, path, ALL)
    (folder / ".new-old").write_text("half")
    (folder / ".new-young").write_text("half")
    (folder / ".read-old").mkdir()
    (folder / ".read-old" / "thread.jsonl").write_text("{}")
    age(folder / ".new-old", 2)
    age(folder / ".read-old", 2)

    KeptStore().prune(days=0, most_bytes=0, spared=folder / "none")
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith((".new", ".read"))) == [
        ".new-young"
    ]


# -- what may go wrong -----------------------------------------------------------------------------


def test_only_the_user_can_read_copies(home: Path) -> None:
    """Files are 0600 and folders 0700, whatever the umask; unpacked ones too."""
    old = os.umask(0)
    try:
        file = keep_thread(CLAUDE, write_claude(home), ALL)
        assert file
        with unpack_copy(file) as (_, folder):
            modes = [
                p.stat().st_mode & 0o777 for p in (file, file.parent, folder, *folder.iterdir())
            ]
    finally:
        os.umask(old)
    assert modes == [0o600, 0o700, 0o700, 0o600]


def test_zstd_reads_a_copy(home: Path) -> None:
    """The format is that of other programs."""
    import zstandard

    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    if shutil.which("zstd"):
        assert subprocess.run(["zstd", "-dc", file], capture_output=True, check=True).stdout == path.read_bytes()  # fmt: skip
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[4:8], "little")
    reader = zstandard.ZstdDecompressor().stream_reader(data[start:])
    assert reader.read() == path.read_bytes()


def test_a_thread_that_grows_is_copied_to_its_last_whole_line(home: Path) -> None:
    """Half a line at the end is left out; a file of half a line is copied as it is."""
    path = write_claude(home)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"user","mess')
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    with unpack_copy(file) as (record, folder):
        assert (folder / path.name).read_bytes() == whole
    assert record.bytes == path.stat().st_size
    with copies.open_parts([ThreadPart("a.jsonl", data=b"half")]) as (part,):
        assert part.length == 4


@pytest.mark.parametrize("cut", [0, 4, 9, 200, -1, -30])
def test_a_truncated_copy_names_its_file(cut: int, home: Path) -> None:
    """Wherever it ends; lists leave it out, and say so."""
    from tasuki.harness.reading.jsonl import collect_unreadable

    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    path.unlink()
    file.write_bytes(file.read_bytes()[:cut])

    reader = build_reader(CLAUDE)
    if cut == -1:  # only the checksum is cut
        assert reader.read(path).entries
        return
    with pytest.raises(KeptCopyDamaged, match=file.name) as raised:
        reader.read(path)
    assert f"tasuki threads --forget {file.stem}" in str(raised.value)
    if cut != -30:  # The record is whole.
        with collect_unreadable() as notes:
            assert list(catalog.list_heads()) == []
        assert any(file.name in note for note in notes)
    assert KeptStore().forget(file.stem)
    assert not file.exists()


def test_a_flipped_bit_is_noticed(home: Path) -> None:
    """By the checksum, where nothing else shows it."""
    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    data = bytearray(file.read_bytes())
    data[-60] ^= 1
    file.write_bytes(data)

    with pytest.raises(KeptCopyDamaged, match="damaged"):
        build_reader(CLAUDE).read(path)


def forge(file: Path, content: bytes, **changes: object) -> None:
    """Write a copy whose record says something else than the truth."""
    import msgspec
    import zstandard

    record = msgspec.structs.replace(read_record(file), **changes)
    encoded = msgspec.json.encode(record)
    start = copies.SKIPPABLE.to_bytes(4, "little") + len(encoded).to_bytes(4, "little")
    file.write_bytes(start + encoded + zstandard.ZstdCompressor().compress(content))


def test_a_bomb_writes_no_more_than_its_record_says(home: Path) -> None:
    """A GiB of zeros in some kilobytes; a record that states terabytes is refused at once."""
    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    forge(file, bytes(64 << 20))
    with pytest.raises(KeptCopyDamaged, match="holds more than it says"):
        build_reader(CLAUDE).read(path)
    forge(file, b"x", parts=(copies.KeptPart("a.jsonl", 1 << 40),))
    with pytest.raises(KeptCopyDamaged, match="impossible sizes"):
        build_reader(CLAUDE).read(path)
    assert list(KeptStore().folder.glob(".read-*")) == []


@pytest.mark.parametrize(
    "name", ["../out.jsonl", "/tmp/out.jsonl", "a/../../out.jsonl", ".", "..", ""]
)
def test_no_part_leaves_the_folder(name: str, home: Path) -> None:
    """A forged name is refused."""
    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    forge(file, b"x", parts=(copies.KeptPart(name, 1),))

    with pytest.raises(KeptCopyDamaged, match="names the file"):
        build_reader(CLAUDE).read(path)
    assert not (home / "data" / "out.jsonl").exists()


def test_links_and_pipes_in_place_of_copies_are_not_followed(home: Path) -> None:
    """Nor opened: a pipe would wait for ever."""
    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    elsewhere = home / "elsewhere.zst"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    path_bytes = path.read_bytes()
    path.unlink()
    with pytest.raises(ThreadUnreadable):
        build_reader(CLAUDE).read(path)
    assert list(catalog.list_heads()) == []

    path.write_bytes(path_bytes)
    assert keep_thread(CLAUDE, path, ALL) == file
    assert not file.is_symlink()
    assert elsewhere.exists()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ThreadUnreadable):
        build_reader(CLAUDE).read(path)


def test_a_pipe_in_place_of_a_thread_is_not_copied(home: Path) -> None:
    """It is not waited for."""
    fifo = home / "thread.jsonl"
    os.mkfifo(fifo)
    with pytest.raises(ThreadNotFound):
        keep_thread(CLAUDE, fifo, ALL)
    with pytest.raises(ThreadUnreadable), copies.open_parts([ThreadPart("a.jsonl", str(fifo))]):
        pass


def test_a_thread_that_shrinks_meanwhile_leaves_the_old_copy(home: Path) -> None:
    """And no unfinished one."""
    path = write_claude(home)
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    before, record = file.read_bytes(), read_record(file)
    with copies.open_parts([ThreadPart(path.name, str(path))]) as opened:
        path.write_bytes(b"{}\n")
        with pytest.raises(ThreadUnreadable, match="became shorter"):
            KeptStore().write(record, opened)
    assert file.read_bytes() == before
    assert list(file.parent.glob(".new-*")) == []


@pytest.fixture
def small_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder on a file system of 64 KiB."""
    folder = home / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting needs root")
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    monkeypatch.setenv("TASUKI_DATA", str(folder))
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_sentence_at_a_handoff(small_disk: Path, home: Path) -> None:
    """The brief is made all the same; doctor can say what went wrong, once there is room."""
    path = write_claude(home)
    keep_thread(CLAUDE, path, ALL)
    path.write_text(path.read_text() + "\n")
    before = KeptStore().get_file(path).read_bytes()
    (small_disk / "filler").write_bytes(os.urandom(40 << 10))
    with path.open("a") as grown:
        grown.write('{"type":"x","noise":"' + os.urandom(80 << 10).hex() + '"}\n')

    problem = keep_at_handoff(CLAUDE, path, ALL)
    assert problem.startswith("No copy of the thread was kept: ")
    assert "the disk is full" in problem
    assert KeptStore().get_file(path).read_bytes() == before
    assert list(KeptStore().folder.glob(".new-*")) == []


def test_a_failure_is_noted_until_the_same_thread_is_copied(home: Path) -> None:
    """A copy of another thread does not hide it."""
    path, other = write_claude(home), write_claude(home, "other", 2)
    (home / "data").write_text("a file where the folder should be")
    problem = keep_at_handoff(CLAUDE, path, ALL)
    assert "not a folder" in problem or "a part of the path is a file" in problem
    assert find_failure() is None
    (home / "data").unlink()

    keep_thread(CLAUDE, path, ALL)
    gone = home / "gone.jsonl"
    assert "no longer exists" in keep_at_handoff(CLAUDE, gone, ALL)
    failure = find_failure()
    assert failure
    assert failure.path == str(gone)
    assert keep_at_handoff(CLAUDE, other, ALL) == ""
    assert find_failure() == failure
    shutil.copy(path, gone)
    assert keep_at_handoff(CLAUDE, gone, ALL) == ""
    assert find_failure() is None


def test_a_handoff_keeps_its_thread_only_where_wanted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the user's settings; a repository cannot switch it on."""
    from tasuki import prepare_handoff

    path = write_claude(home)
    repository = home / "repository"
    repository.mkdir()
    (repository / ".tasuki.toml").write_text('keep_threads = "all"\n')
    monkeypatch.chdir(repository)
    prepare_handoff(str(path), "cover the login with a test")
    assert not KeptStore().folder.exists()

    monkeypatch.setenv("TASUKI_KEEP_THREADS", "handed-off")
    prepared = prepare_handoff(str(path), "cover the login with a test")
    assert prepared.warnings == [w for w in prepared.warnings if "keep_threads" in w]
    assert KeptStore().get_file(path).exists()


def test_two_at_once_leave_one_whole_copy(home: Path) -> None:
    """Eight processes copy the same thread, and the others prune."""
    path = write_claude(home)
    code = (
        "import sys; from pathlib import Path; from tasuki.config.settings import Settings\n"
        "from tasuki.harness import registry; from tasuki.threads.kept.policy import keep_thread\n"
        "import os; path = Path(sys.argv[1])\n"
        "for n in range(5):\n"
        "    os.utime(path, (n, int(sys.argv[2]) * 10 + n))\n"
        "    keep_thread(registry.get_harness('claude'), path, Settings(keep_threads_bytes=1))\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, path, str(n)]) for n in range(8)]
    assert [worker.wait() for worker in workers] == [0] * 8

    assert len(KeptStore().list_copies()) == 1
    path.unlink()
    assert build_reader(CLAUDE).read(path).entries
    assert [p.name for p in KeptStore().folder.glob(".new-*")] == []


def test_a_kill_in_the_middle_leaves_the_old_copy(home: Path) -> None:
    """At whatever moment: the copy is the old one or the new one."""
    path = write_claude(home)
    line = path.read_text().splitlines()[-1]
    file = keep_thread(CLAUDE, path, ALL)
    assert file
    code = (
        "import sys; from pathlib import Path; from tasuki.config.settings import Settings\n"
        "from tasuki.harness import registry; from tasuki.threads.kept import copies, policy\n"
        "print('ready', flush=True); copies.BLOCK = 4096\n"
        "policy.keep_thread(registry.get_harness('claude'), Path(sys.argv[1]), Settings())\n"
    )
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.04):
        with path.open("a") as grown:
            grown.write((line + "\n") * 20_000)
        worker = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
        assert worker.stdout
        worker.stdout.readline()
        time.sleep(delay)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        with unpack_copy(file) as (record, folder):
            assert (folder / path.name).stat().st_size == record.total_bytes
    keep_thread(CLAUDE, path, ALL)
    assert read_record(file).bytes == path.stat().st_size


def test_nobody_but_the_user_deletes_copies(home: Path) -> None:
    """By id, its beginning, path, the copy's own name, or all; an unclear name deletes nothing."""
    paths = [write_claude(home, f"task {n}", n) for n in range(4)]
    ids = [CLAUDE.read(path).id for path in paths]
    for path in paths:
        keep_thread(CLAUDE, path, ALL)
    store = KeptStore()

    with pytest.raises(ThreadNotFound, match="--kept"):
        store.forget("unheard-of")
    with pytest.raises(ThreadNotFound):
        store.forget("")
    with pytest.raises(UsageError, match="give more of the id"):
        store.forget(ids[0][:8])
    assert len(store.list_copies()) == 4
    assert [c.record.path for c in store.forget(ids[0]) if c.record] == [str(paths[0])]
    assert [c.record.path for c in store.forget(str(paths[1])) if c.record] == [str(paths[1])]
    assert len(store.forget("all")) == 2
    assert all(path.exists() for path in paths)
    with pytest.raises(ThreadNotFound):
        store.forget("all")


def test_a_folder_that_cannot_be_changed_says_so(home: Path) -> None:
    """Where another process holds the lock for too long, or the folder is read-only."""
    file = keep_thread(CLAUDE, write_claude(home), ALL)
    assert file
    (file.parent / ".lock").unlink()
    (file.parent / ".lock").symlink_to(home / "other")
    with pytest.raises(StoreFailed, match="cannot be changed"):
        KeptStore().forget("all")
    assert not (home / "other").exists()


# -- at the end of a turn --------------------------------------------------------------------------


def test_a_second_copy_waits_for_the_pause(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process in the background writes again only after it, and only one of them waits."""
    monkeypatch.setenv("TASUKI_KEEP_THREADS", "all")
    monkeypatch.setattr(policy, "QUIET_SECONDS", 0.0)
    waits: list[float] = []
    monkeypatch.setattr(policy.time, "sleep", waits.append)
    path = write_claude(home)
    policy.run_in_background("claude", str(path))
    assert waits == [0.0]
    path.write_text(path.read_text() + "\n")

    policy.run_in_background("claude", str(path))
    assert 20 < waits[1] <= policy.PAUSE_SECONDS
    assert read_record(KeptStore().get_file(path)).bytes == path.stat().st_size
    assert list(KeptStore().folder.glob("*.waiting")) == []


def test_a_hook_is_not_held_up_nor_harmed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made by a process of its own; a harness that is unknown, or a thread that is gone, is noted."""
    monkeypatch.setattr(policy, "QUIET_SECONDS", 0.0)
    monkeypatch.setenv("TASUKI_KEEP_THREADS", "all")
    policy.run_in_background("unheard-of", str(home / "x"))
    failure = find_failure()
    assert failure
    assert "unheard-of" in failure.reason
    policy.run_in_background("claude", str(home / "gone.jsonl"))
    failure = find_failure()
    assert failure
    assert "no longer exists" in failure.reason
