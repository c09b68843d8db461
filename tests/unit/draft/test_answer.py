"""Answers of authors are read in both shapes; what cannot be read says why."""

import json

import pytest

from tasuki.draft.authors import answer, document
from tasuki.draft.authors.answer import ChosenFile, CitedSentence, CorrectedFact, UnusableAnswer

FULL = {
    "relevantFiles": [{"file": "F1", "reason": "holds it", "refs": [3]}],
    "relevantCommands": [{"command": "C1", "reason": "", "refs": []}],
    "relevantInformation": [{"text": "The cache is written twice.", "refs": [3, 4]}],
    "decisions": [],
    "openQuestions": [],
    "failedApproaches": [],
    "constraints": [{"text": "U1", "refs": [1]}],
    "nextSteps": [{"text": "Write the test", "refs": [9]}],
    "corrections": [{"fact": "S2", "text": "It is on main.", "refs": [9]}],
    "state": {"done": [], "inProgress": [{"text": "the test", "refs": [9]}], "notWanted": []},
}


def test_a_whole_answer_is_taken_as_it_is() -> None:
    """Every item of an answer keeps its refs."""
    parsed = answer.parse_answer(json.dumps(FULL))

    assert parsed.answer.relevant_files == (ChosenFile("F1", "holds it", (3,)),)
    assert parsed.answer.relevant_information == (
        CitedSentence("The cache is written twice.", (3, 4)),
    )
    assert parsed.answer.state.in_progress == (CitedSentence("the test", (9,)),)
    assert parsed.answer.next_steps == (CitedSentence("Write the test", (9,)),)
    assert parsed.answer.corrections == (CorrectedFact("S2", "It is on main.", (9,)),)


@pytest.mark.parametrize(
    "around",
    [
        "Here you are:\n```json\n{}\n```\nAnything else?",
        "{}",
        "  \n{}\n\n",
        "<think>{{x}}</think>{}",
    ],
)
def test_prose_and_fences_around_the_object_are_forgiven(around: str) -> None:
    """The object is found in whatever stands around it."""
    text = around.replace("{}", json.dumps(FULL, indent=1)) if "{x}" not in around else (
        "<think>a plan: {\"x\": 1}</think>" + json.dumps(FULL)
    )  # fmt: skip

    assert answer.parse_answer(text).answer == answer.parse_answer(json.dumps(FULL)).answer


def test_small_liberties_are_forgiven() -> None:
    """Plain strings, `#12`, single numbers, `path` for `file`, and odd types are read or left out."""
    parsed = answer.parse_answer(
        json.dumps(
            {
                "relevantFiles": [{"path": "src/a.py"}, "F2", 7, None],
                "relevantInformation": ["Plain words. [#12, #15]", {"text": 3}, {"refs": [1]}],
                "decisions": [{"text": "d", "refs": "#7"}, {"text": "e", "refs": [True, -1, "x9"]}],
                "openQuestions": "none",
                "state": [],
            }
        )
    )

    assert [f.file for f in parsed.answer.relevant_files] == ["src/a.py", "F2"]
    assert parsed.answer.relevant_information[0] == CitedSentence("Plain words.", (12, 15))
    assert [d.refs for d in parsed.answer.decisions] == [(7,), (9,)]
    assert parsed.answer.open_questions == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it was empty"),
        (" \n", "it was empty"),
        ("I cannot do that.", "holds no JSON object"),
        ('{"relevantFiles": [{"file": "F1", "rea', "It ends in the middle"),
        ('{"something": "else"}', "none of the keys"),
        ("[1, 2]", "holds no JSON object"),
        ('{"decisions": [}', "not valid JSON"),
        ("x" * 500_000, "500,000 characters"),
        ("[" * 100_000 + "{", "not valid JSON"),
        ('{"a":' * 60_000, "not valid JSON"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, why: str) -> None:
    """The reason stands in the error: it is told to the author and to the user."""
    with pytest.raises(UnusableAnswer, match=why):
        answer.parse_answer(text)


DOCUMENT = """\
Sure, here is the document.

# Handoff

## Goal
- Make it work

## Constraints & Preferences
- U1
- Keep the API stable [#4]

## Progress
### Done
- [x] Retries are in `src/client.py` [#8, #9]
### In Progress
- [ ] The test
  for the timeout
### Blocked
- Waiting for the review

## Key Decisions
1. **Backoff**: doubled each time [#7]

## Critical Context
- The server sends 429 without `retry-after`.
### Relevant Files
- `src/client.py` — holds `send`

## Next Steps
- Write the test
- (none)
"""


def test_the_markdown_document_is_read_section_by_section() -> None:
    """The seed's six sections become the same fields as the structured shape; the goal is left."""
    parsed = document.parse_document(DOCUMENT)
    found = parsed.answer

    assert parsed.missing == ()
    assert found.constraints == (
        CitedSentence("U1", ()),
        CitedSentence("Keep the API stable", (4,)),
    )
    assert found.state.done == (CitedSentence("Retries are in `src/client.py`", (8, 9)),)
    assert found.state.in_progress == (CitedSentence("The test for the timeout", ()),)
    assert found.open_questions == (CitedSentence("Waiting for the review", ()),)
    assert found.decisions == (CitedSentence("**Backoff**: doubled each time", (7,)),)
    assert found.relevant_information == (
        CitedSentence("The server sends 429 without `retry-after`.", ()),
    )
    assert found.relevant_files == (ChosenFile("src/client.py", "holds `send`", ()),)
    assert found.next_steps == (CitedSentence("Write the test", ()),)


def test_missing_sections_are_named() -> None:
    """A document that lacks sections is read, and says which."""
    parsed = document.parse_document(
        "## Goal\nx y z\n\n## Key decisions:\n* one\n\n**Next Steps:**\n- two"
    )

    assert parsed.missing == ("Constraints & Preferences", "Progress", "Critical Context")
    assert parsed.answer.decisions == (CitedSentence("one", ()),)


@pytest.mark.parametrize("text", ["", "I have nothing to say.", "# Summary\n- did things"])
def test_a_text_without_the_sections_is_no_document(text: str) -> None:
    """Prose is not taken for a document."""
    with pytest.raises(UnusableAnswer):
        document.parse_document(text)
