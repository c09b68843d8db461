"""Agents of Codex: what its hooks tell, what its title, its screen and its thread say."""

import json
from pathlib import Path

import pytest
from controls import control, story, told

from tasuki.harness.protocol import AgentRequest, Screenshot, ScreenState

CODEX = control("codex")
SESSION = "01a2055e-1e4d-78a3-a310-f0bace5d9803"
FOOTER = "\n\n  GPT-5.5 default · /home/dev/proj\n  ← for agents · ? for shortcuts"
DIALOG = """• Running touch /etc/xx

  Would you like to run the following command?

  $ touch /etc/xx

› 1. Yes, proceed (y)
  2. No, and tell Codex what to do differently (esc)

  Press enter to confirm or esc to cancel"""


def test_the_story_of_a_session() -> None:
    """What real hooks told, in order; Escape is the end of a turn."""
    assert story("codex") == [
        "started startup", "prompt", "idle", "prompt", "idle", "idle", "compacting manual",
        "compacted manual", "started compact", "ended", "compacting auto", "compacted auto", "waiting",
    ]  # fmt: skip
    assert [event.interrupted for event in told("codex") if event.kind == "idle"] == [False, False, True]  # fmt: skip
    assert told("codex")[-1].text == "permission for Bash"


def test_what_it_may(tmp_path: Path) -> None:
    """No background server; a sandbox and a policy of approvals as they are named; the folder's real name."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    request = AgentRequest("/w", "s", permission="workspace-write never", writable=(str(link),))

    assert CODEX.plan_start(request).argv == (
        "codex", "--no-daemon", "--sandbox", "workspace-write", "--ask-for-approval", "never",
        "--add-dir", str(tmp_path / "real"),
    )  # fmt: skip
    assert CODEX.plan_start(AgentRequest("/w", "s", permission="bypassPermissions")).argv == ("codex", "--no-daemon")  # fmt: skip


@pytest.mark.parametrize(
    ("screen", "title", "sight"),
    [
        (f"› hi\n\n• The answer.\n\n› Ask Codex to do anything{FOOTER}", "proj", ScreenState("ready", "")),
        (f"› half a\n  thought{FOOTER}", "proj", ScreenState("ready", "half a\nthought")),
        (f"› [Pasted Content 2101 chars]{FOOTER}", "proj", ScreenState("ready", "[Pasted Content 2101 chars]")),
        (f"◦ Working (1s • esc to interrupt)\n\n› and this{FOOTER}", "proj", ScreenState("busy", "and this")),
        (f"› Ask Codex to do anything{FOOTER}", "⠏ proj", ScreenState("busy", "")),
        (f"› hi\n\n! ls{FOOTER}", "proj", ScreenState("unknown")),
        (DIALOG, "proj", ScreenState("waiting")),
        (f"› Ask Codex to do anything{FOOTER}", "[ ! ] Action Required | proj", ScreenState("waiting")),
    ],
)  # fmt: skip
def test_what_a_look_says(screen: str, title: str, sight: ScreenState) -> None:
    """By the title of the pane, else by the screen."""
    assert CODEX.read_screen(Screenshot(screen, title)) == sight


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        (["task_started"], "unknown"),
        (["task_started", "token_count", "task_complete", "thread_settings_applied"], "ready"),
        (["task_started", "turn_aborted"], "ready"),
        (["task_started", "task_complete", "task_started"], "unknown"),
        (["token_count"], "unknown"),
    ],
)
def test_its_thread_tells_where_no_hook_does(
    kinds: list[str], state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a screen the last turn in its thread counts: one that the model's error ended has no hook."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    folder = tmp_path / "sessions" / "2026" / "11" / "22"
    folder.mkdir(parents=True)
    lines = [json.dumps({"type": "event_msg", "payload": {"type": kind}}) for kind in kinds]
    (folder / f"rollout-2026-11-22T22-26-23-{SESSION}.jsonl").write_text("\n".join(lines))

    assert CODEX.read_screen(Screenshot("", session=SESSION)).state == state
