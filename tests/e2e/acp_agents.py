"""The real agents that speak ACP: how each is set up in a world, and started."""

import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import npm_programs
import pytest
from agents import PROGRAMS

if TYPE_CHECKING:
    from conftest import World

NOBODY = 65534


class AcpAgent:
    """One agent: a program of its own, or an adapter of another one."""

    name: ClassVar[str]
    program: ClassVar[str]
    """Harness whose configuration it uses."""
    arguments: ClassVar[tuple[str, ...]] = ()
    env: ClassVar[Mapping[str, str]] = {}
    version: ClassVar[int] = 1
    """The newest version of the protocol that it speaks."""
    loads: ClassVar[bool] = True
    """`session/load` of a session works."""
    asks: ClassVar[bool] = True
    """It asks the client before it runs a command."""
    adapter: ClassVar[bool] = True

    def prepare(self, world: "World") -> list[str]:
        """Set it up; its command."""
        program = PROGRAMS[self.program]
        if not self.adapter or self.name == "pi-acp":
            program.prepare(world)
        else:
            program.configure(world)
            world.set(**program.env)
        world.set(**self.env)
        if self.adapter:
            _, path, *command = npm_programs.command(self.name)
            own = path.replace("PATH=", f"PATH={world.programs}:", 1)  # adapters start programs
            world.program(self.name, ["env", own, *command])
        return [str(world.programs / self.name), *self.arguments]


class Gemini(AcpAgent):
    """Gemini CLI. It offers `session/load`, and finds no session."""

    name = program = "gemini"
    arguments = ("--acp",)
    loads = False
    adapter = False


class Opencode(AcpAgent):
    """opencode."""

    name = program = "opencode"
    arguments = ("acp",)
    adapter = False


class CodexAcp(AcpAgent):
    """Codex behind its adapter, which brings a Codex of its own."""

    name = "codex-acp"
    program = "codex"
    env: ClassVar = {"OPENAI_API_KEY": "dummy", "CODEX_API_KEY": "dummy"}
    version = 2
    asks = False  # a model of its own decides


class ClaudeAgentAcp(AcpAgent):
    """Claude Code behind its adapter, which refuses to run as root."""

    name = "claude-agent-acp"
    program = "claude"
    version = 2

    def prepare(self, world: "World") -> list[str]:
        command = super().prepare(world)
        if os.geteuid():
            return command
        for folder, _, files in os.walk(world.folder):
            for path in (folder, *(os.path.join(folder, file) for file in files)):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        setpriv = shutil.which("setpriv")
        if not setpriv:
            pytest.skip("Claude Code does not run as root, and setpriv is not installed")
        ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        return [setpriv, *ids, *command]


class PiAcp(AcpAgent):
    """pi behind its adapter, which starts the pi on the PATH."""

    name = "pi-acp"
    program = "pi"
    asks = False


AGENTS: dict[str, AcpAgent] = {
    agent.name: agent for agent in (Gemini(), Opencode(), CodexAcp(), ClaudeAgentAcp(), PiAcp())
}
