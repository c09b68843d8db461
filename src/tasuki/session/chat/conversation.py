"""The session in use, and the agent behind it: begun, resumed, handed off."""

import asyncio
from pathlib import Path
from typing import Protocol

from tasuki.config import Loaded
from tasuki.model import ThreadHead
from tasuki.session.agent_session import AgentSession
from tasuki.session.backend import AgentCommand, Backend, Commands, Usage
from tasuki.session.events import Listener, QueueChanged, SessionEvent, SessionSwitched
from tasuki.session.manager import SessionManager, sessions
from tasuki.vault import Vault

AGENT = "agent"
"""Custom type of the entries that tell which session of the agent belongs to this one."""


class Resuming(Backend, Protocol):
    """A Backend that can begin with a session of its own."""

    title: str
    resume: str

    @property
    def command(self) -> str:
        """The command line that starts the agent."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the agent was started and is gone."""
        ...


class Conversation:
    """One agent, and the session that is in use with it. `folder` is where sessions are kept."""

    def __init__(
        self,
        backend: Resuming,
        cwd: Path,
        loaded: Loaded,
        *,
        folder: Path | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.backend, self.cwd, self.loaded = backend, cwd, loaded
        self.folder, self.vault = folder, vault
        self.commands: tuple[AgentCommand, ...] = ()
        """The agent's own."""
        self.usage = Usage(0)
        self._open = asyncio.Event()
        self._listeners: list[Listener] = [self._heard]
        self.session = self._session(SessionManager.create(cwd, folder))

    @property
    def title(self) -> str:
        """Name of the agent."""
        return self.backend.title

    @property
    def ready(self) -> bool:
        """Whether the agent's session is open."""
        return self._open.is_set()

    async def opened(self) -> None:
        """Wait until the agent's session is open."""
        await self._open.wait()

    @property
    def busy(self) -> bool:
        """Whether words would have to wait."""
        return not self.ready or self.session.is_streaming or self.session.is_generating_handoff

    def subscribe(self, listener: Listener) -> None:
        """Have the events of this session and all later ones told to a listener."""
        self._listeners.append(listener)

    def others(self) -> list[ThreadHead]:
        """The other sessions of the folder, newest first."""
        heads = sessions(self.cwd, self.folder)
        return [head for head in heads if head.path != str(self.session.manager.path)]

    def waiting_words(self) -> str:
        """The words that waited for the agent, taken out."""
        words = "\n".join(self.session.queues.clear())
        if words:
            self._tell(QueueChanged(()))
        return words

    async def fresh(self) -> None:
        """Begin a fresh session."""
        await self._use(SessionManager.create(self.cwd, self.folder))

    async def resume(self, path: Path) -> None:
        """Go on with the session in a file. Raises ThreadUnreadable, StoreFailed if it is in use."""
        await self._use(SessionManager.open(path))

    async def start(self) -> None:
        """Open the agent's session for the session in use."""
        await self._use(self.session.manager)

    async def restart(self) -> None:
        """Start the agent again, which ended by itself, with the conversation so far."""
        await self.start()

    async def interrupt(self) -> bool:
        """Break off what is under way: a handoff by its own channel, else the turn; False for none."""
        if self.session.is_generating_handoff:
            self.session.abort_handoff()
            return True
        if self.session.is_streaming:
            await self.session.abort()
            return True
        return False

    async def close(self) -> None:
        """End the agent and let go of the file."""
        await self.backend.close()
        self.session.manager.close()

    async def _use(self, manager: SessionManager) -> None:
        session = self._session(manager) if manager is not self.session.manager else self.session
        manager.claim()
        self.backend.resume = self._own_session(manager)
        before, self.usage = self.ready, Usage(0)
        self._open.clear()
        if self.backend.ended:
            await self.backend.close()
        try:
            await session.start()
        except BaseException:
            if before:
                self._open.set()
            raise
        self._open.set()
        if session is not self.session:
            self.session.manager.close()
            session.queues = self.session.queues  # what was typed meanwhile
            self.session = session
        self._remember()

    def _session(self, manager: SessionManager) -> AgentSession:
        session = AgentSession(manager, self.backend, self.loaded, vault=self.vault)
        session.subscribe(self._tell)
        return session

    def _tell(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            listener(event)

    def _heard(self, event: SessionEvent) -> None:
        if isinstance(event, Commands):
            self.commands = event.commands
        elif isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, SessionSwitched):
            self.usage = Usage(0, self.usage.size)
            self._remember()

    def _remember(self) -> None:
        """Note which session of the agent this is, to find it again."""
        session = self.session
        known = {"name": self.backend.name, "command": self.backend.command}
        known["session"] = session.backend_session
        if self._own_session(session.manager) != session.backend_session:
            session.manager.append_custom_entry(AGENT, known)

    def _own_session(self, manager: SessionManager) -> str:
        """The agent's id of a session, where the agent has heard all of it; else empty."""
        if not manager.message_count():
            return ""
        entries = reversed(manager.get_branch())
        entry = next((e for e in entries if e.get("customType") == AGENT), None)
        known = (entry or {}).get("data") or {}
        return str(known.get("session") or "") if known.get("name") == self.backend.name else ""
