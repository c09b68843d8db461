"""The environment of the agent that called a hook: some agents withhold their keys from hooks.

Other variables must not reach a successor.
"""

import os
from pathlib import Path

PROC = Path("/proc")
MOST_ANCESTORS = 8
"""Most ancestors that are looked at: a shell or two, the agent, its launcher."""
PROCESS_VARIABLES = frozenset(("NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_UNIQUE_ID",
                            "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "_", "SHLVL", "OLDPWD"))  # fmt: skip
"""Variables of one process: a node told of a channel that it was not given ends at once."""
AGENT_VARIABLES = (
    "CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_CHILD_NOTES_DIR", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_EFFORT", "CLAUDE_ENV_FILE", "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR", "AI_AGENT", "CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_PACKAGE_ROOT",
    "CODEX_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH", "GEMINI_CWD",
    "GEMINI_PLANS_DIR", "GEMINI_PROJECT_DIR", "GEMINI_SESSION_ID", "OPENCODE", "OPENCODE_PID",
    "COPILOT_CLI", "COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_RESOLVED_DIST_DIR", "COPILOT_HOOK_DIR",
    "COPILOT_LOADER_PID", "COPILOT_PROJECT_DIR",
)  # fmt: skip
"""Agents set these for children; a successor that inherits them keeps no thread of its own."""


def find_withheld_variables() -> dict[str, str]:
    """Find variables of the agent that its hook did not get, so that a successor can have them.

    Of several ancestors that have one the nearest counts; none beyond the pane is asked. Empty
    where processes cannot be looked into. The values may be secrets: they go to the successor's
    process and nowhere else.
    """
    variables: dict[str, str] = {}
    pid = os.getppid()
    for _ in range(MOST_ANCESTORS):
        name, parent = _read_process(pid)
        if parent <= 1 or name.startswith("tmux"):
            break
        variables = _read_environment(pid) | variables
        pid = parent
    return {
        k: v for k, v in variables.items() if k not in os.environ and k not in PROCESS_VARIABLES
    }


def _read_environment(pid: int) -> dict[str, str]:
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in raw.split(b"\0") if b"=" in word)
    return {name: value for name, _, value in pairs}


def _read_process(pid: int) -> tuple[str, int]:
    """Read the name and parent of a process, empty and 0 where it cannot be looked into."""
    try:
        status = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "", 0
    head, _, rest = status.rpartition(")")
    return head.partition("(")[2], int(rest.split()[1])
