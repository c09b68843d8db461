"""Handoffs that were kept, on the dashboard's pages: listed, and read beside their threads."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import SECRET
from handoffs import made
from msgspec.structs import replace
from visitors import words
from web_reader import GOAL, Reader, harmful, reading

from tasuki.handoffs import create_event
from tasuki.model import Draft, Dropped, Item
from tasuki.vault import create_handoff_id
from tasuki_testing import ThreadBuilder, story

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \u202egpj.exe \x1b[2J"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody who reads briefs."""
    with reading(tmp_path, monkeypatch) as made:
        yield made


def aside(page: str) -> str:
    """What stands beside the brief."""
    return words(page.partition('id="entry"')[2].partition("</aside>")[0])


# -- the list --------------------------------------------------------------------------


def test_what_was_kept_is_listed(reader: Reader) -> None:
    """Each with its state, its goal, from where to where, and its size; the newest first."""
    first = made(goal="Raise the timeout of the login", to="codex")
    second = made(goal="Write the changelog", created="2025-11-03T10:00:00Z")
    for handoff in (first, second):
        reader.vault.save(handoff, "brief")
    reader.vault.append_event(first.id, create_event("started"))
    page = reader.page("/briefs")

    assert [second.id, first.id] == re.findall(r'href="/briefs/([0-9a-f]{32})"', page)
    assert "Draft Write the changelog" in words(page)
    assert "Started Raise the timeout of the login" in words(page)
    assert "Claude Code to Codex" in words(page)


def test_briefs_are_searched(reader: Reader) -> None:
    """Those that hold the words, each with the lines that do."""
    reader.vault.save(made(goal="Feed the pelicans"), "They eat fish.\nFeed the pelicans")
    reader.vault.save(made(goal="Write the changelog"), "Nothing")
    said = words(reader.page("/briefs?q=fish"))

    assert "They eat fish." in said
    assert "changelog" not in said
    assert "No brief contains these words" in words(reader.page("/briefs?q=nowhereatall"))
    assert 'role="alert"' in reader.page("/briefs?q=after%3Ayesterday", 400)


def test_an_empty_list_says_what_to_do_first(reader: Reader) -> None:
    """Without a draft the page leads to the threads."""
    page = reader.page("/briefs")

    assert "No draft yet" in page
    assert '<a href="/threads">' in page


def test_a_damaged_handoff_is_told(reader: Reader) -> None:
    """What cannot be read is named; the others are listed, and nothing is pruned."""
    reader.vault.save(made(goal="Write the changelog"), "brief")
    damaged = made(goal="x")
    reader.vault.save(damaged, "brief")
    (reader.vault.root / damaged.id / "handoff.json").write_text("{")
    page = reader.page("/briefs")

    assert "Write the changelog" in page
    assert "cannot be read" in page
    assert "Nothing is deleted while a handoff cannot be read" in words(
        reader.page("/briefs/prune", 400)
    )


# -- one -------------------------------------------------------------------------------


def test_a_brief_beside_its_entries(reader: Reader) -> None:
    """References are links; the entry stands beside the brief, with those around it and where it is cited."""
    where = reader.thread()
    brief = reader.brief(where)
    page = reader.page(brief)
    refs = re.findall(rf'<a class="ref" href="{brief}\?entry=(\d+)#entry">#\1</a>', page)

    assert {"2", "6", "7", "9"} <= set(refs)
    assert "#[" not in words(page)
    assert GOAL in words(page.partition('class="goal"')[2])
    beside = reader.page(f"{brief}?entry=6")
    assert "Entry #6 Tool call with its result" in aside(beside)
    assert "1 failed: timeout" in aside(beside)
    assert "Cited by The last steps" in aside(beside)
    assert "As the thread has it, unchanged: hash " in aside(beside)
    assert f'href="{brief}?entry=7#entry"' in beside.partition('id="entry"')[2]
    (thread,) = set(re.findall(r'<a href="(/threads/[^"]+entry=6#e6)">Open in the thread', beside))
    assert 'id="e6"' in reader.page(thread.replace("&amp;", "&"))


def test_a_script_is_given_the_entry_alone(reader: Reader) -> None:
    """The place beside the brief is replaced; the brief keeps its place."""
    brief = reader.brief(reader.thread())
    asked = reader.served.ask(
        "GET", f"{brief}/entry/7", token="", Cookie=reader.cookie, HX_Request="true"
    )
    piece = asked.body.decode()

    assert piece.strip().startswith('<aside class="aside panel" id="entry"')
    assert "Entry #7" in words(piece)
    assert "Key" not in words(piece)


def test_an_entry_that_changed_is_shown_as_it_was(reader: Reader) -> None:
    """Where the thread says something else now, or is gone, the copy that the handoff kept is shown."""
    builder = story("claude")
    brief = reader.brief(reader.thread(builder))
    path = reader.projects / builder.file_name()
    path.write_text(path.read_text().replace("keep it under 30 s", "keep it under 99 s"))
    changed = aside(reader.page(f"{brief}?entry=2"))
    path.unlink()
    gone = reader.page(f"{brief}?entry=2")

    assert "keep it under 30 s" in changed
    assert "the thread has something else there now" in changed
    assert "keep it under 30 s" in aside(gone)
    assert "the thread no longer has it" in aside(gone)
    assert "Its thread no longer exists" in words(gone)
    assert "It is neither in the thread nor stored with the handoff" in aside(
        reader.page(f"{brief}?entry=1")
    )


def test_an_entry_that_is_long(reader: Reader) -> None:
    """It is cut beside the brief; the whole of it is a text, also where the thread is gone."""
    builder = ThreadBuilder("claude").user("Please never push to main. " + "x" * 50_000)
    brief = reader.brief(reader.thread(builder.assistant("ok").shell("pytest -q", "1 passed\n")))
    page = reader.page(f"{brief}?entry=1")
    whole = reader.get(f"{brief}/entries/1")

    assert len(page) < 60_000
    assert f'href="{brief}/entries/1"' in page
    assert whole.body.endswith(b"x" * 50_000)
    assert "sandbox" in whole.headers["content-security-policy"]
    assert 404 == reader.get(f"{brief}/entries/999").status


@pytest.mark.parametrize("path", ["/briefs/0123456789abcdef", "/briefs/zz", "/briefs/../../etc", "/briefs/abcd/edit", "/briefs/abcd/entry/1", "/briefs/abcd/brief.md"])  # fmt: skip
def test_a_brief_that_is_not_there(reader: Reader, path: str) -> None:
    """A wrong address is answered with a sentence."""
    assert 404 == reader.get(path).status


def test_raw_and_download(reader: Reader) -> None:
    """The brief to the letter, as a text that no browser takes for a page."""
    brief = reader.brief(reader.thread(), f"{GOAL} <b>&amp;</b>")
    (kept,) = reader.vault.list_handoffs()
    raw, download = reader.get(f"{brief}/brief.md"), reader.get(f"{brief}/brief.md?download=true")

    assert reader.vault.load_brief(kept.id) == raw.body.decode() == download.body.decode()
    assert raw.headers["content-type"].startswith("text/plain")
    assert raw.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert f'filename="brief-{kept.id[:8]}.md"' in download.headers["content-disposition"]


def test_what_changed_since_is_told(reader: Reader, tmp_path: Path) -> None:
    """Drift is looked at when the page is."""
    project = tmp_path / "proj"
    project.joinpath("src").mkdir(parents=True)
    source = project / "src" / "login.py"
    source.write_text("TIMEOUT = 25\n")
    brief = reader.brief(reader.thread(story("claude", str(project))))
    assert "Changed since 0 None" in words(reader.page(brief))
    source.write_text("TIMEOUT = 99\n")

    assert "Changed since 1" in words(reader.page(brief))
    assert "src/login.py" in words(
        reader.page(brief).partition('id="t1"')[2].partition("</section>")[0]
    )


def test_what_was_left_out_and_redacted_is_told(reader: Reader) -> None:
    """Dropped items with their reason, secrets by kind, and what did not fit beside the form for edits."""
    dropped = Dropped("decisions", "Use the moon", "no entry says so", "unsupported")
    handoff = made(goal="Write the changelog")
    draft = replace(
        handoff.draft, dropped=(dropped,), left_out=(Item("Rename it later", refs=(9,)),)
    )
    reader.vault.save(replace(handoff, draft=draft, redactions={"github-token": 2}), "brief")
    said = words(reader.page(f"/briefs/{handoff.id}"))

    assert (
        "Left out (not found in the thread) 1 Use the moon dropped from decisions: no entry says so"
        in said
    )
    assert "Redacted 2 github-token: 2 places" in said
    assert "Left out because it did not fit: 1." in words(reader.page(f"/briefs/{handoff.id}/edit"))
    assert "- Rename it later [#9]" in words(reader.page(f"/briefs/{handoff.id}/edit"))


def test_a_secret_of_the_thread_is_on_no_page(reader: Reader) -> None:
    """Neither in the brief nor in an entry beside it."""
    builder = story("claude").user(f"Always use the token {SECRET} for it").assistant("I will.")
    brief = reader.brief(reader.thread(builder))
    pages = [
        brief,
        f"{brief}/edit",
        f"{brief}/brief.md",
        *(f"{brief}?entry={n}" for n in range(12, 16)),
        f"{brief}/entries/14",
    ]
    bodies = [reader.get(path).body.decode() for path in pages]

    assert not any(SECRET in body for body in bodies)
    assert any("[REDACTED:" in body for body in bodies)


def test_a_hostile_brief_is_text(reader: Reader) -> None:
    """Markup of goals, items and events does nothing on any page."""
    handoff = made(goal=HOSTILE, to="claude")
    draft = Draft(goal=handoff.goal, context=(Item(HOSTILE, refs=(3,)),), left_out=(Item(HOSTILE),))
    citation = replace(handoff.citations[0], text=HOSTILE)
    reader.vault.save(
        replace(handoff, draft=draft, citations=(citation,)),
        f"# x\n- {HOSTILE} [#3]\n\n## Next Goal (verbatim)\n{HOSTILE}",
    )
    reader.vault.append_event(handoff.id, create_event("failed", reason=HOSTILE))
    for path in ("/briefs", "/briefs?q=alert", f"/briefs/{handoff.id}", f"/briefs/{handoff.id}?entry=3", f"/briefs/{handoff.id}/edit", "/briefs/prune?days=1&drafts=0"):  # fmt: skip
        page = reader.page(path)

        assert (path, []) == (path, harmful(page))
        assert "\u202e" not in page
        assert "\x1b" not in page


def test_what_happened_to_it_is_told(reader: Reader) -> None:
    """Delivery and acknowledgement of its successor are among the events, with the state they make."""
    handoff = made(id=create_handoff_id(), to="claude")
    reader.vault.save(handoff, "brief")
    for kind in ("drafted", "started", "delivered", "acknowledged"):
        reader.vault.append_event(handoff.id, create_event(kind, thread="t-9"))
    said = words(reader.page(f"/briefs/{handoff.id}"))

    assert "Confirmed" in said
    assert "delivered thread: t-9" in said
    assert "Its thread no longer exists: /gone/t-1.jsonl" in said
