"""Agents of Claude Code: what its hooks tell, what is answered, what its screen and its signal say."""

import json
import os
from pathlib import Path

import pytest
from controls import control, story, told

from tasuki.harness.protocol import AgentEvent, AgentRequest, HookReply, Screenshot, ScreenState
from tasuki.harness.questions import AskedQuestion, DialogSubject

CLAUDE = control("claude")
RULE = "─" * 40
FOOTER = f"{RULE}\n  ⏵⏵ accept edits on (shift+tab to cycle)"
DIALOG = f"""❯ Ask permission now
{RULE}
 Bash command
 touch asked.txt
 Do you want to proceed?
 ❯ 1. Yes
   2. No
 Esc to cancel · Tab to amend"""
TRUST = f"""{RULE}
 Accessing workspace:
 /home/dev/proj
 ❯ 1. Yes, I trust this folder
   2. No, exit"""


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the program tells of itself."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    (tmp_path / "sessions").mkdir()
    return tmp_path / "sessions"


def test_the_story_of_a_session() -> None:
    """What real hooks told, in order: sub-agents apart, no event of theirs taken for the agent's."""
    assert story("claude") == [
        "started startup", "prompt", "busy", "context", "idle", "prompt", "idle", "waiting", "waiting",
        "child_started", "idle", "child_ended", "idle", "compacting manual", "child_ended",
        "started compact", "compacted manual", "ended", "started clear", "ended", "ended",
        "started resume", "compacting auto", "compacted auto",
    ]  # fmt: skip


def test_what_goes_on_behind_a_turn() -> None:
    """A turn's end names what goes on in the background; an error of the model's is an end as well."""
    ends = [event for event in told("claude") if event.kind == "idle"]

    assert [event.running for event in ends] == [(), (), ("Count files",), None]
    assert ends[-1].text == "API Error: 400 scripted bad request"


def test_what_it_waits_for() -> None:
    """It names the tool, not the command, which may hold a key, and no words of the agent."""
    asked, reminded = (event for event in told("claude") if event.kind == "waiting")

    assert asked.text == "permission for Bash"
    assert reminded.text == "Claude needs your permission"


def test_that_it_is_idle_is_no_question() -> None:
    """The reminder that it waits for a prompt is none that it waits for an answer."""
    payload = {"hook_event_name": "Notification", "session_id": "s", "message": "…"}

    assert CLAUDE.parse_event({**payload, "notification_type": "idle_prompt"}) is None
    assert CLAUDE.parse_event({**payload, "notification_type": "elicitation_dialog"}) is not None


def test_a_sub_agent_that_asks_is_the_agent_that_waits() -> None:
    """A dialog of a sub-agent's stands in the agent's own pane."""
    payload = {"hook_event_name": "PermissionRequest", "session_id": "s", "agent_id": "a1"}
    event = CLAUDE.parse_event({**payload, "tool_name": "Bash"})

    asked = AskedQuestion("Allow Bash?", subject=DialogSubject("fields"))
    assert event == AgentEvent(
        "waiting", "s", text="permission for Bash", question=asked, child="a1"
    )


def test_what_is_answered() -> None:
    """A start is answered with the skill, a compaction with a veto."""
    skill = CLAUDE.format_reply(AgentEvent("started", "s"), HookReply(context="You are Con."))
    veto = CLAUDE.format_reply(AgentEvent("compacting", "s"), HookReply(veto="Not now."))

    output = {"hookEventName": "SessionStart", "additionalContext": "You are Con."}
    assert json.loads(skill) == {"hookSpecificOutput": output}
    assert json.loads(veto) == {"decision": "block", "reason": "Not now."}


def test_it_may_write_into_the_folder_it_is_given(tmp_path: Path) -> None:
    """The folder is allowed by rules, by both names of one that is a link; no folder is added."""
    link, real = tmp_path / "a link", tmp_path / "real"
    link.symlink_to(real)
    argv = CLAUDE.plan_start(
        AgentRequest("/w", "s-1", permission="plan", writable=(str(link),))
    ).argv

    assert "--add-dir" not in argv
    assert argv[argv.index("--permission-mode") + 1] == "plan"
    assert argv[argv.index("--allowedTools") + 1 :] == (
        f"Read(/{link}/**)", f"Edit(/{link}/**)", f"Read(/{real}/**)", f"Edit(/{real}/**)",
    )  # fmt: skip


def test_signs_of_a_pattern_in_a_folder_are_taken_for_themselves() -> None:
    """Claude Code 2.1.332 reads a rule as a pattern, in which nothing stands for a parenthesis."""
    argv = CLAUDE.plan_start(AgentRequest("/w", "s-1", writable=("/a [1]*(x)",))).argv

    assert argv[argv.index("--allowedTools") + 1] == r"Read(//a \[1\]\*?x?/**)"


@pytest.mark.parametrize(
    ("screen", "sight"),
    [
        (f"● Done.\n{RULE}\n❯\N{NO-BREAK SPACE}\n{FOOTER}", ScreenState("ready", "")),
        (f"{RULE}\n❯\N{NO-BREAK SPACE}half\n  a thought\n{FOOTER}", ScreenState("ready", "half\na thought")),
        (f"{RULE}\n❯ [Pasted text #1 +9 lines]\n{FOOTER}", ScreenState("ready", "[Pasted text #1 +9 lines]")),
        (f"{RULE}\n❯ Press up to edit queued messages\n{FOOTER} · esc to interrupt", ScreenState("busy", "")),
        (f"x · draft stashed\n{RULE}\n❯ half\n{FOOTER}", ScreenState("ready", "half", has_stash=True)),
        (f"{RULE}\n! ls -la\n{FOOTER}", ScreenState("ready", "!ls -la")),
        (f"─── History 1/2 {RULE}\n❯ say hello\n{FOOTER}", ScreenState("unknown")),
        (f"─── ↑ 16 more {RULE}\n  the\n  end\n{FOOTER}", ScreenState("ready", "the\nend", is_whole=False)),
        (DIALOG, ScreenState("unknown")),
        (TRUST, ScreenState("unknown")),
    ],
)  # fmt: skip
def test_what_a_screen_says(screen: str, sight: ScreenState) -> None:
    """By the screen alone: what stands in the input, and whether there is one at all."""
    assert CLAUDE.read_screen(Screenshot(screen)) == sight


def test_a_hint_is_known_by_its_style() -> None:
    """What is dim is no unsent text; the same words are, where they are not dim."""
    screen = f'{RULE}\n❯\N{NO-BREAK SPACE}Try "fix lint errors"\n{FOOTER}'
    solid = screen.replace('Try "fix lint errors"', " " * 21)

    assert CLAUDE.read_screen(Screenshot(screen, solid=solid)) == ScreenState("ready", "")
    assert CLAUDE.read_screen(Screenshot(screen, solid=screen)).typed == 'Try "fix lint errors"'


@pytest.mark.parametrize(("status", "state"), [("idle", "ready"), ("busy", "busy"), ("waiting", "waiting"), ("new", "unknown")])  # fmt: skip
def test_its_own_signal_counts_more(sessions: Path, status: str, state: str) -> None:
    """The file of the process says what it does, without any screen; another session's does not count."""
    told = {"sessionId": "s-1", "status": status}
    (sessions / f"{os.getpid()}.json").write_text(json.dumps(told))

    assert CLAUDE.read_screen(Screenshot("", pid=os.getpid(), session="s-1")).state == state
    assert CLAUDE.read_screen(Screenshot("", pid=1, session="s-1")).state == state
    assert CLAUDE.read_screen(Screenshot("", pid=os.getpid(), session="s-2")).state == "unknown"
