"""Texts cut into what can be quoted."""

from pathlib import Path

import pytest
from fixture_threads import HARNESSES, adapter, corpus, samples, unzipped

from tasuki.draft.rank.excerpts import weigh_telling_words
from tasuki.draft.text.entries import join_entry_text
from tasuki.draft.text.pasted import OwnWords, extract_own_words
from tasuki.draft.text.split import (
    PATH,
    extract_terms,
    find_error_line,
    find_identifiers,
    find_paths,
    fold_for_comparison,
    shorten,
    split_sentences,
    strip_emphasis,
)


def test_sentences_stand_in_the_text_to_the_letter() -> None:
    """List marks and emphasis go, code blocks and tables are left out, the rest is verbatim."""
    text = (
        "**Cause:** the `Foo.bar` cache is never cleared, e.g. on logout. It leaks 3 MB per call.\n\n"
        "```py\nthis is code. Not a sentence.\n```\n| a | b |\n|---|---|\n"
        "1. First do x_y\n- [ ] then do z over\n  two lines\n"
    )

    assert list(split_sentences(text)) == [
        "Cause: the `Foo.bar` cache is never cleared, e.g. on logout.",
        "It leaks 3 MB per call.",
        "First do x_y",
        "then do z over two lines",
    ]


def test_emphasis_marks_go_but_operators_stay() -> None:
    """`2 ** n`, `**kwargs` and dunder names are not emphasis."""
    text = "wait 2 ** attempt seconds, pass **kwargs to __init__ and **really** mean it"

    assert list(split_sentences(text)) == [
        "wait 2 ** attempt seconds, pass **kwargs to __init__ and really mean it"
    ]


def test_patterns_of_paths_are_no_emphasis() -> None:
    """The `**` of two patterns on one line enclose nothing that is bold."""
    for text in (
        "let `packages/**/examples` and `packages/**/storybook` share it",
        "`**/*.ts` and `**/*.js` are left out",
        "run `src/**` and `lib/**`",
    ):
        assert strip_emphasis(text) == text
    assert strip_emphasis("**all** of `src/**/a`, and **src/**") == "all of `src/**/a`, and src/"


def test_comparable_texts_ignore_white_space_emphasis_and_quote_marks() -> None:
    """Two ways of printing one sentence compare equal."""
    assert fold_for_comparison('"keep  the\n**old** API"') == fold_for_comparison(
        "keep the old API"
    )


def test_a_shortened_text_never_keeps_half_a_word() -> None:
    """A cut falls between words, so that half a secret cannot survive it."""
    token = "x" * 200

    assert shorten(f"use {token} now", 100) == "use …"
    assert shorten("one two three four five", 14) == "one two …"
    assert shorten("short", 100) == "short"


@pytest.mark.parametrize(
    "message",
    [
        "one more thing:\n\nThe exporter keeps the old names.\n\nNothing else changes.",
        "look at this:\n\n```\nboom at line 3\n```\nkeep the lock",
        "pytest -q tests/test_tabs.py",
        "these three:\n- rename the flag\n- $HOME stays\n    even in the tests;",
        "    not a word for people or of them; {", "1. error: x\n2. at home(1)",
    ],
)  # fmt: skip
def test_a_short_message_is_whole_whatever_it_looks_like(message: str) -> None:
    """Colons, code, commands and lists say nothing about who wrote it."""
    assert extract_own_words(message) == OwnWords(message.strip())


def test_the_ends_of_a_long_paste_stay_with_a_mark_between_them() -> None:
    """What is around it is whole, and so is the last message."""
    log = "\n".join(
        f"2026-11-01 10:00:{n:02} INFO the worker started with {n} jobs" for n in range(20)
    )
    prose = "The queue stops over night, always after the same job of the exporter.\n\nKeep it slow"
    own = extract_own_words(f"{prose}:\n\n{log}\n\nNobody restarts it")

    assert [line for line in own.text.split("\n") if line] == [
        "The queue stops over night, always after the same job of the exporter.", "Keep it slow:",
        "2026-11-01 10:00:00 INFO the worker started with 0 jobs [… 18 pasted lines are left out …] "
        "2026-11-01 10:00:19 INFO the worker started with 19 jobs", "Nobody restarts it",
    ]  # fmt: skip
    assert len(own.left_out) == 18
    assert extract_own_words(log, is_last=True) == OwnWords(log, is_pasted=True)


def test_the_error_line_is_the_plain_reason() -> None:
    """The first line that names an error wins over summaries and frames."""
    assert find_error_line("collected 3\nE   ValueError: bad token\n1 failed in 0.2s") == (
        "E ValueError: bad token"
    )
    assert find_error_line(
        "a.ts(3,4): error TS2339: Property 'x' does not exist\nnpm ERR! code 2"
    ) == ("a.ts(3,4): error TS2339: Property 'x' does not exist")
    assert find_error_line("Exit code 1\nnothing matched") == "nothing matched"
    coverage = (
        "Name   Stmts   Miss  Cover   Missing\nsrc/a.py  9 0 100%\nE   AssertionError: 158 < 60"
    )
    assert find_error_line(coverage) == "E AssertionError: 158 < 60"
    assert find_error_line("") == ""


def test_identifiers_are_found() -> None:
    """Names with case, dots, underscores or dashes."""
    assert "SessionStore.flush" in find_identifiers(
        "fix SessionStore.flush, then --dry-run of max_size"
    )
    assert "dry-run" in find_identifiers("fix SessionStore.flush, then --dry-run of max_size")


def test_terms_weigh_identifiers_over_words_and_skip_filler() -> None:
    """What a goal is about: names first, plain words after, nothing of the filler."""
    found = extract_terms("please make the uploadClient retry")

    assert found["uploadclient"] == 3.0
    assert found["retry"] == 1.0
    assert "please" not in found


def test_a_bold_heading_closes_a_paragraph() -> None:
    """A line that is bold as a whole is a sentence of its own, bold words in a line are not."""
    text = "The cache leaks\n**Root cause:**\nthe lock is **never** freed\n- **Open points**\nthe port is free"

    assert list(split_sentences(text)) == [
        "The cache leaks", "Root cause:", "the lock is never freed", "Open points", "the port is free",
    ]  # fmt: skip


def test_a_hint_is_not_the_reason_of_a_failure() -> None:
    """What git hints at, and what a harness cancelled, is passed over for the line that says why."""
    output = (
        "hint: error: you may want to pull\nCancelled: error: parallel call\nfatal: no upstream"
    )

    assert find_error_line(output) == "fatal: no upstream"


@pytest.mark.parametrize("name", HARNESSES)
def test_a_shorter_look_finds_the_same(name: str, tmp_path: Path) -> None:
    """Paths are found in likely words as in the whole text, and telling words in its tokens, in their order."""
    for path in (*samples(name), *(unzipped(p, tmp_path) for p in corpus(name))):
        for entry in adapter(name).read(path).entries:
            text = join_entry_text(entry)[:6_000].replace(
                "\\", " "
            )  # Of an escape it sees the letter.
            assert find_paths(text) == list(dict.fromkeys(PATH.findall(text)))
            if text.isascii():  # The umlaut makes it another look, and is no word of its own.
                assert list(weigh_telling_words(text).items()) == list(weigh_telling_words(f"{text} ü").items())  # fmt: skip


def test_an_escaped_text_gives_no_torn_paths() -> None:
    """What JSON writes for a line end or a bracket belongs to no path; a drive of Windows is left alone."""
    text = r'"diff --git\nsrc/task/mod.rs\tdocs/a.md \u003esrc/b.rs" C:\new\tests/x.py'

    assert find_paths(text)[:3] == ["src/task/mod.rs", "docs/a.md", "src/b.rs"]
    assert "ests/x.py" not in find_paths(text)


def test_a_number_goes_with_its_mark() -> None:
    """`No.` before a figure ends no sentence; an answer does."""
    whole = "Kos Putri, Malioboro No. 47, yields 9.2%."
    assert list(split_sentences(whole)) == [whole]
    assert list(split_sentences("It is not. No. Remove the flag."))[-1] == "Remove the flag."
