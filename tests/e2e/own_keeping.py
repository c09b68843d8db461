"""Hand-written hooks that bring back, after a compaction, what its summary lacks of given texts.

They show, without tasuki, where each program takes words after a compaction, and where its summary
can be read by then. Run as a program, this is such a hook.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import World

TITLE = "Kept by hand:"
EXTENSION = """
const RULES = %s;
export default function (pi) {
  pi.on("session_compact", async (event, ctx) => {
    const branch = ctx.sessionManager.getBranch();
    const last = branch.findLast((entry) => entry.type === "compaction");
    const kept = branch.slice(branch.findIndex((entry) => entry.id === last.firstKeptEntryId));
    const text = [last.summary, ...kept.map((e) => JSON.stringify(e.message?.content ?? e.content ?? ""))].join("\\n");
    const missing = RULES.filter((rule) => !text.includes(rule));
    const content = ["%s", ...missing].join("\\n");
    pi.sendMessage({ customType: "kept", content, display: true }, { deliverAs: "steer" });
  });
}
"""
PLUGIN = """
const RULES = %s;
export const Kept = async ({ client }) => ({
  "experimental.text.complete": async (input, output) => {
    try {
      const path = { id: input.sessionID, messageID: input.messageID };
      const { data } = await client.session.message({ path });
      if (data?.info?.summary !== true) return;
      const missing = RULES.filter((rule) => !output.text.includes(rule));
      output.text = [output.text, "", "%s", ...missing].join("\\n");
    } catch {}
  },
});
"""
EVENTS = {
    "claude": {"SubagentStop": "", "SessionStart": "compact"},
    "codex": {"SessionStart": "compact"},
    "gemini": {"BeforeModel": "*"},
}
"""Where each program with hooks is listened to: event and matcher."""


def keep(world: "World", name: str, texts: Sequence[str]) -> None:
    """Put the hooks into a program that is set up."""
    (world.folder / "kept.json").write_text(json.dumps(texts))
    command = f"{sys.executable} {Path(__file__).resolve()} {name} {world.folder}"
    if name in ("pi", "omp"):
        world.write(f".{name}/agent/extensions/kept.ts", EXTENSION % (json.dumps(texts), TITLE))
    elif name == "opencode":
        world.write(".config/opencode/plugin/kept.js", PLUGIN % (json.dumps(texts), TITLE))
    elif name == "copilot":
        events = ("userPromptSubmitted", "postToolUse")
        hooks = {event: [{"type": "command", "bash": command}] for event in events}
        world.write(".copilot/hooks/kept.json", {"version": 1, "hooks": hooks})
    else:
        entry = [{"type": "command", "command": command}]
        hooks = {event: [{"matcher": m, "hooks": entry}] for event, m in EVENTS[name].items()}
        path = ".codex/hooks.json" if name == "codex" else f".{name}/settings.json"
        file = world.home / path
        before = json.loads(file.read_text()) if file.exists() else {}
        world.write(path, {**before, "hooks": hooks})


def _block(folder: Path, text: str) -> str:
    wanted = json.loads((folder / "kept.json").read_text())
    return "\n".join([TITLE, *(one for one in wanted if one not in text)])


def _is_new(folder: Path, session: str, compaction: int) -> bool:
    """Whether nothing was said yet about a compaction of a session, counted from 1."""
    try:
        (folder / f"said-{session}-{compaction}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _context(event: str, block: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}}


def _claude(folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """The summary is not in the thread yet: it is the last answer of a nameless sub-agent."""
    kept = folder / f"summary-{told['session_id']}.txt"
    if told["hook_event_name"] == "SubagentStop":
        if not told["agent_type"]:
            kept.write_text(told["last_assistant_message"])
        return {}
    return _context("SessionStart", _block(folder, kept.read_text()))


def _codex(folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Once for each compaction: after two in a row the hook runs twice at the next prompt."""
    lines = map(json.loads, Path(told["transcript_path"]).read_text().splitlines())
    done = [line["payload"] for line in lines if line["type"] == "compacted"]
    history = done[-1]["replacement_history"]
    texts = [part["text"] for one in history for part in one.get("content", [])]
    block = _block(folder, "\n".join([done[-1]["message"], *texts]))
    return _context("SessionStart", block) if _is_new(folder, told["session_id"], len(done)) else {}


def _gemini(folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    messages = told["llm_request"]["messages"]
    holding = [one for one in messages if "<state_snapshot>" in one["content"]]
    if not holding:
        return {}
    text = "\n".join(one["content"] for one in messages)
    holding[0]["content"] += f"\n\n{_block(folder, text)}"
    request = {"messages": messages}
    return {"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": request}}


def _copilot(folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Once for each checkpoint: it is there before the line of the thread that tells the same."""
    home = folder / "home" / ".copilot" / "session-state" / told["sessionId"]
    done = sorted(home.glob("checkpoints/[0-9]*.md"))
    if not done or not _is_new(folder, told["sessionId"], len(done)):
        return {}
    return {"additionalContext": _block(folder, done[-1].read_text())}


HOOKS: dict[str, Callable[[Path, dict[str, Any]], dict[str, Any]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "copilot": _copilot,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(HOOKS[sys.argv[1]](Path(sys.argv[2]), json.load(sys.stdin))))
