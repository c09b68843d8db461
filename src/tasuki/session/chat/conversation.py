"""The session in use and its agent: starts it, resumes it, hands it off."""

import asyncio
from pathlib import Path

from tasuki.config.settings import LoadedSettings
from tasuki.model import ThreadHead
from tasuki.session.agent_session.acp_backend import AcpBackend
from tasuki.session.agent_session.backend import (
    AgentCommand,
    AgentCommands,
    ContextUsage,
    QueueChanged,
    SessionEvent,
    SessionListener,
    SessionSwitched,
)
from tasuki.session.agent_session.session import AgentSession
from tasuki.session.pi_store.manager import SessionManager, list_sessions
from tasuki.vault import Vault

AGENT_TYPE = "agent"
"""Custom type of the entries that name the agent's session for this one."""


class ChatConversation:
    """One agent, and the session that is in use with it. `folder` is where sessions are kept."""

    def __init__(
        self,
        backend: AcpBackend,
        cwd: Path,
        loaded: LoadedSettings,
        *,
        folder: Path | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.backend, self.cwd, self.loaded = backend, cwd, loaded
        self.folder, self.vault = folder, vault
        self.commands: tuple[AgentCommand, ...] = ()
        """The agent's own commands."""
        self.usage = ContextUsage(0)
        self._is_open = asyncio.Event()
        self._listeners: list[SessionListener] = [self._take_event]
        self.session = self._build_session(SessionManager.create(cwd, folder))

    @property
    def title(self) -> str:
        """Name of the agent."""
        return self.backend.title

    @property
    def is_ready(self) -> bool:
        """Whether the agent's session is open."""
        return self._is_open.is_set()

    async def wait_until_open(self) -> None:
        """Wait until the agent's session is open."""
        await self._is_open.wait()

    @property
    def is_busy(self) -> bool:
        """Whether words would have to wait."""
        return not self.is_ready or self.session.is_streaming or self.session.is_generating_handoff

    def subscribe(self, listener: SessionListener) -> None:
        """Call a listener with the events of this session and all later ones."""
        self._listeners.append(listener)

    def list_others(self) -> list[ThreadHead]:
        """List the other sessions of the folder, newest first."""
        heads = list_sessions(self.cwd, self.folder)
        return [head for head in heads if head.path != str(self.session.manager.path)]

    def take_waiting_words(self) -> str:
        """Take the words that wait for the agent out of the queue."""
        words = "\n".join(self.session.queues.clear())
        if words:
            self._emit(QueueChanged(()))
        return words

    async def start_fresh(self) -> None:
        """Begin a fresh session."""
        await self._use_session(SessionManager.create(self.cwd, self.folder))

    async def resume(self, path: Path) -> None:
        """Continue the session in a file. Raises ThreadUnreadable; StoreFailed if it is in use."""
        await self._use_session(SessionManager.open(path))

    async def start(self) -> None:
        """Open the agent's session for the session in use; start the agent again if it ended."""
        await self._use_session(self.session.manager)

    async def interrupt(self) -> bool:
        """Cancel the handoff under way, else the turn; return False where there is neither."""
        if self.session.is_generating_handoff:
            self.session.abort_handoff()
            return True
        if self.session.is_streaming:
            await self.session.abort_turn()
            return True
        return False

    async def close(self) -> None:
        """End the agent and close the file."""
        await self.backend.close()
        self.session.manager.close()

    async def _use_session(self, manager: SessionManager) -> None:
        session = (
            self._build_session(manager) if manager is not self.session.manager else self.session
        )
        manager.claim()
        self.backend.resume = self._find_own_session(manager)
        was_ready, self.usage = self.is_ready, ContextUsage(0)
        self._is_open.clear()
        if self.backend.has_ended:
            await self.backend.close()
        try:
            await session.start()
        except BaseException:
            if was_ready:
                self._is_open.set()
            raise
        self._is_open.set()
        if session is not self.session:
            self.session.manager.close()
            session.queues = self.session.queues  # what was typed meanwhile
            self.session = session
        self._remember_session()

    def _build_session(self, manager: SessionManager) -> AgentSession:
        session = AgentSession(manager, self.backend, self.loaded, vault=self.vault)
        session.subscribe(self._emit)
        return session

    def _emit(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            listener(event)

    def _take_event(self, event: SessionEvent) -> None:
        if isinstance(event, AgentCommands):
            self.commands = event.commands
        elif isinstance(event, ContextUsage):
            self.usage = event
        elif isinstance(event, SessionSwitched):
            self.usage = ContextUsage(0, self.usage.size)
            self._remember_session()

    def _remember_session(self) -> None:
        """Note which session of the agent this is, to find it again."""
        session = self.session
        details = {"name": self.backend.name, "command": self.backend.command}
        details["session"] = session.backend_session
        if self._find_own_session(session.manager) != session.backend_session:
            session.manager.append_custom_entry(AGENT_TYPE, details)

    def _find_own_session(self, manager: SessionManager) -> str:
        """Find the agent's id of a session, where the agent knows all of it; else empty."""
        if not manager.count_messages():
            return ""
        details = manager.find_custom_data(AGENT_TYPE) or {}
        return str(details.get("session") or "") if details.get("name") == self.backend.name else ""
