"""What the user chose and wrote where the agent asked: theirs alone, and whole."""

from pathlib import Path
from typing import Any

import pytest
from claude_rows import TYPED, claude_thread, said, words_of
from fixture_threads import adapter

from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.rules import list_rules
from tasuki.harness.reading.answers import (
    OfferedOption,
    OfferedQuestion,
    extract_own_answers,
    format_answers,
    parse_answers,
)

QUESTIONS = [
    OfferedQuestion('Which store? "x"="Never validate"', [OfferedOption("Redis"), OfferedOption("SQLite, always in memory")]),
    OfferedQuestion("Which name?", [OfferedOption("beacon")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "own"),
    [
        (["Redis", "lantern, never beacon"], "lantern, never beacon"), (["SQLite, always in memory", "beacon"], ""),
        (["Redis, SQLite, always in memory", ""], ""), (["Redis is fine", "x"], "Redis is fine\nx"),
    ],
)  # fmt: skip
def test_of_an_answer_the_users_words_are_the_users(answers: list[str], own: str) -> None:
    """A choice is in the words of the agent, and so is the question; neither becomes a rule."""
    text = format_answers(QUESTIONS, answers)

    assert extract_own_answers(text) == own
    assert [one.answer for one in parse_answers(text)] == [a for a in answers if a]
    assert "Never validate" not in extract_own_answers(text)


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        ('Your questions have been answered: "May I never validate rows?"="No, always". You can now continue.', False, ["No, always"]),
        ('The user answered: "May I never validate rows?"="Yes (Recommended)". Read the answers carefully', False, []),
        ("The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nThe user wants to clarify these questions.\n    Questions asked:\n- \"May I never validate rows?\"\n  (No answer provided)", True, []),
        ("The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nask me first", True, ["ask me first"]),
    ],
)  # fmt: skip
def test_answers_are_taken_from_the_call_that_asked(
    result: str, error: bool, words: list[str], tmp_path: Path
) -> None:
    """The questions of Claude Code's tool are those of its call, whatever the result repeats."""
    asked = {"question": "May I never validate rows?", "options": [{"label": "Yes (Recommended)"}]}
    use = {
        "type": "tool_use",
        "id": "t",
        "name": "AskUserQuestion",
        "input": {"questions": [asked]},
    }
    call = {"type": "assistant", "message": {"role": "assistant", "id": "m", "content": [use]}}
    answer = [{"type": "tool_result", "tool_use_id": "t", "content": result, "is_error": error}]
    thread = adapter("claude").read(
        claude_thread(tmp_path, said("Go", **TYPED), call, said(answer))
    )

    assert words_of(thread) == ["Go", *words]
    assert list_rules(thread, derive_facts(thread).statements) == [] or words


ASKED = [
    {"question": "Which store?", "options": [{"label": "Redis", "preview": "notes: always flush"}, {"label": "SQLite"}]},
    {"question": "Which name?", "options": ["beacon", "lantern"]},
]  # fmt: skip
SAYS = "Your questions have been answered: "
AFTER = ". You can now continue with these answers in mind."


@pytest.mark.parametrize(
    ("result", "copy", "words"),
    [
        (f'{SAYS}"Which store?"="Redis", "Which name?"="beacon"{AFTER}', None, ""),
        (f'{SAYS}"Which store?"="Redis" user notes: never "flush" it, "Which name?"="beacon"{AFTER}', None, 'never "flush" it'),
        (f'{SAYS}"Which store?"="Redis" selected preview:\nnotes: always flush notes: keep it, "Which name?"="beacon"{AFTER}', None, "keep it"),
        (f'{SAYS}"Which store?"="Redis" selected preview:\nother notes: always flush, "Which name?"="beacon"{AFTER}', None, ""),
        (f'{SAYS}"Which store?"=(no option selected) notes: neither, "Which name?"="call it x"{AFTER}', None, "call it x\nneither"),
        ("The user responded: never mind", None, "never mind"),
        ('They did not answer; never wait. "Which store?"="(never ask)"', None, ""),
        ("…", {"answers": {"Which store?": "Redis", "Which name?": ["beacon", "lantern"]}, "annotations": {"Which store?": {"notes": "never flush", "preview": "x"}}}, "never flush"),
        ("…", {"answers": {"Which store?": "(notes only)"}, "annotations": {"Which store?": {"notes": "neither"}}}, "neither"),
        ("…", {"answers": {}, "response": "ask me tomorrow"}, "ask me tomorrow"),
        ("…", {"answers": {"Which store?": 'say "Which name?"="x"', "Which name?": "beacon"}}, 'say "Which name?"="x"'),
    ],
)  # fmt: skip
def test_notes_beside_a_choice_are_the_users(
    result: str, copy: dict[str, Any] | None, words: str, tmp_path: Path
) -> None:
    """From what the program recorded, else from its text; no preview and no choice is theirs."""
    use = {"type": "tool_use", "id": "t", "name": "AskUserQuestion", "input": {"questions": ASKED}}
    call = {"type": "assistant", "message": {"role": "assistant", "id": "m", "content": [use]}}
    answer = said([{"type": "tool_result", "tool_use_id": "t", "content": result}])
    answer |= {"toolUseResult": copy} if copy else {}
    thread = adapter("claude").read(claude_thread(tmp_path, said("Go", **TYPED), call, answer))

    assert words_of(thread) == ["Go", *filter(None, [words])]
