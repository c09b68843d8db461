"""What is typed into a program's input: which texts can be, and whether an input holds exactly that."""

import pytest

from tasuki.errors import NotPossible
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import ScreenField, Screenshot, ScreenState
from tasuki.harness.typed_text import (
    holds_text,
    is_plain_argument,
    is_unknown_command,
    prepare_text,
    read_marked_choice,
)

PROGRAMS = ("claude", "codex", "gemini", "pi", "opencode", "copilot", "omp")
LINES = "\n".join(f"point {number}" for number in range(12))
NAMES = {
    "claude": "[Pasted text #2 +11 lines]", "codex": f"[Pasted Content {len(LINES)} chars]",
    "gemini": "[Pasted Text: 12 lines]", "pi": "[paste #1 +12 lines]", "opencode": "[Pasted ~12 lines]",
    "copilot": "[Paste #1 - 12 lines]", "omp": "📄 #3",
}  # fmt: skip
"""What each program shows in place of those lines."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_takes_it_as_words(name: str) -> None:
    """What it would run is shielded or refused; a blank closes menus; words that end programs are refused."""
    control = harnesses.require_control(name)
    runs = {"pi": "!", "copilot": "!", "omp": "!$"}.get(name, "")
    for text in ("!touch x", "  !touch x", "$ touch x"):
        if text.strip()[0] in runs:
            with pytest.raises(NotPossible, match="would run as code"):
                prepare_text(text, control)
        else:
            assert prepare_text(text, control) == (f" {text}" if "!" in text else text)
    for text in ("exit", "Quit", ":q", " exit "):
        with pytest.raises(NotPossible, match="say it in a sentence"):
            prepare_text(text, control)
    with pytest.raises(NotPossible, match="shows nothing"):
        prepare_text("\N{COMBINING ACUTE ACCENT}", control)
    for text in ("see @notes", "use $skill", "fix #12", "/compact", "ends in \\"):
        assert prepare_text(text, control) == f"{text} "
    for text in ("plain", "/compact keep it", "exit the loop", "is it 5!", "a\n!b"):
        assert prepare_text(text, control) == text
    assert prepare_text("/", control) == " / "
    assert prepare_text("/etc/hosts is it", control) == " /etc/hosts is it"


def test_a_command_that_a_program_does_not_know() -> None:
    """Its screen says so, of this very command."""
    claude = "● Unknown command: /Users. Did you mean /peers?"
    codex = "• Unrecognized command '/usr'. Type \"/\" for a list"

    assert is_unknown_command("/Users is where it is", claude)
    assert is_unknown_command("/usr /bin", codex)
    assert not is_unknown_command("/User is where it is", claude)
    assert not is_unknown_command("look at /Users", claude)


def test_what_may_be_a_first_prompt() -> None:
    """Codex and Copilot CLI run one that begins with `!`, Claude Code ends by others or drops them."""
    texts = ("!ls", " !ls", "exit", ":q", "/ is the root", "/review", "$skill", "")

    assert [is_plain_argument(text) for text in texts] == [False] * 5 + [True] * 3


@pytest.mark.parametrize(
    ("typed", "text", "held"),
    [
        ("run the tests", "run the tests", True),
        ("run the\ntests now", "run the tests  now ", True),
        ("测试 the\n日本 caf\N{LATIN SMALL LETTER E WITH ACUTE}", "测试 the 日本 cafe\N{COMBINING ACUTE ACCENT}", True),
        ("ok 👍", "ok 👍🏽", True),
        ("run the tests x", "run the tests", False),
        ("x run the tests", "run the tests", False),
        ("the tests", "run the tests", False),
        ("", "run the tests", False),
        (None, "run the tests", False),
        ("/compact <instructions>", "/compact", True),
        ("/compact <instructions> and x", "/compact", False),
        ("run <it>", "run", False),
        ("[Pasted text #1 +3 lines]", "[Pasted text #1 +3 lines]", True),
    ],
)  # fmt: skip
def test_an_input_holds_just_a_text(typed: str | None, text: str, held: bool) -> None:
    """However it is wrapped; more, less or something else is not it."""
    pasted = harnesses.require_control("claude").pasted

    assert holds_text(ScreenState("ready", typed), text, pasted) is held


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_stands_for_a_paste(name: str) -> None:
    """One name of the right size, with nothing beside it."""
    pasted, shown = harnesses.require_control(name).pasted, NAMES[name]

    def is_held(typed: str, text: str = LINES) -> bool:
        return holds_text(ScreenState("ready", typed), text, pasted)

    assert is_held(shown)
    assert is_held(shown.replace(" ", "\n", 1))
    assert not is_held(f"{shown} x")
    assert not is_held(f"x {shown}")
    assert not is_held(f"{shown}{shown}")
    assert is_held(shown, f"{LINES}\nmore") is (name == "omp")  # whose name has no size


def test_the_end_of_a_tall_text() -> None:
    """Where the input is taller than its place, its end decides."""
    pasted = harnesses.require_control("copilot").pasted
    tall = ScreenState("ready", "point 10\npoint 11", is_whole=False)

    assert holds_text(tall, LINES, pasted)
    assert not holds_text(tall, f"{LINES} x", pasted)
    assert not holds_text(ScreenState("ready", "point 10\npoint 11"), LINES, pasted)


@pytest.mark.parametrize(
    ("screen", "field"),
    [
        ("Which?\n  1. SQLite\n❯ 2. my own\n     words\n\n  3. Chat", ScreenField("2", "my own words")),
        ("  1. Yes\n  ❯ 2. \n     shift+tab to approve with this feedback", ScreenField("2", "")),
        ("│ ● 3. mine        │\n╰──────╯", ScreenField("3", "mine")),
        ("no dialog\n❯ 1 thing", None),
    ],
)  # fmt: skip
def test_the_words_in_a_field(screen: str, field: ScreenField | None) -> None:
    """The marked choice of a dialog, with the lines that continue it, without a hint."""
    assert read_marked_choice(Screenshot(screen)) == field
