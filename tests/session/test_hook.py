"""What a hook of a harness asks of tasuki: the command is taken out, everything else passes."""

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hooks import ASKED, SHELLS, Session, in_shell, inside, window
from terminals import Terminal
from waiting import retry_until

from tasuki.harness.claude.hooks import ClaudeIntegration
from tasuki.harness.codex.hooks import CodexIntegration
from tasuki.harness.integration import JsonEntry, parse_goal
from tasuki.session.hook_drafts import wait_for_thread
from tasuki.vault import Vault

GOAL = "add the missing test for the parser"

EMPTY = (
    "Nothing to hand off (no messages yet). To hand off an earlier conversation in this folder, "
    'type in a shell: tasuki "GOAL"'
)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session of Claude Code with one turn."""
    return Session(tmp_path).talk()


def kept(session: Session) -> Vault:
    """The vault of a session's user."""
    return Vault(session.data / "handoffs")


# -- the command -----------------------------------------------------------------------


@pytest.mark.parametrize(("harness", "sign"), [("claude", "/"), ("codex", "$")])
def test_without_tmux_the_draft_is_kept_and_the_user_told_how_to_start_it(
    tmp_path: Path, harness: str, sign: str
) -> None:
    """The prompt stops here; the goal of the draft is the user's, to the letter, line ends too."""
    session = Session(tmp_path, harness).talk()
    goal = f"{GOAL}\n  - keep the API, `id` and $HOME"
    answer = session.typed(f"{sign}handoff {goal}")

    (handoff,) = kept(session).list_handoffs()
    short = handoff.id[:8]
    assert answer == {
        "decision": "block",
        "reason": f"Handoff {short} is drafted. Review and start it in another terminal: tasuki start {short}",
    }
    assert (handoff.goal.text, handoff.goal.said_by) == (goal, "user")
    assert handoff.predecessor.harness == handoff.to == harness
    assert ASKED in kept(session).load_brief(handoff.id)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (
            "/handoff",
            "A handoff needs a goal. Be specific: what should the next thread accomplish?",
        ),
        ("/handoff fix", "The goal 'fix' does not say what to do. Be specific"),
        ("/handoff  a.py", "is too short (4 of 6 characters)"),
    ],
)
def test_a_vague_goal_gets_the_guidance(session: Session, prompt: str, reason: str) -> None:
    """The prompt is stopped with the guidance and its example; nothing is drafted."""
    answer = session.typed(prompt)

    assert answer["decision"] == "block"
    assert reason in answer["reason"]
    assert "implement team-level handoff, update tests, document API." in answer["reason"]
    assert kept(session).list_handoffs() == []


def test_a_secret_in_the_goal_is_not_handed_on(session: Session) -> None:
    """There is nobody to ask in a hook, so it stops."""
    answer = session.typed("/handoff rotate the key AKIAIOSFODNN7EXAMPLE everywhere")

    assert "seems to contain a secret" in answer["reason"]
    assert kept(session).list_handoffs() == []


def test_a_session_without_messages_has_nothing_to_hand_off(tmp_path: Path) -> None:
    """Its thread is not there yet; it is waited for, two seconds at most."""
    session = Session(tmp_path)
    session.thread = tmp_path / "none.jsonl"
    answer = session.typed(f"/handoff {GOAL}")

    assert answer["decision"] == "block"
    assert answer["reason"] == EMPTY


@pytest.mark.parametrize("path", ["\0", "\ud800", "/a" * 5_000])
def test_a_thread_of_an_impossible_name_is_none(session: Session, path: str) -> None:
    """A path and folder that no file can have count as not given; nothing is said of a defect."""
    payload = {"hook_event_name": "UserPromptSubmit", "prompt": f"/handoff {GOAL}", "session_id": "x",
               "transcript_path": path, "cwd": path}  # fmt: skip
    done = session.run("hook", "claude", text=json.dumps(payload))

    assert json.loads(done.stdout)["reason"] == EMPTY


def test_characters_that_are_none_are_replaced(session: Session) -> None:
    """Half a surrogate pair and a NUL do not stop a handoff."""
    answer = session.typed(f"/handoff {GOAL} \ud83d \x00")

    assert "is drafted." in answer["reason"], answer


def test_settings_that_are_wrong_stop_the_command_with_their_sentence(session: Session) -> None:
    """The model does not get the command because a file is broken."""
    session.config.write_text("budgett = 3\n")
    answer = session.typed(f"/handoff {GOAL}")

    assert answer["decision"] == "block"
    assert "Did you mean budget?" in answer["reason"]


def test_the_last_skill_goes_first_in_the_successors_brief(tmp_path: Path) -> None:
    """A skill that the user invoked last is invoked again, where the successor has it."""
    session = Session(tmp_path)
    skill = session.home / ".claude" / "skills" / "careful" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: careful\n---\nBe careful.\n")
    session.builder.user("<command-name>/careful</command-name>\n<command-message>careful</command-message>\n"
                         "<command-args></command-args>")  # fmt: skip
    session.talk().typed(f"/handoff {GOAL}")

    (handoff,) = kept(session).list_handoffs()
    assert handoff.draft.skill == "careful"
    assert kept(session).load_brief(handoff.id).startswith("/careful\n")


@pytest.mark.parametrize(
    "payload",
    [
        "", "null", "[]", "{", "{}", '{"prompt": 3}', '{"hook_event_name": "UserPromptSubmit"}',
        '{"hook_event_name": "UserPromptSubmit", "prompt": "say /handoff now"}',
        '{"hook_event_name": "UserPromptSubmit", "prompt": "/handoffs all"}',
        '{"hook_event_name": "PreToolUse", "prompt": "/handoff it all over"}',
        '{"hook_event_name": "Stop", "agent_id": "a1", "transcript_path": "/x"}',
        '{"hook_event_name": "UserPromptSubmit", "agent_id": "a1", "prompt": "/handoff it all over"}',
        '{"hook_event_name": "Stop"}', "[" * 100_000, "\x00\ufffd",
    ],
)  # fmt: skip
def test_what_is_not_ours_passes_without_a_word(session: Session, payload: str) -> None:
    """Other prompts, other events and anything else: nothing printed, exit code 0."""
    done = session.raw("hook", payload)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("prompt", "goal"),
    [
        ("/handoff a b", "a b"), ("/handoff", ""), ("  /handoff\n a\n", " a\n"), ("/handoff\ta", "a"),
        ("/handoffs", None), ("a /handoff b", None), ("/Handoff a", None), (7, None), (None, None),
    ],
)  # fmt: skip
def test_the_goal_is_what_follows_the_command_to_the_letter(
    prompt: object, goal: str | None
) -> None:
    """One character after the command separates; nothing else is touched."""
    assert parse_goal(prompt, "/handoff") == goal


@pytest.mark.parametrize("prompt", [
    '\n\n<pasted_content id="1145">\n/handoff a\n  b "c"\n</pasted_content id="1145">\n',
    '/handoff \n\n<pasted_content id="1145">\na\n  b "c"\n</pasted_content id="1145">\n',
])  # fmt: skip
def test_what_claude_code_marks_as_pasted_is_taken_as_typed(prompt: str) -> None:
    """A command or a goal of several lines that was pasted reaches the hook inside marks."""
    call = ClaudeIntegration().parse_hook_call(
        {"hook_event_name": "UserPromptSubmit", "prompt": prompt}
    )

    assert call is not None
    assert call.text == 'a\n  b "c"'


# -- the shell in front ------------------------------------------------------------------


class Front:
    """The shell command that a harness runs, in front of a program that writes down its input."""

    def __init__(self, folder: Path, harness: str) -> None:
        self.seen = folder / "seen"
        program = folder / "a folder" / "tasuki"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\ncat >>"{self.seen}"\n')
        program.chmod(0o755)
        made = {"claude": ClaudeIntegration, "codex": CodexIntegration}[harness]()
        hooks = [a for a in made.list_additions((str(program),)) if isinstance(a, JsonEntry)][:2]
        self.command, self.end = (a.value["hooks"][0]["command"] for a in hooks)
        self.program = program

    def run(
        self, shell: str, payload: bytes, command: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        return in_shell(shell, command or self.command, payload)


def payload(prompt: str) -> bytes:
    """As Claude Code and Codex write it: compact."""
    about = {"cwd": "/home/dev/handoff", "hook_event_name": "UserPromptSubmit", "prompt": prompt}
    return json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("shell", SHELLS)
def test_only_the_command_starts_tasuki(tmp_path: Path, shell: str) -> None:
    """What it gets is the payload byte for byte; other prompts end in the shell."""
    front = Front(tmp_path, "claude")
    for other in (
        "",
        "fix it",
        "see /handoff",
        'say "prompt":"/handoff',
        "ü" * 9,
        "a\n/b $(id) `id` %s \\n -n",
    ):
        done = front.run(shell, payload(other))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not front.seen.exists()

    goal = "/handoff a\n\"b\" 'c' $HOME `id` %s %% \\ \\n -n * ü \u2028 \x7f"
    front.run(shell, payload(goal))
    assert front.seen.read_bytes() == payload(goal)
    front.seen.unlink()
    front.run(shell, payload('\n\n<pasted_content id="1">\n/handoff a\n</pasted_content id="1">\n'))
    assert front.seen.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_codex_has_its_own_sign(tmp_path: Path, shell: str) -> None:
    """The dollar sign is a letter to the shell, not a variable."""
    front = Front(tmp_path, "codex")
    front.run(shell, payload("handoff it"))
    assert not front.seen.exists()
    front.run(shell, payload("$handoff it"))
    assert front.seen.exists()


def test_a_prompt_of_a_megabyte_goes_through(tmp_path: Path) -> None:
    """Nothing is cut, and no argument is too long."""
    front = Front(tmp_path, "claude")
    large = payload("/handoff " + "lines of a log\n" * 80_000)
    front.run("sh", large)

    assert front.seen.read_bytes() == large


def test_ordinary_prompts_cost_milliseconds(tmp_path: Path) -> None:
    """The hook of every prompt does not start Python: the median is that of a shell and a `cat`."""
    front = Front(tmp_path, "claude")
    took = []
    for _ in range(30):
        began = time.perf_counter()
        front.run("sh", payload("Mend the parser, please. " * 20))
        took.append(time.perf_counter() - began)

    assert sorted(took)[15] < 0.03, sorted(took)[15]


def test_the_end_of_a_turn_is_silent_once_tasuki_is_gone(tmp_path: Path) -> None:
    """A tasuki that was removed without uninstalling does not complain at every turn."""
    front = Front(tmp_path, "claude")
    front.run("sh", b"{}", front.end)
    assert front.seen.read_bytes() == b"{}"
    front.program.unlink()
    done = front.run("sh", b"{}", front.end)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# -- the thread ----------------------------------------------------------------------------


def test_a_thread_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    """The last answer comes some 100 ms late; the draft is made once nothing more comes."""
    path = tmp_path / "t.jsonl"

    def write() -> None:
        for number in range(6):
            with path.open("a") as file:
                file.write(f"{number}\n")
            time.sleep(0.1)

    writing = threading.Thread(target=write)
    writing.start()
    assert wait_for_thread(str(path)).read_text().splitlines()[-1] == "5"
    writing.join()

    os.utime(path, (1, 1))
    began = time.monotonic()
    wait_for_thread(str(path))
    assert time.monotonic() - began < 0.1


# -- in tmux -------------------------------------------------------------------------------


@pytest.fixture
def terminal(session: Session) -> Any:
    """A tmux server of the test's own."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    made = Terminal(session.home, session.env)
    yield made
    made.end()


def test_in_tmux_the_review_opens_in_a_window(session: Session, terminal: Terminal) -> None:
    """The goal gets there to the letter, by no shell; its file is gone when the review ended."""
    env = inside(session, terminal)
    goal = f"{GOAL}\n  - keep `id`, $HOME, 'x' and \"y\"; -- \\"
    answer = session.typed(f"/handoff {goal}", **env)

    assert answer["reason"].startswith("Review the handoff in the new tmux window")
    pane = window(terminal)
    terminal.shows(pane, "^S start")
    (handoff,) = kept(session).list_handoffs()
    assert handoff.goal.text == goal
    pid = terminal.run(("display-message", "-p", "-t", pane, "#{pane_pid}")).strip()
    environment = (
        Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if Path("/proc").exists() else []
    )
    assert not [entry for entry in environment if entry.startswith(b"CLAUDE")]

    folder = Path(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[4].decode())
    assert (folder / "goal").read_text() == goal
    terminal.keys(pane, "Escape")
    terminal.shows(pane, "Press Enter to close this window.")
    assert "The draft is kept" in terminal.capture_screen(pane).text
    assert not folder.exists()
    terminal.keys(pane, "Enter")
    retry_until(lambda: not any(pane in p for p in terminal.panes()))


def test_a_vague_goal_opens_no_window(session: Session, terminal: Terminal) -> None:
    """The guidance is said where the goal was typed."""
    answer = session.typed("/handoff fix", **inside(session, terminal))

    assert "Be specific" in answer["reason"]
    assert len(terminal.panes()) == 1


def test_a_tmux_that_is_gone_does_not_lose_the_handoff(session: Session) -> None:
    """The pane of a hook may be another one's, or of a server that ended: the draft is kept then."""
    env = {"TMUX": f"{session.root}/no-socket,1,0", "TMUX_PANE": "%9"}
    answer = session.typed(f"/handoff {GOAL}", **env)

    (handoff,) = kept(session).list_handoffs()
    assert f"Handoff {handoff.id[:8]} is drafted." in answer["reason"]
    assert "No tmux window: " in answer["reason"]


def test_the_review_can_be_a_popup(session: Session, terminal: Terminal) -> None:
    """With `review_in = "popup"` it lies over the window that is looked at; the hook does not wait for it."""
    env = inside(session, terminal)
    session.config.write_text('review_in = "popup"\n')
    client = Terminal(session.home, session.env)
    try:
        screen = client.open(["tmux", "-L", terminal.socket, "attach"], session.project, 140, 40)
        retry_until(lambda: terminal.run(("list-clients",)).strip())
        began = time.monotonic()
        answer = session.typed(f"/handoff {GOAL}", **env)

        assert time.monotonic() - began < 8
        assert answer["reason"].startswith("Review the handoff in the popup")
        client.shows(screen, "^S start")
        client.keys(screen, "Escape")
        client.shows(screen, "Press Enter to close this window.")
        client.keys(screen, "Enter")
        retry_until(lambda: "Cancelled" not in client.capture_screen(screen).text)
    finally:
        client.end()
    assert len(terminal.panes()) == 1
    assert [h.goal.text for h in kept(session).list_handoffs()] == [GOAL]


def test_a_popup_that_nobody_would_see_is_no_popup(session: Session, terminal: Terminal) -> None:
    """Where no client looks at the server, the draft is kept."""
    env = inside(session, terminal)
    answer = session.typed(f"/handoff {GOAL}", **env, TASUKI_REVIEW_IN="popup")

    assert "is drafted." in answer["reason"]
