"""Programs of agents that speak ACP: what a name means, and how one is started."""

import sys
from pathlib import Path

import msgspec
import pytest
from fakes.acp_agent import AcpScript
from tree import TESTS

from tasuki.errors import AgentFailed, HarnessMissing, UsageError
from tasuki.session.agent_session.acp_backend import AcpBackend
from tasuki.session.agent_session.acp_program import AcpProgram, find_acp_program


async def test_a_program_that_speaks_no_acp(tmp_path: Path) -> None:
    """It ended at once: its last words are told."""
    script = "import sys; sys.exit('no such option: --acp')"
    backend = AcpBackend(AcpProgram((sys.executable, "-c", script)), tmp_path)

    with pytest.raises(AgentFailed, match=r"(?s)ended with status 1.*no such option: --acp"):
        await backend.open([], lambda event: None)
    await backend.close()


async def test_much_on_standard_error(tmp_path: Path) -> None:
    """Two megabytes on standard error stop nobody."""
    script = tmp_path / "script-loud.json"
    script.write_bytes(msgspec.json.encode(AcpScript()))
    loud = (
        f"import runpy, sys; sys.stderr.write('x' * 2_000_000); sys.path.insert(0, {str(TESTS)!r}); "
        f"sys.argv = ['a', {str(script)!r}]; runpy.run_module('fakes.acp_agent', run_name='__main__')"
    )
    backend = AcpBackend(AcpProgram((sys.executable, "-c", loud)), tmp_path)
    await backend.open([], lambda event: None)

    assert await backend.prompt(["hello"], lambda event: None) == "end_turn"
    await backend.close()


async def test_it_gets_the_whole_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys reach the agent; what tells it that it runs inside another agent does not."""
    monkeypatch.setenv("SOME_API_KEY", "dummy")
    monkeypatch.setenv("CLAUDECODE", "1")
    script = "import os,sys; sys.exit(repr({k: os.environ.get(k) for k in ('SOME_API_KEY', 'CLAUDECODE')}))"
    backend = AcpBackend(AcpProgram((sys.executable, "-c", script)), tmp_path)

    with pytest.raises(AgentFailed, match="'SOME_API_KEY': 'dummy', 'CLAUDECODE': None"):
        await backend.open([], lambda event: None)
    await backend.close()


def test_names_of_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A harness's name means its ACP command, a command line itself; what is missing says how it is
    installed."""
    for name in ("gemini", "claude-agent-acp"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_acp_program("gemini").command == ("gemini", "--acp")
    assert find_acp_program("claude").command == ("claude-agent-acp",)
    assert find_acp_program("gemini --acp --model 'a b'").command == (
        "gemini",
        "--acp",
        "--model",
        "a b",
    )
    assert find_acp_program("gemini --acp --model fast").harness == "gemini"
    assert find_acp_program(f"{tmp_path}/gemini").name == "gemini"
    with pytest.raises(HarnessMissing, match="npm install -g @agentclientprotocol/codex-acp"):
        find_acp_program("codex")
    with pytest.raises(HarnessMissing, match="The program nothing is not on your PATH"):
        find_acp_program("nothing --acp")
    with pytest.raises(UsageError, match="cannot be read"):
        find_acp_program("gemini 'unfinished")
    with pytest.raises(UsageError, match="No agent named"):
        find_acp_program(" ")
