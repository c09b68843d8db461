"""The scripted harness behaves in a real tmux pane as Claude Code does, by its script."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakes.scripted.keys import KeyReader
from fleet_agents import Scripted, texts
from waiting import retry_until, runs

from tasuki.harness import registry as harnesses

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

SESSION = "11111111-2222-4333-8444-555555555555"


def test_a_turn(scripted: Scripted) -> None:
    """A pasted prompt is shown, runs its hooks with Claude's payloads, is answered and stands in the thread."""
    scripted.record(SessionStart="You are the tester.")
    scripted.rules({"match": "(?P<what>bugs)", "do": [["say", "I look for {what}."]]})
    opened = scripted.start("--session-id", SESSION, "--model", "m-1", "--permission-mode", "plan")

    scripted.panes.paste(opened.pane, "find bugs\n  second; #{x}", "t-1")
    retry_until(
        lambda: (
            "❯\u00a0find bugs\n    second; #{x}" in scripted.panes.capture_screen(opened.pane).text
        )
    )
    assert scripted.told("submitted") == []
    scripted.panes.enter(opened.pane, "t-1")

    (stop,) = scripted.hooks_told("Stop")
    (start, prompt) = scripted.hooked("SessionStart", "UserPromptSubmit")
    assert (start["source"], start["model"], start["session_id"]) == ("startup", "m-1", SESSION)
    assert prompt["prompt"] == "find bugs\n  second; #{x}"
    assert prompt["permission_mode"] == "plan"
    assert stop["last_assistant_message"] == "I look for bugs."
    assert stop["prompt_id"] == prompt["prompt_id"]
    assert stop["background_tasks"] == []
    assert scripted.told("prompt")[0]["context"] == ["You are the tester."]
    assert set(Path(f"{scripted.payloads}.env").read_text().split()) == {SESSION}
    retry_until(lambda: "● I look for bugs." in scripted.panes.capture_screen(opened.pane).text)
    path = scripted.thread(SESSION)
    assert path == Path(stop["transcript_path"])
    assert path.stat().st_mode & 0o777 == 0o600
    thread = harnesses.get_harness("claude").read(path)
    assert (thread.id, thread.cwd) == (SESSION, str(scripted.cwd))
    said = [(entry.kind, entry.text) for entry in thread.entries]
    assert said == [("user", "find bugs\n  second; #{x}"), ("assistant", "I look for bugs.")]


def test_it_says_what_it_does(scripted: Scripted) -> None:
    """`sessions/<pid>.json` says idle, busy and waiting, and goes with the program; the screen says busy."""
    scripted.rules(
        {"match": "hold", "do": [["wait_for", str(scripted.folder / "go")], ["ask", "touch x"]]}
    )
    opened = scripted.start("--session-id", SESSION)
    state = scripted.state(opened.pid)

    assert (state["status"], state["sessionId"], state["cwd"]) == ("idle", SESSION, str(scripted.cwd))  # fmt: skip
    assert state["tmux"].endswith(opened.pane)
    assert not list((scripted.home / ".claude").glob("projects/*/*"))
    scripted.send(opened.pane, "hold")
    scripted.told_of("prompt")
    assert scripted.state(opened.pid)["status"] == "busy"
    retry_until(lambda: "esc to interrupt" in scripted.panes.capture_screen(opened.pane).text)
    (scripted.folder / "go").touch()
    retry_until(lambda: scripted.state(opened.pid)["status"] == "waiting")
    assert scripted.state(opened.pid)["waitingFor"] == "permission prompt"
    retry_until(lambda: " ❯ 1. Yes" in scripted.panes.capture_screen(opened.pane).text)
    scripted.panes.press_keys(opened.pane, "Enter")
    retry_until(lambda: scripted.state(opened.pid)["status"] == "idle")
    assert "esc to interrupt" not in scripted.panes.capture_screen(opened.pane).text
    scripted.send(opened.pane, "/exit", "t-2")
    assert scripted.told_of("exit")[0]["reason"] == "prompt_input_exit"
    retry_until(lambda: not runs(opened.pid))
    assert scripted.state(opened.pid) == {}


@pytest.mark.parametrize(
    ("how", "code", "reason"),
    [("C-c", 0, "prompt_input_exit"), ("SIGTERM", 143, "other"), ("kill-pane", 129, "other")],
)
def test_it_ends(scripted: Scripted, how: str, code: int, reason: str) -> None:
    """It ends by C-c twice, SIGTERM or the end of its pane, with its hook and nothing left behind."""
    scripted.record()
    opened = scripted.start()

    if how == "C-c":
        scripted.panes.press_keys(opened.pane, "C-c", "C-c")
    elif how == "SIGTERM":
        os.kill(opened.pid, signal.SIGTERM)
    else:
        scripted.panes.close(opened.pane)

    (told,) = scripted.told_of("exit")
    assert (told["code"], told["reason"]) == (code, reason)
    assert [end["reason"] for end in scripted.hooked("SessionEnd")] == [reason]
    retry_until(lambda: not runs(opened.pid))
    assert scripted.state(opened.pid) == {}


def test_escape(scripted: Scripted) -> None:
    """Escape breaks a turn off without a Stop, and stands in the thread."""
    scripted.record()
    scripted.rules({"match": "slow", "do": [["sleep", 600]]})
    opened = scripted.start("--session-id", SESSION)
    scripted.send(opened.pane, "slow")
    scripted.told_of("action")

    scripted.panes.press_keys(opened.pane, "Escape")

    scripted.told_of("interrupted")
    retry_until(lambda: scripted.state(opened.pid)["status"] == "idle")
    assert scripted.hooked("Stop") == []
    assert "Request interrupted by user" in scripted.thread(SESSION).read_text()
    notices = harnesses.get_harness("claude").read(scripted.thread(SESSION)).notices
    assert [notice.kind for notice in notices] == ["interrupted"]
    scripted.send(opened.pane, "next", "t-2")
    assert len(scripted.hooks_told("Stop")) == 1


def test_a_prompt_while_busy(scripted: Scripted) -> None:
    """It waits for the turn's end; its hook runs at once, with the id of the turn that goes on."""
    scripted.record()
    scripted.rules({"match": "first", "do": [["wait_for", str(scripted.folder / "go")]]})
    opened = scripted.start("--session-id", SESSION)
    scripted.send(opened.pane, "first")
    scripted.told_of("action")

    scripted.send(opened.pane, "second", "t-2")

    first, second = scripted.hooks_told("UserPromptSubmit", 2)
    assert texts(scripted.told("prompt")) == ["first"]
    retry_until(lambda: "Queued" in scripted.panes.capture_screen(opened.pane).text)
    (scripted.folder / "go").touch()
    stops = scripted.hooks_told("Stop", 2)
    assert texts(scripted.told("prompt")) == ["first", "second"]
    assert first["prompt_id"] == second["prompt_id"] == stops[0]["prompt_id"]
    assert stops[1]["prompt_id"] != first["prompt_id"]
    thread = harnesses.get_harness("claude").read(scripted.thread(SESSION))
    assert [entry.text for entry in thread.entries if entry.kind == "user"] == ["first", "second"]


def test_input_that_is_left(scripted: Scripted) -> None:
    """C-u takes one line of what stands in the input away, C-c all of it without ending the program."""
    opened = scripted.start()

    def typed() -> list[str]:
        lines = re.split("─{40,}", scripted.panes.capture_screen(opened.pane).text)[-2].splitlines()
        return [line.strip() for line in lines if line.strip()]

    scripted.panes.paste(opened.pane, "one\ntwo", "t-1")
    retry_until(lambda: typed() == ["❯\u00a0one", "two"])
    scripted.panes.press_keys(opened.pane, "C-u")
    retry_until(lambda: typed() == ["❯\u00a0one"])
    scripted.panes.press_keys(opened.pane, "C-c")
    retry_until(lambda: typed() == ["❯"])
    scripted.panes.press_keys(opened.pane, "a", "b", "BSpace", "Enter")
    assert texts(scripted.told_of("prompt")) == ["a"]
    assert runs(opened.pid)


def test_a_long_paste(scripted: Scripted) -> None:
    """A long paste is shown by a name, and arrives whole and marked."""
    opened = scripted.start("--session-id", SESSION)
    text = "line ✓ of many\n" * 60_000

    scripted.panes.paste(opened.pane, text, "t-1")
    retry_until(
        lambda: "[Pasted text #1 +60000 lines]" in scripted.panes.capture_screen(opened.pane).text
    )
    scripted.panes.enter(opened.pane, "t-1")

    (told,) = scripted.told_of("prompt", seconds=30)
    assert told["text"].startswith("\n\n<pasted_content id=".strip())
    assert text in told["text"]
    thread = harnesses.get_harness("claude").read(scripted.thread(SESSION))
    assert thread.entries[0].text.strip() == text.strip()


def test_keys_cut_anywhere(scripted: Scripted) -> None:
    """Input is parsed as a terminal sends it: in pieces, with sequences and characters cut apart."""
    data = "a✓\x1b[200~p\rq\x1b[31m\x1b[201~\x1b[A\x1bOB\r\x03é".encode()
    expected = [("text", "a✓"), ("paste", "p\nq\x1b[31m"), ("key", "other"), ("key", "other"),
                ("key", "enter"), ("key", "ctrl-c"), ("text", "é")]  # fmt: skip
    for size in (1, 2, 3, 5, 100):
        keys = KeyReader()
        events = [
            e for at in range(0, len(data), size) for e in keys.read_events(data[at : at + size])
        ]
        joined: list[tuple[str, str]] = []
        for kind, text in events:
            if kind == "text" and joined and joined[-1][0] == "text":
                joined[-1] = ("text", joined[-1][1] + text)
            else:
                joined.append((kind, text))

        assert joined == expected


def test_a_prompt_that_a_hook_blocks(scripted: Scripted) -> None:
    """A blocked prompt begins no turn and is put back into the input."""
    scripted.record(UserPromptSubmit=json.dumps({"decision": "block", "reason": "not now"}))
    opened = scripted.start()

    scripted.send(opened.pane, "do it")

    scripted.told_of("blocked")
    retry_until(lambda: "blocked by hook" in scripted.panes.capture_screen(opened.pane).text)
    retry_until(lambda: scripted.panes.capture_screen(opened.pane).text.count("❯\u00a0do it") == 1)
    assert scripted.told("prompt") == []
    assert scripted.hooked("Stop") == []


def test_clear(scripted: Scripted) -> None:
    """`/clear` ends the session and begins another one in the same process."""
    scripted.record()
    opened = scripted.start("--session-id", SESSION)
    scripted.send(opened.pane, "one", "t-1")
    scripted.hooks_told("Stop")

    scripted.send(opened.pane, "/clear", "t-2")
    scripted.told_of("cleared")
    scripted.send(opened.pane, "two", "t-3")
    scripted.hooks_told("Stop", 2)

    end, start = scripted.hooked("SessionEnd", "SessionStart")[-2:]
    assert (end["reason"], end["session_id"]) == ("clear", SESSION)
    assert start["source"] == "clear"
    assert scripted.state(opened.pid)["sessionId"] == start["session_id"] != SESSION
    assert [line["session"] for line in scripted.told("prompt")] == [SESSION, start["session_id"]]
    assert "two" not in scripted.thread(SESSION).read_text()


def test_a_prompt_at_the_start(scripted: Scripted) -> None:
    """A prompt among the arguments is submitted at the start; behind --add-dir it is lost, as in Claude."""
    scripted.start("--add-dir", "/x", "/y", "--model", "m", "first words")
    scripted.start("--add-dir", "/x", "lost words", tag="agent-2")

    assert texts(scripted.told_of("prompt")) == ["first words"]
    assert [line["argv"][-1] for line in scripted.told("started")] == ["first words", "lost words"]


def test_a_session_inside_another_one(scripted: Scripted) -> None:
    """With the variables of another session in its environment it keeps neither thread nor state."""
    opened = scripted.start(CLAUDE_CODE_CHILD_SESSION="1")
    scripted.send(opened.pane, "hello")
    scripted.told_of("prompt")

    assert scripted.state(opened.pid) == {}
    assert not (scripted.home / ".claude" / "projects").exists()


def test_an_agents_token_is_told_as_a_digest(scripted: Scripted) -> None:
    """The log has the digest of the agent's token, never the token."""
    scripted.start(TASUKI_AGENT_TOKEN="a-secret")

    assert len(scripted.told("started")[0]["token"]) == 64
    assert "a-secret" not in scripted.log.read_text()


def test_its_command_line(scripted: Scripted) -> None:
    """It tells its version, refuses options that Claude does not know, and needs a terminal."""

    def said(*words: str) -> str:
        done = subprocess.run(
            (str(scripted.program), *words), env=scripted.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    assert said("--version") == "2.1.330 (Claude Code)\n"
    assert said("--nonsense") == "error: unknown option '--nonsense'\n"
    assert "needs a terminal" in said("prompt")


@pytest.mark.long
def test_many_at_once(scripted: Scripted) -> None:
    """Thirty that start at once all come up and answer."""
    began = time.monotonic()
    opened = [scripted.start(tag=f"agent-{n}", ready=False) for n in range(30)]
    scripted.told_of("ready", 30, seconds=60)

    for n, each in enumerate(opened):
        scripted.send(each.pane, f"prompt {n}", f"t-{n}")

    scripted.told_of("prompt", 30, seconds=60)
    assert sorted(texts(scripted.told("prompt"))) == sorted(f"prompt {n}" for n in range(30))
    print(f"{time.monotonic() - began:.1f} s")
