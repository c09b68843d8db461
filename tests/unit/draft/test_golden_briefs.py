"""Whole printed briefs of captured threads, which a person reads when they change.

A section that goes missing or a line that turns false is seen in the review of `tests/golden`.
Written anew by: TASUKI_WRITE_GOLDEN=1 scripts/test tests/unit/draft/test_golden_briefs.py
"""

import os
from pathlib import Path

import pytest
from tree import FIXTURES

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft.brief import join_brief
from tasuki.draft.pipeline import make_handoff
from tasuki.harness import registry as harnesses
from tasuki.model import Goal

GOLDEN = FIXTURES.parent / "golden"
THREADS = {
    "claude-tui": "claude/2.1.330-tui/8b1603a1-c121-4192-ac14-218ed4124327.jsonl",
    "claude-headless": "claude/2.1.330-headless/22a608f2-6173-4442-adb0-3988f90a10e9.jsonl",
    "claude-plan": "claude/2.0.76/8a846500-2bb5-4b8c-9575-e6179372a3b2.jsonl",
    "codex-tui": "codex/0.169-tui",
    "codex-headless": "codex/0.169-headless",
    "codex-old": "codex/0.53",
    "copilot": "copilot/everything",
    "gemini": "gemini/everything.jsonl",
    "pi-branches": "pi/tui15-compaction-branch-label.jsonl",
    "omp": "omp/headless.jsonl",
    "opencode": "opencode/export-1.18.json",
    "aider": "aider/chats-0.86.md",
}
GOAL = "Go on with the open work, and test what is there"


def find_thread(name: str) -> Path:
    """The thread file of a name: the largest in its folder."""
    path = FIXTURES / THREADS[name]
    files = [file for file in path.rglob("*.jsonl") if file.is_file()] if path.is_dir() else [path]
    return max(files, key=lambda file: file.stat().st_size)


@pytest.mark.parametrize("name", THREADS)
def test_a_captured_thread_gives_the_brief_that_was_reviewed(name: str) -> None:
    """The brief is the same to the character as the one in the folder of golden briefs."""
    path = find_thread(name)
    loaded = LoadedSettings(Settings(author="offline"))
    result = make_handoff(
        harnesses.detect_harness(path), path, Goal(text=GOAL), loaded,
        handoff_id="0" * 32, to="claude", replay=True,
    )  # fmt: skip
    brief = join_brief(result.context, GOAL).replace(str(FIXTURES), "/home/dev") + "\n"
    brief = brief.replace(result.thread.id, "ID")  # That of aider's threads is made of their path.
    golden = GOLDEN / f"{name}.md"
    if "TASUKI_WRITE_GOLDEN" in os.environ:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(brief)

    assert brief == golden.read_text(), f"Read {golden} beside {path}, then write it anew"
