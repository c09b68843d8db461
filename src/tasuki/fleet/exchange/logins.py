"""Whether somebody is logged in to a harness on this host, by what its program leaves behind.

Nothing is run and no key is read: only names of variables and files are looked for. A program may
keep its login elsewhere, so its absence is a hint, never a proof.
"""

import os
import sys
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tasuki.files import find_home_folder


class LoginTraces(Struct, frozen=True):
    """Variables and files below the home folder of which one is there after a login."""

    variables: tuple[str, ...]
    files: tuple[str, ...]


_TRACES = {
    "claude": LoginTraces(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
         "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
        (".claude/.credentials.json",),
    ),
    "codex": LoginTraces(("OPENAI_API_KEY", "CODEX_API_KEY"), (".codex/auth.json",)),
    "pi": LoginTraces(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), (".pi/agent/auth.json",)),
    "gemini": LoginTraces(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"), (".gemini/oauth_creds.json",)
    ),
    "opencode": LoginTraces(
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), (".local/share/opencode/auth.json",)
    ),
    "copilot": LoginTraces(("GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN"), (".copilot/config.json",)),
}  # fmt: skip
"""Seen in Claude Code 2.1, Codex 0.169, pi 0.68, Gemini CLI 0.9, opencode 1.18, Copilot CLI 1.0."""


def find_login(name: str) -> Literal["yes", "no", "unknown"]:
    """Tell whether traces of a login to a harness are on this host."""
    traces = _TRACES.get(name)
    if traces is None:
        return "unknown"
    if any(os.environ.get(variable) for variable in traces.variables):
        return "yes"
    home = find_home_folder()
    try:
        if home and any((Path(home) / file).exists() for file in traces.files):
            return "yes"
    except OSError:  # a folder that may not be read
        return "unknown"
    return "unknown" if sys.platform == "darwin" else "no"  # macOS has a keychain
