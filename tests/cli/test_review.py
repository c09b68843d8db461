"""The review screen shows the brief beside its evidence, and leaves with the user's decision."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from terminals import Terminal
from tree import PROGRAMS
from waiting import retry_until

pytest.importorskip("textual")

from programs.review_here import BRIEF, LEFT_OUT, THREAD, WARNINGS
from textual.widgets import OptionList, Static, TabbedContent, TextArea

from tasuki.cli.handoff.review_screen import (
    ReviewApp,
    find_insertion_row,
    find_refs,
    format_entry,
    parse_refs,
)
from tasuki.draft.brief import FENCE_CLOSE, FENCE_OPEN
from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.launch.tmux.server import wait_until_settled
from tasuki.model import Entry, Item, Thread

PROGRAM = str(PROGRAMS / "review_here.py")


def app(brief: str = BRIEF, **more: Any) -> ReviewApp:
    """The screen for a small thread."""
    given = {"left_out": LEFT_OUT, "warnings": WARNINGS, "budget": 200, **more}
    return ReviewApp(brief, THREAD, **given)


def cited(screen: ReviewApp) -> str:
    """What the tab of entries shows."""
    return str(screen.query_one("#cited", Static).content)


def row_of(text: str) -> int:
    """The row of the brief that holds a text."""
    return next(n for n, line in enumerate(BRIEF.split("\n")) if text in line)


@pytest.mark.parametrize(
    ("line", "refs"),
    [
        ("- text [#12, #40]", (12, 40)),
        ("- [#3] and [#4,#3]", (3, 4)),
        ("issue #7 is no reference", ()),
        ("[x] [link](#9)", ()),
        ("", ()),
    ],
)
def test_refs_of_a_line(line: str, refs: tuple[int, ...]) -> None:
    """Only numbers in the brief's own brackets are references."""
    assert parse_refs(line) == refs


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_entries_follow_the_cursor(size: tuple[int, int]) -> None:
    """The entries that the current line names are shown in full, the unknown ones named."""
    screen = app()
    async with screen.run_test(size=size) as pilot:
        assert not cited(screen).startswith(
            "No sources"
        )  # It begins at the first line that has some.
        screen.query_one(TextArea).move_cursor((row_of("Decided"), 4))
        await pilot.pause()

        shown = cited(screen)
        assert "#3 assistant\nThe pool is closed too [bold]early[/]." in shown
        assert shown.count("More. ") >= 399
        assert "#4 Edit (ok)  2025-11-02 10:03" in shown
        assert "edit src/auth.py\n- pool.close()\n+ pool.keep()\n+ return pool" in shown
        assert "[pending] Run the tests" in shown
        assert "#99 is not among the entries of this thread." in shown

        screen.query_one(TextArea).move_cursor((0, 0))
        await pilot.pause()
        assert cited(screen).startswith("No sources for this line.")


async def test_nothing_of_the_thread_reaches_the_terminal() -> None:
    """No control character of thread, items or warnings is on the screen."""
    screen = app(brief=BRIEF + "\x1b]0;owned\x07\x9b2J")
    async with screen.run_test(size=(160, 50)) as pilot:
        for key in ("f3", "f3", "f3"):
            await pilot.press(key)
        screen.query_one(TextArea).move_cursor((row_of("Decided"), 0))
        await pilot.pause()

        strips = screen.screen._compositor.render_strips()
        text = "".join(segment.text for strip in strips for segment in strip)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", text)
        assert "owned" in screen.query_one(TextArea).text


@pytest.mark.parametrize(
    ("keys", "action"),
    [
        (["ctrl+s"], "start"),
        (["f2"], "save"),
        (["ctrl+w"], "save"),
        (["escape"], "cancel"),
        (["ctrl+c"], "cancel"),
        (["ctrl+q"], "cancel"),
        (["tab", "tab", "ctrl+s"], "start"),
    ],
)
async def test_decisions(keys: list[str], action: str) -> None:
    """Each key leaves with its decision; an untouched brief comes back to the letter."""
    brief = BRIEF + "\r\n\x07 odd"
    screen = app(brief)
    async with screen.run_test() as pilot:
        await pilot.press(*keys)

    assert screen.result == (action, brief)


async def test_edits_come_back() -> None:
    """What was typed is in the result, at the first line with sources, and can be undone."""
    screen = app()
    async with screen.run_test() as pilot:
        await pilot.press("x", "ctrl+z", "y", "ctrl+s")

    first = next(line for line in BRIEF.splitlines() if parse_refs(line))
    assert screen.result == ("start", BRIEF.replace(first, f"y{first}", 1))


@pytest.mark.parametrize("size", [(60, 20), (160, 50)])
async def test_the_first_section_is_at_the_upper_edge(size: tuple[int, int]) -> None:
    """Lines above it may take several rows of a narrow screen, and other ones of a wider one."""
    screen = app("word " * 100 + "\n" + BRIEF + "\nmore" * 200)
    async with screen.run_test(size=size) as pilot:
        brief = screen.query_one(TextArea)
        lines = brief.document.lines
        heading = next(n for n, line in enumerate(lines) if line.startswith("## "))
        for width in (size[0], 110, 50):
            await pilot.resize_terminal(width, size[1])
            await pilot.pause()
            top = brief.wrapped_document.location_to_offset((heading, 0)).y
            assert brief.scroll_offset.y == top


async def test_cancel_asks_when_edited() -> None:
    """An edited brief is thrown away only when that is confirmed."""
    screen = app()
    async with screen.run_test() as pilot:
        await pilot.press("x", "escape")
        assert len(screen.screen_stack) == 2
        await pilot.press("escape")
        assert len(screen.screen_stack) == 1
        await pilot.press("ctrl+c", "ctrl+c", "n")
        await pilot.press("ctrl+c", "ctrl+s")
        assert screen.is_running
        await pilot.press("y")

    assert screen.result[0] == "cancel"


async def test_what_was_left_out_can_be_inserted() -> None:
    """An item goes below the cursor's line inside the record, once, and counts in the size."""
    screen = app()
    async with screen.run_test(size=(80, 24)) as pilot:
        screen.query_one(TextArea).move_cursor((row_of("Decided"), 3))
        await pilot.press("f3", "enter", "enter", "enter")
        lines = screen.query_one(TextArea).text.split("\n")
        at = row_of("Decided")

        assert lines[at + 1] == "- Note: The tests need a database [bold]on port 5433[/bold] [#1]"
        assert lines[at + 2].startswith("- A long item")
        assert len(lines) == len(BRIEF.split("\n")) + 2
        prompt = screen.query_one(OptionList).get_option_at_index(0).prompt
        assert str(prompt).startswith("✓ - Note")


async def test_an_item_never_leaves_the_record() -> None:
    """With the cursor outside the record an item goes to the record's end."""
    screen = app()
    async with screen.run_test() as pilot:
        screen.query_one(TextArea).move_cursor((row_of("Fix the login"), 0))
        await pilot.press("f3", "enter", "ctrl+s")

    past, _, rest = screen.result[1].partition("</record-of-the-past>")
    assert past.rstrip().endswith("[#1]")
    assert rest == BRIEF.partition("</record-of-the-past>")[2]


@pytest.mark.parametrize(
    ("lines", "cursor", "row"),
    [
        (["a", "b"], 1, 1),
        (["<record-of-the-past>", "x", "</record-of-the-past>"], 0, 0),
        (["<record-of-the-past>", "x", "</record-of-the-past>"], 2, 1),
        (["<record-of-the-past>", "</record-of-the-past>", "g"], 2, 0),
        (["t", "</record-of-the-past>"], 1, 1),
    ],
)
def test_insertion_row(lines: list[str], cursor: int, row: int) -> None:
    """The row follows the cursor inside the record, and stays in it outside."""
    assert find_insertion_row(lines, cursor) == row


async def test_tabs() -> None:
    """F3 goes round the tabs however quickly it is pressed; empty ones say so."""
    screen = app(left_out=(), warnings=())
    async with screen.run_test() as pilot:
        tabs = screen.query_one(TabbedContent)
        for _ in range(7):
            await pilot.press("f3")
        await pilot.pause()

        assert tabs.active == "left-out"
        assert [str(pane._title) for pane in tabs.query("TabPane")] == [  # type: ignore[attr-defined]
            "Entries",
            "Left out (0)",
            "Warnings (0)",
        ]


async def test_the_size_is_shown() -> None:
    """The title tells the size without the goal, and when it is over the budget."""
    screen = app(budget=114)
    async with screen.run_test() as pilot:
        title = screen.query_one("#title", Static)
        assert "Brief: 113 of 114 tokens, not counting the goal  " in str(title.content)
        screen.query_one(TextArea).move_cursor((row_of("Fix the"), 0))
        await pilot.press(*"a longer goal")
        assert "Brief: 113 of 114" in str(title.content)
        screen.query_one(TextArea).move_cursor((0, 0))
        await pilot.press(*"longer past")
        assert "Brief: 115 of 114 tokens, not counting the goal  OVER BUDGET  edited" in str(
            title.content
        )


async def test_a_large_thread_is_quick() -> None:
    """Entries of 200 kB do not hold the screen up: the rest is counted, and named."""
    long = Thread("pi", "x", "/x", entries=(Entry(1, "assistant", "word " * 40_000),))
    screen = ReviewApp("one [#1]\ntwo", long, [Item("x")] * 300)
    async with screen.run_test(size=(200, 50)) as pilot:
        await pilot.press("down", "up")
        await pilot.pause()
        assert "… 140,000 more characters: tasuki read" in cited(screen)
        await pilot.press("f3", "ctrl+s")

    assert screen.result[0] == "start"


def test_entry_without_time() -> None:
    """An entry's first line is its reference and who said it."""
    asked = (Entry(4, "assistant", "What is the password?"), Entry(5, "user", "swordfish\n"))
    knowing = QuoteRedactor(Thread("claude", "t", "/t", entries=asked))
    assert str(format_entry(Entry(5, "user", "hello\n"), QuoteRedactor())) == "#5 user\nhello"
    assert str(format_entry(asked[1], knowing)) == "#5 user\n[REDACTED:password]"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal of the test's own."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    made = Terminal(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("colour", ["COLORFGBG=15;0", "COLORFGBG=0;15", "NO_COLOR=1"])
def test_in_a_real_terminal(terminal: Terminal, tmp_path: Path, colour: str) -> None:
    """At 80x24 everything is there and in the terminal's own colours; Ctrl-S starts."""
    name, _, value = colour.partition("=")
    terminal.env[name] = value
    out = tmp_path / "out.json"
    pane = terminal.open([sys.executable, PROGRAM, str(out)], tmp_path, 80, 24)
    terminal.shows(pane, "^S start")
    screen = wait_until_settled(terminal, pane, 5.0)

    assert "Goal: Fix the login timeout" in screen.split("\n")[1]
    assert "# Handoff Context" not in screen, "the first section comes first"
    assert "Left out (2)  Warnings (2)" in screen
    coloured = terminal.run(("capture-pane", "-p", "-e", "-t", pane))
    assert not re.search(r"\x1b\[(?:[\d;]*;)?[34]8;[25]", coloured)
    terminal.keys(pane, *["Down"] * (6 - row_of("## ")))
    terminal.shows(pane, "#3 assistant")
    terminal.keys(pane, "ä", "C-s")

    action, text = msgspec.json.decode(
        retry_until(lambda: out.read_bytes() if out.exists() else b"")
    )
    assert action == "start"
    assert "ä" in text
    terminal.shows(pane, "[ended 0]")


def test_keys_that_are_typed_at_the_first_frame_are_kept(
    terminal: Terminal, tmp_path: Path
) -> None:
    """The brief is there before its screen is loaded; keys are not echoed, and reach the screen."""
    go = tmp_path / "go"
    code = (
        "import os, pathlib, sys, time\n"
        "from programs.review_here import BRIEF, THREAD\n"
        "from tasuki.cli.handoff.first_frame import format_title, show_first_frame\n"
        "with show_first_frame(BRIEF, format_title(BRIEF, THREAD, 200)):\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "    keys = os.read(0, 9)\n"
        "print('got', keys)\n"
    )
    terminal.env["PYTHONPATH"] = os.pathsep.join(sys.path)
    pane = terminal.open([sys.executable, "-c", code], tmp_path, 80, 24)
    screen = terminal.shows(pane, "^S start")
    terminal.keys(pane, "C-s", "q")

    assert screen.split("\n")[0].startswith(" Brief: ")
    assert "Goal: Fix the login timeout" in screen.split("\n")[1]
    assert "## Context" in screen.split("\n")[3]
    assert wait_until_settled(terminal, pane, 5.0) == screen
    go.touch()
    assert "got b'\\x13q'" in terminal.shows(pane, "[ended 0]")


def test_a_quoted_line_shows_the_entries_of_its_quote() -> None:
    """The entries of a quoted block stand on the line above it; every line of it shows them."""
    lines = ["- [#7]:", "> one", "> two", "- other [#9]", "plain"]

    assert [find_refs(lines, row) for row in range(5)] == [(7,), (7,), (7,), (9,), ()]


def test_an_item_never_parts_a_quoted_block() -> None:
    """What is put in below a line of a quote goes below the whole quote."""
    lines = [FENCE_OPEN, "- [#7]:", "> one", "> two", "- other [#9]", FENCE_CLOSE]

    assert [find_insertion_row(lines, row) for row in range(1, 5)] == [3, 3, 3, 4]
