"""What is installed in a harness once tasuki itself is gone: silent, and the prompt passes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasuki.harness import registry as harnesses
from tasuki.harness.integration import GONE, Addition

NAMES = ("claude", "codex", "gemini", "copilot")
"""Harnesses whose hooks are commands of a shell."""
PAYLOADS = (
    '{"sessionId": "a-1", "agent_type":"", "x": "<state_snapshot>"}',
    '{"session_id": "a", "hook_event_name": "UserPromptSubmit", "prompt": "fix \'it\'"}',
    '{"hook_event_name": "Stop", "stopReason": "end", "last_assistant_message": "done"}',
    '{"context_window": {"used_percentage": 81}}',
)
HANDOFFS = {"claude": "/handoff", "codex": "$handoff", "gemini": "/handoff",
            "copilot": "<tasuki-handoff-goal>"}  # fmt: skip
SHELLS = ("sh", "bash")


def make_remains(folder: Path) -> Iterator[tuple[str, ...]]:
    """A program that is gone, one whose Python is gone, and one whose package is gone."""
    yield (str(folder / "it's gone" / "tasuki"),)
    script = folder / "tasuki"
    script.write_text(f"#!{folder}/venv/bin/python\nfrom tasuki import main\n")
    script.chmod(0o755)
    yield (str(script),)
    yield (sys.executable, "-S", "-c", "import tasuki_that_is_gone")


def list_hooks(name: str, tasuki: tuple[str, ...]) -> list[str]:
    """Every command that `tasuki install --fleet --keep` puts into a harness."""
    harness = harnesses.get_harness(name)
    integration, control = harnesses.get_integration(harness), harnesses.get_control(harness)
    assert integration is not None
    assert control is not None
    additions: list[Addition] = [
        *integration.list_additions(tasuki),
        *integration.list_compaction_additions(tasuki),
        *control.list_additions("/nowhere/hook.sh"),
    ]
    return [command for addition in additions for command in _find_commands(addition)]


def run_hook(shell: str, command: str, payload: str, folder: Path) -> tuple[int, str, str]:
    """What a harness would see of a hook."""
    done = subprocess.run(
        [shell, "-c", command], input=payload, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", NAMES)
def test_a_hook_that_outlives_tasuki_is_silent(name: str, shell: str, tmp_path: Path) -> None:
    """It prints nothing and ends with 0, whatever is missing: the prompt goes to the model."""
    for tasuki in make_remains(tmp_path):
        commands = list_hooks(name, tasuki)
        assert len(commands) > 3
        for command in commands:
            for payload in PAYLOADS:
                assert run_hook(shell, command, payload, tmp_path) == (0, "", ""), command


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", NAMES)
def test_a_handoff_after_tasuki_is_gone_is_told_to_the_user_alone(
    name: str, shell: str, tmp_path: Path
) -> None:
    """One sentence where the harness shows it to the user; nowhere is the prompt stopped."""
    payload = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": f"{HANDOFFS[name]} go"})
    told = {"systemMessage": GONE.replace("HARNESS", name)}
    missing, without_python, without_package = make_remains(tmp_path)
    for tasuki in (missing, without_python):
        answers = [
            run_hook(shell, command, payload, tmp_path) for command in list_hooks(name, tasuki)
        ]
        said = [json.loads(output) for _, output, _ in answers if output]
        assert {(code, errors) for code, _, errors in answers} == {(0, "")}
        assert said == ([] if name == "copilot" else [told])
    for command in list_hooks(name, without_package):
        assert run_hook(shell, command, payload, tmp_path) == (0, "", "")


def _find_commands(addition: Addition) -> list[str]:
    found: list[str] = []

    def look(value: object) -> None:
        if isinstance(value, dict):
            if value.get("type") == "command":
                found.extend(value[key] for key in ("command", "bash") if key in value)
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    content = getattr(addition, "content", "")
    look(json.loads(content) if content.startswith("{") else getattr(addition, "value", None))
    return found
