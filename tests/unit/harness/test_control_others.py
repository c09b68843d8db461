"""Agents of Gemini CLI and Copilot CLI: what their hooks tell, what title and screen say."""

import pytest
from controls import control, story, told

from tasuki.harness.protocol import AgentRequest, Screenshot, ScreenState

GEMINI, COPILOT = control("gemini"), control("copilot")
TOP, BOTTOM = "▄" * 40, "▀" * 40
RULE = "─" * 40
IDLE = " ← open sidebar · Interactive · / commands · ? help"


def test_the_story_of_gemini() -> None:
    """What real hooks told, in order; only a question for a permission is one."""
    assert story("gemini") == [
        "started startup", "prompt", "idle", "prompt", "ended", "started startup", "prompt", "waiting",
        "ended",
    ]  # fmt: skip
    assert told("gemini")[-2].text == "Tool Confirm Write: hello.txt requires editing"


def test_another_notice_of_gemini_is_no_question() -> None:
    """A notification of another kind tells nothing."""
    payload = {"hook_event_name": "Notification", "session_id": "s", "notification_type": "Other"}

    assert GEMINI.parse_event(payload) is None


def test_the_story_of_copilot() -> None:
    """What real hooks told, which do not name their event; what a prompt is made into is no second one."""
    assert story("copilot") == ["started startup", "prompt", "idle", "prompt", "idle", "ended"]


def test_what_they_may() -> None:
    """The mode of Gemini as it is named, the folder for both; a mode that is none is not passed on."""
    request = AgentRequest("/w", "s", permission="auto_edit", writable=("/d",))
    unknown = AgentRequest("/w", "s", permission="acceptEdits")

    assert GEMINI.plan_start(request).argv == ("gemini", "--approval-mode", "auto_edit", "--include-directories=/d")  # fmt: skip
    assert GEMINI.plan_start(unknown).argv == ("gemini",)
    assert COPILOT.plan_start(request).argv == ("copilot", "--add-dir", "/d")


@pytest.mark.parametrize(
    ("screen", "title", "sight"),
    [
        (f"{TOP}\n *   Type your message or @path/to/file\n{BOTTOM}\n", "", ScreenState("ready", "")),
        (f"{TOP}\n *   Type your message or @path/to/file\n{BOTTOM}\n", "✦  Working… (p)", ScreenState("busy", "")),
        (f"{TOP}\n * half\n   a thought\n{BOTTOM}\n", "◇  Ready (p)", ScreenState("ready", "half\na thought")),
        (f" ⠸ Thinking (esc to cancel, 2s)\n{TOP}\n * \n{BOTTOM}\n", "", ScreenState("busy", "")),
        ("│ ● 1. Allow once", "✋  Action Required (p)", ScreenState("waiting")),
        ("│ ● 1. Allow once", "", ScreenState("unknown")),
    ],
)  # fmt: skip
def test_what_a_look_at_gemini_says(screen: str, title: str, sight: ScreenState) -> None:
    """By the title of the pane, else by the screen."""
    assert GEMINI.read_screen(Screenshot(screen, title)) == sight


@pytest.mark.parametrize(
    ("screen", "sight"),
    [
        (f"{RULE}\n❯\n{RULE}\n{IDLE}", ScreenState("ready", "")),
        (f"{RULE}\n❯ half\n  a thought\n{RULE}\n Interactive · @ files", ScreenState("ready", "half\na thought")),
        (f"{RULE}\n❯\n{RULE}\n ◎ Working · 96 B esc esc interrupt", ScreenState("busy", "")),
        (f"{RULE}\n❯\n{RULE}\n ◉ Working esc esc edit prompt", ScreenState("busy", "")),
        (f" ● Working on it\n{RULE}\n❯\n{RULE}\n{IDLE}", ScreenState("ready", "")),
        ("│ ❯ 1. Yes\n│ ↑/↓ to navigate · enter to select · esc to cancel", ScreenState("waiting")),
        (f"{RULE}\nno input\n{RULE}", ScreenState("unknown")),
        (f"{RULE}\n{RULE}", ScreenState("unknown")),
    ],
)  # fmt: skip
def test_what_the_screen_of_copilot_says(screen: str, sight: ScreenState) -> None:
    """The line below the input tells that it works."""
    assert COPILOT.read_screen(Screenshot(screen, "GitHub Copilot")) == sight
