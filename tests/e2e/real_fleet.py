"""A fleet whose agents are real programs: their home is a world's, their model is scripted."""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import World
from fakes.model_server import ModelRequest, ModelRule, ModelStep, ScriptedCall
from fleets import World as Fleet
from waiting import retry_until

INSTRUCTED = "Write a handoff document for it now"
INJECTED = "Begin your answer with this line"
HEADINGS = r"(?m)^## .+$"
SKILL = "You are Con, a developer. Tests come first: zinnober."
SECONDS = 60.0


class RealFleet(Fleet):
    """A fleet's server whose home and project are those of a world with a real program in it."""

    def __init__(
        self,
        world: World,
        harness: str,
        arguments: tuple[str, ...] = (),
        name: str = "fleet",
        database_url: str = "",
    ) -> None:
        super().__init__(world.folder / name, database_url)
        self.world, self.harness, self.arguments = world, harness, arguments
        self.home, self.work = world.home, world.project
        where = self.folder / "where [it] is (1)"  # signs of a pattern
        where.mkdir()
        self.data.symlink_to(where)
        folders = {name: self.env[name] for name in ("TASUKI_DATA", "TASUKI_CONFIG", "TMUX_TMPDIR")}
        path = f"{Path(self.env['PATH'].split(':')[1])}:{os.environ['PATH']}"
        world.set(**folders)
        self.env = {**os.environ, **folders, "PATH": path}

    def install(self) -> None:
        self.tasuki("install", self.harness, "--fleet", "--yes")

    def started(self, **values: Any) -> int:
        return super().started(harness=self.harness, arguments=self.arguments, **values)

    def worked(self, id: int, text: str = "Fix the upload client") -> int:
        """The agent once it took a turn and wrote that down, a little later than it says so."""
        file = Path(self.agent(super().worked(id, text))["thread"])
        retry_until(lambda: file.suffix != ".jsonl" or text in file.read_text(), SECONDS)
        return id

    def idle(self, id: int, seconds: float = SECONDS) -> int:
        try:
            return super().idle(id, seconds)
        except AssertionError:
            raise AssertionError(self.telling(id)) from None

    def ends(self, id: str, state: str = "done", seconds: float = SECONDS) -> Any:
        try:
            return super().ends(id, state, seconds)
        except AssertionError as error:
            shown = [self.telling(a["id"]) for a in self.api("GET", "/api/agents")["agents"]]
            raise AssertionError("\n\n".join((str(error), *shown))) from None

    def is_in(self, id: int, state: str) -> Any:
        """The agent once it is in a state."""
        try:
            return retry_until(lambda: (a := self.agent(id))["state"] == state and a, SECONDS)
        except AssertionError:
            raise AssertionError(self.telling(id)) from None

    def persona(self, skill: str = SKILL) -> str:
        return super().persona(skill)

    def writes(self, call: Callable[[str, str], ModelStep]) -> None:
        """The model does what it is told: it writes the document, and begins with the line."""
        self.world.model.rules = (
            ModelRule(
                INSTRUCTED, (ModelStep(reply=lambda r: call(*document(r))), ModelStep("Written."))
            ),
            ModelRule(INJECTED, (ModelStep(reply=acknowledged),)),
            *self.world.model.rules,
        )

    def shows(self, id: int, text: str, seconds: float = SECONDS) -> str:
        """The screen of an agent once it shows a text."""
        pane = self.agent(id)["pane"]
        try:
            return retry_until(lambda: text in (now := self.screen(pane)) and now, seconds) or ""
        except AssertionError:
            raise AssertionError(f"no {text!r}:\n{self.screen(pane)}") from None

    def press(self, id: int, key: str) -> None:
        """Press a key in an agent's pane; a dialog does not take one in its first moment."""
        self.tmux("send-keys", "-t", self.agent(id)["pane"], key)

    def asked(self, words: str) -> list[ModelRequest]:
        """The requests to the model whose prompt holds some words, the first of each turn."""
        return [r for r in self.world.sent(words) if words in r.prompt and r.step == 0]

    def telling(self, id: int) -> str:
        """All that is known of an agent, for a failure."""
        return f"{self.agent(id)}\n{self.screen(self.agent(id)['pane'])}\n{self.log()[-15:]}"


def document(request: ModelRequest) -> tuple[str, str]:
    """The path at which the document is wanted, and a document with the headings that are asked for."""
    found = re.search(r"write to exactly this path\): (\S+)", request.prompt)
    assert found, request.prompt
    headings = re.findall(HEADINGS, request.prompt)
    return found[1], "\n\n".join(f"{heading}\nThe upload client." for heading in headings)


def acknowledged(request: ModelRequest) -> str:
    """The answer of a successor."""
    found = re.search(r"(?m)handoff [0-9a-f]{8}$", request.prompt)
    assert found, request.prompt
    return f"{found[0]}\nI go on with the upload client."


def commanded(tool: str, argument: str, **more: Any) -> Callable[[str, str], ModelStep]:
    """A program writes a file by a command of the shell."""

    def written(path: str, content: str) -> ModelStep:
        command = f"cat > {shlex.quote(path)} <<'END'\n{content}\nEND"
        return ModelStep("", (ScriptedCall(tool, {argument: command, **more}),))

    return written


def tooled(tool: str) -> Callable[[str, str], ModelStep]:
    """A program writes a file by its own tool for that."""

    def written(path: str, content: str) -> ModelStep:
        return ModelStep("", (ScriptedCall(tool, {"file_path": path, "content": content}),))

    return written
