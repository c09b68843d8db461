"""What counts as written by the user: their whole sentences, and no part with its negation left out."""

import os
import re
from pathlib import Path

import pytest
from fixture_threads import HARNESSES, adapter, corpus, samples, unzipped
from raw_words import READERS, claude_queue, fold, sentences_of

from tasuki.draft.claims.lookup import ThreadLookup
from tasuki.draft.facts import statements
from tasuki.draft.facts.rules import list_rules
from tasuki.draft.text.entries import TextClaim
from tasuki.draft.text.pasted import extract_own_words
from tasuki.harness.registry import detect_harness
from tasuki_testing import ThreadBuilder


def standing(folder: Path, *messages: str) -> ThreadLookup:
    """A thread in which the user wrote some messages, ready to be asked."""
    builder = ThreadBuilder("claude")
    for message in messages:
        builder.user(message).assistant("Understood.")
    path = builder.write(folder / builder.file_name())
    return ThreadLookup(detect_harness(path).read(path))


CORPORA = [
    p for p in Path(os.environ.get("TASUKI_CORPORA") or os.devnull).rglob("*") if p.is_file()
]
"""Further real threads, in a folder that the variable names."""
MARK = re.compile(r"\[… \d+ pasted lines are left out …\]|\[image\]")


def trials() -> list[Path]:
    """The captured threads of all formats that are text, and those of the corpora."""
    names = (name for name in HARNESSES if name != "opencode")
    return [*(path for name in names for path in samples(name)), *CORPORA]


@pytest.mark.parametrize("path", trials(), ids=lambda path: path.name)
def test_no_words_of_the_user_are_lost_and_none_of_others_are_theirs(path: Path) -> None:
    """Each sentence in a file is asked for, or its loss has a reason; what is asked for is in the file."""
    thread = detect_harness(path).read(path)
    left_out: list[statements.LeftOut] = []
    stated = statements.extract_user_statements(thread.entries, {}, left_out)
    others = {e.ref: e.text for e in thread.entries if e.origin in ("plan", "handoff")}
    answers = {e.ref for e in thread.entries if e.origin == "answer"}
    asked = fold(" ".join(f"{s.number} {s.text}" for s in stated))
    told = fold(
        " ".join(
            (*(n.text for n in thread.notices), *(one.text for one in left_out), *others.values())
        )
    )
    sources = [Path(source) for source in thread.sources]
    raw = [text for source in sources for text in READERS[thread.harness](source)]
    lost = [s for text in raw for s in sentences_of(text) if s not in asked and s not in told]
    whole = fold(" ".join((*raw, *claude_queue(path))).replace("[image]", ""))
    own = (s for s in stated if s.ref not in answers and s.ref not in others)
    foreign = [s for s in own if any(fold(piece) not in whole for piece in MARK.split(s.text))]

    assert (lost, foreign) == ([], [])
    assert all(one.reason for one in left_out)


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


def test_a_message_without_the_middle_of_its_paste_is_the_users(tmp_path: Path) -> None:
    """However much is left out between the parts."""
    pasted = "\n".join(f"    at step{n} (src/cart.ts:{n}:7)" for n in range(300))
    asked = standing(tmp_path, f"It breaks when I pay:\n{pasted}\nMend it at once.", "And now?")
    said = extract_own_words(asked.thread.entries[0].text).text

    assert "298 pasted lines are left out" in said
    assert asked.is_user_quote(said)
    assert not asked.is_user_quote(f"{said} and use port 80")


REPLY = "\n\n".join(
    f"{n}. **Step {n}** — move the `cart` table behind the service, so that your code stays small."
    for n in range(1, 9)
)
"""What an agent writes: long, with bold points and dashes."""
SESSION = "\n".join(
    f"⏺ Bash(git show HEAD~{n})\n  ⎿  cart.ts must not be committed, only {n} files"
    for n in range(12)
)
ORDERS = "\n".join(
    f"{n}. **Rule {n}**: the `cart` table must never be read by the shop itself, only by the service"
    for n in range(1, 9)
)
"""What some users type, too."""


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (f"fix only the upload, it still breaks: Looking at your code, I see it.\n\n{REPLY}\n\nWould you like me to apply it?", "fix only the upload, it still breaks: […]"),
        (f"my other agent had this to say. does it change anything?\n\nYou're right.\n{REPLY}", "my other agent had this to say. does it change anything? […]"),
        (f"what do you think of this? change nothing yet:\n\nKeep the cache\n{REPLY}", "what do you think of this? change nothing yet: […]"),
        (f"Left of the summary\n{SESSION}\nContinue this please", "[…] Continue this please"),
        (f"here is the documentation:\n{REPLY}\ncan you make the url a variable? thanks", "here is the documentation: […] can you make the url a variable? thanks"),
        (f"implement this plan:\n\n{ORDERS}", ""),
        (f"The shop must be split.\n\n{ORDERS}\n\nLet me know if you have questions", ""),
        (f"## Task\n\n{ORDERS}\n\nWhat do you think of the last rule?", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_last", [True, False])
def test_words_of_others_in_a_message_are_not_the_users(
    message: str, words: str, is_last: bool
) -> None:
    """What was typed around them stays, all lines of them are reported, and long orders are whole."""
    own = extract_own_words(message, is_last=is_last)
    told = fold(" ".join((own.text, *own.left_out)))

    assert fold(MARK.sub("[…]", own.text)) == fold(words or message)
    assert [s for s in sentences_of(message) if s not in told] == []


@pytest.mark.parametrize(
    "message",
    [
        f"Looking at your logs, I notice a slash too much.\n\n{REPLY}\n\nLet me know if you'd like me to go on.",
        "~/shop (main)\n➜  shop git:(main) npx tsx src/cli.ts\nnode:fs:443\n    at readFileSync (node:fs:443:20)\n    at async main (src/cli.ts:3:1)\nError: ENOENT, open 'x'\nNode.js v23.4.0",
        "Failed to compile\n./cart.tsx\n  × Expected a semicolon\n   ╭─[cart.tsx:2:1]\n 2 │ }\n 3 │ return (\n   ╰────",
    ],
)
def test_a_message_that_is_only_pasted_makes_no_rule(message: str, tmp_path: Path) -> None:
    """It is quoted as pasted, and after what was typed."""
    thread = standing(tmp_path, message, "ok, and the tests must stay").thread
    stated = statements.extract_user_statements(thread.entries)

    assert [s.is_pasted for s in stated if s.ref == 1] == [True] * sum(s.ref == 1 for s in stated)
    assert [r.text for r in list_rules(thread, stated)] == ["ok, and the tests must stay"]
