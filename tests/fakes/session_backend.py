"""A scripted Backend: an agent without a model, for tests of code on top of `AgentSession`."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.errors import AgentFailed
from tasuki.harness.protocol import Harness
from tasuki.session.agent_session.backend import (
    BackendEvent,
    Emit,
    PermissionOption,
    PermissionRequest,
    Stop,
    TextPiece,
    ToolProgress,
)
from tasuki.session.pi_store.messages import Json, build_model_messages


class ScriptedTurn(Struct, frozen=True):
    """What the agent does in one turn: it emits `events`, then the turn ends with `stop`.

    `hold`: it waits after the events until it is cancelled. `fails`: it raises AgentFailed with
    this sentence. `asks`: it first asks for permission for this tool.
    """

    events: tuple[BackendEvent, ...] = ()
    stop: Stop = "end_turn"
    hold: bool = False
    fails: str = ""
    asks: str = ""


class BackendRule(Struct, frozen=True):
    """Turns for prompts that match a regular expression, in order; the last one is repeated."""

    match: str
    turns: tuple[ScriptedTurn, ...]


class BackendPrompt(Struct, frozen=True):
    """One prompt as the model has it: the whole conversation of its session, the prompt last."""

    session: str
    shown: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """The last text."""
        return self.shown[-1]

    @property
    def everything(self) -> str:
        """All that the model has in view."""
        return "\n".join(self.shown)


class ScriptedBackend:
    """An agent that follows rules. `log` holds every prompt with all that the model had in view.

    A prompt without a rule is answered with `OK.`. `refuses` is why a fresh session cannot be
    opened, from the second one on. `own` is where it says it keeps its thread.
    """

    name = "scripted"

    def __init__(
        self,
        rules: Sequence[BackendRule] = (),
        *,
        refuses: str = "",
        own: tuple[Harness, Path] | None = None,
    ) -> None:
        self.rules = tuple(rules)
        self.refuses = refuses
        self.own = own
        self.log: list[BackendPrompt] = []
        self.answers: list[str | None] = []
        """What was answered to its questions for permission."""
        self.sessions: dict[str, list[str]] = {}
        self.session = ""
        self.holding = asyncio.Event()
        """Set while a turn is held."""
        self.closed = False
        self._used: dict[str, int] = {}
        self._cancelled = asyncio.Event()

    async def open(self, context: Sequence[Json], emit: Emit) -> str:
        if self.sessions and self.refuses:
            raise AgentFailed(self.refuses)
        self.session = f"agent-session-{len(self.sessions) + 1}"
        self.sessions[self.session] = [_get_text(m) for m in build_model_messages(context)]
        return self.session

    async def prompt(self, texts: Sequence[str], emit: Emit) -> Stop:
        shown = self.sessions[self.session]
        shown += texts
        self.log.append(BackendPrompt(self.session, tuple(shown)))
        self._cancelled.clear()
        turn = self._choose_turn(texts[-1])
        if turn.asks:
            self._ask_permission(turn.asks, emit)
        for event in turn.events:
            emit(event)
            shown += [event.text] if isinstance(event, TextPiece) else []
            await asyncio.sleep(0)
        if turn.hold:
            self.holding.set()
            await self._cancelled.wait()
            self.holding.clear()
        if turn.fails:
            raise AgentFailed(turn.fails)
        return "cancelled" if self._cancelled.is_set() else turn.stop

    async def cancel(self) -> None:
        self._cancelled.set()

    def find_thread(self) -> tuple[Harness, Path] | None:
        return self.own

    async def close(self) -> None:
        self.closed = True

    def _choose_turn(self, prompt: str) -> ScriptedTurn:
        rule = next((r for r in self.rules if re.search(r.match, prompt)), None)
        if rule is None:
            return ScriptedTurn((TextPiece("OK."),))
        used = self._used.get(rule.match, 0)
        self._used[rule.match] = used + 1
        return rule.turns[min(used, len(rule.turns) - 1)]

    def _ask_permission(self, title: str, emit: Emit) -> None:
        options = (
            PermissionOption("yes", "Allow", "allow_once"),
            PermissionOption("no", "Reject", "reject_once"),
        )
        emit(PermissionRequest(ToolProgress("asked", title), options, self.answers.append))


def _get_text(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)
