"""What tasuki adds to pi, oh-my-pi, Gemini CLI, opencode and Copilot CLI, and how their hooks speak."""

import json
import os
import shlex
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hooks import SHELLS, Session, in_shell, program

from tasuki.config.toml_text import find_value
from tasuki.harness import registry as harnesses
from tasuki.harness.copilot.hooks import CopilotIntegration
from tasuki.harness.gemini.hooks import ASSETS as GEMINI
from tasuki.harness.gemini.hooks import GeminiIntegration
from tasuki.harness.integration import HarnessIntegration, HookAnswer, HookCall, JsonEntry, OwnFile
from tasuki.harness.opencode.hooks import OpencodeIntegration

NAMES = ("pi", "omp", "gemini", "opencode", "copilot")
TOLD = ("gemini", "copilot")
"""Those whose hooks are commands of a shell."""
ODD = '/home/a b/it\'s "q" $HOME `id`/tasuki'
GOALS = (
    "add the missing test",
    "use $$ and $& in `a  b`\n\n  - keep \"quotes\", 'x', $(id)\n\t- tabs\n",
    "what about\n</tasuki-handoff-goal>\n\n<!-- tasuki: -->\n\n/handoff and --> that",
    "  ü 字 \u2028 with leading blanks",
    "x" * 100_000,
    "",
)


def made(name: str) -> HarnessIntegration:
    """What is added to one harness."""
    found = harnesses.get_integration(harnesses.get_harness(name))
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own."""
    for name in ("PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME",
                 "XDG_DATA_HOME", "TASUKI_DATA", "TASUKI_CONFIG"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


# -- payloads ------------------------------------------------------------------------------


def gemini_prompt(goal: str) -> str:
    """What Gemini makes of the command: its prompt, and what was typed behind it."""
    prompt = find_value((GEMINI / "command.toml").read_text(), ("prompt",))
    return f"{prompt}\n\n/handoff {goal}" if goal else str(prompt)


def gemini(goal: str) -> dict[str, Any]:
    """The payload of Gemini's hook on prompts."""
    return {"session_id": "s", "transcript_path": "/t.json", "cwd": "/p",
            "hook_event_name": "BeforeAgent", "prompt": gemini_prompt(goal)}  # fmt: skip


def copilot(goal: str) -> dict[str, Any]:
    """The payload of Copilot's hook on prompts, with the skill filled in."""
    files = [a for a in CopilotIntegration().list_additions(("/t",)) if isinstance(a, OwnFile)]
    body = files[0].content.partition("---\n\n")[2].replace("$ARGUMENTS", goal)
    said = (
        f'The user explicitly invoked the "/handoff" skill. Follow it.\n<skill>\n{body}\n</skill>'
    )
    return {"sessionId": "0b1c-22", "timestamp": 1, "cwd": "/p", "prompt": said}


@pytest.mark.parametrize("goal", GOALS)
def test_the_goal_is_taken_to_the_letter(goal: str) -> None:
    """Lines, blanks, what a shell or JavaScript would expand, and the marks around it themselves."""
    for call in (
        GeminiIntegration().parse_hook_call(gemini(goal)),
        CopilotIntegration().parse_hook_call(copilot(goal)),
        OpencodeIntegration().parse_hook_call({"event": "handoff", "session": "s", "goal": goal}),
    ):
        assert call is not None
        assert (call.kind, call.text) == ("handoff", goal)


@pytest.mark.parametrize("prompt", [
    "say /handoff now", "/handoffs all", "<!-- tasuki is fine -->", "a <!-- tasuki: x --> /handoff it",
    "<!-- tasuki: x -->\n\nmend it", "<tasuki-handoff-goal>\nx\n</tasuki-handoff-goal>",
    'The user explicitly invoked the "/other" skill.\n<tasuki-handoff-goal>\nx\n</tasuki-handoff-goal>',
    'He said: The user explicitly invoked the "/handoff" skill. <tasuki-handoff-goal>\nx\n</tasuki-handoff-goal>',
])  # fmt: skip
def test_a_prompt_that_only_looks_like_the_command_is_none(prompt: str) -> None:
    """It goes to the model as it is."""
    assert GeminiIntegration().parse_hook_call({**gemini("x"), "prompt": prompt}) is None
    assert CopilotIntegration().parse_hook_call({**copilot("x"), "prompt": prompt}) is None


WRONG: tuple[object, ...] = (
    None, True, 7, -1, 1e400, float("nan"), 10**400, "", "\0", "a\0b", "../../etc", "/", "..", "x" * 100_000,
    "\ud83d", [], ["/handoff"], {}, {"a": {}},
)  # fmt: skip
KEYS = ("hook_event_name", "transcript_path", "session_id", "cwd", "prompt", "event", "path", "used",
        "thread", "session", "goal", "sessionId", "stopReason", "transcriptPath")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:12])
def test_any_payload_is_taken(name: str, value: object) -> None:
    """Wrong types, numbers that are none, paths in ids, NULs: nothing raises, and no id leads elsewhere."""
    whole: tuple[Mapping[str, object], ...] = (
        gemini("a"), copilot("a"), {**gemini("a"), "hook_event_name": "AfterAgent"},
        {"event": "turn", "session": "s", "path": "/t", "thread": "s", "used": 80},
        {"event": "handoff", "session": "s", "goal": "a"}, {"sessionId": "s", "stopReason": "end"},
    )  # fmt: skip
    for payload in (
        {},
        dict.fromkeys(KEYS, value),
        *({**p, key: value} for p in whole for key in p),
    ):
        call = made(name).parse_hook_call(payload)
        if call is not None:
            assert isinstance(call.text, str)
            assert call.used is None or 0 <= call.used <= 1000
            assert name != "copilot" or ".." not in call.path or value == ".."


@pytest.mark.parametrize("session", ["a/b", "../x", "a\0b", "x" * 300, "ü", "\ud83d", "a\n"])
def test_a_session_of_copilot_is_a_name_and_no_path(session: str) -> None:
    """Anything else is not looked for on the disk."""
    assert CopilotIntegration().parse_hook_call({**copilot("a"), "sessionId": session}) is None


def test_the_end_of_a_turn_of_a_session_that_nobody_lists_asks_for_nothing(home: Path) -> None:
    """A sub-agent's session of opencode is listed by none; nor is one in a damaged database."""
    database = home / ".local" / "share" / "opencode" / "opencode.db"
    turn = {"event": "turn", "session": "ses_1"}
    assert OpencodeIntegration().parse_hook_call(turn) is None
    database.parent.mkdir(parents=True)
    database.write_bytes(b"no database")
    assert OpencodeIntegration().parse_hook_call(turn) is None
    database.unlink()
    sqlite3.connect(database).close()
    assert OpencodeIntegration().parse_hook_call(turn) is None


# -- the shell in front ----------------------------------------------------------------------


def shell_commands(name: str, program: str) -> list[str]:
    """The shell commands of a harness's hooks: that of a prompt, that of a turn's end."""
    additions = made(name).list_additions((program,))
    if name == "gemini":
        hooks = [a.value for a in additions if isinstance(a, JsonEntry) and a.keys[0] == "hooks"]
        return [hook["hooks"][0]["command"] for hook in hooks]
    file = next(a for a in additions if a.path.endswith(".json") and isinstance(a, OwnFile))
    return [event[0]["bash"] for event in json.loads(file.content)["hooks"].values()]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", TOLD)
def test_only_the_command_starts_tasuki(tmp_path: Path, name: str, shell: str) -> None:
    """It gets the payload byte for byte, in a folder of any name; other prompts end in the shell."""
    seen = tmp_path / "seen"
    runs = tmp_path / 'it\'s "q" $HOME `id`' / "tasuki"
    runs.parent.mkdir()
    runs.write_text(f"#!/bin/sh\nexec cat >{shlex.quote(str(seen))}\n")
    runs.chmod(0o755)
    front, end = shell_commands(name, str(runs))

    def run(command: str, payload: str) -> bytes:
        done = in_shell(shell, command, payload.encode())
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        return seen.read_bytes() if seen.exists() else b""

    payload = {"gemini": gemini, "copilot": copilot}[name]
    for other in ("", "mend it", "say /handoff", 'x","prompt":"/handoff', "$(id) `id` %s \\n\0"):
        assert (
            run(front, json.dumps({**payload("a"), "prompt": other}, separators=(",", ":"))) == b""
        )
    for goal in GOALS:
        whole = json.dumps(payload(goal), ensure_ascii=False, separators=(",", ":"))
        assert run(front, whole) == whole.encode()
        seen.unlink()
    assert run(end, "{}") == b"{}"
    seen.unlink()
    runs.unlink()
    assert run(end, "{}") == b""


# -- what is added -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_tasuki_may_lie_in_a_folder_of_any_name(name: str) -> None:
    """Blanks, quotes and signs of a shell: JSON and code hold the path as it is."""
    for command in ((ODD,), (ODD, "-m", "tasuki")):
        for addition in made(name).list_additions(command):
            if isinstance(addition, JsonEntry) and addition.name == "tasuki":
                started = addition.value["command"]
                whole = started if isinstance(started, list) else [started, *addition.value["args"]]
                assert whole == [*command, "mcp"]
            elif isinstance(addition, OwnFile) and addition.path.endswith((".ts", ".js")):
                assert f"= {json.dumps(list(command))};" in addition.content


@pytest.mark.parametrize("name", NAMES)
def test_the_tools_are_told_where_tasuki_keeps_its_data(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs start a server without the user's own environment."""
    monkeypatch.setenv("TASUKI_DATA", "/elsewhere")
    (server,) = [a.value for a in made(name).list_additions(("/t",))
                 if isinstance(a, JsonEntry) and a.name == "tasuki"]  # fmt: skip
    environment = server.get("env") or server["environment"]

    assert environment == {"TASUKI_INSTALLED": "1", "TASUKI_DATA": "/elsewhere"}


USERS = {
    "pi": {".pi/agent/mcp.json": '{\n\t"mcpServers": {"mine": {"command": "x"}}}',
           ".pi/agent/extensions/mine.ts": "export default () => {}\n"},
    "omp": {".omp/agent/mcp.json": '{"mcpServers": {}, "x": [1, 2]}\r\n'},
    "gemini": {".gemini/settings.json": '{\n  // mine\n  "hooks": {"BeforeAgent": [{"matcher": "*", "hooks": '
               '[{"type": "command", "command": "say \\"hi\\""}]}]}, /* more */\n  "mcpServers": {}\n}\n',
               ".gemini/commands/mine.toml": 'prompt = "x"\n'},
    "opencode": {".config/opencode/opencode.jsonc": '{\n  // a comment, with "quotes"\n  "model": "a/b", // the large one\n'
                 '  "mcp": {"mine": {"type": "local", "command": ["x"]},},\n}\n',
                 ".config/opencode/opencode.json": '{"share": "disabled"}'},
    "copilot": {".copilot/mcp-config.json": '{"mcpServers":{"mine":{"type":"local","command":"x","args":[],"tools":["*"]}}}',
                ".copilot/hooks/mine.json": '{"version": 1, "hooks": {}}', ".copilot/skills/mine/SKILL.md": "mine\n"},
}  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A user without any program of a harness on the PATH but those that a test puts there."""
    session = Session(tmp_path)
    session.env["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    return session


def everything(home: Path) -> dict[str, bytes]:
    """Every file and folder of the home."""
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in home.rglob("*")}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("with_own", [True, False])
def test_what_was_installed_goes_without_a_trace(
    session: Session, home: Path, name: str, with_own: bool
) -> None:
    """Beside the user's own entries, comments and files, or where there was nothing."""
    for path, content in USERS[name].items() if with_own else ():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(content.encode())
    before = everything(home)
    said = session.run("install", name, "--yes")
    assert said.returncode == 0, said.stderr
    assert max(map(len, said.stdout.splitlines())) <= 110
    for path, content in before.items():
        assert not content or len(everything(home)[path]) >= len(content)
    again = session.run("install", name, "--yes")
    assert "Nothing to do." in again.stdout
    assert session.run("uninstall", name, "--yes").returncode == 0

    assert everything(home) == before


# -- doctor --------------------------------------------------------------------------------


def doctor(session: Session, name: str) -> str:
    """What doctor says of one harness, line ends as blanks; no line over 80 columns."""
    done = session.run("doctor", name)
    assert done.stderr == ""
    for line in done.stdout.splitlines():
        assert len(line) <= 80 or str(session.root) in line, line
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("name", NAMES)
def test_doctor_sees_what_is_installed_and_what_is_broken(
    session: Session, home: Path, name: str
) -> None:
    """Every part that was taken out is named with the line that brings it back."""
    program(session, harnesses.get_harness(name).program, "echo 1.0.0")
    session.run("install", name, "--yes")
    whole = doctor(session, name)
    assert "!" not in whole, whole
    assert f"inside {made(name).command} (" in whole
    for addition in made(name).list_additions(("/t",)):
        if isinstance(addition, OwnFile):
            content = Path(addition.path).read_bytes()
            os.unlink(addition.path)
            said = doctor(session, name)
            assert f"! A part is missing: {addition.what}. → tasuki install {name}" in said
            Path(addition.path).write_bytes(content)
        else:
            Path(addition.path).write_bytes(b"{ broken" + Path(addition.path).read_bytes())
            said = doctor(session, name)
            assert f"! {addition.path} was not changed" in said
            assert "cannot" in said or "not valid" in said or "not JSON" in said, said
            Path(addition.path).unlink()
            session.run("install", name, "--yes")


@pytest.mark.parametrize(("settings", "what"), [
    ({"hooksConfig": {"enabled": False}}, "Hooks are switched off."),
    ({"hooksConfig": {"disabled": ["tasuki"]}}, "The hooks of tasuki are switched off."),
])  # fmt: skip
def test_hooks_of_gemini_that_are_off_are_told(
    session: Session, home: Path, settings: dict[str, Any], what: str
) -> None:
    """With the setting that does it."""
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(settings))
    session.run("install", "gemini", "--yes")

    assert f"! {what} → " in doctor(session, "gemini")


REJECTED = (
    ("claude", ".claude/settings.json", "{\n// mine\n}", "comments"),
    ("claude", ".claude/settings.json", '{"a": "//,}", "b": [1, /* x */], }', "commas before a closing bracket and comments"),
    ("claude", ".claude/settings.json", '\ufeff{"a": "// , ]"}', ""),
    ("claude", ".claude.json", "{/* mine */}", "comments"),
    ("codex", ".codex/hooks.json", "\ufeff{}", "the byte order mark"),
    ("codex", ".codex/hooks.json", '{"hooks": {},}', "commas before a closing bracket"),
    ("gemini", ".gemini/settings.json", "{} // mine", ""),
    ("gemini", ".gemini/settings.json", "\ufeff{}", "the byte order mark"),
    ("pi", ".pi/agent/mcp.json", "{} // mine", "comments"),
    ("opencode", ".config/opencode/opencode.json", "\ufeff{'a': 1,} // mine".replace("'", '"'), ""),
    ("copilot", ".copilot/mcp-config.json", "\ufeff{'a': 1,} // mine".replace("'", '"'), ""),
)  # fmt: skip
"""Files that tasuki can edit, and why their program skips them whole. Seen in the real programs."""


@pytest.mark.parametrize(("name", "file", "text", "why"), REJECTED)
def test_a_file_that_its_program_skips_is_told_before_something_is_added(
    session: Session, home: Path, name: str, file: str, text: str, why: str
) -> None:
    """What it holds that the program does not read, and what to do; again by the doctor."""
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    done = session.run("install", name, "--yes")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())

    warning = f"{path}, because of {why} in it. Remove them from that file. "
    assert said.partition(" + ")[0].count(warning) == bool(why)
    assert (f"because of {why} in it. → Remove them" in doctor(session, name)) == bool(why)
    session.run("uninstall", name, "--yes")
    assert path.read_text() == text


def test_damaged_settings_of_codex_are_told(session: Session, home: Path) -> None:
    """Codex does not start with them."""
    session.run("install", "codex", "--yes")
    with (home / ".codex" / "config.toml").open("a") as file:
        file.write("a =\n")

    assert "it is not TOML" in doctor(session, "codex")


@pytest.mark.parametrize(
    ("name", "file", "payload"),
    [
        ("claude", ".claude/skills/handoff/SKILL.md", {"hook_event_name": "UserPromptSubmit", "prompt": "/handoff x"}),
        ("claude", ".claude/commands/handoff.md", {"hook_event_name": "UserPromptSubmit", "prompt": "/handoff x"}),
        ("codex", ".agents/skills/handoff/SKILL.md", {"hook_event_name": "UserPromptSubmit", "prompt": "$handoff x"}),
        ("opencode", ".opencode/command/handoff.md", None),
        ("gemini", ".gemini/commands/handoff.toml", None),
        ("copilot", ".github/skills/handoff/SKILL.md", None),
    ],
)  # fmt: skip
def test_the_users_own_command_stays_theirs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    file: str,
    payload: dict[str, Any] | None,
) -> None:
    """One of the project by the same name is left alone, and named; tasuki's own file is no such one."""
    monkeypatch.chdir(tmp_path)
    call = {**(payload or {}), "cwd": str(tmp_path), "session_id": "s", "transcript_path": "/t"}
    own = tmp_path / file
    own.parent.mkdir(parents=True)
    own.write_text("Written by `tasuki install`\n")
    assert made(name).describe_own_command() == ()
    assert payload is None or made(name).parse_hook_call(call)
    own.write_text("---\nname: handoff\n---\nMine.\n")
    (told,) = made(name).describe_own_command()

    assert f"is your own, from {own}" in told
    assert payload is None or made(name).parse_hook_call(call) is None


def test_claude_gets_another_command_beside_the_users_own(home: Path) -> None:
    """What is installed then, and what the hook takes, is `/tasuki:handoff`."""
    own = home / ".claude" / "skills" / "handoff" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("Mine.\n")
    claude = made("claude")
    paths = [one.path for one in claude.list_additions(("tasuki",)) if isinstance(one, OwnFile)]
    payload = {"hook_event_name": "UserPromptSubmit", "cwd": "/", "session_id": "s"}
    call = claude.parse_hook_call({**payload, "prompt": "/tasuki:handoff go on"})

    assert claude.command == "/tasuki:handoff GOAL"
    assert str(home / ".claude" / "commands" / "tasuki" / "handoff.md") in paths
    assert call
    assert (call.kind, call.text) == ("handoff", "go on")


def test_hooks_of_claude_that_are_off_elsewhere_are_told(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the project, by the user or for all, and by an organization; not in a file that is skipped."""
    (home / ".claude").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tasuki.harness.claude.hooks.MANAGED", (tmp_path / "etc",))
    find = made("claude").find_obstacles
    off = '{"disableAllHooks": true}'
    assert find() == ()
    for name, text, advice in (
        (".claude/settings.json", off, 'Remove "disableAllHooks" from .claude/settings.json.'),
        (".claude/settings.local.json", off, 'Remove "disableAllHooks" from .claude/settings.local.json.'),
        ("etc/managed-settings.json", off, 'Ask those who manage this computer: "disableAllHooks" in '),
        ("etc/managed-settings.d/a.json", '{"allowManagedHooksOnly": true}', 'computer: "allowManagedHooksOnly" in '),
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (told,) = find()
        assert told.startswith("Hooks are switched off. ")
        assert advice in told
        path.write_text(f"{text} // skipped")
        assert find() == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"hooksConfig": 3}',
        '{"hooksConfig": {"disabled": 7}}',
        '{"hooksConfig": {"disabled": [3]}}',
    ],
)
def test_any_settings_of_gemini_are_looked_at(home: Path, text: str) -> None:
    """What is odd there hinders nothing."""
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(text)
    assert GeminiIntegration().find_blockers() == ()


def test_an_extension_of_pi_that_is_off_is_told(session: Session, home: Path) -> None:
    """As `pi config` switches it off."""
    path = home / ".pi" / "agent" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"extensions": [7, "-extensions/other.ts", "+extensions/tasuki-handoff.ts"]}')
    session.run("install", "pi", "--yes")
    assert "!" not in doctor(session, "pi")
    path.write_text('{"extensions": ["-extensions/tasuki-handoff.ts"]}')

    assert "! The extension is switched off. → Remove it from" in doctor(session, "pi")


def test_an_answer_is_said_in_each_ones_form() -> None:
    """JSON where a hook must speak it, words elsewhere; Copilot shows nothing at the end of a turn."""
    stop, told = HookAnswer("no", blocked=True), HookAnswer("80 %")
    handoff, turn = HookCall("handoff", "/t"), HookCall("turn", "/t")
    assert json.loads(made("gemini").format_answer(handoff, stop)) == {
        "decision": "block",
        "reason": "no",
    }
    assert json.loads(made("gemini").format_answer(turn, told)) == {"systemMessage": "80 %"}
    assert made("copilot").format_answer(turn, told) == ""
    assert [made(name).format_answer(turn, told) for name in ("pi", "omp", "opencode")] == [
        "80 %"
    ] * 3
