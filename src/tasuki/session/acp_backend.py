"""A Backend over the Agent Client Protocol: an agent as a child process, spoken to on its streams.

Requests are the typed ones of the SDK; what the agent tells is read raw (see `acp_updates`). An
update is handled without a single await: the SDK makes a task of each, and order would be lost.
"""

import asyncio
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from acp import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION, RequestError
from acp.core import Connection
from acp.schema import (
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    LoadSessionRequest,
    NewSessionRequest,
    PromptRequest,
    TextContentBlock,
)
from pydantic import BaseModel

from tasuki import __version__
from tasuki.errors import AgentFailed, TasukiError
from tasuki.harness.protocol import Harness
from tasuki.session.acp_program import AcpProgram, Child, title
from tasuki.session.acp_updates import Updates, options
from tasuki.session.backend import BackendEvent, Commands, Emit, Permission, Stop, Usage
from tasuki.session.messages import Json
from tasuki.session.transcript import transcript
from tasuki.threads import catalog

SIGN_IN = -32000
"""The protocol's error code of an agent that wants its user to sign in."""
_IS_IT = "Is it an agent that speaks ACP?"
START_SECONDS = 90.0
CLOSE_SECONDS = 2.0
_STOPS: dict[object, Stop] = {stop: stop for stop in get_args(Stop)}


class AcpBackend:
    """One agent that speaks ACP. `resume` is the id of a session of its own to begin with: where it
    cannot open that one again, it begins afresh, and what was said goes in front of the first prompt.
    """

    def __init__(self, program: AcpProgram, cwd: Path, *, resume: str = "") -> None:
        self.name = program.name
        self.title = title(program.name)
        self.program, self.cwd, self.resume = program, cwd, resume
        self.session = ""
        self.version = ""
        """What the agent calls itself, with its version."""
        self._child: Child | None = None
        self._connection: Connection | None = None
        self._capabilities: Json = {}
        self._updates = Updates()
        self._unasked: Emit | None = None
        self._turn: Emit | None = None
        self._heard = False
        """Whether the agent told anything in this turn."""
        self._failure: TasukiError | None = None
        """Why something that the agent told could not be taken in."""
        self._early: list[Json] = []
        """Updates of a session that is being opened."""
        self._opening = False
        self._questions: set[asyncio.Future[str | None]] = set()
        self._commands: frozenset[str] = frozenset()
        self._context = ""
        """What goes in front of the next prompt."""
        self._counts = False
        """Whether the agent tells how full its context is."""

    @property
    def command(self) -> str:
        """The command line that starts the agent."""
        return shlex.join(self.program.command)

    @property
    def ended(self) -> bool:
        """Whether the agent was started and is gone."""
        return self._child is not None and self._child.ended

    # -- the Backend seam ------------------------------------------------------------------

    async def open(self, context: Sequence[Json], emit: Emit) -> str:
        """Begin a fresh session of the agent; the first time, start the agent itself."""
        if self._connection is None:
            await self._start()
        before, resume, self.resume = self.session, self.resume, ""
        self._early, self._opening = [], True
        try:
            loaded = bool(resume) and await self._loaded(resume)
            opened = resume if loaded else await self._fresh()
        finally:
            self._opening = False
        self.session, self._unasked, self._updates = opened, emit, Updates()
        self._context = "" if loaded else transcript(context)
        self._counts = False
        for params in self._early:
            self._told(params)
        if before:
            with suppress(
                asyncio.CancelledError
            ):  # The fresh one is in use now: there is no way back.
                await self._put_away(before)
        return opened

    async def prompt(self, texts: Sequence[str], emit: Emit) -> Stop:
        """One turn; a context that waits goes in front, but not of one of the agent's commands."""
        waiting = "" if self._is_command(texts[-1]) else self._context
        blocks = [
            TextContentBlock(type="text", text=t)
            for t in ((waiting,) if waiting else ()) + tuple(texts)
        ]
        self._turn, self._heard = emit, False
        try:
            answer = await self._request(
                "session_prompt", PromptRequest(session_id=self.session, prompt=list(blocks))
            )
        finally:
            self._turn = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        stop = _STOPS.get(answer.get("stopReason"), "end_turn")
        if waiting and (stop == "end_turn" or self._heard):
            self._context = ""
        if not self._counts:
            await self._tell_context(emit)
        return stop

    async def cancel(self) -> None:
        """Break the turn off; questions that wait are answered so, as the protocol wants it."""
        for question in list(self._questions):
            if not question.done():
                question.set_result(None)
        if self._connection is not None:
            params = _dump(CancelNotification(session_id=self.session))
            with suppress(ConnectionError, OSError):
                await self._connection.send_notification(AGENT_METHODS["session_cancel"], params)

    def thread(self) -> tuple[Harness, Path] | None:
        """The agent's own file of this session, found by the session's id."""
        if not self.program.harness or not self.session:
            return None
        try:
            harness, path = catalog.find(self.session, self.cwd)
        except TasukiError:
            return None
        return (harness, path) if harness.name == self.program.harness else None

    async def close(self) -> None:
        """End the agent, and all that it started."""
        if self._connection is not None:
            with suppress(Exception):  # its tasks may fail as they are ended
                await asyncio.wait_for(self._connection.close(), CLOSE_SECONDS)
        if self._child is not None:
            await self._child.end()
        self._connection = self._child = None
        self.session = ""

    # -- requests --------------------------------------------------------------------------

    async def _start(self) -> None:
        self._child = await Child.start(self.program, self.cwd)
        self._connection = Connection(self._called, self._child.writer, self._child.reader)
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=False, write_text_file=False),
                terminal=False,
            ),
            client_info=Implementation(name="tasuki", version=__version__),
        )
        try:
            said = await self._request("initialize", request, START_SECONDS)
        except AgentFailed as error:
            await self.close()
            if isinstance(error.__cause__, RequestError) and error.__cause__.code == SIGN_IN:
                raise
            raise AgentFailed(self._no_agent(error)) from error
        self._capabilities = said.get("agentCapabilities") or {}
        known = said.get("agentInfo") or {}
        self.version = " ".join(str(known[k]) for k in ("name", "version") if known.get(k))

    def _no_agent(self, error: AgentFailed) -> str:
        """Why a program is no agent to talk to: it failed before it spoke the protocol at all."""
        said = str(error).removesuffix(f" {_IS_IT} {' '.join(self.program.command)}")
        return (
            f"{said}\nIt did not begin to speak ACP, the Agent Client Protocol. It was started as: "
            f"{' '.join(self.program.command)}\nPrograms that speak it: tasuki chat --help"
        )

    async def _fresh(self) -> str:
        request = NewSessionRequest(cwd=str(self.cwd), mcp_servers=[])
        id = (await self._request("session_new", request, START_SECONDS)).get("sessionId")
        if not isinstance(id, str) or not id:
            raise AgentFailed(f"{self.title} opened a session without an id.")
        return id

    async def _loaded(self, id: str) -> bool:
        """Whether the agent opened a session of its own again. It tells all that was said in it,
        which the session file holds already."""
        if not self._capabilities.get("loadSession"):
            return False
        request = LoadSessionRequest(cwd=str(self.cwd), mcp_servers=[], session_id=id)
        try:
            await self._request("session_load", request, START_SECONDS)
        except AgentFailed:
            if self._connection is None:
                raise
            return False
        finally:
            kinds = ("available_commands_update", "usage_update")
            self._early = [p for p in self._early if p["update"].get("sessionUpdate") in kinds]
        return True

    async def _put_away(self, session: str) -> None:
        """Have the agent let go of a session, where it can; the record stays."""
        if (self._capabilities.get("sessionCapabilities") or {}).get("close") is None:
            return
        with suppress(AgentFailed):
            request = CloseSessionRequest(session_id=session)
            await self._request("session_close", request, CLOSE_SECONDS)

    async def _request(self, method: str, request: BaseModel, seconds: float | None = None) -> Json:
        """What the agent answers. Raises AgentFailed."""
        if self._connection is None:
            raise AgentFailed(f"{self.title} is not running.")
        sent = self._connection.send_request(AGENT_METHODS[method], _dump(request))
        try:
            answer = await asyncio.wait_for(sent, seconds)
        except RequestError as error:
            raise AgentFailed(self._sentence(error)) from error
        except TimeoutError as error:
            raise AgentFailed(
                f"{self.title} did not answer {AGENT_METHODS[method]} within {seconds:g} s. "
                f"{_IS_IT} {' '.join(self.program.command)}"
            ) from error
        except (ConnectionError, OSError) as error:
            fate = await self._child.fate() if self._child else "ended."
            raise AgentFailed(f"{self.title} {fate}") from error
        return answer if isinstance(answer, dict) else {}

    def _sentence(self, error: RequestError) -> str:
        """An error of the agent's for people."""
        data = error.data
        details = data.get("details") or data.get("message") if isinstance(data, dict) else data
        said = f"{error}: {details}" if details and str(details) not in str(error) else str(error)
        if error.code == SIGN_IN:
            return f"{self.title} wants you to sign in first ({said}). Start it by itself once: {self.program.command[0]}"
        return f"{self.title} failed: {said}"

    # -- what the agent calls --------------------------------------------------------------

    async def _called(self, method: str, params: Any, is_notification: bool) -> Any:
        if method == CLIENT_METHODS["session_update"]:
            self._update(params or {})
            return None
        if method == CLIENT_METHODS["session_request_permission"]:
            return await self._permission(params or {})
        if is_notification:
            return None
        raise RequestError.method_not_found(method)

    def _update(self, params: Json) -> None:
        if not isinstance(params.get("update"), dict):
            return
        if params.get("sessionId") == self.session and self.session:
            self._told(params)
        elif self._opening:
            self._early.append(params)

    def _told(self, params: Json) -> None:
        """Hand on what an update says."""
        if params.get("sessionId") != self.session:
            return
        event = self._updates.event(params["update"])
        emit = self._turn or self._unasked
        if event is None or emit is None:
            return
        if isinstance(event, Commands):
            self._commands = frozenset(command.name for command in event.commands)
        elif isinstance(event, Usage):
            self._counts = True
        else:
            self._heard = True
        try:
            emit(event)
        except TasukiError as error:  # the SDK would only log it
            self._failure = self._failure or error

    async def _permission(self, params: Json) -> Json:
        """Ask the user; no answer is the protocol's `cancelled`."""
        emit = self._turn
        if emit is None or params.get("sessionId") != self.session:
            return {"outcome": {"outcome": "cancelled"}}
        question: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._questions.add(question)
        tool = self._updates.tool(params.get("toolCall") or {})
        emit(Permission(tool, options(params), _settle(question)))
        try:
            chosen = await question
        finally:
            self._questions.discard(question)
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    def _is_command(self, text: str) -> bool:
        name = text.removeprefix("/").partition(" ")[0]
        return text.startswith("/") and name in self._commands

    async def _tell_context(self, emit: Emit) -> None:
        """How full the context is, from the agent's own file, if it does not tell it."""
        if (usage := await asyncio.to_thread(self._recorded_usage)) is not None:
            emit(usage)

    def _recorded_usage(self) -> BackendEvent | None:
        if (found := self.thread()) is None:
            return None
        harness, path = found
        for file in harness.files(self.cwd):
            if file.path == path and (head := harness.head(file)) and head.context_tokens:
                return Usage(head.context_tokens, head.context_window or 0)
        return None


def _dump(model: BaseModel) -> Json:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _settle(question: "asyncio.Future[str | None]") -> Callable[[str | None], None]:
    """The function that answers a question, once."""

    def answer(option: str | None) -> None:
        if not question.done():
            question.set_result(option)

    return answer
