"""Rows of a terminal: only harmless styles pass, and a secret is hidden whatever cuts it."""

import pytest

from tasuki.draft.redact.screen import find_row_secrets, hide_rows
from tasuki.fleet.delivery.terminals import join_rows
from tasuki.launch.tmux.terminal import (
    TerminalRow,
    parse_rows,
    render_row,
    separate_dim,
)
from tasuki.text_safety import count_columns

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def parse_row(line: str) -> TerminalRow:
    """The only row of a capture."""
    return parse_rows(line, line)[0]


def shown(coloured: str, joined: str = "", columns: int = 80) -> list[str]:
    """Rows as a browser gets them."""
    rows = parse_rows(coloured, joined or coloured)
    hidden = find_row_secrets([row.text for row in rows], join_rows(rows, columns))
    return [render_row(row, secret) for row, secret in zip(rows, hidden, strict=True)]


def plain(rows: list[str]) -> str:
    """The text of rows without their styles."""
    return "".join(part for row in rows for part in _without_styles(row))


def _without_styles(row: str) -> list[str]:
    first, *others = row.split("\x1b[")
    return [first, *(part.partition("m")[2] for part in others)]


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b]0;a title\x07", "\x1b]8;;https://example.org\x1b\\", "\x1b]52;c;YWJj\x07", "\x1b[2J", "\x1b[3;4H",
        "\x1bc", "\x1b[?1049h", "\x1bP1$r\x1b\\", "\x1b[6n", "\x1b(0", "\x1b[5m", "\x1b[99m", "\x1b[38;5;999m",
        "\x1b[38;9;1m", "\x07", "\x9b2J", "\x1b]0;no end",
    ],
)  # fmt: skip
def test_only_styles_pass(sequence: str) -> None:
    """A title, a link, the clipboard, a movement of the cursor and what is unknown are dropped."""
    (row,) = shown(f"a{sequence}")

    assert row == "a\n"


def test_styles_are_written_anew() -> None:
    """Bold, dim, italic, underlined, inverse, struck, the colours of all three kinds; and their ends."""
    (row,) = shown(
        "\x1b[1;31ma\x1b[22;4:3mb\x1b[0m c\x1b[48:2::1:2:3md\x1b[49;38;5;200me\x1b[m\x1b[97;7;9mf"
    )

    assert row == (
        "\x1b[1;31ma\x1b[m\x1b[4;31mb\x1b[m c\x1b[48;2;1;2;3md\x1b[m\x1b[38;5;200me\x1b[m"
        "\x1b[7;9;97mf\x1b[m\n"
    )


def test_a_style_goes_on_in_the_next_row() -> None:
    """tmux writes only what changes; each row here says its own."""
    assert shown("\x1b[32mone\ntwo") == ["\x1b[32mone\x1b[m\n", "\x1b[32mtwo\x1b[m\n"]


def test_lines_of_vt100_are_drawn() -> None:
    """What a program draws by letters between shift out and shift in are lines."""
    assert shown("\x0elqk\x0f q") == ["┌─┐ q\n"]


def test_tabs_are_blanks_up_to_the_next_stop() -> None:
    """A newer tmux keeps tabs; each goes to the next column that eight divides."""
    assert parse_row("ab\tc\t日本\td").text == "ab      c       日本    d"


def test_blanks_at_the_end_are_left_out_unless_they_are_seen() -> None:
    """Blanks without a ground are nothing; those of a coloured bar are."""
    assert shown("a   \x1b[31m   ") == ["a\n"]
    assert shown("a\x1b[44m  ") == ["a\x1b[44m  \x1b[m\n"]


def test_a_secret_that_colours_cut_is_hidden_and_the_width_stays() -> None:
    """Neither a change of colour nor a link within it helps; what follows stays in its column."""
    line = f"key \x1b[31m{TOKEN[:11]}\x1b[1m{TOKEN[11:20]}\x1b]8;;x\x07{TOKEN[20:]}\x1b[m | end"
    (row,) = shown(line)

    assert plain([row]) == f"key {'[REDACTED:github-token]'.ljust(40, '*')} | end\n"
    assert row.startswith("key \x1b[31m[REDACTED:g\x1b[m\x1b[1;31mithub-tok")


@pytest.mark.parametrize("over", [2, 3])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_secret_over_several_rows_is_hidden(over: int, *, wrapped: bool) -> None:
    """The terminal wraps it, or the program does at the edge; wherever, each row keeps its width."""
    columns = 40 // over
    for start in range(columns):
        text = ("x" * start)[:-1] + " " * bool(start) + TOKEN + " end"
        rows = [text[n : n + columns] for n in range(0, len(text), columns)]
        lines = shown("\n".join(rows), text if wrapped else "", columns)
        widths = [len(line.rstrip()) for line in lines]

        assert widths == [len(row.rstrip()) for row in rows]
        assert not any(TOKEN[n : n + 6] in plain(lines) for n in range(4, 34)), lines


def test_the_name_and_the_value_may_be_in_two_rows() -> None:
    """A row that reaches the edge goes on in the next, for JSON too."""
    text = 'x {"password": "hunter2hunter2"}'
    for columns in range(8, 30):
        rows = "\n".join(text[n : n + columns] for n in range(0, len(text), columns))

        assert "hunter2hunter2" not in plain(shown(rows, columns=columns)).replace("\n", "")


def test_wide_and_combining_characters_keep_their_columns() -> None:
    """A mark is as wide as what it stands for, not as long."""
    (row,) = shown('日本 password = "päßwort日本hunter22" é! 語')
    before = count_columns('日本 password = "päßwort日本hunter22" é! 語')

    assert "hunter22" not in row
    assert count_columns(row.rstrip("\n")) == before
    assert row.startswith("日本 password")


def test_a_wide_character_that_does_not_fit_wraps_too() -> None:
    """Its row has a blank at the edge, which is not in the line."""
    rows = parse_rows("abcd \n語fgh\nnext", "abcd語fgh\nnext")

    assert [row.continues for row in rows] == [True, False, False]


def test_plain_lines_are_whole_and_their_marks_are_marks() -> None:
    """The text for people without colours joins what the terminal wrapped."""
    texts = ["one " + TOKEN[:16], TOKEN[16:36], TOKEN[36:] + " two", "three"]
    ties = ["wrapped", "wrapped", "", ""]

    assert hide_rows(texts, ties, find_row_secrets(texts, ties), 0) == (
        "one [REDACTED:github-token] two\nthree"
    )


def test_a_value_that_was_found_once_is_hidden_everywhere() -> None:
    """A password after its name is also hidden where it stands alone, in another row."""
    rows = shown("password=correcthorse9battery\nit was correcthorse9battery then")

    assert "correcthorse" not in plain(rows)


def test_what_is_dim_is_blank() -> None:
    """A hint, with its first letter below the cursor that the program draws; colours and lines stay."""
    shown = "\x1b[2m──\x1b[0m\n❯ \x1b[7mr\x1b[0;2mun it\x1b[0m x\x1b[38;5;2my\x1b[39m\n❯ \x1b[7mr\x1b[0mun\x1b[7m\n\x1b[0;2m──\x1b[0m"

    assert separate_dim(shown) == ("──\n❯ run it xy\n❯ run\n──", "  \n❯        xy\n❯ run\n  ")
