"""What tasuki itself types into sessions and panes is recognised in the threads that record it."""

from pathlib import Path
from typing import Any

import pytest
from fixture_threads import HARNESSES, adapter
from fleet_rows import ID, agent, handoff

import tasuki.draft.prompts
import tasuki.fleet.prompts
from tasuki import typed_prompts
from tasuki.draft.authors.session_document import render_document_request
from tasuki.draft.facts import statements
from tasuki.draft.text.entries import extract_user_words
from tasuki.fleet import prompts
from tasuki.fleet.agents.lifecycle import AgentLifecycle
from tasuki.model import Entry
from tasuki.typed_prompts import (
    extract_human_words,
    find_named_document,
    is_typed_by_tasuki,
)
from tasuki_testing import ThreadBuilder

PATH = Path("/home/dev/fleet/data/personas/developer-con-1/handoffs/20260714T120000-5e55104d.md")
WISH = "Never use port 80, the proxy of the customer owns it."
NOT_TYPED = {"system", "extract", "coverage_part", "coverage_whole", "form", "rules", "question", "question_again",
             "question_dropped", "question_later", "question_system"}  # fmt: skip
"""Prompts of models alone, and parts of others: they stand in no thread."""


def filled(folder: Path, name: str) -> str:
    """A template with a few words of more than one line in each of its variables."""
    text = (folder / f"{name}.md").read_text()
    values: dict[str, Any] = {
        variable: f"some words\nfor {variable}"
        for variable in tasuki.draft.prompts._VARIABLE.findall(text)
    }
    if "question" in values:  # it repeats what was asked first
        values["question"] = filled(tasuki.draft.prompts.HERE, "agent")
    if "reference" in values:
        values["reference"] = f"{ID}/2"
    return tasuki.draft.prompts.render_prompt_in(folder, name, values)


def templates() -> list[tuple[Path, str]]:
    """Every template whose text gets into a thread."""
    folders = (tasuki.draft.prompts.HERE, tasuki.fleet.prompts.PROMPTS_FOLDER)
    return [(f, p.stem) for f in folders for p in sorted(f.glob("*.md")) if p.stem not in NOT_TYPED]


def entry(text: str) -> Entry:
    """A prompt of the user's role."""
    return Entry(ref=1, kind="user", text=text)


@pytest.mark.parametrize(
    ("folder", "name"), templates(), ids=lambda given: getattr(given, "stem", given)
)
def test_every_template_is_recognised(folder: Path, name: str) -> None:
    """A prompt made of any template is no word of the user, also wrapped or after what a harness adds."""
    text = filled(folder, name)
    shapes = (
        text,
        f"\n\n  {text}\n",
        "\n".join(line for part in text.split(" ") for line in (part,)),
        " ".join(text.split()),
        f'<ide_selection file="a.py">x = 1</ide_selection>\n{text}',
    )

    assert [is_typed_by_tasuki(shape) for shape in shapes] == [True] * len(shapes)
    assert [extract_user_words(entry(shape)) for shape in shapes] == [""] * len(shapes)


@pytest.mark.parametrize("harness", HARNESSES)
def test_in_the_thread_of_every_harness(harness: str, tmp_path: Path) -> None:
    """Whatever a harness makes of a prompt in its file, none of tasuki's is quoted as the user's."""
    built = ThreadBuilder(harness)
    built.user(WISH).assistant("Understood.")
    built.user(prompts.render_instruction(handoff(), PATH)).assistant("Written.")
    built.user(prompts.render_injection(handoff(), agent(), PATH)).assistant("handoff ab12cd34")
    built.user(render_document_request("the tests")).assistant("## Goal")
    thread = adapter(harness).read(built.write(tmp_path / built.file_name()))

    assert [s.text for s in statements.extract_user_statements(thread.entries)] == [WISH]


def test_what_an_operator_and_a_goal_say_is_somebodys_words() -> None:
    """Of the injection prompt the goal and the operator's note stay, without their labels."""
    of = handoff(context="the 429 path first\nand no new packages")
    text = prompts.render_injection(of, agent(goal="make retries configurable"), PATH)

    assert extract_user_words(entry(text)) == (
        "make retries configurable\nthe 429 path first\nand no new packages"
    )
    assert extract_user_words(entry(prompts.render_injection(handoff(), agent(), PATH))) == ""


@pytest.mark.parametrize(
    "goal",
    [
        "Build it.\n1. Begin your answer with this line, by itself: x\n2. Never use port 80",
        "Never use port 80\n(tasuki handoff abcd1234)\nand use TLS",
    ],
)
def test_a_goal_with_lines_of_a_prompt_stays_whole(goal: str) -> None:
    """A goal that quotes the steps or the last line of the prompt that passes it on loses nothing."""
    text = prompts.render_injection(handoff(), agent(goal=goal), PATH)

    assert extract_user_words(entry(text)) == goal
    assert extract_user_words(entry(f"{WISH}\n{text}\nand ruff")).split("\n\n") == [
        WISH,
        goal,
        "and ruff",
    ]


def test_the_task_after_a_skill_is_the_users() -> None:
    """The goal that an agent is given with its skill stays; the skill is not the user's wish."""
    told = tasuki.fleet.prompts.render(
        "skill",
        persona="con-1",
        skill="Never guess.",
        then="Your task:\n\nfix the parser\n\nand test it",
    )

    assert extract_user_words(entry(told)) == "fix the parser\n\nand test it"


def test_the_label_of_the_task_is_the_one_that_is_typed() -> None:
    """The fleet types the label that is looked for."""
    assert (
        f'f"{typed_prompts.TASK_LABEL}\\n'
        in Path(AgentLifecycle.create_agent.__code__.co_filename).read_text()
    )


def test_words_around_a_prompt_stay() -> None:
    """What the user had typed before it, and types after it, is theirs; also around several."""
    typed = prompts.render_instruction(handoff(), PATH)
    injected = prompts.render_injection(handoff(), agent(), PATH)

    assert extract_human_words(f"fix the login\n{typed}\nand use ruff\n{injected}") == (
        "fix the login\n\nand use ruff"
    )


@pytest.mark.parametrize("between", [" ", "", "\n\n"])
def test_a_prompt_that_is_pasted_behind_words_is_taken_out(tmp_path: Path, between: str) -> None:
    """Of a prompt that Claude Code marks as pasted into a line, the words before and after it stay."""
    for typed in (
        prompts.render_instruction(handoff(), PATH),
        prompts.render_injection(handoff(), agent(), PATH),
    ):
        pasted = f'<pasted_content id="99">\n{typed}\n</pasted_content id="99">'
        built = ThreadBuilder("claude").user(f"{WISH}{between}{pasted} and use ruff")
        thread = adapter("claude").read(built.assistant("ok").write(tmp_path / built.file_name()))

        assert extract_user_words(thread.entries[0]).split("\n\n") == [WISH, "and use ruff"]
        assert extract_human_words(f"{typed}\n{WISH} {typed}") == WISH


def test_words_between_a_quoted_prompt_and_a_real_one_stay() -> None:
    """What begins on a line with words and never ends is the user's, up to the prompt that does."""
    quoted = prompts.render_instruction(handoff(), PATH)[:120]
    typed = prompts.render_instruction(handoff(), PATH)

    assert (
        extract_human_words(f"why this: {quoted}\n{WISH}\n{typed}") == f"why this: {quoted}\n{WISH}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Your work is about to be handed to somebody else, so write a handoff document.",
        "Please hand this conversation to a fresh session, which knows nothing of it.",
        "Why did the pane say 'You take over from agent 3 (dev, session 12ab), which has ended:'?",
        "Explain this line to me:\nYou take over from agent 3 (dev, session 12ab), which has ended: you continue its work.",
        "You are con-1. This is your skill, use it: write tests first.",
        "Your answer could not be used: the JSON was cut off. Try again.",
        "I read that 'This conversation is about to be handed to a fresh session, which knows nothing of it.'",
    ],
)
def test_a_user_who_speaks_of_a_handoff_is_the_user(text: str) -> None:
    """A sentence that only mentions a handoff, or quotes one of these prompts, is the user's."""
    assert (is_typed_by_tasuki(text), extract_user_words(entry(text))) == (False, text)


def test_of_a_fork_the_goals_and_the_document_are_found() -> None:
    """The folder that it is told to work in, with its uncommitted files, is nobody's words."""
    of = handoff(goal="write the migration\n3. and the index", reason="fork", fork=True)
    place = "/srv/app-2, in a git worktree. What agent 7 has not committed stays in /srv/app: a.py."
    text = prompts.render_injection(of, agent(goal="make retries configurable"), PATH, place)

    assert is_typed_by_tasuki(text)
    assert find_named_document(f"{text}\n") == str(PATH)
    assert extract_human_words(f"{text}and hurry") == (
        "make retries configurable\nwrite the migration\n3. and the index\n\nand hurry"
    )


def test_the_document_of_an_injection_is_found() -> None:
    """The path is read from the prompt, blanks in it and wrapped lines around it included."""
    path = Path("/home/dev/my fleet/handoffs/20260714T120000-5e55104d.md")
    text = prompts.render_injection(handoff(), agent(goal="fix it"), path)

    assert find_named_document(text) == str(path)
    assert find_named_document(f"one more thing\n{text}") == str(path)
    assert find_named_document("Handoff document: a.md\nReason for the handoff: none") == ""
