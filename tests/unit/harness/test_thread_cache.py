"""What was read of a thread is kept: the thread that comes from there is the one in the file, always."""

import os
import pickle
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tasuki.draft.facts.derive import derive_facts, read_facts
from tasuki.errors import ThreadUnreadable
from tasuki.harness.reading import cache
from tasuki.harness.reading.cache import CachedThread, forget_readings, get_cache_folder
from tasuki.harness.registry import get_harness
from tasuki.model import Thread
from tasuki.paths import forget_links, resolve_links
from tasuki_testing import ThreadBuilder, story

KEPT = ("claude", "codex", "pi")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each thread was read from then on: recalled, read on or read whole."""
    seen: list[str] = []
    recall = CachedThread._recall

    def note_recall(self: CachedThread) -> Thread | None:
        thread = recall(self)
        seen.append("whole" if thread is None else "on" if self._reader else "recalled")
        return thread

    monkeypatch.setattr(CachedThread, "_recall", note_recall)
    return seen


def read(name: str, path: Path) -> CachedThread:
    """Read a thread with its facts through the cache, as a handoff does."""
    cached = CachedThread(get_harness(name), path)
    cached.derive("facts", read_facts)
    cached.save()
    return cached


def encode(thread: Thread) -> bytes:
    """A thread with all its outputs."""
    calls = [(e.tool.output, e.tool.output_size) for e in thread.entries if e.tool]
    bare = msgspec.structs.replace(thread, entries=())
    entries = [
        [getattr(e, f) for f in e.__struct_fields__ if f != "tool"]
        + [getattr(e.tool, f) for f in ("id", "kind", "command", "paths", "status", "exit_code", "todos", "changes") if e.tool]
        for e in thread.entries
    ]  # fmt: skip
    return repr([bare, entries, calls]).encode("utf-8", "surrogatepass")


def write_real(folder: Path, output: str) -> Path:
    """A thread with one command, in the order of Claude Code's own keys: its output is left in the file."""
    build = ThreadBuilder("claude")
    build.user("Run the tests").shell("pytest -q", output)
    path = build.write(folder)
    ordered = r'("uuid":"[^"]+","timestamp":"[^"]+"),("message":.*)}'
    path.write_text(re.sub(ordered, r"\2,\1}", path.read_text()))
    return path


def assert_same(name: str, path: Path) -> CachedThread:
    """Thread and facts from the cache are those of the file."""
    cached = read(name, path)
    plain = CachedThread(get_harness(name), path, is_kept=False)
    assert encode(cached.thread) == encode(plain.thread)
    known = derive_facts(cached.thread, None, "", cached.derive("facts", read_facts))
    assert known.facts == derive_facts(plain.thread).facts
    return cached


@pytest.mark.parametrize("name", KEPT)
def test_an_unchanged_thread_is_recalled(tmp_path: Path, name: str, readings: list[str]) -> None:
    """The second reading reads the thread's file no more, and its facts are there."""
    path = story(name).write(tmp_path)
    read(name, path)
    assert_same(name, path)

    assert readings == ["whole", "recalled"]


@pytest.mark.parametrize("name", KEPT)
def test_of_a_grown_thread_only_the_new_bytes_are_read(
    tmp_path: Path, name: str, readings: list[str]
) -> None:
    """After each line the thread is that of the whole file."""
    path = story(name).write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    read(name, path)
    for line in lines[3:]:
        with path.open("ab") as file:
            file.write(line)
        assert_same(name, path)

    assert readings == ["whole", *["on"] * len(lines[3:])]


@pytest.mark.parametrize("name", KEPT)
def test_half_a_line_is_read_without_the_cache(tmp_path: Path, name: str) -> None:
    """While a line is written the thread is what its file shows; afterwards it is whole."""
    path = story(name).write(tmp_path)
    whole = path.read_bytes()
    for end in (len(whole) // 2, len(whole) // 2 + 9, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:end])
        assert_same(name, path)


def _rewrite(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - len(path.read_bytes().splitlines(keepends=True)[-1]))


def _replace(path: Path) -> None:
    """Put another file of the same size and time in its place."""
    status, new = path.stat(), path.with_name("new")
    new.write_bytes(path.read_bytes().replace(b"the", b"THE"))
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert new.stat().st_size == status.st_size
    new.replace(path)


def _change_middle(path: Path) -> None:
    """Change letters within, and append a line: only the last bytes of the old part are the same."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines).replace(b"the", b"THE", 1) + lines[-1])


@pytest.mark.parametrize("change", [_rewrite, _cut, _replace, _change_middle])
@pytest.mark.parametrize("name", KEPT)
def test_a_changed_file_is_read_anew(
    tmp_path: Path, name: str, change: Callable[[Path], None], readings: list[str]
) -> None:
    """Rewritten, cut, replaced by one of the same size and time, changed in its middle: nothing old is shown."""
    path = story(name).write(tmp_path)
    read(name, path)
    change(path)
    assert_same(name, path)

    assert readings == ["whole", "whole"]


@pytest.mark.parametrize("name", KEPT)
def test_a_damaged_cache_changes_nothing(tmp_path: Path, name: str) -> None:
    """Any bit of it may be another, and its end may be missing."""
    path = story(name).write(tmp_path)
    read(name, path)
    (place,) = get_cache_folder().iterdir()
    whole = place.read_bytes()
    for number in range(0, len(whole), len(whole) // 60):
        place.write_bytes(whole[:number] + bytes([whole[number] ^ 4]) + whole[number + 1 :])
        assert encode(CachedThread(get_harness(name), path).thread) == encode(read(name, path).thread)  # fmt: skip
        place.write_bytes(whole[:number])
        assert_same(name, path)


def test_a_cache_runs_nothing(tmp_path: Path) -> None:
    """One that names a function of the system is not read."""

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    for shared in ((), (object(),)):
        with pytest.raises(pickle.UnpicklingError):
            cache._Unpickler(pickle.dumps(Evil()), shared).load()
    for module, name in (
        ("tasuki.files", "create_file"),
        ("tasuki.session.turn_end", "subprocess.Popen"),
    ):
        named = b"".join(b"\x8c" + bytes([len(x)]) + x.encode() for x in (module, name))
        with pytest.raises(pickle.UnpicklingError):
            cache._Unpickler(b"\x80\x04" + named + b"\x93.").load()
    assert not (tmp_path / "made").exists()


def test_another_version_and_another_user_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readings: list[str]
) -> None:
    """Nor is a file that others can read, or a link."""
    path = story("claude").write(tmp_path)
    read("claude", path)
    (place,) = get_cache_folder().iterdir()
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    place.chmod(0o644)
    read("claude", path)
    moved = place.rename(tmp_path / "elsewhere")
    place.symlink_to(moved)
    read("claude", path)
    monkeypatch.setattr(os, "geteuid", lambda: 4_242)
    read("claude", path)
    monkeypatch.undo()
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cache, "_describe_program", lambda: "9.9")
    read("claude", path)

    assert readings[:4] == ["whole"] * 4


def test_nothing_can_be_written(tmp_path: Path, data: Path) -> None:
    """A full disk, a file in the place of the folder: the thread is read as ever, and no half file stays."""
    path = story("claude").write(tmp_path)
    code = (
        "import resource, sys; from pathlib import Path; import signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from tasuki.harness.registry import get_harness\n"
        "from tasuki.harness.reading.cache import CachedThread\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))\n"
        "one = CachedThread(get_harness('claude'), Path(sys.argv[1])); one.save()\n"
        "print(len(one.thread.entries))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 3
    assert not list(get_cache_folder().glob("*"))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    get_cache_folder().rmdir()
    get_cache_folder().write_text("a file")
    assert_same("claude", path)


def test_two_at_once(tmp_path: Path) -> None:
    """Many that read and write the same cache while the thread grows all see a whole thread."""
    path = story("claude").write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    known = {0}
    path.write_bytes(b"")
    failures: list[BaseException] = []
    is_done = threading.Event()

    def look() -> None:
        while not is_done.is_set():
            try:
                assert len(read("claude", path).thread.entries) in known
            except ThreadUnreadable:
                pass
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, len(lines) + 1):
        beside = tmp_path / "beside.jsonl"
        beside.write_bytes(b"".join(lines[:number]))
        for kept in (False, True):
            try:
                known.add(len(CachedThread(get_harness("claude"), beside, is_kept=kept).thread.entries))  # fmt: skip
            except ThreadUnreadable:
                continue
        with path.open("ab") as file:
            file.write(lines[number - 1])
    is_done.set()
    for thread in threads:
        thread.join()

    assert not failures
    assert_same("claude", path)


def test_outputs_stay_in_the_thread(tmp_path: Path) -> None:
    """What a command printed is not in the cache, and is read from the thread's file."""
    path = write_real(tmp_path, "zebra-output\n4 passed in 0.12s")
    read("claude", path)
    (place,) = get_cache_folder().iterdir()

    assert b"zebra-output" not in place.read_bytes()
    assert "zebra-output" in assert_same("claude", path).thread.entries[1].tool.output  # type: ignore[union-attr]


def test_only_so_many_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ones that were used last stay, and no more bytes than allowed."""
    monkeypatch.setattr(cache, "MOST_FILES", 2)
    paths = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths.append(story("claude").write(folder))
        read("claude", paths[-1])
        os.utime(max(get_cache_folder().iterdir(), key=lambda f: f.stat().st_ctime_ns), (number, number))  # fmt: skip
    assert len(list(get_cache_folder().iterdir())) == 2
    monkeypatch.setattr(cache, "MOST_BYTES", 0)
    paths[2].write_bytes(paths[2].read_bytes() * 2)
    read("claude", paths[2])
    assert list(get_cache_folder().iterdir()) == []


def test_a_reading_is_forgotten(tmp_path: Path) -> None:
    """By the thread's path, by its id, or all of them; another's stays."""
    paths = []
    for name in KEPT:
        (tmp_path / name).mkdir()
        paths.append(story(name).write(tmp_path / name))
        read(name, paths[-1])

    assert forget_readings("zzzz") == []
    assert len(forget_readings(str(paths[0]))) == 1
    assert len(forget_readings(paths[1].stem.upper())) == 1
    assert len(list(get_cache_folder().iterdir())) == 1
    assert len(forget_readings("all")) == 1


def test_a_file_that_is_made_or_linked_later_counts(tmp_path: Path) -> None:
    """What the facts say of this machine's folders is as it is now, not as it was."""
    work, link = tmp_path / "work", tmp_path / "link"
    work.mkdir()
    build = ThreadBuilder("claude", cwd=str(work))
    build.user("Go on").assistant("The next one is src/later.py.").read(f"{link}/a.py", "x = 1\n")
    path = build.write(tmp_path)
    names = []
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: link.symlink_to(work),
        (work / "src").mkdir,
        (work / "src/later.py").touch,
    ]
    for prepare in steps:
        prepare()
        cached = assert_same("claude", path)
        known = cached.derive("facts", read_facts)
        facts = derive_facts(cached.thread, None, "", known).facts
        names.append(sorted(f.path for f in (*facts.files, *facts.spoken_of)))

    assert names == [[f"{link}/a.py"], ["a.py"], ["a.py"], ["a.py", "src/later.py"]]


def test_a_name_that_is_no_text_is_no_obstacle(tmp_path: Path) -> None:
    """A thread in a folder whose name is not UTF-8 is kept like any other."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    path = story("claude").write(folder)
    read("claude", path)
    assert_same("claude", path)

    assert len(list(get_cache_folder().iterdir())) == 1


def test_ids_that_end_alike_are_different_lines(tmp_path: Path) -> None:
    """Identifiers of one machine (UUID 1) end in the same digits: nothing of the thread is lost."""
    path = story("claude").write(tmp_path)
    alike = re.sub(
        r'"([0-9a-f]{8})-([0-9a-f-]{15})([0-9a-f]{12})"',
        lambda m: f'"{m[3][-8:]}-{m[2]}00163e000001"',
        path.read_text(),
    )
    before = CachedThread(get_harness("claude"), path, is_kept=False).thread
    path.write_text(alike)
    after = CachedThread(get_harness("claude"), path, is_kept=False).thread

    assert [entry.text for entry in after.entries] == [entry.text for entry in before.entries]


def test_links_that_are_followed_after_the_facts_count(tmp_path: Path) -> None:
    """Whatever was looked up until the thread was kept must lead where it led."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "one")
    path = story("claude").write(tmp_path)
    seen = []
    for target in ("one", "one", "two"):
        link.unlink()
        link.symlink_to(tmp_path / target)
        cached = CachedThread(get_harness("claude"), path)
        seen.append(cached.derive("where", lambda _: resolve_links(str(link))))
        cached.save()

    assert seen == [str(tmp_path / name) for name in ("one", "one", "two")]


def test_what_others_forget_is_not_kept(tmp_path: Path) -> None:
    """Where somebody else forgets what was looked up, as a server does, nothing is kept."""
    path = story("claude").write(tmp_path)
    cached = CachedThread(get_harness("claude"), path)
    forget_links()
    cached.save()

    assert not list(get_cache_folder().glob("*"))


def test_outputs_stay_where_they_were_read(tmp_path: Path) -> None:
    """A thread that was kept has its outputs still, even where its file is cut afterwards."""
    thread = write_real(tmp_path, "zebra-output\n4 passed in 0.12s")
    cached = CachedThread(get_harness("claude"), thread)
    outputs = [e.tool.output for e in cached.thread.entries if e.tool]
    cached.save()
    os.truncate(thread, 0)

    assert [e.tool.output for e in cached.thread.entries if e.tool] == outputs


def test_a_long_output_that_comes_back_counts(tmp_path: Path, readings: list[str]) -> None:
    """Without its file beside the thread the preview is shown; the thread is kept all the same."""
    folder = tmp_path / "00000000-0000-7000-8000-000000000001" / "tool-results"
    shown = f"<persisted-output>\nOutput too large (50KB). Full output saved to: {folder}/b1.txt\n\nPreview"
    path = write_real(tmp_path, shown)
    folder = path.with_suffix("") / "tool-results"
    outputs = []
    for prepare in (lambda: None, lambda: None, lambda: folder.mkdir(parents=True) or (folder / "b1.txt").write_text("All of it")):  # fmt: skip
        prepare()
        outputs.append(assert_same("claude", path).thread.entries[1].tool.output[:9])  # type: ignore[union-attr]

    assert outputs == ["<persiste", "<persiste", "All of it"]
    assert readings == ["whole", "recalled", "whole"]
