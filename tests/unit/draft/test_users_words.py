"""What counts as written by the user: their whole sentences, and no part with its negation left out."""

from pathlib import Path

import pytest
from fixture_threads import HARNESSES, adapter, corpus, samples, unzipped

from tasuki.draft.checks.lookup import ThreadLookup
from tasuki.draft.facts import statements
from tasuki.draft.text.entries import TextClaim
from tasuki.harness.registry import detect_harness
from tasuki.testing import ThreadBuilder


def standing(folder: Path, *messages: str) -> ThreadLookup:
    """A thread in which the user wrote some messages, ready to be asked."""
    builder = ThreadBuilder("claude")
    for message in messages:
        builder.user(message).assistant("Understood.")
    path = builder.write(folder / builder.file_name())
    return ThreadLookup(detect_harness(path).read(path))


@pytest.mark.parametrize("name", HARNESSES)
def test_every_sentence_of_the_user_is_the_users(name: str, tmp_path: Path) -> None:
    """Of every real thread each sentence that is taken from the user passes as theirs."""
    lost = []
    for path in (*samples(name), *(unzipped(p, tmp_path) for p in corpus(name))):
        thread = adapter(name).read(path)
        asked = ThreadLookup(thread)
        said = statements.extract_user_statements(thread.entries)
        lost += [
            (path.name, s.ref, s.text)
            for s in said
            if not (s.is_chosen or asked.is_user_quote(s.text))
        ]

    assert lost == []


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("how do hashes work for a line like ` }` in several files?", "how do hashes work for a line like ` }` in several files?"),
        ("it lists > * main twice", "it lists > * main twice"),
        ("remote: object not found\nexit status 1, can you resume", "exit status 1, can you resume"),
        ("The file is not there.\nUse port 81 instead", "Use port 81 instead"),
        ("Why not. Use port 81 then", "Use port 81 then"),
        ("no\nuse port 81", "use port 81"),
        ("we must never ever use port 80", "we must never … use port 80"),
        ("- never port 80\n- use port 81", "use port 81"),
        ("> use `port 81`,\n> please", "use port 81"),
    ],
)  # fmt: skip
def test_a_sentence_stands_whatever_precedes_it(message: str, words: str, tmp_path: Path) -> None:
    """Marks inside of it, and a negation in the line or sentence before, take nothing from the user."""
    asked = standing(tmp_path, message)
    assert asked.is_user_quote(words)
    assert asked.is_user_quote(words, tuple(asked.entries))


@pytest.mark.parametrize("name", HARNESSES)
def test_a_cited_message_decides_as_all_messages_do(name: str, tmp_path: Path) -> None:
    """Whether a message is cited changes nothing, for every end of every sentence of real threads."""
    for path in (*samples(name), *(unzipped(p, tmp_path) for p in corpus(name))):
        thread = adapter(name).read(path)
        asked = ThreadLookup(thread)
        for said in statements.extract_user_statements(thread.entries):
            words = said.text.split(" ")
            for start in range(min(len(words), 12)):
                end = " ".join(words[start:])
                assert asked.is_user_quote(end, (said.ref,)) == asked.is_user_quote(end), end


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("please don't use port 80 here", "use port 80 here"),
        ("you mustn't use port 80", "use port 80"),
        ("we can't use port 80", "use port 80"),
        ("never ever use port 80", "use port 80"),
        ("and please do not\nuse port 80 in the tests", "use port 80 in the tests"),
        ("run it without\nthe cache of the server", "the cache of the server"),
        ("never **use port 80**", "use port 80"),
        ("bitte nicht Port 80 nehmen", "Port 80 nehmen"),
        ("we should not use port 80 on the gateway", "we should … use port 80 on the gateway"),
    ],
)
def test_a_part_without_its_negation_is_not_the_users(
    message: str, words: str, tmp_path: Path
) -> None:
    """What the user forbade is not quoted as if they had asked for it."""
    asked = standing(tmp_path, message)
    assert not asked.is_user_quote(words)
    assert not asked.is_user_quote(words, tuple(asked.entries))


def test_what_stands_once_without_a_negation_was_said(tmp_path: Path) -> None:
    """Words that the user wrote again, without the negation, are theirs."""
    asked = standing(tmp_path, "do not use port 80", "ok, use port 80 after all")

    assert asked.is_user_quote("use port 80")


def test_a_quote_with_a_bare_mark_is_found_and_so_are_its_entries(tmp_path: Path) -> None:
    """A mark between two blanks is looked for in the same way wherever a quote is looked up."""
    asked = standing(tmp_path, "edges such as a * -> sleep are wrong")

    assert asked.find_quoting_entries("edges such as a -> sleep are wrong", ()) == (1,)
    assert asked.has_claim(TextClaim("quote", "edges such as a * -> sleep are wrong"), ())
