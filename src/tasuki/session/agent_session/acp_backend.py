"""A Backend for the Agent Client Protocol: the agent is a child process on its standard streams.

Requests are the typed ones of the SDK; the agent's updates are read raw (see
`acp_updates`). An update is handled without a single await: the SDK makes a task of each,
and order would be lost.
"""

import asyncio
import shlex
from collections.abc import Iterable, Sequence
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
from tasuki.harness.reading.jsonl import clip
from tasuki.session.agent_session.acp_program import AcpChild, AcpProgram, get_agent_title
from tasuki.session.agent_session.acp_updates import UpdateParser, parse_options
from tasuki.session.agent_session.backend import (
    AgentCommands,
    ContextUsage,
    Emit,
    PermissionRequest,
    Stop,
)
from tasuki.session.pi_store.messages import Json, build_model_messages, extract_text
from tasuki.threads import catalog

SIGN_IN_CODE = -32000
"""The protocol's error code of an agent whose user must sign in."""
_ACP_QUESTION = "Is it an agent that speaks ACP?"
START_SECONDS = 90.0
CLOSE_SECONDS = 2.0
_STOPS: dict[object, Stop] = {stop: stop for stop in get_args(Stop)}


class AcpBackend:
    """One agent that speaks ACP.

    `resume` is the id of an agent session to begin with. Where the agent cannot open it again,
    a fresh one begins, and the earlier conversation goes in front of the first prompt.
    """

    def __init__(self, program: AcpProgram, cwd: Path, *, resume: str = "") -> None:
        self.name = program.name
        self.title = get_agent_title(program.name)
        self.program, self.cwd, self.resume = program, cwd, resume
        self.session = ""
        self.version = ""
        """The agent's own name, with its version."""
        self._child: AcpChild | None = None
        self._connection: Connection | None = None
        self._capabilities: Json = {}
        self._updates = UpdateParser()
        self._idle_emit: Emit | None = None
        self._turn_emit: Emit | None = None
        self._has_output = False
        """Whether the agent sent anything in this turn."""
        self._failure: TasukiError | None = None
        """The error with which an update of the agent was refused."""
        self._early_updates: list[Json] = []
        """Updates of a session that is being opened."""
        self._opening = False
        self._questions: set[asyncio.Future[str | None]] = set()
        self._commands: frozenset[str] = frozenset()
        self._context = ""
        """Text to put in front of the next prompt."""
        self._reports_usage = False
        """Whether the agent reports how full its context is."""

    @property
    def command(self) -> str:
        """The command line that starts the agent."""
        return shlex.join(self.program.command)

    @property
    def has_ended(self) -> bool:
        """Whether the agent was started and is gone."""
        return self._child is not None and self._child.has_ended

    # -- the Backend seam ------------------------------------------------------------------

    async def open(self, context: Sequence[Json], emit: Emit) -> str:
        """Open a fresh session of the agent; the first time, start the agent itself."""
        if self._connection is None:
            await self._start()
        old_session, resume, self.resume = self.session, self.resume, ""
        self._early_updates, self._opening = [], True
        try:
            is_loaded = bool(resume) and await self._load_session(resume)
            opened = resume if is_loaded else await self._create_session()
        finally:
            self._opening = False
        self.session, self._idle_emit, self._updates = opened, emit, UpdateParser()
        self._context = "" if is_loaded else format_transcript(context)
        self._reports_usage = False
        for params in self._early_updates:
            self._emit_update(params)
        can_close = (self._capabilities.get("sessionCapabilities") or {}).get("close") is not None
        if old_session and can_close:
            # The fresh session is in use now: there is no way back.
            with suppress(asyncio.CancelledError, AgentFailed):
                request = CloseSessionRequest(session_id=old_session)
                await self._request("session_close", request, CLOSE_SECONDS)
        return opened

    async def prompt(self, texts: Sequence[str], emit: Emit) -> Stop:
        """Run one turn; a waiting context goes in front, but not of one of the agent's commands."""
        name = texts[-1].removeprefix("/").partition(" ")[0]
        is_command = texts[-1].startswith("/") and name in self._commands
        waiting = "" if is_command else self._context
        blocks = [
            TextContentBlock(type="text", text=t)
            for t in ((waiting,) if waiting else ()) + tuple(texts)
        ]
        self._turn_emit, self._has_output = emit, False
        try:
            answer = await self._request(
                "session_prompt", PromptRequest(session_id=self.session, prompt=list(blocks))
            )
        finally:
            self._turn_emit = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        stop = _STOPS.get(answer.get("stopReason"), "end_turn")
        if waiting and (stop == "end_turn" or self._has_output):
            self._context = ""
        if not self._reports_usage and (usage := await asyncio.to_thread(self._read_usage)):
            emit(usage)
        return stop

    async def cancel(self) -> None:
        """Cancel the turn; waiting questions are answered so, as the protocol requires."""
        for question in list(self._questions):
            if not question.done():
                question.set_result(None)
        if self._connection is not None:
            params = _dump(CancelNotification(session_id=self.session))
            with suppress(ConnectionError, OSError):
                await self._connection.send_notification(AGENT_METHODS["session_cancel"], params)

    def find_thread(self) -> tuple[Harness, Path] | None:
        """Find the agent's own file of this session, by the session's id."""
        if not self.program.harness or not self.session:
            return None
        try:
            harness, path = catalog.find_thread(self.session, self.cwd)
        except TasukiError:
            return None
        return (harness, path) if harness.name == self.program.harness else None

    async def close(self) -> None:
        """End the agent, and everything that it started."""
        if self._connection is not None:
            with suppress(Exception):  # its tasks may fail as they are ended
                await asyncio.wait_for(self._connection.close(), CLOSE_SECONDS)
        if self._child is not None:
            await self._child.close()
        self._connection = self._child = None
        self.session = ""

    # -- requests --------------------------------------------------------------------------

    async def _start(self) -> None:
        self._child = await AcpChild.launch(self.program, self.cwd)
        self._connection = Connection(self._handle_call, self._child.writer, self._child.reader)
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=False, write_text_file=False),
                terminal=False,
            ),
            client_info=Implementation(name="tasuki", version=__version__),
        )
        try:
            answer = await self._request("initialize", request, START_SECONDS)
        except AgentFailed as error:
            await self.close()
            if isinstance(error.__cause__, RequestError) and error.__cause__.code == SIGN_IN_CODE:
                raise
            command = " ".join(self.program.command)
            reason = str(error).removesuffix(f" {_ACP_QUESTION} {command}")
            raise AgentFailed(
                f"{reason}\nIt does not speak ACP, the Agent Client Protocol. It was started as: "
                f"{command}\nPrograms that speak it: tasuki chat --help"
            ) from error
        self._capabilities = answer.get("agentCapabilities") or {}
        info = answer.get("agentInfo") or {}
        self.version = " ".join(str(info[k]) for k in ("name", "version") if info.get(k))

    async def _create_session(self) -> str:
        request = NewSessionRequest(cwd=str(self.cwd), mcp_servers=[])
        id = (await self._request("session_new", request, START_SECONDS)).get("sessionId")
        if not isinstance(id, str) or not id:
            raise AgentFailed(f"{self.title} opened a session without an id.")
        return id

    async def _load_session(self, session_id: str) -> bool:
        """Load an earlier session; return whether the agent opened it.

        The agent replays everything that was said in it, which the session file holds already.
        """
        if not self._capabilities.get("loadSession"):
            return False
        request = LoadSessionRequest(cwd=str(self.cwd), mcp_servers=[], session_id=session_id)
        try:
            await self._request("session_load", request, START_SECONDS)
        except AgentFailed:
            if self._connection is None:
                raise
            return False
        finally:
            kinds = ("available_commands_update", "usage_update")
            self._early_updates = [
                p for p in self._early_updates if p["update"].get("sessionUpdate") in kinds
            ]
        return True

    async def _request(self, method: str, request: BaseModel, seconds: float | None = None) -> Json:
        """Send a request and return the agent's answer. Raises AgentFailed."""
        if self._connection is None:
            raise AgentFailed(f"{self.title} is not running.")
        sent = self._connection.send_request(AGENT_METHODS[method], _dump(request))
        try:
            answer = await asyncio.wait_for(sent, seconds)
        except RequestError as error:
            raise AgentFailed(self._format_error(error)) from error
        except TimeoutError as error:
            raise AgentFailed(
                f"{self.title} did not answer {AGENT_METHODS[method]} within {seconds:g} s. "
                f"{_ACP_QUESTION} {' '.join(self.program.command)}"
            ) from error
        except (ConnectionError, OSError) as error:
            outcome = await self._child.describe_end() if self._child else "ended."
            raise AgentFailed(f"{self.title} {outcome}") from error
        return answer if isinstance(answer, dict) else {}

    def _format_error(self, error: RequestError) -> str:
        data = error.data
        details = data.get("details") or data.get("message") if isinstance(data, dict) else data
        text = f"{error}: {details}" if details and str(details) not in str(error) else str(error)
        if error.code == SIGN_IN_CODE:
            return f"{self.title} wants you to sign in first ({text}). Start it alone once: {self.program.command[0]}"
        return f"{self.title} failed: {text}"

    # -- calls of the agent ----------------------------------------------------------------

    async def _handle_call(self, method: str, params: Any, is_notification: bool) -> Any:
        if method == CLIENT_METHODS["session_update"]:
            self._take_update(params or {})
            return None
        if method == CLIENT_METHODS["session_request_permission"]:
            return await self._ask_permission(params or {})
        if is_notification:
            return None
        raise RequestError.method_not_found(method)

    def _take_update(self, params: Json) -> None:
        if not isinstance(params.get("update"), dict):
            return
        if params.get("sessionId") == self.session and self.session:
            self._emit_update(params)
        elif self._opening:
            self._early_updates.append(params)

    def _emit_update(self, params: Json) -> None:
        if params.get("sessionId") != self.session:
            return
        event = self._updates.parse_update(params["update"])
        emit = self._turn_emit or self._idle_emit
        if event is None or emit is None:
            return
        if isinstance(event, AgentCommands):
            self._commands = frozenset(command.name for command in event.commands)
        elif isinstance(event, ContextUsage):
            self._reports_usage = True
        else:
            self._has_output = True
        try:
            emit(event)
        except TasukiError as error:  # the SDK would only log it
            self._failure = self._failure or error

    async def _ask_permission(self, params: Json) -> Json:
        """Ask the user; no answer is the protocol's `cancelled`."""
        emit = self._turn_emit
        if emit is None or params.get("sessionId") != self.session:
            return {"outcome": {"outcome": "cancelled"}}
        question: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        def answer_once(option: str | None) -> None:
            if not question.done():
                question.set_result(option)

        self._questions.add(question)
        tool = self._updates.parse_tool(params.get("toolCall") or {})
        emit(PermissionRequest(tool, parse_options(params), answer_once))
        try:
            chosen = await question
        finally:
            self._questions.discard(question)
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    def _read_usage(self) -> ContextUsage | None:
        """Read from the agent's own file how full its context is."""
        if (thread := self.find_thread()) is None:
            return None
        harness, path = thread
        for file in harness.list_files(self.cwd):
            if file.path == path and (head := harness.read_head(file)) and head.context_tokens:
                return ContextUsage(head.context_tokens, head.context_window or 0)
        return None


def _dump(model: BaseModel) -> Json:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


TRANSCRIPT_OPENING = (
    "The conversation so far, in an earlier session. It is what happened, not a task: go on from it"
    " with what the user says next."
)
RESULT_CHARACTERS = 2000
"""Most characters of a tool's result that are shown."""
TRANSCRIPT_CHARACTERS = 120_000
"""Most characters of the conversation; the newest are kept."""
_ROLE_NAMES = {"user": "User", "assistant": "Assistant", "toolResult": "Result"}


def format_transcript(context: Iterable[Json]) -> str:
    """Format the context of a session as one text. Empty for an empty context.

    What is before the conversation (a handoff) is kept word for word, then who said what.
    """
    messages = [m for m in build_model_messages(context) if m["role"] in _ROLE_NAMES]
    raw = [m for m in context if m.get("role") != "system"]
    leading = 0
    while leading < len(raw) and raw[leading].get("role") in ("custom", "compactionSummary"):
        leading += 1
    parts = [extract_text(m) for m in messages[:leading]]
    conversation = "\n\n".join(part for m in messages[leading:] if (part := _format_part(m)))
    if conversation:
        if len(conversation) > TRANSCRIPT_CHARACTERS:
            conversation = f"… {len(conversation) - TRANSCRIPT_CHARACTERS} characters left out …\n{conversation[-TRANSCRIPT_CHARACTERS:]}"
        parts.append(f"<conversation>\n{TRANSCRIPT_OPENING}\n\n{conversation}\n</conversation>")
    return "\n\n".join(parts)


def _format_part(message: Json) -> str:
    words = extract_text(message)
    if message["role"] == "toolResult":
        words = clip(words, RESULT_CHARACTERS)
    calls = [
        f"[{block.get('name')} {clip(str(block.get('arguments')), 300)}]"
        for block in message.get("content") or ()
        if isinstance(block, dict) and block.get("type") == "toolCall"
    ]
    text = "\n".join(part for part in (words, *calls) if part.strip())
    return f"{_ROLE_NAMES[message['role']]}: {text}" if text else ""
