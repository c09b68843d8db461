"""Messages cut into blocks: what is one block, what it stands below, and what is left of its marks."""

import pytest

from tasuki.draft.rank.blocks import LONG_CODE, LONG_ITEM, MessageBlock, split_blocks
from tasuki.draft.text.split import MAX_LINE


def cut(text: str) -> list[tuple[str, str]]:
    """Kind and text of the blocks of a message."""
    return [(block.kind, block.text) for block in split_blocks(text, 7)]


def headings(text: str) -> list[str]:
    """What each block stands below."""
    return [block.heading for block in split_blocks(text, 7)]


def test_a_message_is_cut_into_paragraphs_items_tables_and_code() -> None:
    """Each keeps its own characters and lines; places count from 0."""
    text = (
        "I found it.\nThe cache leaks.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        "```py\nx = 1\n\ny = 2\n```\nDone."
    )

    assert split_blocks(text, 7) == [
        MessageBlock("I found it.\nThe cache leaks.", 7, 0, "paragraph"),
        MessageBlock("- one", 7, 1, "item"),
        MessageBlock("- two", 7, 2, "item"),
        MessageBlock("| a | b |\n| 1 | 2 |", 7, 3, "table"),
        MessageBlock("```py\nx = 1\n\ny = 2\n```", 7, 4, "code"),
        MessageBlock("Done.", 7, 5, "paragraph"),
    ]


@pytest.mark.parametrize("text", ["", "\n \n\t\n", "---\n***\n= = =", "|---|---|"])
def test_a_message_without_a_word_of_its_own_has_no_block(text: str) -> None:
    """Blank lines and rules are not quoted."""
    assert split_blocks(text, 7) == []


# -- headings and introductions --------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# Root cause", "Root cause"), ("###### Deep", "Deep"), ("## Closed ##", "Closed"), ("## In C#", "In C#"),
        ("   ## The **bold** `one`  ", "The bold `one`"), ("**Root cause:**", "Root cause"), ("  **Plan**:", "Plan"),
    ],
)  # fmt: skip
def test_a_heading_is_kept_above_all_that_follows_it(line: str, heading: str) -> None:
    """Headings and wholly bold lines are no blocks; every block below has them until the next one."""
    text = f"Before.\n{line}\nA paragraph.\n\n- an item\n\n```\ncode\n```\n## Next\nAfter."

    assert headings(text) == ["", heading, heading, heading, "Next"]
    assert not any(heading in block.text for block in split_blocks(text, 7))


@pytest.mark.parametrize(
    "line", ["#hashtag", "####### seven", "**bold** and more", "**", "#", "## "]
)
def test_what_only_looks_like_a_heading_stays_text(line: str) -> None:
    """A tag, seven marks, a line that is bold in part, and marks with nothing behind them."""
    assert set(headings(f"{line}\n\nA paragraph.")) == {""}


def test_a_table_without_outer_bars_is_one_block() -> None:
    """Its rows are never quoted without its head."""
    table = "name | ms\n--- | ---\ncart | 12\ntax | 3"

    assert [table] == [block.text for block in split_blocks(table, 1)]


def test_a_heading_that_nothing_follows_is_a_paragraph() -> None:
    """A bold last line, and a title right above another heading, are not lost."""
    assert cut("Done.\n\n**All 14 tests pass.**") == [
        ("paragraph", "Done."),
        ("paragraph", "All 14 tests pass."),
    ]
    found = split_blocks("# Plan\n## First\nDo it.\n\n**Ready**:\n---", 7)
    assert [(b.text, b.heading, b.place) for b in found] == [
        ("Plan", "", 0),
        ("Do it.", "First", 1),
        ("Ready", "", 2),
    ]


@pytest.mark.parametrize("colon", [":", "："])
def test_an_introduction_is_the_lead_of_what_follows_it(colon: str) -> None:
    """List, table and code behind a paragraph that ends in a colon know it; the next paragraph ends that, and knows it itself where its first word points back."""
    text = f"Three things{colon}\n\n- one\n- two\n\n```\nx\n```\nThat is all.\n\n- four"

    assert [(b.kind, b.lead) for b in split_blocks(text, 7)] == [
        ("paragraph", -1), ("item", 0), ("item", 0), ("code", 0), ("paragraph", 0), ("item", -1),
    ]  # fmt: skip


def test_a_heading_ends_an_introduction() -> None:
    """A list below another heading is not what the paragraph above it introduces."""
    assert [b.lead for b in split_blocks("Three things:\n# Else\n- one", 7)] == [-1, -1]


# -- lists -----------------------------------------------------------------------------


def test_a_short_item_keeps_all_that_is_below_it() -> None:
    """Items, paragraphs behind a blank line and code that are indented below an item belong to it."""
    text = "- one\n  - deep\n    - deeper\n  more\n\n  a paragraph\n  ```\n  - code\n  ```\n- two"

    assert cut(text) == [
        ("item", "- one\n  - deep\n    - deeper\n  more\n  a paragraph\n  ```\n  - code\n  ```"),
        ("item", "- two"),
    ]


def test_a_long_item_is_cut_into_those_below_it() -> None:
    """The head and each item below it are blocks, but a line of code that looks like one is not."""
    long = "x" * (LONG_ITEM // 2)
    text = f"1. head {long}\n   - one {long}\n   - two\n     ```\n     - code\n     ```\n2. next"

    assert cut(text) == [
        ("item", f"1. head {long}"),
        ("item", f"- one {long}"),
        ("item", "- two\n  ```\n  - code\n  ```"),
        ("item", "2. next"),
    ]


@pytest.mark.parametrize("mark", ["-", "*", "+", "•", "1.", "12)", "999."])
def test_lists_of_all_kinds_are_told_from_paragraphs(mark: str) -> None:
    """A mark and a blank begin an item, also right behind a paragraph; a mark alone does not."""
    assert [kind for kind, _ in cut(f"Text\n{mark} one\n{mark} two")] == [
        "paragraph",
        "item",
        "item",
    ]
    assert [kind for kind, _ in cut(f"Text\n{mark}one")] == ["paragraph"]


def test_a_line_below_an_item_that_goes_on_with_it_belongs_to_it() -> None:
    """An item may be wrapped without indentation; a blank line ends it."""
    assert cut("- one\ngoes on\n\nA paragraph.") == [
        ("item", "- one\ngoes on"),
        ("paragraph", "A paragraph."),
    ]


# -- tables and code -------------------------------------------------------------------


def test_tables_lose_their_rules_padding_and_emphasis() -> None:
    """A row is one line with single blanks; an empty cell stays."""
    text = "| **Name**   |  Size |\n|:---|---:|\n"
    row = "|   a        |       |"

    assert cut(text + row) == [("table", "| Name | Size |\n| a | |")]


def test_code_keeps_its_blanks_and_stars() -> None:
    """Nothing inside of a fence is taken for emphasis, a heading, a list or a rule."""
    code = "```sh\n# not a heading\n- not   an item\n**kwargs\n---\n    deep\n```"

    assert cut(code) == [("code", code)]


def test_a_fence_that_is_never_closed_takes_the_rest() -> None:
    """The rest of the message is code; another kind of fence does not close it."""
    assert cut("```\na\n~~~\n# b") == [("code", "```\na\n~~~\n# b")]


def test_long_code_and_tables_are_cut_in_the_middle() -> None:
    """First and last lines stay, `[…]` stands for those between them, and no more lines than allowed."""
    code = "\n".join(["```", *(f"line {n}" for n in range(50)), "```"])
    table = "\n".join(f"| {n} |" for n in range(50))
    ((_, told),) = cut(code)
    ((_, rows),) = cut(table)

    assert len(told.split("\n")) == len(rows.split("\n")) == LONG_CODE
    assert told.split("\n")[:2] == ["```", "line 0"]
    assert told.split("\n")[-2:] == ["line 49", "```"]
    assert told.count("[…]") == rows.count("[…]") == 1
    assert (rows.split("\n")[0], rows.split("\n")[-1]) == ("| 0 |", "| 49 |")
    exact = "\n".join(f"| {n} |" for n in range(LONG_CODE))
    assert cut(exact) == [("table", exact)]


# -- characters ------------------------------------------------------------------------


def test_emphasis_goes_and_everything_else_stays() -> None:
    """`**bold**` loses its marks; code, operators, single stars and names with underscores do not."""
    text = "The **real** cause: `a ** b`, 2 ** n, *one* and __init__ of **kwargs"

    assert cut(text) == [
        ("paragraph", "The real cause: `a ** b`, 2 ** n, *one* and __init__ of **kwargs")
    ]


def test_a_line_without_end_is_cut() -> None:
    """No line of a block is longer than what a person could have written."""
    for text in ("x" * 9_000, f"- {'x' * 9_000}", f"```\n{'x' * 9_000}\n```", f"| {'x' * 9_000} |", f"# {'x' * 9_000}\ny"):  # fmt: skip
        (block,) = split_blocks(text, 7)
        assert max(map(len, (*block.text.split("\n"), block.heading))) == MAX_LINE


def test_nothing_that_was_said_is_lost() -> None:
    """Every word of a message stands in a block or in the heading of one."""
    text = (
        "# One\nalpha\n- beta\n  - gamma\n\n    delta\n\n**Two:**\n\n1. epsilon\n\n   zeta\n\neta\n> theta\n"
        "| iota | kappa |\n~~~\nlambda\n~~~\n## Three\nmu"
    )
    held = " ".join(f"{b.heading} {b.text}" for b in split_blocks(text, 7))

    assert [w for w in text.split() if w.isalpha() and w not in held] == []


def test_the_tags_that_models_put_around_their_thoughts_are_left_out() -> None:
    """A line that is nothing but such a tag; what stands inside stays."""
    assert cut("<proposed_plan>\n\nOne file.\n</proposed_plan>") == [("paragraph", "One file.")]
    assert cut("<thinking>\nIt is the cache.\n</thinking>\n\nUse <thinking> for it.") == [
        ("paragraph", "It is the cache."),
        ("paragraph", "Use <thinking> for it."),
    ]


@pytest.mark.parametrize("colon", ["**Why:**", "**Why**:"])
def test_a_bold_line_with_a_colon_heads_only_what_stands_right_below_it(colon: str) -> None:
    """It introduces that; a bold line without one heads all that follows."""
    after = "- one\n- two\n\nSomething else.\n\n- three"

    assert headings(f"{colon}\n\n{after}") == ["Why", "Why", "", ""]
    assert headings(f"**Why**\n\n{after}") == ["Why"] * 4


def test_a_block_knows_whether_its_heading_stands_right_above_it() -> None:
    """A heading before another block of its section would head the wrong thing."""
    blocks = split_blocks("zero\n## Cause\nalpha\n\nbeta\n## Fix\ngamma", 1)

    assert [b.begins for b in blocks] == [True, True, False, True]


@pytest.mark.parametrize("heading", ["## Use std::", "## 原因：", "## Plan:"])
def test_a_heading_keeps_its_own_signs(heading: str) -> None:
    """Only the colon behind a bold line is taken for one that leads on."""
    assert headings(f"{heading}\n\ntext") == [heading.removeprefix("## ")]
