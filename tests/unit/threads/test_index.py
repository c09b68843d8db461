"""The index of all threads: in step with the disk, right after crashes, and found by words."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from tree import IMPORTABLE

from tasuki.errors import StoreFailed, UsageError
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.threads.index import ThreadIndex
from tasuki.threads.query import parse_query
from tasuki.threads.search import search_threads
from tasuki_testing import ThreadBuilder


class Shelf:
    """A folder of threads and an index of them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "threads"
        self.folder.mkdir()
        self.path = root / "data" / "index.db"
        self.count = 0

    def put(self, builder: ThreadBuilder) -> Path:
        """Write a thread, a second newer than the one before."""
        path = builder.write(self.folder / builder.file_name())
        self.count += 1
        os.utime(path, (1_760_000_000 + self.count, 1_760_000_000 + self.count))
        return path

    def files(self) -> list[tuple[Harness, ThreadFile]]:
        """All threads, as a listing gives them."""
        found = []
        for path in sorted(self.folder.iterdir()):
            stat = path.stat()
            found.append(
                (harnesses.detect_harness(path), ThreadFile(path, stat.st_mtime, stat.st_size))
            )
        return found

    def update(self) -> tuple[int, int]:
        """Threads taken in, and threads that went."""
        with ThreadIndex(self.path) as index:
            done = index.update_threads(self.files())
            assert not done.problems, done.problems
            return done.threads, done.gone

    def found(self, query: str, limit: int = 10) -> list[str]:
        """Names of the files that match, the best first."""
        with ThreadIndex(self.path) as index:
            return [
                Path(hit.thread.path).name for hit in index.search_index(parse_query(query), limit)
            ]

    def ranges(self, query: str) -> tuple[tuple[int, int], ...]:
        """The ranges of the best match."""
        with ThreadIndex(self.path) as index:
            return index.search_index(parse_query(query))[0].ranges

    def mended(self, count: int) -> list[str]:
        """What was told until so many threads on apricots are found again, in three uses at most."""
        told = []
        for _ in range(3):
            try:
                self.update()
                if len(self.found("apricots", count + 1)) == count:
                    return told
            except StoreFailed as error:
                told.append(str(error))
        raise AssertionError(f"the index did not come back: {told}")


def count_contents(index: ThreadIndex) -> tuple[int, int, int]:
    """Threads, blocks, and bytes of the threads that are indexed."""
    threads, read = index._db.execute(
        "SELECT count(*), coalesce(sum(bytes), 0) FROM thread"
    ).fetchone()
    (blocks,) = index._db.execute("SELECT count(*) FROM block").fetchone()
    return threads, blocks, read


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """An empty shelf."""
    return Shelf(tmp_path)


def about(
    words: str, seed: int, harness: str = "claude", cwd: str = "/home/dev/proj"
) -> ThreadBuilder:
    """A short thread about something."""
    return ThreadBuilder(harness, cwd=cwd, seed=seed).user(f"Look into {words}").assistant("Done.")


def test_words_anywhere_in_a_thread_find_it(shelf: Shelf) -> None:
    """Prompts, answers, commands, outputs, changed text and todos are all found, whatever their case."""
    path = shelf.put(
        ThreadBuilder("codex", seed=1)
        .user("Überprüfe den Zugang")
        .assistant("The gateway drops IdleConnections.")
        .shell("pytest -k test_login_timeout", "E   TimeoutError: socket_read took 31 s", 1)
        .edit("src/login.py", "a = 1", "KEEPALIVE_SECONDS = 61")
        .todos(("Write the changelog", "pending"))
    )
    shelf.put(about("something else", 2))
    assert shelf.update() == (2, 0)

    for words in (
        "überprüfe", "uberprufe", "idleconnections", "test_login_timeout", "timeouterror socket_read",
        "KEEPALIVE_SECONDS", "changelog", '"drops idleconnections"', "keepal", "file:src/login.py",
        "file:login.py", "file:*.py",
    ):  # fmt: skip
        assert shelf.found(words)[:1] == [path.name], words
    assert shelf.found("nowhere") == []
    assert shelf.found('"idleconnections drops"') == []


def test_scripts_without_blanks_are_found_by_a_part(shelf: Shelf) -> None:
    """Japanese and Korean words are found inside a sentence, composed or not."""
    path = shelf.put(about("接続のタイムアウトを直してください", 1))
    shelf.update()

    korean = shelf.put(about(unicodedata.normalize("NFD", "café 로그인 시간 초과"), 2))
    shelf.update()

    assert (
        shelf.found("로그인")
        == shelf.found(unicodedata.normalize("NFD", "로그인"))
        == [korean.name]
    )
    assert shelf.found("café") == [korean.name]
    assert shelf.found("タイムアウト") == [path.name]
    assert shelf.found("直して") == [path.name]


def test_filters_narrow_a_search(shelf: Shelf) -> None:
    """Harness, folder, date, touched file and unwanted words each leave some out."""
    first = shelf.put(about("retries", 1, "claude", "/home/dev/gateway").edit("a/x.py", "1", "2"))
    second = shelf.put(about("retries and proxies", 2, "codex", "/home/dev/client"))
    first.write_text(first.read_text().replace("2026-01-05", "2025-12-05"))
    os.utime(first, (1_790_000_000, 1_790_000_000))  # A title came later, or a copy.
    shelf.update()

    assert set(shelf.found("retries")) == {first.name, second.name}
    assert shelf.found("retries harness:codex") == [second.name]
    assert shelf.found("retries repo:gateway") == [first.name]
    assert shelf.found("retries repo:/home/dev/client") == [second.name]
    assert shelf.found("retries file:x.py") == [first.name]
    assert shelf.found("retries -proxies") == [first.name]
    assert shelf.found("retries after:2026-01-01") == [second.name]
    assert shelf.found("retries before:2026-01-01") == [first.name]
    assert shelf.found("harness:claude") == [first.name]
    assert shelf.found("file:y.py retries") == []


@pytest.mark.parametrize(
    "query",
    [
        "file:src/Cart.cs", r"file:src\Cart.cs", "file:cart.cs", "file:/c/Users/dev/shop/src/Cart.cs", "repo:shop",
        r"file:c:\users\dev\shop\src\Cart.cs", "file:/mnt/c/Users/dev/shop/src/*.cs", r"repo:C:\Users\dev\shop",
    ],
)  # fmt: skip
def test_a_path_of_windows_is_found_in_each_spelling(shelf: Shelf, query: str) -> None:
    """Slashes, drives and case of a path do not matter to a search."""
    cart = r"C:\Users\dev\shop\src\Cart.cs"
    path = shelf.put(
        ThreadBuilder("claude", r"C:\Users\dev\shop", 1).user("Go").edit(cart, "1", "2")
    )
    shelf.put(about("something else", 2))
    shelf.update()

    assert shelf.found(query) == [path.name]


def test_a_file_is_found_under_each_name_of_its_folder(shelf: Shelf, tmp_path: Path) -> None:
    """The folder's real name or a link to it, in the thread and in the search."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    found = set()
    for seed, (cwd, named) in enumerate(((real, link), (link, real), (real, real), (link, link))):
        build = ThreadBuilder("claude", str(cwd), seed).user("Go").edit(f"{named}/a.py", "1", "2")
        found.add(shelf.put(build).name)
    shelf.update()

    for query in (f"file:{real}/a.py", f"file:{link}/a.py", f"file:{link}/*.py", "file:a.py"):
        assert set(shelf.found(query)) == found, query
    assert set(shelf.found(f"repo:{real}")) == set(shelf.found(f"repo:{link}")) == found
    assert len(shelf.found("repo:link")) == 2
    assert shelf.found(f"file:{tmp_path}/other/a.py") == []


def test_only_what_changed_is_read_again(shelf: Shelf) -> None:
    """A second update reads nothing; an appended thread keeps its blocks and gets new ones."""
    builder = about("the parser", 1)
    for n in range(30):
        builder.user(f"step {n} of the parser").assistant("word " * 200)
    path = shelf.put(builder)
    shelf.put(about("the writer", 2))
    shelf.update()
    with ThreadIndex(shelf.path) as index:
        before = count_contents(index)[1]
    assert shelf.update() == (0, 0)

    shelf.put(builder.user("Now the zebra crossing").assistant("Painted."))
    assert shelf.update() == (1, 0)
    assert shelf.found("zebra crossing") == [path.name]
    assert shelf.found("step 3 parser") == [path.name]
    with sqlite3.connect(shelf.path) as db:
        (made,) = db.execute("SELECT max(id) FROM words_docsize").fetchone()
    with ThreadIndex(shelf.path) as index:
        alive = count_contents(index)[1]
    assert before > 5
    assert before <= alive <= before + 1
    assert made <= before + 2


def test_what_an_update_read_is_shown_without_reading_it_again(shelf: Shelf) -> None:
    """The lines of a thread that was just indexed are there, though its file is gone meanwhile."""
    path = shelf.put(about("apricots", 1))
    with ThreadIndex(shelf.path) as index:
        index.update_threads(shelf.files())
        path.unlink()
        (shown,) = search_threads(index, parse_query("apricots"))
        assert [line.text for line in shown.lines] == ["Look into apricots"]
    with ThreadIndex(shelf.path) as index:
        (shown,) = search_threads(index, parse_query("apricots"))
        assert (shown.lines, bool(shown.problem)) == ((), True)


def test_a_thread_rewritten_from_its_beginning_is_found_by_its_new_words_alone(
    shelf: Shelf,
) -> None:
    """Blocks that are no longer true are found no more, though the index cannot delete them."""
    path = shelf.put(about("apricots", 1))
    shelf.update()
    shelf.put(about("blueberries", 1))
    shelf.update()

    assert shelf.found("apricots") == []
    assert shelf.found("blueberries") == [path.name]


def test_threads_that_are_gone_are_forgotten(shelf: Shelf) -> None:
    """A deleted file matches nothing any more."""
    path = shelf.put(about("apricots", 1))
    shelf.put(about("blueberries", 2))
    shelf.update()
    path.unlink()

    assert shelf.update() == (0, 1)
    assert shelf.found("apricots") == []


def test_an_index_that_is_mostly_dead_is_built_anew(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many changes the tables hold what is alive, and no more."""
    monkeypatch.setattr("tasuki.threads.index.DEAD", 3)
    for n in range(8):
        shelf.put(about(f"fruit number {n}", 1))
        shelf.update()

    with sqlite3.connect(shelf.path) as db:
        (rows,) = db.execute("SELECT count(*) FROM words_docsize").fetchone()
    assert rows < 6
    assert len(shelf.found('"fruit number 7"')) == 1


def test_ranges_lead_to_the_entries(shelf: Shelf) -> None:
    """A hit names the refs of the block that holds the words."""
    builder = ThreadBuilder("claude", seed=1)
    for n in range(40):
        builder.user(f"chapter {n}").assistant("filler " * 150)
    builder.user("the needle is here").assistant("found")
    shelf.put(builder)
    shelf.update()

    first, last = shelf.ranges("needle")[0]
    assert first <= 81 <= last
    assert last - first < 10


@pytest.mark.parametrize(
    "content",
    [b"not a database at all, but long enough to be taken for one " * 40, b"SQLite format 3\0" + b"\xff" * 4000],
    ids=["text", "damaged"],
)  # fmt: skip
def test_a_damaged_index_is_built_anew(shelf: Shelf, content: bytes) -> None:
    """Whatever lies where the index should be is replaced, and the reason is told."""
    shelf.put(about("apricots", 1))
    shelf.path.parent.mkdir()
    shelf.path.write_bytes(content)
    with ThreadIndex(shelf.path) as index:
        assert index.rebuilt
    shelf.update()

    assert len(shelf.found("apricots")) == 1


def test_an_index_of_another_version_is_built_anew(shelf: Shelf) -> None:
    """A newer or older layout is not read."""
    shelf.put(about("apricots", 1))
    shelf.update()
    with sqlite3.connect(shelf.path) as db:
        db.execute("PRAGMA user_version = 2")
    with ThreadIndex(shelf.path) as index:
        assert "version 2" in index.rebuilt
        assert count_contents(index) == (0, 0, 0)


def test_an_index_damaged_inside_is_built_anew_at_the_next_use(shelf: Shelf) -> None:
    """Pages overwritten in the middle cost at most one search, which says what to do."""
    for n in range(200):
        shelf.put(about(f"apricots {n} " + f"word{n} " * 300, n))
    shelf.update()
    data = bytearray(shelf.path.read_bytes())
    data[8192 : len(data) - 4096] = b"\xaa" * (len(data) - 12288)
    shelf.path.write_bytes(bytes(data))
    for suffix in ("-wal", "-shm"):
        Path(f"{shelf.path}{suffix}").unlink(missing_ok=True)

    assert all("was deleted" in told for told in shelf.mended(200))


@pytest.mark.parametrize("kept", [8, 16, 24])
def test_damage_behind_the_first_pages_is_told_and_mended(shelf: Shelf, kept: int) -> None:
    """Where the damage shows only in a search, the search says so and the next one works."""
    for n in range(200):
        shelf.put(about(f"apricots {n} " + f"word{n} " * 300, n))
    shelf.update()
    with sqlite3.connect(shelf.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(shelf.path.read_bytes())
    assert len(data) > (kept + 4) * 4096
    data[kept * 4096 :] = b"\xaa" * (len(data) - kept * 4096)
    shelf.path.write_bytes(bytes(data))

    assert all("was deleted" in told for told in shelf.mended(200))


def test_the_index_is_the_users_alone(shelf: Shelf) -> None:
    """Nobody else can read it."""
    shelf.put(about("apricots", 1))
    shelf.update()

    assert shelf.path.stat().st_mode & 0o077 == 0
    for suffix in ("-wal", "-shm", ".lock"):
        beside = Path(f"{shelf.path}{suffix}")
        assert not beside.exists() or beside.stat().st_mode & 0o077 == 0, suffix


def test_where_nothing_can_be_written_the_error_says_so(tmp_path: Path) -> None:
    """A file where the folder should be is named, and the way out."""
    (tmp_path / "data").write_text("")

    with pytest.raises(StoreFailed, match="TASUKI_DATA"):
        ThreadIndex(tmp_path / "data" / "index.db")


def test_a_full_disk_loses_nothing(shelf: Shelf) -> None:
    """An update that runs out of space says what to do, and the next one goes on."""
    for n in range(40):
        shelf.put(about(f"fruit {n} " + " ".join(f"w{n}x{k}" for k in range(3000)), n))
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pathlib import Path; sys.path[:0] = sys.argv[3:]\n"
        "from test_index import Shelf\n"
        "shelf = object.__new__(Shelf); shelf.folder, shelf.path = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "shelf.update()\n"
    )
    arguments = [str(shelf.folder), str(shelf.path), str(Path(__file__).parent), *IMPORTABLE]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "StoreFailed" in done.stderr, done.stderr
    assert "make room" in done.stderr

    shelf.update()
    assert len(shelf.found("fruit", 50)) == 40


def test_a_killed_update_is_carried_on(shelf: Shelf) -> None:
    """What was committed before a kill stays, the rest is taken in by the next update."""
    for n in range(300):
        shelf.put(about(f"fruit {n} " + " ".join(f"w{n}x{k}" for k in range(2000)), n))
    code = (
        "import sys; from pathlib import Path; sys.path[:0] = sys.argv[3:]\n"
        "import tasuki.threads.index as index; index.COMMIT_SECONDS = 0.05\n"
        "from test_index import Shelf\n"
        "shelf = object.__new__(Shelf); shelf.folder, shelf.path = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "shelf.update()\n"
    )
    arguments = [str(shelf.folder), str(shelf.path), str(Path(__file__).parent), *IMPORTABLE]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _taken_in(shelf.path) == 0 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = _taken_in(shelf.path)

    assert kept > 0
    taken, _ = shelf.update()
    assert taken == 300 - kept
    assert len(shelf.found("fruit", 400)) == 300


def _taken_in(path: Path) -> int:
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT count(*) FROM thread").fetchone()[0])
    except sqlite3.Error:
        return 0


def test_while_another_process_builds_what_is_there_is_searched(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two waits a while, then leaves the index alone, and says so."""
    monkeypatch.setattr("tasuki.threads.index.BUSY_SECONDS", 0.2)
    shelf.put(about("apricots", 1))
    shelf.update()
    shelf.put(about("blueberries", 2))
    with (
        ThreadIndex(shelf.path) as first,
        ThreadIndex(shelf.path) as second,
        first._hold_lock() as alone,
    ):
        assert alone
        assert second.update_threads(shelf.files()).busy
        assert len(second.search_index(parse_query("apricots"))) == 1
        assert second.search_index(parse_query("blueberries")) == []


def test_a_thread_that_cannot_be_read_is_told_once_and_not_read_again(shelf: Shelf) -> None:
    """Its problem is reported by the update that met it, the others are taken in."""
    path = shelf.put(about("apricots", 1))
    files = [*shelf.files(), (harnesses.get_harness("pi"), ThreadFile(path, 1.0, 2))]
    files[1][1].path.read_bytes()
    broken = shelf.folder / "broken.jsonl"
    broken.write_bytes(b'{"type":"nothing"}\n')
    files[1] = (harnesses.get_harness("pi"), ThreadFile(broken, 1.0, 2))
    with ThreadIndex(shelf.path) as index:
        first = index.update_threads(files)
        assert len(first.problems) == 1
        assert str(broken) in first.problems[0]
        assert index.update_threads(files).problems == []
        assert len(index.search_index(parse_query("apricots"))) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "Give words to search for"), ("-- ...", "Give words to search for"), ("harness:none x", "Unknown harness"),
     ("before:soon x", "before:soon is not a date")],
)  # fmt: skip
def test_a_search_for_nothing_says_what_to_type(text: str, message: str) -> None:
    """Empty searches and filters that make no sense are wrong usage."""
    with pytest.raises(UsageError, match=message):
        parse_query(text)


@pytest.mark.parametrize("text", ['"', "a OR b NOT (", "x* ^y {z}", "NEAR(a b)", "col:umn", "'; DROP TABLE", "\0 \x1b", "-" * 50 + "a"])  # fmt: skip
def test_what_looks_like_syntax_is_only_words(shelf: Shelf, text: str) -> None:
    """Nothing a person types is taken for a query language they did not mean."""
    shelf.put(about("apricots", 1))
    shelf.update()

    assert shelf.found(f"{text} apricots")[1:] == []


def test_the_index_holds_no_secret(shelf: Shelf) -> None:
    """No secret is in the index's files, wherever it was in the thread, and none is found by its value."""
    token, password, key = "vcp_" + "aB3dE6gH" * 7, "Tr0ub4dor9" + "&3xyzuvw", "0a1b2c3d" * 4
    lines = [f"MIIE{n}vQIBADANBgkqhkiG9w0BAQEFAASCBKcwgg{n}SjAgEAAoIBAQC7VJTUt9" for n in range(5)]
    shelf.put(
        ThreadBuilder("claude", seed=1)
        .user(f"Is {password} still right? {'Deploy. ' * 66}")
        .shell("cat key.pem", "-----BEGIN " + "PRIVATE KEY-----\n" + "\n".join(lines))
        .shell("env", f"{'x ' * 1994}GH={token}{' y' * 4000}\nAPI_KEY={key}")
        .edit(f"src/{token}.py", "x", f"DB_PASSWORD = '{password}'")
        .raw(type="custom-title", customTitle=f"deploy with {token}")
    )
    shelf.update()
    assert shelf.found("deploy")
    assert shelf.found("src")

    kept = b"".join(path.read_bytes() for path in shelf.path.parent.iterdir()).lower()
    with ThreadIndex(shelf.path) as index:
        words = index.search_index(parse_query("deploy"))[0].thread
    assert words.name == "deploy with [REDACTED:service-token]"
    for secret in (token[4:], password, key, *(line[38:] for line in lines)):
        assert secret[:10].lower().encode() not in kept
        assert shelf.found(secret) == shelf.found(f'"{secret}"') == []


def test_a_password_that_is_named_later_is_not_taken_in(shelf: Shelf) -> None:
    """What is new in a thread is read with the older parts that have its unusual words."""
    password = "Tr0ub4dor9" + "&3xyzuvw"
    thread = ThreadBuilder("claude", seed=1).user("Deploy it. " * 500)
    shelf.put(thread.shell("env", f"DB_PASSWORD={password}").user("Go on. " * 700))
    shelf.update()
    shelf.put(thread.assistant(f"I log in as admin with {password} now, in apricots."))
    shelf.update()

    assert shelf.found("apricots")
    assert shelf.found(password) == []


@pytest.mark.parametrize("name", ["index.db", "index.db.lock"])
def test_an_index_that_cannot_be_opened_names_what_mends_it(shelf: Shelf, name: str) -> None:
    """A folder in its place stands for what may not be replaced: it is root's too."""
    (shelf.path.parent / name).mkdir(parents=True)

    with (
        pytest.raises(StoreFailed, match=r"index\.db cannot be opened.*TASUKI_DATA="),
        ThreadIndex(shelf.path) as index,
    ):
        index.update_threads([])
