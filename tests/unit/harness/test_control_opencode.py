"""Agents of opencode: what its plugin tells, what its screen says, what they may write to."""

import json
import shutil
import subprocess
from pathlib import Path

import npm_programs as programs
import pytest
from controls import control, story, told

from tasuki.harness.integration import OwnFile
from tasuki.harness.protocol import AgentRequest, Screenshot, ScreenState

OPENCODE = control("opencode")
EDGE = "  ╹" + "▀" * 60
MODEL = "  ┃  Build · Scripted Local"
IDLE = "   /home/dev/proj                                8.2K (6%)  ctrl+p commands"
WORKS = "   ■■⬝⬝  esc interrupt                            8.2K (6%)  ctrl+p commands"
DRIVER = """
import { TasukiFleet } from "./fleet.mjs";
const client = { config: { providers: async () => { throw new Error("away"); } } };
const hooks = await TasukiFleet({ client, directory: "/w" });
const at = async (type, properties) => hooks.event({ event: { type, properties } });
const say = (sessionID, text) =>
  hooks["chat.message"]({ sessionID }, { message: { id: "m-" + text }, parts: [{ type: "text", text }] });
"""


def screen(*typed: str, below: str = IDLE) -> str:
    """A screen whose input holds some lines."""
    box = [f"  ┃  {line}" for line in ("", *typed, "")]
    return "\n".join(
        ("  ┃  an earlier prompt", "", "     The answer.", "", *box, MODEL, EDGE, below)
    )


def test_the_story_of_a_session() -> None:
    """What the plugin told of the real program: a question, a turn broken off, another session, a compaction."""
    assert story("opencode") == [
        "started startup", "prompt", "idle", "prompt", "waiting", "busy", "idle", "prompt", "prompt",
        "idle", "started new", "prompt", "idle", "compacting manual", "compacted manual", "ended",
    ]  # fmt: skip
    events = told("opencode")
    assert [e.interrupted for e in events if e.kind == "idle"] == [False, False, True, False]
    assert [e.text for e in events if e.kind == "idle"][:2] == ["The scripted answer.", "Written."]
    assert [e.text for e in events if e.kind in ("waiting", "ended")] == ["permission for bash", "exit"]  # fmt: skip


def test_what_is_typed_while_it_works_joins_the_turn() -> None:
    """Both prompts have the id of the turn that ends with both."""
    _, _, steered, more, _ = (e.turn for e in told("opencode") if e.kind == "prompt")

    assert steered == more


def test_the_context_is_told_with_the_window() -> None:
    """In tokens, and in percent of what the model takes; behind a compaction nobody knows."""
    events = told("opencode")
    first = next(e for e in events if e.kind == "idle")

    assert (first.tokens, first.window, round(first.used or 0, 1)) == (8189, 128_000, 6.4)
    assert next(e for e in events if e.kind == "compacted").used is None


@pytest.mark.parametrize(
    ("shown", "sight"),
    [
        (screen(""), ScreenState("ready", "")),
        (screen('Ask anything… "Fix a TODO in the codebase"'), ScreenState("ready", "")),
        (screen("half", "a thought"), ScreenState("ready", "half\na thought")),
        (screen("日本 🎉".ljust(len(EDGE) - 8) + " /beside"), ScreenState("ready", "日本 🎉")),
        (screen("[Pasted ~42 lines]"), ScreenState("ready", "[Pasted ~42 lines]")),
        (screen("", below=WORKS), ScreenState("busy", "")),
        (screen("more", below=WORKS.replace("esc", "esc again to")), ScreenState("busy", "more")),
        (screen("") + "\n\n\n   ● Tip Use enter to confirm\n\n   ~/proj   1.18.33", ScreenState("ready", "")),
        ("  ┃  △ Permission required\n  ┃  $ ls\n  ┃\n  ┃   Allow once   Reject   enter confirm", ScreenState("waiting")),
        (screen("") + "\n  ┃  △ Permission required\n  ┃   Allow once   Reject   enter confirm", ScreenState("waiting")),
        ("  ┃  the end of an answer\n  ┃", ScreenState("unknown")),
        (EDGE, ScreenState("ready", "")),
        (screen("ls").replace(MODEL, "  ┃  Shell"), ScreenState("ready")),
        (screen("/he").replace("  ┃  \n  ┃  /he", "  ┃ /help  Help ┃\n  ┃\n  ┃  /he"), ScreenState("ready", "/he")),
    ],
)  # fmt: skip
def test_what_the_screen_says(shown: str, sight: ScreenState) -> None:
    """The line below the input tells that it works; a question stands in the input's place."""
    assert OPENCODE.read_screen(Screenshot(shown, "OC | proj")) == sight


def test_what_stands_beside_the_input_is_not_typed() -> None:
    """A wide window has a column of its own on the right."""
    wide = screen("half a thought").replace(
        "half a thought", f"half a thought{' ' * 60}~/proj:main"
    )

    assert OPENCODE.read_screen(Screenshot(wide)).typed == "half a thought"


def test_the_folder_may_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By both of its names, beside what the user allowed; rules that cannot be understood are left alone."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    request = AgentRequest("/w", "s", writable=(str(tmp_path / "link"),))
    ours = {f"{tmp_path / name}/*": "allow" for name in ("link", "real")}

    def given(own: str) -> object:
        monkeypatch.setenv("OPENCODE_PERMISSION", own)
        found = OPENCODE.plan_start(request).env
        return json.loads(found["OPENCODE_PERMISSION"]) if found else None

    assert given("") == {"external_directory": ours}
    assert given('{"bash": "ask", "external_directory": {"/x/*": "deny"}}') == {
        "bash": "ask",
        "external_directory": {"/x/*": "deny", **ours},
    }
    for own in ('"deny"', '{"external_directory": "deny"}', "{"):
        assert given(own) is None
    assert OPENCODE.plan_start(AgentRequest("/w", "s")).env == {}


@pytest.fixture
def told_by(tmp_path: Path) -> object:
    """Runs the plugin in node with calls of the program's, and gives the payloads that the script got."""
    node = shutil.which("node") or str(programs.node())
    (addition,) = OPENCODE.list_additions(str(tmp_path / "hook.sh"))
    assert isinstance(addition, OwnFile)
    (tmp_path / "fleet.mjs").write_text(addition.content)
    (tmp_path / "hook.sh").write_text(f'{{ cat; echo; }} >> "{tmp_path}/told"; exit 1\n')

    def run(calls: str) -> list[dict[str, object]]:
        (tmp_path / "run.mjs").write_text(f"{DRIVER}\n{calls}\nawait hooks.dispose();\n")
        done = subprocess.run([node, "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        told = tmp_path / "told"
        return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []

    return run


def kinds(payloads: list[dict[str, object]]) -> list[object]:
    """Their events."""
    return [payload["event"] for payload in payloads]


def test_a_sub_agent_is_no_session_of_its_own(told_by) -> None:  # type: ignore[no-untyped-def]
    """Its prompt and its end are not the agent's; its question is."""
    payloads = told_by("""
    await at("session.created", { sessionID: "a", info: { id: "a" } });
    await say("a", "go");
    await at("session.created", { sessionID: "b", info: { id: "b", parentID: "a" } });
    await say("b", "look");
    await at("permission.asked", { sessionID: "b", permission: "bash" });
    await at("session.idle", { sessionID: "b" });
    await at("session.idle", { sessionID: "a" });
    await at("session.idle", { sessionID: "a" });
    """)

    assert kinds(payloads) == ["started", "prompt", "child_started", "waiting", "child_ended", "idle", "ended"]  # fmt: skip
    assert {payload["session"] for payload in payloads} == {"a"}


def test_a_session_that_is_gone_on_with_is_told(told_by) -> None:  # type: ignore[no-untyped-def]
    """No event says that it began: its first prompt does."""
    payloads = told_by('await say("old", "go on");')

    assert kinds(payloads) == ["started", "prompt", "ended"]
    assert payloads[0]["source"] == "resume"


def test_an_error_of_the_models_ends_the_turn(told_by) -> None:  # type: ignore[no-untyped-def]
    """Its words are the last ones; it is no interruption."""
    payloads = told_by("""
    await say("a", "go");
    await at("session.error", { sessionID: "a", error: { name: "APIError", data: { message: "No credit." } } });
    await at("session.idle", { sessionID: "a" });
    """)

    assert (payloads[2]["text"], payloads[2]["aborted"]) == ("No credit.", False)


def test_the_program_is_never_harmed(told_by, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Events of any shape, and a script that is gone, throw nothing."""
    payloads = told_by("""
    for (const given of [undefined, {}, { info: 7, part: [], error: "x" }])
      for (const name of ["session.created", "session.idle", "message.part.updated", "message.updated",
        "session.error", "permission.asked", "session.compacted", "x", undefined]) await at(name, given);
    await hooks.event({});
    await hooks["chat.message"]({}, {});
    """)
    assert payloads == []
    (tmp_path / "hook.sh").unlink()

    assert told_by('await say("a", "go");') == []
