"""Lists in a narrow terminal: nothing is broken in the middle of a word, wide characters neither."""

import sys
from pathlib import Path

import pytest
from command_line import World, chain
from terminals import Terminal

from tasuki.text_safety import count_columns, cut_line, format_row, wrap_text
from tasuki_testing import ThreadBuilder

WIDE = "アップロードの再試行回数を設定可能にしてテストを追加してください"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("make the retries configurable", 20, "make the retries…"),
        ("make the retries configurable", 29, "make the retries configurable"),
        ("make the retries configurable", 28, "make the retries…"),
        ("00000000-0000-7000-8000", 10, "00000000-…"),
        ("再試行回数を設定", 9, "再試行回…"),
        ("再試行回数を設定", 10, "再試行回…"),
        ("再試行回数を設定", 16, "再試行回数を設定"),
        ("retry 再試行回数", 11, "retry 再試…"),
    ],
)
def test_a_line_is_cut_between_words(text: str, width: int, expected: str) -> None:
    """A wide character takes two columns; a word that fills the line is cut itself."""
    cut = cut_line(text, width)

    assert cut == expected
    assert count_columns(cut) <= width


@pytest.mark.parametrize("width", [1, 0, -7])
def test_a_line_without_room_is_a_sign(width: int) -> None:
    """Deep in a tree that forks, the lines before a goal may fill the terminal."""
    assert cut_line("make the retries configurable", width) == "…"
    assert cut_line("再試行回数", width) == "…"


def test_a_text_is_wrapped_by_columns() -> None:
    """Blanks and wide characters are places to break; a path stays whole."""
    assert wrap_text("one two three", 8, "- ", "  ") == ["- one", "  two", "  three"]
    assert wrap_text("再試行回数を設定", 8) == ["再試行回", "数を設定"]
    assert wrap_text("see /a/very/long/path here", 10) == ["see", "/a/very/long/path", "here"]
    assert wrap_text("", 10) == []


def test_a_row_without_room_takes_several_lines() -> None:
    """The words are below, and so are cells that do not fit."""
    cells = ("3fa9c1d2", "12m", "started     ", "claude → codex")

    assert format_row(cells, "fix it", 80) == "3fa9c1d2  12m  started       claude → codex  fix it"
    assert format_row(cells, "fix the login timeout in the client", 50).splitlines() == [
        "3fa9c1d2  12m  started       claude → codex",
        "    fix the login timeout in the client",
    ]
    assert format_row(cells, "fix the login timeout in the client", 30, "│ ").splitlines() == [
        "3fa9c1d2  12m  started  claude",
        "│     → codex",
        "│     fix the login timeout…",
    ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A project with threads and handoffs, some in Japanese."""
    made = World(tmp_path)
    chain(made)
    builder = ThreadBuilder("claude", cwd=str(made.project), seed=5)
    made.thread(builder.user(WIDE).assistant(WIDE))
    made.run("handoff", "--json", WIDE)
    return made


@pytest.mark.parametrize(
    "command", [(), ("threads",), ("handoffs",), ("handoffs", "find", "retry"), ("lineage",), ("doctor",)]
)  # fmt: skip
def test_lists_fit_forty_columns(world: World, command: tuple[str, ...]) -> None:
    """No line is wider, but for a path that is one word."""
    lines = world.run(*command, COLUMNS="40").stdout.splitlines()

    assert lines
    assert [line for line in lines if count_columns(line) > 40 and "/" not in line] == []


def test_a_search_fits_forty_columns(world: World) -> None:
    """In a terminal; elsewhere lines are whole."""
    terminal = Terminal(world.home, world.env)
    try:
        pane = terminal.open([sys.executable, "-m", "tasuki", "find", "再試行回数"], world.project, 40, 40)  # fmt: skip
        terminal.shows(pane, "[ended 0]")
        screen = terminal.run(("capture-pane", "-p", "-t", pane))
    finally:
        terminal.end()

    assert "        アップロードの再試行回数を設定…" in screen
