"""Threads on the dashboard's pages: found, and read, whatever stands in them."""

import base64
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from command_line import SECRET
from visitors import words
from waiting import retry_until
from web_reader import Reader, harmful, hits, reading

from tasuki.config.settings import Settings
from tasuki.harness.registry import get_harness
from tasuki.threads.kept.policy import keep_thread
from tasuki.web.pages.threads import view
from tasuki_testing import ThreadBuilder, story

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \u202egpj.exe \x1b[2J"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody who reads threads."""
    with reading(tmp_path, monkeypatch) as made:
        yield made


def claude(seed: int = 1, cwd: str = "/home/dev/proj") -> ThreadBuilder:
    """An empty thread of Claude Code."""
    return ThreadBuilder("claude", cwd, seed)


def codex(reader: Reader) -> str:
    """Write a thread of Codex; its id."""
    folder = reader.home / ".codex" / "sessions"
    folder.mkdir(parents=True)
    builder = ThreadBuilder("codex").user("Count the pelicans").assistant("There are three.")
    builder.write(folder)
    return builder.id


# -- the list --------------------------------------------------------------------------


def test_the_newest_threads_are_listed(reader: Reader) -> None:
    """Without a search there are the threads of all harnesses, or of the one that is chosen."""
    here, other = reader.thread(), codex(reader)
    page = reader.page("/threads")

    assert {here, f"/threads/codex/{other}"} == {hit.partition("?")[0] for hit in hits(page)}
    assert "Codex · proj" in words(page)
    (only,) = hits(reader.page("/threads?harness=codex"))
    assert only.startswith("/threads/codex/")


def test_without_threads_the_page_says_what_to_do_first(reader: Reader) -> None:
    """A machine without threads is told where they come from."""
    assert "No thread yet Work with a coding agent" in words(reader.page("/threads"))


def found(reader: Reader, q: str, **more: str) -> list[str]:
    """What a search finds once the index is there."""
    where = f"/threads?{urlencode({'q': q, **more})}"
    return retry_until(lambda: hits(reader.page(where)))


def test_a_search_leads_to_the_entry(reader: Reader) -> None:
    """A hit opens the entry that matches best, with the words that were looked for marked."""
    reader.thread(
        claude().user("Look at the café").assistant("The **cafe** is `open`; cafeteria & co <b>")
    )
    reader.thread(claude(2).user("Something else").assistant("Nothing of it"))
    (hit,) = found(reader, "café")
    page = reader.page(hit)

    assert hit.endswith(("#e1", "#e2"))
    assert "Look at the <mark>café</mark>" in page
    assert "The <strong><mark>cafe</mark></strong> is <code>open</code>" in page
    assert "<mark>cafe</mark>teria &amp; co &lt;b&gt;" in page
    assert "<mark>café</mark>" in reader.page("/threads?q=cafe")


@pytest.mark.parametrize(
    ("q", "more"),
    [("pelicans", {}), ('"the pelicans"', {}), ("pelicans harness:codex", {}), ("pelicans", {"harness": "codex"}),
     ("pelicans repo:/home/dev/proj", {}), ("", {"project": "/home/dev/proj", "harness": "codex"}), ("pelicans after:2020-01-01", {})],
)  # fmt: skip
def test_the_filters_are_those_of_the_command(reader: Reader, q: str, more: dict[str, str]) -> None:
    """Words, phrases and filters mean what they mean to `tasuki find`."""
    reader.thread(claude().user("No birds here").assistant("None"))
    codex(reader)
    (only,) = found(reader, q, **more)

    assert only.startswith("/threads/codex/")


def test_what_is_not_to_occur_does_not(reader: Reader) -> None:
    """A word behind a minus keeps threads out."""
    reader.thread(claude().user("pelicans in spring").assistant("ok"))
    reader.thread(claude(2).user("pelicans in autumn").assistant("ok"))

    assert 2 == len(found(reader, "pelicans"))
    assert 1 == len(found(reader, "pelicans -autumn"))


@pytest.mark.parametrize("q", ["after:yesterday", "harness:nobody", "...", "-only"])
def test_a_search_that_makes_no_sense_is_told(reader: Reader, q: str) -> None:
    """The sentence is that of the command, and what was typed stays."""
    page = reader.page(f"/threads?{urlencode({'q': q})}", 400)

    assert 'role="alert"' in page
    assert f'value="{q}"' in page


def test_nothing_found_says_what_to_try(reader: Reader) -> None:
    """A search without a hit names the filters."""
    reader.thread()
    assert found(reader, "timeout")

    assert "Fewer words find more" in words(reader.page("/threads?q=nowhereatall"))


def test_what_is_still_taken_in_is_told(reader: Reader, tmp_path: Path) -> None:
    """A search does not wait for a long index: it says how much is left, and goes on by a script or by hand."""
    reader.thread()
    assert found(reader, "timeout")
    (lock,) = (tmp_path / "data").rglob("*.lock")
    reader.thread(claude(7).user("A pelican").assistant("ok"))
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        page = retry_until(
            lambda: "Threads are being indexed" in (p := reader.page("/threads?q=pelican")) and p
        )

    assert "Threads are being indexed: 1 MB are left." in words(page)
    assert 'hx-get="/threads?q=pelican" hx-trigger="every 1s"' in page
    assert '<a href="/threads?q=pelican">search again</a>' in page
    assert found(reader, "pelican")
    settled = retry_until(
        lambda: "are being indexed" not in (p := reader.page("/threads?q=pelican")) and p
    )
    assert "hx-trigger" not in settled


# -- one thread ------------------------------------------------------------------------


def test_a_thread_is_read(reader: Reader) -> None:
    """Entries have addresses; the user's are marked; calls are folded and tell how they ended."""
    page = reader.page(reader.thread())
    said = words(page)

    assert 13 == len(set(re.findall(r'id="e(\d+)"', page)))
    assert '<li id="e2" class="user">' in page
    assert "Bash pytest -q tests/test_login.py exit 1" in said
    assert "src/login.py +1 −1" in said
    assert "npm run dev running" in said
    assert "Compacted. Facts still come from all entries." in said
    assert "1 failed: timeout" in said
    assert "SIDECHAIN-WORDS" not in said


def test_many_calls_are_folded_into_one_line(reader: Reader) -> None:
    """Nine calls behind one another are a line with counts; the one that is asked for is open."""
    builder = claude().user("Look at it")
    for n in range(6):
        builder.read(f"src/{n}.py", "x\n")
    for n in range(3):
        builder.shell(f"make {n}", "ok\n")
    where = reader.thread(builder.assistant("Done."))

    assert "9 tool calls: 6 Read, 3 Bash" in words(reader.page(where))
    folded, opened = reader.page(where), reader.page(f"{where}?entry=4")
    assert '<li class="run-of" id="r2"><span></span><details>' in folded
    assert '<li class="run-of" id="r2"><span></span><details open>' in opened


def test_a_long_thread_has_parts(reader: Reader) -> None:
    """The newest part comes first; a reference opens the part that holds it."""
    builder = claude()
    for n in range(125):
        builder.user(f"Question {n}").assistant(f"Answer {n}")
    where = reader.thread(builder)
    newest, first = reader.page(where), reader.page(f"{where}?entry=3")

    assert "#201 to #250, part 3 of 3" in words(newest)
    assert f'href="{where.replace("?", "?")}' in newest
    assert "#1 to #100, part 1 of 3" in words(first)
    assert 'id="e3"' in first
    assert 'id="e201"' not in first
    (after,) = set(re.findall(r'<a href="([^"]*)">After</a>', first))
    assert "#101 to #200" in words(reader.page(after.replace("&amp;", "&")))
    assert "#201 to #250" in words(reader.page(f"{where}?entry=99999"))


def test_a_hundred_thousand_entries_make_a_small_page(reader: Reader) -> None:
    """Only the part that is looked at is sent."""
    builder = claude()
    for n in range(50_000):
        builder.user(f"do {n}").assistant(f"did {n}")
    where = reader.thread(builder)

    assert len(reader.get(where).body) < 100_000
    assert "did 24999" in words(reader.page(f"{where}?entry=50000"))


def test_long_texts_are_cut_with_a_way_to_the_whole(reader: Reader) -> None:
    """Lines of 1 MB are cut; the whole is a text that no browser takes for a page."""
    builder = claude()
    for n in range(30):
        builder.user(f"{n} " + "A" * 1_000_000 + f" end{n}").shell("cat x", "B" * 1_000_000)
    where = reader.thread(builder)
    answer = reader.get(where)
    page = answer.body.decode()
    (whole,) = re.findall(rf'href="({where}/entries/59[^"]*)"', page) or [""]
    given = reader.get(whole.replace("&amp;", "&"))

    assert len(page) < 700_000
    assert given.body.decode().endswith("A end29")
    assert given.headers["content-type"].startswith("text/plain")
    assert given.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert len(reader.get(f"{where}/entries/60").body) > 2 * view.MOST_OUTPUT_CHARACTERS


def test_no_page_holds_a_secret(reader: Reader) -> None:
    """Secrets are replaced in names, words, commands and outputs, cut or whole."""
    told = f"export TOKEN={SECRET}"
    long = "A" * 29_000 + f" {told} " + "B" * 40_000
    builder = claude().user(f"Use {told}").shell(f"echo {SECRET}", told).assistant(told).user(long)
    where = reader.thread(builder)
    pages = [where, "/threads", f"{where}/entries/1", f"{where}/entries/2", f"{where}/entries/4"]
    assert found(reader, "TOKEN")
    bodies = [reader.get(page).body.decode() for page in [*pages, "/threads?q=TOKEN"]]

    assert not any(SECRET[4:] in body for body in bodies)
    assert all("[REDACTED:" in body for body in bodies)


def test_half_a_secret_at_a_cut_is_not_shown(reader: Reader) -> None:
    """What stands where a long text is cut may be half a secret, which nobody knows for one."""
    line = base64.b64encode(bytes(range(48))).decode()
    key = "\n".join(
        ("-----BEGIN RSA PRIVATE KEY-----", *[line] * 450, "-----END RSA PRIVATE KEY-----\n")
    )
    text = key.ljust(view.CHECKED_CHARACTERS - 9) + f"{SECRET}\n" * 9
    where = reader.thread(claude().user(text).shell(text, "ok"))

    assert SECRET[:9] not in reader.page(where)


def test_what_could_not_be_read_is_told(reader: Reader) -> None:
    """Broken lines are counted with their numbers; the others are there."""
    builder = story("claude")
    where = reader.thread(builder)
    path = reader.projects / builder.file_name()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"{broken\n", *lines[3:]]))

    assert "1 broken line(s) skipped" in words(reader.page(where))
    assert ": 4" in words(reader.page(where))
    path.write_bytes(path.read_bytes() + b'{"type":"user"')
    assert "Its last line is incomplete" in words(reader.page(where))


def test_a_thread_that_goes_on_is_read_anew(reader: Reader) -> None:
    """What is kept in memory is what the file holds now."""
    builder = claude().user("One").assistant("Two")
    where = reader.thread(builder)
    assert "Three" not in reader.page(where)
    reader.thread(builder.user("Three"))

    assert "Three" in words(reader.page(where))


def test_a_thread_that_its_harness_deleted_is_read_from_its_copy(reader: Reader) -> None:
    """Listed, found and shown as before, with a line that says so."""
    where = reader.thread(claude().user("Count the pelicans").assistant("There are three."))
    (path,) = reader.home.glob(".claude/projects/*/*.jsonl")
    assert keep_thread(get_harness("claude"), path, Settings())
    path.unlink()

    (hit,) = hits(reader.page("/threads"))
    for address in (where, hit):
        text = words(reader.page(address))
        assert "There are three." in text
        assert "Claude Code no longer has its own file of this thread." in text
    assert "Find 1 thread" in words(reader.page("/threads?q=pelicans+three"))


def test_a_hostile_thread_is_text(reader: Reader) -> None:
    """Markup, links, directions and escape sequences do nothing, wherever they stand."""
    builder = claude(cwd=f"/tmp/{HOSTILE}")
    builder.user(HOSTILE).assistant(f"{HOSTILE} &#x202e;hidden &#8238;too").shell(
        HOSTILE, HOSTILE, 1
    )
    builder.edit(f"/{HOSTILE}", HOSTILE, HOSTILE).compaction(HOSTILE).user("&lt;b&gt; stays")
    where = reader.thread(builder)
    assert found(reader, "alert")
    odd = urlencode({"q": f'"{HOSTILE}"', "project": HOSTILE, "harness": "claude"})
    pages = [reader.get(at).body.decode() for at in (where, "/threads", "/threads?q=alert", f"{where}?q=alert", f"/threads?{odd}")]  # fmt: skip

    for page in pages:
        assert harmful(page) == []
        assert "\u202e" not in page
        assert "\x1b" not in page
    assert "&lt;script&gt;" in pages[0]
    assert "&amp;lt;b&amp;gt; stays" in pages[0]


# -- addresses -------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["a", "jsonl", "claude", "@1", "..", "%00", "00000000-0000-7000-8000-0000000000ff", "e" * 3000])  # fmt: skip
def test_only_a_whole_id_names_a_thread(reader: Reader, id: str) -> None:
    """A part of a file's name, or a word that means something to the command, is no thread."""
    reader.thread()

    assert 'role="alert"' in reader.page(f"/threads/claude/{quote(id, safe='%')}", 404)


def test_a_path_must_be_a_thread_of_that_harness(reader: Reader, tmp_path: Path) -> None:
    """Other files, folders, pipes and devices are refused, and none of them holds the server up."""
    where = reader.thread()
    (path,) = reader.projects.iterdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    status = {
        given: reader.get(f"/threads/{harness}/x?path={quote(given)}").status
        for harness, given in (
            ("claude", str(path)), ("codex", str(path)), ("claude", str(pipe)), ("claude", "/etc/passwd"), ("claude", "/dev/zero"),
            ("claude", str(tmp_path)), ("claude", "relative.jsonl"), ("claude", "/not/there"), ("claude", "\0"),
        ) if (harness, given) != ("codex", str(path))
    }  # fmt: skip

    assert 404 == reader.get(f"/threads/codex/x?path={quote(str(path))}").status
    assert 404 == reader.get(f"{where.replace('claude', 'nobody')}/x").status
    assert 400 == reader.get(where.replace("claude", "nobody")).status
    assert status == {
        str(path): 200, str(pipe): 404, "/etc/passwd": 400, "/dev/zero": 404, str(tmp_path): 404, "relative.jsonl": 404,
        "/not/there": 404, "\0": 404,
    }  # fmt: skip


def test_two_threads_of_one_id_are_told_apart_by_their_paths(reader: Reader) -> None:
    """The id alone is refused; the list leads to each of them."""
    where = reader.thread(claude().user("First").assistant("ok"))
    other = reader.projects.parent / "-home-dev-other"
    other.mkdir()
    claude().user("Second").assistant("ok").write(other)

    assert "2 threads of Claude Code are called" in words(reader.page(where, 400))
    texts = " ".join(
        words(reader.page(hit)).partition("part")[0] for hit in hits(reader.page("/threads"))
    )
    assert "You First" in texts
    assert "You Second" in texts


def test_nothing_is_read_without_a_session(reader: Reader) -> None:
    """Threads, entries, drafts and briefs need the session, and a change an origin of its own."""
    where = reader.thread()
    brief = reader.brief(where)
    for path in ("/threads", where, f"{where}/entries/1", "/briefs", brief, f"{brief}/brief.md", f"{brief}/edit", f"{brief}/entries/2", "/briefs/prune"):  # fmt: skip
        assert (path, 401) == (path, reader.served.ask("GET", path, token="").status)
    for path in (f"{where}/handoff", f"{brief}/edit", f"{brief}/start", "/briefs/prune"):
        refused = reader.served.ask("POST", path, b"", token="", Cookie=reader.cookie, Origin="http://evil.example")  # fmt: skip

        assert (path, 403) == (path, refused.status)
    assert 1 == len(reader.vault.list_handoffs())
