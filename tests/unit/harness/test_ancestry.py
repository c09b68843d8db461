"""What an agent keeps from its hooks a successor can still have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasuki.model import Thread

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")

ASK = "import json; from tasuki.launch.processes import find_withheld_variables; print(json.dumps(find_withheld_variables()))"
AGENT = f"import subprocess, sys; subprocess.run(['env', '-u', 'AGENT_KEY', sys.executable, '-c', {ASK!r}])"


def asked(**env: str) -> str:
    """What a hook finds out whose agent has some variables and takes one out."""
    command = [sys.executable, "-c", AGENT]
    return subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=True
    ).stdout


def test_a_variable_that_the_agent_took_out_is_found() -> None:
    """It is that of the agent's process."""
    assert '"AGENT_KEY": "k-1"' in asked(AGENT_KEY="k-1")


def test_a_variable_that_the_hook_has_is_not_told_again() -> None:
    """What is there already stays as it is."""
    assert "OTHER_NAME" not in asked(OTHER_NAME="x", AGENT_KEY="k-1")


def test_what_means_one_process_alone_goes_to_no_other() -> None:
    """Gemini starts itself again with a channel to its child; a successor that is told of it ends."""
    agent = AGENT.replace("'AGENT_KEY'", "'AGENT_KEY', '-u', 'NODE_CHANNEL_FD'")
    env = {**os.environ, "NODE_CHANNEL_FD": "3", "AGENT_KEY": "k-1"}
    command = [sys.executable, "-c", agent]
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert "AGENT_KEY" in said
    assert "NODE_CHANNEL_FD" not in said


def test_the_skill_that_hands_off_is_never_inherited() -> None:
    """Else a successor would hand itself on with its first prompt."""
    used = ("tidy", "handoff", "handing-off")

    assert Thread(harness="pi", id="t", path="", skills=used).last_skill == "tidy"
    assert Thread(harness="pi", id="t", path="", skills=used[1:]).last_skill == ""
