"""The real pi opens the sessions that tasuki writes, and tasuki those that the real pi wrote."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ANSWER, World
from fakes.model_requests import ModelTurn
from fakes.model_server import ModelRequest, ModelRule, ModelStep, ScriptedCall
from session_files import build_context_at, compact, edit, go_back
from waiting import retry_until

from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import (
    Json,
    build_assistant_message,
    build_model_messages,
    build_text_block,
    build_tool_call,
    build_tool_result,
    build_user_message,
    extract_text,
)

pytestmark = pytest.mark.e2e


def pi(world: World, *arguments: str) -> None:
    """Run pi without a screen, in the project."""
    subprocess.run(["pi", *arguments], cwd=world.project, check=True, timeout=60)


def turns(request: ModelRequest) -> list[tuple[str, str]]:
    """What the model got, the system prompt apart."""
    return [shown(turn) for turn in request.turns if turn.role != "system"]


def shown(turn: ModelTurn) -> tuple[str, str]:
    return turn.role, turn.text.strip()


def context(session: SessionManager, leaf: str | None = None) -> list[tuple[str, str]]:
    """What tasuki would show the model."""
    messages = build_model_messages(build_context_at(session, leaf))
    return [
        ("tool" if m["role"] == "toolResult" else m["role"], extract_text(m).strip())
        for m in messages
        if m["role"] != "system"
    ]


def before(session: SessionManager, prompt: str) -> str:
    """Id of the entry that the last user message of some words hangs on."""
    found = [e for e in session.tree.entries if prompt in extract_text(e.get("message") or {})]
    return str([e for e in found if e["message"]["role"] == "user"][-1]["id"])


def written(world: World) -> SessionManager:
    """The newest session of pi in the project."""
    files = list(world.home.glob(".pi/agent/sessions/*/*.jsonl"))
    return SessionManager.open(max(files, key=lambda path: path.stat().st_mtime_ns))


def test_pi_goes_on_with_what_tasuki_wrote(with_pi: World, tmp_path: Path) -> None:
    """Messages, calls, a compaction, a branch with its summary and a handoff reach the model as
    tasuki says they would, and tasuki reads what pi added."""
    session = SessionManager.create(with_pi.project, tmp_path / "sessions", parent="/old/one.jsonl")
    session.append_custom_message("handoff", "<handoff-context>THE PAST")
    session.append_message(build_user_message("summarised away"))
    session.append_message(assistant("away too"))
    kept = session.append_message(build_user_message("kept"))
    call = build_tool_call("call_1", "bash", {"command": "cat notes.txt"})
    session.append_message(assistant("I look.", call))
    session.append_message(build_tool_result("call_1", "bash", "the notes"))
    answered = session.append_message(assistant("Seen."))
    compact(session, "A summary of the past.", kept)
    session.append_custom_entry("tasuki", {"never": "shown"})
    session.append_message(build_user_message("left behind"))
    session.append_message(assistant("left too"))
    go_back(session, session.tree.entries[-4]["id"], "Another way was tried.")
    session.append_entry("label", targetId=answered, label="seen")
    session.append_entry("session_info", name="A session of tasuki")
    edited = session.append_message(build_user_message("edited away"))
    edit(session, edited, None)
    session.flush()
    session.close()
    told = context(session)

    pi(with_pi, "--session", str(session.path), "-p", "go on please")

    (request,) = with_pi.model.find_requests("go on please")
    assert turns(request) == [*told, ("user", "go on please")]
    assert [role for role, _ in told] == ["user", "user", "assistant", "tool", "assistant", "user"]
    for away in ("summarised away", "left behind", "edited away", "never", "THE PAST"):
        assert request.count_text(away) == 0, away
    again = SessionManager.open(session.path)
    assert again.tree.entries[: len(session.tree.entries)] == session.tree.entries
    assert again.header["parentSession"] == "/old/one.jsonl"
    assert context(again)[-2:] == [("user", "go on please"), ("assistant", ANSWER)]


def assistant(text: str, *blocks: Json) -> Json:
    """An answer of another agent's model."""
    stop = "toolUse" if blocks else "stop"
    content = [build_text_block(text), *blocks]
    return build_assistant_message(content, provider="gemini", stop=stop)


def test_tasuki_opens_what_pi_wrote(with_pi: World) -> None:
    """After calls and a compaction, the context is what pi sent with its next prompt."""
    (with_pi.project / "notes.txt").write_text("remember the milk")
    calls = (ScriptedCall("bash", {"command": "cat notes.txt"}),)
    with_pi.model.rules = (
        ModelRule("summar|checkpoint", (ModelStep("## Goal\nA SUMMARY of the model."),)),
        ModelRule(
            "read the notes",
            (ModelStep("I look.", calls=calls), ModelStep("There is milk in them.")),
        ),
        *with_pi.model.rules,
    )
    settings = with_pi.home / ".pi/agent/settings.json"
    compaction = {"compaction": {"keepRecentTokens": 5}}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | compaction))
    pane = with_pi.run(["pi"])
    with_pi.shows(pane, "0.0%/128k")
    for prompt, answer in (
        ("read the notes", "milk in them"),
        ("and then what", "A second answer"),
    ):
        typed(with_pi, pane, prompt)
        with_pi.shows(pane, answer)
    session = written(with_pi)
    (request,) = with_pi.model.find_requests("and then what")
    assert turns(request) == context(session, before(session, "and then what"))

    typed(with_pi, pane, "/compact")
    retry_until(lambda: any(e["type"] == "compaction" for e in written(with_pi).tree.entries), 20)
    with_pi.until_quiet(pane)
    typed(with_pi, pane, "after the compaction")
    retry_until(lambda: with_pi.model.find_requests("after the compaction"), 20)
    with_pi.shows(pane, ANSWER)

    session = written(with_pi)
    request = with_pi.model.find_requests("after the compaction")[-1]
    assert turns(request) == context(session, before(session, "after the compaction"))
    assert json.dumps(session.tree.entries).count("A SUMMARY") >= 1
    newest = session.build_session_context()[-1]
    assert (newest["provider"], newest["model"]) == ("local", "scripted")


def typed(world: World, pane: str, text: str) -> None:
    """Paste a prompt and send it once it stands in the input."""
    world.terminal.paste(pane, text)
    world.shows(pane, text)
    world.until_quiet(pane)
    world.terminal.keys(pane, "Enter")
